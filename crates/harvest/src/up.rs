//! `harvest up`: works off the queue, several agents side by side.

use std::sync::Arc;

use harvest_core::{Evidence, Outcome, TaskId, TaskStatus};
use harvest_engine::{Limits, Notice, Stop, Summary, warm};
use serde_json::json;
use tokio::signal::unix::SignalKind;

use crate::cli::{Global, Up};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::run::{on_signals, warn_of};
use crate::view::{Style, clean, local};
use crate::works::Wanted;
use crate::{ask, tracer, works};

/// What the first signal brings about.
pub const DRAINING: &str = "taking no more work; waiting for running tasks (press Ctrl-C again to exit at once)";
/// What the second signal brings about.
pub const LEFT: &str =
    "exited at once; the next worker takes over, and repeats work since the last checkpoint where an agent is lost";
pub const LEAVING: &str = "exiting; running agents continue, and the next worker takes them over";

pub async fn up(global: &Global, environment: Environment, options: Up) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    let script = options.place.model_script.as_deref().map(ask::load_script).transpose()?;
    let installation = Arc::new(Installation::open(global, environment).await?);
    let model = ask::offered_model(&installation, script.as_deref())?;
    warn_of(options.place.sandbox);
    let engine = installation.engine(installation.provider(options.place.sandbox)?, script, model)?;
    let drain = Stop::default();
    on_signals(
        &[SignalKind::interrupt(), SignalKind::terminate()],
        &drain,
        if options.place.keep_agents { LEAVING } else { DRAINING },
        Some(LEFT),
    );
    let limits = Limits {
        until_empty: options.until_empty,
        tasks: options.until.max_tasks,
        time: options.until.max_hours,
        cost: options.until.max_usd,
        ..Limits::default()
    };
    let telemetry = tracer::exporter(&installation)?;
    let wanted = Wanted {
        agents: options.agents,
        lease: options.place.lease,
        limits,
        patience: None,
        keep_agents: options.place.keep_agents,
        telemetry: telemetry.clone(),
    };
    let tell = |notice: &Notice| drop(if global.json { show_json(notice) } else { show(style, notice) });
    let summary = works::work(global, style, &installation, &engine, wanted, drain, tell).await;
    telemetry.close().await;
    let summary = summary?;
    if !global.json {
        let _ = output::line(&closing(style, &summary, engine.warm_stats()));
    } else {
        let Summary { completed, failed, cancelled, blocked, awaiting_approval, interrupted, spent, ended } = &summary;
        let _ = output::json(&json!({
            "type": "summary",
            "ended": ended,
            "completed": completed,
            "failed": failed,
            "cancelled": cancelled,
            "blocked": blocked,
            "awaiting_approval": awaiting_approval,
            "interrupted": interrupted,
            "cost_usd": spent,
        }));
        let _ = output::json(&json!({ "type": "warm", "stats": engine.warm_stats() }));
    }
    Ok(Exit::Done)
}

pub fn show(style: Style, notice: &Notice) -> Result<(), output::Closed> {
    let line = match notice {
        Notice::Started { task } => format!("{} {} started", style.dim(style.symbol("▸", ">")), task.short()),
        Notice::TakenOver { task } => {
            format!("{} {} continues: its agent outlived its worker", style.dim(style.symbol("▸", ">")), task.short())
        }
        Notice::Finished(outcome) => finished(style, outcome),
        Notice::AwaitsApproval { task } => {
            let id = task.short();
            format!(
                "{} {id} waits for your approval: harvest task show {id}, then harvest task approve {id}",
                style.stopped()
            )
        }
        Notice::Interrupted { task } => {
            let id = task.short();
            format!("{} {id} was interrupted; continue it with `harvest session resume {id}`", style.stopped())
        }
        Notice::LetGo { task } => {
            format!("{} {} waits for its race; the next worker continues it", style.stopped(), task.short())
        }
        Notice::WillRetry { task, reason, error, due } => {
            format!(
                "{} {} {reason}: {}; will try again at {}",
                style.stopped(),
                task.short(),
                clean(error),
                local(*due)
            )
        }
        Notice::Lost { task } => format!("{} {} was taken over by another worker", style.stopped(), task.short()),
        Notice::Broken { task, error } => {
            format!("{} {} could not continue: {}", style.failed(), task.short(), clean(error))
        }
        Notice::Resized { agents, is_set: false } => style.dim(&format!("concurrency: {agents}")),
        Notice::Resized { agents, is_set: true } => style.dim(&format!(
            "concurrency: {agents}, set by `harvest queue resize`; `harvest queue resize auto` removes that"
        )),
        Notice::Holding { why } => format!("{} taking no work: {why}", style.stopped()),
        Notice::WaitsForOthers { .. } | Notice::WaitsForRetry { .. } => return say_wait(notice),
    };
    output::line(&line)
}

