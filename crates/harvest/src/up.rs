//! `harvest up`: works off the queue, several agents side by side.

use std::sync::Arc;
use std::time::Duration;

use harvest_core::{Outcome, TaskStatus};
use harvest_engine::{Interrupts, Limits, Notice, Pool, Stop, Summary, Warm, warm};
use harvest_store::OwnerKind;
use serde_json::json;
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;

use crate::cli::{Global, SandboxKind, Up};
use crate::config::Key;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::run::on_signals;
use crate::view::{Style, clean};
use crate::{ask, reload, repo, schedule, upkeep};

const NOTICES: usize = 256;
const LEASE: Duration = Duration::from_secs(60);

pub async fn up(global: &Global, environment: Environment, options: Up) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    let script = options.model_script.as_deref().map(ask::load_script).transpose()?;
    let installation = Arc::new(Installation::open(global, environment).await?);
    let settings = installation.settings()?;
    let model = ask::offered_model(&installation, script.as_deref())?;
    if options.sandbox == SandboxKind::None {
        output::complain(
            "warning: --sandbox none gives the agents everything you have: your files, your network, your processes",
        );
    }
    let engine = installation.engine(installation.provider(options.sandbox)?, script, model)?;
    let owner = installation.own(OwnerKind::Server).await?;
    let _interrupts = Interrupts::watch(&engine, owner.id())?;
    let drain = Stop::default();
    on_signals(
        &[SignalKind::interrupt(), SignalKind::terminate()],
        &drain,
        "taking no more work; waiting for what is under way (once more to leave at once)",
    );
    let limits = Limits {
        agents: None,
        until_empty: options.until_empty,
        tasks: options.max_tasks,
        time: options.max_hours,
        cost: options.max_usd,
        model_calls: settings.count(Key::ModelCalls).map(|calls| calls as usize),
        lease: options.lease.or(settings.time(Key::Lease)).unwrap_or(LEASE),
    };
    let agents = reload::agents(installation.config.clone(), options.agents, settings.count(Key::Agents));
    let mut schedules = schedule::Beside::new(installation.clone(), engine.clone());
    schedules.catch_up(global, style).await?;
    let (notices, mut inbox) = mpsc::channel(NOTICES);
    let (snapshots, no_more) = (repo::Beside::new(engine.clone(), &owner), Stop::default());
    let spares = warm::Options {
        most: settings.count(Key::Warm).map(|most| most as usize),
        agents: *agents.borrow(),
        expect_more: !options.until_empty,
    };
    let spares = Warm::new(engine.clone(), owner.id().clone(), spares);
    let pool = Pool::new(engine.clone(), owner.id().clone(), limits, notices).sized_by(agents);
    let working = async {
        let summary = tokio::select! {
            summary = pool.run(drain) => summary,
            never = schedules.run(global, style) => match never {},
        };
        no_more.request();
        summary
    };
    let showing = async {
        while let Some(notice) = inbox.recv().await {
            // Nobody reading is no reason to stop working.
            let _ = if global.json { show_json(&notice) } else { show(style, &notice) };
        }
    };
    let (summary, (), (), (), ()) = tokio::join!(
        working,
        showing,
        snapshots.run(global, style, no_more.clone()),
        spares.run(no_more.clone()),
        upkeep::run(&installation, no_more.clone()),
    );
    let summary = installation.let_go(owner, summary.map_err(Failure::from)).await?;
    if !global.json {
        let _ = output::line(&closing(style, &summary, engine.warm_stats()));
    } else {
        let _ = output::json(&json!({ "type": "warm", "stats": engine.warm_stats() }));
    }
    Ok(Exit::Done)
}

fn show(style: Style, notice: &Notice) -> Result<(), output::Closed> {
    let line = match notice {
        Notice::Started { task } => format!("{} {} started", style.dim(style.symbol("▸", ">")), task.short()),
        Notice::Finished(outcome) => finished(style, outcome),
        Notice::AwaitsApproval { task } => {
            let id = task.short();
            format!("{} {id} has made a plan: harvest task logs {id}, then harvest task approve {id}", style.stopped())
        }
        Notice::WillRetry { task, reason, error, due } => {
            format!("{} {} {reason}: {}; tried again at {due}", style.stopped(), task.short(), clean(error))
        }
        Notice::Lost { task } => format!("{} {} was taken over by another worker", style.stopped(), task.short()),
        Notice::Broken { task, error } => {
            format!("{} {} could not go on: {}", style.failed(), task.short(), clean(error))
        }
        Notice::Resized { agents } => style.dim(&format!("{agents} agents side by side")),
        Notice::Holding { why } => format!("{} taking no work: {why}", style.stopped()),
    };
    output::line(&line)
}

fn finished(style: Style, outcome: &Outcome) -> String {
    let id = outcome.task_id.short();
    match (outcome.status, outcome.reason) {
        (TaskStatus::Completed, _) => {
            let branch = outcome.branch.as_ref().map_or("nothing changed", |branch| branch.as_str());
            format!("{} {id} completed {} {branch} {} {}", style.ok(), style.dot(), style.dot(), outcome.cost_usd)
        }
        (_, Some(reason)) if reason.is_stop() => format!("{} {id} stopped: {reason}", style.stopped()),
        (status, _) => {
            let why = outcome.error.as_deref().map(clean).unwrap_or_default();
            format!("{} {id} {status}: {why}", style.failed())
        }
    }
}

fn show_json(notice: &Notice) -> Result<(), output::Closed> {
    output::json(&match notice {
        Notice::Started { task } => json!({ "type": "started", "task_id": task }),
        Notice::Finished(outcome) => json!({ "type": "finished", "task_id": outcome.task_id, "outcome": outcome }),
        Notice::AwaitsApproval { task } => json!({ "type": "awaits_approval", "task_id": task }),
        Notice::WillRetry { task, reason, error, due } => {
            json!({ "type": "will_retry", "task_id": task, "reason": reason, "error": error, "due": due.to_string() })
        }
        Notice::Lost { task } => json!({ "type": "lost", "task_id": task }),
        Notice::Broken { task, error } => json!({ "type": "broken", "task_id": task, "error": error }),
        Notice::Resized { agents } => json!({ "type": "resized", "agents": agents }),
        Notice::Holding { why } => json!({ "type": "holding", "why": why }),
    })
}

fn closing(style: Style, summary: &Summary, spares: warm::Stats) -> String {
    let count = |status| summary.outcomes.iter().filter(|outcome| outcome.status == status).count();
    let spent: harvest_core::Cost = summary.outcomes.iter().map(|outcome| outcome.cost_usd).sum();
    let dot = style.dot();
    let warm = match spares.hits {
        0 => String::new(),
        hits => format!(" {dot} {hits} of {} sandboxes were there before", hits + spares.misses),
    };
    format!(
        "\n{}: {} completed, {} failed, {} cancelled {dot} {spent}{warm}",
        summary.ended,
        count(TaskStatus::Completed),
        count(TaskStatus::Failed),
        count(TaskStatus::Cancelled),
    )
}
