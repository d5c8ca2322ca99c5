//! A race: several tasks that are the same but for who works on them. Each goes its way up to its proof; then it waits, with no
//! sandbox, until it is decided whose work is delivered. Whoever leads stops those that cannot win any more.
//!
//! Nobody is in charge: everyone who waits judges from what the store says, and all come to the same verdict, on whatever
//! machine they are and however often one of them is begun again.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use harvest_core::{
    Cost, Entrant, Event, EventBody, FailureReason, Race, Standing, Stopping, Task, TaskId, TaskStatus, Timestamp,
    judge,
};
use harvest_store::TaskQuery;
use tokio::sync::Notify;

use crate::error::Halt;
use crate::turn::Turn;
use crate::{Engine, Error, Failure, failpoint};

/// More are not let in.
const MOST: usize = 50;
/// Who waits for the verdict says little before that.
const LAST_WORDS: u64 = 50;
/// What others have spent grows without anyone being woken for it.
const LOOK: Duration = Duration::from_secs(1);

/// Turns that wait for the verdict of a race: they take no agent's place.
#[derive(Debug, Default)]
pub struct Finish {
    waiting: AtomicUsize,
    changed: Notify,
}

impl Finish {
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Someone has come, or gone.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn enter(self: &Arc<Self>) -> Waiting {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_one();
        Waiting(self.clone())
    }
}

struct Waiting(Arc<Finish>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        self.0.changed.notify_one();
    }
}

impl Turn {
    /// Waits until the race is decided; `None` for the winner.
    pub(crate) async fn await_verdict(&self, race: &Race, commit: &str) -> Result<Option<Failure>, Halt> {
        self.place_in(commit).await?;
        failpoint::reach("race::placed")?;
        let store = &self.engine.options.store;
        let _waiting = self.engine.finish.enter();
        let mut told: HashSet<TaskId> = HashSet::new();
        let mut queue = store.watch_queue();
        loop {
            queue.mark_unchanged();
            let entrants = self.engine.entrants(race).await?;
            let verdict = judge(race.judged_by, &entrants);
            let me = &self.task.id;
            if verdict.leader == Some(me) {
                for loser in verdict.hopeless.iter().filter(|loser| told.insert((**loser).clone())) {
                    self.engine.lose(loser, me).await?;
                }
                if verdict.is_decided {
                    let decided = EventBody::RaceDecided { race: race.id.clone(), winner: me.clone() };
                    self.journal.write(vec![decided]).await?;
                    return Ok(None);
                }
            } else if verdict.hopeless.contains(&me) {
                return Ok(Some(lost(verdict.leader)));
            }
            tokio::select! {
                () = self.stop.requested() => return Ok(Some(self.stopped())),
                _ = queue.changed() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// Writes down what the work came to, once in a try.
    async fn place_in(&self, commit: &str) -> Result<(), Halt> {
        let events = self.journal.all().await?;
        if placed(&events).is_some() {
            return Ok(());
        }
        let changed_lines = self.repository.changed_lines(&self.task.base, commit).await?;
        let cost_usd = self.meter.spent().cost;
        self.journal.write(vec![EventBody::RacePlaced { cost_usd, changed_lines }]).await?;
        Ok(())
    }
}

impl Engine {
    /// Everyone in a race, as things are.
    async fn entrants(&self, race: &Race) -> Result<Vec<Entrant>, Error> {
        let store = &self.options.store;
        let query = TaskQuery { convoy: Some(race.id.clone()), limit: MOST, ..TaskQuery::default() };
        let mut entrants = Vec::new();
        for task in store.tasks(query).await?.items {
            let standing = self.standing(&task).await?;
            entrants.push(Entrant { task: task.id, standing });
        }
        Ok(entrants)
    }

    async fn standing(&self, task: &Task) -> Result<Standing, Error> {
        match task.status {
            // Only who has won is completed.
            TaskStatus::Completed => {
                return Ok(Standing::Passed { cost: Cost::ZERO, changed_lines: 0, at: Timestamp::UNIX_EPOCH });
            }
            TaskStatus::Failed | TaskStatus::Cancelled => return Ok(Standing::Out),
            TaskStatus::Running => {}
            _ => return Ok(Standing::Working { spent: task.cost_usd }),
        }
        let store = &self.options.store;
        for session in store.task(&task.id).await?.sessions {
            let (_, last) = store.last_event(&session.id).await?;
            let events = store.events(&session.id, last.saturating_sub(LAST_WORDS), LAST_WORDS as usize).await?;
            if let Some(standing) = placed(&events) {
                return Ok(standing);
            }
        }
        Ok(Standing::Working { spent: task.cost_usd })
    }

    /// Ends the work on a task that cannot win any more.
    async fn lose(&self, loser: &TaskId, winner: &TaskId) -> Result<(), Error> {
        let store = &self.options.store;
        if !store.request_stop(loser, Stopping::Lose { to: winner.clone() }).await? {
            store.cancel_waiting(loser, self.options.clock.now()).await?;
        }
        Ok(())
    }
}

/// What became of the others, in the words of one who lost.
pub(crate) fn lost(to: Option<&TaskId>) -> Failure {
    let winner = to.map(|winner| format!(" to task {}", winner.short())).unwrap_or_default();
    Failure::new(FailureReason::Cancelled, format!("it lost the race{winner}; its work is kept for comparison"))
}

/// Where an entrant was placed in the try that these events end with.
fn placed(events: &[Event]) -> Option<Standing> {
    let mut found = None;
    for event in events {
        match &event.body {
            EventBody::RacePlaced { cost_usd, changed_lines } => {
                let (cost, changed_lines) = (*cost_usd, *changed_lines);
                found = Some(Standing::Passed { cost, changed_lines, at: event.at });
            }
            EventBody::TaskRetried { .. } | EventBody::TaskFinished(_) => found = None,
            EventBody::SessionResumed { prompt: Some(_), .. } => found = None,
            _ => {}
        }
    }
    found
}
