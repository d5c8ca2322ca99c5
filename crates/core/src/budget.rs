//! Whether a call fits into what is left of a budget. Pure arithmetic; who keeps the numbers is another matter.
//!
//! The rule: a call is granted what it may cost at most, and granted money is gone for everyone else until the call is
//! settled. Where less is left than that, a call waits for those under way; the last one alone gets whatever remains, since a
//! budget could never be used up otherwise. So of all calls at a time at most one can cost more than it was granted.

use std::fmt;

use crate::{Cost, TaskId};

/// At these shares of a budget, in per cent, people are told.
pub const TELLING: [u8; 2] = [50, 80];

/// Why an amount is no budget, with one that would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadBudget {
    /// Nothing can be done with it: a task of such a budget would end at its first call.
    NotPositive,
    TooLarge,
}

impl fmt::Display for BadBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotPositive => "it must be more than 0, e.g. 2.50",
            Self::TooLarge => "it must be less than 1000000000",
        })
    }
}

/// The budget of so many dollars. Options, settings and the API take the same amounts.
pub fn of_dollars(dollars: f64) -> Result<Cost, BadBudget> {
    match Cost::from_dollars(dollars) {
        Some(budget) => checked(budget),
        None if dollars > 0.0 => Err(BadBudget::TooLarge),
        None => Err(BadBudget::NotPositive),
    }
}

/// An amount that was read already, if it can be a budget.
pub fn checked(budget: Cost) -> Result<Cost, BadBudget> {
    if budget > Cost::ZERO { Ok(budget) } else { Err(BadBudget::NotPositive) }
}

/// Who pays for a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Account {
    Task(TaskId),
    /// A person, for one day.
    User(String),
    /// A project, for one day.
    Project(String),
    /// A team, for one day: what all of its members spend.
    Team(String),
    /// An API token, by its id, for one day.
    Token(String),
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(id) => write!(f, "task:{id}"),
            Self::User(name) => write!(f, "user:{name}"),
            Self::Project(name) => write!(f, "project:{name}"),
            Self::Team(name) => write!(f, "team:{name}"),
            Self::Token(id) => write!(f, "token:{id}"),
        }
    }
}

/// What an account may spend, has spent, and has granted to calls under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Purse {
    pub limit: Cost,
    pub spent: Cost,
    pub reserved: Cost,
}

/// What a call may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Range {
    /// Without this much left the call makes no sense.
    pub least: Cost,
    /// The worst case that is still plausible.
    pub most: Cost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Granted(Cost),
    /// Calls under way have what this one needs. Some of it may come back.
    Wait,
    /// The purse at this place cannot pay for the call, whatever comes back.
    Refused(usize),
}

impl Purse {
    /// What no one has.
    pub fn room(&self) -> Cost {
        self.limit - self.spent - self.reserved
    }

    fn can_never_pay(&self, call: Range) -> bool {
        self.spent >= self.limit || self.spent + call.least > self.limit
    }
}

/// Decides on a call that all of these purses have to pay for.
pub fn decide(purses: &[Purse], call: Range) -> Decision {
    if let Some(place) = purses.iter().position(|purse| purse.can_never_pay(call)) {
        return Decision::Refused(place);
    }
    let room = purses.iter().map(Purse::room).min().unwrap_or(call.most);
    if call.most <= room {
        return Decision::Granted(call.most);
    }
    let others_hold_it = purses.iter().any(|purse| purse.room() < call.most && purse.reserved > Cost::ZERO);
    if others_hold_it { Decision::Wait } else { Decision::Granted(room) }
}

