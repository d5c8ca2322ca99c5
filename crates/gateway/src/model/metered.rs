//! A call that is being metered, and the body that carries its answer to the client.
//!
//! The promise: however a call ends, it is settled exactly once; and the client does not get the end of the answer before
//! that is done, while every earlier byte passes at once.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt, stream};
use harvest_core::budget::Range;
use harvest_core::{Cost, Price, Remedy, Usage};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio_util::sync::CancellationToken;

use super::edit::Head;
use super::lane::Permit;
use super::usage::{BYTES_PER_TOKEN, End, HUNG_UP, Known, Reader, Tier};
use super::{Endpoint, Upstream};
use crate::answer::{self, Body, BoxError};
use crate::meter::{Call, Grant, Trouble};
use crate::prices::{Prices, Terms};
use crate::service::Context;

/// The provider of calls that a script answers.
pub(super) const SCRIPTED: &str = "scripted";
/// What a request that sets no limit is expected to generate at most.
const USUAL_OUTPUT: u64 = 16_384;
/// No model generates more, whatever a request allows.
const MOST_OUTPUT: u64 = 2_000_000;
/// No call uses more; a host that says so is not believed, but what it says must fit into a ledger.
const MOST_TOKENS: u64 = 1_000_000_000;
/// Text of few bytes a token is dear: what a request may cost at most.
const FEWEST_BYTES_PER_TOKEN: u64 = 3;
/// Uses of server tools that are set aside for a request which sets no bound.
const USUAL_USES: u64 = 10;
/// What a model may have thought without showing it, in each second of an answer that was cut off.
const HIDDEN_TOKENS_PER_SECOND: u64 = 100;
/// The running cost of a stream is looked at after so many bytes.
const LOOK_EVERY: usize = 2048;

/// What a call costs, and whether bytes are counted where the answer tells no tokens.
#[derive(Debug, Clone)]
pub(super) enum Tariff {
    Table { vendor: &'static str, prices: Arc<Prices>, request_bytes: u64, terms: Terms },
    Script(Price),
}

impl Tariff {
    pub(super) fn provider(&self) -> &'static str {
        match self {
            Self::Table { vendor, .. } => vendor,
            Self::Script(_) => SCRIPTED,
        }
    }

    fn request_bytes(&self) -> Option<u64> {
        match self {
            Self::Table { request_bytes, .. } => Some(*request_bytes),
            Self::Script(_) => None,
        }
    }

    /// From all of the request being read from a cache and a short answer, to all of it being written to one and answers, as
    /// many as are asked for, as long as they may be.
    pub(super) fn range(&self, model: &str, asked: &Head) -> Range {
        let Self::Table { vendor, prices, request_bytes, terms } = self else { return Range::default() };
        let one = asked.most_output.unwrap_or(USUAL_OUTPUT).min(MOST_OUTPUT);
        let output_tokens = one.saturating_mul(asked.answers).saturating_mul(asked.passes).min(MOST_TOKENS);
        let cost = |usage: Usage| prices.cost(vendor, model, terms.tier.as_deref(), &usage, 0, terms.input).0;
        let tokens = request_bytes.div_ceil(FEWEST_BYTES_PER_TOKEN).saturating_mul(asked.passes);
        let fresh = cost(Usage { input_tokens: tokens, output_tokens, ..Usage::default() });
        let kept = cost(Usage { cache_write_tokens: tokens, output_tokens, ..Usage::default() });
        let read = request_bytes / BYTES_PER_TOKEN;
        let least = cost(Usage { cache_read_tokens: read, ..Usage::default() });
        Range { least, most: fresh.max(kept) + self.most_fees() }
    }

    /// What the uses of server tools may cost that the request allows.
    fn most_fees(&self) -> Cost {
        let Self::Table { vendor, prices, terms, .. } = self else { return Cost::ZERO };
        let dearest = terms.tools.iter().map(|tool| prices.fee(vendor, tool)).max().unwrap_or_default();
        times(dearest, terms.most_uses.unwrap_or(USUAL_USES))
    }

