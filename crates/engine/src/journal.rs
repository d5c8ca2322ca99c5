//! The only way the engine writes to a session's journal: every event passes the redactor, every write carries the lease.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use harvest_core::{
    BranchName, Clock, Event, EventBody, Outcome, OwnerId, SandboxPurpose, Session, SessionId, StageName, Task,
    TaskStatus, TestRun, Timestamp, TurnId,
};
use harvest_store::{AttemptUpdate, Balance, Bill, End, Lease, Reservation, Step, Store, TaskDetail};
use harvest_vault::{Redactor, StreamRedactor};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::actor::Actor;
use crate::carry::Moved;
use crate::gate::Gate;
use crate::interruption::Interruption;
use crate::plan::Plan;
use crate::vitals::{Told, Vitals};

const PAGE: usize = 1000;

#[derive(Debug, Clone)]
pub(crate) struct Journal {
    store: Arc<dyn Store>,
    lease: Lease,
    redactor: Arc<Redactor>,
    /// The message that comes in pieces now: a secret may be cut in two by them.
    pieces: Arc<Mutex<StreamRedactor>>,
    clock: Arc<dyn Clock>,
    vitals: Arc<Vitals>,
}

impl Journal {
    pub(crate) fn new(store: Arc<dyn Store>, lease: Lease, redactor: Arc<Redactor>, clock: Arc<dyn Clock>) -> Self {
        let pieces = Arc::new(Mutex::new(StreamRedactor::new(redactor.as_ref().clone())));
        Self { store, lease, redactor, pieces, clock, vitals: Arc::default() }
    }

    /// Counts what it writes.
    pub(crate) fn counted_by(self, vitals: &Arc<Vitals>) -> Self {
        Self { vitals: vitals.clone(), ..self }
    }

    /// A model call of this process has cost so much.
    pub(crate) fn paid(&self, cost: harvest_core::Cost) {
        self.vitals.paid(cost);
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) async fn write(&self, events: Vec<EventBody>) -> Result<(), harvest_store::Error> {
        self.step(Step::new(self.now(), events)).await
    }

    pub(crate) async fn warn(&self, message: impl Into<String>) -> Result<(), harvest_store::Error> {
        self.write(vec![EventBody::Warning { message: message.into() }]).await
    }

    /// A text without the secrets in it. A text that is to be cut is cleaned first: half a secret is not recognised.
    pub(crate) fn clean(&self, text: &str) -> String {
        self.redactor.redact(text).into_owned()
    }

    pub(crate) async fn step(&self, mut step: Step) -> Result<(), harvest_store::Error> {
        step.events = self.all_redacted(step.events);
        if let Some(End::Finished(outcome)) = &mut step.end {
            if let Some(error) = &mut outcome.error {
                *error = self.clean(error);
            }
            outcome.evidence = outcome.evidence.take().and_then(|evidence| {
                let text = serde_json::to_string(&evidence).ok()?;
                serde_json::from_str(&self.redactor.redact(&text)).ok()
            });
        }
        if let Some(AttemptUpdate::Finished { stderr_tail, .. }) = &mut step.attempt {
            *stderr_tail = self.redactor.redact(stderr_tail).into_owned();
        }
        let told = Told::by(&step);
        self.store.append(&self.lease, step).await?;
        self.vitals.wrote(&told);
        Ok(())
    }

    /// Gives the turn back until `due`, and says why.
    pub(crate) async fn put_off(&self, due: Timestamp, message: String) -> Result<(), harvest_store::Error> {
        let warning = self.redacted(EventBody::Warning { message });
        self.store.put_off(&self.lease, due, self.now(), vec![warning]).await.map(drop)
    }

    /// Gives the turn back until a person has decided on what these events propose.
    pub(crate) async fn ask_approval(&self, events: Vec<EventBody>) -> Result<(), harvest_store::Error> {
        let proposed = events.into_iter().map(|event| self.redacted(event)).collect();
        self.store.ask_approval(&self.lease, self.now(), proposed).await.map(drop)
    }

