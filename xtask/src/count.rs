//! Tests of `scripts/count.awk`, which writes the last line of `make test`.
#![cfg(test)]

use std::io::Write;
use std::process::{Command, Stdio};

use crate::manifest;

/// The last line and whether it was a success.
fn count(log: &str, status: i32) -> (String, bool) {
    let (text, success) = count_with(log, status, "");
    (text.lines().last().unwrap().to_owned(), success)
}

/// All that is printed, given the file in which tests say that they skipped themselves.
#[expect(clippy::disallowed_methods, reason = "a test of a script that is started by make")]
fn count_with(log: &str, status: i32, skips: &str) -> (String, bool) {
    let mut awk = Command::new("awk")
        .args(["-v", &format!("status={status}"), "-v", &format!("skips={skips}"), "-f"])
        .arg(manifest::root().join("scripts/count.awk"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    awk.stdin.take().unwrap().write_all(log.as_bytes()).unwrap();
    let output = awk.wait_with_output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.success())
}

const PASSING: &str = "     Running unittests src/lib.rs (target/debug/deps/a-1)
running 2 tests
test one::passes ... ok
test one::passes_too ... ok
test one::needs_more ... ignored, needs the network
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
   Doc-tests a
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

#[test]
fn all_binaries_and_documentation_tests_are_added_up() {
    assert_eq!(count(PASSING, 0), ("6 passed, 0 failed, 1 skipped".to_owned(), true));
}

#[test]
fn results_quoted_in_a_failure_do_not_count() {
    let quoting = "     Running tests/it/main.rs (target/debug/deps/it-1)
test result: FAILED. 40 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
error: test failed, to rerun pass `-p b --test it`
";
    assert_eq!(count(&format!("{quoting}{PASSING}"), 101), ("10 passed, 1 failed, 1 skipped".to_owned(), false));
}

#[test]
fn a_binary_that_died_and_a_build_that_broke_are_failures() {
    let died = "     Running tests/it/main.rs (target/debug/deps/it-1)\nrunning 9 tests\nerror: test failed\n";
    assert_eq!(count(&format!("{died}{PASSING}"), 101), ("6 passed, 1 failed, 1 skipped".to_owned(), false));
    assert_eq!(count("error: could not compile `a`\n", 101), ("0 passed, 1 failed, 0 skipped".to_owned(), false));
}

#[test]
fn an_ignored_test_that_a_later_run_ran_is_not_skipped() {
    let later = "     Running unittests src/lib.rs (target/debug/deps/a-1)
test one::needs_more ... ok
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.00s
";
    assert_eq!(count(&format!("{PASSING}{later}"), 0), ("7 passed, 0 failed, 0 skipped".to_owned(), true));
}

#[test]
fn a_test_that_skipped_itself_counts_as_skipped_once_with_its_reason() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"/x/a-1\tone::passes\tstrace is not installed\n/x/a-1\tone::passes\tstrace is not installed\n")
        .unwrap();
    let (text, success) = count_with(PASSING, 0, file.path().to_str().unwrap());
    assert!(success && text.contains("skipped: 1: strace is not installed\n"), "{text}");
    assert!(
        text.contains("skipped: 1: needs the network\n") && text.ends_with("5 passed, 0 failed, 2 skipped\n"),
        "{text}"
    );
}
