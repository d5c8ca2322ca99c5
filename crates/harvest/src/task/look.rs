//! list, show, logs, diff: nothing here changes anything.

use harvest_core::{Code, Event, Overlap, Task, TaskId, TaskStatus};
use harvest_store::{TaskDetail, TaskPage, TaskQuery};
use serde_json::json;

use super::proposal::{self, Proposal, Review};
use crate::cli::Global;
use crate::failure::{Exit, Failure};
use crate::follow::{Follow, ends};
use crate::installation::Installation;
use crate::output;
use crate::view::{Activity, Style, clean, evidence_details, evidence_line};

const TITLE: usize = 52;

pub async fn list(
    global: &Global,
    installation: &Installation,
    style: Style,
    query: TaskQuery,
) -> Result<Exit, Failure> {
    list_page(global, style, &installation.store.tasks(query).await?);
    Ok(Exit::Done)
}

pub fn list_page(global: &Global, style: Style, page: &TaskPage) {
    if global.json {
        let _ = output::json(page);
        return;
    }
    if page.items.is_empty() {
        let _ = output::line("no tasks yet; give one: harvest run \"Make the failing test pass\"");
    }
    for task in &page.items {
        if output::line(&row(style, task)).is_err() {
            return;
        }
    }
    if let Some(cursor) = &page.next_cursor {
        let _ = output::line(&style.dim(&format!("more: harvest task list --cursor {cursor}")));
    }
}

pub fn row(style: Style, task: &Task) -> String {
    let title: String = clean(task.prompt.title()).chars().take(TITLE).collect();
    let state = match task.reason {
        Some(reason) if task.status == TaskStatus::Failed => format!("{}: {reason}", task.status),
        _ => task.status.to_string(),
    };
    let state = format!("{state:<18}");
    let state = match (task.status, task.reason) {
        (TaskStatus::Completed, _) => style.good(&state),
        (_, Some(reason)) if reason.is_stop() => style.warn(&state),
        (TaskStatus::Failed, _) => style.bad(&state),
        _ => style.accent(&state),
    };
    let branch = task.branch.as_ref().map_or("", |branch| branch.as_str());
    format!(
        "{}  {state}  {title:<TITLE$}  {:>9}  {}",
        style.bold(task.id.short()),
        task.cost_usd.to_string(),
        style.dim(branch)
    )
}

pub async fn show(global: &Global, installation: &Installation, style: Style, id: &TaskId) -> Result<Exit, Failure> {
    let detail = installation.store.task(id).await?;
    let proposal = proposal::of(installation, &detail).await?;
    let overlaps = installation.store.overlaps(id).await?;
    show_detail(global, style, &detail, &overlaps, proposal.as_ref());
    Ok(Exit::Done)
}

/// A task and, where someone has to decide, on what.
pub fn show_detail(
    global: &Global,
    style: Style,
    detail: &TaskDetail,
    overlaps: &[Overlap],
    proposal: Option<&Proposal>,
) {
    let _ = if global.json {
        let mut shown = serde_json::to_value(detail).unwrap_or_default();
        shown["overlaps"] = serde_json::to_value(overlaps).unwrap_or_default();
        if let Some(proposal) = proposal {
            shown["proposal"] = serde_json::to_value(proposal).unwrap_or_default();
        }
        output::json(&shown)
    } else {
        let mut text = page(style, detail);
        for overlap in overlaps {
            let name = style.dim(&format!("{:<10}", "overlaps"));
            let paths = clean(&overlap.paths.join(", "));
            text.push_str(&format!("\n  {name}  with {}: {paths}", overlap.with_task.short()));
        }
        if let Some(proposal) = proposal {
            text.push_str(&waiting(style, detail.task.id.short(), proposal));
        }
        output::line(&text)
    };
}

/// What there is to decide on.
fn waiting(style: Style, id: &str, proposal: &Proposal) -> String {
    let text = match proposal {
        Proposal::Plan { text, reviews } => {
            let review = |review: &Review| {
                format!("\n\n{}\n{}", style.bold(&format!("What {} says about it", review.agent)), clean(&review.text))
            };
            let reviews: String = reviews.iter().map(review).collect();
            format!("\n\n{}\n{}{reviews}", style.bold("Its plan"), clean(text))
        }
        Proposal::Delivery { commit, files, evidence } => {
            let files: String = files.iter().map(|file| format!("\n  {}", clean(file))).collect();
            let evidence = evidence.as_ref().map_or("no test was run".to_owned(), |found| evidence_line(style, found));
            let commit = commit.get(..10).unwrap_or(commit);
            format!("\n\n{} ({commit}){files}\n  {evidence}", style.bold("What it would deliver"))
        }
    };
    let hint = format!("harvest task approve {id}   or   harvest task reject {id} --comment TEXT");
    format!("{text}\n\n{}", style.dim(&hint))
}