    /// Where this turn is with its delivery.
    pub(crate) async fn gate(&self) -> Result<Gate, harvest_store::Error> {
        Ok(Gate::read(&self.of_this_turn().await?))
    }

    /// Gives the turn back until someone resumes it.
    pub(crate) async fn interrupt(&self, interrupted: EventBody) -> Result<(), harvest_store::Error> {
        let interrupted = self.redacted(interrupted);
        self.store.interrupt(&self.lease, self.now(), vec![interrupted]).await.map(drop)
    }

    /// Whether this turn delivers the work as it is, without an agent.
    pub(crate) async fn only_delivers(&self) -> Result<bool, harvest_store::Error> {
        let turn = &self.lease.turn;
        let asked = |event: &Event| matches!(&event.body, EventBody::TurnQueued { turn_id, delivers: true, .. } if turn_id == turn);
        Ok(self.all().await?.iter().any(asked))
    }

    /// How the task ended last.
    pub(crate) async fn outcome(&self) -> Result<Option<Outcome>, harvest_store::Error> {
        let ended = self.all().await?.into_iter().rev().find_map(|event| match event.body {
            EventBody::TaskFinished(outcome) => Some(outcome),
            _ => None,
        });
        Ok(ended)
    }

    /// What this turn goes on from, if it was interrupted.
    pub(crate) async fn interruption(&self) -> Result<Option<Interruption>, harvest_store::Error> {
        Ok(Interruption::last_of(&self.of_this_turn().await?))
    }

    /// The person that this turn acts for.
    pub(crate) async fn actor(&self, detail: &TaskDetail) -> Result<Actor, harvest_store::Error> {
        let Lease { session, turn, .. } = &self.lease;
        let session = detail.sessions.iter().find(|known| known.id == *session);
        Ok(Actor::of(Actor::requester(&detail.task), session, turn, &self.all().await?))
    }

    /// Where this turn is with its plan.
    pub(crate) async fn plan(&self, task: &Task, session: &Session) -> Result<Plan, harvest_store::Error> {
        let turn = &self.lease.turn;
        let number = session.turns.iter().find(|known| known.id == *turn).map_or(1, |known| known.number);
        let events = self.all().await?;
        Ok(Plan::of(task, number, &events, of_turn(&events, turn)))
    }

    pub(crate) async fn reserve(&self, reservation: Reservation) -> Result<Vec<Balance>, harvest_store::Error> {
        self.vitals.reserved(&reservation);
        self.store.reserve(&self.lease, reservation).await
    }

    pub(crate) async fn balances(&self, bill: &Bill, asker: &OwnerId) -> Result<Vec<Balance>, harvest_store::Error> {
        self.store.balances(bill, asker).await
    }

    /// Calls that were under way when someone else worked on this.
    pub(crate) async fn unsettled(&self) -> Result<Vec<Reservation>, harvest_store::Error> {
        self.store.unsettled(&self.lease.task).await
    }

    /// Records what a stage came to.
    pub(crate) async fn finish_stage<T: Serialize>(
        &self,
        stage: StageName,
        result: &T,
    ) -> Result<(), harvest_store::Error> {
        let result = serde_json::to_value(result).unwrap_or_default();
        self.write(vec![EventBody::StageFinished { stage, result }]).await
    }

    /// What a stage came to in this try before, if it got that far and no stage before it was done again since.
    pub(crate) async fn stage<T: DeserializeOwned>(
        &self,
        wanted: StageName,
    ) -> Result<Option<T>, harvest_store::Error> {
        let mut found = None;
        for event in self.of_this_try().await? {
            match event.body {
                EventBody::StageFinished { stage, result } if stage == wanted => found = Some(result),
                EventBody::StageFinished { stage, .. } if stage < wanted => found = None,
                // There is something more to do for the agent.
                EventBody::SessionResumed { prompt: Some(_), .. } => found = None,
                // What was rejected is done again.
                EventBody::PlanDecided { approved: false, .. } => found = None,
                _ => {}
            }
        }
        Ok(found.and_then(|result| serde_json::from_value(result).ok()))
    }

