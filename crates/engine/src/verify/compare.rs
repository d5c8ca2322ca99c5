//! Holds the run at the result against the run at the base: test by test, and as a whole.

use std::collections::BTreeSet;

use harvest_core::{Flag, MissingNames, TestChanges, TestNames, TestRun, TestVerdict};

use super::report::{as_passed, is_unloaded, stands_for_many};
use super::{Counts, exit_code};

/// Names kept in each list of the evidence.
const MOST_NAMES: usize = 100;

/// What cannot be told where the base names only failed tests.
const UNCERTAIN: &str = "not all tests are known by name at the base; a test under \"pass → fail\" may be new";

/// How tests differ, as far as the runner names them.
pub(super) fn compare(base_run: &TestRun, result_run: &TestRun) -> TestChanges {
    let (base, result) = (&base_run.names, &result_run.names);
    let set = |names: &'_ [String]| names.iter().cloned().collect::<BTreeSet<String>>();
    let (failed_then, failed_now) = (set(&base.failed), set(&result.failed));
    let (passed_then, passed_now) = (set(&base.passed), set(&result.passed));
    let (skipped_then, skipped_now) = (set(&base.skipped), set(&result.skipped));
    // Many runners name only what failed; whether anything is new or has vanished is not known then.
    let none_then = executed(base_run) == Some(0) && base.is_empty() && ended_idle(base_run);
    let named_then = !base.cut && (!passed_then.is_empty() || none_then);
    let named_now = !passed_now.is_empty() && !result.cut;
    let known_then: BTreeSet<&str> =
        failed_then.iter().chain(&passed_then).chain(&skipped_then).map(|name| as_passed(name)).collect();
    let known_now: BTreeSet<&str> =
        failed_now.iter().chain(&passed_now).chain(&skipped_now).map(|name| as_passed(name)).collect();
    let mut left_off = 0;
    let mut list = |names: Vec<String>| {
        left_off += names.len().saturating_sub(MOST_NAMES) as u64;
        names.into_iter().take(MOST_NAMES).collect::<Vec<_>>()
    };
    // A failed test that is not named any more may be among the names that are missing. Where no passed test is named, it may
    // have been renamed or deleted.
    let all_failures_named = !result.is_empty() && (!result.cut || result.missing == Some(MissingNames::TooManyPassed));
    let none_failed = result.is_empty() && result_run.exit_code == 0 && result_run.failed == Some(0);
    let are_failures_known = !named_now && (all_failures_named || none_failed);
    let fixed = failed_then.iter().map(|name| as_passed(name)).filter(|name| passed_now.contains(*name));
    // What failed as a whole is not named where its tests run.
    let failed_tests = || failed_then.iter().filter(|name| !stands_for_many(name));
    let no_longer_failing = failed_tests().filter(|name| are_failures_known && !known_now.contains(name.as_str()));
    let (broken, added_failing): (Vec<String>, Vec<String>) = failed_now
        .difference(&failed_then)
        .cloned()
        .partition(|name| !named_then || known_then.contains(as_passed(name)));
    let is_uncertain = broken.iter().any(|name| !known_then.contains(as_passed(name)));
    let added = passed_now.iter().filter(|name| named_then && !known_then.contains(name.as_str()));
    let ran_then: BTreeSet<&String> = failed_tests().chain(&passed_then).chain(&skipped_then).collect();
    let vanished = ran_then.into_iter().filter(|name| named_now && !known_now.contains(name.as_str()));
    TestChanges {
        fixed: list(fixed.map(str::to_owned).collect()),
        no_longer_failing: list(no_longer_failing.cloned().collect()),
        broken: list(broken),
        added_failing: list(added_failing),
        still_failing: list(failed_now.intersection(&failed_then).cloned().collect()),
        added: list(added.cloned().collect()),
        vanished: list(vanished.cloned().collect()),
        left_off,
        incomplete: incomplete(base, result).or_else(|| is_uncertain.then(|| UNCERTAIN.to_owned())),
    }
}

