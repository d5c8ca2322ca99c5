//! Quotas: what a person, a token, a team or a project may have under way and spend in a day, checked in the transaction that
//! begins the work; and the end of sessions that nobody wants to keep.

use async_trait::async_trait;
use harvest_core::{Cost, SessionId, TaskId, Timestamp, TokenId};

use crate::Error;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

#[async_trait]
pub trait Quotas {
    /// How many tasks they have under way. A task is under way for those whose turns in it have not ended.
    async fn unfinished(&self, of: &Asker) -> Result<u64, Error>;

    /// Forgets a session: its journal, turns, attempts, and the answers that told of it; with the last session of a task the
    /// task itself. Sums of costs stay, and so does the audit log.
    async fn forget_session(&self, session: &SessionId) -> Result<Forgotten, Error>;
}

/// On whose account work begins. The transaction that begins it counts and refuses, so that of any number of requests that
/// arrive together no more are accepted than the quota allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admission {
    /// The person who asks. A turn that is begun again acts for them; `None`: for the same person as before.
    pub person: Option<String>,
    /// The token that the request came with; its tasks are counted for it, and it pays for the turn.
    pub token: Option<TokenId>,
    /// The person has no role, or is a program: the task counts among those that strangers begin in a day.
    pub is_stranger: bool,
    pub limits: Vec<Limit>,
    /// The caps of the person, which a turn that is begun again counts against from then on.
    pub caps: Vec<String>,
}

/// The quota of one holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// `user ada`, as people read it.
    pub holder: String,
    pub asker: Asker,
    /// How many tasks may be under way; `None`: any number.
    pub unfinished: Option<u64>,
    /// How many tasks may be begun in a day by people without a role; `None`: any number.
    pub begun: Option<u64>,
    /// What may be spent in a day; `None`: any amount.
    pub daily: Option<Cost>,
    /// The ledger's accounts whose spending counts.
    pub accounts: Vec<String>,
}

/// Whose tasks are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asker {
    Token(TokenId),
    /// All together; the tasks with turns that act for one of them.
    People(Vec<String>),
    Repositories(Vec<String>),
    /// Of one repository, the tasks that people without a role began.
    StrangersOf(String),
}

/// A quota that leaves no room for what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuotaExceeded {
    #[error("{holder} has reached the limit for unfinished tasks: {unfinished} of {most}")]
    Unfinished { holder: String, unfinished: u64, most: u64 },
    #[error("{holder} has reached the limit for tasks per day: {begun} of {most}")]
    Begun { holder: String, begun: u64, most: u64, renewed_in_s: u64 },
    #[error("{holder} has reached the limit for spending per day: {spent} of {most}")]
    Daily { holder: String, spent: Cost, most: Cost, renewed_in_s: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forgotten {
    /// Nothing of it is left.
    Session,
    /// Its task has not ended; nothing was changed.
    Busy,
    /// A task that has not ended waits for its task; nothing was changed.
    Needed(TaskId),
}

impl Admission {
    /// Each limit once, with the number of admissions that it holds for.
    pub(crate) fn limits<'a>(all: impl Iterator<Item = &'a Self>) -> Vec<(&'a Limit, u64)> {
        let mut limits: Vec<(&Limit, u64)> = Vec::new();
        for limit in all.flat_map(|one| &one.limits) {
            match limits.iter_mut().find(|(known, _)| *known == limit) {
                Some((_, count)) => *count += 1,
                None => limits.push((limit, 1)),
            }
        }
        limits
    }
}

impl Limit {
    /// Holds the limit against the tasks under way, the `new` ones included.
    pub(crate) fn check_unfinished(&self, under_way: u64, new: u64) -> Result<(), QuotaExceeded> {
        match self.unfinished.filter(|most| under_way > *most) {
            None => Ok(()),
            Some(most) => {
                let unfinished = under_way.saturating_sub(new);
                Err(QuotaExceeded::Unfinished { holder: self.holder.clone(), unfinished, most })
            }
        }
    }

    /// Holds the limit against the tasks under way, if there are more of them than before.
    pub(crate) fn check_more(&self, before: u64, under_way: u64) -> Result<(), QuotaExceeded> {
        if under_way > before { self.check_unfinished(under_way, under_way - before) } else { Ok(()) }
    }

    /// Holds the limit against the tasks of the day, the `new` ones included.
    pub(crate) fn check_begun(&self, today: u64, new: u64, at: Timestamp) -> Result<(), QuotaExceeded> {
        match self.begun.filter(|most| today > *most) {
            None => Ok(()),
            Some(most) => {
                let (holder, begun) = (self.holder.clone(), today.saturating_sub(new));
                Err(QuotaExceeded::Begun { holder, begun, most, renewed_in_s: renewed_in_s(at) })
            }
        }
    }

    pub(crate) fn check_spent(&self, spent: Cost, at: Timestamp) -> Result<(), QuotaExceeded> {
        match self.daily.filter(|most| spent >= *most) {
            None => Ok(()),
            Some(most) => {
                Err(QuotaExceeded::Daily { holder: self.holder.clone(), spent, most, renewed_in_s: renewed_in_s(at) })
            }
        }
    }
}

/// The seconds until the next day begins.
fn renewed_in_s(at: Timestamp) -> u64 {
    let left_ms = DAY_MS - at.as_millisecond().rem_euclid(DAY_MS);
    (left_ms / 1000 + 1).unsigned_abs()
}

/// The day that something at this time is counted for, `2026-01-31`. Days are UTC's.
pub fn day_of(at: Timestamp) -> String {
    at.to_string().split('T').next().unwrap_or_default().to_owned()
}
