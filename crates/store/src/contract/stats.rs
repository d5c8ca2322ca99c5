//! What became of tasks, in sums that are kept up to date rather than computed.

use harvest_core::Cost;

/// What the sums are by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatKey {
    /// The day a task ended, in UTC.
    Day,
    Repository,
    Agent,
    Model,
    Person,
}

impl StatKey {
    pub(crate) fn column(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Repository => "repository",
            Self::Agent => "agent",
            Self::Model => "model",
            Self::Person => "person",
        }
    }
}

#[derive(Debug, Clone)]
pub struct StatQuery {
    pub by: StatKey,
    /// The first and the last day, `2026-01-31`.
    pub from: String,
    pub to: String,
    /// Only of these repositories.
    pub among: Option<Vec<String>>,
}

/// Tasks that have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stat {
    pub key: String,
    pub completed: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Those that left a branch.
    pub delivered: u64,
    pub cost: Cost,
    /// From being asked to their end, all together.
    pub time_ms: u64,
    /// Those that took part in a race, and those of them that won it.
    pub races: u64,
    pub wins: u64,
}
