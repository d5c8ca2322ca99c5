//! Answers from a cassette.
//!
//! Requests of one conversation come one after another, so each gets the next answer that the cassette has for its
//! conversation, provided that it asks for the same. Conversations are told apart by how they begin, so any number of them
//! may go on side by side. The first request that is not as it was recorded ends the replay: from then on every request is
//! refused with what differed.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use serde_json::Value;
use tokio::sync::watch;

use super::file::{Answer, Exchange, Heading, VERSION};
use super::record::Redact;
use super::{CassetteError, differ, normal};
use crate::answer::{self, Body, BoxError, Cut};
use crate::model::Vendor;
use crate::script::{Asked, opening_of};

const MAX_FILE_BYTES: u64 = 1 << 30;
/// How much of a conversation's beginning is shown.
const SHOWN: usize = 100;

/// A cassette that is played.
pub struct Replay {
    heading: Heading,
    conversations: Mutex<BTreeMap<Conversation, VecDeque<Exchange>>>,
    redact: OnceLock<Redact>,
    /// Set once: the first difference.
    diverged: watch::Sender<Option<String>>,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("heading", &self.heading).finish_non_exhaustive()
    }
}

/// What tells conversations apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Conversation {
    /// With the model's name where the path has it.
    path: String,
    kind: Kind,
    /// What the user said first, without what is volatile; of a question about models, the whole of it.
    opening: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// It offers tools: what the agent works with.
    Work,
    /// A title, a summary.
    Aside,
    /// Lists of models, counts of tokens. Asked again, the answer is the same.
    Question,
}

impl Replay {
    /// Reads a cassette. Blocks on the file.
    pub fn load(path: &Path) -> Result<Self, CassetteError> {
        let unreadable = |source| CassetteError::Unreadable { path: path.to_owned(), source };
        let invalid = |line: usize, reason: String| CassetteError::Invalid { path: path.to_owned(), line, reason };
        let length = std::fs::metadata(path).map_err(unreadable)?.len();
        if length > MAX_FILE_BYTES {
            return Err(invalid(1, format!("the file is larger than {} MiB", MAX_FILE_BYTES >> 20)));
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
        let heading = lines.next().map(|(_, line)| line).unwrap_or_default();
        let version = serde_json::from_str::<Value>(heading).ok().and_then(|heading| heading["cassette"].as_u64());
        match version {
            Some(VERSION) => {}
            Some(other) => {
                return Err(invalid(1, format!("it has version {other} of the format; this Harvest reads {VERSION}")));
            }
            None => return Err(invalid(1, "it does not start with a cassette header".to_owned())),
        }
        let heading: Heading = serde_json::from_str(heading).map_err(|error| invalid(1, error.to_string()))?;
        let mut exchanges = Vec::new();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let exchange = serde_json::from_str::<Exchange>(line).map_err(|error| {
                // The line is ours to tell; each is a document of its own to the parser.
                let reason = error.to_string();
                invalid(number, reason.split(" at line ").next().unwrap_or_default().to_owned())
            })?;
            exchanges.push(exchange);
        }
        exchanges.sort_by_key(|exchange| exchange.n);
        let mut conversations: BTreeMap<Conversation, VecDeque<Exchange>> = BTreeMap::new();
        for mut exchange in exchanges {
            let conversation = conversation(&exchange.method, &exchange.path, &exchange.request);
            normal::value(&mut exchange.request);
            conversations.entry(conversation).or_default().push_back(exchange);
        }
        let (redact, diverged) = (OnceLock::new(), watch::Sender::new(None));
        Ok(Self { heading, conversations: Mutex::new(conversations), redact, diverged })
    }

    /// Takes secrets out of requests as was done when they were recorded, so that they are the same.
    pub fn redact_with(&self, redact: Redact) {
        let _ = self.redact.set(redact);
    }

    pub fn heading(&self) -> &Heading {
        &self.heading
    }

