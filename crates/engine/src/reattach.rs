//! Agents outlive the process that works with them. Whoever comes next on the same data directory takes their turns over at
//! once, listens again where they call, and goes on behind what is journaled; the agent notices at most a slow answer.
//!
//! That a worker is dead is known by its lock file, so nobody waits for its lease to run out. Only agents at work are taken
//! over: everything else a dead worker had is made again, and left to [`Recovery`](crate::Recovery).

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use harvest_agents::Agent;
use harvest_core::{
    AttemptId, Event, EventBody, FailureReason, OwnerId, SandboxId, SandboxPurpose, Session, SessionId, StageName,
    Task, Timestamp,
};
use harvest_sandbox::{Process, ProcessSpec};
use harvest_store::{Lease, OwnerKind, SandboxRecord};
use harvest_workspace::SnapshotHold;

use crate::conversation::Memory;
use crate::error::{Halt, chain};
use crate::execute::{AGENT, Execution, REPLACED, own_process};
use crate::journal::{Journal, start_of_try};
use crate::meter::{TurnMeter, charge_unsettled};
use crate::place::{Place, Served};
use crate::turn::{Turn, Worked};
use crate::watch::{Ended, SoFar};
use crate::{Engine, Error, Failure, Stop, egress, failpoint, owner};

/// A turn that was a dead worker's, and the sandboxes in which its agent may be at work.
#[derive(Debug)]
pub struct Inherited {
    pub(crate) lease: Lease,
    sandboxes: Vec<SandboxId>,
}

/// A place that a dead worker has made, with the agent in it.
#[derive(Debug)]
pub(crate) struct Returned {
    pub(crate) place: Place,
    pub(crate) run: Run,
}

impl Returned {
    /// Which of the turn's events are from before its place was made.
    pub(crate) fn began(&self, events: &[Event]) -> usize {
        let made = |event: &Event| matches!(&event.body, EventBody::SandboxReady { sandbox_id, .. } if *sandbox_id == self.run.trace.sandbox);
        events.iter().rposition(made).unwrap_or(events.len())
    }
}

/// A run of an agent that goes on.
#[derive(Debug)]
pub(crate) struct Run {
    /// `None` when it is not known whether it was started.
    process: Option<Process>,
    trace: Trace,
    /// Nothing of its output is journaled.
    is_silent: bool,
    _snapshot: Option<SnapshotHold>,
}

/// What the journal says of the last run of an agent.
#[derive(Debug)]
struct Trace {
    sandbox: SandboxId,
    attempt: AttemptId,
    agent: String,
    process: String,
    began: Timestamp,
    /// It was started before there was a prompt.
    had_waited: bool,
    /// It has ended, and perhaps failed.
    finished: Option<Option<FailureReason>>,
    /// What came of it so far.
    events: Vec<EventBody>,
}

impl Engine {
    /// Makes `heir` the owner of every turn of a dead worker whose agent still runs here.
    pub(crate) async fn inherit(&self, heir: &OwnerId) -> Result<Vec<Inherited>, Error> {
        let (data, store, provider) = (&self.options.data, &self.options.store, &self.options.provider);
        let owners = store.owners().await?.into_iter().filter(|owner| owner.kind == OwnerKind::Server);
        // The locks are held to the end: of several who come, one takes over.
        let dead = owner::dead(data, owners).await;
        if dead.is_empty() {
            return Ok(Vec::new());
        }
        let is_left = |record: &SandboxRecord| {
            dead.iter().any(|(_, dead)| dead.id == record.owner)
                && record.purpose == SandboxPurpose::Execute
                && record.provider == provider.name()
                && provider.is_alive(&record.id)
        };
        let left: Vec<SandboxRecord> = store.sandboxes().await?.into_iter().filter(is_left).collect();
        if left.is_empty() {
            return Ok(Vec::new());
        }
        let sessions: Vec<SessionId> = left.iter().map(|record| record.session.clone()).collect();
        let mut inherited: Vec<Inherited> = Vec::new();
        for (_, dead) in &dead {
            let taken = store.take_over(&dead.id, heir, Some(&sessions)).await?;
            inherited.extend(taken.into_iter().map(|lease| Inherited { lease, sandboxes: Vec::new() }));
        }
        failpoint::reach("reattach::taken")?;
        for record in left {
            match inherited.iter_mut().find(|inherited| inherited.lease.session == record.session) {
                Some(turn) => {
                    turn.sandboxes.push(record.id.clone());
                    store.record_sandbox(SandboxRecord { owner: heir.clone(), ..record }).await?;
                }
                // Someone else has the turn by now.
                None => self.remove_sandbox(&record.id).await?,
            }
        }
        Ok(inherited)
    }

