//! `harvest task delete`: forgets a task that has ended. What it delivered, what it cost and the audit log stay.

use harvest_core::{Code, Task, TaskId};
use harvest_store::Forgotten;
use serde_json::json;

use crate::cli::Global;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::view::Style;

pub async fn delete(
    global: &Global,
    installation: &Installation,
    style: Style,
    id: &TaskId,
    force: bool,
) -> Result<Exit, Failure> {
    let detail = installation.store.task(id).await?;
    let (task, short) = (&detail.task, id.short());
    if !force {
        must_be_delivered(task)?;
    }
    let engine = installation.queueing_engine()?;
    for session in &detail.sessions {
        match engine.forget_session(&session.id).await? {
            Forgotten::Session => {}
            Forgotten::Busy => {
                let message = format!("task {short} has not ended: {}", task.status);
                let help = format!("stop it first: harvest task cancel {short}, or harvest task terminate {short}");
                return Err(Failure::refused(Code::SessionBusy, message, help));
            }
            Forgotten::Needed(waiting) => {
                let waiting = waiting.short();
                let message = format!("task {waiting} waits for task {short}");
                let help = format!("cancel {waiting} first: harvest task cancel {waiting}");
                return Err(Failure::refused(Code::SessionBusy, message, help));
            }
        }
    }
    // Making an engine makes the folder that sandboxes would be in.
    installation.tidy();
    let branch = task.branch.as_ref().map(ToString::to_string);
    say_deleted(global, style, id.as_str(), branch.as_deref());
    Ok(Exit::Done)
}

/// Work that is on no branch goes with its task.
pub fn must_be_delivered(task: &Task) -> Result<(), Failure> {
    if !task.status.is_finished() || !task.has_undelivered_work() {
        return Ok(());
    }
    let (short, commit) = (task.id.short(), task.commit.as_deref().unwrap_or_default());
    let commit = commit.get(..10).unwrap_or(commit);
    let message = format!("the work of task {short} (commit {commit}) was not delivered, and would be deleted with it");
    let help = format!("look at it first: harvest task diff {short}; then harvest task delete {short} --force");
    Err(Failure::refused(Code::Undelivered, message, help))
}

pub fn say_deleted(global: &Global, style: Style, id: &str, branch: Option<&str>) {
    let _ = if global.json {
        output::json(&json!({ "task_id": id, "deleted": true, "branch": branch }))
    } else {
        let stays = branch.map(|branch| format!("; the branch {branch} stays")).unwrap_or_default();
        output::line(&format!("{} task {} is deleted{stays}", style.ok(), id.get(..8).unwrap_or(id)))
    };
}
