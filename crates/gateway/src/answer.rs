//! What the gateway answers with: one body type for streams and short texts, and the answers that are its own.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::json;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body that fails makes the server cut the connection, which is how a cut upstream looks to the client.
pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The answer was ended before it was complete; the client sees a closed connection.
#[derive(Debug, thiserror::Error)]
#[error("the answer was cut")]
pub(crate) struct Cut;

/// To be awaited in a body before it fails: gives the server a turn to send what it has, which it otherwise discards.
pub(crate) async fn flushed() {
    tokio::task::yield_now().await;
}

pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

pub(crate) fn with_type(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub(crate) fn json(status: StatusCode, value: &serde_json::Value) -> Response<Body> {
    with_type(status, "application/json", full(value.to_string()))
}

pub(crate) fn text(status: StatusCode, message: impl Into<String>) -> Response<Body> {
    let mut message = message.into();
    message.push('\n');
    let mut response = with_type(status, "text/plain; charset=utf-8", full(message));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// For every path that leads nowhere: says what does exist.
pub(crate) fn not_found(path: &str, git: Option<&str>, registries: bool) -> Response<Body> {
    let models = ["/anthropic/v1/…", "/openai/v1/…", "/gemini/v1beta/…", "/ollama/api/…"];
    let mut available: Vec<String> = models.map(str::to_owned).into();
    available.extend(git.map(|name| format!("/git/{name}")));
    available.extend(registries.then(|| "/registry/{npm,pypi,cargo,…}/…".to_owned()));
    let shown: String = path.chars().take(200).collect();
    json(
        StatusCode::NOT_FOUND,
        &json!({ "error": { "message": format!("there is nothing at {shown}"), "available": available } }),
    )
}
