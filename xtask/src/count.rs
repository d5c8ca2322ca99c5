//! Tests of `scripts/count.awk`, which writes the last line of `make test`.
#![cfg(test)]

use std::io::Write;
use std::process::{Command, Stdio};

use crate::manifest;

/// The last line and whether it was a success.
#[expect(clippy::disallowed_methods, reason = "a test of a script that is started by make")]
fn count(log: &str, status: i32) -> (String, bool) {
    let mut awk = Command::new("awk")
        .args(["-v", &format!("status={status}"), "-f"])
        .arg(manifest::root().join("scripts/count.awk"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    awk.stdin.take().unwrap().write_all(log.as_bytes()).unwrap();
    let output = awk.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (text.lines().last().unwrap().to_owned(), output.status.success())
}

const PASSING: &str = "     Running unittests src/lib.rs (target/debug/deps/a-1)
running 2 tests
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
    assert_eq!(count("error: could not compile `a`\n", 101), ("0 passed, 1 failed".to_owned(), false));
}
