//! A race: several tasks that are the same but for who works on them. Each goes its way up to its proof; then it waits, with no
//! sandbox and no place under a cap, until it is decided whose work is delivered. Whoever leads stops those that cannot win any
//! more.
//!
//! Nobody is in charge: everyone who waits judges from what the store says. Who finds itself decided to be the winner has to be
//! the first whom the store writes down; whatever anyone finds later, there is no other.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use harvest_core::{
    Entrant, Event, EventBody, FailureReason, Race, Session, SessionId, Standing, Stopping, Task, TaskId, TurnId,
    TurnStatus, finalists, judge,
};
use harvest_store::Store;
use tokio::sync::{Notify, watch};

use crate::contest::racing;
use crate::error::Halt;
use crate::turn::{Turn, Worked};
use crate::{Engine, Error, Failure, failpoint};

/// What others have spent grows without anyone being woken for it.
const LOOK: Duration = Duration::from_secs(1);
const PAGE: usize = 500;

/// Turns that wait for the verdict of a race: they take no agent's place.
#[derive(Debug, Default)]
pub struct Finish {
    waiting: AtomicUsize,
    changed: Notify,
    leaving: watch::Sender<bool>,
}

impl Finish {
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Someone has come, or gone.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether those who wait are to leave it to another worker to hear the verdict.
    pub(crate) fn leave(&self, leaving: bool) {
        self.leaving.send_if_modified(|before| std::mem::replace(before, leaving) != leaving);
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

/// What an entrant has heard.
#[derive(Debug)]
pub(crate) enum Heard {
    Won,
    Lost(Failure),
    /// Nothing yet, and this worker is about to leave.
    Nothing,
}

/// The race that a turn is part of. What is asked of an entrant later is asked of it alone.
pub(crate) fn race_of<'t>(task: &'t Task, session: &Session, turn: &TurnId) -> Option<&'t Race> {
    let is_first = session.turns.iter().any(|known| known.id == *turn && known.number == 1);
    task.settings.race.as_ref().filter(|_| is_first)
}

impl Turn {
    pub(crate) fn race(&self) -> Option<&Race> {
        race_of(&self.task, &self.session, &self.lease().turn)
    }

