//! "Done" is proved: the tests run again in clean sandboxes, at the result and at the base, and the outcome is evidence.
//!
//! The command and whatever it is made of come from the base commit or the project, never from what the agent produced.

mod command;
mod command_files;
mod compare;
mod exit_code;
mod failure_lines;
mod guard;
mod hint;
mod report;
mod trial;

use std::collections::BTreeSet;
use std::time::Duration;

use harvest_core::{
    Baseline, EventBody, Evidence, FailureReason, FileChange, Flag, MissingNames, SandboxPurpose, TestChanges, TestRun,
    TestVerdict,
};
use harvest_workspace::{Change, script};
use sha2::{Digest, Sha256};

pub use command::find_test_command;
pub use report::{Counts, read_counts};
pub use trial::Trial;

use crate::error::Halt;
use crate::meter::NoModel;
use crate::place::{Place, Ran, millis};
use crate::turn::Turn;
use crate::{Error, Failure, Stop, failpoint};

const TEST_LIMIT: Duration = Duration::from_secs(10 * 60);
const SCRIPT_LIMIT: Duration = Duration::from_secs(120);
/// So many sandboxes may be lost under the tests before that is their end.
const MOST_SANDBOXES: usize = 4;
/// What git says when the disk is full.
const NO_ROOM: [&str; 2] = ["No space left on device", "Out of diskspace"];
const TAIL_SHOWN: usize = 8 * 1024;
/// Of what the tests printed, in the evidence itself.
const LAST_LINES: usize = 20;
const LAST_BYTES: usize = 2 * 1024;
/// pytest names each test only when it is told to. npm waits a minute between its requests to a registry that cannot be
/// reached: where tests run, nobody waits for packages.
const TEST_ENVIRONMENT: [(&str, &str); 4] = [
    ("CI", "true"),
    ("PYTEST_ADDOPTS", "-v"),
    ("npm_config_fetch_retry_mintimeout", "500"),
    ("npm_config_fetch_retry_maxtimeout", "2000"),
];
/// What to set where the tests fail as they did before.
const ACCEPT: &str = "set `accept_unchanged = true` in harvest.toml to accept such work";
/// What a shell reports for a program that was killed or ran out of time.
const TIMED_OUT: i32 = 124;
const KILLED: i32 = 137;

/// Which versions of the test command's files run at the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandFilesOf {
    Base,
    Result,
}

/// What one run at the result comes to, beside the run at the base.
struct Assessment {
    flags: Vec<Flag>,
    tests: TestChanges,
    hint: Option<hint::Hint>,
    verdict: TestVerdict,
}