    /// What the uses cost that the answer told of. An answer that told of none is charged with all that were set aside.
    fn fees(&self, uses: &BTreeMap<&'static str, u64>) -> Cost {
        let Self::Table { vendor, prices, terms, .. } = self else { return Cost::ZERO };
        if terms.tools.is_empty() {
            return Cost::ZERO;
        }
        let tells = matches!(*vendor, "anthropic" | "openai") && !terms.tools.contains(&"other");
        if !tells {
            return self.most_fees();
        }
        uses.iter().map(|(tool, uses)| times(prices.fee(vendor, tool), *uses)).fold(Cost::ZERO, |sum, one| sum + one)
    }

    /// And whether no price is known.
    fn cost(&self, model: &str, tier: Option<&Tier>, usage: &Usage, cache_write_1h: u64) -> (Cost, bool) {
        match self {
            _ if *usage == Usage::default() => (Cost::ZERO, false),
            Self::Table { vendor, prices, terms, .. } => {
                let tier = match tier {
                    Some(Tier::Ordinary) => None,
                    Some(Tier::Extra(tier)) => Some(tier.as_str()),
                    None => terms.tier.as_deref(),
                };
                prices.cost(vendor, model, tier, usage, cache_write_1h, terms.input)
            }
            Self::Script(price) => (price.of(usage), false),
        }
    }

    /// Whether the model has a price of its own.
    fn knows(&self, model: &str) -> bool {
        match self {
            Self::Table { vendor, prices, .. } => prices.knows(vendor, model),
            Self::Script(_) => true,
        }
    }
}

fn times(cost: Cost, count: u64) -> Cost {
    Cost::from_nanos(cost.nanos().saturating_mul(count))
}

fn believable(usage: Usage) -> Usage {
    Usage {
        input_tokens: usage.input_tokens.min(MOST_TOKENS),
        output_tokens: usage.output_tokens.min(MOST_TOKENS),
        cache_read_tokens: usage.cache_read_tokens.min(MOST_TOKENS),
        cache_write_tokens: usage.cache_write_tokens.min(MOST_TOKENS),
        reasoning_tokens: usage.reasoning_tokens.min(MOST_TOKENS),
    }
}

/// Between grant and settlement. Dropped before that, since the client hung up or the session ended, it settles by itself, or
/// gives the grant back if it never went out.
#[derive(Debug)]
pub(super) struct OpenCall {
    context: Arc<Context>,
    tariff: Tariff,
    endpoint: Endpoint,
    model: String,
    started: Instant,
    status: u16,
    /// What was first set aside: the price of a request that no one answered.
    reserved: Cost,
    /// How often it was sent and not answered, and sent again.
    lost: u32,
    /// The head of an answer has come.
    answered: bool,
    /// All of the answer has come.
    whole: bool,
    /// From when it goes out until it is settled.
    reader: Option<Reader>,
    /// Gone once settled or given back.
    grant: Option<Grant>,
    /// Who answers, and the call's place among those that the credential can take.
    carrier: Option<(Arc<Upstream>, Permit)>,
}

