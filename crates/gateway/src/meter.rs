//! The contract with whoever keeps the books: asked before a request goes out, told what it used once it is over.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use harvest_core::budget::Range;
use harvest_core::{CallId, Cost, Remedy, Usage};
use tokio_util::sync::CancellationToken;

/// Keeps the books of one session.
#[async_trait]
pub trait Meter: Send + Sync + Debug {
    /// Asked before a request goes out; may wait for others to give back what this one needs. A refusal reaches the client in
    /// its vendor's own error shape, as one that must not be retried. Every grant is settled or released, once.
    async fn reserve(&self, ask: Ask) -> Result<Grant, Refused>;

    /// The answer is about to cost more than was granted: `to` in all. False when there is no more; then it is ended.
    fn extend(&self, _grant: &mut Grant, _to: Cost) -> bool {
        true
    }

    /// Told exactly once per granted request that may have reached a model, also when the stream was cut by either side.
    /// Awaited before the last byte of the answer is passed on. Runs to its end even when the client hangs up meanwhile.
    async fn settle(&self, grant: Grant, call: Call);

    /// The request reached no model.
    async fn release(&self, grant: Grant);

    /// A model's host gave trouble. Must not block.
    fn note(&self, _trouble: Trouble) {}
}

/// A request that wants to go out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    pub provider: &'static str,
    pub model: String,
    pub cost: Range,
}

/// Leave to spend so much on a request.
#[derive(Debug)]
pub struct Grant {
    pub call: CallId,
    pub amount: Cost,
    /// Cancelled when the money turns out to be someone else's: the request is then given up.
    pub revoked: CancellationToken,
    /// Cancelled when that is known one way or the other, where the request has to wait for it.
    pub sure: Option<CancellationToken>,
}

impl Grant {
    pub fn new(call: CallId, amount: Cost) -> Self {
        Self { call, amount, revoked: CancellationToken::new(), sure: None }
    }
}

/// Why a request may not go out, e.g. since the budget is spent. The client shows `message` to its user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    pub message: String,
}

impl Refused {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// One request to a model and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// `anthropic`, `openai`, `gemini`, `ollama` or `scripted`.
    pub provider: String,
    /// As the model named itself in its answer, else as the request asked for it.
    pub model: String,
    pub usage: Usage,
    pub cost: Cost,
    /// Some number in `usage` or the price behind `cost` is a guess, since the answer did not tell.
    pub estimated: bool,
    /// No price is known for the model; `cost` is what the dearest one would have cost.
    pub unpriced: bool,
    /// The HTTP status of the answer; 502 or 504 when none came.
    pub status: u16,
    pub duration: Duration,
}

/// What went wrong at a model's host, and what was done about it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Trouble {
    pub provider: &'static str,
    pub model: String,
    /// The id of the upstream.
    pub credential: String,
    /// A status, or `connect`, `no_answer`, `stalled`, `cut`.
    pub problem: String,
    pub remedy: Remedy,
}
