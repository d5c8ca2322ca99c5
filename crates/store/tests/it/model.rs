//! The queue, said as simply as possible: what each turn is doing, and nothing about how it is found.

use std::collections::{BTreeMap, BTreeSet};

use harvest_core::{TaskId, TaskStatus, Timestamp, TurnId};
use harvest_store::{Lease, NewTask};

pub const CAPS: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone, PartialEq)]
pub enum State {
    Blocked,
    /// Ready, or parked when a cap says so; which of the two is checked, not predicted.
    Available,
    Waiting {
        due: Timestamp,
    },
    Claimed {
        owner: usize,
        fence: u64,
        until: Option<Timestamp>,
        is_running: bool,
    },
    /// No one holds it, and a person has to say how it continues.
    Held(Held),
    Done(TaskStatus),
}

/// What a held turn waits for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Held {
    Decision,
    Resumption,
}

/// The result of a move by someone with a lease, which the state of the turn decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expected {
    Done,
    StaleLease,
    IllegalMove,
}

#[derive(Debug)]
pub struct Entry {
    pub new: NewTask,
    /// Its prompts in their order, each with when it came and which it was of all turns.
    pub turns: Vec<(TurnId, Timestamp, usize)>,
    /// The turn that `state` is about; those behind it wait for it.
    pub current: usize,
    /// What it still waits for.
    pub unsatisfied: Vec<TaskId>,
    /// How often it has ended.
    pub ends: usize,
    pub state: State,
    /// The largest fencing number seen of the current turn.
    pub fence: u64,
    /// The largest fencing number of each turn that was ever claimed.
    fences: BTreeMap<usize, u64>,
    /// Follow-ups that were cancelled before anyone worked on them.
    pub withdrawn: BTreeSet<usize>,
    /// How it had ended before its current follow-up or retry, and after how many tries.
    former: Option<(TaskStatus, u32)>,
    /// The fencing number of the turn when it was last to be tried again; `None` for a follow-up.
    retried_at: Option<u64>,
    pub tries: u32,
    pub retries_left: u32,
}

#[derive(Debug, Default)]
pub struct Model {
    pub tasks: Vec<Entry>,
    turns: usize,
    pub caps: [Option<u32>; CAPS.len()],
    /// Every lease ever handed out, with its task.
    pub leases: Vec<(Lease, usize)>,
}

impl Model {
    pub fn add(&mut self, new: NewTask) {
        let (retries_left, doomed) = (new.retries, self.is_doomed(&new));
        let completed = |id: &TaskId| self.find(id).state == State::Done(TaskStatus::Completed);
        let unsatisfied = new.after.iter().filter(|id| !completed(id)).cloned().collect();
        let turns = vec![(new.turn.clone(), new.at, self.turns)];
        self.turns += 1;
        let state = State::Blocked;
        self.tasks.push(Entry {
            new,
            turns,
            current: 0,
            unsatisfied,
            ends: 0,
            state,
            fence: 0,
            fences: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            former: None,
            retried_at: None,
            tries: 0,
            retries_left,
        });
        let place = self.tasks.len() - 1;
        self.settle(place);
        if doomed {
            self.cancel(place);
        }
    }

    fn is_doomed(&self, new: &NewTask) -> bool {
        let failed =
            |id: &TaskId| matches!(self.find(id).state, State::Done(TaskStatus::Failed | TaskStatus::Cancelled));
        new.on_failed_dependency == harvest_core::OnFailedDependency::Cancel && new.after.iter().any(failed)
    }

    fn find(&self, id: &TaskId) -> &Entry {
        self.tasks.iter().find(|entry| entry.new.id == *id).expect("a known task")
    }

    pub fn place(&self, id: &TaskId) -> usize {
        self.tasks.iter().position(|entry| entry.new.id == *id).expect("a known task")
    }

