//! Recurring tasks and task templates. What is in a request is the business of whoever makes tasks of it.

use harvest_core::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Schedule {
    pub id: String,
    /// Five fields: minute, hour, day of month, month, day of week.
    pub cron: String,
    pub time_zone: String,
    pub missed: MissedRuns,
    /// What to ask for each time.
    pub request: serde_json::Value,
    pub next: Option<Timestamp>,
    pub last: Option<Timestamp>,
    pub created_at: Timestamp,
}

/// What happens to runs that fell due while no one was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedRuns {
    /// Nothing: it goes on with the next one.
    Skip,
    /// One run for all of them.
    #[default]
    RunOnce,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Template {
    pub name: String,
    /// Text with `{{ parameter }}`.
    pub prompt: String,
    /// Options of the tasks made from it.
    pub options: serde_json::Value,
    pub created_at: Timestamp,
}