    /// Takes up turns of `owner` itself that it could not go on with for a while.
    pub(crate) async fn retake(&self, owner: &OwnerId, sessions: &[SessionId]) -> Result<Vec<Inherited>, Error> {
        let (store, provider) = (&self.options.store, &self.options.provider);
        let leases = store.take_over(owner, owner, Some(sessions)).await?;
        let mut retaken: Vec<Inherited> =
            leases.into_iter().map(|lease| Inherited { lease, sandboxes: Vec::new() }).collect();
        let is_theirs = |record: &SandboxRecord| record.owner == *owner && sessions.contains(&record.session);
        for record in store.sandboxes().await?.into_iter().filter(is_theirs) {
            let is_of_use = record.purpose == SandboxPurpose::Execute && provider.is_alive(&record.id);
            let turn = retaken.iter_mut().find(|turn| turn.lease.session == record.session);
            match turn.filter(|_| is_of_use) {
                Some(turn) => turn.sandboxes.push(record.id),
                None => self.remove_sandbox(&record.id).await?,
            }
        }
        Ok(retaken)
    }

    /// Works on a turn that was taken over to its end.
    pub(crate) async fn rejoin(&self, owner: &OwnerId, turn: Inherited, stop: Stop) -> Result<Worked, Error> {
        let Inherited { lease, sandboxes } = turn;
        self.heed(owner, &lease, &stop).await?;
        let (mut detail, journal) = self.open(lease).await?;
        let _at_work = self.vitals.at_work();
        charge_unsettled(&journal, &mut detail.task).await?;
        let trace = trace(&journal.all().await?).filter(|trace| sandboxes.contains(&trace.sandbox));
        for id in sandboxes.iter().filter(|id| trace.as_ref().is_none_or(|trace| trace.sandbox != **id)) {
            self.remove_sandbox(id).await?;
        }
        let actor = journal.actor(&detail).await?;
        let meter = self.meter(owner, &detail.task, &actor, &journal);
        let session = detail.sessions.iter().find(|known| known.id == journal.lease().session);
        let returned = match (trace, session) {
            (Some(trace), Some(session)) => {
                let id = trace.sandbox.clone();
                match self.take_up(owner, (&detail.task, session, &actor.person), &journal, &meter, trace).await {
                    Ok(returned) => Some(returned),
                    Err(Error::Store(error)) => return Err(error.into()),
                    Err(error) => {
                        let why = chain(&error);
                        journal.warn(format!("the agent of a lost worker could not be taken over: {why}")).await?;
                        self.remove_sandbox(&id).await?;
                        None
                    }
                }
            }
            _ => None,
        };
        self.work_on(owner, (detail, actor.person), journal, stop, meter, returned).await
    }

    /// Listens where the sandbox calls, and follows the agent from where the journal ends. Nothing here takes git or disk
    /// that could keep an agent waiting.
    async fn take_up(
        &self,
        owner: &OwnerId,
        (task, session, actor): (&Task, &Session, &str),
        journal: &Journal,
        meter: &Arc<TurnMeter>,
        trace: Trace,
    ) -> Result<Returned, Error> {
        let options = &self.options;
        let id = &trace.sandbox;
        let lost = || harvest_sandbox::Error::Lost { id: id.clone() };
        let repository = options.data.existing_repository(&session.id).ok_or_else(lost)?;
        // Now, as nobody can push before it is served again.
        repository.break_locks().await?;
        let plans = journal.plan(task, session).await?.is_wanted();
        let served = Served { owner, task, session, actor, journal, repository: &repository, plans };
        let serving = self.serve(id, SandboxPurpose::Execute, meter.clone(), served)?;
        let sandbox = options.provider.attach(id).await?;
        let snapshot = match options.provider.stands_on(id) {
            Some(lower) => Some(SnapshotHold::of(&lower).await?),
            None => None,
        };
        let offset = options.store.journaled(&trace.attempt).await?;
        let is_silent = offset == 0;
        // Its worker may have died before it could start what it had written down.
        let process = if is_silent && !trace.had_waited && trace.finished.is_none() {
            None
        } else {
            Some(sandbox.resume(&trace.process, offset).await?)
        };
        let network = match egress::is_closed(task, plans) {
            true => Vec::new(),
            false => self.network_environment(&self.policy_of(task), &sandbox).env,
        };
        let (attempt_id, sandbox_id) = (trace.attempt.clone(), trace.sandbox.clone());
        journal.write(vec![EventBody::AgentReattached { attempt_id, sandbox_id, offset }]).await?;
        failpoint::reach("reattach::attached")?;
        let place = Place::taken_over(sandbox, serving, network);
        let run = Run { process, trace, is_silent, _snapshot: snapshot };
        Ok(Returned { place, run })
    }
}

