//! `harvest task delete`: forgets a task that has ended. What it delivered, what it cost and the audit log stay.

use harvest_core::{Code, TaskId};
use harvest_store::Forgotten;
use serde_json::json;

use crate::cli::Global;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::view::Style;

pub async fn delete(global: &Global, installation: &Installation, style: Style, id: &TaskId) -> Result<Exit, Failure> {
    let detail = installation.store.task(id).await?;
    let (task, short) = (&detail.task, id.short());
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
    let branch = task.branch.as_ref().map(ToString::to_string);
    say_deleted(global, style, id.as_str(), branch.as_deref());
    Ok(Exit::Done)
}

pub fn say_deleted(global: &Global, style: Style, id: &str, branch: Option<&str>) {
    let _ = if global.json {
        output::json(&json!({ "task_id": id, "deleted": true, "branch": branch }))
    } else {
        let stays = branch.map(|branch| format!("; the branch {branch} stays")).unwrap_or_default();
        output::line(&format!("{} task {} is deleted{stays}", style.ok(), id.get(..8).unwrap_or(id)))
    };
}
