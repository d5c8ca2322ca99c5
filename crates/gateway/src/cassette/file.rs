//! The file's format: a heading, then one exchange to a line, each a JSON object.

use std::collections::BTreeMap;

use harvest_core::Price;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version that is written. Others are refused.
pub(super) const VERSION: u64 = 1;

/// The first line: what the run was, so that it can be the same again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heading {
    /// The version of the format.
    pub cassette: u64,
    /// Whose wire format the agent spoke, e.g. `anthropic`.
    pub provider: String,
    pub model: Option<String>,
    /// Set when a script played the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Scripted>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scripted {
    pub model: String,
    pub price: Price,
}

impl Heading {
    pub fn new(provider: impl Into<String>, model: Option<String>, script: Option<&crate::Script>) -> Self {
        let script = script.map(|script| Scripted { model: script.model().to_owned(), price: script.price() });
        Self { cassette: VERSION, provider: provider.into(), model, script }
    }
}

/// One request and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Exchange {
    /// Counts requests from 1, in the order in which they came. Lines are in the order in which answers ended.
    pub(super) n: u64,
    pub(super) method: String,
    /// At the gateway, with the query.
    pub(super) path: String,
    /// The body; null when there was none.
    pub(super) request: Value,
    pub(super) answer: Answer,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
    /// The body, cut where it came in pieces.
    pub(super) pieces: Vec<String>,
    /// The connection ended before the body did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) cut: bool,
}
