//! What proves a result: the platform's own run of the tests in a clean sandbox, beside the same run at the base.

use serde::{Deserialize, Serialize};

/// The outcome of verification. The test command comes from the base commit or the project, never from the agent's
/// changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Evidence {
    /// The tested commit. On GitHub, the delivered commit is a different one with the same tree.
    pub commit: String,
    /// The tree of the tested commit: a commit with the same tree has the same files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    pub command: String,
    pub exit_code: i32,
    /// Counts are absent when the test runner's output cannot be parsed.
    pub passed: Option<u64>,
    pub failed: Option<u64>,
    #[serde(default)]
    pub skipped: Option<u64>,
    pub duration_ms: u64,
    /// Digest of the test environment: provider, system, tools and limits.
    pub environment: String,
    pub baseline: Baseline,
    pub flags: Vec<Flag>,
    #[serde(default)]
    pub changed: ChangedFiles,
    /// The verdict on both runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<TestVerdict>,
    /// How individual tests differ between the base and the result.
    #[serde(default, skip_serializing_if = "TestChanges::is_empty")]
    pub tests: TestChanges,
    /// The last lines of the test output at the result, unless the tests passed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// Why the tests could not run, if the cause is known, and how to fix it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The verdict on the test runs at the base and at the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TestVerdict {
    /// The tests pass, and nothing makes that worthless.
    Verified,
    /// Tests fail that failed at the base already, and no other; all of them ran.
    Unchanged,
    /// No test ran, neither at the base nor at the result.
    NoTests,
    /// No test could run: the test command, or something that it or its tests need, is missing.
    CannotRun,
    /// The tests pass, but that proves nothing: a flag tells why.
    Doubtful,
    Failed,
}

impl TestVerdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Unchanged => "unchanged",
            Self::NoTests => "no_tests",
            Self::CannotRun => "cannot_run",
            Self::Doubtful => "doubtful",
            Self::Failed => "failed",
        }
    }

    /// In a few words, for people.
    pub fn explain(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Unchanged => "unchanged: the tests that fail also fail at the base",
            Self::NoTests => "not verified: no tests ran, before or after",
            Self::CannotRun => "not verified: the tests could not run",
            Self::Doubtful => "not verified: the test command passes but proves nothing",
            Self::Failed => "the tests fail",
        }
    }
}

/// The tests that a test runner reported by name in one run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TestNames {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// True if some names are missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Why they are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingNames>,
}

/// Why not all tests of a run are known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum MissingNames {
    /// Only the end of the test output was read.
    OutputTooLong,
    /// Names of failed tests were left out because there were too many.
    TooManyFailed,
    /// The names of passed and skipped tests were left out because there were too many.
    TooManyPassed,
    /// Something failed that is no test, such as a build.
    UnnamedFailure,
}

impl MissingNames {
    /// In words, where names were cut off; a failure that is no test cuts nothing off.
    pub fn explain(self) -> Option<&'static str> {
        match self {
            Self::OutputTooLong => Some("the output is longer than 1 MiB, and only its end was read"),
            Self::TooManyFailed => {
                Some("the names of the failed tests are longer than 16 KiB, and the rest was left out")
            }
            Self::TooManyPassed => Some("the names of the passed tests are longer than 256 KiB, and were left out"),
            Self::UnnamedFailure => None,
        }
    }
}

impl TestNames {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How tests differ between the base and the result, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TestChanges {
    /// Tests that failed at the base and are named among those that pass at the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixed: Vec<String>,
    /// Tests that failed at the base and are not named at the result, whose runner names only failed tests: they may pass,
    /// or may have been renamed or deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_longer_failing: Vec<String>,
    /// Tests that fail at the result and passed or were skipped at the base. If the base names only failed tests, tests
    /// that did not fail there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<String>,
    /// Tests that fail at the result and did not run at the base.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added_failing: Vec<String>,
    /// Tests that fail at both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub still_failing: Vec<String>,
    /// Tests that pass at the result and did not exist at the base.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// Tests that ran at the base and are missing at the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vanished: Vec<String>,
    /// The number of names that were left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_off: u64,
    /// Why the comparison is incomplete, if names are missing at the base or at the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl TestChanges {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether tests fail at the result that did not fail at the base.
    pub fn has_new_failures(&self) -> bool {
        !self.broken.is_empty() || !self.added_failing.is_empty()
    }

