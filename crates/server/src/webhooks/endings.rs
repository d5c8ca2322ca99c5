//! Status comments of tasks that were cancelled while no worker had them: in the queue, at a rejected plan, or with a task that
//! they waited for. Whoever works on a task updates its comment itself.

use std::collections::BTreeSet;
use std::time::Duration;

use harvest_core::{Outcome, Source, Task, TaskId, TaskStatus, Timestamp};
use harvest_engine::Stop;
use harvest_store::TaskQuery;

use crate::state::App;

/// The queue may change often; the list is read no more often than this.
const PAUSE: Duration = Duration::from_secs(1);
/// Tasks that ended while no server ran are found when one starts within this time.
const LOOKS_BACK: Duration = Duration::from_secs(24 * 60 * 60);
/// Time for one comment.
const PATIENCE: Duration = Duration::from_secs(100);
const MOST: usize = 200;

type Ended = (TaskId, Timestamp);

/// Runs until the server closes.
pub async fn run(app: App, closing: Stop) {
    let mut queue = app.store.watch_queue();
    let mut told = BTreeSet::new();
    loop {
        queue.mark_unchanged();
        tokio::select! {
            () = closing.requested() => return,
            read = tell_new(&app, &mut told) => {
                if let Err(error) = read {
                    tracing::warn!(%error, "cancelled tasks cannot be read at the moment");
                }
            }
        }
        tokio::select! {
            () = closing.requested() => return,
            () = async { tokio::time::sleep(PAUSE).await; let _ = queue.changed().await; } => {}
        }
    }
}

/// Tells of those that were not told of before. A comment that already says so is not edited.
async fn tell_new(app: &App, told: &mut BTreeSet<Ended>) -> Result<(), harvest_store::Error> {
    if app.desk.webhooks().await.is_none() {
        return Ok(());
    }
    let query = TaskQuery { status: Some(TaskStatus::Cancelled), limit: MOST, ..TaskQuery::default() };
    let now = app.clock.now();
    let oldest = now.checked_sub(LOOKS_BACK).unwrap_or(now);
    let mut current = BTreeSet::new();
    for task in app.store.tasks(query).await?.items {
        let is_hosted = matches!(task.source, Source::GithubIssue | Source::GithubPr);
        let Some(at) = task.finished_at.filter(|at| is_hosted && *at >= oldest) else { continue };
        let ended = (task.id.clone(), at);
        if !told.contains(&ended) {
            tell(app, &task).await?;
        }
        current.insert(ended);
    }
    *told = current;
    Ok(())
}

async fn tell(app: &App, task: &Task) -> Result<(), harvest_store::Error> {
    let Some(session) = app.store.task(&task.id).await?.sessions.pop() else { return Ok(()) };
    let outcome = Outcome {
        task_id: task.id.clone(),
        session_id: session.id,
        status: task.status,
        reason: task.reason,
        error: task.error.clone(),
        branch: task.branch.clone(),
        commit: task.commit.clone().unwrap_or_else(|| task.base.clone()),
        base: task.base.clone(),
        evidence: None,
        usage: task.usage,
        cost_usd: task.cost_usd,
    };
    match tokio::time::timeout(PATIENCE, app.engine.tell_end(&outcome)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(task = %task.id, %error, "a cancelled task could not be told of on GitHub"),
        Err(_) => tracing::warn!(task = %task.id, "a cancelled task could not be told of on GitHub in time"),
    }
    Ok(())
}
