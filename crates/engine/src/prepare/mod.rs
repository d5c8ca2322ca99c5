//! Prepared snapshots: a repository is fetched, its dependencies are found and installed in a sandbox, it is built, and the
//! result is frozen for sessions to start from.
//!
//! `detect` is pure and says what a repository needs; `recipe` turns that into commands; `build` runs them in a sandbox that
//! has no model; `waiting` is for builds that another process has begun; `choose` finds the snapshot a session starts from;
//! `keeper` builds again when something has changed. The repositories are records of the store; snapshots belong to a data
//! directory, and each makes its own.

mod alert;
mod build;
mod choose;
pub mod detect;
mod keeper;
mod log;
mod pushed;
mod recipe;
mod waiting;
mod workshop;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use harvest_core::Timestamp;
use harvest_store::{Repository, Store};
use harvest_vault::Redactor;
use harvest_workspace::{Manifest, Mirror, Prepared};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use self::detect::{Detected, Files, Tool, detect, to_read};
use crate::{DataFolder, Error};

pub use keeper::Keeper;
pub use pushed::{Followed, Push};
pub(crate) use workshop::{Outcome, Workshop};

/// Snapshots of an older builder are not reused.
const VERSION: u32 = 1;
const FINGERPRINT_BYTES: usize = 8;
/// A manifest that is longer than this is not read.
const MAX_TEXT: usize = 1 << 20;
/// Folders of a prepared tree whose programs come first in its sessions.
const PROGRAMS: &[&str] = &[".harvest/bin", ".venv/bin", ".harvest/home/.local/bin", ".harvest/home/.cargo/bin"];
pub const EVERY: Duration = Duration::from_secs(30 * 60);

/// How a repository is prepared; the `settings` of its record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The key of its mirror; also where a repository that has gone had its snapshots.
    pub key: String,
    /// The branch to follow; `None`: the repository's own `HEAD`.
    pub branch: Option<String>,
    /// In place of what the repository's files say.
    pub setup: Option<String>,
    pub build: Option<String>,
    pub depth: Option<u32>,
    pub partial: bool,
    pub sparse: Vec<String>,
    pub every_secs: Option<u64>,
    /// Run on the host when a build fails, with the report as JSON on its standard input.
    pub alert: Option<String>,
}

impl Settings {
    pub fn of(repository: &Repository) -> Self {
        serde_json::from_value(repository.settings.clone()).unwrap_or_default()
    }

    pub fn every(&self) -> Duration {
        self.every_secs.map_or(EVERY, Duration::from_secs)
    }
}

/// How one build is made.
#[derive(Debug, Clone, Copy)]
pub struct Attempts {
    pub tries: u32,
    pub apart: Duration,
    /// Also when nothing has changed, and from nothing.
    pub force: bool,
    pub when_busy: WhenBusy,
}

/// What to do while another process builds the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenBusy {
    /// It is left to the other one.
    Leave,
    /// Until the other build has ended; then build what it left to do, if anything.
    Wait,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { tries: 3, apart: Duration::from_secs(5), force: false, when_busy: WhenBusy::Leave }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Fetch,
    Detect,
    Toolchain,
    Install,
    Build,
    Freeze,
}

impl Stage {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Detect => "detect",
            Self::Toolchain => "toolchain",
            Self::Install => "install",
            Self::Build => "build",
            Self::Freeze => "freeze",
        }
    }
}

/// What whoever watches a build is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Progress {
    StageStarted {
        stage: Stage,
    },
    /// A line that a command printed.
    Output {
        stage: Stage,
        text: String,
    },
    TriedAgain {
        stage: Stage,
        error: String,
        tries_left: u32,
    },
    Note {
        message: String,
    },
    /// A line of the log of the build of another process, which is waited for.
    Log {
        text: String,
    },
    StageFinished {
        stage: Stage,
        duration_ms: u64,
        error: Option<String>,
    },
}

impl Progress {
    /// The same, as it may be shown and written down.
    fn without_secrets(mut self, redactor: &Redactor) -> Self {
        let text = match &mut self {
            Self::StageStarted { .. } | Self::StageFinished { error: None, .. } => return self,
            Self::Output { text, .. } | Self::Log { text } => text,
            Self::TriedAgain { error, .. } | Self::StageFinished { error: Some(error), .. } => error,
            Self::Note { message } => message,
        };
        *text = redactor.redact(text).into_owned();
        self
    }
}

/// What came of a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub repository: String,
    pub status: Status,
    pub commit: Option<String>,
    /// Why there is no new snapshot.
    pub error: Option<String>,
    /// Why the build command failed; the snapshot is there all the same.
    pub build_error: Option<String>,
    /// The dependencies come from an earlier snapshot.
    pub reused: bool,
    pub stages: Vec<Finished>,
    pub tools: Vec<Toolset>,
    /// The commands that installed something.
    pub installed: Vec<String>,
    pub notes: Vec<String>,
    pub bytes: Option<u64>,
    pub duration_ms: u64,
    pub at: Timestamp,
}

impl Report {
    /// The same, as it may be kept and told.
    fn without_secrets(mut self, redactor: &Redactor) -> Self {
        let texts =
            self.error.iter_mut().chain(&mut self.build_error).chain(&mut self.notes).chain(&mut self.installed);
        for text in texts {
            *text = redactor.redact(text).into_owned();
        }
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Built,
    /// The newest snapshot is still right.
    Unchanged,
    /// The snapshot before, if there is one, stays in use.
    Failed,
    Stopped,
    /// Another process is building it.
    Busy,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Built => "built",
            Self::Unchanged => "unchanged",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Busy => "busy",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    pub stage: Stage,
    pub duration_ms: u64,
    pub tries: u32,
}

/// A tool, the version that was asked for, and the one that is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toolset {
    pub tool: Tool,
    pub wanted: Option<String>,
    pub from: Option<String>,
    pub used: Option<String>,
    /// It was installed for this snapshot.
    pub installed: bool,
}

