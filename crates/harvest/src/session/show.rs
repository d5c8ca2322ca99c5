//! `harvest session show`.

use harvest_core::{Session, SessionId, Task, Turn, TurnEnd};
use harvest_server::read_session;

use crate::cli::Global;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::view::{Style, clean};

pub async fn show(global: &Global, installation: &Installation, style: Style, id: &SessionId) -> Result<Exit, Failure> {
    if global.json {
        let _ = output::json(&read_session(installation.store.as_ref(), id).await?);
        return Ok(Exit::Done);
    }
    let session = installation.store.session(id).await?;
    let task = installation.store.task(&session.task_id).await?.task;
    let _ = output::line(&page(style, &session, &task));
    Ok(Exit::Done)
}

pub fn page(style: Style, session: &Session, task: &Task) -> String {
    let mut lines = vec![style.bold(&clean(task.prompt.title()))];
    let mut field =
        |name: &str, value: &str| lines.push(format!("  {}  {}", style.dim(&format!("{name:<10}")), clean(value)));
    field("id", session.id.as_str());
    field("task", &format!("{} {} {}", task.id, style.dot(), task.status));
    field("repository", &task.repository);
    if task.has_undelivered_work() {
        field("branch", &format!("{} (not delivered; the work is kept in Harvest)", session.branch));
    } else if task.branch.is_none() && task.finished_at.is_some() {
        field("changes", "no changes");
    } else {
        field("branch", session.branch.as_str());
    }
    if let Some(commit) = task.commit.as_ref().filter(|_| task.branch.is_some() || task.has_undelivered_work()) {
        field("commit", commit);
    }
    let mut agent = &task.agent;
    for turn in &session.turns {
        agent = turn.agent.as_ref().unwrap_or(agent);
        field(&format!("turn {}", turn.number), &about(style, turn, agent));
    }
    lines.join("\n")
}

fn about(style: Style, turn: &Turn, agent: &str) -> String {
    let status = serde_json::to_value(turn.status).unwrap_or_default();
    let status = match turn.ended {
        Some(end) if end != TurnEnd::Completed => end.as_str(),
        _ => status.as_str().unwrap_or_default(),
    };
    format!("{status} {dot} {agent} {dot} {}: {}", turn.author, turn.prompt.title(), dot = style.dot())
}
