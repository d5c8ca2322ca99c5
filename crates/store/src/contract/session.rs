//! Sessions as they are listed.

use harvest_core::{BranchName, SessionId, TaskId, TaskStatus, Timestamp, Trust};
use serde::Serialize;

use super::Order;

#[derive(Debug, Clone, Default)]
pub struct SessionQuery {
    pub task: Option<TaskId>,
    /// Of its task.
    pub status: Option<TaskStatus>,
    pub repository: Option<String>,
    /// Only of these repositories.
    pub among: Option<Vec<String>>,
    pub order: Order,
    pub cursor: Option<String>,
    pub limit: usize,
}

#[derive(Debug, Clone, Serialize)]
pub struct SessionPage {
    pub items: Vec<SessionSummary>,
    pub next_cursor: Option<String>,
}

/// A session with what a list shows of its task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionSummary {
    pub id: SessionId,
    pub task_id: TaskId,
    pub branch: BranchName,
    pub created_at: Timestamp,
    pub status: TaskStatus,
    pub repository: String,
    pub agent: String,
    pub requested_by: String,
    /// The first line of what was asked.
    pub title: String,
    /// How far the words are trusted that its task began with.
    pub trust: Trust,
}
