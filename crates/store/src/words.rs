//! The reasons that tasks are given when they end without a worker. `end.sql` has the same words for PostgreSQL.

/// The reason of a task on which no agent has worked.
pub(crate) const UNSTARTED: &str = "cancelled before it started";

/// The reason of a task whose turn has work that nobody delivered.
pub(crate) fn with_work(why: &str) -> String {
    let why = if why == UNSTARTED { "cancelled before it continued" } else { why };
    format!("{why}; its work so far was not delivered")
}
