//! Journals in pages, and the notices about all tasks.

use harvest_core::{Event, SessionId, TaskId, TaskStatus, Timestamp};
use serde::{Deserialize, Serialize};

/// A page of a session's journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EventPage {
    pub items: Vec<Event>,
    /// Pass it as `after` to get the next page; absent on the last page.
    pub next_cursor: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
pub struct Since {
    /// Only events with a higher number.
    #[cfg_attr(feature = "schema", param(minimum = 0))]
    pub after: Option<u64>,
    /// The maximum number of events per page; streams ignore it.
    #[cfg_attr(feature = "schema", param(minimum = 1, maximum = 1000, default = 100))]
    pub limit: Option<u32>,
}

/// Something that a list or a board shows has changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Notice {
    pub at: Timestamp,
    pub task_id: TaskId,
    pub session_id: SessionId,
    pub seq: u64,
    /// The type of the event behind it.
    #[serde(rename = "type")]
    pub kind: String,
    pub status: TaskStatus,
    pub repository: String,
}
