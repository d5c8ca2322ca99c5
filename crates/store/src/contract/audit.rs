//! The audit log: a chain in which each entry carries the digest of the one before it. Whoever changes, removes or inserts one
//! breaks all that follow.

use harvest_core::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What someone did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAudit {
    pub at: Timestamp,
    /// `user:NAME`, `token:ID`, …
    pub actor: String,
    /// `task.create`, `token.revoke`, …
    pub action: String,
    /// What it was done to.
    pub target: String,
    pub project: Option<String>,
    /// More about it; never a secret.
    pub detail: serde_json::Value,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// 1, 2, 3 … without gaps.
    pub number: u64,
    pub at: Timestamp,
    pub actor: String,
    pub action: String,
    pub target: String,
    pub project: Option<String>,
    pub detail: serde_json::Value,
    /// The digest of the entry before; of the first, [`AuditEntry::ROOT`].
    pub previous: String,
    pub digest: String,
}

#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    pub after: u64,
    pub limit: usize,
    pub actor: Option<String>,
    pub action: Option<String>,
    /// Only what concerns these projects.
    pub projects: Option<Vec<String>>,
}

/// Where a chain is broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokenChain {
    #[error("entry {expected} is missing: entry {found} is in its place")]
    Gap { expected: u64, found: u64 },
    #[error("entry {number} does not follow the one before it: an entry was changed, removed or inserted")]
    Torn { number: u64 },
    #[error("entry {number} was changed after it was written")]
    Changed { number: u64 },
}

impl AuditEntry {
    pub const ROOT: &str = "0000000000000000000000000000000000000000000000000000000000000000";

    pub(crate) fn following(last: Option<(u64, String)>, new: &NewAudit) -> Self {
        let (number, previous) =
            last.map_or_else(|| (1, Self::ROOT.to_owned()), |(number, digest)| (number + 1, digest));
        let NewAudit { at, actor, action, target, project, detail } = new.clone();
        let mut entry = Self { number, at, actor, action, target, project, detail, previous, digest: String::new() };
        entry.digest = entry.computed();
        entry
    }

    /// Each field with its length, so that no two entries are the same bytes.
    fn computed(&self) -> String {
        let mut hash = Sha256::new();
        let (number, at, detail) = (self.number.to_string(), self.at.to_string(), self.detail.to_string());
        let project = self.project.as_deref().map_or_else(|| "-".to_owned(), |project| format!("+{project}"));
        for part in [&self.previous, &number, &at, &self.actor, &self.action, &self.target, &project, &detail] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether this entry is as it was written and follows the last one.
    pub fn check(&self, last: Option<&Self>) -> Result<(), BrokenChain> {
        let expected = last.map_or(1, |last| last.number + 1);
        if self.number != expected {
            return Err(BrokenChain::Gap { expected, found: self.number });
        }
        if self.previous != last.map_or(Self::ROOT, |last| &last.digest) {
            return Err(BrokenChain::Torn { number: self.number });
        }
        if self.digest != self.computed() {
            return Err(BrokenChain::Changed { number: self.number });
        }
        Ok(())
    }
}
