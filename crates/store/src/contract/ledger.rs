//! Money set aside for calls under way, and what accounts have spent.

use harvest_core::{CallId, Cost, OwnerId, Usage};
use serde::Serialize;

/// Set aside for a call before it goes out. Whatever is still there when its turn is claimed anew was under way when a
/// process died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    pub call: CallId,
    /// The process that makes the call.
    pub owner: OwnerId,
    pub bill: Bill,
    pub provider: String,
    pub model: String,
    pub amount: Cost,
}

/// For whom a call is counted, beside its task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bill {
    /// `user:NAME`, `project:NAME`.
    pub accounts: Vec<String>,
    /// `2026-01-31`; a call that goes on past midnight counts for the day it began.
    pub day: String,
}

/// The end of a call: what was set aside for it is free again, and what it cost is counted, both or neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    pub call: CallId,
    /// `None` for a call that never reached a model.
    pub charge: Option<Charge>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    pub owner: OwnerId,
    pub bill: Bill,
    pub usage: Usage,
    pub cost: Cost,
}

/// What everyone but the one who asks has spent of an account on a day, and has set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    pub account: String,
    pub spent: Cost,
    pub reserved: Cost,
}

/// What an account has spent on a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Spending {
    pub account: String,
    pub calls: u64,
    #[serde(flatten)]
    pub usage: Usage,
    pub cost_usd: Cost,
    /// Set aside for calls under way.
    pub reserved_usd: Cost,
}