    /// Waits until the run does something else than was recorded, and says what.
    pub async fn diverged(&self) -> String {
        let mut diverged = self.diverged.subscribe();
        loop {
            let reason = diverged.borrow_and_update().clone();
            if let Some(reason) = reason {
                return reason;
            }
            if diverged.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// What the run did otherwise than was recorded, if it has.
    pub fn divergence(&self) -> Option<String> {
        self.diverged.borrow().clone()
    }

    /// What differed, if anything did; of a run that has ended, also what it left out.
    pub fn difference(&self) -> Option<String> {
        if let Some(reason) = self.divergence() {
            return Some(reason);
        }
        let conversations = self.conversations.lock().unwrap_or_else(PoisonError::into_inner);
        let (conversation, rest) =
            conversations.iter().find(|(conversation, rest)| conversation.kind == Kind::Work && !rest.is_empty())?;
        let n = rest.front().map_or(0, |exchange| exchange.n);
        Some(format!(
            "the run ended before request {n} of the cassette, of the conversation that begins {:?}",
            shorten(&conversation.opening)
        ))
    }

    pub(crate) fn answer(&self, asked: Asked<'_>, method: &Method) -> Response<Body> {
        match self.next(asked, method) {
            Ok(answer) => play(answer),
            Err(reason) => refuse(asked.vendor, &reason),
        }
    }

    fn next(&self, asked: Asked<'_>, method: &Method) -> Result<Answer, String> {
        if let Some(reason) = self.divergence() {
            return Err(reason);
        }
        let query = asked.query.map(|query| format!("?{query}")).unwrap_or_default();
        let path = format!("/{}/{}{query}", asked.vendor.id(), asked.path);
        let text = String::from_utf8_lossy(asked.body);
        let text = self.redact.get().map_or_else(|| text.to_string(), |redact| redact(&text));
        let mut request: Value = match text.as_str() {
            "" => Value::Null,
            text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
        };
        let key = conversation(method.as_str(), &path, &request);
        normal::value(&mut request);
        let found = self.take(&key, &request);
        if let Err(reason) = &found {
            self.diverged.send_if_modified(|known| known.is_none().then(|| *known = Some(reason.clone())).is_some());
        }
        found
    }

    fn take(&self, key: &Conversation, request: &Value) -> Result<Answer, String> {
        let mut conversations = self.conversations.lock().unwrap_or_else(PoisonError::into_inner);
        let opening = shorten(&key.opening);
        let Some(rest) = conversations.get_mut(key) else {
            return Err(format!("the cassette has no request to {} that begins {opening:?}", key.path));
        };
        let Some(exchange) = rest.front() else {
            return Err(format!("the cassette has no further request to {} that begins {opening:?}", key.path));
        };
        if let Some(differ::Difference { place, recorded, sent }) = differ::first(&exchange.request, request) {
            return Err(format!(
                "request {} of the cassette, to {}, differs at {place}: recorded is {recorded}, the run sends {sent}",
                exchange.n, key.path
            ));
        }
        let answer = exchange.answer.clone();
        if key.kind != Kind::Question || rest.len() > 1 {
            rest.pop_front();
        }
        Ok(answer)
    }
}

fn conversation(method: &str, path: &str, request: &Value) -> Conversation {
    let bare = path.split_once('?').map_or(path, |(bare, _)| bare);
    let endpoint = Vendor::of_path(bare).and_then(|(vendor, rest)| {
        let method = Method::from_bytes(method.as_bytes()).ok()?;
        vendor.endpoint(&method, rest)
    });
    let opening = endpoint.filter(|endpoint| endpoint.generates()).and_then(|endpoint| opening_of(endpoint, request));
    let (kind, opening) = match opening {
        Some(opening) if opening.offers_tools => (Kind::Work, opening.text),
        Some(opening) => (Kind::Aside, opening.text),
        None => (Kind::Question, request.to_string()),
    };
    Conversation { path: normal::text(path).into_owned(), kind, opening: normal::text(&opening).into_owned() }
}

fn refuse(vendor: Vendor, reason: &str) -> Response<Body> {
    let mut response = vendor.error(StatusCode::BAD_REQUEST, &format!("the replay diverged: {reason}"));
    response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
    response
}

/// The recorded answer, in the pieces in which it came.
fn play(recorded: Answer) -> Response<Body> {
    let end = recorded.cut.then(|| Err(BoxError::from(Cut)));
    let pieces = recorded.pieces.into_iter().map(|piece| Ok(Bytes::from(piece))).chain(end);
    let frames = stream::iter(pieces).then(|piece: Result<Bytes, BoxError>| async move {
        if piece.is_err() {
            answer::flushed().await;
        }
        piece.map(Frame::data)
    });
    let mut response = Response::new(BodyExt::boxed_unsync(StreamBody::new(frames)));
    *response.status_mut() = StatusCode::from_u16(recorded.status).unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in &recorded.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn shorten(text: &str) -> String {
    let short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() { short + "…" } else { short }
}
