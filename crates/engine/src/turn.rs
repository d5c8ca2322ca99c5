//! Drives one turn through its stages and sees to it that it ends exactly once.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use harvest_core::{
    BranchName, FailureReason, HookStage, Move, Outcome, OwnerId, Session, Settings, StageName, Task, TaskStatus,
    Timestamp, TurnId,
};
use harvest_forge::Forge;
use harvest_store::{Lease, Step, TaskDetail};
use harvest_workspace::{Mirror, SessionRepository, Snapshot};

use crate::actor::Actor;
use crate::deliver::{Finished, Progress};
use crate::error::Halt;
use crate::execute::Execution;
use crate::gate::Gate;
use crate::interruption::Interruption;
use crate::journal::Journal;
use crate::left::{Left, newest};
use crate::meter::{TurnMeter, charge_unsettled};
use crate::plan::Plan;
use crate::race::Heard;
use crate::reattach::Returned;
use crate::{Engine, Error, Failure, Stop, carry, failpoint};

/// A hash of this many digits is one of SHA-256.
const SHA256_HEX: usize = 64;

/// Everything the stages of one turn share.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) engine: Engine,
    pub(crate) owner: OwnerId,
    /// As it was opened when the turn began.
    pub(crate) begun_with: Arc<dyn Forge>,
    /// As this turn sees it: with its prompt, its agent and its model.
    pub(crate) task: Task,
    pub(crate) session: Session,
    /// The person that this turn acts for; see [`crate::actor`].
    pub(crate) actor: String,
    pub(crate) journal: Journal,
    pub(crate) mirror: Mirror,
    pub(crate) snapshot: Snapshot,
    pub(crate) repository: SessionRepository,
    /// What the workspace begins with: what this turn has left when it was cut off, else what the turn before left, in the
    /// first one the base.
    pub(crate) start: String,
    /// What is changed after this is still to be told.
    pub(crate) announced: String,
    /// Why a run of it before this one did not end it, when that has left anything.
    pub(crate) cut_off: Option<String>,
    /// There is something to remember: a turn before, or a plan.
    pub(crate) goes_on: bool,
    pub(crate) plan: Plan,
    pub(crate) gate: Gate,
    /// A person asked to deliver the work as it is: no agent runs.
    pub(crate) delivers: bool,
    pub(crate) interruption: Option<Interruption>,
    /// Its task runs.
    pub(crate) has_started: AtomicBool,
    /// How many checkpoints the session has.
    pub(crate) checkpoints: AtomicU32,
    pub(crate) meter: Arc<TurnMeter>,
    pub(crate) stop: Stop,
    /// Where its agent is at work already.
    pub(crate) returned: Mutex<Option<Returned>>,
}

/// What became of a claimed turn.
#[derive(Debug, Clone)]
pub enum Worked {
    Finished(Box<Outcome>),
    /// A person has to decide on its plan, or on its delivery, before it goes on.
    AwaitsApproval,
    /// It goes on when someone resumes it.
    Interrupted,
    /// It waits for the verdict of a race, and another worker is to hear it.
    LetGo,
    /// It failed for a reason that may pass, and is tried again at `due`.
    WillRetry {
        reason: FailureReason,
        error: String,
        due: Timestamp,
    },
}

impl Engine {
    /// Works on a claimed turn to its end.
    pub(crate) async fn work_once(&self, owner: &OwnerId, lease: Lease, stop: Stop) -> Result<Worked, Error> {
        failpoint::reach("claim::after")?;
        self.heed(owner, &lease, &stop).await?;
        let (mut detail, journal) = self.open(lease).await?;
        let _at_work = self.vitals.at_work();
        charge_unsettled(&journal, &mut detail.task).await?;
        let actor = journal.actor(&detail).await?;
        let meter = self.meter(owner, &detail.task, &actor, &journal);
        self.work_on(owner, (detail, actor.person), journal, stop, meter, None).await
    }

    /// What a lease is about.
    pub(crate) async fn open(&self, lease: Lease) -> Result<(TaskDetail, Journal), Error> {
        let options = &self.options;
        let detail = options.store.task(&lease.task).await?;
        let journal = Journal::new(options.store.clone(), lease, options.redactor.clone(), options.clock.clone());
        Ok((detail, journal.counted_by(&self.vitals)))
    }

    pub(crate) fn meter(&self, owner: &OwnerId, task: &Task, actor: &Actor, journal: &Journal) -> Arc<TurnMeter> {
        let options = &self.options;
        let (entropy, till) = (options.entropy.clone(), self.till.clone());
        let accounts = options.tenancy.now().accounts_of(task, actor);
        Arc::new(TurnMeter::new(journal.clone(), owner.clone(), entropy, till, accounts, task))
    }

