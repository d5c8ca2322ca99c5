//! How a person stops a turn, for good or for a while: a flag that everyone can wait for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use harvest_core::{FailureReason, Stopping, TaskId, TurnId};
use harvest_store::Lease;
#[cfg(test)]
use harvest_store::Rows;
use tokio::sync::{Notify, watch};

use crate::Failure;
use crate::race::lost;

/// Cheap to clone; all clones are one flag.
#[derive(Debug, Clone)]
pub struct Stop {
    flag: Arc<watch::Sender<Option<Stopping>>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self { flag: Arc::new(watch::channel(None).0) }
    }
}

impl Stop {
    pub fn request(&self) {
        self.request_as(Stopping::Cancel);
    }

    /// The last word counts, but whoever was in more haste is not held up, and who is cancelled stays so.
    pub fn request_as(&self, how: Stopping) {
        self.flag.send_if_modified(|wanted| {
            let is_more = wanted.as_ref().is_none_or(|wanted| wanted.weight() <= how.weight() && *wanted != how);
            if is_more {
                *wanted = Some(how);
            }
            is_more
        });
    }

    pub fn is_requested(&self) -> bool {
        self.flag.borrow().is_some()
    }

    /// What is wanted, if anything is.
    pub fn how(&self) -> Option<Stopping> {
        self.flag.borrow().clone()
    }

    /// What it comes to when the work ends for this.
    pub(crate) fn failure(&self) -> Failure {
        match self.how() {
            Some(Stopping::Interrupt { author, reason }) => {
                let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                Failure::new(FailureReason::Interrupted, format!("interrupted by {author}{why}"))
            }
            Some(Stopping::Lose { to }) => lost(Some(&to)),
            Some(Stopping::Cancel | Stopping::Terminate) | None => {
                Failure::new(FailureReason::Cancelled, "stopped by a user")
            }
        }
    }

    /// What a turn comes to, as people want it now: what would go on later, or leave, is over when someone has cancelled it.
    pub(crate) fn as_wanted(&self, failure: Option<Failure>, may_retry: impl Fn(&Failure) -> bool) -> Option<Failure> {
        let is_over = match (&failure, self.how()) {
            (_, None | Some(Stopping::Interrupt { .. })) => false,
            (None, Some(how)) => matches!(how, Stopping::Cancel | Stopping::Terminate),
            (Some(failure), Some(_)) => failure.reason == FailureReason::Interrupted || may_retry(failure),
        };
        if is_over { Some(self.failure()) } else { failure }
    }

    pub async fn requested(&self) {
        // The sender lives as long as `self`, so waiting can only end with the flag set.
        let _ = self.flag.subscribe().wait_for(Option::is_some).await;
    }

    /// The agent is not to be asked, but killed.
    pub async fn requested_at_once(&self) {
        let is_at_once = |wanted: &Option<Stopping>| wanted.as_ref().is_some_and(Stopping::is_at_once);
        let _ = self.flag.subscribe().wait_for(is_at_once).await;
    }
}

/// The flags of the turns that this process works on, each for as long as it is held: a later claim of the same turn, and a
/// later turn of the same task, are another matter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stops {
    known: Arc<Mutex<BTreeMap<Held, (TaskId, Stop)>>>,
    added: Arc<Notify>,
}

/// A turn, and the fence under which it is held.
type Held = (TurnId, u64);

fn held(lease: &Lease) -> Held {
    (lease.turn.clone(), lease.fence)
}

impl Stops {
    pub(crate) fn of(&self, lease: &Lease) -> Stop {
        let (_, stop) = self.lock().entry(held(lease)).or_insert_with(|| (lease.task.clone(), Stop::default())).clone();
        self.added.notify_one();
        stop
    }

    pub(crate) fn insert(&self, lease: &Lease, stop: Stop) {
        self.lock().insert(held(lease), (lease.task.clone(), stop));
        self.added.notify_one();
    }

    pub(crate) fn forget(&self, lease: &Lease) {
        self.lock().remove(&held(lease));
    }

    pub(crate) fn request(&self, lease: &Lease, how: Stopping) {
        if let Some((_, stop)) = self.lock().get(&held(lease)) {
            stop.request_as(how);
        }
    }

    /// True when someone here works on the task.
    pub(crate) fn knows(&self, task: &TaskId) -> bool {
        self.lock().values().any(|(known, _)| known == task)
    }

    /// There is one more.
    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Held, (TaskId, Stop)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(turn: u32, fence: u64) -> Lease {
        let task = "0000000000000001".parse().unwrap();
        let session = "0000000000000002".parse().unwrap();
        Lease { task, session, turn: format!("000000000000001{turn}").parse().unwrap(), fence, rows: Rows::default() }
    }

    #[test]
    fn a_stop_is_for_one_turn_under_one_fence() {
        let stops = Stops::default();
        let (first, again, next) = (stops.of(&lease(1, 1)), stops.of(&lease(1, 3)), stops.of(&lease(2, 1)));
        stops.request(&lease(1, 1), Stopping::Cancel);
        assert!(first.is_requested() && !again.is_requested() && !next.is_requested());
        stops.forget(&lease(1, 1));
        assert!(!stops.of(&lease(1, 1)).is_requested(), "a new one");
        assert!(stops.knows(&lease(1, 1).task));
    }

    #[test]
    fn a_cancel_after_an_interrupt_is_a_cancel() {
        let interrupt = Stopping::Interrupt { author: "ada".into(), reason: None };
        let reason = |stop: &Stop, failure: Option<Failure>| {
            stop.as_wanted(failure, |failure| failure.reason == FailureReason::Agent).map(|failure| failure.reason)
        };
        let stop = Stop::default();
        assert_eq!(reason(&stop, None), None);
        stop.request_as(interrupt.clone());
        let interrupted = stop.failure();
        assert_eq!(reason(&stop, Some(interrupted.clone())), Some(FailureReason::Interrupted));
        assert_eq!(reason(&stop, None), None, "what is done is done");
        stop.request();
        assert_eq!(reason(&stop, Some(interrupted.clone())), Some(FailureReason::Cancelled));
        assert_eq!(reason(&stop, None), Some(FailureReason::Cancelled));
        let of = |reason| Some(Failure::new(reason, ""));
        assert_eq!(reason(&stop, of(FailureReason::Agent)), Some(FailureReason::Cancelled), "it is not tried again");
        assert_eq!(reason(&stop, of(FailureReason::Tests)), Some(FailureReason::Tests));
        stop.request_as(interrupt);
        assert_eq!(reason(&stop, Some(interrupted)), Some(FailureReason::Cancelled), "who is cancelled stays so");
    }
}
