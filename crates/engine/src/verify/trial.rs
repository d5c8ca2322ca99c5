//! One run of a test command before any task depends on it, in a sandbox like those that verify results.

use std::time::Duration;

use harvest_core::OwnerId;
use harvest_core::repository::Place;
use harvest_workspace::{Mirror, Snapshot, script};

use super::report::{Counts, bounded_names, read_counts, sentence};
use super::{
    SCRIPT_LIMIT, TEST_ENVIRONMENT, TEST_LIMIT, command, compare, exit_code, hint, repository_name, telling_lines,
};
use crate::place::millis;
use crate::prepare::{self, Outcome, Workshop};
use crate::{Engine, Error, Stop};

/// For the commands of a trial together; the sandbox ends by itself then.
const WALL: Duration = Duration::from_secs(15 * 60);

/// The outcome of a test command that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// `None`: it was killed.
    pub exit_code: Option<i32>,
    pub timed_out: bool,
    pub passed: Option<u64>,
    pub failed: Option<u64>,
    pub skipped: Option<u64>,
    /// What could not be loaded or failed as a whole, in a sentence: its tests are not known.
    pub unloaded: Option<String>,
    /// Nothing passed, and only files and modules failed that could not be loaded.
    loaded_none: bool,
    pub duration_ms: u64,
    /// The last lines that it printed.
    pub output: String,
    /// Why it could not run, and the way out, where that is known.
    pub hint: Option<String>,
    /// Why its exit code proves nothing, and the way out.
    pub proves_nothing: Option<&'static str>,
}

impl Trial {
    /// Whether it ran tests, whatever their outcome.
    pub fn ran_tests(&self) -> bool {
        !self.loaded_none && self.passed.unwrap_or(0) + self.failed.unwrap_or(0) > 0
    }
}

impl Engine {
    /// Runs a test command at a commit, with the dependencies that sessions of this repository start with. `None` when it was
    /// stopped.
    pub async fn try_tests(
        &self,
        owner: &OwnerId,
        source: &str,
        mirror: &Mirror,
        commit: &str,
        command: &str,
        stop: &Stop,
    ) -> Result<Option<Trial>, Error> {
        let (snapshot, _) = self.snapshot_for(mirror, commit).await?;
        let mut workshop = Workshop::record(self, owner).await?;
        let ran = run(&mut workshop, source, mirror, commit, &snapshot, command, stop).await;
        workshop.leave().await?;
        let Some(Outcome { ran, trouble }) = ran? else { return Ok(None) };
        let printed = self.options.redactor.redact(&ran.tail).into_owned();
        let counts = read_counts(&printed);
        let Counts { passed, failed, skipped } = counts;
        let names = bounded_names(&printed, ran.is_whole, &ran.workspace);
        let hidden = if passed.is_none() { exit_code::hidden(command) } else { None };
        let hint = match (trouble, ran.exit_code) {
            (Some(trouble), _) => Some(trouble.to_string()),
            (None, Some(code)) => {
                hint::find(code, &printed, &self.surroundings(source, mirror.files(commit).await?).await?)
                    .map(|hint| hint.text)
            }
            (None, None) => None,
        };
        Ok(Some(Trial {
            exit_code: ran.exit_code,
            timed_out: ran.timed_out,
            passed,
            failed,
            skipped,
            unloaded: sentence(&names.failed),
            loaded_none: compare::loads_nothing(counts, &names),
            duration_ms: millis(ran.duration),
            output: telling_lines(&printed),
            hint,
            proves_nothing: hidden.map(exit_code::Hidden::explain),
        }))
    }

    /// What advice about a missing tool depends on. `files` are those of the base.
    pub(super) async fn surroundings(&self, source: &str, files: Vec<String>) -> Result<hint::Surroundings, Error> {
        let deleted = Vec::new();
        let options = &self.options;
        let place = Place::of(source);
        let known = options.store.repositories().await?.into_iter().find(|known| Place::of(&known.source) == place);
        let on_host = options.toolchain.programs.is_some();
        let Some(known) = known else {
            let name = repository_name(source);
            let prepare =
                format!("harvest repo add {} --name {name} && harvest repo build {name}", command::quoted(source));
            return Ok(hint::Surroundings { prepare, build_failed: false, on_host, files, deleted });
        };
        let prepare = format!("harvest repo build {}", known.name);
        let last = prepare::standing(&options.data, &known).last;
        let build_failed = last.is_some_and(|last| last.error.or(last.build_error).is_some());
        Ok(hint::Surroundings { prepare, build_failed, on_host, files, deleted })
    }
}

async fn run(
    workshop: &mut Workshop,
    source: &str,
    mirror: &Mirror,
    commit: &str,
    snapshot: &Snapshot,
    command: &str,
    stop: &Stop,
) -> Result<Option<Outcome>, Error> {
    workshop.open_on(source, mirror, snapshot, WALL).await?;
    if snapshot.manifest().is_some() {
        let settled = workshop.run(&script::settle(), &[("BASE", commit)], SCRIPT_LIMIT, stop, |_| {}).await?;
        if !settled.as_ref().is_some_and(|settled| settled.ran.succeeded()) {
            return Ok(settled);
        }
    }
    workshop.run(command, &TEST_ENVIRONMENT, TEST_LIMIT, stop, |_| {}).await
}
