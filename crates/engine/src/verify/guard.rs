//! Finds what makes a green run worth less: changed tests, a changed test command, fewer tests than before.

use std::collections::BTreeSet;

use harvest_core::{ChangedFiles, FileChange, Flag, TestRun};
use harvest_workspace::Change;

use super::Counts;
use super::command_files::CommandFiles;

/// make takes these before a `Makefile`, and rake this before a `Rakefile`.
const SHADOWING: &[&str] = &["GNUmakefile", "makefile", "rakefile"];
/// Python takes these from the repository before those that are installed: modules of test runners, and two that every program
/// loads first.
const SHADOWING_MODULES: &[&str] = &["unittest", "pytest", "_pytest", "sitecustomize", "usercustomize"];

/// What the result changed, as far as it matters for believing its tests.
#[derive(Debug)]
pub(super) struct Guard {
    /// Files of the test command that existed at the base and were changed; the base's versions are used.
    restore: Vec<String>,
    /// New files that the command's tool would take in place of those it took at the base.
    remove: Vec<String>,
    changed: ChangedFiles,
    edited_tests: bool,
    /// Tests, or files of the test command, were deleted or emptied.
    deleted_tests: bool,
}

impl Guard {
    /// `emptied`: the modified files that [`was_emptied`] holds for.
    pub(super) fn new(command: &CommandFiles, changes: &[Change], emptied: &BTreeSet<String>) -> Self {
        let mut guard = Self {
            restore: Vec::new(),
            remove: Vec::new(),
            changed: ChangedFiles::default(),
            edited_tests: false,
            deleted_tests: false,
        };
        for Change { path, change } in changes {
            let existed = *change != FileChange::Added;
            let is_gone = *change == FileChange::Deleted || emptied.contains(path);
            if existed && command.contains(path) {
                guard.restore.push(path.clone());
                guard.deleted_tests |= is_gone;
            }
            let goes_first = SHADOWING.contains(&path.rsplit('/').next().unwrap_or_default());
            if !existed && ((goes_first && command.would_read(path)) || is_runner_module(path)) {
                guard.remove.push(path.clone());
            }
            let is_helper = command.loads(path);
            if is_helper {
                guard.changed.helpers.push(path.clone());
            }
            if is_test(path) {
                guard.changed.tests.push(path.clone());
                guard.edited_tests |= *change == FileChange::Modified && !is_gone && !is_helper;
                guard.deleted_tests |= is_gone;
            }
            if is_ci(path) {
                guard.changed.ci.push(path.clone());
            }
            if is_settings(path) {
                guard.changed.settings.push(path.clone());
            }
        }
        guard
    }

    /// Whether the result changes what the test command is made of.
    pub(super) fn changes_command(&self) -> bool {
        !self.restore.is_empty() || !self.remove.is_empty()
    }

    pub(super) fn restore(&self) -> &[String] {
        &self.restore
    }

    pub(super) fn remove(&self) -> &[String] {
        &self.remove
    }

    pub(super) fn changed(&self) -> ChangedFiles {
        let command = self.restore.iter().chain(&self.remove).cloned().collect();
        ChangedFiles { command, ..self.changed.clone() }
    }

    pub(super) fn flags(&self, result: &TestRun, baseline: &TestRun) -> Vec<Flag> {
        let counts = |run: &TestRun| Counts { passed: run.passed, failed: run.failed, skipped: run.skipped };
        let (now, then) = (counts(result), counts(baseline));
        let fewer = match (now.executed(), then.executed()) {
            (Some(now), Some(then)) => now < then,
            // The base's runner could be read and the result's cannot: nobody knows what ran.
            (None, Some(then)) => then > 0,
            _ => false,
        };
        let counted = now.executed().is_some() && then.executed().is_some();
        let vanished = self.deleted_tests && (!counted || fewer);
        let mut flags = Vec::new();
        let mut flag = |raised: bool, flag: Flag| {
            if raised {
                flags.push(flag);
            }
        };
        flag(!self.restore.is_empty() || !self.remove.is_empty(), Flag::TestCommandChanged);
        flag(!self.changed.helpers.is_empty(), Flag::TestHelpersChanged);
        flag(vanished, Flag::TestsDeleted);
        flag(self.edited_tests || (self.deleted_tests && !vanished), Flag::TestsChanged);
        flag(fewer, Flag::FewerTests);
        flag(now.skipped.unwrap_or(0) > then.skipped.unwrap_or(0), Flag::TestsSkipped);
        flag(!self.changed.ci.is_empty(), Flag::CiChanged);
        flag(!self.changed.settings.is_empty(), Flag::SettingsChanged);
        flag(result.timed_out, Flag::TestsTimedOut);
        flags
    }
}

