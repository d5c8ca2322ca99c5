//! Tasks as they come in and as they are listed.

use harvest_core::{
    BranchName, Cost, ListedTask, OnFailedDependency, OwnerId, Priority, Prompt, Session, SessionId, Settings, Source,
    Task, TaskId, TaskKind, TaskStatus, Timestamp, TurnId,
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{Admission, Lease};

/// Everything that is known about a task before anyone works on it.
#[derive(Debug, Clone)]
pub struct NewTask {
    pub id: TaskId,
    pub session: SessionId,
    pub turn: TurnId,
    pub kind: TaskKind,
    pub source: Source,
    pub source_url: Option<String>,
    pub prompt: Prompt,
    pub agent: String,
    pub model: Option<String>,
    pub repository: String,
    pub base: String,
    pub branch: BranchName,
    pub settings: Settings,
    pub budget: Cost,
    pub priority: Priority,
    pub after: Vec<TaskId>,
    pub on_failed_dependency: OnFailedDependency,
    pub convoy: Option<String>,
    pub retries: u32,
    /// Claimed for this owner as it is made, with a lease that holds as long as the owner lives.
    pub claim_for: Option<OwnerId>,
    /// The names of the caps it counts against.
    pub caps: Vec<String>,
    pub extra: Option<serde_json::Value>,
    pub key: Option<IdempotencyKey>,
    /// What a person should know before work begins; journaled with the task.
    pub warnings: Vec<String>,
    pub requested_by: String,
    pub admission: Admission,
    pub at: Timestamp,
}

/// Another prompt for a session.
#[derive(Debug, Clone)]
pub struct NewTurn {
    pub id: TurnId,
    pub session: SessionId,
    pub prompt: Prompt,
    pub author: String,
    /// Who works on it from here on; `None`: as before.
    pub agent: Option<String>,
    pub model: Option<String>,
    /// The work is tested and delivered as it is; no agent runs.
    pub delivers: bool,
    /// The names of the caps it counts against.
    pub caps: Vec<String>,
    pub key: Option<IdempotencyKey>,
    /// Checked when the prompt makes an ended task go on.
    pub admission: Admission,
    pub at: Timestamp,
}

/// Makes asking twice the same as asking once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    pub key: String,
    /// Of everything that was asked for under this key.
    pub digest: String,
}

impl IdempotencyKey {
    /// `asked` is everything that is asked for. It may hold a prompt with secrets, so only its digest is kept.
    pub fn of(key: String, asked: &str) -> Self {
        Self { key, digest: digest_of(asked) }
    }

    /// Whether the same was asked for under this key before. Rows of earlier versions have what was asked for itself.
    pub(crate) fn is_of(&self, kept: &str) -> bool {
        kept == self.digest || digest_of(kept) == self.digest
    }
}

fn digest_of(asked: &str) -> String {
    Sha256::digest(asked.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Debug, Clone)]
pub struct Submitted {
    pub task: Task,
    pub session: SessionId,
    pub turn: TurnId,
    /// Of whom it was claimed for.
    pub lease: Option<Lease>,
    /// It was there already, under the same key.
    pub known: bool,
}

#[derive(Debug, Clone, Default)]
pub struct TaskQuery {
    pub status: Option<TaskStatus>,
    pub repository: Option<String>,
    pub convoy: Option<String>,
    pub requested_by: Option<String>,
    pub agent: Option<String>,
    /// Words of the prompt, in any case of their letters.
    pub search: Option<String>,
    /// Only of these repositories.
    pub among: Option<Vec<String>>,
    pub order: Order,
    pub cursor: Option<String>,
    pub limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    #[default]
    NewestFirst,
    OldestFirst,
}

impl Order {
    /// How far a page that nobody has begun is from its first row.
    pub(crate) fn start(self) -> i64 {
        if self == Self::NewestFirst { i64::MAX } else { i64::MIN }
    }

    pub(crate) fn comparison(self) -> &'static str {
        if self == Self::NewestFirst { "<" } else { ">" }
    }

    pub(crate) fn direction(self) -> &'static str {
        if self == Self::NewestFirst { "DESC" } else { "ASC" }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct TaskPage {
    pub items: Vec<Task>,
    pub next_cursor: Option<String>,
}

/// A page of a list that people or programs read.
#[derive(Debug, Clone, Serialize)]
pub struct ListedPage {
    pub items: Vec<ListedTask>,
    pub next_cursor: Option<String>,
}

/// A task with everything below it.
#[derive(Debug, Clone, Serialize)]
pub struct TaskDetail {
    #[serde(flatten)]
    pub task: Task,
    pub sessions: Vec<Session>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_known_again_by_its_digest_also_where_an_earlier_version_kept_all_of_it() {
        let key = IdempotencyKey::of("once".to_owned(), "Mend it with canary");
        assert!(key.digest.len() == 64 && !key.digest.contains("canary"), "{key:?}");
        assert!(key.is_of(&key.digest) && key.is_of("Mend it with canary"));
        assert!(!key.is_of("Mend it") && !key.is_of(&IdempotencyKey::of("once".to_owned(), "Mend it").digest));
    }
}
