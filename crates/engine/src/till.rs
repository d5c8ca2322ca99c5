//! The money of all accounts that this process spends from, and who has how much of it in hand.
//!
//! What this process spends and sets aside itself is known here exactly and at once. What other processes do with the same
//! accounts is known as of the last time the store was asked, which is with every call, and before a call when that was a
//! while ago. Of two processes that take the last money at the same time, the one whose reservation is written later learns of
//! the other with the answer, and gives it back. Near the end of a shared budget that answer is waited for.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use harvest_core::Cost;
use harvest_core::budget::{Account, Decision, Purse, Range, decide, reached};
use harvest_store::Balance;
use tokio::sync::futures::Notified;

#[derive(Debug, Default)]
pub(crate) struct Till {
    purses: Mutex<HashMap<Key, Held>>,
    given_back: tokio::sync::Notify,
}

/// An account, and for how long it has this budget.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) account: Account,
    pub(crate) span: Span,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Span {
    Day(String),
    /// As long as someone works under this fence. Who comes next begins with what the store says.
    Lease(u64),
}

#[derive(Debug, Clone, Copy, Default)]
struct Held {
    limit: Cost,
    spent: Cost,
    reserved: Cost,
    spent_elsewhere: Cost,
    reserved_elsewhere: Cost,
    /// When the store was last asked about the others; never of an account that is this process's alone.
    asked: Option<Instant>,
}

/// What others do is asked for when it was not for so long.
const FRESH: Duration = Duration::from_secs(1);
/// The end of a shared budget: so much of it.
const NEAR: u64 = 5;

impl Held {
    /// Others spend from it too, and not much is left.
    fn is_near_its_end(&self) -> bool {
        let is_shared = self.spent_elsewhere + self.reserved_elsewhere > Cost::ZERO;
        is_shared && self.purse().room().nanos() < self.limit.nanos() / NEAR
    }

    fn purse(&self) -> Purse {
        Purse {
            limit: self.limit,
            spent: self.spent + self.spent_elsewhere,
            reserved: self.reserved + self.reserved_elsewhere,
        }
    }
}

/// A share of a budget that was reached, or all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) account: Account,
    /// The largest share that was reached; none once all is spent, since a warning then comes too late.
    pub(crate) percent: Option<u8>,
    pub(crate) is_spent: bool,
    pub(crate) spent: Cost,
    pub(crate) limit: Cost,
}

/// The answer to whoever wants to spend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Taken {
    Granted {
        amount: Cost,
        /// Others may have taken it already: whoever gets it should be sure before spending it.
        make_sure: bool,
    },
    /// Some of what is in the way may be another process's.
    Wait {
        elsewhere: bool,
    },
    Refused {
        account: Account,
        purse: Purse,
    },
}

impl Till {
    fn purses(&self) -> MutexGuard<'_, HashMap<Key, Held>> {
        self.purses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens an account that no other process spends from.
    pub(crate) fn open(&self, key: Key, limit: Cost, spent: Cost) {
        self.purses().insert(key, Held { limit, spent, ..Held::default() });
    }

    /// Whether it is known well enough what others have spent.
    pub(crate) fn knows(&self, key: &Key) -> bool {
        self.purses().get(key).is_some_and(|held| held.asked.is_none_or(|asked| asked.elapsed() < FRESH))
    }

