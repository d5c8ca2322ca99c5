//! `harvest status`: agents, queue, convoys, failures and spending at a glance.

use std::time::Duration;

use harvest_api_types::Convoy;
use harvest_core::{Cost, TaskStatus};
use harvest_store::{OwnerKind, QueueState, Spending, TaskQuery};

use crate::cli::Global;
use crate::convoy;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::remote::{self, Remote};
use crate::task::look;
use crate::view::Style;

/// The tasks that are listed: those that run, and those that wait for a person.
pub const SHOWN: [TaskStatus; 3] = [TaskStatus::Running, TaskStatus::AwaitingApproval, TaskStatus::Interrupted];
/// Of each status.
pub const MOST_SHOWN: usize = 20;
const WATCH: Duration = Duration::from_secs(1);

pub async fn status(global: &Global, environment: Environment, watch: bool) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    if let Some(remote) = Remote::of(global, &environment)? {
        return remote::status(global, style, &remote, watch).await;
    }
    let installation = Installation::open(global, environment).await?;
    let mut changes = installation.store.watch_queue();
    loop {
        changes.mark_unchanged();
        let shown = show(global, &installation, style, watch).await?;
        if !watch || shown.is_err() {
            return Ok(Exit::Done);
        }
        // Costs and running tasks change without the queue changing, so the clock wakes us as well.
        let _ = tokio::time::timeout(WATCH, changes.changed()).await;
    }
}

async fn show(
    global: &Global,
    installation: &Installation,
    style: Style,
    watch: bool,
) -> Result<Result<(), output::Closed>, Failure> {
    let store = &installation.store;
    if global.json {
        let (data, now) = (installation.data.path(), installation.clock.now());
        return Ok(output::json(&harvest_server::read_queue(store.as_ref(), data, now).await?));
    }
    let (queue, convoys, owners) = (store.queue().await?, store.convoys().await?, store.owners().await?);
    let convoys: Vec<Convoy> = convoys.into_iter().map(harvest_server::describe_convoy).collect();
    let mut shown = Vec::new();
    for status in SHOWN {
        let query = TaskQuery { status: Some(status), limit: MOST_SHOWN, ..TaskQuery::default() };
        shown.extend(store.tasks(query).await?.items);
    }
    let spending = store.spending(&harvest_engine::day_of(installation.clock.now())).await?;
    let workers = owners.iter().filter(|owner| owner.kind == OwnerKind::Server).count();
    let mut holding: Vec<String> = owners.iter().filter_map(|owner| owner.holding.clone()).collect();
    // A worker on a full disk cannot write down that it is.
    let no_room = harvest_engine::no_room(installation.data.path()).filter(|_| workers > 0 && holding.is_empty());
    holding.extend(no_room);
    let mut text = if watch && style.terminal { "\u{1b}[H\u{1b}[2J".to_owned() } else { String::new() };
    text.push_str(&page(style, &queue, &convoys, workers));
    for why in holding {
        let name = style.dim(&format!("{:<9}", "holding"));
        text.push_str(&format!("\n{name}  {} {}", style.stopped(), crate::view::clean(&why)));
    }
    let tenancy = installation.settings()?.tenancy();
    for one in &spending {
        text.push_str(&format!("\n{}", today(style, one, tenancy.daily(&one.account))));
    }
    for line in look::table(style, &shown, &look::Statuses::new(), installation.clock.now()).lines() {
        text.push_str(&format!("\n  {line}"));
    }
    Ok(output::line(&text))
}

/// What an account has spent today, and what it may.
fn today(style: Style, spending: &Spending, limit: Option<Cost>) -> String {
    let Spending { account, calls, cost_usd, reserved_usd, .. } = spending;
    let limit = limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
    let calls = if *calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") };
    let under_way = match *reserved_usd {
        Cost::ZERO => String::new(),
        reserved => format!(" {} {reserved} reserved", style.dot()),
    };
    let name = style.dim(&format!("{:<9}", "today"));
    format!("{name}  {} {cost_usd}{limit} {} {calls}{under_way}", crate::view::clean(account), style.dot())
}

/// The tasks that wait for a person, and what to do about them; `None` when there are none.
pub fn for_people(style: Style, count: impl Fn(&str) -> u64) -> Option<String> {
    let kinds = [
        (TaskStatus::AwaitingApproval, "awaiting approval", "harvest task approve|reject ID"),
        (TaskStatus::Interrupted, "interrupted", "harvest session resume ID"),
    ];
    let some = kinds.into_iter().map(|(status, words, command)| (count(status.as_str()), words, command));
    let some: Vec<String> = some
        .filter(|(count, ..)| *count > 0)
        .map(|(count, words, command)| format!("{count} {words} ({})", style.dim(command)))
        .collect();
    (!some.is_empty()).then(|| some.join(&format!(" {} ", style.dot())))
}

fn page(style: Style, queue: &QueueState, convoys: &[Convoy], workers: usize) -> String {
    let turns = &queue.turns;
    let count = |status: &str| queue.tasks.get(status).copied().unwrap_or(0);
    let dot = style.dot();
    let mut lines = Vec::new();
    let mut field = |name: &str, value: String| lines.push(format!("{}  {value}", style.dim(&format!("{name:<9}"))));
    let paused = if queue.settings.paused { style.warn(" (paused)") } else { String::new() };
    let size = match queue.settings.agents {
        None => String::new(),
        Some(1) => format!(" {dot} 1 agent each"),
        Some(agents) => format!(" {dot} {agents} agents each"),
    };
    field("workers", format!("{workers}{size}{paused}"));
    field("working", format!("{}", turns.claimed));
    field(
        "queue",
        format!(
            "{} ready {dot} {} blocked {dot} {} waiting for a retry {dot} {} held back by a cap",
            turns.ready, turns.blocked, turns.waiting, turns.parked
        ),
    );
    let waiting = for_people(style, count);
    if let Some(waiting) = waiting {
        field("for you", waiting);
    }
    let failures: Vec<String> = queue.failures.iter().map(|(reason, count)| format!("{reason}: {count}")).collect();
    let failed = if failures.is_empty() { String::new() } else { format!(" ({})", failures.join(", ")) };
    field(
        "ended",
        format!(
            "{} completed {dot} {} failed{failed} {dot} {} cancelled",
            count("completed"),
            count("failed"),
            count("cancelled")
        ),
    );
    field("spent", queue.cost_usd.to_string());
    for cap in &queue.caps {
        field("cap", format!("{} {} of {}", cap.name, cap.used, cap.size));
    }
    for batch in convoys {
        field("convoy", convoy::line(style, batch));
    }
    lines.join("\n")
}
