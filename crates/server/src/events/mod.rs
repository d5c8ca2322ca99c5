//! Journals as they grow. However many watch a session, its journal is read once: one [`Tail`] for each session turns events
//! into bytes, and everyone who watches gets the same bytes.

pub mod feed;
mod frame;
mod presence;
mod socket;
mod sse;
mod tail;

pub use feed::Feed;
pub use frame::Frame;
pub use presence::Presence;
pub use tail::Tails;

use axum::Extension;
use axum::extract::{FromRequestParts, Request, State, WebSocketUpgrade};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use harvest_api_types::{EventPage, Since};
use harvest_core::SessionId;

use crate::api::sessions::visible;
use crate::auth::{Principal, Shows, Way};
use crate::extract::{Id, Params};
use crate::problem::Problem;
use crate::state::App;

const MOST: u32 = 1000;

/// Read the journal of a session: over a WebSocket, as server-sent events (`Accept: text/event-stream`), or as a page
///
/// Both streams start after `after` (or `Last-Event-ID`), continue with new events, and neither skip nor repeat one. A reader
/// that is too slow is disconnected and told where to continue.
#[utoipa::path(
    get, path = "/api/sessions/{id}/events", tag = "sessions", operation_id = "session.events",
    params(("id" = SessionId, Path), Since), security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses(
        (status = 200, description = "A page, or a stream", content(
            (EventPage = "application/json"), (String = "text/event-stream"),
        )),
        (status = 101, description = "A WebSocket; each message is an event"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn events(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(session): Id<SessionId>,
    Params(since): Params<Since>,
    request: Request,
) -> Result<Response, Problem> {
    let seen = visible(&app, &principal, &session).await?;
    let after = resume_from(&since, request.headers())?;
    let (mut parts, _) = request.into_parts();
    if parts.headers.contains_key(header::UPGRADE) {
        let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
        let upgrade = upgrade.map_err(|rejection| Problem::bad("Upgrade", rejection.body_text()))?;
        let subscription = app.tails.subscribe(&session, after).await?;
        // Programs look on unseen; people see each other.
        let person = principal.way == Way::Cookie;
        let here = person.then(|| app.presence.enter(&session, &seen.task.repository, &principal.user));
        let pass = app.passes.open(&principal, Shows::Repository(seen.task.repository));
        return Ok(socket::upgrade(upgrade, subscription, app, here, pass));
    }
    if wants_stream(&parts.headers) {
        let subscription = app.tails.subscribe(&session, after).await?;
        let pass = app.passes.open(&principal, Shows::Repository(seen.task.repository));
        return Ok(sse::stream(subscription, app, pass));
    }
    let limit = since.limit.unwrap_or(100);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::bad("limit", format!("limit must be between 1 and {MOST}")));
    }
    let mut items = app.store.events(&session, after, limit as usize + 1).await?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next_cursor = items.last().map(|event| event.seq).filter(|_| more);
    Ok(axum::Json(EventPage { items, next_cursor }).into_response())
}

/// A browser that reconnects by itself says in a header where it was; that is newer than what its address says.
fn resume_from(since: &Since, headers: &HeaderMap) -> Result<u64, Problem> {
    let (field, number) = match headers.get("last-event-id") {
        Some(last) => ("Last-Event-ID", last.to_str().ok().and_then(|text| text.parse().ok())),
        None => ("after", Some(since.after.unwrap_or(0))),
    };
    let number = number.filter(|number| i64::try_from(*number).is_ok());
    number.ok_or_else(|| Problem::bad(field, "it is not the number of an event"))
}

pub fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|line| line.split(','))
        .any(|kind| kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream"))
}
