//! The order in which a pool tells what happens.
//!
//! The store knows of the end of a turn, and lets the next one begin, before the task that worked on it has come back with what
//! there is to tell. A watcher reads lines in the order of the events all the same.

use std::collections::VecDeque;

use harvest_core::TurnId;

/// What is told later, in order: nothing while everything was told.
#[derive(Debug)]
pub(crate) struct Later<N> {
    lines: VecDeque<Line<N>>,
}

#[derive(Debug)]
pub(crate) enum Line<N> {
    Told(N),
    /// What comes of a turn that has ended is told here.
    EndOf(TurnId),
}

impl<N> Later<N> {
    pub(crate) fn new() -> Self {
        Self { lines: VecDeque::new() }
    }

    /// The end of a turn is told before whatever happens from now on.
    pub(crate) fn expect_end(&mut self, turn: TurnId) {
        if self.place_of(&turn).is_none() {
            self.lines.push_back(Line::EndOf(turn));
        }
    }

    /// Tells a notice after those before it.
    pub(crate) fn push(&mut self, notice: N) {
        self.lines.push_back(Line::Told(notice));
    }

    /// Makes the place of a turn's end the last one, for what comes of it; the lines after it, to be put [back](Self::rejoin).
    pub(crate) fn split_at_end(&mut self, turn: &TurnId) -> VecDeque<Line<N>> {
        let Some(place) = self.place_of(turn) else { return VecDeque::new() };
        let after = self.lines.split_off(place + 1);
        self.lines.pop_back();
        after
    }

    pub(crate) fn rejoin(&mut self, mut after: VecDeque<Line<N>>) {
        self.lines.append(&mut after);
    }

    /// Nothing will come of a turn.
    pub(crate) fn forget_end(&mut self, turn: &TurnId) {
        self.lines.retain(|line| !matches!(line, Line::EndOf(expected) if expected == turn));
    }

    /// No end is waited for any more.
    pub(crate) fn forget_ends(&mut self) {
        self.lines.retain(|line| matches!(line, Line::Told(_)));
    }

    /// The next notice, unless an end has to be told before it.
    pub(crate) fn pop(&mut self) -> Option<N> {
        match self.lines.pop_front()? {
            Line::Told(notice) => Some(notice),
            end @ Line::EndOf(_) => {
                self.lines.push_front(end);
                None
            }
        }
    }

    fn place_of(&self, turn: &TurnId) -> Option<usize> {
        self.lines.iter().position(|line| matches!(line, Line::EndOf(expected) if expected == turn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(number: u8) -> TurnId {
        format!("{number:016x}").parse().unwrap()
    }

    fn told(later: &mut Later<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| later.pop()).collect()
    }

    fn end(later: &mut Later<&'static str>, number: u8, notice: &'static str) {
        let after = later.split_at_end(&turn(number));
        later.push(notice);
        later.rejoin(after);
    }

    #[test]
    fn a_start_is_told_between_the_ends_before_and_after_it() {
        let mut later = Later::new();
        later.expect_end(turn(1));
        later.push("2 started");
        // The second has ended before the worker of the first has come back.
        later.expect_end(turn(1));
        later.expect_end(turn(2));
        later.push("3 started");
        assert_eq!(told(&mut later), [] as [&str; 0]);
        end(&mut later, 1, "1 finished");
        assert_eq!(told(&mut later), ["1 finished", "2 started"]);
        end(&mut later, 2, "2 finished");
        assert_eq!(told(&mut later), ["2 finished", "3 started"]);
    }

    #[test]
    fn workers_that_come_back_in_another_order_are_told_in_the_order_of_the_ends() {
        let mut later = Later::new();
        later.expect_end(turn(1));
        later.push("2 started");
        later.expect_end(turn(2));
        later.push("3 started");
        end(&mut later, 2, "2 finished");
        assert_eq!(told(&mut later), [] as [&str; 0]);
        end(&mut later, 1, "1 finished");
        assert_eq!(told(&mut later), ["1 finished", "2 started", "2 finished", "3 started"]);
    }

    #[test]
    fn nothing_waits_for_a_turn_of_which_nothing_will_come() {
        let mut later = Later::new();
        later.expect_end(turn(1));
        later.push("2 started");
        later.forget_end(&turn(1));
        assert_eq!(told(&mut later), ["2 started"]);
        later.expect_end(turn(2));
        later.push("3 started");
        later.forget_ends();
        assert_eq!(told(&mut later), ["3 started"]);
    }
}