/// Where a repository stands on this machine.
#[derive(Debug, Clone)]
pub struct Standing {
    pub newest: Option<Manifest>,
    pub last: Option<Report>,
    pub building: bool,
    pub next_at: Option<Timestamp>,
}

/// What is written down between builds.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    report: Report,
    next_at: Timestamp,
}

impl State {
    fn read(prepared: &Prepared, key: &str) -> Option<Self> {
        prepared.state(key).and_then(|state| serde_json::from_value(state).ok())
    }
}

/// What a commit needs, and the name for exactly that.
#[derive(Debug, Clone)]
pub(crate) struct Needs {
    pub(crate) detected: Detected,
    pub(crate) fingerprint: String,
}

/// Where the snapshots of a repository stand in this data directory.
pub fn standing(data: &DataFolder, repository: &Repository) -> Standing {
    let (prepared, key) = (Prepared::new(data.prepared()), Settings::of(repository).key);
    let state = State::read(&prepared, &key);
    Standing {
        newest: prepared.manifests(&key).into_iter().next(),
        building: prepared.is_building(&key),
        next_at: state.as_ref().map(|state| state.next_at),
        last: state.map(|state| state.report),
    }
}

/// All that the last build of a repository said, or what the one under way has said so far.
pub fn build_log(data: &DataFolder, repository: &Repository) -> Option<String> {
    let (prepared, key) = (Prepared::new(data.prepared()), Settings::of(repository).key);
    log::read(&data.prepared().join(&key), prepared.is_building(&key))
}

/// Removes the snapshots of repositories that are no longer known, as far as no session uses them. `false` when some are
/// still in use; they go with a later call.
pub async fn forget_unknown(data: &DataFolder, store: &Arc<dyn Store>) -> Result<bool, Error> {
    let known = store.repositories().await?;
    let keys: Vec<String> = known.iter().map(|repository| Settings::of(repository).key).collect();
    Ok(Prepared::new(data.prepared()).forget_all_but(&keys).await?)
}

/// What would be installed for a commit: the commands of its package managers.
pub async fn commands_for(mirror: &Mirror, commit: &str) -> Result<Vec<String>, Error> {
    let needs = needs(mirror, commit).await?;
    Ok(needs.detected.projects.into_iter().map(|project| project.install).collect())
}

/// Reads what a commit needs from its files in the mirror.
async fn needs(mirror: &Mirror, commit: &str) -> Result<Needs, Error> {
    let hashes: BTreeMap<String, String> = mirror.entries(commit).await?.into_iter().collect();
    let paths: BTreeSet<String> = hashes.keys().cloned().collect();
    let mut texts = BTreeMap::new();
    for path in to_read(&paths) {
        if let Some(content) = mirror.file(commit, &path).await?.filter(|content| content.len() <= MAX_TEXT) {
            texts.insert(path, String::from_utf8_lossy(&content).into_owned());
        }
    }
    let detected = detect(&Files { paths: &paths, texts: &texts });
    let fingerprint = fingerprint(&detected, &hashes);
    Ok(Needs { detected, fingerprint })
}

/// The lockfiles' content and the versions asked for; nothing that changes with every commit.
fn fingerprint(detected: &Detected, hashes: &BTreeMap<String, String>) -> String {
    let projects = detected.projects.iter().map(|project| {
        let known = project.inputs().filter_map(|file| Some((hashes.get(&file)?, file)));
        (&project.install, known.collect::<Vec<_>>())
    });
    let tools = detected.toolchains.iter().map(|wanted| (wanted.tool, &wanted.version));
    digest(&format!("{:?}\n{:?}", projects.collect::<Vec<_>>(), tools.collect::<Vec<_>>()))
}

/// The settings that change what a snapshot is.
fn recipe_of(settings: &Settings) -> String {
    digest(&format!("{VERSION}\n{:?}\n{:?}\n{:?}", settings.setup, settings.build, settings.sparse))
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(FINGERPRINT_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(given: &[(&str, &str)]) -> String {
        let hashes: BTreeMap<String, String> =
            given.iter().map(|(path, text)| ((*path).into(), digest(text))).collect();
        let texts = given.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let paths = hashes.keys().cloned().collect();
        fingerprint(&detect(&Files { paths: &paths, texts: &texts }), &hashes)
    }

    #[test]
    fn the_fingerprint_is_of_dependencies_alone() {
        let start = print(&[("package.json", "{}"), ("package-lock.json", "1"), ("index.js", "a")]);
        assert_eq!(
            start,
            print(&[("package.json", "{\"name\":\"x\"}"), ("package-lock.json", "1"), ("index.js", "b")])
        );
        assert_ne!(start, print(&[("package.json", "{}"), ("package-lock.json", "2"), ("index.js", "a")]));
        assert_ne!(start, print(&[("package.json", "{}"), ("package-lock.json", "1"), (".nvmrc", "20")]));
        let python = |tests| print(&[("pyproject.toml", "[project]"), ("requirements/tests.txt", tests)]);
        assert_ne!(python("pytest==8"), python("pytest==9"));
    }
}
