//! How much memory bodies may take before it is known who sent them: a signature can be checked over a whole body alone.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Of all bodies at once: eight of the largest that GitHub sends.
const MOST_BYTES: usize = 200 << 20;
/// Of one address, so that a stranger leaves room for GitHub.
const MOST_OF_AN_ADDRESS: usize = 50 << 20;

/// The bytes of the bodies that are being received.
#[derive(Debug, Default)]
pub struct Intake(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    all: usize,
    by_address: HashMap<String, usize>,
}

/// The bytes of one body; they are given back when it is dropped.
#[derive(Debug)]
pub struct Share<'intake> {
    intake: &'intake Intake,
    address: String,
    bytes: usize,
}

impl Intake {
    pub fn of(&self, address: String) -> Share<'_> {
        Share { intake: self, address, bytes: 0 }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share<'_> {
    /// Takes more bytes, if there is room for them.
    pub fn take(&mut self, bytes: usize) -> bool {
        let mut held = self.intake.held();
        let own = held.by_address.get(&self.address).copied().unwrap_or_default();
        if held.all + bytes > MOST_BYTES || own + bytes > MOST_OF_AN_ADDRESS {
            return false;
        }
        held.all += bytes;
        held.by_address.insert(self.address.clone(), own + bytes);
        self.bytes += bytes;
        true
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut held = self.intake.held();
        held.all -= self.bytes;
        let left = held.by_address.get(&self.address).copied().unwrap_or_default().saturating_sub(self.bytes);
        if left == 0 {
            held.by_address.remove(&self.address);
        } else {
            held.by_address.insert(self.address.clone(), left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_room_for_others_and_what_is_dropped_is_given_back() {
        let intake = Intake::default();
        let mut first = intake.of("a".to_owned());
        assert!(first.take(MOST_OF_AN_ADDRESS));
        let mut second = intake.of("a".to_owned());
        assert!(!second.take(1));
        let others: Vec<_> = ["b", "c", "d"]
            .map(|address| {
                let mut share = intake.of(address.to_owned());
                assert!(share.take(MOST_OF_AN_ADDRESS));
                share
            })
            .into();
        assert!(!intake.of("e".to_owned()).take(1), "all of it is taken");
        drop(first);
        assert!(second.take(1));
        drop((second, others));
        let held = intake.held();
        assert_eq!((held.all, held.by_address.len()), (0, 0));
    }
}
