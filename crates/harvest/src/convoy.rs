//! `harvest convoy …`: batches of tasks that are followed as one.

use harvest_core::Code;
use harvest_store::{Convoy as Batch, TaskQuery};
use serde_json::json;

use crate::cli::{Convoy, Global};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::task::look;
use crate::view::Style;

const MOST: usize = 500;
/// What the names of races begin with.
const RACE: &str = "race-";

pub async fn convoy(global: &Global, environment: Environment, command: Convoy) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    let installation = Installation::open(global, environment).await?;
    let convoys = installation.store.convoys().await?;
    match command {
        Convoy::List if global.json => {
            let _ = output::json(&json!({ "items": convoys, "next_cursor": null }));
        }
        Convoy::List => {
            if convoys.is_empty() {
                output::complain("no convoys yet; start one: harvest task add … --convoy spring-clean");
            }
            for convoy in &convoys {
                let _ = output::line(&line(style, convoy));
            }
        }
        Convoy::Show { name } => {
            let Some(convoy) = convoys.iter().find(|convoy| convoy.name == name) else {
                let message = format!("there is no convoy `{}`", crate::view::clean(&name));
                return Err(Failure::refused(Code::BadOption, message, "see `harvest convoy list`"));
            };
            let query = TaskQuery { convoy: Some(name), limit: MOST, ..TaskQuery::default() };
            let tasks = installation.store.tasks(query).await?;
            if global.json {
                let _ =
                    output::json(&json!({ "convoy": convoy, "items": tasks.items, "next_cursor": tasks.next_cursor }));
            } else {
                let _ = output::line(&line(style, convoy));
                let awaited = look::statuses(&installation, &tasks.items).await?;
                for line in look::table(style, &tasks.items, &awaited, installation.clock.now()).lines() {
                    let _ = output::line(&format!("  {line}"));
                }
            }
        }
    }
    Ok(Exit::Done)
}

/// `spring-clean  [████████░░]  8 of 10 done, 1 failed · $1.20`
pub fn line(style: Style, convoy: &Batch) -> String {
    const WIDTH: u64 = 20;
    let count = |status: &str| convoy.tasks.get(status).copied().unwrap_or(0);
    let (completed, failed, cancelled) = (count("completed"), count("failed"), count("cancelled"));
    let all: u64 = convoy.tasks.values().sum();
    let filled = (completed + failed + cancelled) * WIDTH / all.max(1);
    let bar: String =
        (0..WIDTH).map(|place| if place < filled { style.symbol("█", "#") } else { style.symbol("░", ".") }).collect();
    // A race has one winner; the end of the others is no failure of the whole.
    let words = if completed > 0 && convoy.name.starts_with(RACE) {
        format!("won, {} of {all} entrants did not win", all - completed)
    } else {
        let failures = if failed > 0 { style.bad(&format!(", {failed} failed")) } else { String::new() };
        let stopped = if cancelled > 0 { format!(", {cancelled} cancelled") } else { String::new() };
        format!("{completed} of {all} completed{failures}{stopped}")
    };
    format!("{}  {bar}  {words} {} {}", style.bold(&convoy.name), style.dot(), convoy.cost_usd)
}