fn page(style: Style, TaskDetail { task, sessions }: &TaskDetail) -> String {
    let mut lines = vec![style.bold(&clean(task.prompt.title()))];
    let mut field =
        |name: &str, value: &str| lines.push(format!("  {}  {}", style.dim(&format!("{name:<10}")), clean(value)));
    field("id", task.id.as_str());
    field("status", task.status.as_str());
    if let Some(reason) = task.reason {
        field("reason", reason.as_str());
    }
    if let Some(error) = &task.error {
        field("error", error);
    }
    field("repository", &task.repository);
    field("base", &task.base);
    if let Some(branch) = &task.branch {
        field("branch", branch.as_str());
    } else if task.status == TaskStatus::Completed {
        field("changes", "no changes");
    }
    if let Some(commit) = &task.commit {
        field("commit", commit);
    }
    field("agent", &format!("{} {} {}", task.agent, style.dot(), task.model.as_deref().unwrap_or_default()));
    field("test", task.settings.test.as_deref().unwrap_or("none"));
    if let Some(evidence) = &task.evidence {
        field("evidence", &evidence_line(style.without_color(), evidence));
        for line in evidence_details(style.without_color(), evidence) {
            field("", &line);
        }
    }
    let usage = &task.usage;
    field(
        "cost",
        &format!(
            "{} of {} ({} tokens in, {} out)",
            task.cost_usd, task.budget_usd, usage.input_tokens, usage.output_tokens
        ),
    );
    if let Some(convoy) = &task.convoy {
        field("convoy", convoy);
    }
    if !task.after.is_empty() {
        let after: Vec<&str> = task.after.iter().map(TaskId::short).collect();
        field("waits for", &after.join(", "));
    }
    if task.tries > 1 || task.retries_left > 0 {
        field("tries", &format!("{}, {} more if it fails", task.tries, task.retries_left));
    }
    field("asked", &format!("{} by {}", task.created_at, task.requested_by));
    if let Some(finished) = task.finished_at {
        field("finished", &finished.to_string());
    }
    for session in sessions {
        for turn in &session.turns {
            for attempt in &turn.attempts {
                let code = attempt.exit_code.map_or("killed".to_owned(), |code| format!("exit code {code}"));
                let ended = if attempt.finished_at.is_some() { code } else { "unfinished".to_owned() };
                field(
                    "attempt",
                    &format!("turn {} {} {} {} {ended}", turn.number, style.dot(), attempt.agent, style.dot()),
                );
            }
        }
    }
    lines.join("\n")
}

pub async fn logs(
    global: &Global,
    installation: &Installation,
    style: Style,
    id: &TaskId,
    follow: bool,
) -> Result<Exit, Failure> {
    let detail = installation.store.task(id).await?;
    for session in &detail.sessions {
        let mut activity = Activity::new(style);
        let mut journal = Follow::new(installation.store.clone(), session.id.clone());
        let mut ended = false;
        loop {
            let mut events = journal.now().await?;
            if events.is_empty() {
                if !follow || ended {
                    break;
                }
                events = journal.next().await?;
            }
            for event in &events {
                ended = ends(event);
                if print(global, &mut activity, event).is_err() {
                    return Ok(Exit::Done);
                }
            }
        }
    }
    Ok(Exit::Done)
}

pub fn print(global: &Global, activity: &mut Activity, event: &Event) -> Result<(), output::Closed> {
    if global.json {
        return output::json(event);
    }
    activity.lines(&event.body).iter().try_for_each(|line| output::line(line))
}

pub async fn diff(global: &Global, installation: &Installation, style: Style, id: &TaskId) -> Result<Exit, Failure> {
    let detail = installation.store.task(id).await?;
    let task = &detail.task;
    let mut patch = Vec::new();
    // What waits to be delivered is what people want to see now.
    let commit = match proposal::of(installation, &detail).await? {
        Some(Proposal::Delivery { commit, .. }) => Some(commit),
        _ => task.commit.clone(),
    };
    if let (Some(session), Some(commit)) = (detail.sessions.first(), &commit)
        && *commit != task.base
    {
        let repository = installation.data.existing_repository(&session.id).ok_or_else(|| {
            let message =
                format!("the work of task {} is not here: another machine did it, or it was collected", id.short());
            let branch = session.branch.as_str();
            Failure::refused(Code::NothingToApply, message, format!("look at its branch: git log -p {branch}"))
        })?;
        patch = repository.diff(&task.base, commit).await?;
    }
    let document = json!({ "base": task.base, "commit": task.commit, "diff": String::from_utf8_lossy(&patch) });
    show_diff(global, style, &document, &patch);
    Ok(Exit::Done)
}

pub fn show_diff(global: &Global, style: Style, document: &serde_json::Value, patch: &[u8]) {
    let _ = if global.json {
        output::json(document)
    } else if style.terminal {
        // A program gets the diff as it is; a terminal gets nothing that could steer it.
        output::line(clean(&String::from_utf8_lossy(patch)).trim_end())
    } else {
        output::bytes(patch)
    };
}
