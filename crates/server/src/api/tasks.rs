//! Tasks: asking, looking, and acting on them.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use harvest_api_types::{
    Approval, Ask, Page, Rejection, TaskDetail, TaskFilter, TaskPullRequest, TaskPullRequestState,
};
use harvest_core::{Attempt, Code, ListedTask, MAX_PROMPT_BYTES, Session, Stopping, TaskId, TaskStatus};
use harvest_store::{LinkEnd, PlanVerdict, Store, TaskQuery};

use super::ask;
use super::page::{self, PageAnswer};
use super::record::{Concerns, concerns_task};
use crate::auth::Principal;
use crate::extract::{Body, Id, Params};
use crate::idempotency::Key;
use crate::problem::Problem;
use crate::repository_access;
use crate::state::App;

/// So often a task may change hands while someone wants it ended.
const MOST_LOOKS: usize = 5;

/// A task as the API shows it.
pub async fn read_task(store: &dyn Store, id: &TaskId) -> Result<TaskDetail, harvest_store::Error> {
    let harvest_store::TaskDetail { task, sessions } = store.task(id).await?;
    let overlaps = store.overlaps(id).await?;
    let pull_request = read_pull_request(store, &sessions).await?;
    Ok(TaskDetail { task, sessions, overlaps, pull_request })
}

async fn read_pull_request(
    store: &dyn Store,
    sessions: &[Session],
) -> Result<Option<TaskPullRequest>, harvest_store::Error> {
    for session in sessions.iter().rev() {
        let Some(link) = store.pull_request_of(&session.id).await? else { continue };
        let state = match link.end {
            None => TaskPullRequestState::Open,
            Some((LinkEnd::Merged, _)) => TaskPullRequestState::Merged,
            Some((LinkEnd::Closed, _)) => TaskPullRequestState::Closed,
        };
        let number = harvest_engine::issue_number(&link.url);
        return Ok(Some(TaskPullRequest { url: link.url, number, state }));
    }
    Ok(None)
}

/// Create a task
#[utoipa::path(
    post, path = "/api/tasks", tag = "tasks", operation_id = "task.create", request_body = Ask,
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeating a request with the same key creates no second task")),
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 201, body = TaskDetail), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn create(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    key: Option<Extension<Key>>,
    Body(ask): Body<Ask>,
) -> Result<(StatusCode, HeaderMap, Extension<Concerns>, Json<TaskDetail>), Problem> {
    let submitted = ask::submit(&app, &principal, key.map(|key| key.0), ask).await?;
    let detail = detail(&app, &submitted.task.id).await?;
    let location = ask::location(&format!("/api/tasks/{}", detail.task.id));
    Ok((StatusCode::CREATED, location, Concerns::task(&app, &detail.task), Json(detail)))
}

/// List tasks
#[utoipa::path(
    get, path = "/api/tasks", tag = "tasks", operation_id = "task.list", params(TaskFilter),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<ListedTask>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn list(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Params(filter): Params<TaskFilter>,
) -> Result<PageAnswer<ListedTask>, Problem> {
    if let Some(prefix) = filter.id {
        let found = match app.store.find_task(&prefix, principal.repositories()).await {
            Err(harvest_store::Error::UnknownTask(_)) => None,
            found => Some(app.store.task(&found?).await?.task),
        };
        let Some(task) = found.filter(|task| principal.sees_repository(&task.repository)) else {
            return Ok(PageAnswer::whole(Vec::new()));
        };
        let waiting = app.store.waiting(vec![task.id.clone()], principal.repositories()).await?.remove(&task.id);
        return Ok(PageAnswer::whole(vec![ListedTask { task, waiting }]));
    }
    let query = TaskQuery {
        status: filter.status,
        repository: source(&app, filter.repository).await?,
        convoy: filter.convoy,
        requested_by: filter.requested_by,
        agent: filter.agent,
        search: filter.q.filter(|words| !words.is_empty()),
        among: principal.repositories(),
        order: page::order(filter.sort),
        cursor: page::cursor(filter.cursor)?,
        limit: page::limit(filter.limit)?,
    };
    let page = app.store.list(query).await?;
    Ok(PageAnswer(Page { items: page.items, next_cursor: page.next_cursor }))
}

