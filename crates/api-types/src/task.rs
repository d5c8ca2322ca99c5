//! Tasks: the answer about one, the filter of their list, and the decisions on a plan.

use harvest_core::{Overlap, Session, Task, TaskStatus};
use serde::{Deserialize, Serialize};

use crate::page::{Sort, id_prefix};

/// A task with its sessions, their turns and attempts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskDetail {
    #[serde(flatten)]
    pub task: Task,
    pub sessions: Vec<Session>,
    /// Merge conflicts with other tasks that are neither merged nor abandoned.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub overlaps: Vec<Overlap>,
    /// The newest pull request with the task's work.
    pub pull_request: Option<TaskPullRequest>,
}

/// A pull request with a task's work.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskPullRequest {
    pub url: String,
    /// Absent if the URL does not end with it.
    pub number: Option<u64>,
    pub state: TaskPullRequestState,
}

/// The state of a pull request, as far as Harvest was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskPullRequestState {
    Open,
    Merged,
    Closed,
}

impl TaskPullRequestState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Merged => "merged",
            Self::Closed => "closed",
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct TaskFilter {
    /// A unique prefix of an id; the other filters are ignored.
    #[cfg_attr(feature = "schema", param(min_length = 1, max_length = 16))]
    #[serde(default, deserialize_with = "id_prefix")]
    pub id: Option<String>,
    /// Only tasks with this status.
    pub status: Option<TaskStatus>,
    /// The path, URL or name of the repository.
    pub repository: Option<String>,
    /// Only tasks of this convoy.
    pub convoy: Option<String>,
    /// Only tasks of this requester.
    pub requested_by: Option<String>,
    /// Only tasks of this agent.
    pub agent: Option<String>,
    /// Text in the prompt, case-insensitive.
    pub q: Option<String>,
    /// The order of the list.
    #[cfg_attr(feature = "schema", param(inline))]
    pub sort: Option<Sort>,
    /// `next_cursor` of the previous page.
    #[cfg_attr(feature = "schema", param(pattern = "^-?[0-9]{1,18}$"))]
    pub cursor: Option<String>,
    /// The maximum number of items per page.
    #[cfg_attr(feature = "schema", param(minimum = 1, maximum = 500, default = 50))]
    pub limit: Option<u32>,
}

/// An approval, which may edit the plan.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The edited plan; default: the plan as it was proposed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub plan: Option<String>,
}

/// A rejection, with or without a comment.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Rejection {
    /// With a comment, a new plan is made that takes it into account; without one, the task is cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub comment: Option<String>,
}
