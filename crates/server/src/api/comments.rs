//! What people say to each other about a session: who is there, and what they remark on events and changed lines.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use harvest_api_types::{NewComment, Page, Person};
use harvest_core::{Code, Comment, CommentId, CommentPlace, MAX_COMMENT_BYTES, Role, SessionId};
use harvest_engine::check_name;
use serde::Serialize;

use super::page::PageAnswer;
use super::record::Concerns;
use super::sessions::visible;
use crate::auth::Principal;
use crate::events::feed::Aside;
use crate::extract::{Body, Id};
use crate::problem::Problem;
use crate::state::App;

/// Of one session; whoever has more to say says it elsewhere.
const MOST: usize = 1000;

/// That the comments of a session have changed.
#[derive(Debug, Serialize)]
struct Changed<'a> {
    session_id: &'a SessionId,
}

/// List the people who have a session open in a browser, as far as this server knows
#[utoipa::path(
    get, path = "/api/sessions/{id}/people", tag = "sessions", operation_id = "session.people", params(("id" = SessionId, Path)),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<Person>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn people(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<SessionId>,
) -> Result<PageAnswer<Person>, Problem> {
    visible(&app, &principal, &id).await?;
    Ok(PageAnswer::whole(app.presence.people(&id)))
}

/// List the comments on a session, oldest first
#[utoipa::path(
    get, path = "/api/sessions/{id}/comments", tag = "sessions", operation_id = "comment.list", params(("id" = SessionId, Path)),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<Comment>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn list(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<SessionId>,
) -> Result<PageAnswer<Comment>, Problem> {
    visible(&app, &principal, &id).await?;
    Ok(PageAnswer::whole(app.store.comments(&id).await?))
}

/// Comment on an event or a changed line; agents do not read comments
#[utoipa::path(
    post, path = "/api/sessions/{id}/comments", tag = "sessions", operation_id = "comment.create", params(("id" = SessionId, Path)),
    request_body = NewComment, security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 201, body = Comment), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn create(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<SessionId>,
    Body(new): Body<NewComment>,
) -> Result<(StatusCode, Extension<Concerns>, Json<Comment>), Problem> {
    let session = visible(&app, &principal, &id).await?;
    let text = new.text.trim();
    if text.is_empty() || text.len() > MAX_COMMENT_BYTES {
        return Err(Problem::bad("text", format!("it is empty or longer than {MAX_COMMENT_BYTES} bytes")));
    }
    match &new.about {
        CommentPlace::Event { seq } if !(1..=session.last_seq).contains(seq) => {
            return Err(Problem::bad("about.seq", "the session has no event of that number"));
        }
        CommentPlace::Line { path, .. } if path.is_empty() || path.len() > 4096 => {
            return Err(Problem::bad("about.path", "it is not the path of a file"));
        }
        CommentPlace::Line { line: 0, .. } => return Err(Problem::bad("about.line", "lines are counted from 1")),
        CommentPlace::Line { path, .. } => check_name("about.path", path)?,
        CommentPlace::Event { .. } => {}
    }
    if app.store.comments(&id).await?.len() >= MOST {
        return Err(Problem::bad("text", format!("a session has at most {MOST} comments")));
    }
    let comment = Comment {
        id: CommentId::generate(app.entropy.as_ref()),
        session_id: id,
        author: principal.user.clone(),
        at: app.clock.now(),
        about: new.about,
        text: app.engine.clean(text),
    };
    app.store.add_comment(comment.clone()).await?;
    tell(&app, &comment.session_id, &session.task.repository);
    Ok((StatusCode::CREATED, Concerns::task(&app, &session.task), Json(comment)))
}

/// Delete your own comment, or, as an admin, any comment
#[utoipa::path(
    delete, path = "/api/comments/{id}", tag = "sessions", operation_id = "comment.remove", params(("id" = CommentId, Path)),
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 204, description = "Removed"), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn remove(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<CommentId>,
) -> Result<(StatusCode, Extension<Concerns>), Problem> {
    let unknown = || Problem::new(Code::UnknownAddress, "there is no such comment").about("id");
    let comment = app.store.comment(&id).await?.ok_or_else(unknown)?;
    let session = visible(&app, &principal, &comment.session_id).await.map_err(|_| unknown())?;
    let may_remove_any = principal.role_for(&session.task.repository) >= Some(Role::Admin);
    if comment.author != principal.user && !may_remove_any {
        let detail = "someone else wrote this comment";
        return Err(Problem::new(Code::NotAllowed, detail).help("ask them, or an admin"));
    }
    app.store.remove_comment(&id).await?;
    tell(&app, &comment.session_id, &session.task.repository);
    Ok((StatusCode::NO_CONTENT, Concerns::task(&app, &session.task)))
}

fn tell(app: &App, session: &SessionId, repository: &str) {
    app.feed.tell(Aside::new("comment", repository, &Changed { session_id: session }));
}