    /// The tests that have run for this purpose since the agent has ended, at this commit and with this command.
    pub(crate) async fn tested(
        &self,
        purpose: SandboxPurpose,
        commit: &str,
        command: &str,
    ) -> Result<Option<TestRun>, harvest_store::Error> {
        Ok(last_run(self.of_this_try().await?, purpose, commit, command))
    }

    /// Tells what was done outside, unless this try has told it before a crash.
    pub(crate) async fn tell_once(&self, told: EventBody) -> Result<(), harvest_store::Error> {
        let known = self.of_this_try().await?.into_iter().any(|event| event.body == told);
        if known { Ok(()) } else { self.write(vec![told]).await }
    }

    /// Whether this try has a warning that begins like this.
    pub(crate) async fn has_warned(&self, begins: &str) -> Result<bool, harvest_store::Error> {
        let is_such =
            |event: Event| matches!(event.body, EventBody::Warning { message } if message.starts_with(begins));
        Ok(self.of_this_try().await?.into_iter().any(is_such))
    }

    /// Where a branch of the session was published last.
    pub(crate) async fn last_delivered(&self, wanted: &BranchName) -> Result<Option<String>, harvest_store::Error> {
        let delivered = self.all().await?.into_iter().rev().find_map(|event| match event.body {
            EventBody::BranchDelivered { branch, commit } if branch == *wanted => Some(commit),
            _ => None,
        });
        Ok(delivered)
    }

    /// Every time the base has moved, oldest first.
    pub(crate) async fn moved(&self) -> Result<Vec<Moved>, harvest_store::Error> {
        let events = self.all().await?;
        let begun = start_of_try(&events);
        let moved = events.into_iter().enumerate().filter_map(|(place, event)| match event.body {
            EventBody::BaseMoved { from, to, commit, conflicts } => {
                Some(Moved { from, to, commit, conflicts, now: place >= begun })
            }
            _ => None,
        });
        Ok(moved.collect())
    }

    /// The commit that the turn before this one left; `None` in the first.
    pub(crate) async fn left_before(&self) -> Result<Option<String>, harvest_store::Error> {
        let (mut finished, mut left) = (None, None);
        let mut unbegun = BTreeSet::new();
        for event in self.all().await? {
            match event.body {
                EventBody::TurnQueued { turn_id, .. } => drop(unbegun.insert(turn_id)),
                EventBody::TurnStarted { turn_id, .. } => drop(unbegun.remove(&turn_id)),
                // A follow-up that was withdrawn has left nothing of its own.
                EventBody::TurnFinished { turn_id, .. } if unbegun.remove(&turn_id) => {}
                EventBody::TurnFinished { turn_id, .. } => finished = Some(turn_id),
                EventBody::TaskFinished(outcome) if finished.as_ref() != Some(&self.lease.turn) => {
                    left = Some(outcome.commit);
                }
                _ => {}
            }
        }
        Ok(left)
    }

    /// The result of an earlier turn that completed, with changes.
    pub(crate) async fn completed_before(&self) -> Result<Option<Outcome>, harvest_store::Error> {
        let is_result = |outcome: &Outcome| outcome.status == TaskStatus::Completed && outcome.commit != outcome.base;
        Ok(self.all().await?.into_iter().rev().find_map(|event| match event.body {
            EventBody::TaskFinished(outcome) if is_result(&outcome) => Some(outcome),
            _ => None,
        }))
    }

    async fn of_this_try(&self) -> Result<Vec<Event>, harvest_store::Error> {
        let mut events = self.all().await?;
        Ok(events.split_off(start_of_try(&events)))
    }

