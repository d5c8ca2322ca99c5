//! Webhooks, signed as GitHub signs them, one after the other.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ring::hmac;
use secrecy::ExposeSecret;
use serde_json::Value;
use tokio::sync::mpsc;

use super::Shared;

const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Event {
    id: String,
    name: &'static str,
    payload: Value,
}

impl Shared {
    /// Tells whoever listens. Nobody waits for it; as at GitHub, what cannot be delivered is not tried again.
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
        let hook = shared.hook.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(hook) = hook else { continue };
        let body = event.payload.to_string();
        let key = hmac::Key::new(hmac::HMAC_SHA256, hook.secret.expose_secret().as_bytes());
        let tag: String = hmac::sign(&key, body.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let request = client
            .post(&hook.url)
            .timeout(PATIENCE)
            .header("content-type", "application/json")
            .header("user-agent", "GitHub-Hookshot/fake")
            .header(crate::github::webhook::EVENT, event.name)
            .header(crate::github::webhook::DELIVERY, event.id)
            .header(crate::github::webhook::SIGNATURE, format!("sha256={tag}"))
            .body(body);
        match request.send().await {
            Ok(answer) if answer.status().is_success() => {}
            Ok(answer) => tracing::warn!(status = answer.status().as_u16(), event.name, "a webhook was refused"),
            Err(error) => tracing::warn!(%error, event.name, "a webhook could not be delivered"),
        }
    }
}
