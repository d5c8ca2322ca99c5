//! What one transaction of a claimed turn writes.

use harvest_core::{Attempt, AttemptId, EventBody, Move, Outcome, Timestamp, TokenId};

use super::{Limit, Settlement};

#[derive(Debug, Clone)]
pub struct Step {
    pub at: Timestamp,
    pub events: Vec<EventBody>,
    pub to: Option<Move>,
    pub attempt: Option<AttemptUpdate>,
    /// Calls that ended.
    pub settled: Vec<Settlement>,
    pub end: Option<End>,
}

/// How a turn leaves the hands of its owner.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "one is made per turn, and taken apart at once")]
pub enum End {
    /// It is over, and its task with it.
    Finished(Outcome),
    /// It is tried again at `due`, and has one retry less.
    Retry { due: Timestamp },
}

#[derive(Debug, Clone)]
pub enum AttemptUpdate {
    Started(Attempt),
    /// Everything of the agent's output up to `offset` is in the journal.
    Journaled {
        attempt: AttemptId,
        offset: u64,
    },
    Finished {
        attempt: AttemptId,
        exit_code: Option<i32>,
        stderr_tail: String,
    },
}

impl Step {
    pub fn new(at: Timestamp, events: Vec<EventBody>) -> Self {
        Self { at, events, to: None, attempt: None, settled: Vec::new(), end: None }
    }

    pub fn moving(mut self, to: Move) -> Self {
        self.to = Some(to);
        self
    }

    pub fn with_attempt(mut self, update: AttemptUpdate) -> Self {
        self.attempt = Some(update);
        self
    }

    pub fn settling(mut self, settlement: Settlement) -> Self {
        self.settled.push(settlement);
        self
    }

    /// Ends the turn and the task.
    pub fn ending(mut self, outcome: Outcome) -> Self {
        self.end = Some(End::Finished(outcome));
        self
    }

    /// Gives the turn back to be tried again.
    pub fn retrying(mut self, due: Timestamp) -> Self {
        self.end = Some(End::Retry { due });
        self
    }
}

/// A person who tells the agent of a task under way something new, and the token that they do it with. The turn acts for
/// them from then on, and the token pays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requester {
    pub person: String,
    pub token: Option<TokenId>,
    /// They are held to these when the task becomes theirs by it.
    pub limits: Vec<Limit>,
    /// Their caps, which the turn counts against from then on.
    pub caps: Vec<String>,
}

/// What a person says about a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanDecision {
    pub by: Requester,
    pub verdict: PlanVerdict,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanVerdict {
    /// It is carried out, as it is or as the person changed it.
    Approved { changed: Option<String> },
    /// Another one is made.
    Again { comment: String },
    /// The task is cancelled.
    Rejected,
}

impl PlanDecision {
    pub(crate) fn event(&self) -> EventBody {
        let (approved, plan, comment) = match &self.verdict {
            PlanVerdict::Approved { changed } => (true, changed.clone(), None),
            PlanVerdict::Again { comment } => (false, None, Some(comment.clone())),
            PlanVerdict::Rejected => (false, None, None),
        };
        EventBody::PlanDecided { approved, author: self.by.person.clone(), plan, comment }
    }

    /// The person that the turn acts for from now on, if the agent is told something new.
    pub(crate) fn instructor(&self) -> Option<&Requester> {
        let tells = match &self.verdict {
            PlanVerdict::Approved { changed } => changed.is_some(),
            PlanVerdict::Again { .. } => true,
            PlanVerdict::Rejected => false,
        };
        tells.then_some(&self.by)
    }

    /// What becomes of a task that is cancelled for its plan.
    pub(crate) const REJECTED: &'static str = "what it proposed was rejected";
}