impl Turn {
    /// The place to go on in, once.
    pub(crate) fn take_returned(&self) -> Option<Returned> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What is left of the work behind an agent that was taken over.
    pub(crate) async fn go_on_in(&self, place: &Place, run: Run) -> Result<Execution, Halt> {
        let agent = self.agent_of(&run)?;
        let memory = self.memory_at_first(agent).await?;
        let ended = self.follow(place, agent, &memory, run).await?;
        self.finish_in(place, agent, memory, ended).await
    }

    fn agent_of(&self, run: &Run) -> Result<&Agent, Halt> {
        let id = &run.trace.agent;
        let unknown = || Failure::new(FailureReason::Agent, format!("there is no agent {id} any more"));
        self.engine.options.registry.get(id).ok_or_else(|| unknown().into())
    }

    /// How the agent was started, or should have been.
    async fn spec_again(&self, place: &Place, agent: &Agent, memory: &Memory) -> Result<ProcessSpec, Halt> {
        let (whole, choice) = (self.whole_prompt(agent, memory).await?, self.choice(agent));
        self.agent_spec(place, agent, memory, (&whole, &choice)).await
    }

    /// Sees a run to its end that another worker began.
    async fn follow(&self, place: &Place, agent: &Agent, memory: &Memory, run: Run) -> Result<Ended, Halt> {
        let Run { process, trace, is_silent, .. } = run;
        let mut process = match process {
            Some(mut process) => {
                if trace.had_waited && is_silent {
                    // Whether it got its prompt is not known; it takes it once.
                    let spec = self.spec_again(place, agent, memory).await?;
                    if let Err(error) = process.input_again(spec.stdin, true).await {
                        tracing::debug!(%error, "the agent has had its prompt");
                    }
                }
                process
            }
            // A runner starts a process of one id once, and tells all of one that runs already.
            None => {
                let spec = self.spec_again(place, agent, memory).await?;
                place.sandbox.start(ProcessSpec { id: trace.process.clone(), ..spec }).await?
            }
        };
        let answered = trace.events.iter().filter(|event| matches!(event, EventBody::Usage { .. })).count();
        self.meter.answered_before(u32::try_from(answered).unwrap_or(u32::MAX));
        let age = Duration::try_from(self.journal.now().duration_since(trace.began)).unwrap_or_default();
        // A clock that was put forward has made nobody older.
        let age = self.engine.options.provider.age(&trace.sandbox).map_or(age, |most| age.min(most));
        let so_far = SoFar::recalled(agent.parser(), self.bounds(agent), &trace.events, age);
        let mut ended = self.watch(place, &mut process, &trace.attempt, so_far).await?;
        match trace.finished {
            None => self.record_end(trace.attempt, &ended).await?,
            // How it ended is known; why in words only where it can be told again.
            Some(reason) if reason != ended.failure.as_ref().map(|failure| failure.reason) => {
                let words = "the agent was ended before its worker was lost";
                ended.failure = reason.map(|reason| Failure::new(reason, words));
            }
            Some(_) => {}
        }
        Ok(ended)
    }
}

