//! The coding agents of an installation, and the results of their tests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An agent and its availability.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AgentInfo {
    pub id: String,
    pub name: String,
    /// The vendors whose wire formats it supports.
    pub providers: Vec<String>,
    /// Optional features, and whether the agent supports them.
    pub features: BTreeMap<String, bool>,
    /// Whether it is the agent of tasks that name none.
    pub default: bool,
    pub installed: bool,
    pub version: Option<String>,
    /// The vendors with an available key.
    pub usable_providers: Vec<String>,
    pub install_hint: String,
    pub key_hint: Option<String>,
}

/// The result of an agent's test.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AgentCheck {
    pub agent: String,
    /// True if no check failed.
    pub works: bool,
    pub checks: Vec<Check>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Check {
    pub name: String,
    pub state: CheckState,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    Works,
    Fails,
    /// It did not try, which is fine for some.
    Absent,
}
