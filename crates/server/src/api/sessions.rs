//! Sessions: the conversations about tasks, and what they changed.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use harvest_api_types::{
    Ask, AskFork, AskMore, ChangedFile, Diff, DiffRange, Message, MessageFilter, Page, SessionDetail, SessionFilter,
    SessionSummary, TaskDetail,
};
use harvest_core::{Code, EventBody, MessageRole, Prompt, Role, Session, SessionId, Turn};
use harvest_engine::{FollowUp, Fork, NewestWork};
use harvest_store::{Forgotten, SessionQuery, Store};
use harvest_workspace::SessionRepository;

use super::ask;
use super::page::{self, PageAnswer};
use super::range;
use super::record::{Concerns, concerns_task};
use super::tasks::{self, Stopped};
use crate::auth::Principal;
use crate::extract::{Body, Id, Params};
use crate::idempotency::Key;
use crate::problem::Problem;
use crate::state::App;

/// Events looked at for one page of messages.
const SCAN: usize = 500;
const MOST_SCANS: usize = 20;

/// A session as the API shows it.
pub async fn read_session(store: &dyn Store, id: &SessionId) -> Result<SessionDetail, harvest_store::Error> {
    let (task_id, last_seq) = store.last_event(id).await?;
    let harvest_store::TaskDetail { task, sessions } = store.task(&task_id).await?;
    let session = sessions.into_iter().find(|session| session.id == *id);
    let unknown = || harvest_store::Error::UnknownSession(id.to_string());
    let Session { id, task_id, branch, created_at, turns, .. } = session.ok_or_else(unknown)?;
    Ok(SessionDetail { id, task_id, branch, created_at, turns, last_seq, task })
}

/// Start a session with a new task
#[utoipa::path(
    post, path = "/api/sessions", tag = "sessions", operation_id = "session.create", request_body = Ask,
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeating a request with the same key creates no second session")),
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 201, body = SessionDetail), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn create(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    key: Option<Extension<Key>>,
    Body(ask): Body<Ask>,
) -> Result<(StatusCode, HeaderMap, Extension<Concerns>, Json<SessionDetail>), Problem> {
    let submitted = ask::submit(&app, &principal, key.map(|key| key.0), ask).await?;
    // Asked for again, the session is the one of the first time.
    let task = tasks::visible(&app, &principal, &submitted.task.id).await?;
    let id = task.sessions.first().map_or(submitted.session, |session| session.id.clone());
    let detail = visible(&app, &principal, &id).await?;
    let concerns = Concerns::task(&app, &detail.task);
    Ok((StatusCode::CREATED, ask::location(&format!("/api/sessions/{id}")), concerns, Json(detail)))
}

/// List sessions
#[utoipa::path(
    get, path = "/api/sessions", tag = "sessions", operation_id = "session.list", params(SessionFilter),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<SessionSummary>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn list(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Params(filter): Params<SessionFilter>,
) -> Result<PageAnswer<SessionSummary>, Problem> {
    let mut only = None;
    if let Some(prefix) = filter.id {
        match app.store.find_session(&prefix, principal.repositories()).await {
            Err(harvest_store::Error::UnknownSession(_)) => return Ok(PageAnswer::whole(Vec::new())),
            found => only = Some(found?),
        }
    }
    let of_only = match &only {
        Some(session) => Some(app.store.last_event(session).await?.0),
        None => None,
    };
    let query = SessionQuery {
        task: of_only.or(filter.task),
        status: filter.status,
        repository: tasks::source(&app, filter.repository).await?,
        among: principal.repositories(),
        order: page::order(filter.sort),
        cursor: page::cursor(filter.cursor)?,
        limit: page::limit(filter.limit)?,
    };
    let page = app.store.sessions(query).await?;
    let wanted = page.items.into_iter().filter(|item| only.as_ref().is_none_or(|only| item.id == *only));
    let items = wanted.map(|item| SessionSummary {
        id: item.id,
        task_id: item.task_id,
        branch: item.branch,
        created_at: item.created_at,
        status: item.status,
        repository: item.repository,
        agent: item.agent,
        requested_by: item.requested_by,
        title: item.title,
        trust: item.trust,
    });
    Ok(PageAnswer(Page { items: items.collect(), next_cursor: page.next_cursor }))
}

/// Show a session
#[utoipa::path(
    get, path = "/api/sessions/{id}", tag = "sessions", operation_id = "session.get", params(("id" = SessionId, Path)),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = SessionDetail), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn get(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<SessionId>,
) -> Result<Json<SessionDetail>, Problem> {
    visible(&app, &principal, &id).await.map(Json)
}