impl Turn {
    /// Runs the tests at `commit` and at the base, side by side. `None` when there is no test command.
    pub(crate) async fn verify(&self, commit: &str) -> Result<Option<Evidence>, Halt> {
        failpoint::reach("verify::before")?;
        let Some(command) = self.task.settings.test.as_deref() else {
            let hint = "no test command was found, so the result is unverified; name one with --test";
            self.journal.warn(hint).await?;
            return Ok(None);
        };
        let changes = self.repository.changes(&self.task.base, commit).await?;
        let files = command_files::find(&self.mirror, &self.task.base, command).await?;
        let guard = guard::Guard::new(&files, &changes, &self.emptied(commit, &files, &changes).await?);
        let give_up = Stop::default();
        let of_base = CommandFilesOf::Base;
        let (result, baseline) = tokio::join!(
            self.test(SandboxPurpose::Verify, command, commit, (&guard, of_base), &give_up),
            self.test(SandboxPurpose::Baseline, command, &self.task.base, (&guard, of_base), &give_up),
        );
        let (mut result, baseline) = match (result, baseline) {
            (Ok(result), Ok(baseline)) => (result, baseline),
            (Err(Some(halt)), _) | (_, Err(Some(halt))) => return Err(halt),
            (Err(None), _) | (_, Err(None)) => return Err(self.stopped().into()),
        };
        let mut surroundings =
            self.engine.surroundings(&self.task.repository, self.mirror.files(&self.task.base).await?).await?;
        let deleted = changes.iter().filter(|change| change.change == FileChange::Deleted);
        surroundings.deleted = deleted.map(|change| change.path.clone()).collect();
        let mut assessment = self.assess(&guard, &baseline, &result, &surroundings);
        let may_complete = assessment.verdict == TestVerdict::Unchanged && self.task.settings.accept_unchanged;
        if may_complete && guard.changes_command() {
            // The base's versions of the command's files ran. Nothing may be lost with those that are delivered.
            let run =
                self.test(SandboxPurpose::Verify, command, commit, (&guard, CommandFilesOf::Result), &give_up).await;
            let delivered = match run {
                Ok(delivered) => delivered,
                Err(Some(halt)) => return Err(halt),
                Err(None) => return Err(self.stopped().into()),
            };
            let mut own = self.assess(&guard, &baseline, &delivered, &surroundings);
            own.verdict = compare::verdict_as_delivered(own.verdict, &own.tests, &assessment.tests);
            if own.verdict != TestVerdict::Unchanged {
                // The base's versions were not used in this run.
                own.flags.retain(|flag| *flag != Flag::TestCommandChanged);
                self.journal.tell_once(EventBody::Warning { message: told_as_delivered(&delivered) }).await?;
                (result, assessment) = (delivered, own);
            }
        }
        let Assessment { flags, tests, hint, verdict } = assessment;
        let verdict = match verdict {
            TestVerdict::Failed
                if changes.is_empty() && compare::loads_nothing(compare::counts(&result), &result.names) =>
            {
                TestVerdict::CannotRun
            }
            // The same files were tested twice, so what fails also fails at the base, whether it is named or not.
            TestVerdict::Failed if changes.is_empty() && baseline.exit_code != 0 => TestVerdict::Unchanged,
            TestVerdict::Doubtful if changes.is_empty() && baseline.failed > Some(0) => TestVerdict::Unchanged,
            verdict => verdict,
        };
        let output = match verdict {
            TestVerdict::Verified => String::new(),
            _ => telling_lines(&result.output_tail),
        };
        let evidence = Evidence {
            commit: commit.to_owned(),
            tree: self.repository.tree(commit).await?,
            command: command.to_owned(),
            exit_code: result.exit_code,
            passed: result.passed,
            failed: result.failed,
            skipped: result.skipped,
            duration_ms: result.duration_ms,
            environment: self.environment_digest(),
            baseline: Baseline {
                exit_code: baseline.exit_code,
                passed: baseline.passed,
                failed: baseline.failed,
                skipped: baseline.skipped,
            },
            flags,
            changed: guard.changed(),
            verdict: Some(verdict),
            tests,
            output,
            hint: hint.map(|hint| hint.text),
        };
        failpoint::reach("verify::after")?;
        Ok(Some(evidence))
    }

    /// Holds a run at the result against the run at the base.
    fn assess(
        &self,
        guard: &guard::Guard,
        baseline: &TestRun,
        result: &TestRun,
        surroundings: &hint::Surroundings,
    ) -> Assessment {
        let mut flags = guard.flags(result, baseline);
        if !self.engine.options.provider.capabilities().isolated {
            flags.push(Flag::NotIsolated);
        }
        let tests = compare::compare(baseline, result);
        // First, so that the words of the verdict name the tests.
        if !tests.vanished.is_empty() {
            flags.insert(0, Flag::TestsVanished);
        }
        // Where the command runs at the base, a program that is missing at the result is a fault of the work.
        let hint = hint::find(result.exit_code, &result.output_tail, surroundings)
            .filter(|hint| !hint.of_command || baseline.exit_code != 0);
        let cannot_run = hint.as_ref().is_some_and(|hint| hint.cannot_run);
        let verdict = compare::verdict(baseline, result, &tests, &flags, cannot_run);
        Assessment { flags, tests, hint, verdict }
    }

    /// Modified files of the tests and of their command that the result has emptied.
    async fn emptied(
        &self,
        commit: &str,
        files: &command_files::CommandFiles,
        changes: &[Change],
    ) -> Result<BTreeSet<String>, Error> {
        let mut emptied = BTreeSet::new();
        let matters = |path: &str| files.contains(path) || guard::is_test(path);
        let modified = changes.iter().filter(|change| change.change == FileChange::Modified && matters(&change.path));
        for Change { path, .. } in modified {
            let Some(content) = self.repository.file(commit, path).await? else { continue };
            let base = self.mirror.file(&self.task.base, path).await?;
            if guard::was_emptied(base.as_deref(), &content) {
                emptied.insert(path.clone());
            }
        }
        Ok(emptied)
    }

