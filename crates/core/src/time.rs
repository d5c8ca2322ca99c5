//! Time comes in through a trait, so that tests and the simulation decide what "now" is.

pub use jiff::Timestamp;

/// Says what time it is.
pub trait Clock: Send + Sync + std::fmt::Debug {
    fn now(&self) -> Timestamp;
}
