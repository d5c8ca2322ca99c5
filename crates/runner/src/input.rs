//! The standard input of a process that is given more than one thing to read.
//!
//! What was given waits here until the process reads it, up to a bound; the link never waits for a process.

use std::cell::RefCell;
use std::collections::VecDeque;

use tokio::sync::Notify;

/// How much may wait, beside what is being written.
const MOST_WAITING: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub struct Input {
    state: RefCell<State>,
    more: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<String>,
    /// Offsets count bytes, and closing as one more.
    accepted: u64,
    taken: u64,
    closing: bool,
    /// Why nothing more is taken.
    refused: Option<String>,
    untold: bool,
}

impl Input {
    /// Takes in what begins at `offset`. A repeated order is answered again and not obeyed twice.
    pub fn give(&self, offset: u64, text: String, close: bool) {
        let mut state = self.state.borrow_mut();
        state.untold = true;
        let end = offset + text.len() as u64 + u64::from(close);
        if state.refused.is_some() || end <= state.accepted {
            return;
        }
        let waiting: usize = state.waiting.iter().map(String::len).sum();
        if state.closing || offset != state.accepted {
            state.refused = Some("its input does not continue there".to_owned());
        } else if waiting > 0 && waiting + text.len() > MOST_WAITING {
            state.refused = Some(format!("it does not read its input, of which {waiting} bytes are waiting"));
        } else {
            state.accepted = end;
            state.closing = close;
            if !text.is_empty() {
                state.waiting.push_back(text);
            }
        }
        drop(state);
        self.more.notify_one();
    }

    /// Nothing more is taken, for the first reason given. Told only to who gives something: others may not know of input.
    pub fn refuse(&self, why: &str) {
        let mut state = self.state.borrow_mut();
        state.untold |= state.taken < state.accepted;
        state.waiting.clear();
        state.refused.get_or_insert_with(|| why.to_owned());
    }

    /// What to write next; `None` when that was all.
    pub async fn next(&self) -> Option<String> {
        loop {
            {
                let mut state = self.state.borrow_mut();
                if let Some(text) = state.waiting.pop_front() {
                    return Some(text);
                }
                if state.closing {
                    state.taken = state.accepted;
                    state.untold = true;
                    return None;
                }
                if state.refused.is_some() {
                    return None;
                }
            }
            self.more.notified().await;
        }
    }

    /// The process has this much more to read.
    pub fn took(&self, bytes: usize) {
        let mut state = self.state.borrow_mut();
        state.taken += bytes as u64;
        state.untold = true;
    }

    /// How far it was taken, and why it is not any more, when that has to be told.
    pub fn due(&self) -> Option<(u64, Option<String>)> {
        let mut state = self.state.borrow_mut();
        std::mem::take(&mut state.untold).then(|| (state.taken, state.refused.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(size: usize) -> String {
        "x".repeat(size)
    }

    #[tokio::test]
    async fn a_repeated_order_is_obeyed_once_and_answered_again() {
        let input = Input::default();
        input.give(0, "ab".to_owned(), false);
        input.give(0, "ab".to_owned(), false);
        assert_eq!(input.next().await.as_deref(), Some("ab"));
        input.took(2);
        assert_eq!(input.due(), Some((2, None)));
        assert_eq!(input.due(), None);
        input.give(0, "ab".to_owned(), false);
        assert_eq!(input.due(), Some((2, None)));
        input.give(2, String::new(), true);
        assert_eq!(input.next().await, None);
        assert_eq!(input.due(), Some((3, None)));
    }

    #[tokio::test]
    async fn what_waits_is_bounded_and_a_gap_is_refused() {
        let input = Input::default();
        input.give(0, text(MOST_WAITING), false);
        input.give(MOST_WAITING as u64, text(1), false);
        let (taken, why) = input.due().unwrap();
        assert_eq!(taken, 0);
        assert!(why.unwrap().contains("does not read its input"));
        let input = Input::default();
        input.give(5, text(1), false);
        assert!(input.due().unwrap().1.is_some());
        assert_eq!(input.next().await, None);
    }
}
