//! Work that pauses with all that it has, and goes on when someone wants it to.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use harvest_api_types::{AskInterrupt, AskResume, TaskDetail};
use harvest_core::{Code, SessionId, Stopping, TaskId};
use harvest_engine::Error;

use super::record::Concerns;
use super::sessions;
use super::tasks::{self, Stopped};
use crate::auth::Principal;
use crate::extract::{Body, Id};
use crate::problem::Problem;
use crate::state::App;

const LONGEST_REASON: usize = 1000;

/// Interrupt a task: the agent may finish its step; its work and conversation are kept, and it continues when resumed
#[utoipa::path(
    post, path = "/api/tasks/{id}/interrupt", tag = "tasks", operation_id = "task.interrupt", params(("id" = TaskId, Path)),
    request_body = AskInterrupt, security(("token" = ["member"]), ("cookie" = ["member"])),
    responses(
        (status = 202, body = TaskDetail, description = "Its worker was asked to pause"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn task(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<TaskId>,
    Body(asked): Body<AskInterrupt>,
) -> Result<Stopped, Problem> {
    interrupt(&app, &principal, &id, asked).await
}

/// Interrupt a session and its task
#[utoipa::path(
    post, path = "/api/sessions/{id}/interrupt", tag = "sessions", operation_id = "session.interrupt",
    params(("id" = SessionId, Path)), request_body = AskInterrupt,
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses(
        (status = 202, body = TaskDetail, description = "Its worker was asked to pause"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn session(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<SessionId>,
    Body(asked): Body<AskInterrupt>,
) -> Result<Stopped, Problem> {
    let session = sessions::visible(&app, &principal, &id).await?;
    interrupt(&app, &principal, &session.task_id, asked).await
}

/// Resume an interrupted session, with or without a prompt
#[utoipa::path(
    post, path = "/api/sessions/{id}/resume", tag = "sessions", operation_id = "session.resume",
    params(("id" = SessionId, Path)), request_body = AskResume,
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 200, body = TaskDetail), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn resume(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<SessionId>,
    Body(asked): Body<AskResume>,
) -> Result<(Extension<Concerns>, Json<TaskDetail>), Problem> {
    let session = sessions::visible(&app, &principal, &id).await?;
    let prompt = asked.prompt.map(sessions::words).transpose()?;
    let task = tasks::visible(&app, &principal, &session.task_id).await?.task;
    let resumed = app.engine.resume(&task, (&principal.user, principal.counted_token()), prompt).await;
    resumed.map_err(|error| match error {
        Error::Store(harvest_store::Error::IllegalMove(refused)) => {
            let detail = format!("session {} is not interrupted: its task is {}", id.short(), refused.from);
            Problem::new(Code::NotInterrupted, detail).help("POST /api/sessions/{id}/prompts sends a follow-up prompt")
        }
        error => error.into(),
    })?;
    let detail = tasks::visible(&app, &principal, &task.id).await?;
    Ok((Concerns::task(&app, &detail.task), Json(detail)))
}

async fn interrupt(app: &App, principal: &Principal, id: &TaskId, asked: AskInterrupt) -> Result<Stopped, Problem> {
    let before = tasks::visible(app, principal, id).await?.task;
    if asked.reason.as_ref().is_some_and(|reason| reason.trim().is_empty() || reason.len() > LONGEST_REASON) {
        return Err(Problem::bad("reason", format!("it is empty, or has more than {LONGEST_REASON} bytes")));
    }
    let reason = asked.reason.map(|reason| app.engine.clean(&reason));
    let how = Stopping::Interrupt { author: principal.user.clone(), reason };
    if !app.store.request_stop(id, how).await? {
        let detail = format!("task {} is not running: it is {}", id.short(), before.status);
        return Err(Problem::new(Code::NotAtWork, detail).help("to end a waiting task: POST /api/tasks/{id}/cancel"));
    }
    Ok((StatusCode::ACCEPTED, Concerns::task(app, &before), Json(tasks::visible(app, principal, id).await?)))
}
