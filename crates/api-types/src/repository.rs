//! Repositories and the snapshots that sessions start from.

use harvest_core::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Repository {
    pub name: String,
    /// Its path or URL.
    pub source: String,
    pub settings: serde_json::Value,
    pub created_at: Timestamp,
    pub snapshot: Snapshot,
}

/// The prepared copy of a repository that its sessions start from.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Snapshot {
    /// `none`, `building`, `ready`, `outdated` or `failed`.
    pub state: String,
    pub commit: Option<String>,
    pub built_at: Option<Timestamp>,
    pub bytes: Option<u64>,
    /// The outcome of the last build.
    pub last_build: Option<serde_json::Value>,
    pub next_at: Option<Timestamp>,
}

/// A repository to add.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewRepository {
    /// Its path on the server's machine, or its URL.
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub source: String,
    /// The name; default: the last part of its path.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 64))]
    pub name: Option<String>,
    /// The branch to follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The command that installs dependencies, in a sandbox; default: the one found in the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// The command that builds it, in a sandbox; a failure is tolerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
}

/// The snapshot of a repository, with its name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NamedSnapshot {
    pub repository: String,
    #[serde(flatten)]
    pub snapshot: Snapshot,
}