    pub(crate) async fn work_on(
        &self,
        owner: &OwnerId,
        (detail, actor): (TaskDetail, String),
        journal: Journal,
        stop: Stop,
        meter: Arc<TurnMeter>,
        returned: Option<Returned>,
    ) -> Result<Worked, Error> {
        let is_taken_over = returned.is_some();
        match self.prepare(owner, (detail.clone(), actor), journal.clone(), stop.clone(), meter, returned).await {
            Ok(prepared) => prepared.drive().await,
            Err(Halt::Engine(error)) => Err(error),
            Err(Halt::Turn(failure)) => {
                if is_taken_over {
                    self.clear_session(owner, &journal.lease().session).await?;
                }
                // Nothing was done that could have come to anything else.
                let failure = stop.as_wanted(Some(failure.clone()), |_| true).unwrap_or(failure);
                self.record_unstarted(&journal, &detail.task, failure).await
            }
        }
    }

    async fn prepare(
        &self,
        owner: &OwnerId,
        (TaskDetail { task, sessions }, actor): (TaskDetail, String),
        journal: Journal,
        stop: Stop,
        meter: Arc<TurnMeter>,
        returned: Option<Returned>,
    ) -> Result<Turn, Halt> {
        let options = &self.options;
        let Some(session) = sessions.into_iter().find(|known| known.id == journal.lease().session) else {
            return Err(Failure::new(FailureReason::Internal, "the session is gone").into());
        };
        let task = as_of(task, &session, &journal.lease().turn);
        let task = self.on_results(&journal, task, &session).await?;
        let (forge, mirror) = self.mirror_of(&task).await?;
        let path = options.data.session_repository(&session.id);
        let repository = SessionRepository::open(path, &mirror, &task.base, &session.branch).await?;
        if returned.is_none() {
            repository.break_locks().await?;
            options.provider.adopt(repository.path()).await?;
        }
        let interruption = journal.interruption().await?;
        let left = match &interruption {
            Some(interrupted) => Some(interrupted.commit.clone()),
            None => journal.left_before().await?,
        };
        let origin = task.settings.origin.as_ref().map(|origin| origin.commit.clone());
        let plan = journal.plan(&task, &session).await?;
        let delivers = journal.only_delivers().await?;
        let gate = if task.settings.gate { journal.gate().await? } else { Gate::Closed };
        // Whatever was last is what it goes on from.
        let turned_down = gate.returned().map(|turned_down| turned_down.commit.clone());
        let turned_down = turned_down.filter(|_| interruption.is_none());
        let goes_on = left.is_some() || origin.is_some() || turned_down.is_some() || matches!(plan, Plan::Approved(_));
        let start = turned_down.or(left).or(origin).unwrap_or_else(|| task.base.clone());
        let start = brought_back(forge.as_ref(), &mirror, &repository, &journal, &session, start).await?;
        let left = self.left_by_runs(&journal, &repository, &session, &start, returned.as_ref()).await?;
        let cut_off = left.as_ref().map(|left| left.why().to_owned());
        let goes_on = goes_on || cut_off.is_some();
        let (announced, start) = match left {
            Some(Left { commit: Some(commit), announced, .. }) => (announced.or(Some(start)), commit),
            _ => (None, start),
        };
        let begins = match (&returned, &interruption) {
            (Some(_), _) => carry::Begins::WithItsAgent,
            (None, Some(_)) => carry::Begins::Interrupted,
            (None, None) if cut_off.is_some() => carry::Begins::Interrupted,
            (None, None) => carry::Begins::Anew,
        };
        let carry::Standing { task, start } =
            carry::carry(forge.as_ref(), &mirror, &repository, &journal, (task, &session), start, begins).await?;
        let (snapshot, warning) = self.snapshot_for(&mirror, &task.base).await?;
        if let Some(warning) = warning {
            journal.warn(&warning).await?;
        }
        if repository.tip(&start).await?.is_none() {
            let message = "the work of this session is not on this machine: it ran on another machine, or `harvest gc` removed it";
            return Err(Failure::new(FailureReason::Internal, message).into());
        }
        // What has left cannot be stopped any more.
        let delivered: Option<Option<BranchName>> = journal.stage(StageName::Deliver).await?;
        let stop = if delivered.is_some() { Stop::default() } else { stop };
        let has_started = task.status == TaskStatus::Running;
        let checkpoints = repository.last_checkpoint(&session.id).await?.map_or(0, |(number, _)| number);
        Ok(Turn {
            engine: self.clone(),
            owner: owner.clone(),
            begun_with: forge,
            task,
            session,
            actor,
            journal,
            mirror,
            snapshot,
            repository,
            announced: announced.unwrap_or_else(|| start.clone()),
            start,
            cut_off,
            goes_on,
            plan,
            gate,
            delivers,
            interruption,
            has_started: AtomicBool::new(has_started),
            checkpoints: AtomicU32::new(checkpoints),
            meter,
            stop,
            returned: Mutex::new(returned),
        })
    }