/// Whether a file that had more at the base has nothing but blank lines and comments now.
pub(super) fn was_emptied(base: Option<&[u8]>, result: &[u8]) -> bool {
    is_empty(result) && base.is_none_or(|base| !is_empty(base))
}

/// Whether a file has nothing but blank lines and comments.
fn is_empty(content: &[u8]) -> bool {
    let mut lines = content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.all(|line| line.is_empty() || line.starts_with(b"#") || line.starts_with(b"//"))
}

pub(super) fn is_test_folder(folder: &str) -> bool {
    matches!(folder, "test" | "tests" | "spec" | "specs" | "__tests__" | "testdata" | "e2e")
}

/// Whether a new file takes the place of a test runner's module.
fn is_runner_module(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    let is_python = path.ends_with(".py");
    is_python && SHADOWING_MODULES.contains(&first.strip_suffix(".py").unwrap_or(first))
}

pub(super) fn is_test(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let in_test_folder = folders.split('/').any(is_test_folder);
    let stem = name.split('.').next().unwrap_or_default();
    let lower = stem.to_ascii_lowercase();
    in_test_folder
        || lower == "test"
        || lower == "tests"
        || lower == "conftest"
        || lower.starts_with("test_")
        || lower.starts_with("test-")
        || lower.ends_with("_test")
        || lower.ends_with("_tests")
        || lower.ends_with("_spec")
        || stem.ends_with("Test")
        || stem.ends_with("Tests")
        || name.contains(".test.")
        || name.contains(".spec.")
}

fn is_ci(path: &str) -> bool {
    let folders = [".github/workflows/", ".github/actions/", ".circleci/", ".gitlab/", ".buildkite/", ".ci/"];
    let files = [".gitlab-ci.yml", ".travis.yml", "Jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml"];
    folders.iter().any(|folder| path.starts_with(folder)) || files.contains(&path)
}