    /// No one holds it: it waits for others, or not.
    fn settle(&mut self, place: usize) {
        let waits = !self.tasks[place].unsatisfied.is_empty();
        self.tasks[place].state = if waits { State::Blocked } else { State::Available };
    }

    pub fn holds(&self, lease: &Lease, place: usize) -> bool {
        let entry = &self.tasks[place];
        let current = entry.turns[entry.current].0 == lease.turn;
        current && matches!(entry.state, State::Claimed { fence, .. } if fence == lease.fence)
    }

    pub fn prompt(&mut self, place: usize, turn: TurnId, at: Timestamp) {
        self.tasks[place].turns.push((turn, at, self.turns));
        self.turns += 1;
        if matches!(self.tasks[place].state, State::Done(_)) {
            self.go_on(place);
        }
    }

    /// Whether there was a prompt in line.
    fn go_on(&mut self, place: usize) -> bool {
        let entry = &mut self.tasks[place];
        let next = (entry.current + 1..entry.turns.len()).find(|turn| !entry.withdrawn.contains(turn));
        let (Some(next), State::Done(status)) = (next, &entry.state) else { return false };
        entry.former = Some((*status, entry.tries));
        entry.retried_at = None;
        entry.tries = 0;
        entry.current = next;
        entry.fence = 0;
        self.settle(place);
        true
    }

    pub fn claimed(&mut self, lease: &Lease, owner: usize, until: Option<Timestamp>) {
        let place = self.place(&lease.task);
        let entry = &mut self.tasks[place];
        assert_eq!(entry.state, State::Available, "only what is available is handed out");
        assert_eq!(entry.turns[entry.current].0, lease.turn, "prompts are worked on in their order");
        assert!(lease.fence > entry.fence, "fencing numbers grow");
        entry.fence = lease.fence;
        entry.fences.insert(entry.current, lease.fence);
        entry.tries += 1;
        entry.state = State::Claimed { owner, fence: lease.fence, until, is_running: false };
        self.leases.push((lease.clone(), place));
    }

    /// The turn is held by another worker from now on, in the state in which it was.
    pub fn taken_over(&mut self, lease: Lease, heir: usize) {
        let place = self.place(&lease.task);
        let entry = &mut self.tasks[place];
        assert!(lease.fence > entry.fence, "fencing numbers grow");
        let State::Claimed { is_running, .. } = entry.state else { panic!("only a claimed turn is taken over") };
        entry.fence = lease.fence;
        entry.state = State::Claimed { owner: heir, fence: lease.fence, until: None, is_running };
        self.leases.push((lease, place));
    }

    /// What comes of a move that is legal only while the agent runs, or only before.
    pub fn expect(&self, lease: &Lease, place: usize, while_running: bool) -> Expected {
        match self.tasks[place].state {
            State::Claimed { is_running, .. } if self.holds(lease, place) => {
                if is_running == while_running {
                    Expected::Done
                } else {
                    Expected::IllegalMove
                }
            }
            _ => Expected::StaleLease,
        }
    }

    pub fn start(&mut self, place: usize) {
        if let State::Claimed { is_running, .. } = &mut self.tasks[place].state {
            *is_running = true;
        }
    }

    pub fn hold(&mut self, place: usize, held: Held) {
        self.tasks[place].state = State::Held(held);
    }

    /// Whether the turn was waiting for that. It is no new try to continue.
    pub fn let_go(&mut self, place: usize, held: Held) -> bool {
        let was_held = self.tasks[place].state == State::Held(held);
        if was_held {
            self.tasks[place].tries = 0;
            self.settle(place);
        }
        was_held
    }

    /// Whether there was anything to reject.
    pub fn reject(&mut self, place: usize) -> bool {
        self.tasks[place].state == State::Held(Held::Decision) && self.cancel(place)
    }

    pub fn finish(&mut self, place: usize, status: TaskStatus) {
        self.tasks[place].state = State::Done(status);
        self.tasks[place].ends += 1;
        if !self.go_on(place) {
            self.tell_followers(place, status);
        }
    }

