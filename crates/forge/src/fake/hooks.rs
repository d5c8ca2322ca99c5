//! Webhooks, signed as GitHub signs them, one after the other.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ring::hmac;
use secrecy::ExposeSecret;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{Hook, Redelivery, Shared};

const PATIENCE: Duration = Duration::from_secs(10);
/// How long one is sent again, and how often.
const LONGEST: Duration = Duration::from_secs(15 * 60);
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Event {
    id: String,
    name: &'static str,
    payload: Value,
}

impl Shared {
    fn hook(&self) -> Option<Hook> {
        self.hook.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells whoever listens. Nobody waits for it.
    pub(super) fn tell(&self, name: &'static str, payload: Value) {
        let number = self.world().next_id();
        let id = format!("{number:08x}-0000-4000-8000-{:012x}", self.clock.now().as_millisecond());
        if self.hooks.try_send(Event { id, name, payload }).is_err() {
            tracing::warn!(name, "a webhook is lost: too many are waiting");
        }
    }
}

pub(super) async fn send(mut events: mpsc::Receiver<Event>, shared: Arc<Shared>) {
    // It is on this machine, as this GitHub is.
    let Ok(client) = crate::github::http(false) else { return };
    while let Some(event) = events.recv().await {
        let begun = tokio::time::Instant::now();
        let mut was_told = false;
        // Where webhooks go may change while one waits.
        while let Some(hook) = shared.hook() {
            let unreached = match deliver(&client, &hook, &event).await {
                Ok(()) => break,
                Err(Undelivered::Refused { status, reason }) => {
                    shared.notice(format!("the webhook `{}` was refused with {status}: {reason}", event.name));
                    break;
                }
                Err(Undelivered::Unreached(reason)) => reason,
            };
            let tries_again = hook.redelivery == Redelivery::UntilReached && begun.elapsed() < LONGEST;
            if !was_told || !tries_again {
                let then = if tries_again { "it is sent when the server is up" } else { "it is lost" };
                shared.notice(format!("the webhook `{}` does not reach {}: {unreached}; {then}", event.name, hook.url));
            }
            if !tries_again {
                break;
            }
            was_told = true;
            tokio::time::sleep(PAUSE).await;
        }
    }
}

enum Undelivered {
    Refused { status: u16, reason: String },
    Unreached(String),
}

async fn deliver(client: &reqwest::Client, hook: &Hook, event: &Event) -> Result<(), Undelivered> {
    let body = event.payload.to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, hook.secret.expose_secret().as_bytes());
    let tag: String = hmac::sign(&key, body.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let request = client
        .post(&hook.url)
        .timeout(PATIENCE)
        .header("content-type", "application/json")
        .header("user-agent", "GitHub-Hookshot/fake")
        .header(crate::github::webhook::EVENT, event.name)
        .header(crate::github::webhook::DELIVERY, &event.id)
        .header(crate::github::webhook::SIGNATURE, format!("sha256={tag}"))
        .body(body);
    let answer = match request.send().await {
        Ok(answer) => answer,
        Err(error) => return Err(Undelivered::Unreached(error.to_string())),
    };
    if answer.status().is_success() {
        return Ok(());
    }
    let status = answer.status().as_u16();
    let body = answer.bytes().await.unwrap_or_default();
    let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = |name: &str| problem[name].as_str().map(str::to_owned);
    let reason = [text("detail"), text("help")].into_iter().flatten().collect::<Vec<_>>().join("; ");
    Err(Undelivered::Refused { status, reason })
}
