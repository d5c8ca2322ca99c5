//! The queue with its workers, and the changes to it.

use std::collections::BTreeMap;

use harvest_core::{Cost, TaskId};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Queue {
    /// Whether the queue is paused: workers then take no tasks.
    pub paused: bool,
    /// How many agents each worker runs; absent: the number it was started with.
    pub agents: Option<u32>,
    /// The number of processes that run tasks from the queue.
    pub workers: usize,
    /// The workers one by one, and commands that run a task in the foreground.
    pub processes: Vec<Process>,
    /// Why some workers are not taking tasks at the moment.
    pub holding: Vec<String>,
    pub turns: Turns,
    /// The tasks that workers take next, in this order; at most 50.
    pub next: Vec<TaskId>,
    /// Tasks by status.
    pub tasks: BTreeMap<String, u64>,
    /// Failed tasks by reason.
    pub failures: BTreeMap<String, u64>,
    /// The cost of all tasks, including deleted ones.
    pub cost_usd: Cost,
    /// What accounts have spent since midnight UTC.
    pub today: Vec<SpentToday>,
    pub caps: Vec<Cap>,
}

/// What an account has spent since midnight UTC.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpentToday {
    /// `user:…`, `team:…` or `token:…`.
    pub account: String,
    /// The number of model calls.
    pub calls: u64,
    pub cost_usd: Cost,
    /// Set aside for calls that are under way.
    pub reserved_usd: Cost,
}

/// A process that runs tasks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Process {
    pub id: String,
    /// `worker`, or `run` for a command in the foreground.
    pub kind: String,
    /// Its process ID on its machine.
    pub pid: u32,
    /// Why it is not taking tasks at the moment.
    pub holding: Option<String>,
}

/// The number of turns by status.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Turns {
    pub ready: u64,
    pub blocked: u64,
    pub waiting: u64,
    pub parked: u64,
    pub claimed: u64,
}

/// A limit on the turns with this name that run at the same time.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Cap {
    /// `repository:` with a path or URL, `user:` with a name, or `credential:` with a vendor.
    pub name: String,
    pub size: u32,
    /// The number of turns that are running.
    pub used: u32,
}

/// Changes to the queue; fields that are left out keep their values.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct QueueChange {
    /// While it is true, workers take no tasks; running tasks continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// How many agents each worker runs; `0`: the number it was started with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(maximum = 1000))]
    pub agents: Option<u32>,
}

/// A limit for the queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CapChange {
    /// `repository:` with a name, path or URL, `user:` with a name, or `credential:` with a vendor (`anthropic`, `openai`,
    /// `gemini`, `ollama`) or the ID of one of its credentials. A cap of a vendor counts the tasks of all its credentials.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 1000))]
    pub name: String,
    /// The maximum number of turns at a time; `null`: no limit.
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    pub size: Option<u32>,
}
