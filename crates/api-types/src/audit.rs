//! The audit log.

use harvest_core::Timestamp;
use serde::{Deserialize, Serialize};

/// An entry of the audit log. Each entry contains the digest of the previous one.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    pub number: u64,
    pub at: Timestamp,
    /// `user:NAME`; the token is in `detail`.
    pub actor: String,
    /// The operation; for API requests, its `operationId` in this document.
    pub action: String,
    pub target: String,
    pub project: Option<String>,
    pub detail: serde_json::Value,
    pub previous: String,
    pub digest: String,
}

#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct AuditFilter {
    /// Only entries of this actor, such as `user:ada`.
    pub actor: Option<String>,
    /// Only entries of this operation, such as `task.create`.
    pub action: Option<String>,
    /// `next_cursor` of the previous page.
    #[cfg_attr(feature = "schema", param(pattern = "^[0-9]{1,18}$"))]
    pub cursor: Option<String>,
    /// The maximum number of items per page.
    #[cfg_attr(feature = "schema", param(minimum = 1, maximum = 500, default = 50))]
    pub limit: Option<u32>,
}
