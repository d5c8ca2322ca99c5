//! `harvest status` over HTTP.

use std::time::Duration;

use harvest_api_types::Queue;
use harvest_core::{Clock, Task};
use serde_json::Value;

use super::{Remote, parse};
use crate::cli::Global;
use crate::failure::{Exit, Failure};
use crate::installation::SystemClock;
use crate::output;
use crate::status::{MOST_SHOWN, SHOWN, for_people};
use crate::task::look;
use crate::view::{Style, clean};

/// How often it is asked for with `--watch`.
const WATCH: Duration = Duration::from_secs(1);

pub async fn status(global: &Global, style: Style, remote: &Remote, watch: bool) -> Result<Exit, Failure> {
    loop {
        let queue: Value = remote.get("/api/queue").await?;
        let shown = if global.json {
            output::json(&queue)
        } else {
            let mut tasks = Vec::new();
            for status in SHOWN {
                let path = format!("/api/tasks?status={status}&limit={MOST_SHOWN}");
                tasks.extend(remote.items::<Task>(&path).await?);
            }
            let clear = if watch && style.terminal { "\u{1b}[H\u{1b}[2J" } else { "" };
            output::line(&format!("{clear}{}", page(style, remote.url(), &parse(&queue)?, &tasks)))
        };
        if !watch || shown.is_err() {
            return Ok(Exit::Done);
        }
        tokio::time::sleep(WATCH).await;
    }
}

fn page(style: Style, url: &str, queue: &Queue, tasks: &[Task]) -> String {
    let dot = style.dot();
    let mut lines = Vec::new();
    let mut field =
        |name: &str, value: String| lines.push(format!("{}  {}", style.dim(&format!("{name:<9}")), clean(&value)));
    field("server", url.to_owned());
    let paused = if queue.paused { " (paused)" } else { "" };
    field("workers", format!("{}{paused}", queue.workers));
    let turns = &queue.turns;
    field("working", turns.claimed.to_string());
    field(
        "queue",
        format!(
            "{} ready {dot} {} blocked {dot} {} waiting for a retry {dot} {} held back by a cap",
            turns.ready, turns.blocked, turns.waiting, turns.parked
        ),
    );
    let count = |status: &str| queue.tasks.get(status).copied().unwrap_or(0);
    if let Some(waiting) = for_people(style, count) {
        field("for you", waiting);
    }
    field(
        "ended",
        format!(
            "{} completed {dot} {} failed {dot} {} cancelled",
            count("completed"),
            count("failed"),
            count("cancelled")
        ),
    );
    let table = look::table(style, tasks, &look::Statuses::new(), SystemClock.now());
    lines.extend(table.lines().iter().map(|line| format!("  {line}")));
    lines.join("\n")
}
