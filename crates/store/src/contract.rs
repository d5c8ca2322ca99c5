//! What a store must do, whatever database is behind it.

use async_trait::async_trait;
use harvest_core::{
    Attempt, BranchName, Cost, Event, EventBody, Move, Outcome, OwnerId, Prompt, SandboxId, SandboxPurpose, Session,
    SessionId, Settings, Source, Task, TaskId, TaskKind, TaskStatus, Timestamp, TurnId,
};
use serde::{Deserialize, Serialize};

use crate::Error;

#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug {
    /// Records the task, its session, its first turn and the `task.created` event, all or nothing.
    async fn create_task(&self, new: NewTask) -> Result<Submitted, Error>;

    /// Takes one ready turn (or the given one) for `owner`. Of any number of claimers exactly one gets it.
    async fn claim(&self, owner: &OwnerId, turn: Option<&TurnId>, at: Timestamp) -> Result<Option<Lease>, Error>;

    /// Takes over a turn of a dead owner; its old lease is void from here on.
    async fn take_over(&self, dead: &OwnerId, heir: &OwnerId) -> Result<Vec<Lease>, Error>;

    /// One step of a claimed turn: fence check, events, spool offset and state change in one transaction. Returns the number
    /// of the last event.
    async fn append(&self, lease: &Lease, step: Step) -> Result<u64, Error>;

    /// Cancels a task that no one works on. `None` when it is being worked on or has ended.
    async fn cancel_waiting(&self, task: &TaskId, at: Timestamp) -> Result<Option<Outcome>, Error>;

    /// The journal of a session behind `after`, at most `limit` events, in order.
    async fn events(&self, session: &SessionId, after: u64, limit: usize) -> Result<Vec<Event>, Error>;

    /// Wakes up whenever the session's journal has grown; holds the number of its last event.
    fn watch(&self, session: &SessionId) -> tokio::sync::watch::Receiver<u64>;

    async fn tasks(&self, query: TaskQuery) -> Result<TaskPage, Error>;

    async fn task(&self, id: &TaskId) -> Result<TaskDetail, Error>;

    /// The one task whose id begins with `prefix`.
    async fn find_task(&self, prefix: &str) -> Result<TaskId, Error>;

    async fn register_owner(&self, owner: Owner) -> Result<(), Error>;
    async fn owners(&self) -> Result<Vec<Owner>, Error>;
    async fn remove_owner(&self, owner: &OwnerId) -> Result<(), Error>;

    /// Recorded before a sandbox is made and forgotten after it is gone, so that none is ever lost sight of.
    async fn record_sandbox(&self, record: SandboxRecord) -> Result<(), Error>;
    async fn forget_sandbox(&self, id: &SandboxId) -> Result<(), Error>;
    async fn sandboxes(&self) -> Result<Vec<SandboxRecord>, Error>;
}

/// Everything that is known about a task before anyone works on it.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// Whose it is from the start: no one else may claim it, and it does not outlive them.
    pub owner: Option<OwnerId>,
    pub id: TaskId,
    pub session: SessionId,
    pub turn: TurnId,
    pub kind: TaskKind,
    pub source: Source,
    pub prompt: Prompt,
    pub agent: String,
    pub model: Option<String>,
    pub repository: String,
    pub base: String,
    pub branch: BranchName,
    pub settings: Settings,
    pub budget: Cost,
    pub requested_by: String,
    pub at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct Submitted {
    pub task: Task,
    pub session: SessionId,
    pub turn: TurnId,
}

/// The right to work on a turn. `fence` grows with every claim; a smaller one is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub task: TaskId,
    pub session: SessionId,
    pub turn: TurnId,
    pub fence: u64,
}

/// What one transaction writes.
#[derive(Debug, Clone)]
pub struct Step {
    pub at: Timestamp,
    pub events: Vec<EventBody>,
    pub to: Option<Move>,
    pub attempt: Option<AttemptUpdate>,
    pub outcome: Option<Outcome>,
}

impl Step {
    pub fn new(at: Timestamp, events: Vec<EventBody>) -> Self {
        Self { at, events, to: None, attempt: None, outcome: None }
    }

    pub fn moving(mut self, to: Move) -> Self {
        self.to = Some(to);
        self
    }

    pub fn with_attempt(mut self, update: AttemptUpdate) -> Self {
        self.attempt = Some(update);
        self
    }

    /// Ends the turn and the task.
    pub fn ending(mut self, outcome: Outcome) -> Self {
        self.outcome = Some(outcome);
        self
    }
}

#[derive(Debug, Clone)]
pub enum AttemptUpdate {
    Started(Attempt),
    /// Everything of the agent's output up to `offset` is in the journal.
    Journaled { attempt: harvest_core::AttemptId, offset: u64 },
    Finished { attempt: harvest_core::AttemptId, exit_code: Option<i32>, stderr_tail: String },
}

#[derive(Debug, Clone, Default)]
pub struct TaskQuery {
    pub status: Option<TaskStatus>,
    pub cursor: Option<String>,
    pub limit: usize,
}

#[derive(Debug, Clone, Serialize)]
pub struct TaskPage {
    pub items: Vec<Task>,
    pub next_cursor: Option<String>,
}

/// A task with everything below it.
#[derive(Debug, Clone, Serialize)]
pub struct TaskDetail {
    #[serde(flatten)]
    pub task: Task,
    pub sessions: Vec<Session>,
}

/// A process that owns live sessions. Whether it lives is told by its lock file, not by its pid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub id: OwnerId,
    pub kind: OwnerKind,
    pub pid: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerKind {
    /// `harvest run` in the foreground: its sessions end with it.
    Run,
    /// A server: its sessions are taken over by the next one.
    Server,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRecord {
    pub id: SandboxId,
    pub owner: OwnerId,
    pub session: SessionId,
    pub purpose: SandboxPurpose,
    pub provider: String,
}