    /// What people have said about this turn holds for every try of it.
    pub(crate) async fn of_this_turn(&self) -> Result<Vec<Event>, harvest_store::Error> {
        Ok(of_turn(&self.all().await?, &self.lease.turn).to_vec())
    }

    pub(crate) async fn all(&self) -> Result<Vec<Event>, harvest_store::Error> {
        events_up_to(self.store.as_ref(), &self.lease.session, u64::MAX).await
    }

    /// What another session said, up to an event.
    pub(crate) async fn of(&self, session: &SessionId, last: u64) -> Result<Vec<Event>, harvest_store::Error> {
        events_up_to(self.store.as_ref(), session, last).await
    }

    /// The events without secrets. Of a message in pieces, what may be the beginning of a secret waits for the next piece; it is
    /// let out before whatever ends the message.
    fn all_redacted(&self, events: Vec<EventBody>) -> Vec<EventBody> {
        let mut clean = Vec::with_capacity(events.len());
        for event in events {
            let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
            match event {
                EventBody::MessageDelta { text } => {
                    let text = pieces.push(&text);
                    if !text.is_empty() {
                        clean.push(EventBody::MessageDelta { text });
                    }
                    continue;
                }
                // Written by others meanwhile.
                EventBody::Usage { .. } | EventBody::Egress { .. } | EventBody::ModelTrouble { .. } => {}
                _ => {
                    let rest = pieces.finish();
                    if !rest.is_empty() {
                        clean.push(EventBody::MessageDelta { text: rest });
                    }
                }
            }
            drop(pieces);
            clean.push(self.redacted(event));
        }
        clean
    }

    fn redacted(&self, event: EventBody) -> EventBody {
        let Ok(text) = serde_json::to_string(&event) else { return event };
        match self.redactor.redact(&text) {
            std::borrow::Cow::Borrowed(_) => event,
            std::borrow::Cow::Owned(clean) => serde_json::from_str(&clean).unwrap_or(EventBody::Warning {
                message: format!("a {} event held a secret and was left out", event.kind()),
            }),
        }
    }
}

fn last_run(events: Vec<Event>, purpose: SandboxPurpose, commit: &str, command: &str) -> Option<TestRun> {
    let mut found = None;
    for event in events {
        match event.body {
            EventBody::TestsFinished(run)
                if run.purpose == purpose && run.commit == commit && run.command == command =>
            {
                found = Some(run);
            }
            // What comes behind it is proved anew.
            EventBody::StageFinished { stage: StageName::Execute | StageName::Verify, .. } => found = None,
            _ => {}
        }
    }
    found
}

/// What is told of a turn, from when it was first taken.
pub(crate) fn of_turn<'e>(events: &'e [Event], turn: &TurnId) -> &'e [Event] {
    let begins = |event: &Event| matches!(&event.body, EventBody::TurnStarted { turn_id, .. } if turn_id == turn);
    let begun = events.iter().position(begins).unwrap_or(events.len());
    events.get(begun..).unwrap_or_default()
}

/// A try that failed is over, and so is a turn that ended; one that was cut off by a crash is taken up where it was.
pub(crate) fn start_of_try(events: &[Event]) -> usize {
    let over = |event: &Event| matches!(&event.body, EventBody::TaskRetried { .. } | EventBody::TaskFinished(_));
    events.iter().rposition(over).map_or(0, |last| last + 1)
}

pub(crate) async fn events_up_to(
    store: &dyn Store,
    session: &SessionId,
    last: u64,
) -> Result<Vec<Event>, harvest_store::Error> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.seq);
        let page = store.events(session, after, PAGE).await?;
        let ends = page.last().is_none_or(|event| event.seq >= last);
        events.extend(page.into_iter().filter(|event| event.seq <= last));
        if ends {
            return Ok(events);
        }
    }
}
