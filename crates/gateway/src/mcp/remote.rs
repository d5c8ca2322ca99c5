//! Servers with an address: the request goes there with the credential in it, and the answer comes back without the tools that
//! are not allowed.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::stream;
use harvest_core::{McpAddress, McpCredential, McpOutcome, McpServer, NamedBy};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use secrecy::ExposeSecret;
use serde_json::Value;

use super::events::Events;
use super::message::{self, Message, without_forbidden_tools};
use super::{CALL_LIMIT, Calling, MAX_MESSAGE, Recorder, Server};
use crate::answer::{self, Body, BoxError};
use crate::echo::{Echo, Filter};
use crate::model::{Clients, IDENTITY, unreadable_encoding};
use crate::service::Context;

/// What of a client's headers the server needs to see.
const PASSED_ON: [&str; 4] = ["accept", "mcp-session-id", "mcp-protocol-version", "last-event-id"];
/// And of the server's the client.
const PASSED_BACK: [&str; 4] = ["content-type", "cache-control", "mcp-session-id", "mcp-protocol-version"];
const EVENTS: &str = "text/event-stream";

pub(super) async fn post(
    server: &Server,
    head: &Parts,
    message: &Message,
    clients: &Clients,
    context: &Context,
) -> Response<Body> {
    let recorder = &context.mcp.recorder;
    let name = server.definition.name.as_str();
    let calling = Calling { recorder, server: name, tool: message.tool(), begun: Instant::now() };
    let mut extra = HeaderMap::new();
    extra.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Newer versions repeat in headers what the message says, for whoever stands in between: only what it really says.
    for (header, value) in [("mcp-method", message.method()), ("mcp-name", message.tool())] {
        let told = head.headers.contains_key(header).then_some(value).flatten();
        if let Some(value) = told.and_then(|value| HeaderValue::try_from(value).ok()) {
            extra.insert(HeaderName::from_static(header), value);
        }
    }
    // Written anew: the server cannot read another tool out of the same bytes.
    let body = Bytes::from(message.line(None, None));
    let answered = send(server, Method::POST, &head.headers, extra, body, clients, context).await;
    let (answered, echo) = match answered {
        Ok(answered) => answered,
        Err(failure) => {
            calling.ended(McpOutcome::Failed).await;
            return answer::json(StatusCode::OK, &message.refusal(message::SERVER_ERROR, &failure));
        }
    };
    if is_events(&answered) {
        let tool = message.tool().map(str::to_owned);
        let told =
            Told { recorder: Arc::clone(recorder), server: server.definition.clone(), tool, begun: calling.begun };
        return stream_back(answered, message.clone(), Some(told), server.definition.clone(), echo);
    }
    let head = response_head(&answered, echo.as_ref());
    let Ok(Ok(whole)) = tokio::time::timeout(CALL_LIMIT, collect(answered)).await else {
        calling.ended(McpOutcome::Failed).await;
        let reason = format!("the answer of {name} was cut off, or too large");
        return answer::json(StatusCode::OK, &message.refusal(message::SERVER_ERROR, &reason));
    };
    let mut whole = without(echo.as_ref(), whole);
    if let Ok(mut value) = serde_json::from_slice::<Value>(&whole) {
        calling.ended(message::outcome(&value)).await;
        if without_forbidden_tools(&mut value, &server.definition) {
            whole = value.to_string().into_bytes();
        }
    } else {
        calling.ended(if head.status().is_success() { McpOutcome::Answered } else { McpOutcome::Failed }).await;
        if message.asks_for_tools() && head.status().is_success() {
            // Nothing can be left out of it.
            let reason = format!("the list of tools of {name} is not JSON");
            return answer::json(StatusCode::OK, &message.refusal(message::SERVER_ERROR, &reason));
        }
    }
    head.map(|()| answer::full(whole))
}

