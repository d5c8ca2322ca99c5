//! Requests that concern a task are part of its trace.

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use harvest_core::TaskId;
use harvest_telemetry::{Kind, Outcome, Span, SpanId, TraceId, request_span, task_span};
use serde_json::json;

use crate::auth::secret::Secret;
use crate::state::App;

/// Set by whoever acted on a task, or made one.
#[derive(Debug, Clone)]
pub struct About(pub TaskId);

/// In front of every operation of the API. Only what changes a task is told: looking at it is nothing that happened to it.
pub async fn trace(State(app): State<App>, request: Request, next: Next) -> Response {
    if !app.telemetry.is_on() {
        return next.run(request).await;
    }
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();
    let start = app.clock.now();
    let response = next.run(request).await;
    let Some(About(task)) = response.extensions().get::<About>().cloned() else { return response };
    let made = response.status() == axum::http::StatusCode::CREATED
        && ["/api/tasks", "/api/sessions"].contains(&route.as_str());
    let (id, parent) = if made {
        // The task itself is told below this one by whoever works on it.
        (request_span(&task), None)
    } else {
        let once = Secret::generate("").map(|secret| secret.digest()).unwrap_or_default();
        (SpanId::of(&task, &once), Some(task_span(&task)))
    };
    app.telemetry.send(vec![Span {
        trace: TraceId::of(&task),
        id,
        parent,
        name: format!("{method} {route}"),
        kind: Kind::Server,
        start,
        end: app.clock.now(),
        attributes: vec![
            ("http.request.method", json!(method.as_str())),
            ("http.route", json!(route)),
            ("http.response.status_code", json!(response.status().as_u16())),
        ],
        outcome: if response.status().is_server_error() { Outcome::Failed(String::new()) } else { Outcome::Unset },
    }]);
    response
}