impl OpenCall {
    pub(super) fn new(
        context: &Arc<Context>,
        grant: Grant,
        tariff: Tariff,
        endpoint: Endpoint,
        requested_model: String,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            tariff,
            endpoint,
            model: requested_model,
            started: Instant::now(),
            status: HUNG_UP,
            reserved: grant.amount,
            lost: 0,
            answered: false,
            whole: false,
            reader: None,
            grant: Some(grant),
            carrier: None,
        }
    }

    /// From now on it may reach a model.
    pub(super) fn goes_out(&mut self) {
        self.reader = Some(Reader::new(self.endpoint, ""));
    }

    /// The head of an answer has come, from this model.
    pub(super) fn answered(&mut self, status: u16, content_type: &str, model: String) {
        self.status = status;
        self.model = model;
        self.answered = true;
        self.reader = Some(Reader::new(self.endpoint, content_type));
    }

    pub(super) fn carried_by(&mut self, upstream: Arc<Upstream>, permit: Permit) {
        self.carrier = Some((upstream, permit));
    }

    /// The request never reached a model: nothing to settle.
    pub(super) async fn forget(mut self) {
        self.reader = None;
        let Some(grant) = self.grant.take() else { return };
        let meter = Arc::clone(&self.context.session.meter);
        let released = self.context.tasks.spawn(async move { meter.release(grant).await });
        let _ = released.await;
    }

    /// No answer came, though one was asked for: what was sent is settled, and what never went out is not.
    pub(super) async fn failed(mut self, status: u16) {
        if self.lost == 0 && status != HUNG_UP {
            return self.forget().await;
        }
        self.status = status;
        self.settle().await;
    }

    /// It was sent and no answer came. True when there is enough left to send it once more.
    pub(super) fn lost_one(&mut self) -> bool {
        self.lost = self.lost.saturating_add(1);
        let needed = times(self.reserved, u64::from(self.lost) + 1);
        let Some(grant) = &mut self.grant else { return false };
        needed <= grant.amount || self.context.session.meter.extend(grant, needed)
    }

    /// Settles, once, in a task that goes on should the caller be dropped while it waits.
    pub(super) async fn settle(&mut self) {
        self.carrier = None;
        let Some((grant, call)) = self.take() else { return };
        let meter = Arc::clone(&self.context.session.meter);
        let settled = self.context.tasks.spawn(async move { meter.settle(grant, call).await });
        if let Err(error) = settled.await {
            tracing::error!(session = self.context.session.id, %error, "a model call could not be settled");
        }
    }

    fn take(&mut self) -> Option<(Grant, Call)> {
        let (reader, grant) = (self.reader.take()?, self.grant.take()?);
        let is_stream = reader.is_stream();
        let Known { model, usage, cache_write_1h, estimated, tier, uses, spoke } =
            reader.finish(self.status, self.tariff.request_bytes());
        let mut usage = believable(usage);
        let asked = std::mem::take(&mut self.model);
        let model = model.unwrap_or_else(|| asked.clone());
        let is_cut = estimated && !self.whole;
        if is_cut && self.tariff.request_bytes().is_some() {
            let hidden = self.started.elapsed().as_secs().saturating_mul(HIDDEN_TOKENS_PER_SECOND);
            usage.output_tokens = usage.output_tokens.max(hidden);
        }
        let priced_as = if self.tariff.knows(&model) { &model } else { &asked };
        let (mut cost, unpriced) = self.tariff.cost(priced_as, tier.as_ref(), &usage, cache_write_1h);
        if self.answered && self.is_success() {
            cost += self.tariff.fees(&uses);
        }
        // A vendor charges for what it made and nobody saw. Of an answer that never began, that came in one piece and was not
        // waited for, or that showed nothing, no more is known than what was set aside for it.
        let unseen = if self.answered { is_cut && (!is_stream || !spoke) } else { self.status == HUNG_UP };
        if unseen {
            cost = cost.max(self.reserved);
        }
        cost += times(self.reserved, u64::from(self.lost));
        let call = Call {
            provider: self.tariff.provider().to_owned(),
            model,
            usage,
            cost,
            estimated: estimated || unpriced || unseen || self.lost > 0,
            unpriced,
            status: self.status,
            duration: self.started.elapsed(),
        };
        Some((grant, call))
    }

    fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether what has come so far is paid for, or can be.
    fn is_covered(&mut self) -> bool {
        let (Some(reader), Some(grant), Some(request_bytes)) =
            (&self.reader, &mut self.grant, self.tariff.request_bytes())
        else {
            return true;
        };
        let (cost, _) = self.tariff.cost(&self.model, None, &reader.so_far(request_bytes), 0);
        let cost = cost + times(self.reserved, u64::from(self.lost));
        cost <= grant.amount || self.context.session.meter.extend(grant, cost)
    }

    fn revoked(&self) -> CancellationToken {
        self.grant.as_ref().map(|grant| grant.revoked.clone()).unwrap_or_default()
    }

    fn note(&self, problem: &str) {
        let Some((upstream, _)) = &self.carrier else { return };
        self.context.session.meter.note(Trouble {
            provider: self.tariff.provider(),
            model: self.model.clone(),
            credential: upstream.id().to_owned(),
            problem: problem.to_owned(),
            remedy: Remedy::GaveUp,
        });
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let settling = self.take();
        let unused = self.grant.take();
        if settling.is_none() && unused.is_none() {
            return;
        }
        let meter = Arc::clone(&self.context.session.meter);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            tracing::error!(session = self.context.session.id, ?settling, "a model call was not settled");
            return;
        };
        let ending = async move {
            if let Some((grant, call)) = settling {
                meter.settle(grant, call).await;
            } else if let Some(grant) = unused {
                meter.release(grant).await;
            }
        };
        self.context.tasks.spawn_on(ending, &runtime);
    }
}

