//! Claims, leases, owners, caps, convoys.

use std::collections::BTreeMap;

use harvest_core::{Cost, OwnerId, SandboxId, SandboxPurpose, SessionId, TaskId, Timestamp, TurnId};
use serde::{Deserialize, Serialize};

/// Who wants how much work.
#[derive(Debug, Clone)]
pub struct Claim {
    pub owner: OwnerId,
    /// This turn and no other.
    pub turn: Option<TurnId>,
    pub most: usize,
    /// Repositories that are warm here: their turns go first, as long as no one else waits much longer for it.
    pub warm: Vec<String>,
    pub at: Timestamp,
    /// Until when the lease holds without a heartbeat; `None` for an owner whose death is seen by its lock.
    pub until: Option<Timestamp>,
}

/// The right to work on a turn. `fence` grows with every claim; a smaller one is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub task: TaskId,
    pub session: SessionId,
    pub turn: TurnId,
    pub fence: u64,
    pub rows: Rows,
}

/// Where a store keeps what a lease is about, so that no step has to look for it. Nobody else's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rows {
    pub(crate) task: i64,
    pub(crate) session: i64,
    pub(crate) turn: i64,
}

/// What had been left lying and is in the queue again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Turns whose owner let the lease run out.
    pub expired: usize,
    /// Turns whose next try was due.
    pub due: usize,
    /// When the next one falls due, if any waits.
    pub next_due: Option<Timestamp>,
}

/// A process that owns live sessions. Whether it lives is told by its lock file, not by its pid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub id: OwnerId,
    pub kind: OwnerKind,
    pub pid: u32,
    /// Why it takes no work for the moment.
    pub holding: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerKind {
    /// `harvest run` in the foreground: its sessions end with it.
    Run,
    /// A server or worker: its sessions are taken over by the next one.
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

/// What people set about the queue as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct QueueSettings {
    pub paused: bool,
    /// How many agents each worker runs; `None`: what it was started with.
    pub agents: Option<u32>,
}

/// A change of these settings. What is not named stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueChange {
    pub paused: Option<bool>,
    pub agents: Option<WorkerAgents>,
}

/// How many agents each worker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerAgents {
    AsStarted,
    Exactly(u32),
}

impl WorkerAgents {
    pub(crate) fn number(self) -> Option<u32> {
        match self {
            Self::AsStarted => None,
            Self::Exactly(number) => Some(number),
        }
    }
}

/// The queue at a glance. Costs as much as there are unfinished turns of each state at most.
#[derive(Debug, Clone, Default, Serialize)]
pub struct QueueState {
    pub settings: QueueSettings,
    pub turns: TurnCounts,
    /// Finished tasks by status, and failed ones by reason.
    pub tasks: BTreeMap<String, u64>,
    pub failures: BTreeMap<String, u64>,
    /// What all tasks have cost, with those that were deleted.
    pub cost_usd: Cost,
    /// How often tasks have ended, and what they have cost, with those that are forgotten. Neither ever falls.
    #[serde(skip)]
    pub ever: Ever,
    pub caps: Vec<Cap>,
}

impl Ever {
    /// `totals`: what counts beside the tasks that are there.
    pub(crate) fn sum(tasks: &BTreeMap<String, u64>, cost_nanos: u64, totals: &BTreeMap<String, u64>) -> Self {
        let total = |name: &str| totals.get(name).copied().unwrap_or(0);
        let ended = ["completed", "failed", "cancelled"].iter().filter_map(|status| tasks.get(*status));
        Self {
            finished: ended.sum::<u64>() + total("finished"),
            cost_nanos: cost_nanos.saturating_add(total("cost_nanos")),
        }
    }
}

/// Sums over everything that ever was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ever {
    pub finished: u64,
    pub cost_nanos: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TurnCounts {
    pub ready: u64,
    pub blocked: u64,
    pub waiting: u64,
    pub parked: u64,
    pub claimed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cap {
    pub name: String,
    pub size: u32,
    /// Those that are worked on.
    pub used: u32,
}

/// A named batch of tasks followed as one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Convoy {
    pub name: String,
    /// Tasks by status.
    pub tasks: BTreeMap<String, u64>,
    pub cost_usd: Cost,
}