    /// Whether the evidence lets the task complete.
    pub(crate) async fn judge(&self, commit: &str, evidence: Option<&Evidence>) -> Result<Option<Failure>, Error> {
        // A task that changes nothing is not to blame for a base whose tests fail. In a race it would win by being idle.
        let base_fails = evidence.is_some_and(|evidence| match evidence.verdict() {
            TestVerdict::Unchanged | TestVerdict::Doubtful => true,
            TestVerdict::CannotRun => evidence.baseline.exit_code != 0 && !self.task.settings.require_tests,
            _ => false,
        });
        if base_fails && self.race().is_none() && self.repository.changes(&self.task.base, commit).await?.is_empty() {
            return Ok(None);
        }
        Ok(self.judge_work(evidence))
    }

    fn judge_work(&self, evidence: Option<&Evidence>) -> Option<Failure> {
        let failed = |message| Some(Failure::new(FailureReason::Tests, message));
        match evidence {
            None if self.task.settings.require_tests => {
                failed("no test command was found, and tests are required".to_owned())
            }
            None => None,
            Some(evidence) => match evidence.verdict() {
                TestVerdict::Verified => None,
                TestVerdict::Unchanged if self.task.settings.accept_unchanged => None,
                TestVerdict::NoTests if self.task.settings.require_tests => {
                    failed(format!("`{}` ran no tests, and tests are required", evidence.command))
                }
                TestVerdict::NoTests => None,
                TestVerdict::Unchanged => {
                    let fails = match evidence.exit_code {
                        0 => "ends with exit code 0, but the same tests fail at the result and at the base",
                        _ => "fails at the result as it does at the base",
                    };
                    let way = match (&evidence.hint, evidence.changed.command_files()) {
                        // Work that a known cause kept from being tested is not to be accepted for that.
                        (Some(hint), _) => hint.clone(),
                        (None, Some(_)) => format!("{ACCEPT} if it also holds as delivered"),
                        (None, None) => ACCEPT.to_owned(),
                    };
                    failed(format!("`{}` {fails}{}; {way}", evidence.command, about_changed_command(evidence)))
                }
                TestVerdict::CannotRun | TestVerdict::Failed => failed(format!(
                    "`{}` ended with exit code {} at the result{}{}{}",
                    evidence.command,
                    evidence.exit_code,
                    about_changed_command(evidence),
                    about_unloaded(&evidence.tests),
                    evidence.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default()
                )),
                TestVerdict::Doubtful => {
                    let mut why: Vec<&str> =
                        evidence.flags.iter().filter(|flag| flag.disqualifies()).map(|flag| flag.explain()).collect();
                    let fails = evidence.failed.unwrap_or(0) > 0 || !evidence.tests.still_failing.is_empty();
                    let hidden = exit_code::hidden(&evidence.command).filter(|_| evidence.passed.is_none());
                    let none_ran = (evidence.passed, evidence.failed) == (Some(0), Some(0));
                    if why.is_empty() && none_ran {
                        why.push("no test ran");
                    } else if why.is_empty() && fails {
                        why.push("tests fail although the command ends with exit code 0");
                    } else if let Some(hidden) = hidden.filter(|_| why.is_empty()) {
                        why.push(hidden.explain());
                    } else if why.is_empty() {
                        why.push("tests that failed at the base are missing");
                    }
                    failed(format!("the test command passes but proves nothing: {}", why.join("; ")))
                }
            },
        }
    }

