//! Asking twice is the same as asking once, for every POST with an `Idempotency-Key`.

use std::time::Duration;

use axum::Json;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use harvest_core::Code;
use harvest_engine::{check_name, failpoint};
use harvest_store::{Answer, AnswerKey, Begun, IdempotencyKey};
use sha2::{Digest, Sha256};

use crate::api::{again, record};
use crate::auth::{Principal, TOKEN_PREFIX};
use crate::extract;
use crate::problem::{self, Problem};
use crate::state::App;

pub const HEADER: &str = "idempotency-key";
/// Said of an answer that was given before.
pub const REPLAYED: &str = "idempotency-replayed";
/// What they make is known to the store by the key itself.
const WITH_KEYS: [&str; 6] =
    ["task.create", "session.create", "template.use", "session.prompt", "session.fork", "demo.begin"];
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
    let given = request.headers().get(HEADER).filter(|_| request.method() == Method::POST);
    let Some(given) = given else { return Ok(record::carry_out(&app, request, next, None).await) };
    let given = given.to_str().ok().filter(|key| !key.is_empty() && key.len() <= LONGEST);
    let Some(given) = given.map(str::to_owned) else {
        let detail = format!("the key is empty, longer than {LONGEST} bytes, or not ASCII");
        return Err(Problem::bad("Idempotency-Key", detail));
    };
    check_name("Idempotency-Key", &given)?;
    let principal = request.extensions().get::<Principal>().cloned();
    let Some(principal) = principal else { return Ok(next.run(request).await) };
    let (mut parts, body) = request.into_parts();
    let body = extract::read(body, extract::MOST_BYTES).await?;
    let target = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let mut hash = Sha256::new();
    for part in [target.as_bytes(), &body] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    // A name can have several tokens with different rights: what one of them was answered is not for the others.
    let key = AnswerKey { key: format!("{} {given}", principal.token), digest };
    let now = app.clock.now();
    match app.store.begin_answer(&key, now, now.checked_sub(STALE).unwrap_or(now)).await? {
        Begun::New => {}
        Begun::Answered(answer) => return Ok(again(answer)),
        Begun::Done { made } => {
            return done(&app, &principal, key, made, Request::from_parts(parts, body.into()), next).await;
        }
        Begun::UnderWay => {
            let detail = "the first request with this key is still being carried out";
            let problem = Problem::new(Code::KeyReused, detail).about("Idempotency-Key").retry_after(1);
            return Err(problem.help("ask again in a moment"));
        }
        Begun::Reused => {
            let detail = "the key was used for another request";
            let problem = Problem::new(Code::KeyReused, detail).about("Idempotency-Key");
            return Err(problem.with_status(StatusCode::UNPROCESSABLE_ENTITY).help("use a new key"));
        }
    }
    parts.extensions.insert(Key(key.clone()));
    let request = Request::from_parts(parts, body.into());
    let response = record::carry_out(&app, request, next, Some(key.clone())).await;
    settle(&app, &key, response).await
}

/// The request was carried out, and its server died before it could keep the answer.
async fn done(
    app: &App,
    principal: &Principal,
    key: AnswerKey,
    made: String,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();
    let rule = app.rules.get(request.method(), &path);
    let mut response = if rule.is_some_and(|rule| WITH_KEYS.contains(&rule.operation.as_str())) {
        // The store knows the key, too: it makes nothing new, and the answer is the one that was lost.
        request.extensions_mut().insert(Key(key));
        next.run(request).await
    } else {
        let (status, body) = again::answer(app, principal, &made).await?;
        (status, Json(body)).into_response()
    };
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

/// What may turn out differently the next time is not remembered, and an answer that shows a token never is: of that, only
/// what was made is known.
async fn settle(app: &App, key: &AnswerKey, response: Response) -> Result<Response, Problem> {
    failpoint::reach("answer::before")?;
    let status = response.status();
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.map_err(|error| Problem::internal(&error))?;
    let text = String::from_utf8(bytes.to_vec()).ok();
    let lasts = !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS;
    match text.filter(|body| lasts && !body.contains(TOKEN_PREFIX)) {
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
