//! What a forge tells by webhook, in words that are the same for every forge.

use harvest_core::Timestamp;

/// Something happened at a repository that Harvest may have to act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    /// The repository as [`crate::Forge::name`] has it.
    pub repository: String,
    /// Who did it.
    pub by: String,
    /// When, by the forge's clock; `None` where the forge does not say.
    pub at: Option<Timestamp>,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// An issue was given to Harvest: by its label, or by assigning it.
    Asked { issue: Place },
    /// Harvest was spoken to.
    Mentioned { place: Place, comment: u64, text: String },
    /// Harvest was asked for a review.
    ReviewAsked { pull: Place },
    /// A pull request is over.
    Closed { pull: Place, merged: bool },
    /// A check of a commit failed.
    CheckFailed { commit: String, name: String, pulls: Vec<Checked> },
    /// Someone has reviewed.
    Reviewed { pull: Place, review: u64, verdict: Verdict, text: String },
    /// A branch has moved.
    Pushed { branch: String, commit: String, is_default: bool },
}

/// An issue or a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub number: u64,
    /// Where people look at it.
    pub url: String,
    pub title: String,
    pub text: String,
    /// Who opened it.
    pub author: String,
    pub is_pull_request: bool,
}

/// A pull request that a check is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    pub number: u64,
    /// Where people look at it, as the forge spells it.
    pub url: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Approved,
    Commented,
    ChangesRequested,
}
