//! The end of a turn: one transaction that finishes the turn and the task and says how.

use harvest_core::{BranchName, EventBody, Evidence, FailureReason, Move, Outcome, Task, TaskStatus, retry_delay};
use harvest_store::Step;

use crate::deliver::Progress;
use crate::error::Halt;
use crate::execute::Execution;
use crate::journal::Journal;
use crate::turn::{Turn, Worked};
use crate::{Engine, Error, Failure, failpoint};

/// So many digits of a commit are shown.
const SHORT_COMMIT: usize = 10;

impl Turn {
    pub(crate) async fn record(
        &self,
        execution: &Execution,
        evidence: Option<Evidence>,
        branch: Option<BranchName>,
        failure: Option<Failure>,
    ) -> Result<Worked, Error> {
        let spent = self.meter.spent();
        let outcome = Outcome {
            task_id: self.task.id.clone(),
            session_id: self.session.id.clone(),
            status: status_of(failure.as_ref()),
            reason: failure.as_ref().map(|failure| failure.reason),
            error: failure.map(|failure| failure.message),
            // What an earlier turn delivered is still there.
            branch: branch.or_else(|| self.task.branch.clone()),
            commit: execution.commit.clone(),
            base: self.task.base.clone(),
            evidence,
            usage: spent.usage,
            cost_usd: spent.cost,
        };
        let outcome = with_earlier_result(&self.journal, outcome).await?;
        self.tell_end(&outcome).await?;
        failpoint::reach("record::before")?;
        finish(&self.journal, outcome.clone()).await?;
        failpoint::reach("record::after")?;
        Ok(Worked::Finished(Box::new(outcome)))
    }

    pub(crate) fn may_retry(&self, failure: &Failure) -> bool {
        may_retry(&self.task, failure)
    }

    pub(crate) async fn retry_later(&self, failure: &Failure) -> Result<Worked, Error> {
        if let Err(Halt::Engine(error)) = self.tell(Progress::WillRetry { reason: failure.reason }).await {
            return Err(error);
        }
        self.engine.retry_later(&self.journal, &self.task, failure).await
    }
}

/// Only what may go better the next time is tried again.
fn may_retry(task: &Task, failure: &Failure) -> bool {
    task.retries_left > 0 && failure.reason.is_retryable()
}

impl Engine {
    /// The end of a turn that never got as far as a workspace.
    pub(crate) async fn record_unstarted(
        &self,
        journal: &Journal,
        task: &Task,
        failure: Failure,
    ) -> Result<Worked, Error> {
        if may_retry(task, &failure) {
            return self.retry_later(journal, task, &failure).await;
        }
        let outcome = Outcome {
            task_id: task.id.clone(),
            session_id: journal.lease().session.clone(),
            status: status_of(Some(&failure)),
            reason: Some(failure.reason),
            error: Some(failure.message),
            branch: task.branch.clone(),
            commit: task.commit.clone().unwrap_or_else(|| task.base.clone()),
            base: task.base.clone(),
            evidence: None,
            usage: task.usage,
            cost_usd: task.cost_usd,
        };
        let outcome = with_earlier_result(journal, outcome).await?;
        self.tell_end_or_log(&outcome).await;
        finish(journal, outcome.clone()).await?;
        Ok(Worked::Finished(Box::new(outcome)))
    }

    /// Writes the status comment of a task that ends without a workspace. Its forge may be what failed.
    pub(crate) async fn tell_end_or_log(&self, outcome: &Outcome) {
        if let Err(error) = self.tell_end(outcome).await {
            tracing::warn!(task = %outcome.task_id, %error, "the end of a task could not be told on GitHub");
        }
    }

    async fn retry_later(&self, journal: &Journal, task: &Task, failure: &Failure) -> Result<Worked, Error> {
        let [random, ..] = self.options.entropy.bytes();
        let delay = retry_delay(task.tries, f64::from(random) / 255.0);
        let due = journal.now().saturating_add(delay).unwrap_or(harvest_core::Timestamp::MAX);
        let (reason, error) = (failure.reason, failure.message.clone());
        let events = vec![
            EventBody::TurnFinished { turn_id: journal.lease().turn.clone(), reason: Some(reason) },
            EventBody::TaskRetried {
                reason,
                error: error.clone(),
                tries: task.tries,
                delay_ms: crate::place::millis(delay),
            },
        ];
        journal.step(Step::new(journal.now(), events).retrying(due)).await?;
        Ok(Worked::WillRetry { reason, error, due })
    }
}

pub(crate) async fn finish(journal: &Journal, outcome: Outcome) -> Result<(), Error> {
    let by = match outcome.status {
        TaskStatus::Completed => Move::Complete,
        TaskStatus::Cancelled => Move::Cancel,
        _ => Move::Fail,
    };
    let turn_id = journal.lease().turn.clone();
    let events =
        vec![EventBody::TurnFinished { turn_id, reason: outcome.reason }, EventBody::TaskFinished(outcome.clone())];
    journal.step(Step::new(journal.now(), events).moving(by).ending(outcome)).await?;
    Ok(())
}

/// A follow-up that is cancelled does not undo the result before it: its end says where that is.
pub(crate) async fn with_earlier_result(journal: &Journal, mut outcome: Outcome) -> Result<Outcome, Error> {
    if outcome.status == TaskStatus::Cancelled
        && let Some(earlier) = journal.completed_before().await?
    {
        let commit = earlier.commit.get(..SHORT_COMMIT).unwrap_or(&earlier.commit);
        let stopped = outcome.error.unwrap_or_default();
        outcome.error =
            Some(format!("{stopped}; the completed result before it is commit {commit}: git merge {commit}"));
    }
    Ok(outcome)
}

pub(crate) fn status_of(failure: Option<&Failure>) -> TaskStatus {
    match failure {
        None => TaskStatus::Completed,
        Some(Failure { reason: FailureReason::Cancelled, .. }) => TaskStatus::Cancelled,
        Some(_) => TaskStatus::Failed,
    }
}