/// The last run of an agent in this try, if its work has not been brought out yet.
fn trace(events: &[Event]) -> Option<Trace> {
    let mut place: Option<(&SandboxId, bool)> = None;
    let mut trace: Option<Trace> = None;
    for event in events.get(start_of_try(events)..).unwrap_or_default() {
        match &event.body {
            EventBody::TurnStarted { .. } | EventBody::StageFinished { stage: StageName::Execute, .. } => {
                (place, trace) = (None, None);
            }
            EventBody::SandboxReady { sandbox_id, purpose: SandboxPurpose::Execute, warm, .. } => {
                (place, trace) = (Some((sandbox_id, *warm)), None);
            }
            EventBody::AgentStarted { attempt_id, agent, .. } => {
                let Some((sandbox, is_warm)) = place else { continue };
                let is_first = trace.is_none();
                let process = if is_first { AGENT.to_owned() } else { own_process(attempt_id) };
                trace = Some(Trace {
                    sandbox: sandbox.clone(),
                    attempt: attempt_id.clone(),
                    agent: agent.clone(),
                    process,
                    began: event.at,
                    had_waited: is_first && is_warm,
                    finished: None,
                    events: Vec::new(),
                });
            }
            EventBody::AgentFinished { attempt_id, reason, .. } => {
                if let Some(trace) = trace.as_mut().filter(|trace| trace.attempt == *attempt_id) {
                    trace.finished = Some(*reason);
                }
            }
            EventBody::Warning { message } if message == REPLACED => {
                if let Some(trace) = &mut trace {
                    (trace.process, trace.had_waited) = (own_process(&trace.attempt), false);
                }
            }
            body => {
                if let Some(trace) = &mut trace {
                    trace.events.push(body.clone());
                }
            }
        }
    }
    trace
}

#[cfg(test)]
mod tests {
    use harvest_core::WorkspaceKind;

    use super::*;
    use crate::story::journal;

    fn ready(number: u32, purpose: SandboxPurpose, warm: bool) -> EventBody {
        EventBody::SandboxReady {
            sandbox_id: format!("000000000000000{number}").parse().unwrap(),
            purpose,
            provider: "local".into(),
            workspace: WorkspaceKind::Overlay,
            duration_ms: 1,
            warm,
            age_ms: None,
        }
    }

    fn attempt(number: u32) -> AttemptId {
        format!("000000000000000{number}").parse().unwrap()
    }

    fn started(number: u32) -> EventBody {
        EventBody::AgentStarted { attempt_id: attempt(number), agent: "builtin".into(), model: None }
    }

    fn finished(number: u32, reason: Option<FailureReason>) -> EventBody {
        EventBody::AgentFinished { attempt_id: attempt(number), exit_code: Some(0), reason }
    }

    fn warning(message: &str) -> EventBody {
        EventBody::Warning { message: message.into() }
    }

    #[test]
    fn the_process_is_the_one_the_journal_tells_of() {
        let of = |bodies: Vec<EventBody>| trace(&journal(bodies)).map(|trace| (trace.process, trace.had_waited));
        let execute = SandboxPurpose::Execute;
        assert_eq!(of(vec![ready(1, execute, false)]), None);
        assert_eq!(of(vec![ready(1, execute, true), started(7)]), Some((AGENT.to_owned(), true)));
        let another = Some((own_process(&attempt(8)), false));
        assert_eq!(of(vec![ready(1, execute, false), started(7), finished(7, None), started(8)]), another);
        assert_eq!(of(vec![ready(1, execute, true), started(8), warning(REPLACED)]), another);
        let done = EventBody::StageFinished { stage: StageName::Execute, result: serde_json::Value::Null };
        assert_eq!(of(vec![ready(1, execute, false), started(7), done]), None);
    }

    #[test]
    fn what_came_of_it_is_told_apart_from_what_came_before() {
        let execute = SandboxPurpose::Execute;
        let bodies = vec![
            ready(1, execute, false),
            started(7),
            warning("earlier"),
            ready(2, execute, false),
            started(8),
            warning("later"),
            finished(8, Some(FailureReason::Stall)),
        ];
        let trace = trace(&journal(bodies)).unwrap();
        assert_eq!(trace.sandbox.as_str(), "0000000000000002");
        assert_eq!(trace.events, [warning("later")]);
        assert_eq!(trace.finished, Some(Some(FailureReason::Stall)));
    }
}
