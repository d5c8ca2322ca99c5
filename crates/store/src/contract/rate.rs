//! Rates that all servers on a database share.

use std::time::Duration;

use async_trait::async_trait;
use harvest_core::Timestamp;

use crate::Error;

const WINDOW_MS: f64 = 60_000.0;

#[async_trait]
pub trait Rates {
    /// Takes as many requests from a rate as are asked for, or as are left. What several servers take is never more than
    /// the rate allows.
    async fn draw(&self, draw: &Draw, at: Timestamp) -> Result<Drawn, Error>;

    /// Forgets rates that nobody has drawn from since then.
    async fn forget_rates(&self, before: Timestamp) -> Result<u64, Error>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draw {
    /// Whose rate: `token:ID`, `user:ada`, `team:fruit`.
    pub key: String,
    /// Requests in a minute; as many may come at once after a minute without any.
    pub quota: u32,
    pub most: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawn {
    pub given: u32,
    pub left: u32,
    /// How long until one more is there, if none is left.
    pub wait: Duration,
}

/// A bucket that fills at a steady rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket {
    pub drops: f64,
    pub at_ms: i64,
}

impl Bucket {
    pub fn full(draw: &Draw, at: Timestamp) -> Self {
        Self { drops: f64::from(draw.quota), at_ms: at.as_millisecond() }
    }

    pub fn draw(&mut self, draw: &Draw, at: Timestamp) -> Drawn {
        let (quota, now) = (f64::from(draw.quota), at.as_millisecond());
        let rate = quota / WINDOW_MS;
        // The clock of another server may be ahead.
        let since = now.saturating_sub(self.at_ms).max(0) as f64;
        let filled = (self.drops + rate * since).clamp(0.0, quota);
        let given = f64::from(draw.most).min(filled.floor());
        *self = Self { drops: filled - given, at_ms: self.at_ms.max(now) };
        let wait = if self.drops >= 1.0 { 0.0 } else { ((1.0 - self.drops) / rate).ceil() };
        Drawn { given: given as u32, left: self.drops as u32, wait: Duration::from_millis(wait as u64) }
    }
}