    /// Each list with its name for people.
    pub fn lists(&self) -> [(&'static str, &[String]); 7] {
        [
            ("fail → pass", &self.fixed),
            ("no longer listed as failing", &self.no_longer_failing),
            ("pass → fail", &self.broken),
            ("new, fails", &self.added_failing),
            ("still failing", &self.still_failing),
            ("new", &self.added),
            ("vanished", &self.vanished),
        ]
    }
}

/// The outcome of the same command at the base commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Baseline {
    pub exit_code: i32,
    pub passed: Option<u64>,
    pub failed: Option<u64>,
    #[serde(default)]
    pub skipped: Option<u64>,
}

/// Changed files that affect how much a passing run proves.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChangedFiles {
    pub tests: Vec<String>,
    pub ci: Vec<String>,
    pub settings: Vec<String>,
    /// Files that define the test command; their versions at the base were used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Helper files that the test command loads; the tests ran with the changed versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub helpers: Vec<String>,
}

impl ChangedFiles {
    /// The changed files of the test command for a sentence; `None` when there are none.
    pub fn command_files(&self) -> Option<String> {
        in_a_sentence(&self.command)
    }
}

fn in_a_sentence(files: &[String]) -> Option<String> {
    Some(match files {
        [] => return None,
        [one] => one.clone(),
        [one, other] => format!("{one} and {other}"),
        [first, more @ ..] => format!("{first} and {} more files", more.len()),
    })
}

/// A reason to read the evidence with caution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// Files that the test command itself is made of were changed; the base's versions were used.
    TestCommandChanged,
    /// Helper files that the test command loads were changed; the changed versions were used.
    TestHelpersChanged,
    /// Existing tests were edited.
    TestsChanged,
    /// Existing test files, or files of the test command, were deleted or emptied.
    TestsDeleted,
    /// Tests that ran at the base are missing by name.
    TestsVanished,
    /// Fewer tests ran than at the base.
    FewerTests,
    /// More tests were skipped than at the base.
    TestsSkipped,
    /// Files of the continuous integration were changed.
    CiChanged,
    /// Settings of the test runner or of agents were changed.
    SettingsChanged,
    /// The tests did not finish within their limit.
    TestsTimedOut,
    /// The tests ran where the agent had run, with no isolation between them.
    NotIsolated,
}

impl Flag {
    /// Whether a green run with this flag proves nothing.
    pub fn disqualifies(self) -> bool {
        matches!(self, Self::FewerTests | Self::TestsDeleted | Self::TestsTimedOut)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::TestCommandChanged => "test_command_changed",
            Self::TestHelpersChanged => "test_helpers_changed",
            Self::TestsChanged => "tests_changed",
            Self::TestsDeleted => "tests_deleted",
            Self::TestsVanished => "tests_vanished",
            Self::FewerTests => "fewer_tests",
            Self::TestsSkipped => "tests_skipped",
            Self::CiChanged => "ci_changed",
            Self::SettingsChanged => "settings_changed",
            Self::TestsTimedOut => "tests_timed_out",
            Self::NotIsolated => "not_isolated",
        }
    }

    /// In two or three words, for lists.
    pub fn brief(self) -> &'static str {
        match self {
            Self::TestCommandChanged => "test command edited",
            Self::TestHelpersChanged => "test helpers edited",
            Self::TestsChanged => "tests edited",
            Self::TestsDeleted => "tests deleted",
            Self::TestsVanished => "tests vanished",
            Self::FewerTests => "fewer tests",
            Self::TestsSkipped => "more tests skipped",
            Self::CiChanged => "CI edited",
            Self::SettingsChanged => "settings edited",
            Self::TestsTimedOut => "tests timed out",
            Self::NotIsolated => "not isolated",
        }
    }

    pub fn explain(self) -> &'static str {
        match self {
            Self::TestCommandChanged => "files of the test command were changed; the base's versions were used",
            Self::TestHelpersChanged => "helper files of the tests were changed, and the changed versions were used",
            Self::TestsChanged => "existing tests were edited",
            Self::TestsDeleted => "existing test files were deleted or emptied",
            Self::TestsVanished => "tests that ran at the base are missing",
            Self::FewerTests => "fewer tests ran than at the base",
            Self::TestsSkipped => "more tests were skipped than at the base",
            Self::CiChanged => "continuous integration files were changed",
            Self::SettingsChanged => "test or agent settings were changed",
            Self::TestsTimedOut => "the tests did not finish in time",
            Self::NotIsolated => "the tests were not isolated from the agent's leftovers",
        }
    }
}

impl Evidence {
    /// A flag in a sentence, with the files that it is about.
    pub fn explain(&self, flag: Flag) -> String {
        let files = match flag {
            Flag::TestCommandChanged => self.changed.command_files(),
            Flag::TestHelpersChanged => in_a_sentence(&self.changed.helpers),
            Flag::TestsChanged => in_a_sentence(&self.changed.tests),
            Flag::CiChanged => in_a_sentence(&self.changed.ci),
            Flag::SettingsChanged => in_a_sentence(&self.changed.settings),
            _ => None,
        };
        files.map_or_else(|| flag.explain().to_owned(), |files| format!("{} ({files})", flag.explain()))
    }