/// What cannot be told since names were cut off.
fn incomplete(base: &TestNames, result: &TestNames) -> Option<String> {
    let cut = |names: &TestNames| names.missing.and_then(MissingNames::explain);
    let why = match (cut(base), cut(result)) {
        (None, None) => return None,
        (Some(base), None) => format!("at the base {base}"),
        (None, Some(result)) => format!("at the result {result}"),
        (Some(base), Some(result)) if base == result => format!("at the base and at the result {base}"),
        (Some(base), Some(result)) => format!("at the base {base}; at the result {result}"),
    };
    Some(format!("not all tests are known by name: {why}; new and vanished tests cannot be told"))
}

/// What both runs come to.
pub(super) fn verdict(
    base: &TestRun,
    result: &TestRun,
    changes: &TestChanges,
    flags: &[Flag],
    cannot_run: bool,
) -> TestVerdict {
    let worthless = flags.iter().any(|flag| flag.disqualifies());
    // A file that the base could load and the result cannot is a fault of the work.
    let none_ran_then = executed(base).map_or(base.exit_code != 0, |executed| executed == 0);
    let none_loaded = loaded_none(result) && (loaded_none(base) || none_ran_then);
    if cannot_run && result.exit_code != 0 && (executed(result).unwrap_or(0) == 0 || none_loaded) {
        return TestVerdict::CannotRun;
    }
    let none_ran = ran_none(result);
    if none_ran && ran_none(base) && !worthless {
        return TestVerdict::NoTests;
    }
    // A command can end well although tests fail, such as one whose output goes through a pipe.
    let fails = result.failed.unwrap_or(0) > 0 || !result.names.failed.is_empty();
    if result.exit_code == 0 && !fails {
        let unknown = result.passed.is_none() && exit_code::hidden(&result.command).is_some();
        return if worthless || unknown || none_ran { TestVerdict::Doubtful } else { TestVerdict::Verified };
    }
    // All that failed must be known by name: of one that is not, nobody can say that it failed before. So the runner must have
    // counted, and neither report may have a gap. Nor can anybody say it of tests that never ran.
    let failed = &result.names.failed;
    let is_named = result.failed.is_some_and(|count| count <= failed.len() as u64)
        && !failed.iter().any(|name| stands_for_many(name));
    let same = !changes.still_failing.is_empty() && !changes.has_new_failures() && changes.vanished.is_empty();
    let whole = !result.names.cut && !base.names.cut && !result.timed_out && !worthless;
    let is_no_worse = result.exit_code == 0 || base.exit_code != 0;
    match (same && is_named && whole && is_no_worse, result.exit_code) {
        (true, _) => TestVerdict::Unchanged,
        (false, 0) => TestVerdict::Doubtful,
        (false, _) => TestVerdict::Failed,
    }
}

/// The verdict on work whose failures are the base's while the base's versions of the command's files ran, once it has also run
/// as it is delivered. It stays [`TestVerdict::Unchanged`] only if no test is lost with the delivered files.
pub(super) fn verdict_as_delivered(
    delivered: TestVerdict,
    tests: &TestChanges,
    with_base: &TestChanges,
) -> TestVerdict {
    let is_explained = |name: &String| with_base.fixed.contains(name) || with_base.no_longer_failing.contains(name);
    let lost = !tests.vanished.is_empty() || !tests.no_longer_failing.iter().all(is_explained);
    match (delivered, lost) {
        (TestVerdict::Verified | TestVerdict::Unchanged, false) => TestVerdict::Unchanged,
        (TestVerdict::Verified, true) => TestVerdict::Doubtful,
        (TestVerdict::Unchanged, true) => TestVerdict::Failed,
        (worse, _) => worse,
    }
}

/// Whether no test passed, and only packages, modules and files failed as a whole.
fn loaded_none(run: &TestRun) -> bool {
    failed_as_wholes(counts(run), &run.names)
}

fn failed_as_wholes(counts: Counts, names: &TestNames) -> bool {
    let TestNames { passed, failed, .. } = names;
    let is_counted = counts.failed.unwrap_or(0) <= failed.len() as u64;
    let none_passed = counts.passed.unwrap_or(0) == 0 && passed.is_empty();
    none_passed && is_counted && !failed.is_empty() && failed.iter().all(|name| stands_for_many(name))
}

