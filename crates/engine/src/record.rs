//! The end of a turn: one transaction that finishes the turn and the task and says how.

use harvest_core::{BranchName, EventBody, Evidence, FailureReason, Move, Outcome, Task, TaskStatus};
use harvest_store::Step;

use crate::execute::Execution;
use crate::journal::Journal;
use crate::turn::Turn;
use crate::{Engine, Error, Failure, failpoint};

impl Turn {
    pub(crate) async fn record(
        &self,
        execution: &Execution,
        evidence: Option<Evidence>,
        branch: Option<BranchName>,
        failure: Option<Failure>,
    ) -> Result<Outcome, Error> {
        failpoint::reach("record::before")?;
        let spent = self.meter.spent();
        let outcome = Outcome {
            task_id: self.task.id.clone(),
            session_id: self.session.id.clone(),
            status: status_of(failure.as_ref()),
            reason: failure.as_ref().map(|failure| failure.reason),
            error: failure.map(|failure| failure.message),
            branch,
            commit: execution.commit.clone(),
            base: self.task.base.clone(),
            evidence,
            usage: spent.usage,
            cost_usd: spent.cost,
        };
        finish(&self.journal, outcome.clone()).await?;
        failpoint::reach("record::after")?;
        Ok(outcome)
    }
}

impl Engine {
    /// The end of a turn that never got as far as a workspace.
    pub(crate) async fn record_unstarted(
        &self,
        journal: &Journal,
        task: &Task,
        failure: Failure,
    ) -> Result<Outcome, Error> {
        let outcome = Outcome {
            task_id: task.id.clone(),
            session_id: journal.lease().session.clone(),
            status: status_of(Some(&failure)),
            reason: Some(failure.reason),
            error: Some(failure.message),
            branch: None,
            commit: task.base.clone(),
            base: task.base.clone(),
            evidence: None,
            usage: task.usage,
            cost_usd: task.cost_usd,
        };
        finish(journal, outcome.clone()).await?;
        Ok(outcome)
    }
}

pub(crate) async fn finish(journal: &Journal, outcome: Outcome) -> Result<(), Error> {
    let by = match outcome.status {
        TaskStatus::Completed => Move::Complete,
        TaskStatus::Cancelled => Move::Cancel,
        _ => Move::Fail,
    };
    let turn_id = journal.lease().turn.clone();
    let events = vec![
        EventBody::TurnFinished { turn_id, reason: outcome.reason },
        EventBody::TaskFinished(outcome.clone()),
    ];
    journal.step(Step::new(journal.now(), events).moving(by).ending(outcome)).await?;
    Ok(())
}

fn status_of(failure: Option<&Failure>) -> TaskStatus {
    match failure {
        None => TaskStatus::Completed,
        Some(Failure { reason: FailureReason::Cancelled, .. }) => TaskStatus::Cancelled,
        Some(_) => TaskStatus::Failed,
    }
}