    fn tell_followers(&mut self, place: usize, status: TaskStatus) {
        if status == TaskStatus::Completed {
            let id = self.tasks[place].new.id.clone();
            for other in 0..self.tasks.len() {
                self.tasks[other].unsatisfied.retain(|after| *after != id);
                if self.tasks[other].state == State::Blocked {
                    self.settle(other);
                }
            }
        } else {
            self.take_followers_along(place);
        }
    }

    pub fn wait(&mut self, place: usize, due: Timestamp) {
        let entry = &mut self.tasks[place];
        entry.retries_left = entry.retries_left.saturating_sub(1);
        entry.state = State::Waiting { due };
    }

    /// Whether there was anything to cancel.
    pub fn cancel(&mut self, place: usize) -> bool {
        let entry = &mut self.tasks[place];
        let unbegun = matches!(entry.state, State::Blocked | State::Available)
            && entry.fence == entry.retried_at.unwrap_or_default();
        if let Some((status, tries)) = entry.former.filter(|_| unbegun) {
            let first = if entry.retried_at.is_some() { entry.current + 1 } else { entry.current };
            entry.withdrawn.extend(first..entry.turns.len());
            entry.current = entry.turns.len() - 1;
            entry.former = None;
            entry.tries = tries;
            entry.state = State::Done(status);
            entry.ends += 1;
            self.tell_followers(place, status);
            return true;
        }
        self.cancel_task(place)
    }

    fn cancel_task(&mut self, place: usize) -> bool {
        let waiting = matches!(
            self.tasks[place].state,
            State::Blocked | State::Available | State::Waiting { .. } | State::Held(_)
        );
        if waiting {
            self.tasks[place].state = State::Done(TaskStatus::Cancelled);
            self.tasks[place].ends += 1;
            self.take_followers_along(place);
        }
        waiting
    }

    fn take_followers_along(&mut self, place: usize) {
        let id = self.tasks[place].new.id.clone();
        for other in 0..self.tasks.len() {
            let Entry { new, unsatisfied, .. } = &self.tasks[other];
            if new.on_failed_dependency == harvest_core::OnFailedDependency::Cancel && unsatisfied.contains(&id) {
                self.cancel_task(other);
            }
        }
    }

    /// Whether it may be tried again.
    pub fn retry(&mut self, place: usize) -> bool {
        let ended = matches!(self.tasks[place].state, State::Done(TaskStatus::Failed | TaskStatus::Cancelled));
        if ended {
            let entry = &mut self.tasks[place];
            let done = (0..entry.turns.len()).filter(|turn| *turn <= entry.current || entry.withdrawn.contains(turn));
            let last = done.max_by_key(|turn| (entry.fences.contains_key(turn), *turn));
            entry.current = last.expect("a task that ended has a turn that is done");
            entry.withdrawn.remove(&entry.current);
            entry.fence = entry.fences.get(&entry.current).copied().unwrap_or(0);
            let State::Done(status) = entry.state else { return false };
            entry.former = Some((status, entry.tries));
            entry.retried_at = Some(entry.fence);
            self.settle(place);
        }
        ended
    }

    pub fn reclaim(&mut self, now: Timestamp) -> (usize, usize) {
        let (mut expired, mut due) = (0, 0);
        for place in 0..self.tasks.len() {
            match self.tasks[place].state {
                State::Claimed { until: Some(until), .. } if until < now => {
                    self.tasks[place].state = State::Available;
                    expired += 1;
                }
                State::Waiting { due: at } if at <= now => {
                    self.settle(place);
                    due += 1;
                }
                _ => {}
            }
        }
        (expired, due)
    }

    pub fn held_by(&self, of: usize) -> Vec<usize> {
        let held = |entry: &Entry| matches!(entry.state, State::Claimed { owner, .. } if owner == of);
        (0..self.tasks.len()).filter(|place| held(&self.tasks[*place])).collect()
    }
}
