//! The queue at a glance, and its settings.

use std::collections::BTreeMap;
use std::path::Path;

use axum::Json;
use axum::extract::State;
use harvest_core::{Cost, TaskId, Timestamp};
use harvest_store::{Owner, OwnerKind, Spending, Store, WorkerAgents};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::extract::Body;
use crate::problem::Problem;
use crate::state::App;

const MOST_AGENTS: u32 = 1000;
const LONGEST_CAP: usize = 1000;
/// How many tasks of the queue are listed by themselves.
const MOST_NEXT: usize = 50;

#[derive(Debug, Serialize, ToSchema)]
pub struct Queue {
    /// Whether the queue is paused: workers then take no tasks.
    paused: bool,
    /// How many agents each worker runs; absent: the number it was started with.
    agents: Option<u32>,
    /// The number of processes that run tasks from the queue.
    workers: usize,
    /// The workers one by one, and commands that run a task in the foreground.
    processes: Vec<Process>,
    /// Why some workers are not taking tasks at the moment.
    holding: Vec<String>,
    turns: Turns,
    /// The tasks that workers take next, in this order; at most 50.
    next: Vec<TaskId>,
    /// Tasks by status.
    tasks: BTreeMap<String, u64>,
    /// Failed tasks by reason.
    failures: BTreeMap<String, u64>,
    /// The cost of all tasks, including deleted ones.
    cost_usd: Cost,
    /// What accounts have spent since midnight UTC.
    today: Vec<SpentToday>,
    caps: Vec<Cap>,
}

impl Queue {
    /// `data` is the data directory of this machine, whose workers take nothing while it is full.
    pub async fn read(store: &dyn Store, data: &Path, now: Timestamp) -> Result<Self, harvest_store::Error> {
        let (state, owners, next) = (store.queue().await?, store.owners().await?, store.upcoming(MOST_NEXT).await?);
        let spending = store.spending(&harvest_engine::day_of(now)).await?;
        let workers = owners.iter().filter(|owner| owner.kind == OwnerKind::Server).count();
        let mut holding: Vec<String> = owners.iter().filter_map(|owner| owner.holding.clone()).collect();
        // A worker on a full disk cannot write down that it is.
        holding.extend(harvest_engine::no_room(data).filter(|_| workers > 0 && holding.is_empty()));
        let process = |owner: &Owner| Process {
            id: owner.id.to_string(),
            kind: if owner.kind == OwnerKind::Server { "worker" } else { "run" },
            pid: owner.pid,
            holding: owner.holding.clone(),
        };
        let turns = state.turns;
        Ok(Self {
            paused: state.settings.paused,
            agents: state.settings.agents,
            workers,
            processes: owners.iter().map(process).collect(),
            holding,
            turns: Turns {
                ready: turns.ready,
                blocked: turns.blocked,
                waiting: turns.waiting,
                parked: turns.parked,
                claimed: turns.claimed,
            },
            next,
            tasks: state.tasks,
            failures: state.failures,
            cost_usd: state.cost_usd,
            today: spending.into_iter().map(SpentToday::from).collect(),
            caps: state.caps.into_iter().map(|cap| Cap { name: cap.name, size: cap.size, used: cap.used }).collect(),
        })
    }
}

/// What an account has spent since midnight UTC.
#[derive(Debug, Serialize, ToSchema)]
pub struct SpentToday {
    /// `user:…`, `team:…` or `token:…`.
    account: String,
    /// The number of model calls.
    calls: u64,
    cost_usd: Cost,
    /// Set aside for calls that are under way.
    reserved_usd: Cost,
}

impl From<Spending> for SpentToday {
    fn from(Spending { account, calls, cost_usd, reserved_usd, .. }: Spending) -> Self {
        Self { account, calls, cost_usd, reserved_usd }
    }
}

/// A process that runs tasks.
#[derive(Debug, Serialize, ToSchema)]
pub struct Process {
    id: String,
    /// `worker`, or `run` for a command in the foreground.
    kind: &'static str,
    /// Its process ID on its machine.
    pid: u32,
    /// Why it is not taking tasks at the moment.
    holding: Option<String>,
}

