//! How long the gateway waits for models, and how often it asks again.

use std::collections::BTreeMap;
use std::time::Duration;

/// Limits of what the gateway puts up with.
#[derive(Debug, Clone)]
pub struct Patience {
    /// Until a connection stands.
    pub connect: Duration,
    /// From the request to the head of its answer. Models may think for minutes before the first byte.
    pub first_byte: Duration,
    /// Between two pieces of an answer.
    pub idle: Duration,
    /// How often all credentials are gone through again.
    pub retries: u32,
    /// Before the first retry; doubles with each.
    pub backoff: Duration,
    /// A vendor that asks for more than this is not waited for.
    pub longest_wait: Duration,
    /// So many failures in a row, and a credential rests.
    pub failures: u32,
    /// For so long; one request tries it then.
    pub rest: Duration,
    /// Calls under way with one credential; `None`: as many as come.
    pub calls_per_credential: Option<usize>,
    /// How long a request waits for its place among those.
    pub queue: Duration,
    /// For a model that cannot be had: those to ask for instead, of the same vendor.
    pub fallbacks: BTreeMap<String, Vec<String>>,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            first_byte: Duration::from_secs(600),
            idle: Duration::from_secs(300),
            retries: 2,
            backoff: Duration::from_millis(500),
            longest_wait: Duration::from_secs(20),
            failures: 5,
            rest: Duration::from_secs(15),
            calls_per_credential: None,
            queue: Duration::from_secs(600),
            fallbacks: BTreeMap::new(),
        }
    }
}
