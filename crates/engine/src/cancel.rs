//! Cancels tasks that no one works on: those that wait in the queue or for their next try, and interrupted ones. Work that their
//! turns have done is delivered like that of a task which is stopped at work.
//!
//! The turn is claimed for this, and the wish to stop it is recorded with the claim. If this process dies before the end, both
//! are found by the process that cleans up after it, or by the worker that claims the turn when the lease has run out.

use std::time::Duration;

use harvest_core::{
    Entropy, FailureReason, Outcome, Session, Stopping, Task, TaskId, TaskStatus, Timestamp, TurnStatus,
};
use harvest_forge::Forges;
use harvest_store::{Claim, Lease, OwnerKind};

use crate::{Engine, Error, Failure, Ownership, Recovery, failpoint};

/// How long the delivery may take before others may claim the turn.
const LEASE: Duration = Duration::from_secs(60);

impl Recovery {
    /// Cancels a task that no one works on, and delivers the work of its turn if that is on this machine. `None` when someone
    /// works on the task or it has ended.
    pub async fn cancel_waiting(
        &self,
        task: &TaskId,
        how: Stopping,
        entropy: &dyn Entropy,
        forges: &Forges,
    ) -> Result<Option<Outcome>, Error> {
        if let Some(outcome) = self.cancel_begun(task, how, entropy, forges).await? {
            return Ok(Some(outcome));
        }
        Ok(self.store.cancel_waiting(task, self.clock.now()).await?)
    }

    /// Ends a waiting task whose turn has work on this machine. `None` when there is none, or when someone claims the turn first.
    async fn cancel_begun(
        &self,
        task: &TaskId,
        how: Stopping,
        entropy: &dyn Entropy,
        forges: &Forges,
    ) -> Result<Option<Outcome>, Error> {
        let detail = self.store.task(task).await?;
        if !matches!(detail.task.status, TaskStatus::Pending | TaskStatus::Interrupted) {
            return Ok(None);
        }
        let Some(session) = detail.sessions.iter().find(|session| waits(session)) else { return Ok(None) };
        if !self.has_work_of(&detail.task, session).await? {
            return Ok(None);
        }
        let owner = Ownership::register(&self.data, self.store.clone(), entropy, OwnerKind::Run).await?;
        let at = self.clock.now();
        let until = Some(at.saturating_add(LEASE).unwrap_or(Timestamp::MAX));
        let claim = Claim { owner: owner.id().clone(), turn: None, most: 1, warm: Vec::new(), at, until };
        let Some(lease) = self.store.claim_to_stop(task, how, claim).await? else {
            owner.release().await?;
            return Ok(None);
        };
        let outcome = self.end_claimed(&detail.task, lease, forges).await?;
        owner.release().await?;
        Ok(outcome)
    }

    async fn end_claimed(&self, task: &Task, lease: Lease, forges: &Forges) -> Result<Option<Outcome>, Error> {
        failpoint::reach("cancel::claimed")?;
        let forge = forges.open(&task.repository).await.ok();
        let cancelled = Failure::new(FailureReason::Cancelled, "cancelled before it continued");
        match self.end_in(forge.as_deref(), lease, cancelled).await {
            Ok(outcome) => Ok(Some(outcome)),
            // The delivery took too long, and another worker goes on with it.
            Err(Error::Store(harvest_store::Error::StaleLease { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the turn that waits has work in the session's repository on this machine.
    async fn has_work_of(&self, task: &Task, session: &Session) -> Result<bool, Error> {
        let Some(repository) = self.data.existing_repository(&session.id) else { return Ok(false) };
        let origin = task.settings.origin.as_ref().map(|origin| &origin.commit);
        let start = task.commit.as_ref().or(origin).unwrap_or(&task.base);
        if let Some(told) = self.store.newest_work(&session.id).await?.filter(|told| told != start) {
            return Ok(repository.tip(&told).await?.is_some());
        }
        // The agent may have pushed the branch by itself.
        let pushed = repository.tip(&session.branch.as_ref_name()).await?;
        Ok(pushed.is_some_and(|pushed| pushed != *start && pushed != task.base))
    }
}

/// Whether a session has a turn that was begun and waits now.
fn waits(session: &Session) -> bool {
    session.turns.iter().any(|turn| {
        let is_waiting = matches!(
            turn.status,
            TurnStatus::Ready | TurnStatus::Blocked | TurnStatus::Waiting | TurnStatus::Parked | TurnStatus::Held
        );
        is_waiting && !turn.attempts.is_empty()
    })
}

impl Engine {
    /// Cancels a task that no one works on; see [`Recovery::cancel_waiting`]. Where it came from, people are told of its work.
    pub async fn cancel_waiting(&self, task: &TaskId, how: Stopping) -> Result<Option<Outcome>, Error> {
        let options = &self.options;
        let ended = self.recovery().cancel_begun(task, how, options.entropy.as_ref(), &options.forges).await?;
        if let Some(outcome) = ended {
            self.tell_end_or_log(&outcome).await;
            return Ok(Some(outcome));
        }
        Ok(options.store.cancel_waiting(task, options.clock.now()).await?)
    }
}
