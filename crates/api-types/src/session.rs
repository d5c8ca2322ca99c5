//! Sessions: the answer about one, their list, and the messages of a session.

use harvest_core::{BranchName, MessageRole, SessionId, Task, TaskId, TaskStatus, Timestamp, Trust, Turn};
use serde::{Deserialize, Serialize};

use crate::page::{Sort, id_prefix};

/// A session with its turns and its task.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SessionDetail {
    pub id: SessionId,
    pub task_id: TaskId,
    pub branch: BranchName,
    pub created_at: Timestamp,
    pub turns: Vec<Turn>,
    /// The number of the last event in its journal.
    pub last_seq: u64,
    pub task: Task,
}

/// A session in a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SessionSummary {
    pub id: SessionId,
    pub task_id: TaskId,
    pub branch: BranchName,
    pub created_at: Timestamp,
    /// The status of the session's task.
    pub status: TaskStatus,
    pub repository: String,
    pub agent: String,
    pub requested_by: String,
    /// The first line of the prompt.
    pub title: String,
    /// `stranger`: someone without write access to the repository contributed to the prompt.
    pub trust: Trust,
}

#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct SessionFilter {
    /// A unique prefix of an id; the other filters are ignored.
    #[cfg_attr(feature = "schema", param(min_length = 1, max_length = 16))]
    #[serde(default, deserialize_with = "id_prefix")]
    pub id: Option<String>,
    pub task: Option<TaskId>,
    /// The status of the session's task.
    pub status: Option<TaskStatus>,
    /// The path, URL or name of the repository.
    pub repository: Option<String>,
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

/// A message in a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Message {
    /// The number of the event it comes from.
    pub seq: u64,
    pub at: Timestamp,
    pub role: MessageRole,
    /// Who wrote it; absent for the agent.
    pub author: Option<String>,
    pub text: String,
}

#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct MessageFilter {
    /// `next_cursor` of the previous page.
    #[cfg_attr(feature = "schema", param(pattern = "^[0-9]{1,18}$"))]
    pub cursor: Option<String>,
    /// The maximum number of items per page.
    #[cfg_attr(feature = "schema", param(minimum = 1, maximum = 500, default = 50))]
    pub limit: Option<u32>,
}