/// Says on standard error what keeps a worker that has nothing to do.
fn say_wait(notice: &Notice) -> Result<(), output::Closed> {
    match notice {
        Notice::WaitsForOthers { tasks } => {
            let ids: Vec<&str> = tasks.iter().map(TaskId::short).collect();
            let words = match ids.as_slice() {
                [id] => format!("task {id} has ended: another process works on it"),
                ids => format!("tasks {} have ended: other processes work on them", ids.join(", ")),
            };
            output::complain(&format!("note: nothing is left to take; waiting until {words}"));
        }
        Notice::WaitsForRetry { due } => {
            output::complain(&format!("note: nothing is left to take before the next retry at {}", local(*due)));
        }
        _ => {}
    }
    Ok(())
}

fn finished(style: Style, outcome: &Outcome) -> String {
    let id = outcome.task_id.short();
    match (outcome.status, outcome.reason) {
        (TaskStatus::Completed, _) => {
            let (verdict, branch) = match &outcome.branch {
                Some(branch) => {
                    (format!(", {}", clean(&Evidence::words_of(outcome.evidence.as_ref()))), branch.as_str())
                }
                None => (String::new(), "no changes"),
            };
            let dot = style.dot();
            format!("{} {id} completed{verdict} {dot} {branch} {dot} {}", style.ok(), outcome.cost_usd)
        }
        (_, Some(reason)) if reason.is_stop() => format!("{} {id} stopped: {reason}", style.stopped()),
        (status, _) => {
            let why = outcome.error.as_deref().map(clean).unwrap_or_default();
            format!("{} {id} {status}: {why}", style.failed())
        }
    }
}

pub fn show_json(notice: &Notice) -> Result<(), output::Closed> {
    output::json(&match notice {
        Notice::Started { task } => json!({ "type": "started", "task_id": task }),
        Notice::TakenOver { task } => json!({ "type": "taken_over", "task_id": task }),
        Notice::Finished(outcome) => json!({ "type": "finished", "task_id": outcome.task_id, "outcome": outcome }),
        Notice::Interrupted { task } => json!({ "type": "interrupted", "task_id": task }),
        Notice::LetGo { task } => json!({ "type": "let_go", "task_id": task }),
        Notice::AwaitsApproval { task } => json!({ "type": "awaits_approval", "task_id": task }),
        Notice::WillRetry { task, reason, error, due } => {
            json!({ "type": "will_retry", "task_id": task, "reason": reason, "error": error, "due": due.to_string() })
        }
        Notice::Lost { task } => json!({ "type": "lost", "task_id": task }),
        Notice::Broken { task, error } => json!({ "type": "broken", "task_id": task, "error": error }),
        Notice::Resized { agents, .. } => json!({ "type": "resized", "agents": agents }),
        Notice::Holding { why } => json!({ "type": "holding", "why": why }),
        Notice::WaitsForOthers { .. } | Notice::WaitsForRetry { .. } => return say_wait(notice),
    })
}

fn closing(style: Style, summary: &Summary, spares: warm::Stats) -> String {
    let Summary { completed, failed, cancelled, blocked, awaiting_approval, interrupted, spent, ended } = summary;
    let dot = style.dot();
    let warm = match spares.hits {
        0 => String::new(),
        hits => format!(" {dot} {hits} of {} sandboxes started warm", hits + spares.misses),
    };
    let part = |count: u64, words: &str| if count > 0 { format!(", {count} {words}") } else { String::new() };
    let held = part(*awaiting_approval, "waiting for approval") + &part(*interrupted, "interrupted");
    let mut text = format!(
        "\n{ended}: {completed} completed, {failed} failed, {cancelled} cancelled, {blocked} blocked{held} {dot} {spent}{warm}"
    );
    if *blocked > 0 {
        let hint = "  blocked tasks wait for one that did not complete: harvest task list --status pending";
        text.push_str(&format!("\n{}", style.dim(hint)));
    }
    text
}