    /// Takes note of what others have spent and set aside. True when `taken`, which was taken before that was known, can be
    /// kept: it still fits, or it is all that is set aside and gets what is left.
    pub(crate) fn learn(&self, limits: &[(Key, Cost)], balances: &[Balance], taken: Cost) -> bool {
        let mut purses = self.purses();
        let mut holds = true;
        for (key, limit) in limits {
            let name = key.account.to_string();
            let Some(balance) = balances.iter().find(|balance| balance.account == name) else { continue };
            if !purses.contains_key(key) {
                // Days that are over, as soon as no call of theirs is under way.
                purses.retain(|known, held| known.account != key.account || held.reserved > Cost::ZERO);
            }
            let held = purses.entry(key.clone()).or_default();
            held.limit = *limit;
            held.asked = Some(Instant::now());
            // It only grows; an answer that comes late is an old one.
            held.spent_elsewhere = held.spent_elsewhere.max(balance.spent);
            held.reserved_elsewhere = balance.reserved;
            let Purse { limit, spent, reserved } = held.purse();
            // Where no one else spends, it was decided here and still holds.
            let is_shared = balance.spent + balance.reserved > Cost::ZERO;
            let is_alone = reserved <= taken && spent < limit;
            holds &= !is_shared || is_alone || spent + reserved <= limit;
        }
        drop(purses);
        self.given_back.notify_waiters();
        holds
    }

    /// Takes from all of these accounts, or from none.
    pub(crate) fn take(&self, keys: &[Key], call: Range) -> Taken {
        let mut purses = self.purses();
        let known: Vec<Purse> = keys.iter().map(|key| purses.get(key).map(Held::purse).unwrap_or_default()).collect();
        match decide(&known, call) {
            Decision::Granted(amount) => {
                let mut make_sure = false;
                for key in keys {
                    if let Some(held) = purses.get_mut(key) {
                        held.reserved += amount;
                        make_sure |= held.is_near_its_end();
                    }
                }
                Taken::Granted { amount, make_sure }
            }
            Decision::Wait => {
                let elsewhere = |key| purses.get(key).is_some_and(|held| held.reserved_elsewhere > Cost::ZERO);
                Taken::Wait { elsewhere: keys.iter().any(elsewhere) }
            }
            Decision::Refused(place) => match (keys.get(place), known.get(place)) {
                (Some(key), Some(purse)) => Taken::Refused { account: key.account.clone(), purse: *purse },
                _ => Taken::Wait { elsewhere: false },
            },
        }
    }

    /// Makes what was taken larger, to at least `least` and at most `most`. `None` when there is not so much.
    pub(crate) fn enlarge(&self, keys: &[Key], from: Cost, least: Cost, most: Cost) -> Option<Cost> {
        let mut purses = self.purses();
        let room = keys.iter().filter_map(|key| purses.get(key)).map(|held| held.purse().room()).min()?;
        let to = most.min(from + room);
        if to < least {
            return None;
        }
        for key in keys {
            if let Some(held) = purses.get_mut(key) {
                held.reserved += to - from;
            }
        }
        Some(to)
    }

    /// Gives back what was taken, less what was spent.
    pub(crate) fn give_back(&self, keys: &[Key], taken: Cost, spent: Cost) -> Vec<Reached> {
        let mut all = Vec::new();
        {
            let mut purses = self.purses();
            for key in keys {
                let Some(held) = purses.get_mut(key) else { continue };
                let before = held.purse().spent;
                held.reserved = held.reserved - taken;
                held.spent += spent;
                let Purse { spent, limit, .. } = held.purse();
                let is_spent = spent >= limit;
                let percent = reached(limit, before, spent).max().filter(|_| !is_spent);
                if is_spent || percent.is_some() {
                    all.push(Reached { account: key.account.clone(), percent, is_spent, spent, limit });
                }
            }
        }
        self.given_back.notify_waiters();
        all
    }

