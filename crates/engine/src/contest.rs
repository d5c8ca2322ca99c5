//! Races as people see them: how requests enter one, and what has become of everyone in it.

use harvest_core::{Entropy, EventBody, JudgedBy, Judgement, MOST_ENTRANTS, Race, RaceRow, RaceTable, SessionId, Task};
use harvest_store::{Error, Order, Store, TaskQuery};

use crate::submit::Request;

/// Whose work passes says so in its last words; those who were asked for more since have many of them.
const LAST_WORDS: u64 = 1000;

/// Makes requests those of one race.
pub fn enter_race(entropy: &dyn Entropy, requests: &mut [Request], judged_by: JudgedBy, judge: Option<String>) -> Race {
    // Any id will do that no other race has.
    let id = SessionId::generate(entropy);
    let race = Race { id: format!("race-{}", id.short()), judged_by, judge };
    for request in requests {
        request.queue.convoy = Some(race.id.clone());
        request.queue.race = Some(race.clone());
    }
    race
}

/// The tasks that race under an id, in the order they were asked for.
pub async fn racing(store: &dyn Store, race: &str) -> Result<Vec<Task>, Error> {
    let (convoy, order) = (Some(race.to_owned()), Order::OldestFirst);
    let query = TaskQuery { convoy, order, limit: MOST_ENTRANTS, ..TaskQuery::default() };
    let mut tasks = store.tasks(query).await?.items;
    tasks.retain(|task| task.settings.race.as_ref().is_some_and(|own| own.id == race));
    Ok(tasks)
}

/// What has become of tasks that race with each other.
pub async fn race_table(store: &dyn Store, race: &str, tasks: Vec<Task>) -> Result<RaceTable, Error> {
    let judged_by = tasks.iter().find_map(|task| task.settings.race.as_ref()).map(|race| race.judged_by);
    let winner = store.winner(race).await?;
    let (mut rows, mut judgement) = (Vec::with_capacity(tasks.len()), None);
    for task in tasks {
        let session_id = store.task(&task.id).await?.sessions.pop().map(|session| session.id);
        let changed_lines = match &session_id {
            Some(session) => {
                let told = Told::by(store, session).await?;
                judgement = judgement.or(told.judgement);
                told.changed_lines
            }
            None => None,
        };
        rows.push(RaceRow {
            passed: changed_lines.is_some() || winner.as_ref() == Some(&task.id),
            duration_ms: task.finished_at.map(|at| at.duration_since(task.created_at).as_millis() as i64),
            task_id: task.id,
            session_id,
            agent: task.agent,
            model: task.model,
            status: task.status,
            error: task.error,
            cost_usd: task.cost_usd,
            changed_lines,
            verdict: String::new(),
        });
    }
    let table = RaceTable::new(race.to_owned(), judged_by.unwrap_or_default(), winner.as_ref(), rows);
    Ok(match judgement {
        Some(judgement) if table.winner.is_some() => table.judged(judgement),
        _ => table,
    })
}

/// What an entrant's journal says about the race.
#[derive(Debug, Default)]
struct Told {
    /// Of one whose work passes.
    changed_lines: Option<u64>,
    judgement: Option<Judgement>,
}

impl Told {
    async fn by(store: &dyn Store, session: &SessionId) -> Result<Self, Error> {
        let (_, last) = store.last_event(session).await?;
        let events = store.events(session, last.saturating_sub(LAST_WORDS), LAST_WORDS as usize).await?;
        let mut told = Self::default();
        for event in events {
            match event.body {
                EventBody::RacePlaced { changed_lines, .. } => told.changed_lines = Some(changed_lines),
                EventBody::RaceJudged { agent, reason, .. } => told.judgement = Some(Judgement { agent, reason }),
                _ => {}
            }
        }
        Ok(told)
    }
}