/// Stop a session; its work is kept
#[utoipa::path(
    post, path = "/api/sessions/{id}/stop", tag = "sessions", operation_id = "session.stop", params(("id" = SessionId, Path)),
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses(
        (status = 200, body = TaskDetail, description = "Stopped"),
        (status = 202, body = TaskDetail, description = "Its worker was asked to stop"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn stop(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<SessionId>,
) -> Result<Stopped, Problem> {
    let session = visible(&app, &principal, &id).await?;
    tasks::stop(&app, &principal, &session.task_id, harvest_core::Stopping::Cancel).await
}

/// Delete a session that has ended; delivered work, its cost and the audit log are kept
#[utoipa::path(
    delete, path = "/api/sessions/{id}", tag = "sessions", operation_id = "session.delete", params(("id" = SessionId, Path)),
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 204, description = "Deleted"), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn delete(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<SessionId>,
) -> Result<(StatusCode, Extension<Concerns>), Problem> {
    let session = visible(&app, &principal, &id).await?;
    if session.task.requested_by != principal.user && principal.role_for(&session.task.repository) < Some(Role::Admin) {
        let detail = "only its requester and admins of its project may delete a session";
        return Err(Problem::new(Code::NotAllowed, detail).help("ask one of them"));
    }
    let busy = |detail: String, help: &str| Err(Problem::new(Code::SessionBusy, detail).help(help));
    match app.engine.forget_session(&id).await? {
        Forgotten::Session => Ok((StatusCode::NO_CONTENT, Concerns::task(&app, &session.task))),
        Forgotten::Busy => {
            let detail = format!("task {} has not ended: {}", session.task_id.short(), session.task.status);
            busy(detail, "cancel it first: POST /api/tasks/{id}/cancel")
        }
        Forgotten::Needed(waiting) => {
            let detail = format!("task {} waits for it", waiting.short());
            busy(detail, "cancel that one, or try this one again")
        }
    }
}

/// Send another prompt to a session; prompts that arrive while it is busy are queued in order
#[utoipa::path(
    post, path = "/api/sessions/{id}/prompts", tag = "sessions", operation_id = "session.prompt",
    params(("id" = SessionId, Path), ("Idempotency-Key" = Option<String>, Header, description = "Repeating a request with the same key does not send the prompt again")),
    request_body = AskMore, security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 201, body = Turn), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn prompt(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    key: Option<Extension<Key>>,
    Id(id): Id<SessionId>,
    Body(ask): Body<AskMore>,
) -> Result<(StatusCode, Extension<Concerns>, Json<Turn>), Problem> {
    let session = visible(&app, &principal, &id).await?;
    let key = key.map(|key| key.0.for_the_store());
    let asked = FollowUp {
        session: id,
        prompt: words(ask.prompt)?,
        author: principal.user.clone(),
        agent: ask.agent,
        model: ask.model,
        key,
        token: principal.counted_token(),
    };
    let turn = app.engine.prompt(asked).await?;
    Ok((StatusCode::CREATED, Concerns::task(&app, &session.task), Json(turn)))
}

/// Fork a session: start a new one from an event of this one
#[utoipa::path(
    post, path = "/api/sessions/{id}/fork", tag = "sessions", operation_id = "session.fork",
    params(("id" = SessionId, Path)), request_body = AskFork,
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 201, body = TaskDetail), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn fork(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    key: Option<Extension<Key>>,
    Id(id): Id<SessionId>,
    Body(ask): Body<AskFork>,
) -> Result<(StatusCode, HeaderMap, Extension<Concerns>, Json<TaskDetail>), Problem> {
    let session = visible(&app, &principal, &id).await?;
    // No journal is that long, and no database counts that far.
    if i64::try_from(ask.at).is_err() {
        return Err(Problem::bad("at", "it is not the number of an event"));
    }
    let asked = Fork {
        session: id,
        at: ask.at,
        prompt: words(ask.prompt)?,
        author: principal.user.clone(),
        agent: ask.agent,
        model: ask.model,
        key: key.map(|key| key.0.for_the_store()),
        most: app.desk.budget_of(&session.task.repository)?,
        source: principal.source(),
        token: principal.counted_token(),
    };
    let made = app.engine.fork(asked).await?;
    let detail = tasks::visible(&app, &principal, &made.task.id).await?;
    let location = ask::location(&format!("/api/tasks/{}", detail.task.id));
    Ok((StatusCode::CREATED, location, Concerns::task(&app, &session.task), Json(detail)))
}

pub fn words(prompt: String) -> Result<Prompt, Problem> {
    let refuse = |error: harvest_core::PromptError| {
        Problem::new(Code::BadPrompt, error.to_string()).about("prompt").help(error.help())
    };
    Prompt::new(prompt).map_err(refuse)
}

