//! All that this GitHub knows.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Exchange;

#[derive(Debug, Default)]
pub(super) struct World {
    /// By `owner/name`.
    pub(super) repositories: BTreeMap<String, Repository>,
    /// Of installations, by what they are.
    pub(super) tokens: HashMap<String, Grant>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) refusals: VecDeque<(u16, Vec<(String, String)>)>,
    /// So many requests fail.
    pub(super) outage: usize,
    /// Requests whose answers are lost, by method and end of the path.
    pub(super) lost_answers: Vec<(String, String)>,
    last_id: u64,
}

/// What outlives a restart. Tokens do not: whoever has one asks for another.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Saved {
    last_id: u64,
    repositories: BTreeMap<String, Repository>,
}

impl World {
    /// The one that was saved there, or a new one.
    pub(super) fn load(file: &Path) -> std::io::Result<Self> {
        let text = match std::fs::read(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let Saved { last_id, repositories } = serde_json::from_slice(&text)?;
        Ok(Self { last_id, repositories, ..Self::default() })
    }

    /// Writes it as a whole or not at all.
    pub(super) fn save(&self, file: &Path) -> std::io::Result<()> {
        let saved = Saved { last_id: self.last_id, repositories: self.repositories.clone() };
        let unfinished = file.with_extension("new");
        std::fs::write(&unfinished, serde_json::to_vec(&saved)?)?;
        std::fs::rename(unfinished, file)
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        1_000_000 + self.last_id
    }
}

#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub(super) repositories: Vec<String>,
    pub(super) permissions: BTreeMap<String, String>,
    pub(super) expires: harvest_core::Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Repository {
    pub(super) id: u64,
    pub(super) owner: String,
    pub(super) name: String,
    pub(super) branch: String,
    pub(super) created: String,
    pub(super) writers: BTreeSet<String>,
    #[serde(default)]
    pub(super) archived: bool,
    /// Issues and pull requests, by their numbers.
    pub(super) threads: BTreeMap<u64, Thread>,
    pub(super) comments: Vec<Comment>,
    pub(super) checks: Vec<Check>,
    pub(super) reviews: Vec<Review>,
}

impl Repository {
    pub(super) fn next_number(&self) -> u64 {
        self.threads.keys().next_back().map_or(1, |last| last + 1)
    }

    pub(super) fn may_write(&self, login: &str) -> bool {
        login == self.owner || self.writers.contains(login)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Thread {
    pub(super) id: u64,
    pub(super) number: u64,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) author: String,
    pub(super) open: bool,
    pub(super) labels: Vec<String>,
    pub(super) assignees: Vec<String>,
    pub(super) created: String,
    pub(super) updated: String,
    pub(super) closed: Option<String>,
    pub(super) pull: Option<Pull>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Pull {
    pub(super) head: String,
    pub(super) base: String,
    /// The commits that both are at.
    pub(super) head_sha: String,
    pub(super) base_sha: String,
    pub(super) draft: bool,
    pub(super) merged: Option<(String, String, String)>,
    pub(super) reviewers: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Comment {
    pub(super) id: u64,
    pub(super) thread: u64,
    pub(super) author: String,
    pub(super) body: String,
    pub(super) created: String,
    pub(super) updated: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Check {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) commit: String,
    pub(super) status: String,
    pub(super) conclusion: Option<String>,
    pub(super) title: Option<String>,
    pub(super) summary: Option<String>,
    pub(super) text: Option<String>,
    pub(super) started: String,
    pub(super) completed: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Review {
    pub(super) id: u64,
    pub(super) thread: u64,
    pub(super) author: String,
    pub(super) body: String,
    pub(super) state: String,
    pub(super) commit: String,
    pub(super) submitted: String,
    pub(super) remarks: Vec<Remark>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Remark {
    pub(super) id: u64,
    pub(super) path: String,
    pub(super) line: u64,
    pub(super) body: String,
}
