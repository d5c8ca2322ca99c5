//! Work of several tasks that will not fit together.

use serde::{Deserialize, Serialize};

use crate::{SessionId, TaskId, Timestamp};

/// A merge conflict with the work of another task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Overlap {
    /// The session of the requested task.
    pub session_id: SessionId,
    pub with_task: TaskId,
    pub with_session: SessionId,
    /// The files that conflict.
    pub paths: Vec<String>,
    pub found_at: Timestamp,
}
