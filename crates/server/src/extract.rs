//! Reading requests. Whatever cannot be read is answered with the name of what is wrong.

use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use harvest_core::Code;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::problem::Problem;

/// Of a body.
pub const MOST_BYTES: usize = 1024 * 1024;
/// Of the rest of a body that is too large.
const MOST_DROPPED: usize = 16 * 1024 * 1024;
/// Until a body has arrived.
const PATIENCE: Duration = Duration::from_secs(30);

/// A body of JSON.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            let detail = "the body must be JSON, and its content type must say so";
            let problem = Problem::new(Code::BadRequest, detail).about("Content-Type");
            let status = axum::http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(problem.with_status(status).help("send `Content-Type: application/json`"));
        }
        let bytes = read(request.into_body(), MOST_BYTES).await?;
        if bytes.is_empty() {
            return Err(
                Problem::bad("body", "the body is empty").help("send a JSON object; `{}` leaves every field out")
            );
        }
        parse(&bytes).map(Self)
    }
}

/// A name of a person, a token or a project, as someone writes it: it is stored and shown.
pub fn check_name(field: &str, text: &str) -> Result<(), Problem> {
    const LONGEST: usize = 200;
    if text.trim().is_empty() || text.len() > LONGEST || text.contains(char::is_control) {
        let detail = format!("it is empty, longer than {LONGEST} bytes, or has control characters");
        return Err(Problem::bad(field, detail));
    }
    Ok(harvest_engine::check_name(field, text)?)
}

/// An object as the document describes it: an array of its fields' values is none, and `37.0` is a whole number.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut value: Value = serde_json::from_slice(bytes).map_err(|error| Problem::bad("body", error.to_string()))?;
    if !value.is_object() {
        return Err(Problem::bad("body", "the body is not an object"));
    }
    settle(&mut value);
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "body".to_owned() } else { path };
        Problem::bad(field, error.inner().to_string())
    })
}

/// Whole numbers that were written with a point become what they are.
fn settle(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15);
            if let Some(whole) = whole {
                *number = (whole as i64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(settle),
        Value::Object(fields) => fields.values_mut().for_each(settle),
        _ => {}
    }
}

/// All of a body, if it has at most `most` bytes and does not take for ever.
///
/// The rest of a body that is too large is read and dropped, up to a bound: a client that is still sending when the
/// connection closes would lose the answer that tells it why.
pub async fn read(body: axum::body::Body, most: usize) -> Result<Bytes, Problem> {
    read_while(body, most, |_| true).await
}

/// The same, as long as there is room for what arrives.
pub async fn read_while(
    body: axum::body::Body,
    most: usize,
    has_room: impl FnMut(usize) -> bool,
) -> Result<Bytes, Problem> {
    let reading = tokio::time::timeout(PATIENCE, collect(body, most, has_room)).await;
    match reading {
        Ok(Ok(Collected::All(bytes))) => Ok(bytes),
        Ok(Ok(Collected::TooLarge)) => {
            let detail = format!("the body has more than {most} bytes");
            Err(Problem::new(Code::TooLarge, detail).about("body").help("put long texts into a file of the repository"))
        }
        Ok(Ok(Collected::NoRoom)) => {
            let detail = "the server is receiving too many bodies at once";
            let problem = Problem::new(Code::TooMany, detail).help("send it again in a moment");
            Err(problem.with_status(axum::http::StatusCode::SERVICE_UNAVAILABLE))
        }
        Ok(Err(error)) => Err(Problem::bad("body", format!("the body ended early: {error}"))),
        Err(_) => {
            let detail = format!("the body did not arrive within {} s", PATIENCE.as_secs());
            Err(Problem::bad("body", detail).with_status(axum::http::StatusCode::REQUEST_TIMEOUT))
        }
    }
}

enum Collected {
    All(Bytes),
    TooLarge,
    NoRoom,
}

async fn collect(
    mut body: axum::body::Body,
    most: usize,
    mut has_room: impl FnMut(usize) -> bool,
) -> Result<Collected, axum::Error> {
    let (mut bytes, mut received) = (BytesMut::new(), 0);
    while received <= most.saturating_add(MOST_DROPPED) {
        let Some(frame) = body.frame().await else {
            return Ok(if received <= most { Collected::All(bytes.freeze()) } else { Collected::TooLarge });
        };
        let Ok(data) = frame?.into_data() else { continue };
        received += data.len();
        if received > most {
            bytes = BytesMut::new();
        } else if has_room(data.len()) {
            bytes.extend_from_slice(&data);
        } else {
            return Ok(Collected::NoRoom);
        }
    }
    Ok(Collected::TooLarge)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json"
}

/// What stands behind the question mark.
#[derive(Debug)]
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Self(params)),
            Err(rejection) => {
                let text = rejection.body_text();
                let text = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
                let field = text.split_once(": ").map_or("query", |(field, _)| field).to_owned();
                let field = if field.contains(' ') { "query".to_owned() } else { field };
                Err(Problem::bad(field, text))
            }
        }
    }
}

/// An id in the path. What is no id is the id of nothing.
#[derive(Debug)]
pub struct Id<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(id)) => Ok(Self(id)),
            Err(_) => {
                let given = RawPathParams::from_request_parts(parts, state).await.ok();
                Err(Problem::new(Code::UnknownAddress, not_an_id(given.iter().flatten().map(|(_, value)| value)))
                    .about("path")
                    .help("IDs have 16 characters from 0-9 and a-z without i, l, o, u"))
            }
        }
    }
}

/// Names the one value of the path, if it is short and plain.
fn not_an_id<'v>(mut values: impl Iterator<Item = &'v str>) -> String {
    const LONGEST: usize = 32;
    let is_plain = |value: &&str| {
        (1..=LONGEST).contains(&value.len())
            && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    match (values.next().filter(is_plain), values.next()) {
        (Some(value), None) => format!("`{value}` is not a valid ID"),
        _ => "the path holds no valid ID".to_owned(),
    }
}