/// A request without a message: the client listens for more, or says that it has done.
pub(super) async fn pass(server: &Server, head: &Parts, clients: &Clients, context: &Context) -> Response<Body> {
    let sent = send(server, head.method.clone(), &head.headers, HeaderMap::new(), Bytes::new(), clients, context).await;
    let (answered, echo) = match sent {
        Ok(answered) => answered,
        Err(failure) => return answer::text(StatusCode::BAD_GATEWAY, failure),
    };
    if is_events(&answered) {
        let nothing = Message::parse(b"{}").ok();
        return match nothing {
            Some(nothing) => stream_back(answered, nothing, None, server.definition.clone(), echo),
            None => answer::text(StatusCode::BAD_GATEWAY, "the stream cannot be read"),
        };
    }
    let head = response_head(&answered, echo.as_ref());
    match tokio::time::timeout(CALL_LIMIT, collect(answered)).await {
        Ok(Ok(whole)) => head.map(|()| answer::full(without(echo.as_ref(), whole))),
        _ => answer::text(StatusCode::BAD_GATEWAY, "the answer was cut off, or too large"),
    }
}

/// Sends a request. The answer comes with what finds the credential in it.
async fn send(
    server: &Server,
    method: Method,
    given: &HeaderMap,
    mut headers: HeaderMap,
    body: Bytes,
    clients: &Clients,
    context: &Context,
) -> Result<(reqwest::Response, Option<Echo>), String> {
    let mut echo = None;
    let McpServer { name, at, credential, named_by, .. } = &server.definition;
    let McpAddress::Url { url } = at else { return Err(format!("{name} has no address")) };
    for header in PASSED_ON.map(HeaderName::from_static) {
        if let Some(value) = given.get(&header) {
            headers.insert(header, value.clone());
        }
    }
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert(ACCEPT_ENCODING, IDENTITY);
    if let Some(credential) = credential {
        let (header, value) = authorise(credential, *named_by, context).await?;
        let text = value.to_str().unwrap_or_default();
        echo = Echo::of(text.strip_prefix("Bearer ").unwrap_or(text));
        headers.insert(header, value);
    }
    let client = clients.at(url, *named_by).map_err(|refused| format!("{name} cannot be reached: {refused}"))?;
    let sending = client.request(method, url).headers(headers).body(body).send();
    let answered = match tokio::time::timeout(CALL_LIMIT, sending).await {
        Ok(Ok(answered)) => answered,
        // The address may hold what is nobody's business here.
        Ok(Err(error)) => return Err(format!("{name} cannot be reached: {}", error.without_url())),
        Err(_) => return Err(format!("{name} did not answer in {} s", CALL_LIMIT.as_secs())),
    };
    match answered.status() {
        // Told as they are, they would make agents ask a person to sign in.
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Err(format!("{name} refused the credential (HTTP {})", answered.status().as_u16()))
        }
        // Neither the credential nor a forbidden tool would be found in it.
        _ => match unreadable_encoding(answered.headers()) {
            Some(encoding) => Err(format!(
                "{name} answered with the content-encoding `{encoding}`, though it was asked for `identity`: it must send its \
                 answers uncompressed"
            )),
            None => Ok((answered, echo)),
        },
    }
}

/// An answer without the credential it was asked for with.
fn without(echo: Option<&Echo>, whole: Vec<u8>) -> Vec<u8> {
    match echo {
        Some(echo) => echo.without(Bytes::from(whole)).to_vec(),
        None => whole,
    }
}

async fn authorise(
    credential: &McpCredential,
    host: NamedBy,
    context: &Context,
) -> Result<(HeaderName, HeaderValue), String> {
    let McpCredential { name, sent_as } = credential;
    let secret = context.session.credentials.secret(McpCredential::PROVIDER, name, host).await;
    let secret = secret.ok_or_else(|| super::program::no_credential(name))?;
    let secret = secret.expose_secret().trim();
    let is_bearer = sent_as.eq_ignore_ascii_case(McpCredential::BEARER_HEADER);
    let text = if is_bearer { format!("Bearer {secret}") } else { secret.to_owned() };
    let unfit = |_| format!("the credential `{name}` cannot be sent in the header {sent_as}");
    let header = HeaderName::try_from(sent_as.as_str()).map_err(|_| format!("{sent_as} is not a header name"))?;
    let mut value = HeaderValue::try_from(text).map_err(unfit)?;
    value.set_sensitive(true);
    Ok((header, value))
}

