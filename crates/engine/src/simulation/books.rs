//! The books of the simulation: what a store promises, in memory, and the weather that its callers have.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use harvest_core::{OwnerId, SessionId, TaskId, Timestamp, TurnId};
use harvest_store::{Error, Lease, Rows};
use tokio::sync::watch;

/// How much an agent has to do.
pub(super) const STEPS: u32 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    Claimed,
    Waiting,
    Done,
}

/// What is written in a turn's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    Claimed,
    Step(u32),
    Executed,
    Delivered,
    Retried,
    Ended,
}

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) state: State,
    pub(super) fence: u64,
    pub(super) owner: Option<OwnerId>,
    pub(super) until: Timestamp,
    pub(super) due: Timestamp,
    pub(super) journal: Vec<Entry>,
    /// How often its branch has moved outside.
    pub(super) moved: u32,
}

impl Row {
    /// What happened since the last try failed.
    pub(super) fn of_this_try(&self) -> &[Entry] {
        let begun = self.journal.iter().rposition(|entry| *entry == Entry::Retried).map_or(0, |last| last + 1);
        &self.journal[begun..]
    }

    pub(super) fn has(&self, wanted: Entry) -> bool {
        self.of_this_try().contains(&wanted)
    }

    /// How far its agent's output is written down.
    pub(super) fn steps(&self) -> u32 {
        let steps = self.of_this_try().iter().filter_map(|entry| match entry {
            Entry::Step(number) => Some(*number),
            _ => None,
        });
        steps.max().unwrap_or(0)
    }
}

/// A sandbox with an agent in it, which works whoever watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Agent {
    pub(super) number: u64,
    pub(super) turn: TurnId,
    pub(super) owner: OwnerId,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Books {
    pub(super) turns: BTreeMap<TurnId, Row>,
    pub(super) agents: Vec<Agent>,
    /// Every owner that has not been cleared up after, and whether it lives.
    pub(super) owners: BTreeMap<OwnerId, bool>,
    pub(super) made: u64,
}

impl Books {
    pub(super) fn lease(&self, turn: &TurnId) -> Lease {
        let fence = self.turns.get(turn).map_or(0, |row| row.fence);
        Lease { task: task_of(turn), session: session_of(turn), turn: turn.clone(), fence, rows: Rows::default() }
    }

    /// What every write begins with.
    pub(super) fn held(&mut self, lease: &Lease) -> Result<&mut Row, Error> {
        let stale = || Error::StaleLease { turn: lease.turn.to_string(), held: lease.fence };
        let row = self.turns.get_mut(&lease.turn).ok_or_else(stale)?;
        if row.fence != lease.fence || row.state != State::Claimed { Err(stale()) } else { Ok(row) }
    }

    /// Gives turns to another, or to nobody; whoever had them can write nothing any more.
    pub(super) fn hand_over(&mut self, turns: &[TurnId], heir: Option<&OwnerId>) -> Vec<Lease> {
        for turn in turns {
            let Some(row) = self.turns.get_mut(turn) else { continue };
            row.fence += 1;
            row.owner = heir.cloned();
            row.state = if heir.is_some() { State::Claimed } else { State::Ready };
        }
        turns.iter().map(|turn| self.lease(turn)).collect()
    }

    pub(super) fn claimed_by(&self, owner: &OwnerId) -> Vec<TurnId> {
        let theirs = |row: &Row| row.state == State::Claimed && row.owner.as_ref() == Some(owner);
        self.turns.iter().filter(|(_, row)| theirs(row)).map(|(turn, _)| turn.clone()).collect()
    }

    /// What must hold when all is over.
    pub(super) fn check(&self) -> Result<(), String> {
        for (turn, row) in &self.turns {
            let count = |wanted: Entry| row.journal.iter().filter(|entry| **entry == wanted).count();
            let steps: Vec<u32> = row
                .of_this_try()
                .iter()
                .filter_map(|entry| if let Entry::Step(number) = entry { Some(*number) } else { None })
                .collect();
            let is_gapless = steps.iter().zip(1..).all(|(step, number)| *step == number);
            let last = row.journal.last();
            let is_well = row.state == State::Done
                && count(Entry::Ended) == 1
                && last == Some(&Entry::Ended)
                && row.has(Entry::Executed)
                && row.has(Entry::Delivered)
                && row.of_this_try().iter().filter(|entry| **entry == Entry::Executed).count() == 1
                && is_gapless
                && row.moved == 1;
            if !is_well {
                return Err(format!("turn {turn} did not end as it should: {row:#?}"));
            }
        }
        match (self.agents.as_slice(), self.owners.values().filter(|lives| **lives).count()) {
            ([], 0) => Ok(()),
            (left, _) => Err(format!("left behind: {left:?}, owners {:?}", self.owners)),
        }
    }
}

pub(super) fn task_of(turn: &TurnId) -> TaskId {
    turn.as_str().parse().unwrap()
}

pub(super) fn session_of(turn: &TurnId) -> SessionId {
    turn.as_str().parse().unwrap()
}

pub(super) fn turn_of(session: &SessionId) -> TurnId {
    session.as_str().parse().unwrap()
}

/// Everything that processes share.
#[derive(Debug)]
pub(super) struct World {
    books: Mutex<Books>,
    chance: Mutex<u64>,
    pub(super) wake: watch::Sender<u64>,
    pub(super) begun: tokio::time::Instant,
    pub(super) is_away: AtomicBool,
    pub(super) is_calm: AtomicBool,
}

impl World {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let world = Self {
            books: Mutex::default(),
            chance: Mutex::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            wake: watch::channel(0).0,
            begun: tokio::time::Instant::now(),
            is_away: AtomicBool::new(false),
            is_calm: AtomicBool::new(false),
        };
        let turns = 2 + world.below(6);
        for number in 1..=turns {
            let row = Row {
                state: State::Ready,
                fence: 0,
                owner: None,
                until: Timestamp::UNIX_EPOCH,
                due: Timestamp::UNIX_EPOCH,
                journal: Vec::new(),
                moved: 0,
            };
            world.books().turns.insert(format!("{number:016}").parse().unwrap(), row);
        }
        Arc::new(world)
    }

    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn below(&self, most: u64) -> u64 {
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        *chance ^= *chance << 13;
        *chance ^= *chance >> 7;
        *chance ^= *chance << 17;
        *chance % most
    }

    /// One in so many, while things go wrong.
    pub(super) fn bad_luck(&self, one_in: u64) -> bool {
        !self.is_calm.load(Ordering::Relaxed) && self.below(one_in) == 0
    }

    pub(super) fn lose_a_sandbox(&self) {
        let number = self.below(64) as usize;
        let mut books = self.books();
        if !books.agents.is_empty() {
            let number = number % books.agents.len();
            books.agents.remove(number);
        }
    }
}
