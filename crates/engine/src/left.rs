//! What a turn has left that was begun and did not end: its worker was lost, its sandbox, or the try failed. Whoever goes on
//! with it begins with the newest state of the work that arrived in the session's repository, and is told why it was cut off.
//!
//! The journal says what is newest; the branch alone cannot, since an earlier try may have left it there.

use std::collections::HashSet;

use harvest_core::{Event, EventBody, Session, StageName, TurnId};
use harvest_workspace::SessionRepository;

use crate::Error;
use crate::journal::{Journal, of_turn};

/// Said of a run that nothing else is known of.
const LOST_WORKER: &str = "its worker was lost";

/// What the journal tells of the work of one turn.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// The newest state of it.
    pub(crate) commit: Option<String>,
    /// How far its changes are told.
    pub(crate) announced: Option<String>,
    /// Why the last run of an agent did not end the turn, as far as it was said.
    why: Option<String>,
    /// Where the branch has been.
    known: HashSet<String>,
}

impl Left {
    pub(crate) fn by(events: &[Event], turn: &TurnId) -> Self {
        let mut left = Self::default();
        for event in of_turn(events, turn) {
            match &event.body {
                EventBody::AgentStarted { .. } => left.why = None,
                EventBody::CheckpointCreated { commit, .. } => left.commit = Some(commit.clone()),
                EventBody::StageFinished { stage: StageName::Execute, result } => {
                    if let Some(commit) = result.get("commit").and_then(serde_json::Value::as_str) {
                        left.brought_out(commit);
                    }
                }
                EventBody::SessionInterrupted { commit, .. } => left.brought_out(commit),
                EventBody::TaskRetried { error, .. } => left.why = Some(error.clone()),
                _ => {}
            }
        }
        // Of every turn: one that has just begun finds the branch where the last has left it.
        left.known.extend(events.iter().filter_map(|event| match &event.body {
            EventBody::BranchDelivered { commit, .. } => Some(commit.clone()),
            EventBody::TaskFinished(outcome) => Some(outcome.commit.clone()),
            _ => None,
        }));
        left
    }

    fn brought_out(&mut self, commit: &str) {
        self.commit = Some(commit.to_owned());
        self.announced = Some(commit.to_owned());
        self.known.insert(commit.to_owned());
    }

    pub(crate) fn why(&self) -> &str {
        self.why.as_deref().filter(|why| !why.is_empty()).unwrap_or(LOST_WORKER)
    }
}

/// The newest state of a turn's work that arrived, else what it began with.
pub(crate) async fn newest(
    journal: &Journal,
    repository: &SessionRepository,
    session: &Session,
    start: &str,
) -> Result<String, Error> {
    let left = Left::by(&journal.all().await?, &journal.lease().turn);
    let told = match left.commit {
        // What was done on another machine may have stayed there.
        Some(commit) if repository.tip(&commit).await?.is_some() => Some(commit),
        _ => None,
    };
    let pushed = repository.tip(&session.branch.as_ref_name()).await?;
    let Some(pushed) = pushed.filter(|pushed| pushed != start && !left.known.contains(pushed)) else {
        return Ok(told.unwrap_or_else(|| start.to_owned()));
    };
    // A checkpoint that stands on it is newer: the agent has pushed it by itself.
    match told {
        Some(told) if repository.is_ancestor(&pushed, &told).await? => Ok(told),
        _ => Ok(pushed),
    }
}

#[cfg(test)]
mod tests {
    use harvest_core::FailureReason;
    use serde_json::json;

    use super::*;
    use crate::story::{journal, turn};

    fn claimed(number: u32) -> EventBody {
        EventBody::TurnStarted { turn_id: turn(number), number, author: "ada".into() }
    }

    fn agent() -> EventBody {
        let attempt_id = "0000000000000008".parse().unwrap();
        EventBody::AgentStarted { attempt_id, agent: "builtin".into(), model: None }
    }

    fn checkpoint(commit: &str) -> EventBody {
        EventBody::CheckpointCreated { number: 1, commit: commit.into() }
    }

    fn executed(commit: &str) -> EventBody {
        EventBody::StageFinished { stage: StageName::Execute, result: json!({ "commit": commit, "failure": null }) }
    }

    fn retried(error: &str) -> EventBody {
        EventBody::TaskRetried { reason: FailureReason::Agent, error: error.into(), tries: 1, delay_ms: 0 }
    }

    #[track_caller]
    fn assert_left(bodies: Vec<EventBody>, number: u32, commit: Option<&str>, why: &str) {
        let left = Left::by(&journal(bodies), &turn(number));
        assert_eq!((left.commit.as_deref(), left.why()), (commit, why));
    }

    #[test]
    fn the_newest_of_the_turn_counts_whichever_try_it_is_of() {
        assert_left(vec![claimed(1), agent()], 1, None, LOST_WORKER);
        assert_left(vec![claimed(1), agent(), checkpoint("a")], 1, Some("a"), LOST_WORKER);
        let first = vec![claimed(1), agent(), checkpoint("a"), executed("b"), retried("no answer")];
        assert_left(first.clone(), 1, Some("b"), "no answer");
        let second: Vec<EventBody> = first.into_iter().chain([claimed(1), agent(), checkpoint("c")]).collect();
        assert_left(second.clone(), 1, Some("c"), LOST_WORKER);
        // Another turn has nothing to do with it.
        assert_left(second.into_iter().chain([claimed(2)]).collect(), 2, None, LOST_WORKER);
    }

    #[test]
    fn what_was_told_of_changes_ends_with_the_last_that_was_brought_out() {
        let events = journal(vec![claimed(1), agent(), executed("b"), retried("x"), claimed(1), checkpoint("c")]);
        let left = Left::by(&events, &turn(1));
        assert_eq!((left.commit.as_deref(), left.announced.as_deref()), (Some("c"), Some("b")));
        assert!(left.known.contains("b") && !left.known.contains("c"));
    }
}
