//! `harvest convoy …`: batches of tasks that are followed as one.

use harvest_api_types::Convoy as Batch;
use harvest_core::{Code, Timestamp};
use harvest_store::{ListedPage, TaskQuery};
use serde_json::json;

use crate::cli::{Convoy, Global};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::remote::{self, Remote};
use crate::task::look;
use crate::view::{Cell, Style, Table, clean};

pub const MOST: usize = 500;
/// What the names of races begin with.
const RACE: &str = "race-";

pub async fn convoy(global: &Global, environment: Environment, command: Convoy) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    if let Some(remote) = Remote::of(global, &environment)? {
        return remote::convoy(global, style, &remote, command).await;
    }
    let installation = Installation::open(global, environment).await?;
    let convoys = installation.store.convoys().await?;
    let convoys: Vec<Batch> = convoys.into_iter().map(harvest_server::describe_convoy).collect();
    match command {
        Convoy::List => show_list(global, style, &convoys),
        Convoy::Show { name } => {
            let convoy = convoys.iter().find(|convoy| convoy.name == name).ok_or_else(|| unknown(&name))?;
            let query = TaskQuery { convoy: Some(name), limit: MOST, ..TaskQuery::default() };
            let tasks = installation.store.list(query).await?;
            show_tasks(global, style, convoy, &tasks, installation.clock.now());
        }
    }
    Ok(Exit::Done)
}

pub fn unknown(name: &str) -> Failure {
    let message = format!("there is no convoy `{}`", clean(name));
    Failure::refused(Code::BadOption, message, "see `harvest convoy list`")
}

pub fn show_list(global: &Global, style: Style, convoys: &[Batch]) {
    if global.json {
        let _ = output::json(&json!({ "items": convoys, "next_cursor": null }));
        return;
    }
    if convoys.is_empty() {
        output::complain("no convoys yet; start one: harvest task add … --convoy spring-clean");
    }
    let mut table = Table::new(style, &["name", "progress", "tasks", "cost"]);
    for convoy in convoys {
        let paint = if count(convoy, "failed") > 0 { Style::bad } else { |_: Style, text: &str| text.to_owned() };
        table.row([
            Cell::new(clean(&convoy.name)).painted(Style::bold),
            bar(style, convoy).into(),
            Cell::new(words(style.without_color(), convoy)).painted(paint),
            Cell::new(convoy.cost_usd.to_string()).right(),
        ]);
    }
    let _ = table.lines().iter().try_for_each(|line| output::line(line));
}

pub fn show_tasks(global: &Global, style: Style, convoy: &Batch, tasks: &ListedPage, now: Timestamp) {
    if global.json {
        let _ = output::json(convoy);
        return;
    }
    let _ = output::line(&line(style, convoy));
    for line in look::listed_table(style, tasks, now).lines() {
        let _ = output::line(&format!("  {line}"));
    }
}

/// `spring-clean  ████████░░  8 of 10 completed, 1 failed · $1.20`
pub fn line(style: Style, convoy: &Batch) -> String {
    let (bar, words) = (bar(style, convoy), words(style, convoy));
    format!("{}  {bar}  {words} {} {}", style.bold(&convoy.name), style.dot(), convoy.cost_usd)
}

fn count(convoy: &Batch, status: &str) -> u64 {
    convoy.tasks.get(status).copied().unwrap_or(0)
}

/// How many of its tasks have ended.
fn bar(style: Style, convoy: &Batch) -> String {
    const WIDTH: u64 = 20;
    let ended: u64 = ["completed", "failed", "cancelled"].iter().map(|status| count(convoy, status)).sum();
    let all: u64 = convoy.tasks.values().sum();
    let filled = ended * WIDTH / all.max(1);
    (0..WIDTH).map(|place| if place < filled { style.symbol("█", "#") } else { style.symbol("░", ".") }).collect()
}

fn words(style: Style, convoy: &Batch) -> String {
    let [completed, failed, cancelled] = ["completed", "failed", "cancelled"].map(|status| count(convoy, status));
    let all: u64 = convoy.tasks.values().sum();
    // A race has one winner; the end of the others is no failure of the whole.
    if completed > 0 && convoy.name.starts_with(RACE) {
        format!("won; {} of {all} entrants did not win", all - completed)
    } else {
        let failures = if failed > 0 { style.bad(&format!(", {failed} failed")) } else { String::new() };
        let stopped = if cancelled > 0 { format!(", {cancelled} cancelled") } else { String::new() };
        format!("{completed} of {all} completed{failures}{stopped}")
    }
}
