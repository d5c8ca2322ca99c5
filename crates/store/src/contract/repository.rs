//! Repositories that snapshots are prepared of. What is in their settings is the business of whoever prepares them.

use harvest_core::Timestamp;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Repository {
    pub name: String,
    /// Its path or URL, never with a password in it.
    pub source: String,
    pub settings: serde_json::Value,
    pub created_at: Timestamp,
    /// When someone last pushed to it, as far as its forge has told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pushed_at: Option<Timestamp>,
}
