//! What proves a result: the platform's own run of the tests in a clean sandbox, beside the same run at the base.

use serde::{Deserialize, Serialize};

/// The outcome of verification. The command comes from the base commit or the project, never from what the agent produced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Evidence {
    /// The verified commit.
    pub commit: String,
    pub command: String,
    pub exit_code: i32,
    /// Counts are `None` when the test runner's output cannot be read.
    pub passed: Option<u64>,
    pub failed: Option<u64>,
    #[serde(default)]
    pub skipped: Option<u64>,
    pub duration_ms: u64,
    /// Digest of what the tests ran in: provider, system, tools and limits.
    pub environment: String,
    pub baseline: Baseline,
    pub flags: Vec<Flag>,
    #[serde(default)]
    pub changed: ChangedFiles,
}

/// The same command at the base commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Baseline {
    pub exit_code: i32,
    pub passed: Option<u64>,
    pub failed: Option<u64>,
    #[serde(default)]
    pub skipped: Option<u64>,
}

/// Changed files that decide how much a green run is worth.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChangedFiles {
    pub tests: Vec<String>,
    pub ci: Vec<String>,
    pub settings: Vec<String>,
}

/// What a reader of the evidence should know before believing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// Files that the test command itself is made of were changed; the base's versions were used.
    TestCommandChanged,
    /// Existing tests were edited.
    TestsChanged,
    /// Existing test files are gone.
    TestsDeleted,
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
            Self::TestsChanged => "tests_changed",
            Self::TestsDeleted => "tests_deleted",
            Self::FewerTests => "fewer_tests",
            Self::TestsSkipped => "tests_skipped",
            Self::CiChanged => "ci_changed",
            Self::SettingsChanged => "settings_changed",
            Self::TestsTimedOut => "tests_timed_out",
            Self::NotIsolated => "not_isolated",
        }
    }

    pub fn explain(self) -> &'static str {
        match self {
            Self::TestCommandChanged => "files of the test command were changed; the base's versions were used",
            Self::TestsChanged => "existing tests were edited",
            Self::TestsDeleted => "existing test files were deleted",
            Self::FewerTests => "fewer tests ran than at the base",
            Self::TestsSkipped => "more tests were skipped than at the base",
            Self::CiChanged => "continuous integration files were changed",
            Self::SettingsChanged => "test or agent settings were changed",
            Self::TestsTimedOut => "the tests did not finish in time",
            Self::NotIsolated => "the tests ran without isolation from what the agent left behind",
        }
    }
}

impl Evidence {
    /// Green, and nothing that makes green worthless.
    pub fn proves_success(&self) -> bool {
        self.exit_code == 0 && !self.flags.iter().any(|flag| flag.disqualifies())
    }
}
