//! The queue at a glance, and its settings.

use std::path::Path;

use axum::Json;
use axum::extract::State;
use harvest_api_types::{Cap, CapChange, Process, Queue, QueueChange, SpentToday, Turns};
use harvest_core::Timestamp;
use harvest_store::{Owner, OwnerKind, Spending, Store, WorkerAgents};

use crate::extract::Body;
use crate::problem::Problem;
use crate::state::App;

const MOST_AGENTS: u32 = 1000;
const LONGEST_CAP: usize = 1000;
/// How many tasks of the queue are listed by themselves.
const MOST_NEXT: usize = 50;

/// The queue as the API shows it.
///
/// `data` is the data directory of this machine, whose workers take nothing while it is full.
pub async fn read_queue(store: &dyn Store, data: &Path, now: Timestamp) -> Result<Queue, harvest_store::Error> {
    let (state, owners, next) = (store.queue().await?, store.owners().await?, store.upcoming(MOST_NEXT).await?);
    let spending = store.spending(&harvest_engine::day_of(now)).await?;
    let workers = owners.iter().filter(|owner| owner.kind == OwnerKind::Server).count();
    let mut holding: Vec<String> = owners.iter().filter_map(|owner| owner.holding.clone()).collect();
    // A worker on a full disk cannot write down that it is.
    holding.extend(harvest_engine::no_room(data).filter(|_| workers > 0 && holding.is_empty()));
    let process = |owner: &Owner| Process {
        id: owner.id.to_string(),
        kind: if owner.kind == OwnerKind::Server { "worker" } else { "run" }.to_owned(),
        pid: owner.pid,
        holding: owner.holding.clone(),
    };
    let turns = state.turns;
    Ok(Queue {
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
        today: spending.into_iter().map(spent_today).collect(),
        caps: state.caps.into_iter().map(|cap| Cap { name: cap.name, size: cap.size, used: cap.used }).collect(),
    })
}

fn spent_today(Spending { account, calls, cost_usd, reserved_usd, .. }: Spending) -> SpentToday {
    SpentToday { account, calls, cost_usd, reserved_usd }
}

/// Show the queue
#[utoipa::path(
    get, path = "/api/queue", tag = "queue", operation_id = "queue.get",
    security(("token" = ["viewer", "everywhere"]), ("cookie" = ["viewer", "everywhere"])),
    responses((status = 200, body = Queue), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn get(State(app): State<App>) -> Result<Json<Queue>, Problem> {
    Ok(Json(read_queue(app.store.as_ref(), app.data.path(), app.clock.now()).await?))
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
