//! Recurring tasks and task templates. What is in a request is the business of whoever makes tasks of it.

use harvest_core::{Timestamp, TokenId};
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
    /// `None`: made by a Harvest that knew no owners; it runs as the person who started the server.
    pub owner: Option<ScheduleOwner>,
    /// Why the last run made no task.
    pub problem: Option<String>,
    pub created_at: Timestamp,
}

/// The person that a schedule runs as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleOwner {
    pub user: String,
    pub right: OwnerRight,
}

/// What gives an owner the right to have tasks made. It is looked at again at each run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum OwnerRight {
    /// A token, as long as it is valid.
    Token { id: TokenId },
    /// Membership in the project of the repository, or what they may as someone who is signed in.
    Person,
    /// The installation is theirs: they have used the command line or the one-time link.
    Installation,
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
