//! The contract with whoever keeps the books: asked before a request goes out, told what it used once it is over.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use harvest_core::{Cost, Usage};

/// Keeps the books of one session.
#[async_trait]
pub trait Meter: Send + Sync + Debug {
    /// Asked before a request goes out. A refusal reaches the client in its vendor's own error shape, as one that must
    /// not be retried.
    async fn admit(&self) -> Result<(), Refused>;

    /// Told exactly once per admitted request that reached a model, also when the stream was cut by either side. Awaited
    /// before the last byte of the answer is passed on. Runs to its end even when the client hangs up meanwhile.
    async fn settle(&self, call: Call);
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
    /// The HTTP status of the answer; 502 or 504 when none came.
    pub status: u16,
    pub duration: Duration,
}