    /// The verdict for people, with why a person should look at a verified result.
    pub fn verdict_words(&self) -> String {
        self.verdict_naming(str::to_owned)
    }

    /// The same, with the names of tests as `write` writes them.
    pub fn verdict_naming(&self, write: impl Fn(&str) -> String) -> String {
        let verdict = self.verdict();
        if verdict != TestVerdict::Verified {
            return verdict.explain().to_owned();
        }
        let brief = |flag: Flag| match flag {
            Flag::TestsVanished => self.vanished_words(&write),
            flag => flag.brief().to_owned(),
        };
        let verified = if self.passed.is_some() { "verified" } else { "verified, no counts" };
        match self.flags.as_slice() {
            [] => verified.to_owned(),
            [one] => format!("{verified}, {}", brief(*one)),
            [first, more @ ..] => {
                let flags = if more.len() == 1 { "flag" } else { "flags" };
                format!("{verified}, {}, {} more {flags}", brief(*first), more.len())
            }
        }
    }

    /// `2 tests vanished (adds, …)`: short enough for a list.
    fn vanished_words(&self, write: impl Fn(&str) -> String) -> String {
        const LONGEST_NAME: usize = 60;
        let Some(name) = self.tests.vanished.first() else { return Flag::TestsVanished.brief().to_owned() };
        let name = match name.char_indices().nth(LONGEST_NAME) {
            Some((end, _)) => write(&format!("{}…", &name[..end])),
            None => write(name),
        };
        match self.tests.vanished.len() {
            1 => format!("1 test vanished ({name})"),
            count => format!("{count} tests vanished ({name}, …)"),
        }
    }

    /// Green, and nothing that makes green worthless.
    pub fn proves_success(&self) -> bool {
        self.verdict() == TestVerdict::Verified
    }

    /// The verdict on completed work in words. Without evidence nothing is verified.
    pub fn words_of(evidence: Option<&Self>) -> String {
        evidence.map_or_else(|| "not verified".to_owned(), Self::verdict_words)
    }

    /// What the runs come to. Evidence from before there were verdicts has the one that its exit code and flags allow.
    pub fn verdict(&self) -> TestVerdict {
        self.verdict.unwrap_or_else(|| {
            if self.exit_code != 0 {
                TestVerdict::Failed
            } else if self.flags.iter().any(|flag| flag.disqualifies()) {
                TestVerdict::Doubtful
            } else {
                TestVerdict::Verified
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(verdict: TestVerdict, flags: &[Flag], vanished: &[&str]) -> Evidence {
        let vanished = vanished.iter().map(|name| (*name).to_owned()).collect();
        Evidence {
            commit: String::new(),
            tree: None,
            command: "make test".into(),
            exit_code: 0,
            passed: Some(3),
            failed: Some(0),
            skipped: Some(0),
            duration_ms: 1,
            environment: String::new(),
            baseline: Baseline { exit_code: 0, passed: Some(3), failed: Some(0), skipped: Some(0) },
            flags: flags.to_vec(),
            changed: ChangedFiles::default(),
            verdict: Some(verdict),
            tests: TestChanges { vanished, ..TestChanges::default() },
            output: String::new(),
            hint: None,
        }
    }

    #[test]
    fn a_verified_result_says_when_the_runner_printed_no_counts() {
        let words = |flags| Evidence { passed: None, failed: None, ..evidence(TestVerdict::Verified, flags, &[]) };
        assert_eq!(words(&[]).verdict_words(), "verified, no counts");
        assert_eq!(words(&[Flag::TestsChanged]).verdict_words(), "verified, no counts, tests edited");
    }

    #[test]
    fn a_verified_result_names_the_tests_that_vanished() {
        let words =
            |flags: &[Flag], vanished: &[&str]| evidence(TestVerdict::Verified, flags, vanished).verdict_words();
        assert_eq!(words(&[], &[]), "verified");
        assert_eq!(words(&[Flag::TestsVanished], &["adds"]), "verified, 1 test vanished (adds)");
        assert_eq!(
            words(&[Flag::TestsVanished, Flag::TestsChanged], &["a", "b"]),
            "verified, 2 tests vanished (a, …), 1 more flag"
        );
        assert_eq!(words(&[Flag::TestsVanished], &[&"é".repeat(90)]).matches('é').count(), 60);
        assert_eq!(
            words(&[Flag::TestsChanged, Flag::CiChanged, Flag::SettingsChanged], &[]),
            "verified, tests edited, 2 more flags"
        );
        let failed = evidence(TestVerdict::Failed, &[Flag::TestsVanished], &["adds"]);
        assert_eq!(failed.verdict_words(), "the tests fail");
        assert_eq!(Evidence::words_of(None), "not verified");
    }
}