    /// Runs the tests once. The sandbox is never left half made or running, so nothing here is dropped midway; when one of
    /// two runs fails or is stopped the other gives up. `None` is for a run that was given up.
    async fn test(
        &self,
        purpose: SandboxPurpose,
        command: &str,
        commit: &str,
        (guard, files): (&guard::Guard, CommandFilesOf),
        give_up: &Stop,
    ) -> Result<TestRun, Option<Halt>> {
        let result = async {
            // A worker that died since may have come this far.
            if files == CommandFilesOf::Base
                && let Some(before) = self.journal.tested(purpose, commit, command).await?
            {
                return Ok(Some(before));
            }
            for _ in 0..MOST_SANDBOXES {
                if self.stop.is_requested() || give_up.is_requested() {
                    return Ok(None);
                }
                let place = self.place(purpose, std::sync::Arc::new(NoModel)).await?;
                let result = tokio::select! {
                    result = self.test_in(&place, command, commit, (guard, files)) => result.map(Some),
                    () = self.stop.requested() => Ok(None),
                    () = give_up.requested() => Ok(None),
                };
                // What ends now may have lost its gateway, and says nothing about the result.
                let result = match result {
                    Err(Halt::Turn(_)) if self.stop.is_requested() || give_up.is_requested() => Ok(None),
                    result => result,
                };
                // A sandbox that goes away has nothing to say about the tests in it.
                let is_lost = match &result {
                    Ok(ran) => ran.as_ref().is_some_and(|ran| ran.is_lost),
                    Err(Halt::Turn(_)) => !place.sandbox.is_alive(),
                    Err(Halt::Engine(_)) => false,
                };
                if !matches!(result, Err(Halt::Engine(_))) {
                    self.leave(place).await?;
                }
                if is_lost {
                    continue;
                }
                return match result? {
                    Some(ran) => {
                        let run = self.test_run(purpose, command, commit, &ran);
                        // The journal has one run for the result: the one that a next worker begins with.
                        if files == CommandFilesOf::Base {
                            self.journal.write(vec![EventBody::TestsFinished(run.clone())]).await?;
                        }
                        Ok(Some(run))
                    }
                    None => Ok(None),
                };
            }
            let message = format!("{MOST_SANDBOXES} sandboxes were lost one after the other while the tests ran");
            Err(Failure::new(FailureReason::Sandbox, message).into())
        };
        let result = result.await.map_err(Some).and_then(|run| run.ok_or(None));
        if result.is_err() {
            give_up.request();
        }
        result
    }

    fn test_run(&self, purpose: SandboxPurpose, command: &str, commit: &str, ran: &Ran) -> TestRun {
        // The evidence is made of this and goes to places that no journal guards, such as a pull request.
        let printed = self.journal.clean(&ran.tail);
        let Counts { passed, failed, skipped } = read_counts(&printed);
        let exit_code = match ran.exit_code {
            Some(code) => code,
            None if ran.timed_out => TIMED_OUT,
            None => KILLED,
        };
        let mut names = report::bounded_names(&printed, ran.is_whole, &ran.workspace);
        if exit_code != 0 && report::has_unnamed_failure(&printed) {
            names.cut = true;
            names.missing.get_or_insert(MissingNames::UnnamedFailure);
        }
        TestRun {
            purpose,
            commit: commit.to_owned(),
            command: command.to_owned(),
            exit_code,
            passed,
            failed,
            skipped,
            timed_out: ran.timed_out,
            duration_ms: millis(ran.duration),
            output_tail: failure_lines::tail(&printed, TAIL_SHOWN),
            names,
        }
    }