    /// Waits until the race is decided.
    pub(crate) async fn await_verdict(&self, race: &Race, commit: &str) -> Result<Heard, Halt> {
        self.place_in(commit).await?;
        failpoint::reach("race::placed")?;
        let store = &self.engine.options.store;
        let waiting = self.engine.finish.enter();
        store.step_aside(self.lease()).await?;
        let mut told: HashSet<TaskId> = HashSet::new();
        let mut field = Field::default();
        let (mut queue, mut leaving) = (store.watch_queue(), self.engine.finish.leaving.subscribe());
        let me = &self.task.id;
        loop {
            queue.mark_unchanged();
            let is_leaving = *leaving.borrow_and_update();
            if let Some(winner) = store.winner(&race.id).await? {
                return self.hear(race, &winner).await;
            }
            let entrants = field.entrants(store.as_ref(), race).await?;
            let verdict = judge(race.judged_by, &entrants);
            if let Some(judged_by) = &race.judge {
                // Everyone may be the best, so nobody is stopped; who leads without a judge asks it.
                if let Some(finalists) = finalists(&entrants)
                    && verdict.leader == Some(me)
                {
                    let finalists: Vec<TaskId> = finalists.into_iter().cloned().collect();
                    drop(waiting);
                    let best = match finalists.len() {
                        ..=1 => None,
                        _ => self.best_of(race, judged_by, &finalists).await?,
                    };
                    if self.stop.is_requested() {
                        return Ok(Heard::Lost(self.stopped()));
                    }
                    let entrants = field.entrants(store.as_ref(), race).await?;
                    let best = best.filter(|best| has_passed(&entrants, best)).unwrap_or_else(|| me.clone());
                    let winner = store.win(self.lease(), &race.id, &best).await?;
                    failpoint::reach("race::won")?;
                    return self.hear(race, &winner).await;
                }
            } else if verdict.leader == Some(me) {
                for loser in verdict.hopeless.iter().filter(|loser| told.insert((**loser).clone())) {
                    self.engine.lose(&entrants, loser, me).await?;
                }
                if verdict.is_decided {
                    let winner = store.win(self.lease(), &race.id, me).await?;
                    failpoint::reach("race::won")?;
                    return self.hear(race, &winner).await;
                }
            } else if verdict.hopeless.contains(&me) {
                return Ok(Heard::Lost(lost(verdict.leader)));
            }
            if is_leaving {
                return Ok(Heard::Nothing);
            }
            tokio::select! {
                () = self.stop.requested() => return Ok(Heard::Lost(self.stopped())),
                _ = queue.changed() => {}
                _ = leaving.changed() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    async fn hear(&self, race: &Race, winner: &TaskId) -> Result<Heard, Halt> {
        if *winner != self.task.id {
            return Ok(Heard::Lost(lost(Some(winner))));
        }
        let decided = EventBody::RaceDecided { race: race.id.clone(), winner: winner.clone() };
        self.journal.tell_once(decided).await?;
        Ok(Heard::Won)
    }

    /// Gives the turn back: whoever takes it next finds everything done and waits in its stead.
    pub(crate) async fn let_go(&self) -> Result<Worked, Error> {
        self.engine.options.store.let_go(self.lease(), self.journal.now()).await?;
        Ok(Worked::LetGo)
    }

    /// Writes down what the work came to, once in a try.
    async fn place_in(&self, commit: &str) -> Result<(), Halt> {
        let events = self.journal.all().await?;
        if placed(None, &events).is_some() {
            return Ok(());
        }
        let changed_lines = self.repository.changed_lines(&self.task.base, commit).await?;
        let cost_usd = self.meter.spent().cost;
        self.journal.write(vec![EventBody::RacePlaced { cost_usd, changed_lines }]).await?;
        Ok(())
    }
}

/// What is known of everyone in a race. Journals are read on from where they were read before.
#[derive(Debug, Default)]
struct Field {
    seen: HashMap<SessionId, (u64, Option<Standing>)>,
}

impl Field {
    /// Everyone in a race, as things are.
    async fn entrants(&mut self, store: &dyn Store, race: &Race) -> Result<Vec<Entrant>, Error> {
        let mut entrants = Vec::new();
        for task in racing(store, &race.id).await? {
            let standing = self.standing(store, &task).await?;
            entrants.push(Entrant { task: task.id, standing });
        }
        Ok(entrants)
    }

    async fn standing(&mut self, store: &dyn Store, task: &Task) -> Result<Standing, Error> {
        let working = Standing::Working { spent: task.cost_usd };
        for session in store.task(&task.id).await?.sessions {
            let Some(first) = session.turns.iter().find(|turn| turn.number == 1) else { continue };
            match first.status {
                TurnStatus::Done => return Ok(Standing::Out),
                // Its worker may have let go of it, or died: the next one goes on from there.
                TurnStatus::Claimed | TurnStatus::Ready | TurnStatus::Parked => {
                    return Ok(self.placed(store, &session.id).await?.unwrap_or(working));
                }
                TurnStatus::Blocked | TurnStatus::Waiting | TurnStatus::Queued | TurnStatus::Held => {}
            }
        }
        Ok(working)
    }

    async fn placed(&mut self, store: &dyn Store, session: &SessionId) -> Result<Option<Standing>, Error> {
        let (last, standing) = self.seen.entry(session.clone()).or_default();
        loop {
            let events = store.events(session, *last, PAGE).await?;
            let Some(newest) = events.last() else { return Ok(standing.clone()) };
            *last = newest.seq;
            *standing = placed(standing.take(), &events);
        }
    }
}

impl Engine {
    /// Ends the work on a task that cannot win any more. One that only waits in the queue to hear so keeps what it has done.
    async fn lose(&self, entrants: &[Entrant], loser: &TaskId, winner: &TaskId) -> Result<(), Error> {
        let store = &self.options.store;
        if !store.request_stop(loser, Stopping::Lose { to: winner.clone() }).await? && !has_passed(entrants, loser) {
            store.cancel_waiting(loser, self.options.clock.now()).await?;
        }
        Ok(())
    }
}

fn has_passed(entrants: &[Entrant], task: &TaskId) -> bool {
    let passed = |entrant: &Entrant| entrant.task == *task && matches!(entrant.standing, Standing::Passed { .. });
    entrants.iter().any(passed)
}

/// What became of the others, in the words of one who lost.
pub(crate) fn lost(to: Option<&TaskId>) -> Failure {
    let winner = to.map(|winner| format!(" to task {}", winner.short())).unwrap_or_default();
    Failure::new(FailureReason::Cancelled, format!("it lost the race{winner}; its work is kept for comparison"))
}

/// Where an entrant was placed in the try that these events end with, after what was known before them.
fn placed(before: Option<Standing>, events: &[Event]) -> Option<Standing> {
    let mut found = before;
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
