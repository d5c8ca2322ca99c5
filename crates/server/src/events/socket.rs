//! A journal over a WebSocket: each message is an event.

use std::time::Duration;

use axum::extract::WebSocketUpgrade;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use axum::response::Response;

use super::presence::Here;
use super::sse::{HEARTBEAT, REFUSED};
use super::tail::{Next, Subscription};
use crate::auth::Pass;
use crate::state::App;

/// Come back later, from where you were.
const AGAIN: u16 = 1013;
/// The server is ending.
const AWAY: u16 = 1001;
/// The reader has lost its right.
const REFUSAL: u16 = 1008;
/// Clients have nothing to say but that they are there.
const LONGEST_MESSAGE: usize = 4 * 1024;
/// For a message to be taken.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn upgrade(
    upgrade: WebSocketUpgrade,
    subscription: Subscription,
    app: App,
    here: Option<Here>,
    pass: Pass,
) -> Response {
    upgrade.max_message_size(LONGEST_MESSAGE).max_frame_size(LONGEST_MESSAGE).on_upgrade(async move |socket| {
        run(socket, subscription, app, pass).await;
        drop(here);
    })
}

async fn run(mut socket: WebSocket, mut subscription: Subscription, app: App, mut pass: Pass) {
    // Beyond the bound on connections there are no sockets either.
    let Ok(_place) = app.places.clone().try_acquire_owned() else { return };
    let _entered = app.metrics.sockets.clone().entered();
    let mut beat = tokio::time::interval(HEARTBEAT);
    beat.tick().await;
    let (code, reason) = loop {
        let message = tokio::select! {
            biased;
            () = app.closing.requested() => break (AWAY, format!("the server is shutting down; resume with after={}", subscription.sent())),
            () = pass.ended() => break (REFUSAL, REFUSED.to_owned()),
            heard = socket.recv() => match heard {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => continue,
            },
            next = subscription.next() => match next {
                Next::Frame(frame) => match Utf8Bytes::try_from(frame.json()) {
                    Ok(text) => Message::Text(text),
                    Err(_) => continue,
                },
                Next::TooSlow => {
                    app.metrics.streams_dropped.add(1);
                    break (AGAIN, format!("too slow; resume with after={}", subscription.sent()));
                }
                Next::Broken(error) => {
                    tracing::warn!(%error, "a stream of events broke");
                    break (AGAIN, format!("at the moment; resume with after={}", subscription.sent()));
                }
            },
            _ = beat.tick() => Message::Ping(Vec::new().into()),
        };
        app.metrics.events_sent.add(1);
        // Someone who takes nothing is not waited for either once the right is gone.
        tokio::select! {
            sent = tokio::time::timeout(PATIENCE, socket.send(message)) => match sent {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            },
            () = pass.ended() => return,
        }
    };
    let close = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
    let _ = tokio::time::timeout(PATIENCE, socket.send(close)).await;
}
