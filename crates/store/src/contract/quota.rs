//! How much someone has asked for, and the end of what nobody wants to keep.

use async_trait::async_trait;
use harvest_core::{Cost, SessionId, TaskId, TokenId};

use crate::Error;

#[async_trait]
pub trait Quotas {
    /// Writes down that a task was asked for with a token, on this day.
    async fn note_asked(&self, token: &TokenId, task: &TaskId, day: &str) -> Result<(), Error>;

    /// How many tasks they have that have not ended.
    async fn unfinished(&self, of: &Asker) -> Result<u64, Error>;

    /// What the tasks have cost so far that were asked for with a token on this day.
    async fn spent_with(&self, token: &TokenId, day: &str) -> Result<Cost, Error>;

    /// Forgets a session: its journal, turns, attempts, and the answers that told of it; with the last session of a task the
    /// task itself. Sums of costs stay, and so does the audit log.
    async fn forget_session(&self, session: &SessionId) -> Result<Forgotten, Error>;
}

/// Whose tasks are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asker {
    Token(TokenId),
    /// All together.
    People(Vec<String>),
    Repositories(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forgotten {
    /// Nothing of it is left.
    Session,
    /// Its task has not ended; nothing was changed.
    Busy,
    /// A task that has not ended waits for its task; nothing was changed.
    Needed(TaskId),
}