struct Answer {
    source: Pin<Box<dyn Stream<Item = Result<Bytes, BoxError>> + Send>>,
    call: OpenCall,
    is_stream: bool,
    /// The longest silence; none for a script, whose silences are meant.
    idle: Option<Duration>,
    revoked: CancellationToken,
    /// Bytes since the running cost was looked at.
    unlooked: usize,
    /// What may pass only when the call is settled.
    held: Option<Bytes>,
    /// `held` is the end, whatever may follow.
    complete: bool,
    ended: bool,
}

/// Why an answer that was coming is not passed on any more.
#[derive(Debug, Clone, Copy, thiserror::Error)]
enum Ended {
    #[error("the model stopped sending data")]
    Stalled,
    #[error("the budget is spent")]
    Spent,
}

/// The answer's bytes, unchanged, read on the side.
pub(super) fn body(
    source: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
    call: OpenCall,
    idle: Option<Duration>,
) -> Body {
    let is_stream = call.reader.as_ref().is_some_and(Reader::is_stream);
    let revoked = call.revoked();
    let source = Box::pin(source);
    let answer =
        Answer { source, call, is_stream, idle, revoked, unlooked: 0, held: None, complete: false, ended: false };
    let frames = stream::unfold(answer, Answer::next).map(|chunk| chunk.map(Frame::data));
    BodyExt::boxed_unsync(StreamBody::new(frames))
}

impl Answer {
    async fn next(mut self) -> Option<(Result<Bytes, BoxError>, Self)> {
        if std::mem::take(&mut self.complete) {
            self.call.whole = true;
            self.call.settle().await;
            if let Some(end) = self.held.take() {
                return Some((Ok(end), self));
            }
        }
        while !self.ended {
            match self.receive().await {
                Ok(Some(chunk)) => {
                    self.unlooked += chunk.len();
                    let passing = if self.is_stream { self.pass_events(chunk) } else { self.pass_document(chunk) };
                    if self.unlooked >= LOOK_EVERY && !self.complete {
                        self.unlooked = 0;
                        if !self.call.is_covered() {
                            return Some(self.cut(Box::new(Ended::Spent)).await);
                        }
                    }
                    if !passing.is_empty() {
                        return Some((Ok(passing), self));
                    }
                    if std::mem::take(&mut self.complete) {
                        self.call.whole = true;
                        self.call.settle().await;
                        if let Some(end) = self.held.take() {
                            return Some((Ok(end), self));
                        }
                    }
                }
                Err(error) => return Some(self.cut(error).await),
                Ok(None) => {
                    self.call.whole = true;
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

    /// The next piece, unless there is a reason not to wait for it.
    async fn receive(&mut self) -> Result<Option<Bytes>, BoxError> {
        let next = async {
            match self.idle {
                Some(idle) => tokio::time::timeout(idle, self.source.next()).await.map_err(|_| Ended::Stalled),
                None => Ok(self.source.next().await),
            }
        };
        let next = tokio::select! {
            next = next => next,
            () = self.revoked.cancelled() => Err(Ended::Spent),
        };
        match next {
            Ok(chunk) => chunk.transpose().inspect_err(|_| self.call.note("cut")),
            Err(ended) => {
                if matches!(ended, Ended::Stalled) {
                    self.call.note("stalled");
                }
                Err(ended.into())
            }
        }
    }

    /// Ends the answer here; the client sees a closed connection.
    async fn cut(mut self, error: BoxError) -> (Result<Bytes, BoxError>, Self) {
        self.call.settle().await;
        (self.ended, self.held) = (true, None);
        answer::flushed().await;
        (Err(error), self)
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
