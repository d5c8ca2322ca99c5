//! What GitHub tells us: checked, kept, answered at once, and acted on afterwards.
//!
//! A delivery is believed for its signature alone. It is kept under GitHub's own number for it, in the transaction that makes
//! it work to do; so of any number of copies one counts, also when the server dies in between.

mod act;
mod ask;
mod worker;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use harvest_core::Code;
use harvest_forge::github::webhook::{DELIVERY, EVENT, Listener, SIGNATURE};
use harvest_store::Delivery;
use serde_json::{Value, json};

pub use worker::{run, sweep};

use crate::extract;
use crate::problem::Problem;
use crate::state::App;

/// What GitHub sends at most.
const MOST_BYTES: usize = 25 << 20;
const LONGEST_NAME: usize = 100;

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
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let Some(webhooks) = &app.webhooks else {
        let help = "set GitHub up first: harvest github setup";
        return Err(Problem::new(Code::UnknownAddress, "no webhooks are expected here").help(help));
    };
    let body = extract::read(body, MOST_BYTES).await?;
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    // Before anything of it is looked at.
    if !text(SIGNATURE).is_some_and(|signature| webhooks.listener.is_genuine(signature, &body)) {
        let detail = "the signature is missing, or is not ours over this body";
        let help = "set the same secret on GitHub and in the credential: harvest github setup";
        let problem = Problem::new(Code::Forged, detail).about(SIGNATURE).help(help);
        return Err(problem.with_status(StatusCode::UNAUTHORIZED));
    }
    let named = |name: &'static str| {
        let value = text(name).filter(|value| (1..=LONGEST_NAME).contains(&value.len()));
        let plain = |value: &&str| value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        value.filter(plain).ok_or_else(|| Problem::bad(name, "GitHub sends this header with every webhook"))
    };
    let (event, id) = (named(EVENT)?, named(DELIVERY)?);
    let told = webhooks.listener.translate(event, &body);
    let status = match told.map_err(|error| Problem::bad("body", error.to_string()))? {
        None => "ignored",
        Some(_) => {
            let payload = String::from_utf8(body.to_vec()).map_err(|error| Problem::bad("body", error.to_string()))?;
            let delivery = Delivery {
                id: format!("github:{id}"),
                event: event.to_owned(),
                payload,
                received_at: app.clock.now(),
                tries: 0,
            };
            if app.store.receive(delivery).await? { "queued" } else { "known" }
        }
    };
    Ok((StatusCode::ACCEPTED, Json(json!({ "status": status }))))
}
