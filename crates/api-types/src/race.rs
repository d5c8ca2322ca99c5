//! The race that a request for a task can name.

use harvest_core::JudgedBy;
use serde::{Deserialize, Serialize};

/// Agents that work on the same task in parallel; the best result is delivered.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AskRace {
    /// Ids from `/api/agents`, each as `AGENT` or `AGENT:MODEL`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_items = 16, example = json!(["claude-code", "codex:gpt-5"])))]
    pub agents: Vec<String>,
    /// Instead of `agents`: the number of runs of the task's own agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 2, maximum = 16))]
    pub number: Option<u8>,
    #[serde(default)]
    pub judged_by: JudgedBy,
    /// An agent that picks the best result if several pass, as `AGENT` or `AGENT:MODEL`; if it does not decide,
    /// `judged_by` does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(example = "claude-code"))]
    pub judge: Option<String>,
}
