//! Where spares lie: looked into by turns, filled by the one that makes them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Demand, Key, Seed, Spare};

/// How the spares are used, since the process began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    pub hits: u64,
    pub misses: u64,
    pub made: u64,
    /// Removed without having been used.
    pub expired: u64,
    /// What making one took, on average.
    pub making_ms: u64,
    /// How long those that were used had waited, on average.
    pub waited_ms: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Shelf {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Someone makes spares.
    is_open: bool,
    spares: Vec<Spare>,
    demand: Demand,
    stats: Stats,
    making: Duration,
    waited: Duration,
}

impl Shelf {
    /// The spare for a task, which is nobody else's from now on. Whether there is one or not, it is known what was wanted.
    pub(super) fn claim(&self, seed: Seed, key: &Key) -> Option<Spare> {
        let mut state = self.state();
        state.demand.note(seed, Instant::now());
        let spare = state.take(key).filter(Spare::is_alive);
        match &spare {
            Some(spare) => {
                state.stats.hits += 1;
                state.waited += spare.age();
            }
            None => state.stats.misses += 1,
        }
        drop(state);
        self.reconsider();
        spare
    }

    pub(super) fn expect(&self, seed: Seed, age: Duration) {
        let now = Instant::now();
        self.state().demand.note(seed, now.checked_sub(age).unwrap_or(now));
    }

    pub(super) fn expected(&self) -> Vec<(Seed, usize)> {
        let state = self.state();
        let making = state.making.checked_div(u32::try_from(state.stats.made).unwrap_or(u32::MAX)).unwrap_or_default();
        state.demand.expected(Instant::now(), making)
    }

    pub(super) fn is_open(&self) -> bool {
        self.state().is_open
    }

    pub(super) fn open(&self) {
        self.state().is_open = true;
    }

    /// Hands out all that is there; nothing is put here or claimed any more.
    pub(super) fn close(&self) -> Vec<Spare> {
        let mut state = self.state();
        state.is_open = false;
        std::mem::take(&mut state.spares)
    }

    pub(super) fn put(&self, spare: Spare, took: Duration) {
        let mut state = self.state();
        state.stats.made += 1;
        state.making += took;
        state.spares.push(spare);
    }

    /// To be removed.
    pub(super) fn take(&self, key: &Key) -> Option<Spare> {
        let mut state = self.state();
        let spare = state.take(key);
        state.stats.expired += u64::from(spare.is_some());
        spare
    }

    /// Those that have waited for too long, or died.
    pub(super) fn take_stale(&self, idle: Duration) -> Vec<Spare> {
        let mut state = self.state();
        let is_stale = |spare: &mut Spare| spare.age() >= idle || !spare.is_alive();
        let stale: Vec<Spare> = state.spares.extract_if(.., is_stale).collect();
        state.stats.expired += stale.len() as u64;
        stale
    }

    /// Notes whether a task in the queue wants such a spare.
    pub(super) fn promise(&self, key: &Key, waits: bool) {
        if let Some(spare) = self.state().spares.iter_mut().find(|spare| spare.key == *key) {
            (spare.promised, spare.claiming) = (waits, None);
        }
    }

    /// Whether the task that such a spare was promised to has left the queue a moment ago.
    pub(super) fn is_about_to_be_claimed(&self, key: &Key) -> bool {
        let mut state = self.state();
        let Some(spare) = state.spares.iter_mut().find(|spare| spare.key == *key) else { return false };
        if std::mem::take(&mut spare.promised) {
            spare.claiming = Some(Instant::now());
        }
        spare.claiming.is_some_and(|since| since.elapsed() < super::CLAIMING)
    }

    pub(super) fn seeds(&self) -> Vec<(Seed, Key)> {
        self.state().spares.iter().map(|spare| (spare.seed.clone(), spare.key.clone())).collect()
    }

    /// When the next one has waited for too long.
    pub(super) fn earliest(&self, idle: Duration) -> Option<Instant> {
        self.state().spares.iter().map(|spare| spare.made + idle).min()
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn reconsider(&self) {
        self.changed.notify_one();
    }

    pub(super) fn stats(&self) -> Stats {
        let state = self.state();
        let average = |sum: Duration, count: u64| crate::place::millis(sum) / count.max(1);
        Stats {
            making_ms: average(state.making, state.stats.made),
            waited_ms: average(state.waited, state.stats.hits),
            ..state.stats
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The oldest.
    fn take(&mut self, key: &Key) -> Option<Spare> {
        let position = self.spares.iter().position(|spare| spare.key == *key)?;
        Some(self.spares.remove(position))
    }
}
