//! Plays a script: finds the reply to a request and sends it, with the delays and failures that the script asks for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use harvest_core::{Cost, Price};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::{Response, StatusCode};
use serde_json::Value;

use super::conversation::{self, Place, Reply, ReplyId, Request, ToolCall};
use super::format::Reply as Planned;
use super::wire::{self, Wire};
use super::{Script, tools};
use crate::answer::{self, Body, BoxError, Cut};
use crate::model::{Endpoint, Vendor};

/// What has fired is forgotten beyond this many; a script is not played to that many sessions in earnest.
const MAX_FIRED: usize = 100_000;

/// A script and which of its failures have happened.
#[derive(Debug)]
pub(crate) struct Player {
    script: Arc<Script>,
    fired: Mutex<BTreeSet<(String, usize, usize, Control)>>,
}

/// What happens once per session, conversation and reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Control {
    Status,
    Stall,
    Cut,
}

/// What a client asks for, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) vendor: Vendor,
    pub(crate) endpoint: Endpoint,
    /// Below the vendor's.
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    pub(crate) body: &'a [u8],
}

/// How an answer is sent.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    chunk_delay: Duration,
    stall: Duration,
    cut_after: Option<usize>,
}

impl Player {
    pub(crate) fn new(script: Arc<Script>) -> Self {
        Self { script, fired: Mutex::default() }
    }

    pub(crate) fn model(&self) -> &str {
        self.script.model()
    }

    pub(crate) fn price(&self) -> Price {
        self.script.file.price
    }

    /// What the answer to this request will cost.
    pub(crate) fn cost_of(&self, asked: Asked<'_>) -> Cost {
        let request = wire::of(asked)
            .and_then(|wire| wire.decode(&serde_json::from_slice(asked.body).ok()?).ok())
            .unwrap_or_default();
        match conversation::place(&self.script.file, &request) {
            Ok(Place::At { reply, .. }) => self.price().of(&reply.tokens.usage()),
            Ok(Place::Aside | Place::Past) | Err(_) => Cost::ZERO,
        }
    }

    /// Answers an endpoint that generates nothing.
    pub(crate) fn inform(&self, asked: Asked<'_>) -> Response<Body> {
        answer::json(StatusCode::OK, &wire::inform(asked, self.model()))
    }

    /// Answers a request for a reply.
    pub(crate) async fn answer(&self, session: &str, asked: Asked<'_>) -> Response<Body> {
        let refuse = |message: &str| asked.vendor.error(StatusCode::BAD_REQUEST, message);
        let Some(wire) = wire::of(asked) else {
            return refuse("the scripted model does not speak this wire format");
        };
        let request = match serde_json::from_slice(asked.body)
            .map_err(|error| error.to_string())
            .and_then(|body: Value| wire.decode(&body))
        {
            Ok(request) => request,
            Err(reason) => {
                return refuse(&format!("the request's body cannot be parsed: {reason}"));
            }
        };
        let (id, planned) = match conversation::place(&self.script.file, &request) {
            Ok(Place::Aside) => {
                return send(wire, &request, &self.short("aside", &request, "ok"), Pace::default());
            }
            Ok(Place::Past) => {
                return send(wire, &request, &self.short("past", &request, "Done."), Pace::default());
            }
            Ok(Place::At { id, reply }) => (id, reply),
            Err(reason) => return refuse(&reason),
        };
        let reply = match self.reply(&request, id, planned) {
            Ok(reply) => reply,
            Err(reason) => return refuse(&reason),
        };
        let file = &self.script.file;
        if let Some(delay) = planned.delay.or(file.delay) {
            tokio::time::sleep(delay.0).await;
        }
        let fires = |control| self.fires(session, id, control);
        if let Some(status) = planned.status.filter(|_| fires(Control::Status)) {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            return asked
                .vendor
                .error(status, &format!("the model script answers this request with status {}", status.as_u16()));
        }
        let pace = Pace {
            chunk_delay: planned.chunk_delay.or(file.chunk_delay).map_or(Duration::ZERO, |delay| delay.0),
            stall: planned.stall.filter(|_| fires(Control::Stall)).map_or(Duration::ZERO, |stall| stall.0),
            cut_after: planned.cut_after.filter(|_| fires(Control::Cut)).map(|chunks| chunks as usize),
        };
        if !request.stream {
            tokio::time::sleep(pace.stall).await;
        }
        send(wire, &request, &reply, pace)
    }