/// The number of turns by status.
#[derive(Debug, Serialize, ToSchema)]
pub struct Turns {
    ready: u64,
    blocked: u64,
    waiting: u64,
    parked: u64,
    claimed: u64,
}

/// A limit on the turns with this name that run at the same time.
#[derive(Debug, Serialize, ToSchema)]
pub struct Cap {
    /// `repository:` with a path or URL, `user:` with a name, or `credential:` with a vendor.
    name: String,
    size: u32,
    /// The number of turns that are running.
    used: u32,
}

/// Changes to the queue; fields that are left out keep their values.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueChange {
    /// While it is true, workers take no tasks; running tasks continue.
    paused: Option<bool>,
    /// How many agents each worker runs; `0`: the number it was started with.
    #[schema(maximum = 1000)]
    agents: Option<u32>,
}

/// Show the queue
#[utoipa::path(
    get, path = "/api/queue", tag = "queue", operation_id = "queue.get",
    security(("token" = ["viewer", "everywhere"]), ("cookie" = ["viewer", "everywhere"])),
    responses((status = 200, body = Queue), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn get(State(app): State<App>) -> Result<Json<Queue>, Problem> {
    Ok(Json(Queue::read(app.store.as_ref(), app.data.path(), app.clock.now()).await?))
}

/// Pause or resume the queue, or change how many agents each worker runs
#[utoipa::path(
    patch, path = "/api/queue", tag = "queue", operation_id = "queue.change", request_body = QueueChange,
    security(("token" = ["admin", "everywhere"]), ("cookie" = ["admin", "everywhere"])),
    responses((status = 200, body = Queue), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn change(State(app): State<App>, Body(change): Body<QueueChange>) -> Result<Json<Queue>, Problem> {
    if change.agents.is_some_and(|agents| agents > MOST_AGENTS) {
        return Err(Problem::bad("agents", format!("there are at most {MOST_AGENTS} agents")));
    }
    let agents = change.agents.map(|agents| match agents {
        0 => WorkerAgents::AsStarted,
        agents => WorkerAgents::Exactly(agents),
    });
    app.store.change_queue(harvest_store::QueueChange { paused: change.paused, agents }).await?;
    get(State(app)).await
}

/// A limit for the queue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CapChange {
    /// `repository:` with a name, path or URL, `user:` with a name, or `credential:` with a vendor (`anthropic`, `openai`,
    /// `gemini`, `ollama`) or the ID of one of its credentials. A cap of a vendor counts the tasks of all its credentials.
    #[schema(min_length = 1, max_length = 1000)]
    name: String,
    /// The maximum number of turns at a time; `null`: no limit.
    #[schema(minimum = 1)]
    size: Option<u32>,
}

/// Limit how many turns of a repository, a user or a credential run at a time
#[utoipa::path(
    put, path = "/api/queue/caps", tag = "queue", operation_id = "queue.set_cap", request_body = CapChange,
    security(("token" = ["admin", "everywhere"]), ("cookie" = ["admin", "everywhere"])),
    responses((status = 200, body = Queue), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn set_cap(State(app): State<App>, Body(change): Body<CapChange>) -> Result<Json<Queue>, Problem> {
    if change.name.is_empty() || change.name.len() > LONGEST_CAP || change.name.contains(char::is_control) {
        return Err(Problem::bad("name", format!("it must have 1 to {LONGEST_CAP} bytes and no control characters")));
    }
    if !harvest_engine::may_change_cap(app.store.as_ref(), &change.name, change.size).await? {
        let detail = "it contains a user name, password, query or key; names of caps are stored and visible to others";
        return Err(Problem::bad("name", detail).help("name the repository as GET /api/repositories shows it"));
    }
    if change.size == Some(0) {
        return Err(Problem::bad("size", "it must be 1 or more; `null` takes the cap away"));
    }
    if let Err(unknown) = harvest_engine::set_cap(app.store.as_ref(), &change.name, change.size).await? {
        return Err(Problem::bad("name", unknown.to_string()).help(unknown.help()));
    }
    get(State(app)).await
}
