//! What one credential can take: how many calls at a time, whose turn is next, and whether it should be left alone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::Upstream;
use crate::patience::Patience;

/// Part of every [`Upstream`]; a credential that was replaced begins anew.
#[derive(Debug, Default)]
pub(super) struct Lane(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    /// Those who wait, by session. A session that got its turn goes to the end, so that one with a hundred waiting requests
    /// gets as many as one with a single request.
    waiting: VecDeque<(String, VecDeque<oneshot::Sender<Permit>>)>,
    failures: u32,
    resting_until: Option<Instant>,
}

/// A place among the calls under way. Passed on to the next when dropped.
#[derive(Debug)]
pub(super) struct Permit(Option<Arc<Upstream>>);

/// What a failure says about the credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blame {
    /// The host is in trouble; a few in a row and it is left alone.
    Host,
    /// The vendor wants this credential to wait.
    Busy(Duration),
    /// The vendor does not take it.
    Rejected,
}

/// How long one that the vendor does not take is left alone, unless it is the only one.
const REJECTED: Duration = Duration::from_secs(60);
/// Whatever a vendor asks for.
const LONGEST_REST: Duration = Duration::from_secs(300);

impl Lane {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long it is still to be left alone. Of one that has rested from failures, the first who asks may try, and the others
    /// wait for how that goes.
    pub(super) fn rest(&self, patience: &Patience) -> Option<Duration> {
        let mut state = self.state();
        let until = state.resting_until?;
        let left = until.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Some(left);
        }
        state.resting_until = (state.failures >= patience.failures).then(|| Instant::now() + patience.rest);
        None
    }

    /// How long it is still to be left alone, without asking to be the one who tries.
    pub(super) fn resting(&self) -> Option<Duration> {
        let left = self.state().resting_until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    pub(super) fn succeeded(&self) {
        let mut state = self.state();
        (state.failures, state.resting_until) = (0, None);
    }

    /// True when it is left alone from now on.
    pub(super) fn failed(&self, blame: Blame, patience: &Patience) -> bool {
        let mut state = self.state();
        let rest = match blame {
            Blame::Host => {
                state.failures = state.failures.saturating_add(1);
                (state.failures >= patience.failures).then_some(patience.rest)
            }
            Blame::Busy(wait) => Some(wait.min(LONGEST_REST)),
            Blame::Rejected => Some(REJECTED),
        };
        let was_resting = state.resting_until.is_some_and(|until| until > Instant::now());
        if let Some(rest) = rest {
            let until = Instant::now() + rest;
            state.resting_until = Some(state.resting_until.map_or(until, |before| before.max(until)));
        }
        rest.is_some() && !was_resting
    }

    /// Waits for a place among `most` calls under way.
    pub(super) async fn enter(upstream: &Arc<Upstream>, session: &str, most: Option<usize>) -> Permit {
        let Some(most) = most else { return Permit(None) };
        let place = {
            let mut state = upstream.lane().state();
            if state.under_way < most && state.waiting.is_empty() {
                state.under_way += 1;
                return Permit(Some(Arc::clone(upstream)));
            }
            let (sender, place) = oneshot::channel();
            match state.waiting.iter_mut().find(|(waiting, _)| waiting == session) {
                Some((_, queue)) => queue.push_back(sender),
                None => state.waiting.push_back((session.to_owned(), VecDeque::from([sender]))),
            }
            place
        };
        // The other end is dropped only with the upstream, which is ours.
        place.await.unwrap_or(Permit(None))
    }
}

impl State {
    fn next(&mut self) -> Option<oneshot::Sender<Permit>> {
        let (session, mut queue) = self.waiting.pop_front()?;
        let next = queue.pop_front();
        if !queue.is_empty() {
            self.waiting.push_back((session, queue));
        }
        next
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(upstream) = self.0.take() else { return };
        loop {
            let next = {
                let mut state = upstream.lane().state();
                match state.next() {
                    Some(next) => next,
                    None => {
                        state.under_way = state.under_way.saturating_sub(1);
                        return;
                    }
                }
            };
            match next.send(Self(Some(Arc::clone(&upstream)))) {
                Ok(()) => return,
                // Gone meanwhile. The place is still ours to give.
                Err(mut unwanted) => unwanted.0 = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn upstream() -> Arc<Upstream> {
        let key = secrecy::SecretString::from("k".to_owned());
        Arc::new(Upstream::new("openai", "id", Some("http://127.0.0.1:1"), &key).unwrap())
    }

    #[tokio::test]
    async fn sessions_take_turns_whatever_they_ask_for() {
        let upstream = upstream();
        let mut held = Lane::enter(&upstream, "greedy", Some(1)).await;
        let mut waiting = Vec::new();
        for (session, count) in [("greedy", 3), ("modest", 2), ("third", 1)] {
            for _ in 0..count {
                let mut entering = Box::pin(Lane::enter(&upstream, session, Some(1)));
                assert!((&mut entering).now_or_never().is_none());
                waiting.push((session, entering));
            }
        }
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(held);
            let ready = waiting.iter_mut().enumerate().find_map(|(place, (_, entering))| {
                let permit = entering.now_or_never()?;
                Some((place, permit))
            });
            let (place, permit) = ready.unwrap();
            order.push(waiting.remove(place).0);
            held = permit;
        }
        drop(held);
        assert_eq!(order, ["greedy", "modest", "third", "greedy", "modest", "greedy"]);
        assert_eq!(upstream.lane().state().under_way, 0);
    }

    #[tokio::test]
    async fn a_place_is_not_lost_with_whoever_waited_for_it() {
        let upstream = upstream();
        let held = Lane::enter(&upstream, "a", Some(1)).await;
        let mut gone = Box::pin(Lane::enter(&upstream, "b", Some(1)));
        assert!((&mut gone).now_or_never().is_none());
        let mut late = Box::pin(Lane::enter(&upstream, "c", Some(1)));
        assert!((&mut late).now_or_never().is_none());
        drop(gone);
        drop(held);
        assert!(late.await.0.is_some());
        assert_eq!(upstream.lane().state().under_way, 0);
    }

    #[test]
    fn a_few_failures_in_a_row_are_a_rest_and_one_tries_afterwards() {
        let patience = Patience { failures: 2, rest: Duration::from_millis(20), ..Patience::default() };
        let lane = Lane::default();
        assert!(!lane.failed(Blame::Host, &patience) && lane.rest(&patience).is_none());
        lane.succeeded();
        assert!(!lane.failed(Blame::Host, &patience), "not in a row");
        assert!(lane.failed(Blame::Host, &patience));
        assert!(lane.rest(&patience).is_some());
        std::thread::sleep(patience.rest);
        assert!(lane.rest(&patience).is_none(), "one may try");
        assert!(lane.rest(&patience).is_some(), "and only one");
        lane.succeeded();
        assert!(lane.rest(&patience).is_none());
    }

    #[test]
    fn a_vendor_that_wants_to_be_left_alone_is() {
        let (lane, patience) = (Lane::default(), Patience::default());
        assert!(lane.failed(Blame::Busy(Duration::from_secs(9000)), &patience));
        assert!(lane.rest(&patience).is_some_and(|rest| rest <= LONGEST_REST));
    }
}
