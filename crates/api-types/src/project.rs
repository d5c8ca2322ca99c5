//! Projects and their members.

use harvest_core::{Cost, Role, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Project {
    pub name: String,
    pub repositories: Vec<String>,
    /// The daily spending limit of all its tasks together; absent: no limit.
    pub daily_usd: Option<Cost>,
}

/// A project to create.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AskProject {
    /// The name of the project.
    #[cfg_attr(
        feature = "schema",
        schema(min_length = 1, max_length = 64, pattern = "^[a-z0-9][a-z0-9._-]*$", example = "shop")
    )]
    pub name: String,
    /// Names from `/api/repositories`, paths on the server's machine, or URLs.
    #[cfg_attr(feature = "schema", schema(max_items = 1000))]
    #[serde(default)]
    pub repositories: Vec<String>,
}

/// Changes to a project.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ProjectChange {
    /// The new list of repositories that are managed over the API; those of `harvest.toml` are not affected.
    #[cfg_attr(feature = "schema", schema(max_items = 1000))]
    pub repositories: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Member {
    pub user: String,
    pub role: Role,
    pub since: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AskMember {
    pub role: Role,
}
