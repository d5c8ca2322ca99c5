//! For those who watch over the process.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::state::App;

/// The process lives.
pub async fn alive() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// It can do something: its database answers, and it is not about to end. Where its own agents take no work for the moment,
/// it says why.
pub async fn ready(State(app): State<App>) -> (StatusCode, Json<Value>) {
    if app.closing.is_requested() {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": "closing" })));
    }
    if app.draining.is_requested() {
        // The API answers until the last turn is over; new requests are better off elsewhere.
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": "draining" })));
    }
    match app.store.queue_settings().await {
        Ok(_) => match app.engine.vitals().holding() {
            Some(why) => (StatusCode::OK, Json(json!({ "status": "ok", "holding": why }))),
            None => (StatusCode::OK, Json(json!({ "status": "ok" }))),
        },
        Err(error) => {
            tracing::warn!(%error, "the database does not answer");
            (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": "no database", "code": error.code().as_str() })))
        }
    }
}