    /// What earlier runs of this turn have left beyond what it began with. For an agent that is still at work, those before
    /// it.
    async fn left_by_runs(
        &self,
        journal: &Journal,
        repository: &SessionRepository,
        session: &Session,
        start: &str,
        returned: Option<&Returned>,
    ) -> Result<Option<Left>, Error> {
        let mut events = journal.all().await?;
        if let Some(returned) = returned {
            events.truncate(returned.began(&events));
        }
        let mut left = Left::by(&events, &journal.lease().turn);
        if returned.is_none() {
            left.commit = Some(newest(journal, repository, session, start).await?);
        }
        Ok(Some(left).filter(|left| left.commit.as_ref().is_some_and(|commit| commit != start)))
    }

    /// The mirror of a task's repository, with its base in it.
    pub(crate) async fn mirror_of(&self, task: &Task) -> Result<(Arc<dyn Forge>, Mirror), Error> {
        let forge: Arc<dyn Forge> = self.options.forges.open(&task.repository).await?.into();
        let object_format = if task.base.len() == SHA256_HEX { "sha256" } else { "sha1" };
        let mirror = self.mirrors.open(&forge.identity(), object_format).await?;
        mirror.ensure(&task.base, || forge.fetch(&mirror, &task.base)).await?;
        Ok((forge, mirror))
    }
}

impl Turn {
    pub(crate) fn lease(&self) -> &Lease {
        self.journal.lease()
    }

    async fn drive(self) -> Result<Worked, Error> {
        if self.plan.is_wanted() && !self.delivers {
            return self.propose().await;
        }
        let before = if self.delivers {
            Some(Execution { commit: self.start.clone(), failure: None })
        } else {
            self.executed_before().await?
        };
        let execution = match before {
            Some(before) => {
                // Its agent has worked, under another lease; only a task that runs can complete.
                if !self.has_started.swap(true, Ordering::Relaxed) {
                    self.journal.step(Step::new(self.journal.now(), Vec::new()).moving(Move::Start)).await?;
                }
                Ok(before)
            }
            None => {
                // Beside the work: whoever is to hear of it must not hold it up.
                let (told, executed) = tokio::join!(self.tell(Progress::Working), self.execute());
                told.and(executed)
            }
        };
        let mut execution = match execution {
            Ok(execution) => execution,
            Err(Halt::Engine(error)) => return Err(error),
            Err(Halt::Turn(failure)) => Execution::failed(self.salvage().await, failure),
        };
        execution.failure = self.as_wanted(execution.failure);
        if execution.is_interrupted() {
            // It is no outcome of the stage: the agent goes on later.
            return self.suspend(&execution.commit).await;
        }
        let mut failure = execution.failure.clone();
        let evidence = if failure.is_some() || self.only_reads() {
            None
        } else {
            match self.resume_or(StageName::Verify, self.verify_hooked(&execution.commit)).await {
                Ok(evidence) => evidence,
                Err(Halt::Engine(error)) => return Err(error),
                Err(Halt::Turn(stopped)) => {
                    failure = Some(stopped);
                    None
                }
            }
        };
        if failure.is_none() && !self.only_reads() {
            failure = self.judge(&execution.commit, evidence.as_ref()).await?;
        }
        failure = self.as_wanted(failure);
        if is_interruption(failure.as_ref()) {
            return self.suspend(&execution.commit).await;
        }
        if failure.is_none() {
            failure = self.as_wanted(self.hooks_after(HookStage::AfterVerify, &execution.commit).await?);
        }
        if let Some(failure) = &failure
            && self.may_retry(failure)
        {
            return self.retry_later(failure).await;
        }
        if let Some(race) = self.race()
            && failure.is_none()
        {
            failure = match self.await_verdict(race, &execution.commit).await {
                Ok(Heard::Won) => None,
                Ok(Heard::Lost(lost)) => Some(lost),
                Ok(Heard::Nothing) => return self.let_go().await,
                Err(Halt::Engine(error)) => return Err(error),
                Err(Halt::Turn(failure)) => Some(failure),
            };
            failure = self.as_wanted(failure);
            if is_interruption(failure.as_ref()) {
                return self.suspend(&execution.commit).await;
            }
        }
        // Of a race only the winner's work leaves; the rest is kept here for comparison.
        if self.race().is_some() && failure.is_some() {
            return self.record(&execution, evidence, None, failure).await;
        }
        if failure.is_none() && self.is_gated(&execution.commit) {
            return self.hold(&execution, evidence).await;
        }
        let finished = Finished { commit: &execution.commit, evidence: evidence.as_ref(), failure: failure.as_ref() };
        let branch = match self.resume_or(StageName::Deliver, self.deliver_or_keep(finished)).await {
            Ok(branch) => branch,
            Err(Halt::Engine(error)) => return Err(error),
            Err(Halt::Turn(undelivered)) if failure.is_none() && is_interruption(Some(&undelivered)) => {
                return self.suspend(&execution.commit).await;
            }
            Err(Halt::Turn(undelivered)) => {
                failure = Some(match failure {
                    Some(Failure { reason, message }) => {
                        Failure { reason, message: format!("{message}; {}", undelivered.message) }
                    }
                    None => undelivered,
                });
                None
            }
        };
        if failure.is_none() && branch.is_some() {
            failure = self.hooks_after(HookStage::AfterDeliver, &execution.commit).await?;
        }
        self.record(&execution, evidence, branch, failure).await
    }

