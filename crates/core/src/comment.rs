//! What people say to each other about a session, beside its journal: agents never read it.

use serde::{Deserialize, Serialize};

use crate::{CommentId, SessionId, Timestamp};

/// Of one comment.
pub const MAX_COMMENT_BYTES: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Comment {
    pub id: CommentId,
    pub session_id: SessionId,
    pub author: String,
    pub at: Timestamp,
    pub about: CommentPlace,
    pub text: String,
}

/// The event or the line that a comment is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum CommentPlace {
    /// An event of the session.
    Event {
        #[cfg_attr(feature = "schema", schema(minimum = 1))]
        seq: u64,
    },
    /// A line of the diff.
    Line {
        #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4096))]
        path: String,
        side: DiffSide,
        #[cfg_attr(feature = "schema", schema(minimum = 1, value_type = u64))]
        line: u32,
    },
}

/// The side of the diff: before or after the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DiffSide {
    Old,
    New,
}
