//! A journal as server-sent events.

use std::convert::Infallible;
use std::future;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use tokio::time::{Instant, Interval};

use super::tail::{Next, Subscription};
use crate::auth::Pass;
use crate::state::App;

/// So often something is said, so that nobody in between takes the connection for dead.
pub const HEARTBEAT: Duration = Duration::from_secs(15);
/// Said when the token or session of a stream has lost its right.
pub const REFUSED: &str = "the credentials of this stream are no longer valid or have lost permissions";
const BEAT: &[u8] = b": alive\n\n";
/// When to come back after a stream has ended.
const GREETING: &[u8] = b"retry: 1000\n\n";

enum Stage {
    Greeting,
    Telling,
    Over,
}

pub fn stream(subscription: Subscription, app: App, pass: Pass) -> Response {
    let entered = app.metrics.streams.clone().entered();
    let beat = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    let state = (subscription, Stage::Greeting, app, beat, (entered, pass));
    let bytes = stream::unfold(state, |(mut subscription, stage, app, mut beat, (entered, mut pass))| async move {
        let (bytes, stage) = match stage {
            Stage::Greeting => (Bytes::from_static(GREETING), Stage::Telling),
            Stage::Telling => next(&mut subscription, &app, &mut beat, &mut pass).await,
            Stage::Over => return None,
        };
        Some((Ok::<_, Infallible>(bytes), (subscription, stage, app, beat, (entered, pass))))
    });
    response(Body::from_stream(bytes))
}

async fn next(subscription: &mut Subscription, app: &App, beat: &mut Interval, pass: &mut Pass) -> (Bytes, Stage) {
    tokio::select! {
        biased;
        () = closing(app) => (last(subscription.sent(), "closing", "the server is shutting down"), Stage::Over),
        () = pass.ended() => (last(subscription.sent(), "refused", REFUSED), Stage::Over),
        next = subscription.next() => match next {
            Next::Frame(frame) => {
                app.metrics.events_sent.add(1);
                (frame.sse(), Stage::Telling)
            }
            Next::TooSlow => {
                app.metrics.streams_dropped.add(1);
                (last(subscription.sent(), "dropped", "the reader was too slow"), Stage::Over)
            }
            Next::Broken(error) => {
                tracing::warn!(%error, "a stream of events broke");
                (last(subscription.sent(), "dropped", "the journal cannot be read at the moment"), Stage::Over)
            }
        },
        _ = beat.tick() => (Bytes::from_static(BEAT), Stage::Telling),
    }
}

/// When the server is to end. Nothing is set up to be woken by it, which would cost as much as telling an event does: each
/// connection is woken then, and asks its body for more.
pub async fn closing(app: &App) {
    future::poll_fn(|_| if app.closing.is_requested() { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// Says why it ends and where to go on.
fn last(after: u64, event: &str, why: &str) -> Bytes {
    let data = serde_json::json!({ "after": after, "reason": why });
    format!("event: {event}\ndata: {data}\n\n").into()
}

pub fn response(body: Body) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies that gather answers would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