fn is_settings(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let names = [
        ".harvest.toml",
        ".mcp.json",
        "AGENTS.md",
        "CLAUDE.md",
        "GEMINI.md",
        "pytest.ini",
        "tox.ini",
        "setup.cfg",
        "noxfile.py",
        "conftest.py",
        ".rspec",
        "phpunit.xml",
        "Makefile",
        "justfile",
        "package.json",
        "nextest.toml",
    ];
    let folders = [".claude/", ".codex/", ".gemini/", ".opencode/", ".cargo/", ".config/"];
    names.contains(&name)
        || folders.iter().any(|folder| path.starts_with(folder))
        || ["jest.config.", "vitest.config.", ".mocharc", "karma.conf", "playwright.config."]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::super::command_files;
    use super::*;
    use harvest_core::SandboxPurpose;

    fn run(passed: Option<u64>, failed: Option<u64>, skipped: u64) -> TestRun {
        TestRun {
            purpose: SandboxPurpose::Verify,
            commit: String::new(),
            command: String::new(),
            exit_code: 0,
            passed,
            failed,
            skipped: passed.map(|_| skipped),
            timed_out: false,
            duration_ms: 0,
            output_tail: String::new(),
            names: harvest_core::TestNames::default(),
        }
    }

    fn change(path: &str, change: FileChange) -> Change {
        Change { path: path.to_owned(), change }
    }

    /// With files of the base that hold nothing.
    fn guard(command: &str, changes: &[Change]) -> Guard {
        let of_base = changes.iter().filter(|change| change.change != FileChange::Added);
        let files: Vec<(&str, &str)> = of_base.map(|change| (change.path.as_str(), "")).collect();
        Guard::new(&command_files::tests::command_files(command, &files), changes, &BTreeSet::new())
    }

    #[test]
    fn a_rewritten_test_command_is_restored_and_flagged() {
        for (command, path) in
            [("sh ./check.sh", "check.sh"), ("make test", "Makefile"), ("CI=1 bash ci/run", "ci/run")]
        {
            let guard = guard(command, &[change(path, FileChange::Modified)]);
            assert_eq!(guard.restore(), [path], "{command}");
            assert_eq!(guard.changed().command, [path], "{command}");
            assert!(guard.flags(&run(None, None, 0), &run(None, None, 0)).contains(&Flag::TestCommandChanged));
        }
        assert!(guard("make test", &[change("src/make", FileChange::Modified)]).restore().is_empty());
        for (command, path) in [
            ("cd a/b && ./run.sh", "a/b/run.sh"),
            ("make -C sub check", "sub/Makefile"),
            ("cd ./web; npm test", "web/package.json"),
        ] {
            assert_eq!(guard(command, &[change(path, FileChange::Modified)]).restore(), [path], "{command}");
        }
        let shadowed =
            guard("make test", &[change("GNUmakefile", FileChange::Added), change("Makefile", FileChange::Added)]);
        assert_eq!(shadowed.remove(), ["GNUmakefile"]);
    }

    #[test]
    fn an_edited_helper_of_the_runner_is_flagged_and_stays_as_it_is() {
        let files = command_files::tests::command_files(
            "sh tests/run.sh",
            &[("tests/run.sh", ". tests/lib.sh\n"), ("tests/lib.sh", ""), ("tests/one.sh", "")],
        );
        let flags = |changes: &[Change]| {
            let guard = Guard::new(&files, changes, &BTreeSet::new());
            assert_eq!(guard.restore(), [""; 0]);
            (guard.changed().helpers, guard.flags(&run(Some(1), Some(0), 0), &run(Some(1), Some(0), 0)))
        };
        let edited = flags(&[change("tests/lib.sh", FileChange::Modified)]);
        assert_eq!(edited, (vec!["tests/lib.sh".to_owned()], vec![Flag::TestHelpersChanged]));
        let both = flags(&[change("tests/lib.sh", FileChange::Modified), change("tests/one.sh", FileChange::Modified)]);
        assert_eq!(both.1, [Flag::TestHelpersChanged, Flag::TestsChanged]);
    }

    #[test]
    fn deleted_skipped_and_vanished_tests_are_flagged() {
        let deleted = guard("pytest", &[change("tests/test_a.py", FileChange::Deleted)]);
        assert_eq!(
            deleted.flags(&run(Some(1), Some(0), 0), &run(Some(1), Some(1), 0)),
            [Flag::TestsDeleted, Flag::FewerTests]
        );
        assert_eq!(deleted.flags(&run(None, None, 0), &run(None, None, 0)), [Flag::TestsDeleted]);
        let edited = guard("pytest", &[change("tests/test_a.py", FileChange::Modified)]);
        assert_eq!(
            edited.flags(&run(Some(1), Some(0), 1), &run(Some(1), Some(1), 0)),
            [Flag::TestsChanged, Flag::FewerTests, Flag::TestsSkipped]
        );
        assert_eq!(
            edited.flags(&run(None, None, 0), &run(Some(2), Some(0), 0)),
            [Flag::TestsChanged, Flag::FewerTests]
        );
    }

    #[test]
    fn a_file_that_was_emptied_counts_as_deleted_and_so_does_one_of_the_test_command() {
        let counted = || run(Some(2), Some(0), 0);
        let uncounted = || run(None, None, 0);
        for (command, path) in [("pytest", "tests/test_a.py"), ("sh check.sh", "check.sh"), ("make test", "Makefile")] {
            let files = command_files::tests::command_files(command, &[(path, "")]);
            for (kind, emptied) in [(FileChange::Modified, true), (FileChange::Deleted, false)] {
                let emptied = emptied.then(|| path.to_owned()).into_iter().collect();
                let guard = Guard::new(&files, &[change(path, kind)], &emptied);
                assert!(guard.flags(&uncounted(), &uncounted()).contains(&Flag::TestsDeleted), "{command}: {kind:?}");
                let fewer = guard.flags(&run(Some(1), Some(0), 0), &counted());
                assert!(fewer.contains(&Flag::TestsDeleted), "{command}: {kind:?}");
                let same = guard.flags(&counted(), &counted());
                assert!(!same.contains(&Flag::TestsDeleted), "{command}: {kind:?}: as many tests ran");
            }
            let edited = Guard::new(&files, &[change(path, FileChange::Modified)], &BTreeSet::new());
            assert!(!edited.flags(&uncounted(), &uncounted()).contains(&Flag::TestsDeleted), "{command}");
        }
        for (content, expected) in
            [("", true), ("\n  \n", true), ("# gone\n// gone\n", true), ("exit 0\n", false), ("x = 1 # gone", false)]
        {
            assert_eq!(is_empty(content.as_bytes()), expected, "{content}");
        }
    }

    #[test]
    fn a_file_that_was_empty_at_the_base_is_not_emptied_by_an_edit() {
        for (base, result, expected) in [
            ("# tests of the shop\n", "# tests of the shop and its till\n", false),
            ("\n", "# to do\n", false),
            ("x = 1\n", "# gone\n", true),
            ("x = 1\n", "x = 2\n", false),
        ] {
            assert_eq!(was_emptied(Some(base.as_bytes()), result.as_bytes()), expected, "{base} {result}");
        }
        assert!(was_emptied(None, b""));
    }

    #[test]
    fn moving_tests_and_adding_some_is_fine() {
        let moved = guard(
            "pytest",
            &[change("tests/test_a.py", FileChange::Deleted), change("tests/unit/test_a.py", FileChange::Added)],
        );
        assert_eq!(moved.flags(&run(Some(3), Some(0), 0), &run(Some(2), Some(0), 0)), [Flag::TestsChanged]);
        let added = guard("pytest", &[change("tests/test_b.py", FileChange::Added)]);
        assert_eq!(added.flags(&run(Some(3), Some(0), 0), &run(Some(2), Some(0), 0)), []);
    }
}
