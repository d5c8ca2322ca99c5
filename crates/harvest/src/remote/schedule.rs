//! `harvest schedule …` over HTTP.

use harvest_core::Clock;
use harvest_outbound::escape;
use serde_json::{Value, json};

use super::Remote;
use super::task::ask_body;
use crate::ask;
use crate::cli::{Global, Missed, Schedule};
use crate::failure::{Exit, Failure};
use crate::installation::SystemClock;
use crate::schedule::{find, show_list, show_new, show_removed};
use crate::view::Style;

pub async fn schedule(global: &Global, style: Style, remote: &Remote, command: Schedule) -> Result<Exit, Failure> {
    match command {
        Schedule::Add(options) => {
            let prompt = ask::read_prompt(&options.ask.prompt)?;
            let task = ask_body(&prompt, options.ask.options, options.standing)?;
            let missed = match options.missed {
                Missed::Skip => "skip",
                Missed::RunOnce => "run_once",
            };
            let mut body = json!({ "cron": options.cron, "missed": missed, "task": task });
            if let Some(zone) = options.time_zone {
                body["time_zone"] = zone.into();
            }
            show_new(global, style, &remote.post::<Value>("/api/schedules", &body).await?);
        }
        Schedule::List => show_list(global, style, &remote.items::<Value>("/api/schedules").await?, SystemClock.now()),
        Schedule::Remove { id } => {
            let schedules: Vec<Value> = remote.items("/api/schedules").await?;
            let id = find(&schedules, &id)?;
            remote.delete(&format!("/api/schedules/{}", escape(id))).await?;
            show_removed(global, style, id);
        }
    }
    Ok(Exit::Done)
}
