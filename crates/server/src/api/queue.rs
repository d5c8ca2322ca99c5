//! The queue at a glance, and how it is worked off.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use harvest_core::Cost;
use harvest_store::{Owner, OwnerKind, QueueSettings, Store};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::extract::Body;
use crate::problem::Problem;
use crate::state::App;

const MOST_AGENTS: u32 = 1000;
const LONGEST_CAP: usize = 1000;

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
    /// Tasks by status.
    tasks: BTreeMap<String, u64>,
    /// Failed tasks by reason.
    failures: BTreeMap<String, u64>,
    /// The cost of all tasks, including deleted ones.
    cost_usd: Cost,
    caps: Vec<Cap>,
}

impl Queue {
    pub async fn read(store: &dyn Store) -> Result<Self, harvest_store::Error> {
        let (state, owners) = (store.queue().await?, store.owners().await?);
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
            workers: owners.iter().filter(|owner| owner.kind == OwnerKind::Server).count(),
            processes: owners.iter().map(process).collect(),
            holding: owners.into_iter().filter_map(|owner| owner.holding).collect(),
            turns: Turns {
                ready: turns.ready,
                blocked: turns.blocked,
                waiting: turns.waiting,
                parked: turns.parked,
                claimed: turns.claimed,
            },
            tasks: state.tasks,
            failures: state.failures,
            cost_usd: state.cost_usd,
            caps: state.caps.into_iter().map(|cap| Cap { name: cap.name, size: cap.size, used: cap.used }).collect(),
        })
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
    /// `repository:…`, `user:…` or `credential:…`.
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
    Ok(Json(Queue::read(app.store.as_ref()).await?))
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
    let before = app.store.queue_settings().await?;
    let agents = match change.agents {
        Some(0) => None,
        Some(agents) => Some(agents),
        None => before.agents,
    };
    app.store.set_queue(QueueSettings { paused: change.paused.unwrap_or(before.paused), agents }).await?;
    get(State(app)).await
}

/// A limit for the queue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CapChange {
    /// `repository:…`, `user:…` or `credential:…`.
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
    let kind = change.name.split_once(':').filter(|(_, rest)| !rest.is_empty()).map(|(kind, _)| kind);
    let has_kind = matches!(kind, Some("repository" | "user" | "credential"));
    if !has_kind || change.name.len() > LONGEST_CAP || change.name.contains(char::is_control) {
        return Err(Problem::bad("name", "it must begin with `repository:`, `user:` or `credential:`"));
    }
    if change.size.is_some() && harvest_engine::cap_holds_access(&change.name) {
        let detail = "it holds a user, a password, a query or a key, and names of caps are stored and shown";
        return Err(Problem::bad("name", detail).help("name the repository as GET /api/repositories shows it"));
    }
    if change.size == Some(0) {
        return Err(Problem::bad("size", "it must be 1 or more; `null` takes the cap away"));
    }
    app.store.set_cap(&harvest_engine::cap_name(&change.name), change.size).await?;
    get(State(app)).await
}
