//! `harvest schedule …` over HTTP.

use harvest_api_types::{Missed as MissedRuns, NewSchedule};
use harvest_core::Clock;
use harvest_outbound::escape;
use serde_json::Value;

use super::Remote;
use super::task::ask_of;
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
            let task = ask_of(prompt, options.ask.options, options.standing)?;
            let missed = match options.missed {
                Missed::Skip => MissedRuns::Skip,
                Missed::RunOnce => MissedRuns::RunOnce,
            };
            let new = NewSchedule { cron: options.cron, time_zone: options.time_zone, missed, task };
            show_new(global, style, &remote.post::<Value>("/api/schedules", &new).await?);
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
