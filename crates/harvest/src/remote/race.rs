//! Races over HTTP.

use harvest_api_types::{AskRace, TaskDetail};
use harvest_core::{Race, RaceTable, Task};
use harvest_outbound::escape;
use serde_json::Value;

use super::Remote;
use crate::cli::{Entrants, RaceOptions};
use crate::failure::{Exit, Failure};
use crate::race::say_queued;
use crate::view::Style;

/// How the API is asked for a race.
pub fn body(entrants: &Entrants, options: &RaceOptions) -> AskRace {
    let race = AskRace { judged_by: options.judged_by, judge: options.judge.clone(), ..AskRace::default() };
    match entrants {
        Entrants::Same(number) => AskRace { number: Some(*number), ..race },
        Entrants::Named(names) => {
            let name = |(agent, model): &(String, Option<String>)| match model {
                Some(model) => format!("{agent}:{model}"),
                None => agent.clone(),
            };
            AskRace { agents: names.iter().map(name).collect(), ..race }
        }
    }
}

/// Says who races, as `task add` does here.
pub async fn added(style: Style, remote: &Remote, race: &Race) -> Result<Exit, Failure> {
    let path = format!("/api/tasks?convoy={}", escape(&race.id));
    let mut page: Value = remote.get(&path).await?;
    let tasks: Vec<Task> = serde_json::from_value(page["items"].take()).unwrap_or_default();
    say_queued(style, race, &tasks);
    Ok(Exit::Done)
}

/// The race of that id, or the one that a task of that id is part of.
pub async fn table(remote: &Remote, id: &str) -> Result<Option<RaceTable>, Failure> {
    let race = match remote.find("/api/tasks", id).await? {
        Some(task) => {
            let detail: TaskDetail = remote.get(&format!("/api/tasks/{task}")).await?;
            match detail.task.settings.race {
                Some(race) => race.id,
                None => return Ok(None),
            }
        }
        None if id.starts_with("race-") => id.to_owned(),
        None => format!("race-{id}"),
    };
    remote.get(&format!("/api/races/{}", escape(&race))).await.map(Some)
}