    /// What it comes to, as people want it now.
    pub(crate) fn as_wanted(&self, failure: Option<Failure>) -> Option<Failure> {
        self.stop.as_wanted(failure, |failure| self.may_retry(failure))
    }

    /// What the stage came to before a crash, or what it comes to now.
    pub(crate) async fn resume_or<T: serde::Serialize + serde::de::DeserializeOwned>(
        &self,
        stage: StageName,
        work: impl Future<Output = Result<T, Halt>>,
    ) -> Result<T, Halt> {
        if let Some(before) = self.journal.stage(stage).await? {
            return Ok(before);
        }
        self.do_stage(stage, work).await
    }

    async fn do_stage<T: serde::Serialize>(
        &self,
        stage: StageName,
        work: impl Future<Output = Result<T, Halt>>,
    ) -> Result<T, Halt> {
        let result = work.await?;
        self.journal.finish_stage(stage, &result).await?;
        Ok(result)
    }

    /// The agent's work from before a crash, if it is here: it may have been done on another machine, and gone with it.
    async fn executed_before(&self) -> Result<Option<Execution>, Error> {
        let before: Option<Execution> = self.journal.stage(StageName::Execute).await?;
        Ok(match before {
            Some(before) if self.repository.tip(&before.commit).await?.is_some() => Some(before),
            _ => None,
        })
    }

    /// The newest state of the work that reached the session's repository, whatever went wrong.
    pub(crate) async fn salvage(&self) -> String {
        let newest = newest(&self.journal, &self.repository, &self.session, &self.start).await;
        newest.unwrap_or_else(|_| self.start.clone())
    }
}

fn is_interruption(failure: Option<&Failure>) -> bool {
    failure.is_some_and(|failure| failure.reason == FailureReason::Interrupted)
}

/// A task as another agent sees it: model and vendor were chosen for the one before.
pub(crate) fn for_agent<'t>(task: &'t Task, agent: &str) -> Cow<'t, Task> {
    if task.agent == agent {
        return Cow::Borrowed(task);
    }
    let settings = Settings { provider: None, ..task.settings.clone() };
    Cow::Owned(Task { agent: agent.to_owned(), model: None, settings, ..task.clone() })
}

/// A task as one of its turns sees it. Who works on it, and with which model, holds until someone asks for another.
pub(crate) fn as_of(mut task: Task, session: &Session, turn: &TurnId) -> Task {
    for asked in &session.turns {
        if let Some(agent) = &asked.agent {
            task = for_agent(&task, agent).into_owned();
        }
        if asked.model.is_some() {
            task.model.clone_from(&asked.model);
        }
        if asked.id == *turn {
            task.prompt = asked.prompt.clone();
            break;
        }
    }
    task
}
/// The commit that a session goes on from. What `harvest gc` has removed here is fetched from where it was delivered; a pull
/// request has it as another commit with the same files.
async fn brought_back(
    forge: &dyn Forge,
    mirror: &Mirror,
    repository: &SessionRepository,
    journal: &Journal,
    session: &Session,
    start: String,
) -> Result<String, Halt> {
    if repository.tip(&start).await?.is_some() {
        return Ok(start);
    }
    let delivered = journal.last_delivered(&session.branch).await?;
    for commit in [Some(start.clone()), delivered].into_iter().flatten() {
        let fetched = mirror.ensure(&commit, || forge.fetch(mirror, &commit)).await;
        if fetched.is_ok() && repository.tip(&commit).await?.is_some() {
            return Ok(commit);
        }
    }
    Ok(start)
}
