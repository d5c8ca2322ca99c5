//! Everything that changes the database. Each function runs in the writer's transaction, perhaps twice, and notes in
//! [`Effects`] whom to wake once it is on disk.

pub(super) mod admit;
pub(super) mod claim;
pub(super) mod create;
pub(super) mod end;
pub(super) mod hold;
pub(super) mod journal;
pub(super) mod prompt;
pub(super) mod repository;
pub(super) mod settings;
pub(super) mod step;

use harvest_core::SessionId;

/// Whom to wake after the commit.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Journals that have grown, with the number of their last event.
    pub(super) grown: Vec<(SessionId, u64)>,
    /// There may be work to claim, or the queue's settings have changed.
    pub(super) queue: bool,
}
