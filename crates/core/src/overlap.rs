//! Work of several tasks that will not fit together.

use serde::{Deserialize, Serialize};

use crate::{SessionId, TaskId, Timestamp};

/// Another task's work changes the same places, so that the two cannot simply be merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Overlap {
    /// The session of the task that was asked about.
    pub session_id: SessionId,
    pub with_task: TaskId,
    pub with_session: SessionId,
    /// The files in which they meet.
    pub paths: Vec<String>,
    pub found_at: Timestamp,
}