/// The shares of `limit` that are reached on the way from `before` to `after`.
pub fn reached(limit: Cost, before: Cost, after: Cost) -> impl Iterator<Item = u8> {
    let share = move |percent: u8| u128::from(limit.nanos()) * u128::from(percent);
    let hundred = |spent: Cost| u128::from(spent.nanos()) * 100;
    TELLING.into_iter().filter(move |percent| hundred(before) < share(*percent) && share(*percent) <= hundred(after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn purse(limit: u64, spent: u64, reserved: u64) -> Purse {
        Purse { limit: Cost::from_nanos(limit), spent: Cost::from_nanos(spent), reserved: Cost::from_nanos(reserved) }
    }

    fn call(least: u64, most: u64) -> Range {
        Range { least: Cost::from_nanos(least), most: Cost::from_nanos(most) }
    }

    fn granted(nanos: u64) -> Decision {
        Decision::Granted(Cost::from_nanos(nanos))
    }

    #[test]
    fn a_budget_is_more_than_nothing() {
        assert_eq!(of_dollars(0.001), Ok(Cost::from_nanos(1_000_000)));
        for nothing in [0.0, -0.0, 1e-12, -1.0, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(of_dollars(nothing), Err(BadBudget::NotPositive), "{nothing}");
        }
        assert_eq!(of_dollars(1e10), Err(BadBudget::TooLarge));
        assert_eq!(checked(Cost::ZERO), Err(BadBudget::NotPositive));
    }

    #[test]
    fn a_call_gets_its_worst_case_waits_or_takes_the_rest_alone() {
        assert_eq!(decide(&[purse(100, 0, 0)], call(1, 40)), granted(40));
        assert_eq!(decide(&[purse(100, 0, 80)], call(1, 40)), Decision::Wait);
        assert_eq!(decide(&[purse(100, 80, 0)], call(1, 40)), granted(20));
        assert_eq!(decide(&[purse(100, 80, 0)], call(21, 40)), Decision::Refused(0));
        assert_eq!(decide(&[purse(100, 100, 0)], call(0, 0)), Decision::Refused(0));
        assert_eq!(decide(&[purse(100, 99, 0)], call(0, 0)), granted(0));
    }

    #[test]
    fn every_purse_has_to_pay() {
        assert_eq!(decide(&[purse(100, 0, 0), purse(50, 30, 0)], call(1, 40)), granted(20));
        assert_eq!(decide(&[purse(100, 0, 0), purse(50, 30, 10)], call(1, 40)), Decision::Wait);
        assert_eq!(decide(&[purse(100, 0, 0), purse(50, 50, 0)], call(1, 40)), Decision::Refused(1));
        assert_eq!(decide(&[], call(1, 40)), granted(40));
    }

    #[test]
    fn shares_are_reached_once() {
        let at = |before, after| {
            reached(Cost::from_nanos(1000), Cost::from_nanos(before), Cost::from_nanos(after)).collect::<Vec<_>>()
        };
        assert_eq!(at(0, 499), [0u8; 0]);
        assert_eq!(at(499, 500), [50]);
        assert_eq!(at(500, 800), [80]);
        assert_eq!(at(0, 5000), [50, 80]);
        assert_eq!(at(800, 900), [0u8; 0]);
    }

    proptest! {
        /// Calls that cost no more than they were granted never spend more than there is, in whatever order they come and end.
        #[test]
        fn a_budget_holds(limit in 1u64..1000, calls in prop::collection::vec((0u64..50, 0u64..300, 0u64..100, any::<bool>()), 1..60)) {
            let mut state = purse(limit, 0, 0);
            let mut open: Vec<(Cost, u64)> = Vec::new();
            for (least, more, share, settle) in calls {
                if settle && let Some((grant, share)) = open.pop() {
                    state.reserved = state.reserved - grant;
                    state.spent += Cost::from_nanos(grant.nanos() * share / 100);
                }
                if let Decision::Granted(grant) = decide(&[state], call(least, least + more)) {
                    prop_assert!(grant.nanos() >= least.min(grant.nanos()));
                    state.reserved += grant;
                    open.push((grant, share));
                }
                prop_assert!(state.spent.nanos() + state.reserved.nanos() <= limit);
            }
        }

        /// Whoever waits does not wait for ever: with nothing under way every call is granted or refused.
        #[test]
        fn nobody_waits_for_no_one(limit in 1u64..1000, spent in 0u64..1000, least in 0u64..100, more in 0u64..1000) {
            prop_assert_ne!(decide(&[purse(limit, spent, 0)], call(least, least + more)), Decision::Wait);
        }
    }
}
