//! The request that creates a task, whether it is sent to `/api/tasks` or to `/api/sessions`.

use harvest_core::{Cost, OnFailedDependency, Priority, Workflow, budget};
use serde::{Deserialize, Deserializer, Serialize};

use crate::AskRace;

/// A task to create. Fields that are left out have the values of the settings of the repository, its project and the
/// server.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// What to do, in plain words.
    #[cfg_attr(feature = "schema", schema(min_length = 1, example = "Make the failing test pass"))]
    pub prompt: String,
    /// A name from `/api/repositories`, or the path or URL of a known repository. Admins of the installation may name
    /// any other.
    #[cfg_attr(feature = "schema", schema(min_length = 1, example = "shop"))]
    pub repository: String,
    /// The branch, tag or commit to start from; default: the repository's own branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// An id from `/api/agents`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model of the agent; default: the agent's own choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The test command; default: the one found in the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// Fail rather than deliver without a test command.
    #[serde(default)]
    pub require_tests: bool,
    /// The priority in the queue; default: `normal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Ids of tasks that have to complete first; a unique prefix is enough.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_items = 100))]
    pub after: Vec<String>,
    #[serde(default)]
    pub on_failed_dependency: OnFailedDependency,
    /// The convoy it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub convoy: Option<String>,
    /// How often to retry automatically after a temporary failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(maximum = 20))]
    pub retries: Option<u32>,
    /// The most that the task may cost, in US dollars.
    #[serde(default, deserialize_with = "budget_usd", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<f64>, exclusive_minimum = 0, example = 2.5))]
    pub budget_usd: Option<Cost>,
    /// The time limit of the agent for a turn, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 604800))]
    pub timeout: Option<u64>,
    /// Make a plan first, which a person approves or rejects.
    #[serde(default)]
    pub plan: bool,
    /// An agent that reviews the plan before a person decides, as `AGENT` or `AGENT:MODEL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_review: Option<String>,
    /// The steps of the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Workflow>,
    /// Hold the tested result until a person approves its delivery.
    #[serde(default)]
    pub gate: bool,
    /// Names of the MCP servers that the agent may use.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_items = 100))]
    pub mcp: Vec<String>,
    /// Agents that continue, in this order, when a model's quota is exhausted.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_items = 100))]
    pub fallback_agents: Vec<String>,
    /// The URL of the issue, thread or message that it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_url: Option<String>,
    /// Run several agents in parallel, each as a task of its own; the response is the first of these tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub race: Option<AskRace>,
}

/// A negative amount is read as none: the server refuses both, and names the field also where a task is part of another body.
fn budget_usd<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cost>, D::Error> {
    let Some(dollars) = Option::<f64>::deserialize(deserializer)? else { return Ok(None) };
    match budget::of_dollars(dollars) {
        Ok(cost) => Ok(Some(cost)),
        Err(budget::BadBudget::NotPositive) => Ok(Some(Cost::ZERO)),
        Err(reason) => Err(serde::de::Error::custom(reason)),
    }
}