    async fn test_in(
        &self,
        place: &Place,
        command: &str,
        commit: &str,
        (guard, files): (&guard::Guard, CommandFilesOf),
    ) -> Result<Ran, Halt> {
        self.settle(place).await?;
        if commit != self.task.base {
            let remote = Self::remote(place);
            let (restore, remove) = match files {
                CommandFilesOf::Base => (guard.restore().join("\n"), guard.remove().join("\n")),
                CommandFilesOf::Result => (String::new(), String::new()),
            };
            let env = [
                ("REMOTE", remote.as_str()),
                ("COMMIT", commit),
                ("BASE", &self.task.base),
                ("RESTORE", &restore),
                ("REMOVE", &remove),
            ];
            let ran = self.run(place, "check-out", &script::check_out(), &env, SCRIPT_LIMIT).await?;
            if ran.is_lost {
                return Ok(ran);
            }
            if !ran.succeeded() {
                let message = format!("the result could not be checked out for its tests: {}", ran.last_line());
                // That says nothing about the result, and passes.
                if NO_ROOM.iter().any(|words| ran.tail.contains(words)) {
                    let (path, source) = (message, std::io::ErrorKind::StorageFull.into());
                    return Err(Halt::Engine(Error::Io { action: "test the result:", path, source }));
                }
                return Err(Failure::new(FailureReason::Sandbox, message).into());
            }
        }
        let ran = self.run(place, "tests", command, &TEST_ENVIRONMENT, TEST_LIMIT).await?;
        let has_own_files = commit == self.task.base || files == CommandFilesOf::Result;
        if has_own_files || !guard.changes_command() || !ran.succeeded() {
            return Ok(ran);
        }
        // With the base's files the work is proved; what is delivered must pass with its own files as well.
        let env = [("COMMIT", commit)];
        let reset = self.run(place, "as-delivered", &script::as_delivered(), &env, SCRIPT_LIMIT).await?;
        if reset.is_lost {
            return Ok(reset);
        }
        if !reset.succeeded() {
            let message = format!("the result could not be checked out as delivered: {}", reset.last_line());
            return Err(Failure::new(FailureReason::Sandbox, message).into());
        }
        let delivered = self.run(place, "tests-delivered", command, &TEST_ENVIRONMENT, TEST_LIMIT).await?;
        // Nor may its own files run fewer tests, or none.
        let executed = |ran: &Ran| read_counts(&ran.tail).executed();
        let is_proof = delivered.succeeded() && executed(&delivered) >= executed(&ran);
        Ok(if is_proof { ran } else { delivered })
    }

    /// The same digest means that the tests ran in the same kind of place.
    fn environment_digest(&self) -> String {
        let options = &self.engine.options;
        let system = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        let facts = format!(
            "harvest {}\nprovider {}\npath {}\nenv {:?}\ndependencies {:?}\n{system}",
            env!("CARGO_PKG_VERSION"),
            options.provider.name(),
            options.toolchain.path,
            options.toolchain.env,
            self.snapshot.manifest().map(|manifest| (&manifest.fingerprint, &manifest.recipe)),
        );
        let digest: String = Sha256::digest(facts.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{digest}")
    }
}

/// The run that the evidence is made of, where it is not the one that the journal has.
fn told_as_delivered(run: &TestRun) -> String {
    let counts = match (run.passed, run.failed) {
        (None, None) => "no counts".to_owned(),
        (passed, failed) => format!("{} passed, {} failed", passed.unwrap_or(0), failed.unwrap_or(0)),
    };
    format!(
        "with the delivered versions of the test command's files: exit code {}, {counts}; the evidence describes this run",
        run.exit_code
    )
}

/// Why the tests fail in spite of a change to the test command that may mend them.
fn about_changed_command(evidence: &Evidence) -> String {
    let Some(files) = evidence.changed.command_files() else { return String::new() };
    let at_base = match evidence.baseline.exit_code {
        0 => "passes".to_owned(),
        code => format!("ends with exit code {code}"),
    };
    format!(
        "; the result changes {files}, which is part of the test command, so it has to pass with the base's version and as \
         delivered, and at the base the command {at_base}: commit that change yourself, or name another test command"
    )
}

/// What could not be loaded or failed as a whole: nobody knows how the tests in it would end.
fn about_unloaded(tests: &TestChanges) -> String {
    let before = report::sentence(&tests.still_failing);
    let before = before.map(|what| format!("; {what}, at the base too, so the tests there cannot be compared"));
    let now = report::sentence(tests.broken.iter().chain(&tests.added_failing)).map(|what| format!("; {what}"));
    before.into_iter().chain(now).collect()
}

/// A name for a repository that has none yet: the last part of its path or URL.
fn repository_name(source: &str) -> String {
    const LONGEST: usize = 40;
    let last = source.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
    let plain = last.strip_suffix(".git").unwrap_or(last).chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-');
    let name: String = plain.take(LONGEST).collect();
    if name.trim_matches('-').is_empty() { "repository".to_owned() } else { name.trim_matches('-').to_owned() }
}

/// Of what a failed test command printed, the lines that tell most.
pub fn telling_lines(output: &str) -> String {
    failure_lines::choose(output, LAST_LINES, LAST_BYTES)
}