    fn fires(&self, session: &str, id: ReplyId, control: Control) -> bool {
        let mut fired = self.fired.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if fired.len() >= MAX_FIRED {
            fired.clear();
        }
        fired.insert((session.to_owned(), id.conversation, id.index, control))
    }

    fn short(&self, place: &str, request: &Request, text: &str) -> Reply {
        Reply {
            id: format!("{place}_{}", request.assistant_count + 1),
            model: self.model().to_owned(),
            text: text.to_owned(),
            ..Reply::default()
        }
    }

    fn reply(&self, request: &Request, id: ReplyId, planned: &Planned) -> Result<Reply, String> {
        let mut calls = Vec::new();
        for (number, action) in planned.actions().iter().enumerate() {
            let (name, input) = tools::fit(action, &request.tools)?;
            let kind =
                request.tools.iter().find(|offer| offer.name == name).map(|offer| offer.kind).unwrap_or_default();
            calls.push(ToolCall { id: format!("{id}_{}", number + 1), name, kind, input });
        }
        let silent = planned.say.as_ref().is_none_or(String::is_empty) && calls.is_empty();
        let text = if silent { "Done.".to_owned() } else { planned.say.clone().unwrap_or_default() };
        Ok(Reply { id: id.to_string(), model: self.model().to_owned(), text, calls, tokens: planned.tokens })
    }
}

fn send(wire: &dyn Wire, request: &Request, reply: &Reply, pace: Pace) -> Response<Body> {
    if request.stream {
        let body = paced(wire.stream(reply), pace);
        return answer::with_type(StatusCode::OK, wire.stream_type(), body);
    }
    let document = wire.document(reply).to_string();
    let body = if pace.cut_after.is_some() {
        let start = Bytes::from(document).split_to(1);
        BodyExt::boxed_unsync(StreamBody::new(stream::iter([Ok(Frame::data(start)), Err(BoxError::from(Cut))])))
    } else {
        answer::full(document)
    };
    answer::with_type(StatusCode::OK, "application/json", body)
}

/// The stream, piece by piece, each after its pause.
fn paced(streamed: wire::Streamed, pace: Pace) -> Body {
    let count = streamed.chunks.len();
    let kept = pace.cut_after.map_or(count, |after| after.min(count));
    let chunks = streamed.chunks.into_iter().take(kept).enumerate().map(move |(number, chunk)| {
        let pause = if number == 0 { pace.stall } else { pace.chunk_delay };
        (pause, Ok(chunk))
    });
    // With nothing to say before it, the silence comes before the end.
    let pause = if kept == 0 { pace.stall } else { Duration::ZERO };
    let end = if pace.cut_after.is_some() { Err(BoxError::from(Cut)) } else { Ok(streamed.closing) };
    let opening = Some(streamed.opening).filter(|opening| !opening.is_empty());
    let opening = opening.map(|opening| (Duration::ZERO, Ok(opening)));
    let pieces = opening.into_iter().chain(chunks).chain([(pause, end)]);
    pauses(pieces)
}

fn pauses(pieces: impl Iterator<Item = (Duration, Result<Bytes, BoxError>)> + Send + 'static) -> Body {
    let frames = stream::iter(pieces).then(|(pause, piece)| async move {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        if piece.is_err() {
            answer::flushed().await;
        }
        piece.map(Frame::data)
    });
    BodyExt::boxed_unsync(StreamBody::new(frames))
}
