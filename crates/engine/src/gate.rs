//! Before anything leaves, a person decides on the tested result. Meanwhile the turn is nobody's: no sandbox, no lease. What was
//! decided is read from the journal by whoever claims the turn next.

use harvest_core::{BranchName, Event, EventBody, Evidence};

use crate::deliver::{Finished, Progress};
use crate::error::Halt;
use crate::execute::Execution;
use crate::turn::{Turn, Worked};
use crate::{Error, failpoint};

/// So many changed paths are told with a proposal; the diff has them all.
const MOST_FILES: usize = 200;

/// Where a turn is with its delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Nobody was asked, or not about this.
    Closed,
    /// This commit may leave.
    Open { commit: String },
    /// It is to be done differently.
    Returned(Returned),
}

/// A result that a person did not want as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Returned {
    pub(crate) commit: String,
    pub(crate) comment: String,
}

impl Returned {
    /// What is asked of the agent now.
    pub(crate) fn prompt(&self, prompt: &str) -> String {
        format!(
            "{prompt}\n\nThat was done, as the workspace has it, and tested. A person looked at the result and does not want it \
             delivered like this. Change it as they say:\n\n{}",
            self.comment
        )
    }
}

impl Gate {
    /// What the events of one try say.
    pub(crate) fn read(events: &[Event]) -> Self {
        let (mut proposed, mut gate) = (None, Self::Closed);
        for event in events {
            match &event.body {
                EventBody::DeliveryProposed { commit, .. } => proposed = Some(commit),
                EventBody::PlanProposed { .. } => proposed = None,
                EventBody::PlanDecided { approved, comment, .. } => {
                    let Some(commit) = proposed.take().cloned() else { continue };
                    gate = match (approved, comment) {
                        (true, _) => Self::Open { commit },
                        (false, Some(comment)) => Self::Returned(Returned { commit, comment: comment.clone() }),
                        (false, None) => Self::Closed,
                    };
                }
                _ => {}
            }
        }
        gate
    }

    pub(crate) fn returned(&self) -> Option<&Returned> {
        match self {
            Self::Returned(returned) => Some(returned),
            Self::Closed | Self::Open { .. } => None,
        }
    }
}

impl Turn {
    /// Whether a person has to be asked before `commit` may leave.
    pub(crate) fn is_gated(&self, commit: &str) -> bool {
        let leaves = commit != self.task.base || self.task.branch.is_some();
        let open = matches!(&self.gate, Gate::Open { commit: allowed } if allowed == commit);
        // A person who asks for the delivery has approved it.
        self.task.settings.gate && leaves && !open && !self.delivers
    }

    /// Gives the turn back until a person has decided.
    pub(crate) async fn hold(&self, execution: &Execution, evidence: Option<Evidence>) -> Result<Worked, Error> {
        let changes = self.repository.changes(&self.task.base, &execution.commit).await?;
        let files = changes.len();
        let proposed = EventBody::DeliveryProposed {
            branch: self.session.branch.clone(),
            commit: execution.commit.clone(),
            base: self.task.base.clone(),
            files: changes.into_iter().map(|change| change.path).take(MOST_FILES).collect(),
            evidence,
        };
        failpoint::reach("gate::before")?;
        if let Err(Halt::Engine(error)) = self.tell(Progress::DeliveryWaits { files }).await {
            return Err(error);
        }
        self.journal.ask_approval(vec![proposed]).await?;
        failpoint::reach("gate::asked")?;
        Ok(Worked::AwaitsApproval)
    }

    /// Delivers what may leave. Work that failed may not where nobody has looked at it.
    pub(crate) async fn deliver_or_keep(&self, finished: Finished<'_>) -> Result<Option<BranchName>, Halt> {
        if !self.is_gated(finished.commit) {
            return self.deliver(finished).await;
        }
        let message = format!(
            "failed work is not offered for approval: it is kept here; harvest task diff {} shows it",
            self.task.id.short()
        );
        self.journal.warn(message).await?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use harvest_core::{SessionId, Timestamp};

    use super::*;

    fn proposed(commit: &str) -> EventBody {
        let branch = BranchName::for_session("x", &"0000000000000001".parse().unwrap());
        EventBody::DeliveryProposed {
            branch,
            commit: commit.into(),
            base: "b".into(),
            files: Vec::new(),
            evidence: None,
        }
    }

    fn decided(approved: bool, comment: Option<&str>) -> EventBody {
        EventBody::PlanDecided { approved, author: "ada".into(), plan: None, comment: comment.map(str::to_owned) }
    }

    fn read(bodies: Vec<EventBody>) -> Gate {
        let session_id: SessionId = "0000000000000001".parse().unwrap();
        let event = |(body, seq)| Event { seq, at: Timestamp::UNIX_EPOCH, session_id: session_id.clone(), body };
        Gate::read(&bodies.into_iter().zip(1..).map(event).collect::<Vec<_>>())
    }

    #[test]
    fn only_what_was_shown_is_let_out() {
        let plan = || EventBody::PlanProposed { text: "x".into() };
        assert_eq!(read(vec![plan(), decided(true, None)]), Gate::Closed, "a plan is not the work");
        assert_eq!(read(vec![proposed("c")]), Gate::Closed);
        assert_eq!(read(vec![proposed("c"), decided(true, None)]), Gate::Open { commit: "c".into() });
        let returned = Returned { commit: "c".into(), comment: "smaller".into() };
        let events = vec![plan(), decided(true, None), proposed("c"), decided(false, Some("smaller"))];
        assert_eq!(read(events.clone()), Gate::Returned(returned));
        let again = [events, vec![proposed("d"), decided(true, None)]].concat();
        assert_eq!(read(again), Gate::Open { commit: "d".into() });
    }
}