/// List the messages of a session, oldest first
#[utoipa::path(
    get, path = "/api/sessions/{id}/messages", tag = "sessions", operation_id = "session.messages",
    params(("id" = SessionId, Path), MessageFilter), security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<Message>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn messages(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<SessionId>,
    Params(filter): Params<MessageFilter>,
) -> Result<PageAnswer<Message>, Problem> {
    let session = visible(&app, &principal, &id).await?;
    let bad = |_| Problem::bad("cursor", "unknown cursor");
    let mut after: u64 = filter.cursor.map(|text| text.parse()).transpose().map_err(bad)?.unwrap_or(0);
    let limit = page::limit(filter.limit)?;
    let (mut items, mut asked) = (Vec::new(), 0);
    for _ in 0..MOST_SCANS {
        let events = app.store.events(&id, after, SCAN).await?;
        let end = events.len() < SCAN;
        for event in events {
            after = event.seq;
            let (role, author, text) = match event.body {
                EventBody::Message { role, text } => (role, None, text),
                // A turn that was taken up again is still the same prompt.
                EventBody::TurnStarted { number, .. } if asked >= number => continue,
                EventBody::TurnStarted { number, author, .. } => {
                    asked = number;
                    let turn = session.turns.iter().find(|turn| turn.number == number);
                    (MessageRole::User, Some(author), turn.map(|turn| turn.prompt.to_string()).unwrap_or_default())
                }
                _ => continue,
            };
            items.push(Message { seq: event.seq, at: event.at, role, author, text });
            if items.len() == limit {
                return Ok(PageAnswer(Page { items, next_cursor: Some(after.to_string()) }));
            }
        }
        if end {
            return Ok(PageAnswer::whole(items));
        }
    }
    Ok(PageAnswer(Page { items, next_cursor: Some(after.to_string()) }))
}

/// List the files that a session has changed
#[utoipa::path(
    get, path = "/api/sessions/{id}/files", tag = "sessions", operation_id = "session.files", params(("id" = SessionId, Path)),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<ChangedFile>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn files(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<SessionId>,
) -> Result<PageAnswer<ChangedFile>, Problem> {
    let session = visible(&app, &principal, &id).await?;
    let Some((repository, tip)) = work(&app, &session).await? else { return Ok(PageAnswer::whole(Vec::new())) };
    let changes = repository.changes(&session.task.base, &tip).await?;
    let items = changes.into_iter().map(|change| ChangedFile { path: change.path, change: change.change });
    Ok(PageAnswer::whole(items.collect()))
}

/// Show the changes of a session, or between two commits, as a unified diff; `Accept: text/x-diff` returns raw bytes
#[utoipa::path(
    get, path = "/api/sessions/{id}/diff", tag = "sessions", operation_id = "session.diff",
    params(("id" = SessionId, Path), DiffRange),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses(
        (status = 200, description = "The diff", content((Diff = "application/json"), (String = "text/x-diff"))),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn diff(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<SessionId>,
    Params(range): Params<DiffRange>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let session = visible(&app, &principal, &id).await?;
    let base = session.task.base.clone();
    let (base, commit, patch) = match work(&app, &session).await? {
        Some((repository, tip)) => {
            let (path, context) = (range.path.clone(), range.context);
            let (from, to) = range::ends(range, &repository, &base, &tip).await?;
            let patch = repository.diff_of(&from, &to, path.as_deref(), context).await?;
            (from, Some(to), patch)
        }
        None => (base, None, Vec::new()),
    };
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/x-diff") {
        return Ok(([(header::CONTENT_TYPE, "text/x-diff")], patch).into_response());
    }
    let diff = String::from_utf8_lossy(&patch).into_owned();
    Ok(Json(Diff { base, commit, diff }).into_response())
}

/// The session's repository and the newest commit in it. `None` when no work has left the sandbox yet.
async fn work(app: &App, session: &SessionDetail) -> Result<Option<(SessionRepository, String)>, Problem> {
    if app.data.existing_repository(&session.id).is_none() {
        if session.task.commit.as_ref().is_some_and(|commit| *commit != session.task.base) {
            let detail = "the work is not on this server: it ran on another machine, or `harvest gc` removed it";
            let help = format!("look at its branch: git log -p {}", session.branch.as_str());
            return Err(Problem::new(Code::NothingToApply, detail).help(help));
        }
        return Ok(None);
    }
    let of = (&session.id, &session.branch);
    let newest = NewestWork::find(&app.data, app.store.as_ref(), &session.task, of).await?;
    Ok(newest.map(|newest| (newest.repository, newest.commit)))
}

/// The session, unless it belongs to a project that they may not see: then there is none.
pub async fn visible(app: &App, principal: &Principal, id: &SessionId) -> Result<SessionDetail, Problem> {
    let unknown =
        || Problem::new(Code::UnknownSession, format!("there is no session {id}")).help("see GET /api/sessions");
    let detail = read_session(app.store.as_ref(), id).await.map_err(|error| match error {
        harvest_store::Error::UnknownSession(_) => unknown(),
        error => error.into(),
    })?;
    principal.check(&detail.task.repository, unknown)?;
    concerns_task(app, &detail.task);
    Ok(detail)
}
