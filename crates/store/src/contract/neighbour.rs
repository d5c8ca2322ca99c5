//! Sessions at work on the same repository, and whether they get in each other's way.

use async_trait::async_trait;
use harvest_core::{BranchName, Overlap, SessionId, TaskId, Timestamp};

use crate::Error;

#[async_trait]
pub trait Neighbours {
    /// The other sessions of a repository whose work has begun and is nowhere merged: their tasks have not ended, or their pull
    /// requests are open. The newest first, and not without end.
    async fn neighbours(&self, repository: &str, of: &SessionId) -> Result<Vec<Neighbour>, Error>;

    /// What a merge of two sessions' work came to; with no paths they no longer overlap. True when that is news.
    async fn note_overlap(&self, between: [&SessionId; 2], paths: &[String], at: Timestamp) -> Result<bool, Error>;

    /// With whom a task overlaps, as long as the other one's work is neither merged nor given up.
    async fn overlaps(&self, task: &TaskId) -> Result<Vec<Overlap>, Error>;

    /// Someone pushed to a repository: whoever prepares its snapshots looks again. False when there is none of that name.
    async fn repository_pushed(&self, name: &str, at: Timestamp) -> Result<bool, Error>;
}

/// A session at work beside another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    pub task: TaskId,
    pub session: SessionId,
    pub branch: BranchName,
}

/// More than these nobody compares with.
pub(crate) const MOST: i64 = 32;

/// The same two are always in the same order.
pub(crate) fn ordered([one, other]: [&SessionId; 2]) -> [&SessionId; 2] {
    if one.as_str() <= other.as_str() { [one, other] } else { [other, one] }
}
