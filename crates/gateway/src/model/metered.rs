//! A call that is being metered, and the body that carries its answer to the client.
//!
//! The promise: however a call ends, it is settled exactly once; and the client does not get the end of the answer before
//! that is done, while every earlier byte passes at once.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt, stream};
use harvest_core::{Cost, Price, Usage};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;

use super::Endpoint;
use super::usage::{End, HUNG_UP, Known, Reader};
use crate::answer::{self, Body, BoxError};
use crate::meter::Call;
use crate::prices::Prices;
use crate::service::Context;

/// What a call costs, and whether bytes are counted where the answer tells no tokens.
#[derive(Debug, Clone)]
pub(super) enum Tariff {
    Table { vendor: &'static str, prices: Arc<Prices>, request_bytes: u64 },
    Script(Price),
}

/// Between admission and settlement. Dropped unsettled, it settles by itself: the client hung up or the session ended.
#[derive(Debug)]
pub(super) struct OpenCall {
    context: Arc<Context>,
    tariff: Tariff,
    endpoint: Endpoint,
    requested_model: String,
    started: Instant,
    status: u16,
    /// Gone once settled.
    reader: Option<Reader>,
}

impl OpenCall {
    pub(super) fn new(context: &Arc<Context>, tariff: Tariff, endpoint: Endpoint, requested_model: String) -> Self {
        Self {
            context: Arc::clone(context),
            tariff,
            endpoint,
            requested_model,
            started: Instant::now(),
            status: HUNG_UP,
            reader: Some(Reader::new(endpoint, "")),
        }
    }

    /// The head of an answer has come.
    pub(super) fn answered(&mut self, status: u16, content_type: &str) {
        self.status = status;
        self.reader = Some(Reader::new(self.endpoint, content_type));
    }

    /// The request never reached a model: nothing to settle.
    pub(super) fn forget(mut self) {
        self.reader = None;
    }

    /// No answer came, though one was asked for.
    pub(super) async fn failed(mut self, status: u16) {
        self.status = status;
        self.settle().await;
    }

    /// Settles, once, in a task that goes on should the caller be dropped while it waits.
    async fn settle(&mut self) {
        let Some(call) = self.take() else { return };
        let meter = Arc::clone(&self.context.session.meter);
        let settled = self.context.tasks.spawn(async move { meter.settle(call).await });
        if let Err(error) = settled.await {
            tracing::error!(session = self.context.session.id, %error, "a model call could not be settled");
        }
    }

    fn take(&mut self) -> Option<Call> {
        let reader = self.reader.take()?;
        let (provider, request_bytes) = match &self.tariff {
            Tariff::Table { vendor, request_bytes, .. } => (*vendor, Some(*request_bytes)),
            Tariff::Script(_) => ("scripted", None),
        };
        let Known { model, usage, cache_write_1h, estimated } = reader.finish(self.status, request_bytes);
        let model = model.unwrap_or_else(|| std::mem::take(&mut self.requested_model));
        let (cost, price_is_a_guess) = self.cost(&model, &usage, cache_write_1h);
        Some(Call {
            provider: provider.to_owned(),
            model,
            usage,
            cost,
            estimated: estimated || price_is_a_guess,
            status: self.status,
            duration: self.started.elapsed(),
        })
    }

    fn cost(&self, model: &str, usage: &Usage, cache_write_1h: u64) -> (Cost, bool) {
        match &self.tariff {
            _ if *usage == Usage::default() => (Cost::ZERO, false),
            Tariff::Table { vendor, prices, .. } => prices.cost(vendor, model, usage, cache_write_1h),
            Tariff::Script(price) => (price.of(usage), false),
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let Some(call) = self.take() else { return };
        let meter = Arc::clone(&self.context.session.meter);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                self.context.tasks.spawn_on(async move { meter.settle(call).await }, &runtime);
            }
            Err(_) => tracing::error!(session = self.context.session.id, ?call, "a model call was not settled"),
        }
    }
}

struct Answer {
    source: Pin<Box<dyn Stream<Item = Result<Bytes, BoxError>> + Send>>,
    call: OpenCall,
    is_stream: bool,
    /// What may pass only when the call is settled.
    held: Option<Bytes>,
    /// `held` is the end, whatever may follow.
    complete: bool,
    ended: bool,
}

/// The answer's bytes, unchanged, read on the side.
pub(super) fn body(source: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static, call: OpenCall) -> Body {
    let is_stream = call.reader.as_ref().is_some_and(Reader::is_stream);
    let answer = Answer { source: Box::pin(source), call, is_stream, held: None, complete: false, ended: false };
    let frames = stream::unfold(answer, Answer::next).map(|chunk| chunk.map(Frame::data));
    BodyExt::boxed_unsync(StreamBody::new(frames))
}

impl Answer {
    async fn next(mut self) -> Option<(Result<Bytes, BoxError>, Self)> {
        if std::mem::take(&mut self.complete) {
            self.call.settle().await;
            if let Some(end) = self.held.take() {
                return Some((Ok(end), self));
            }
        }
        while !self.ended {
            match self.source.next().await {
                Some(Ok(chunk)) => {
                    let passing = if self.is_stream { self.pass_events(chunk) } else { self.pass_document(chunk) };
                    if !passing.is_empty() {
                        return Some((Ok(passing), self));
                    }
                    if std::mem::take(&mut self.complete) {
                        self.call.settle().await;
                        if let Some(end) = self.held.take() {
                            return Some((Ok(end), self));
                        }
                    }
                }
                Some(Err(error)) => {
                    self.call.settle().await;
                    (self.ended, self.held) = (true, None);
                    answer::flushed().await;
                    return Some((Err(error), self));
                }
                None => {
                    self.call.settle().await;
                    self.ended = true;
                    if let Some(end) = self.held.take() {
                        return Some((Ok(end), self));
                    }
                }
            }
        }
        None
    }

    /// Of a stream, what precedes its last event passes; from there on it is held. What only seemed the last passes with
    /// what follows it.
    fn pass_events(&mut self, chunk: Bytes) -> Bytes {
        let end = self.call.reader.as_mut().and_then(|reader| reader.feed(&chunk));
        let held = self.held.take();
        let before = held.as_ref().map_or(0, Bytes::len);
        let mut passing = joined(held, chunk);
        self.complete = matches!(end, Some(End::Here(_)));
        self.held = match end {
            Some(End::Here(at) | End::Likely(at)) => Some(passing.split_off(before + at)),
            Some(End::StillLikely) => Some(std::mem::take(&mut passing)),
            None => None,
        };
        passing
    }

    /// Of a document, which may end anywhere, all but the last byte passes.
    fn pass_document(&mut self, mut chunk: Bytes) -> Bytes {
        if chunk.is_empty() {
            return chunk;
        }
        if let Some(reader) = &mut self.call.reader {
            reader.feed(&chunk);
        }
        let last = chunk.split_off(chunk.len() - 1);
        joined(self.held.replace(last), chunk)
    }
}

fn joined(before: Option<Bytes>, chunk: Bytes) -> Bytes {
    match before {
        None => chunk,
        Some(before) => {
            let mut joined = BytesMut::with_capacity(before.len() + chunk.len());
            joined.extend_from_slice(&before);
            joined.extend_from_slice(&chunk);
            joined.freeze()
        }
    }
}
