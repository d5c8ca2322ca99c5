//! Acts on deliveries, one after the other, and comes back to those that did not work out.

use std::time::Duration;

use harvest_core::Timestamp;
use harvest_engine::Stop;
use harvest_store::{NewAudit, Record, recorded};
use serde_json::json;

use super::act::{self, Trouble};
use super::explain;
use crate::state::App;

/// How long acting on one may take, so that a host that hangs does not hold up the others.
const PATIENCE: Duration = Duration::from_secs(100);
/// How long one is held, which is longer; then someone else may try.
const HOLDS: Duration = Duration::from_secs(2 * 60);
/// What another server left is found by then.
const LOOK: Duration = Duration::from_secs(30);
const MOST_TRIES: u32 = 8;
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Until the server closes.
pub async fn run(app: App, closing: Stop) {
    let mut woken = app.store.watch_queue();
    loop {
        woken.mark_unchanged();
        let acted = tokio::select! {
            () = closing.requested() => return,
            acted = next_of_ours(&app) => acted,
        };
        match acted {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "deliveries cannot be read"),
        }
        tokio::select! {
            () = closing.requested() => return,
            _ = woken.changed() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Forgets those that nobody sends again.
pub async fn sweep(app: &App) {
    let now = app.clock.now();
    if let Err(error) = app.store.forget_deliveries(now.checked_sub(KEPT).unwrap_or(now)).await {
        tracing::warn!(%error, "old deliveries could not be forgotten");
    }
}

/// Acts on one; false when there is none. Without an account they are left to a server that has one.
async fn next_of_ours(app: &App) -> Result<bool, harvest_store::Error> {
    if app.desk.webhooks().await.is_none() {
        return Ok(false);
    }
    next(app).await
}

/// Acts on one; false when there is none.
async fn next(app: &App) -> Result<bool, harvest_store::Error> {
    let now = app.clock.now();
    let later = |time: Duration| now.saturating_add(time).unwrap_or(Timestamp::MAX);
    let Some(delivery) = app.store.take_delivery(now, later(HOLDS)).await? else { return Ok(false) };
    let audit = NewAudit {
        at: now,
        actor: "github".to_owned(),
        action: format!("webhook.{}", delivery.event),
        target: String::new(),
        project: None,
        detail: json!({ "delivery": delivery.id }),
    };
    let record = Record { audit, answer: None };
    let acting = tokio::time::timeout(PATIENCE, recorded(record, act::act(app, &delivery))).await;
    let acted = acting.map_or_else(|_| Err(Trouble::passing("it took too long")), |(acted, _)| acted);
    let (outcome, code) = match acted {
        Ok(outcome) => (outcome, None),
        Err(trouble) if trouble.may_pass && delivery.tries < MOST_TRIES => {
            tracing::warn!(delivery.id, error = trouble.message, "a delivery is tried again later");
            // It is due again when the time that it is held for is over.
            return Ok(true);
        }
        Err(trouble) => {
            tracing::error!(delivery.id, error = trouble.message, "a delivery failed");
            // It is stored and shown, and may repeat what GitHub or git said.
            (format!("failed: {}", app.engine.clean(&trouble.message)), Some(trouble.code))
        }
    };
    app.store.settle_delivery(&delivery.id, &outcome, app.clock.now()).await?;
    tracing::info!(delivery.id, delivery.event, outcome, "acted on a delivery");
    let explaining = explain::explain(app, &delivery, &outcome, code);
    if tokio::time::timeout(PATIENCE, explaining).await.is_err() {
        tracing::warn!(delivery.id, "why a delivery led to nothing could not be said in time");
    }
    Ok(true)
}
