//! The requests that continue a session with another prompt.

use serde::{Deserialize, Serialize};

/// Another prompt.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AskMore {
    /// What to do next.
    #[cfg_attr(feature = "schema", schema(min_length = 1, example = "And now the same for the other module"))]
    pub prompt: String,
    /// The agent from here on; default: unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model from here on; default: unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// The event to fork at, and what to do from there.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AskFork {
    /// The number of an event.
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    pub at: u64,
    /// What to do from there.
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub prompt: String,
    /// An id from `/api/agents`; default: unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// A model of the agent; default: unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}
