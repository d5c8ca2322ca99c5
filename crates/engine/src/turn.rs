//! Drives one turn through its stages and sees to it that it ends exactly once.

use std::path::Path;
use std::sync::Arc;

use harvest_core::{Outcome, OwnerId, Session, StageName, Task};
use harvest_forge::Forge;
use harvest_store::Lease;
use harvest_workspace::{Mirror, SessionRepository, Snapshot};

use crate::error::Halt;
use crate::execute::Execution;
use crate::journal::Journal;
use crate::meter::{Spent, TurnMeter};
use crate::place::OBJECTS_INSIDE;
use crate::{Engine, Error, Failure, Stop, Submission, failpoint};

/// Everything the stages of one turn share.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) engine: Engine,
    pub(crate) owner: OwnerId,
    pub(crate) forge: Arc<dyn Forge>,
    pub(crate) task: Task,
    pub(crate) session: Session,
    pub(crate) journal: Journal,
    pub(crate) mirror: Mirror,
    pub(crate) snapshot: Snapshot,
    pub(crate) repository: SessionRepository,
    pub(crate) meter: Arc<TurnMeter>,
    pub(crate) stop: Stop,
}

impl Engine {
    /// Claims the submission's turn and works on it to its end. `None` when someone else took it.
    pub async fn work(&self, owner: &OwnerId, submission: Submission, stop: Stop) -> Result<Option<Outcome>, Error> {
        let options = &self.options;
        let turn = &submission.submitted.turn;
        let Some(lease) = options.store.claim(owner, Some(turn), options.clock.now()).await? else { return Ok(None) };
        failpoint::reach("claim::after")?;
        let journal = Journal::new(options.store.clone(), lease, options.redactor.clone(), options.clock.clone());
        for warning in &submission.warnings {
            journal.warn(warning.as_str()).await?;
        }
        let prepared = match self.prepare(owner, &submission, journal.clone(), stop).await {
            Ok(prepared) => prepared,
            Err(Halt::Engine(error)) => return Err(error),
            Err(Halt::Turn(failure)) => {
                return self.record_unstarted(&journal, &submission.submitted.task, failure).await.map(Some);
            }
        };
        prepared.drive().await.map(Some)
    }

    async fn prepare(
        &self,
        owner: &OwnerId,
        submission: &Submission,
        journal: Journal,
        stop: Stop,
    ) -> Result<Turn, Halt> {
        let options = &self.options;
        let Lease { task, session, .. } = journal.lease().clone();
        let detail = options.store.task(&task).await?;
        let task = detail.task;
        let Some(session) = detail.sessions.into_iter().find(|known| known.id == session) else {
            return Err(Failure::new(harvest_core::FailureReason::Internal, "the session is gone").into());
        };
        let forge = submission.forge.clone();
        let mirror = self.mirrors.open(&forge.identity(), &submission.object_format).await?;
        mirror.ensure(&task.base, || forge.fetch(&mirror, &task.base)).await?;
        let snapshot = self.snapshots.open(&mirror, &task.base, Path::new(OBJECTS_INSIDE)).await?;
        let path = options.data.session_repository(&session.id);
        let repository = SessionRepository::open(path, &mirror, &task.base, &session.branch).await?;
        options.provider.adopt(repository.path()).await?;
        let before = Spent { usage: task.usage, cost: task.cost_usd };
        let meter = Arc::new(TurnMeter::new(journal.clone(), task.budget_usd, before));
        Ok(Turn {
            engine: self.clone(),
            owner: owner.clone(),
            forge,
            task,
            session,
            journal,
            mirror,
            snapshot,
            repository,
            meter,
            stop,
        })
    }
}

impl Turn {
    pub(crate) fn lease(&self) -> &Lease {
        self.journal.lease()
    }

    async fn drive(self) -> Result<Outcome, Error> {
        let execution = self.resume_or(StageName::Execute, self.execute()).await;
        let execution = match execution {
            Ok(execution) => execution,
            Err(Halt::Engine(error)) => return Err(error),
            Err(Halt::Turn(failure)) => Execution::failed(self.salvage().await, failure),
        };
        let mut failure = execution.failure.clone();
        let evidence = if failure.is_some() {
            None
        } else {
            match self.resume_or(StageName::Verify, self.verify(&execution.commit)).await {
                Ok(evidence) => evidence,
                Err(Halt::Engine(error)) => return Err(error),
                Err(Halt::Turn(stopped)) => {
                    failure = Some(stopped);
                    None
                }
            }
        };
        if failure.is_none() {
            failure = self.judge(evidence.as_ref());
        }
        let branch = match self.resume_or(StageName::Deliver, self.deliver(&execution.commit)).await {
            Ok(branch) => branch,
            Err(Halt::Engine(error)) => return Err(error),
            Err(Halt::Turn(undelivered)) => {
                failure.get_or_insert(undelivered);
                None
            }
        };
        self.record(&execution, evidence, branch, failure).await
    }

    /// What the stage came to before a crash, or what it comes to now.
    async fn resume_or<T: serde::Serialize + serde::de::DeserializeOwned>(
        &self,
        stage: StageName,
        work: impl Future<Output = Result<T, Halt>>,
    ) -> Result<T, Halt> {
        if let Some(before) = self.journal.stage(stage).await? {
            return Ok(before);
        }
        let result = work.await?;
        self.journal.finish_stage(stage, &result).await?;
        Ok(result)
    }

    /// The newest state of the work that reached the session's repository, whatever went wrong.
    pub(crate) async fn salvage(&self) -> String {
        let newest = self.repository.newest(&self.session.branch, &self.session.id).await;
        newest.ok().flatten().unwrap_or_else(|| self.task.base.clone())
    }
}
