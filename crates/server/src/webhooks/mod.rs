//! What GitHub tells us: checked, kept, answered at once, and acted on afterwards.
//!
//! A delivery is believed for its signature alone, which covers its body and nothing else. It is therefore kept under a digest
//! of what was signed, in the transaction that makes it work to do: of any number of copies one counts, under whatever number
//! they come, also when the server dies in between. What happened longer ago than copies are remembered is not acted on.

mod act;
mod ask;
mod endings;
mod explain;
mod intake;
mod worker;

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use harvest_core::Code;
use harvest_forge::Happening;
use harvest_forge::github::webhook::{DELIVERY, EVENT, Listener, SIGNATURE, is_signature};
use harvest_store::Delivery;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub use endings::run as tell_endings;
pub use intake::Intake;
pub use worker::{run, sweep};

use crate::extract;
use crate::limits::{Peer, network};
use crate::problem::Problem;
use crate::state::App;

/// What GitHub sends at most.
const MOST_BYTES: usize = 25 << 20;
const LONGEST_NAME: usize = 100;
/// What happened before that comes too late. GitHub sends nothing again after three days; copies are known for thirty.
const STALE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How webhooks are taken.
#[derive(Debug)]
pub struct Webhooks {
    pub listener: Listener,
    /// How often failed checks and reviews make the same session go on by themselves.
    pub most_fixes: u32,
}

/// `POST /webhooks/github`
pub async fn github(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let Some(webhooks) = app.desk.webhooks().await else {
        let help = "set GitHub up first: harvest github setup";
        return Err(Problem::new(Code::UnknownAddress, "webhooks are not set up").help(help));
    };
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let forged = || {
        let detail = "the signature is missing, or does not match the body";
        let help = "set the same secret on GitHub and in the credential: harvest github setup";
        let problem = Problem::new(Code::Forged, detail).about(SIGNATURE).help(help);
        problem.with_status(StatusCode::UNAUTHORIZED)
    };
    // No byte of a body is received for a sender who signs nothing.
    let signature = text(SIGNATURE).filter(|text| is_signature(text)).ok_or_else(forged)?;
    let mut share = app.intake.of(network(peer.0));
    let body = extract::read_while(body, MOST_BYTES, |bytes| share.take(bytes)).await?;
    // Before anything of it is looked at.
    if !webhooks.listener.is_genuine(signature, &body) {
        return Err(forged());
    }
    let named = |name: &'static str| {
        let value = text(name).filter(|value| (1..=LONGEST_NAME).contains(&value.len()));
        let plain = |value: &&str| value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        value.filter(plain).ok_or_else(|| Problem::bad(name, "GitHub sends this header with every webhook"))
    };
    let (event, id) = (named(EVENT)?, named(DELIVERY)?);
    let now = app.clock.now();
    let told = webhooks.listener.translate(event, &body);
    let oldest = now.checked_sub(STALE).unwrap_or(now);
    let stale = |happening: &Happening| happening.at.is_some_and(|at| at < oldest);
    let status = match told.map_err(|error| Problem::bad("body", error.to_string()))? {
        None => {
            tell_of_unlabelled(&app, &webhooks, event, &body);
            "ignored"
        }
        Some(happening) if stale(&happening) => {
            let Happening { repository, by, .. } = happening;
            app.desk.notice(&format!("a webhook of {repository} by {by} started nothing: it is more than a week old"));
            "stale"
        }
        Some(_) => {
            let mut payload: Value =
                serde_json::from_slice(&body).map_err(|error| Problem::bad("body", error.to_string()))?;
            // What people write on GitHub is kept until it is acted on, without the secrets in it.
            clean(&app, &mut payload);
            let delivery = Delivery {
                id: format!("github:{}", digest(event, &body)),
                event: event.to_owned(),
                payload: payload.to_string(),
                received_at: now,
                tries: 0,
            };
            let kept = delivery.id.clone();
            let new = app.store.receive(delivery).await?;
            tracing::info!(number = id, delivery.id = kept, new, "a delivery of GitHub was received");
            if new { "queued" } else { "known" }
        }
    };
    Ok((StatusCode::ACCEPTED, Json(json!({ "status": status }))))
}

/// A new issue that is not meant for Harvest is the first thing that someone wonders about who tries it.
fn tell_of_unlabelled(app: &App, webhooks: &Webhooks, event: &str, body: &[u8]) {
    let payload: Value = match serde_json::from_slice(body) {
        Ok(payload) if event == "issues" => payload,
        _ => return,
    };
    // An issue that is opened with its label or its assignee is asked for by the next webhook.
    if webhooks.listener.is_meant_for_us(&payload["issue"]) {
        return;
    }
    if let (Some("opened"), Some(url)) = (payload["action"].as_str(), payload["issue"]["html_url"].as_str()) {
        let (label, login) = (webhooks.listener.label(), webhooks.listener.login());
        let reason = format!("it has no label `{label}`, and is not assigned to `{login}`");
        app.desk.notice(&app.engine.clean(&format!("the webhook `issues` of {url} started nothing: {reason}")));
    }
}

/// Each text by itself: a secret may end where its text does not.
fn clean(app: &App, value: &mut Value) {
    match value {
        Value::String(text) => *text = app.engine.clean(text),
        Value::Array(values) => values.iter_mut().for_each(|value| clean(app, value)),
        Value::Object(fields) => fields.values_mut().for_each(|value| clean(app, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Of what tells one delivery from another. The number in its header is not signed, so it does not.
fn digest(event: &str, body: &[u8]) -> String {
    let digest = Sha256::new().chain_update(event).chain_update([0]).chain_update(body).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
