//! The answers of `/healthz` and `/readyz`, which the document of the API does not have.

use serde::{Deserialize, Serialize};

/// The state of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The error code of a database that does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why the agents of this server take no work for the moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holding: Option<String>,
    /// `ok`, `draining`, `closing` or `no database`.
    pub status: String,
}

impl Health {
    pub fn new(status: &str) -> Self {
        Self { code: None, holding: None, status: status.to_owned() }
    }
}