    /// Returns when something was given back. Make it before looking.
    pub(crate) fn given_back(&self) -> Notified<'_> {
        self.given_back.notified()
    }

    pub(crate) fn close(&self, key: &Key) {
        self.purses().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(day: &str) -> Key {
        Key { account: Account::User("ada".into()), span: Span::Day(day.to_owned()) }
    }

    fn nanos(nanos: u64) -> Cost {
        Cost::from_nanos(nanos)
    }

    fn granted(nanos: u64) -> Taken {
        Taken::Granted { amount: Cost::from_nanos(nanos), make_sure: false }
    }

    fn call(most: u64) -> Range {
        Range { least: Cost::ZERO, most: nanos(most) }
    }

    fn elsewhere(spent: u64, reserved: u64) -> [Balance; 1] {
        [Balance { account: "user:ada".into(), spent: nanos(spent), reserved: nanos(reserved) }]
    }

    #[test]
    fn of_two_processes_the_later_one_gives_way() {
        let day = key("2026-01-02");
        let limits = [(day.clone(), nanos(100))];
        let (first, second) = (Till::default(), Till::default());
        for till in [&first, &second] {
            assert!(till.learn(&limits, &elsewhere(0, 0), Cost::ZERO));
            assert_eq!(till.take(std::slice::from_ref(&day), call(80)), granted(80));
        }
        assert!(first.learn(&limits, &elsewhere(0, 0), nanos(80)), "its reservation was written first");
        assert!(!second.learn(&limits, &elsewhere(0, 80), nanos(80)));
        second.give_back(std::slice::from_ref(&day), nanos(80), Cost::ZERO);
        assert_eq!(second.take(std::slice::from_ref(&day), call(80)), Taken::Wait { elsewhere: true });
        assert!(second.learn(&limits, &elsewhere(30, 0), Cost::ZERO));
        let rest = second.take(std::slice::from_ref(&day), call(80));
        assert_eq!(rest, Taken::Granted { amount: nanos(70), make_sure: true });
        assert!(second.learn(&limits, &elsewhere(99, 0), nanos(70)), "alone it gets what is left");
        assert!(!second.learn(&limits, &elsewhere(100, 0), nanos(70)), "but not when nothing is");
    }

    #[test]
    fn each_day_begins_anew_and_old_days_are_forgotten() {
        let till = Till::default();
        let (old, new) = (key("2026-01-02"), key("2026-01-03"));
        till.learn(&[(old.clone(), nanos(100))], &elsewhere(100, 0), Cost::ZERO);
        assert!(matches!(till.take(std::slice::from_ref(&old), call(1)), Taken::Refused { .. }));
        till.learn(&[(new.clone(), nanos(100))], &elsewhere(0, 0), Cost::ZERO);
        assert_eq!(till.take(std::slice::from_ref(&new), call(1)), granted(1));
        assert!(!till.knows(&old));
    }

    #[test]
    fn shares_are_told_once_and_the_end_is_told() {
        let till = Till::default();
        let task = key("2026-01-02");
        till.open(task.clone(), nanos(100), nanos(40));
        let keys = [task];
        assert_eq!(till.take(&keys, call(20)), granted(20));
        assert_eq!(till.give_back(&keys, nanos(20), nanos(15))[0].percent, Some(50));
        assert_eq!(till.take(&keys, call(20)), granted(20));
        assert_eq!(till.give_back(&keys, nanos(20), nanos(5)), []);
        assert_eq!(till.take(&keys, call(500)), granted(40));
        let last = till.give_back(&keys, nanos(40), nanos(60)).remove(0);
        assert_eq!((last.percent, last.is_spent, last.spent), (None, true, nanos(120)));
    }

    #[test]
    fn of_two_shares_that_are_reached_together_the_larger_is_told() {
        let till = Till::default();
        let keys = [key("2026-01-02")];
        till.open(keys[0].clone(), nanos(100), Cost::ZERO);
        till.take(&keys, call(90));
        assert_eq!(till.give_back(&keys, nanos(90), nanos(90))[0].percent, Some(80));
    }

    #[test]
    fn what_was_taken_can_grow_as_far_as_there_is_money() {
        let till = Till::default();
        till.open(key("2026-01-02"), nanos(100), Cost::ZERO);
        let keys = [key("2026-01-02")];
        till.take(&keys, call(50));
        till.take(&keys, call(30));
        assert_eq!(till.enlarge(&keys, nanos(50), nanos(60), nanos(65)), Some(nanos(65)));
        assert_eq!(till.enlarge(&keys, nanos(65), nanos(68), nanos(90)), Some(nanos(70)));
        assert_eq!(till.enlarge(&keys, nanos(70), nanos(71), nanos(90)), None);
    }
}
