//! `harvest stats`: what became of tasks, and who wins races.

use clap::ValueEnum;
use harvest_api_types::{Stats as Statistics, StatsBy, Sums};
use harvest_engine::day_of;
use harvest_store::StatQuery;
use serde_json::Value;

use crate::cli::{By, Global, Stats};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::remote::{Remote, parse};
use crate::view::{Cell, Style, Table, clean};

pub async fn stats(global: &Global, environment: Environment, options: Stats) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    let heading = match options.by {
        By::Day => "day",
        By::Repository => "repository",
        By::Agent => "agent",
        By::Model => "model",
        By::Person => "person",
    };
    // Tasks that name no model get that of their worker.
    let unnamed = if heading == "model" { "the worker's model" } else { "none named" };
    let document: Value = match Remote::of(global, &environment)? {
        Some(remote) => remote.get(&path(&options)).await?,
        None => here(global, environment, options).await?,
    };
    if global.json {
        let _ = output::json(&document);
        return Ok(Exit::Done);
    }
    let Statistics { total, items, .. } = parse(&document)?;
    if items.is_empty() {
        output::complain("no task has ended in that time");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(style, &[heading, "completed", "failed", "cancelled", "cost", "wins"]);
    for one in &items {
        table.row(cells(if one.key.is_empty() { unnamed } else { &one.key }, one));
    }
    table.row(cells("total", &total));
    let _ = table.lines().iter().try_for_each(|line| output::line(line));
    Ok(Exit::Done)
}

async fn here(global: &Global, environment: Environment, options: Stats) -> Result<Value, Failure> {
    let installation = Installation::open(global, environment).await?;
    let by: StatsBy = options.by.into();
    let query = StatQuery {
        by: harvest_server::stat_key(by),
        from: options.from.unwrap_or_else(|| "0000-00-00".to_owned()),
        to: options.to.unwrap_or_else(|| day_of(installation.clock.now())),
        among: None,
    };
    let sums = harvest_server::describe_stats(by, installation.store.statistics(query).await?);
    Ok(serde_json::to_value(sums).unwrap_or_default())
}

fn path(options: &Stats) -> String {
    let by = options.by.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let day = |name: &str, day: &Option<String>| day.as_ref().map(|day| format!("&{name}={day}")).unwrap_or_default();
    format!("/api/stats?by={by}{}{}", day("from", &options.from), day("to", &options.to))
}

fn cells(key: &str, sums: &Sums) -> [Cell; 6] {
    let number = |count: u64| Cell::new(count.to_string()).right();
    // One agent may enter a race several times.
    let races = match sums.races {
        0 => String::new(),
        entries => format!("{} of {entries}", sums.wins),
    };
    [
        Cell::new(clean(key)).painted(Style::bold),
        number(sums.completed),
        number(sums.failed),
        number(sums.cancelled),
        Cell::new(sums.cost_usd.to_string()).right(),
        Cell::new(races).right(),
    ]
}
