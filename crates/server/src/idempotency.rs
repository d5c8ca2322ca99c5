//! Asking twice is the same as asking once, for every POST with an `Idempotency-Key`.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use harvest_core::Code;
use harvest_store::{Answer, AnswerKey, Begun, IdempotencyKey};
use sha2::{Digest, Sha256};

use crate::auth::Principal;
use crate::extract;
use crate::problem::{self, Problem};
use crate::state::App;

pub const HEADER: &str = "idempotency-key";
/// Said of an answer that was given before.
pub const REPLAYED: &str = "idempotency-replayed";
const LONGEST: usize = 200;
/// A request that has not been answered for so long died with its server.
const STALE: Duration = Duration::from_secs(120);
/// How long answers are kept.
pub const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The key of the request under way, for whoever can do better than remember the answer.
#[derive(Debug, Clone)]
pub struct Key(AnswerKey);

impl Key {
    /// The same key again asks for nothing new even when the server died before it could remember its answer.
    pub fn for_the_store(self) -> IdempotencyKey {
        IdempotencyKey { key: format!("api {}", self.0.key), digest: self.0.digest }
    }

    /// Of several things that one request asks for, each has a key of its own.
    pub fn of_several(self, index: usize) -> IdempotencyKey {
        let IdempotencyKey { key, digest } = self.for_the_store();
        IdempotencyKey { key: if index == 0 { key } else { format!("{key} {index}") }, digest }
    }
}

pub async fn once(State(app): State<App>, request: Request, next: Next) -> Result<Response, Problem> {
    if request.method() != Method::POST {
        return Ok(next.run(request).await);
    }
    let Some(given) = request.headers().get(HEADER) else { return Ok(next.run(request).await) };
    let given = given.to_str().ok().filter(|key| !key.is_empty() && key.len() <= LONGEST);
    let Some(given) = given.map(str::to_owned) else {
        let detail = format!("the key is empty, longer than {LONGEST} bytes, or not ASCII");
        return Err(Problem::bad("Idempotency-Key", detail));
    };
    let user = request.extensions().get::<Principal>().map(|principal| principal.user.clone()).unwrap_or_default();
    let (mut parts, body) = request.into_parts();
    let body = extract::read(body).await?;
    let target = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let mut hash = Sha256::new();
    for part in [target.as_bytes(), &body] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let key = AnswerKey { key: format!("{user} {given}"), digest };
    let now = app.clock.now();
    match app.store.begin_answer(&key, now, now.checked_sub(STALE).unwrap_or(now)).await? {
        Begun::New => {}
        Begun::Answered(answer) => return Ok(again(answer)),
        Begun::UnderWay => {
            let detail = "the first request with this key is still being carried out";
            let problem = Problem::new(Code::KeyReused, detail).about("Idempotency-Key").retry_after(1);
            return Err(problem.help("ask again in a moment"));
        }
        Begun::Reused => {
            let detail = "the key was used for something else";
            let problem = Problem::new(Code::KeyReused, detail).about("Idempotency-Key");
            return Err(problem.with_status(StatusCode::UNPROCESSABLE_ENTITY).help("use a new key"));
        }
    }
    parts.extensions.insert(Key(key.clone()));
    let response = next.run(Request::from_parts(parts, body.into())).await;
    settle(&app, &key, response).await
}

/// What may turn out differently the next time is not remembered.
async fn settle(app: &App, key: &AnswerKey, response: Response) -> Result<Response, Problem> {
    let status = response.status();
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.map_err(|error| Problem::internal(&error))?;
    let text = String::from_utf8(bytes.to_vec()).ok();
    match text.filter(|_| !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS) {
        Some(body) => app.store.finish_answer(key, Answer { status: status.as_u16(), body }).await?,
        None => app.store.abandon_answer(key).await?,
    }
    Ok(Response::from_parts(parts, bytes.into()))
}

fn again(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let kind = if status.is_success() { "application/json" } else { problem::CONTENT_TYPE };
    let mut response = (status, answer.body).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}