/// A repository may be named as people named it.
pub async fn source(app: &App, named: Option<String>) -> Result<Option<String>, Problem> {
    let Some(named) = named else { return Ok(None) };
    Ok(Some(repository_access::named_in_filter(&app.store.repositories().await?, &named)))
}

/// Show a task
#[utoipa::path(
    get, path = "/api/tasks/{id}", tag = "tasks", operation_id = "task.get", params(("id" = TaskId, Path)),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = TaskDetail), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn get(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<TaskId>,
) -> Result<Json<TaskDetail>, Problem> {
    visible(&app, &principal, &id).await.map(Json)
}

/// Stop a task; its work is kept. A running task ends a moment later.
#[utoipa::path(
    post, path = "/api/tasks/{id}/cancel", tag = "tasks", operation_id = "task.cancel", params(("id" = TaskId, Path)),
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses(
        (status = 200, body = TaskDetail, description = "Stopped"),
        (status = 202, body = TaskDetail, description = "Its worker was asked to stop"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn cancel(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<TaskId>,
) -> Result<Stopped, Problem> {
    stop(&app, &principal, &id, Stopping::Cancel).await
}

/// Stop a task immediately, without waiting for its agent. Commits and checkpoints are kept.
#[utoipa::path(
    post, path = "/api/tasks/{id}/terminate", tag = "tasks", operation_id = "task.terminate", params(("id" = TaskId, Path)),
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses(
        (status = 200, body = TaskDetail, description = "Stopped"),
        (status = 202, body = TaskDetail, description = "Its worker was asked to stop"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn terminate(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<TaskId>,
) -> Result<Stopped, Problem> {
    stop(&app, &principal, &id, Stopping::Terminate).await
}

/// What asking a task to stop is answered.
pub type Stopped = (StatusCode, Extension<Concerns>, Json<TaskDetail>);

pub async fn stop(app: &App, principal: &Principal, id: &TaskId, how: Stopping) -> Result<Stopped, Problem> {
    let before = visible(app, principal, id).await?.task;
    if before.status.is_finished() {
        let detail = format!("task {} has ended already: {}", id.short(), before.status);
        return Err(Problem::new(Code::TaskFinished, detail).help("see its result: GET /api/tasks/{id}"));
    }
    let status = match app.end(id, how).await? {
        true => StatusCode::OK,
        false => StatusCode::ACCEPTED,
    };
    let concerns = Concerns::task(app, &before);
    Ok((status, concerns, Json(detail(app, id).await?)))
}

impl crate::state::Shared {
    /// Ends a task that no one works on; true then. Else whoever does is asked to.
    pub(crate) async fn end(&self, id: &TaskId, how: Stopping) -> Result<bool, harvest_engine::Error> {
        // It may go from hand to hand while it is looked for.
        for _ in 0..MOST_LOOKS {
            if self.engine.cancel_waiting(id, how.clone()).await?.is_some() {
                return Ok(true);
            }
            if self.store.request_stop(id, how.clone()).await? {
                return Ok(false);
            }
            if self.store.task(id).await?.task.status.is_finished() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Queue a failed or cancelled task again
#[utoipa::path(
    post, path = "/api/tasks/{id}/retry", tag = "tasks", operation_id = "task.retry", params(("id" = TaskId, Path)),
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 200, body = TaskDetail), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn retry(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<TaskId>,
) -> Result<(Extension<Concerns>, Json<TaskDetail>), Problem> {
    let before = visible(&app, &principal, &id).await?.task;
    if !matches!(before.status, TaskStatus::Failed | TaskStatus::Cancelled) {
        let detail =
            format!("task {} is {}: only failed and cancelled tasks can be retried", id.short(), before.status);
        return Err(Problem::new(Code::NotRetryable, detail));
    }
    app.engine.retry(&before, &principal.user, principal.counted_token()).await?;
    Ok((Concerns::task(&app, &before), Json(detail(&app, &id).await?)))
}

/// Approve the plan of a task, unchanged or edited
#[utoipa::path(
    post, path = "/api/tasks/{id}/approve", tag = "tasks", operation_id = "task.approve", params(("id" = TaskId, Path)),
    request_body = Approval, security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 200, body = TaskDetail), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn approve(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<TaskId>,
    Body(approval): Body<Approval>,
) -> Result<(Extension<Concerns>, Json<TaskDetail>), Problem> {
    let changed = approval.plan.map(|plan| said(&app, "plan", &plan)).transpose()?;
    decide(&app, &principal, &id, PlanVerdict::Approved { changed }).await
}

/// Reject the plan of a task: with a comment, a new plan is made; without one, the task is cancelled
#[utoipa::path(
    post, path = "/api/tasks/{id}/reject", tag = "tasks", operation_id = "task.reject", params(("id" = TaskId, Path)),
    request_body = Rejection, security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 200, body = TaskDetail), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn reject(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<TaskId>,
    Body(rejection): Body<Rejection>,
) -> Result<(Extension<Concerns>, Json<TaskDetail>), Problem> {
    let comment = rejection.comment.map(|comment| said(&app, "comment", &comment)).transpose()?;
    let verdict = comment.map_or(PlanVerdict::Rejected, |comment| PlanVerdict::Again { comment });
    decide(&app, &principal, &id, verdict).await
}

fn said(app: &App, field: &str, text: &str) -> Result<String, Problem> {
    if text.trim().is_empty() || text.len() > MAX_PROMPT_BYTES {
        return Err(Problem::bad(field, format!("it is empty, or has more than {MAX_PROMPT_BYTES} bytes")));
    }
    Ok(app.engine.clean(text))
}

async fn decide(
    app: &App,
    principal: &Principal,
    id: &TaskId,
    verdict: PlanVerdict,
) -> Result<(Extension<Concerns>, Json<TaskDetail>), Problem> {
    let before = visible(app, principal, id).await?.task;
    let decided = app.engine.decide(&before, (&principal.user, principal.counted_token()), verdict).await;
    decided.map_err(|error| match error {
        harvest_engine::Error::Store(harvest_store::Error::IllegalMove(refused)) => {
            let detail = format!("task {} is {}: there is no plan to approve or reject", id.short(), refused.from);
            Problem::new(Code::NotAwaiting, detail).help("see GET /api/tasks?status=awaiting_approval")
        }
        error => error.into(),
    })?;
    Ok((Concerns::task(app, &before), Json(detail(app, id).await?)))
}

/// List the agent runs of a task, oldest first
#[utoipa::path(
    get, path = "/api/tasks/{id}/attempts", tag = "tasks", operation_id = "task.attempts", params(("id" = TaskId, Path)),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<Attempt>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn attempts(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<TaskId>,
) -> Result<PageAnswer<Attempt>, Problem> {
    let detail = visible(&app, &principal, &id).await?;
    let turns = detail.sessions.into_iter().flat_map(|session| session.turns);
    let mut attempts: Vec<Attempt> = turns.flat_map(|turn| turn.attempts).collect();
    attempts.sort_by_key(|attempt| attempt.started_at);
    Ok(PageAnswer::whole(attempts))
}

/// The task, unless it belongs to a project that they may not see: then there is none.
pub async fn visible(app: &App, principal: &Principal, id: &TaskId) -> Result<TaskDetail, Problem> {
    let unknown = || Problem::new(Code::UnknownTask, format!("there is no task {id}")).help("see GET /api/tasks");
    let found =
        detail(app, id).await.map_err(|problem| if problem.is(Code::UnknownTask) { unknown() } else { problem })?;
    principal.check(&found.task.repository, unknown)?;
    concerns_task(app, &found.task);
    Ok(found)
}

async fn detail(app: &App, id: &TaskId) -> Result<TaskDetail, Problem> {
    Ok(read_task(app.store.as_ref(), id).await?)
}
