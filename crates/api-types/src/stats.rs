//! Statistics of finished tasks and of pull requests.

use harvest_core::Cost;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The day they ended, in UTC.
    #[default]
    Day,
    Repository,
    Agent,
    Model,
    Person,
}

#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct StatFilter {
    /// What to group by; default: the day, for pull requests the repository.
    #[cfg_attr(feature = "schema", param(inline))]
    pub by: Option<By>,
    /// The first day; default: the day of the first task.
    #[cfg_attr(feature = "schema", param(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2026-01-31"))]
    pub from: Option<String>,
    /// The last day; default: today.
    #[cfg_attr(feature = "schema", param(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"))]
    pub to: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Stats {
    pub by: By,
    pub total: Sums,
    pub items: Vec<Sums>,
}

/// Statistics of finished tasks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Sums {
    /// The day, repository, agent, model or person; empty for the total and for tasks that named no model.
    pub key: String,
    pub completed: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Tasks that left a branch.
    pub delivered: u64,
    /// The share of completed tasks among completed and failed ones; absent if there are none.
    pub success_rate: Option<f64>,
    pub cost_usd: Cost,
    /// The mean time from the creation of a task to its end; absent if there are none.
    pub mean_seconds: Option<f64>,
    /// Tasks that took part in a race; each entrant counts.
    pub races: u64,
    /// Tasks that won their race.
    pub wins: u64,
    /// The share of tasks in races that won; absent if there are none.
    pub win_rate: Option<f64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PullRequestStats {
    pub by: By,
    pub total: PullRequestSums,
    pub items: Vec<PullRequestSums>,
}

/// Statistics of pull requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PullRequestSums {
    /// The day, repository, agent, model or person; empty for the total and for tasks that named no model.
    pub key: String,
    pub opened: u64,
    pub merged: u64,
    /// Closed without being merged.
    pub closed: u64,
    /// The share of merged pull requests among merged and closed ones; absent if there are none.
    pub merge_rate: Option<f64>,
    /// The mean time from the creation of a task to its pull request; absent if there are none.
    pub mean_seconds_to_open: Option<f64>,
    /// The mean time from the pull request to its merge; absent while none is merged.
    pub mean_seconds_to_merge: Option<f64>,
}