/// Whether no test passed, and only files and modules failed that could not be loaded.
pub(super) fn loads_nothing(counts: Counts, names: &TestNames) -> bool {
    failed_as_wholes(counts, names) && names.failed.iter().all(|name| is_unloaded(name))
}

pub(super) fn counts(run: &TestRun) -> Counts {
    Counts { passed: run.passed, failed: run.failed, skipped: run.skipped }
}

/// Whether no test ran, and the runner says so. Tests that are skipped do not run.
fn ran_none(run: &TestRun) -> bool {
    let TestNames { passed, failed, .. } = &run.names;
    executed(run) == Some(0) && passed.is_empty() && failed.is_empty() && ended_idle(run)
}

fn executed(run: &TestRun) -> Option<u64> {
    counts(run).executed()
}

/// Ended well, or as a runner ends that found nothing to run: pytest and unittest with 5, Jest and Vitest with 1 and in words.
fn ended_idle(run: &TestRun) -> bool {
    const NOTHING_COLLECTED: i32 = 5;
    let says_so = || ["No tests found", "No test files found"].iter().any(|words| run.output_tail.contains(words));
    match run.exit_code {
        0 | NOTHING_COLLECTED => !run.timed_out,
        1 => says_so(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use harvest_core::SandboxPurpose;

    use super::*;

    fn names(passed: &[&str], failed: &[&str]) -> TestNames {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        TestNames { passed: owned(passed), failed: owned(failed), ..TestNames::default() }
    }

    fn run(exit_code: i32, names: TestNames) -> TestRun {
        TestRun {
            purpose: SandboxPurpose::Verify,
            commit: String::new(),
            command: String::new(),
            exit_code,
            passed: Some(names.passed.len() as u64),
            failed: Some(names.failed.len() as u64),
            skipped: Some(0),
            timed_out: false,
            duration_ms: 1,
            output_tail: String::new(),
            names,
        }
    }

    fn changes(base: TestNames, result: TestNames) -> TestChanges {
        compare(&run(0, base), &run(0, result))
    }

    fn lists(changes: &TestChanges) -> [String; 7] {
        changes.lists().map(|(_, names)| names.join(" "))
    }

    fn judge(base: &TestRun, result: &TestRun) -> TestVerdict {
        verdict(base, result, &compare(base, result), &[], false)
    }

    #[test]
    fn each_test_is_fixed_broken_still_failing_new_or_gone() {
        let changes = changes(names(&["a", "gone"], &["b", "c"]), names(&["b", "new"], &["a", "c", "d"]));
        assert_eq!(changes.lists()[3].0, "new, fails");
        assert_eq!(lists(&changes), ["b", "", "a", "d", "c", "new", "gone"], "d is new, and never passed");
        assert_eq!(changes.incomplete, None);
        // A test that was skipped at the base is not new.
        let skipped = TestNames { skipped: vec!["s".into()], ..names(&["a"], &[]) };
        assert_eq!(lists(&compare(&run(0, skipped), &run(1, names(&["a"], &["s"]))))[2..4], ["s", ""]);
    }

    #[test]
    fn where_no_test_ran_at_the_base_all_are_new() {
        let none = run(5, TestNames::default());
        let changes = compare(&none, &run(1, names(&["a"], &["b"])));
        assert_eq!(lists(&changes), ["", "", "", "b", "", "a", ""]);
        let broken = TestRun { exit_code: 2, ..none };
        let changes = compare(&broken, &run(1, names(&["a"], &["b"])));
        assert_eq!(lists(&changes), ["", "", "b", "", "", "", ""], "its tests may not have been found");
    }

    #[test]
    fn of_a_runner_that_names_only_failures_nothing_is_new_or_gone_or_fixed() {
        let fewer = changes(names(&[], &["b", "c"]), names(&[], &["c"]));
        assert_eq!(fewer.lists()[1].0, "no longer listed as failing", "it may have been renamed or deleted");
        assert_eq!((lists(&fewer), fewer.incomplete), (["", "b", "", "", "c", "", ""].map(str::to_owned), None));
        let silent = TestRun { passed: Some(2), ..run(0, TestNames::default()) };
        assert_eq!(lists(&compare(&run(1, names(&[], &["b"])), &silent)), ["", "b", "", "", "", "", ""]);
        let uncounted = TestRun { failed: None, ..silent };
        assert_eq!(lists(&compare(&run(1, names(&[], &["b"])), &uncounted)).concat(), "", "its output cannot be read");
        let more = changes(names(&[], &["c"]), names(&[], &["c", "d"]));
        assert_eq!(lists(&more), ["", "", "d", "", "c", "", ""]);
        assert!(more.incomplete.unwrap().ends_with("may be new"));
    }

    #[test]
    fn names_that_were_cut_off_are_told_and_count_neither_as_new_nor_gone_nor_fixed() {
        let cut = |why, names: TestNames| TestNames { cut: true, missing: Some(why), ..names };
        let whole = || names(&["a", "b"], &["c"]);
        for why in [MissingNames::OutputTooLong, MissingNames::TooManyFailed] {
            let changes = changes(whole(), cut(why, names(&[], &["a"])));
            assert_eq!(lists(&changes), ["", "", "a", "", "", "", ""], "{why:?}");
            let told = changes.incomplete.unwrap();
            assert!(told.contains("at the result the") && told.ends_with("vanished tests cannot be told"), "{told}");
        }
        let fixed = changes(whole(), cut(MissingNames::TooManyPassed, names(&[], &["a"])));
        assert_eq!(lists(&fixed), ["", "c", "a", "", "", "", ""], "every failure is named");
        let longer = changes(cut(MissingNames::OutputTooLong, names(&[], &[])), whole());
        assert_eq!(lists(&longer), ["", "", "c", "", "", "", ""]);
        assert!(longer.incomplete.unwrap().contains("at the base the output is longer"));
        let built = changes(whole(), cut(MissingNames::UnnamedFailure, names(&[], &[])));
        assert_eq!(
            (lists(&built).concat(), built.incomplete),
            (String::new(), None),
            "a build that fails fixes nothing"
        );
        assert_eq!(changes(whole(), whole()).incomplete, None);
    }

    #[test]
    fn a_red_base_is_unchanged_when_nothing_else_fails() {
        let base = run(1, names(&["a"], &["b", "c"]));
        assert_eq!(judge(&base, &run(1, names(&["a"], &["b", "c"]))), TestVerdict::Unchanged);
        assert_eq!(judge(&base, &run(1, names(&["a", "b"], &["c"]))), TestVerdict::Unchanged, "one was fixed");
        assert_eq!(judge(&base, &run(1, names(&[], &["a", "b", "c"]))), TestVerdict::Failed, "one was broken");
        assert_eq!(judge(&base, &run(1, names(&["x"], &["b", "c"]))), TestVerdict::Failed, "one has vanished");
        assert_eq!(judge(&base, &run(1, names(&["a"], &["b", "c", "d"]))), TestVerdict::Failed, "a new one fails");
        let unnamed = TestRun { failed: Some(3), ..run(1, names(&["a"], &["b", "c"])) };
        assert_eq!(judge(&base, &unnamed), TestVerdict::Failed, "one that failed is not named");
        let cut = TestNames { cut: true, ..names(&["a"], &["b", "c"]) };
        assert_eq!(judge(&base, &run(1, cut)), TestVerdict::Failed, "not all are known");
        let cut = TestNames { cut: true, ..names(&["a"], &["b", "c"]) };
        assert_eq!(judge(&run(1, cut), &run(1, names(&["a"], &["b", "c"]))), TestVerdict::Failed, "nor of the base");
        let uncounted = TestRun { failed: None, ..run(1, names(&["a"], &["b", "c"])) };
        assert_eq!(judge(&base, &uncounted), TestVerdict::Failed, "nobody knows how many failed");
        assert_eq!(judge(&run(0, names(&["a"], &[])), &run(1, names(&["a"], &["b"]))), TestVerdict::Failed);
    }

    #[test]
    fn what_is_delivered_is_unchanged_only_if_it_loses_no_test() {
        let base = run(1, names(&["a"], &["b"]));
        let delivered = |result: &TestRun, base: &TestRun, with_base: &TestRun| {
            let tests = compare(base, result);
            verdict_as_delivered(verdict(base, result, &tests, &[], false), &tests, &compare(base, with_base))
        };
        assert_eq!(delivered(&base, &base, &base), TestVerdict::Unchanged);
        assert_eq!(delivered(&run(0, names(&["a", "b"], &[])), &base, &base), TestVerdict::Unchanged, "b was mended");
        assert_eq!(delivered(&run(0, names(&["a", "c"], &[])), &base, &base), TestVerdict::Doubtful, "b is gone");
        assert_eq!(delivered(&run(1, names(&["c"], &["b"])), &base, &base), TestVerdict::Failed, "a is gone");
        assert_eq!(delivered(&run(4, TestNames::default()), &base, &base), TestVerdict::Failed, "nothing ran");
        let silent = |failed: &[&str]| run(i32::from(!failed.is_empty()), names(&[], failed));
        let (two, one) = (silent(&["b", "c"]), silent(&["b"]));
        assert_eq!(delivered(&one, &two, &two), TestVerdict::Failed, "c may have been deleted");
        assert_eq!(delivered(&one, &two, &one), TestVerdict::Unchanged, "the base's own c passes");
    }

    #[test]
    fn a_build_that_breaks_is_not_unchanged() {
        let base = run(1, names(&[], &["TestA"]));
        let built = |output: &str| {
            let names = super::super::report::bounded_names(output, true, "");
            let counts = super::super::read_counts(output);
            TestRun { passed: counts.passed, failed: counts.failed, skipped: counts.skipped, ..run(1, names) }
        };
        let fails = "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\texample.com/a\t0.002s\n";
        assert_eq!(judge(&base, &built(fails)), TestVerdict::Unchanged);
        for more in ["FAIL\texample.com/b [build failed]\n", "FAIL\texample.com/b [setup failed]\n"] {
            let broken = built(&format!("{fails}{more}"));
            assert_eq!(judge(&base, &broken), TestVerdict::Failed, "{more}");
            assert_eq!(judge(&broken, &broken), TestVerdict::Failed, "nobody knows what its tests do: {more}");
            assert_eq!(judge(&broken, &built(fails)), TestVerdict::Unchanged, "one of two was mended: {more}");
        }
    }

    fn recorded(exit_code: i32, output: &str) -> TestRun {
        let names = super::super::report::bounded_names(output, true, "/workspace");
        let counts = super::super::read_counts(output);
        TestRun { passed: counts.passed, failed: counts.failed, skipped: counts.skipped, ..run(exit_code, names) }
    }

    #[test]
    fn tests_that_never_ran_are_not_unchanged() {
        for (runner, output, is_all) in [
            ("node --test", include_str!("report/recorded/node-unloaded.txt"), false),
            ("node --test, spec", include_str!("report/recorded/node-unloaded-spec.txt"), false),
            ("unittest", include_str!("report/recorded/unittest-unloaded.txt"), false),
            ("unittest -v", include_str!("report/recorded/unittest-unloaded-v.txt"), false),
            ("pytest", include_str!("report/documented/pytest-unloaded.txt"), true),
            ("jest", include_str!("report/documented/jest-unloaded.txt"), false),
            ("vitest", include_str!("report/recorded/vitest-unloaded.txt"), false),
        ] {
            let red = recorded(1, output);
            assert_eq!(judge(&red, &red), TestVerdict::Failed, "{runner}");
            let with_a_known_cause = verdict(&red, &red, &compare(&red, &red), &[], true);
            let expected = if is_all { TestVerdict::CannotRun } else { TestVerdict::Failed };
            assert_eq!(with_a_known_cause, expected, "{runner}: other tests ran");
        }
    }

    #[test]
    fn a_run_in_which_nothing_could_be_loaded_could_not_run_if_the_cause_is_known() {
        let unloaded = || run(1, names(&[], &["a.js [not loaded]", "b.js [whole file]"]));
        let judge_known = |base: &TestRun, result: &TestRun| verdict(base, result, &compare(base, result), &[], true);
        assert_eq!(judge_known(&unloaded(), &unloaded()), TestVerdict::CannotRun);
        assert_eq!(judge(&unloaded(), &unloaded()), TestVerdict::Failed, "the cause is not known");
        let more = run(1, names(&[], &["a.js [not loaded]", "c.js [not loaded]"]));
        assert_eq!(judge_known(&unloaded(), &more), TestVerdict::CannotRun, "a new test needs the package as well");
        let none = run(5, TestNames::default());
        assert_eq!(judge_known(&none, &unloaded()), TestVerdict::CannotRun, "the first tests");
        let green = run(0, names(&["adds"], &[]));
        assert_eq!(judge_known(&green, &unloaded()), TestVerdict::Failed, "the base could load it");
        let red = run(1, names(&[], &["adds"]));
        assert_eq!(judge_known(&red, &red), TestVerdict::Unchanged, "a test ran");
        let unnamed = TestRun { failed: Some(3), ..unloaded() };
        assert_eq!(judge_known(&unnamed, &unnamed), TestVerdict::Failed, "a test that is not named may have run");
    }

    #[test]
    fn a_script_that_is_a_test_file_is_compared_by_its_name() {
        let (red, green) = (|| names(&["b"], &["a.js [whole file]"]), || names(&["a.js", "b"], &[]));
        assert_eq!(lists(&changes(red(), green())), ["a.js", "", "", "", "", "", ""]);
        assert_eq!(lists(&changes(green(), red())), ["", "", "a.js [whole file]", "", "", "", ""]);
        let loaded = changes(red(), names(&["adds", "b"], &[]));
        assert_eq!(lists(&loaded), ["", "", "", "", "", "adds", ""], "its tests are new, and the file is not gone");
    }

    #[test]
    fn a_command_that_ends_well_while_tests_fail_proves_nothing() {
        let base = run(0, names(&["a", "b"], &[]));
        assert_eq!(judge(&base, &run(0, names(&["a"], &["b"]))), TestVerdict::Doubtful);
        let known = || run(0, names(&["a"], &["b"]));
        assert_eq!(judge(&known(), &known()), TestVerdict::Unchanged, "it was so at the base");
        assert_eq!(judge(&run(1, names(&["a"], &["b"])), &known()), TestVerdict::Unchanged);
        let unnamed = || TestRun { names: TestNames::default(), ..known() };
        assert_eq!(judge(&unnamed(), &unnamed()), TestVerdict::Doubtful, "another test may fail than at the base");
        assert_eq!(judge(&known(), &run(0, names(&["a", "b"], &[]))), TestVerdict::Verified, "it was mended");
    }

    #[test]
    fn without_counts_a_command_whose_exit_code_is_hidden_proves_nothing() {
        let base = run(0, names(&["a"], &[]));
        let silent = |command: &str| TestRun {
            passed: None,
            failed: None,
            command: command.to_owned(),
            ..run(0, TestNames::default())
        };
        assert_eq!(judge(&silent("npm test"), &silent("npm test")), TestVerdict::Verified);
        for command in ["npm test | tail -5", "npm test || true", "npm test; echo done"] {
            assert_eq!(judge(&silent(command), &silent(command)), TestVerdict::Doubtful, "{command}");
            let counted = TestRun { command: command.to_owned(), ..run(0, names(&["a"], &[])) };
            assert_eq!(judge(&base, &counted), TestVerdict::Verified, "{command}");
        }
    }

    #[test]
    fn no_tests_before_or_after_is_no_proof() {
        let none = || run(0, TestNames::default());
        assert_eq!(judge(&none(), &none()), TestVerdict::NoTests);
        assert_eq!(judge(&run(5, TestNames::default()), &run(5, TestNames::default())), TestVerdict::NoTests);
        let skipped = || TestNames { skipped: vec!["a".to_owned()], ..TestNames::default() };
        assert_eq!(judge(&run(0, skipped()), &run(0, skipped())), TestVerdict::NoTests, "what is skipped does not run");
        assert_eq!(judge(&run(101, TestNames::default()), &run(0, skipped())), TestVerdict::Doubtful, "none runs now");
        assert_eq!(judge(&none(), &run(101, TestNames::default())), TestVerdict::Failed, "it does not build any more");
        let red = || run(2, TestNames::default());
        assert_eq!(judge(&red(), &red()), TestVerdict::Failed, "something else of the command fails");
        let open = |exit_code| TestRun { passed: None, failed: None, ..run(exit_code, TestNames::default()) };
        assert_eq!(judge(&open(0), &open(0)), TestVerdict::Verified, "a runner without counts is believed");
    }
}
