//! Tasks that come again by the clock.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use harvest_api_types::{Ask, Page};
use harvest_core::{Code, Timestamp};
use harvest_store::MissedRuns;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ask;
use super::page::PageAnswer;
use crate::auth::Principal;
use crate::extract::{Body, Id};
use crate::problem::Problem;
use crate::state::App;

#[derive(Debug, Serialize, ToSchema)]
pub struct Schedule {
    id: String,
    cron: String,
    time_zone: String,
    missed: Missed,
    /// The task that each run creates.
    request: serde_json::Value,
    next: Option<Timestamp>,
    last: Option<Timestamp>,
    /// The user that it runs as, with their permissions and quotas at the time of the run.
    owner: Option<String>,
    /// Why the last run created no task.
    problem: Option<String>,
    created_at: Timestamp,
}

/// What happens to runs that were missed while Harvest was not running.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// Nothing: it goes on with the next one.
    Skip,
    /// One run for all of them.
    #[default]
    RunOnce,
}

impl From<Missed> for MissedRuns {
    fn from(missed: Missed) -> Self {
        match missed {
            Missed::Skip => Self::Skip,
            Missed::RunOnce => Self::RunOnce,
        }
    }
}

/// A schedule to add.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSchedule {
    /// Minute, hour, day of month, month, day of week.
    #[schema(example = "0 3 * * 1-5")]
    pub cron: String,
    /// The time zone; default: the server's.
    #[schema(example = "Europe/Paris")]
    pub time_zone: Option<String>,
    #[serde(default)]
    pub missed: Missed,
    #[serde(deserialize_with = "crate::extract::object")]
    pub task: Ask,
}

impl From<harvest_store::Schedule> for Schedule {
    fn from(schedule: harvest_store::Schedule) -> Self {
        let missed = match schedule.missed {
            MissedRuns::Skip => Missed::Skip,
            MissedRuns::RunOnce => Missed::RunOnce,
        };
        let harvest_store::Schedule { id, cron, time_zone, request, next, last, owner, problem, created_at, .. } =
            schedule;
        let owner = owner.map(|owner| owner.user);
        Self { id, cron, time_zone, missed, request, next, last, owner, problem, created_at }
    }
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
    Ok(PageAnswer::whole(seen.map(Schedule::from).collect()))
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
    Ok((StatusCode::CREATED, Json(made.into())))
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
