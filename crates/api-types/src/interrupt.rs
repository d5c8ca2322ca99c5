//! The requests that interrupt work and resume it.

use serde::{Deserialize, Serialize};

/// The reason for an interruption.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AskInterrupt {
    /// Shown to the people who follow the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(max_length = 1000, example = "the schema changes today"))]
    pub reason: Option<String>,
}

/// A prompt for the resumed session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AskResume {
    /// What to do next; default: continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub prompt: Option<String>,
}
