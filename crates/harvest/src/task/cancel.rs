//! `harvest task cancel` and `harvest task terminate`: stop a task wherever it is being worked on, with time for its agent to
//! end or without.

use std::time::Duration;

use harvest_core::{Code, Stopping, Task, TaskId, TaskStatus};

use crate::cli::Global;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::view::Style;

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);

pub async fn stop(
    global: &Global,
    installation: &Installation,
    style: Style,
    id: &TaskId,
    how: Stopping,
) -> Result<Exit, Failure> {
    let store = &installation.store;
    let task = store.task(id).await?.task;
    if task.status.is_finished() {
        let message = format!("task {} has ended already: {}", id.short(), task.status);
        return Err(Failure::refused(Code::TaskFinished, message, format!("see harvest task show {}", id.short())));
    }
    let waited = installation.cancel_waiting(id, how.clone()).await?;
    if waited.is_none() && !installation.cancel_left(id).await? {
        store.request_stop(id, how.clone()).await?;
        wait(installation, id, &how).await?;
    }
    let task = super::document(installation, id).await?;
    let _ = if global.json { output::json(&task) } else { output::line(&ended(style, &task.task, waited.is_some())) };
    Ok(Exit::Done)
}

/// What a task is after it was stopped. A follow-up or retry that `waited` leaves the task with the result that it had.
pub fn ended(style: Style, task: &Task, waited: bool) -> String {
    let (sign, id, status) = (style.ok(), task.id.short(), task.status);
    let kept = match &task.branch {
        Some(branch) => format!("; its work is on {branch}"),
        None if task.has_undelivered_work() => format!("; its work is kept in Harvest: harvest task diff {id}"),
        None => String::new(),
    };
    if waited && status != TaskStatus::Cancelled {
        // A completed task is not tried again.
        let what = if status == TaskStatus::Completed { "follow-up" } else { "turn" };
        return format!("{sign} the waiting {what} is cancelled; task {id} is {status} as before{kept}");
    }
    format!("{sign} task {id} is {status}{kept}")
}

/// Another process works on the task, so its end can only be seen in the database.
async fn wait(installation: &Installation, id: &TaskId, how: &Stopping) -> Result<(), Failure> {
    let ended = async {
        loop {
            let status = installation.store.task(id).await?.task.status;
            // Whoever worked on it may have been lost, or have given it back, before hearing of it.
            let is_left =
                matches!(status, TaskStatus::Pending | TaskStatus::Interrupted | TaskStatus::AwaitingApproval);
            if status.is_finished() || is_left && installation.cancel_waiting(id, how.clone()).await?.is_some() {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok::<_, Failure>(())
    };
    match tokio::time::timeout(PATIENCE, ended).await {
        Ok(result) => result,
        Err(_) => Err(Failure::failed(
            Code::Internal,
            format!("task {} did not stop within {} s", id.short(), PATIENCE.as_secs()),
        )),
    }
}