fn is_events(answered: &reqwest::Response) -> bool {
    let content_type = answered.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = content_type.and_then(|text| text.split(';').next()).map(str::trim);
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case(EVENTS))
}

fn response_head(answered: &reqwest::Response, echo: Option<&Echo>) -> Response<()> {
    let mut head = Response::new(());
    *head.status_mut() = answered.status();
    for header in PASSED_BACK.map(HeaderName::from_static) {
        if let Some(value) = answered.headers().get(&header) {
            head.headers_mut().insert(header, value.clone());
        }
    }
    if let Some(echo) = echo {
        echo.clean_headers(head.headers_mut());
    }
    head
}

async fn collect(mut answered: reqwest::Response) -> Result<Vec<u8>, BoxError> {
    let mut whole = Vec::new();
    while let Some(chunk) = answered.chunk().await? {
        if whole.len() + chunk.len() > MAX_MESSAGE {
            return Err("too large".into());
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole)
}

/// Who is to be told what came of a call, once.
#[derive(Debug)]
struct Told {
    recorder: Arc<dyn Recorder>,
    server: McpServer,
    tool: Option<String>,
    begun: Instant,
}

impl Told {
    async fn ended(self, outcome: McpOutcome) {
        let calling = Calling {
            recorder: &self.recorder,
            server: &self.server.name,
            tool: self.tool.as_deref(),
            begun: self.begun,
        };
        calling.ended(outcome).await;
    }
}

/// What a streamed answer is read with.
struct Reading {
    answered: reqwest::Response,
    events: Option<Events>,
    message: Message,
    told: Option<Told>,
    server: McpServer,
    filter: Option<Filter>,
}

fn stream_back(
    answered: reqwest::Response,
    message: Message,
    told: Option<Told>,
    server: McpServer,
    echo: Option<Echo>,
) -> Response<Body> {
    let head = response_head(&answered, echo.as_ref());
    let filter = echo.map(|echo| echo.filter());
    let events = Some(Events::new(message.asks_for_tools()));
    let reading = Reading { answered, events, message, told, server, filter };
    let pieces = stream::try_unfold(reading, |mut reading| async move {
        loop {
            let Some(events) = reading.events.as_mut() else { return Ok(None) };
            let read = match (reading.answered.chunk().await, &mut reading.filter) {
                (Ok(Some(chunk)), Some(filter)) => Ok(Some(filter.push(chunk))),
                // What was held back may end the last event.
                (Ok(None), Some(filter)) => Ok(Some(filter.finish()).filter(|held| !held.is_empty())),
                (read, _) => read,
            };
            let chunk = match read {
                Ok(Some(chunk)) => chunk,
                ended => {
                    let mut outcome = McpOutcome::Failed;
                    let (message, server) = (&reading.message, &reading.server);
                    let rest = reading.events.take().map(|events| {
                        events.rest(|value| {
                            if message.is_answered_by(value) {
                                outcome = message::outcome(value);
                            }
                            without_forbidden_tools(value, server)
                        })
                    });
                    let rest = rest.unwrap_or_default();
                    let outcome = if ended.is_ok() { outcome } else { McpOutcome::Failed };
                    if let Some(told) = reading.told.take() {
                        told.ended(outcome).await;
                    }
                    ended?;
                    if rest.is_empty() {
                        return Ok(None);
                    }
                    return Ok(Some((Frame::data(rest), reading)));
                }
            };
            let mut outcome = None;
            let (message, server) = (&reading.message, &reading.server);
            let out = events.feed(&chunk, |value| {
                if message.is_answered_by(value) {
                    outcome = Some(message::outcome(value));
                }
                without_forbidden_tools(value, server)
            })?;
            if let Some(outcome) = outcome
                && let Some(told) = reading.told.take()
            {
                told.ended(outcome).await;
            }
            if !out.is_empty() {
                return Ok::<_, BoxError>(Some((Frame::data(out), reading)));
            }
        }
    });
    head.map(|()| StreamBody::new(pieces).boxed_unsync())
}
