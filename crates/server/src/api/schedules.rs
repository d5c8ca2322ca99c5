//! Tasks that come again by the clock.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use harvest_api_types::{Missed, NewSchedule, Page, Schedule};
use harvest_core::Code;
use harvest_store::MissedRuns;

use super::ask;
use super::page::PageAnswer;
use crate::auth::Principal;
use crate::extract::{Body, Id};
use crate::problem::Problem;
use crate::state::App;

/// What the store keeps of the choice for missed runs.
pub fn missed_runs(missed: Missed) -> MissedRuns {
    match missed {
        Missed::Skip => MissedRuns::Skip,
        Missed::RunOnce => MissedRuns::RunOnce,
    }
}

/// A schedule as the API shows it.
pub fn describe_schedule(schedule: harvest_store::Schedule) -> Schedule {
    let missed = match schedule.missed {
        MissedRuns::Skip => Missed::Skip,
        MissedRuns::RunOnce => Missed::RunOnce,
    };
    let harvest_store::Schedule { id, cron, time_zone, request, next, last, owner, problem, created_at, .. } = schedule;
    let owner = owner.map(|owner| owner.user);
    Schedule { id, cron, time_zone, missed, request, next, last, owner, problem, created_at }
}

/// Whether a stored request belongs to what they may do this operation to.
pub fn may_act_on(principal: &Principal, request: &serde_json::Value) -> bool {
    match request["repo"].as_str() {
        Some(repository) => principal.may_act_on(repository),
        None => principal.may_act_everywhere(),
    }
}

/// List schedules
#[utoipa::path(
    get, path = "/api/schedules", tag = "schedules", operation_id = "schedule.list",
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<Schedule>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn list(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
) -> Result<PageAnswer<Schedule>, Problem> {
    let all = app.store.schedules().await?;
    let seen = all.into_iter().filter(|schedule| may_act_on(&principal, &schedule.request));
    Ok(PageAnswer::whole(seen.map(describe_schedule).collect()))
}

/// Add a schedule: a task that is created at set times
#[utoipa::path(
    post, path = "/api/schedules", tag = "schedules", operation_id = "schedule.create", request_body = NewSchedule,
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 201, body = Schedule), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn create(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Body(mut new): Body<NewSchedule>,
) -> Result<(StatusCode, Json<Schedule>), Problem> {
    ask::check_kept(&new.task)?;
    ask::locate(&mut new.task, &app, &principal).await?;
    if !new.task.after.is_empty() || new.task.source_url.is_some() {
        return Err(Problem::bad("task", "a schedule has neither dependencies nor a source address"));
    }
    let made = app.desk.add_schedule(&new, principal.schedule_owner()).await?;
    Ok((StatusCode::CREATED, Json(describe_schedule(made))))
}

/// Remove a schedule; tasks that it has queued are kept
#[utoipa::path(
    delete, path = "/api/schedules/{id}", tag = "schedules", operation_id = "schedule.remove", params(("id" = String, Path, description = "The id of the schedule")),
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 204, description = "Removed"), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn remove(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<String>,
) -> Result<StatusCode, Problem> {
    let all = app.store.schedules().await?;
    let known = all.iter().any(|schedule| schedule.id == id && may_act_on(&principal, &schedule.request));
    if known && app.store.remove_schedule(&id).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Problem::new(Code::UnknownSchedule, "there is no such schedule").help("see GET /api/schedules"))
}
