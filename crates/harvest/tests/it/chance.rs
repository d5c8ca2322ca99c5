//! Chance that can be repeated: a seed that is printed, and what follows from it.

use std::time::Duration;

/// xorshift: nothing here needs more than to be repeatable.
pub struct Random(u64);

impl Random {
    /// The seed that this variable names, or one of the clock.
    pub fn seeded(variable: &str) -> (Self, u64) {
        let seed = number(variable).unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            now.as_nanos() as u64
        });
        let seed = seed | 1;
        (Self(seed), seed)
    }

    pub fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }

    /// One of them; `None` of none.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        (!all.is_empty()).then(|| all[self.below(all.len() as u64) as usize])
    }
}

/// A number that whoever runs the tests has set.
pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
