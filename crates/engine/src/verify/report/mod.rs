//! Reads what a test runner printed: how many tests passed and failed, and which.

mod counts;
mod names;
mod tree;
mod wholes;

use harvest_core::{MissingNames, TestNames};

pub use counts::{Counts, read_counts};
use names::read_names;
pub(super) use wholes::{as_passed, is_unloaded, sentence, stands_for_many};

/// The names of one run are kept up to this size, so that its event stays small.
const MOST_FAILED_BYTES: usize = 16 * 1024;
const MOST_PASSED_BYTES: usize = 256 * 1024;

/// Names within their bounds. `is_whole` is whether the output was read from its beginning, `workspace` the folder that the tests ran
/// in.
pub fn bounded_names(output: &str, is_whole: bool, workspace: &str) -> TestNames {
    let mut names = read_names(output, workspace);
    let fits = |list: &[String], most: usize| list.iter().map(|name| name.len() + 3).sum::<usize>() <= most;
    if !is_whole || !fits(&names.passed, MOST_PASSED_BYTES) || !fits(&names.skipped, MOST_PASSED_BYTES) {
        names.passed.clear();
        names.skipped.clear();
        names.missing = Some(MissingNames::TooManyPassed);
    }
    while !fits(&names.failed, MOST_FAILED_BYTES) {
        names.failed.pop();
        names.missing = Some(MissingNames::TooManyFailed);
    }
    if !is_whole {
        names.missing = Some(MissingNames::OutputTooLong);
    }
    names.cut = names.missing.is_some();
    names
}

/// The lines of an output as a terminal would show them. A carriage return begins a line, too: a runner that draws its progress
/// over itself writes the next line behind one.
pub(super) fn shown_lines(output: &str) -> impl Iterator<Item = String> {
    output.split(['\n', '\r']).map(without_colors)
}

/// Without terminal colours, cursor movements and the characters that a terminal would not show. A control sequence that is cut
/// off or malformed ends where it stops being one, so that it hides nothing behind it.
fn without_colors(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let length = if c == '\u{1b}' { sequence(rest) } else { c.len_utf8() };
        if c != '\u{1b}' && (!c.is_control() || c == '\t') {
            text.push(c);
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    text
}

/// How much of a control sequence at the beginning of `text` is taken away. A test can print the beginning of one in front of what
/// its runner prints next. So only sequences are taken as a whole that end with a letter which no runner begins a line with:
/// colours, movements of the cursor and erasing; of all others goes what introduces them, and the rest is read as text.
fn sequence(text: &str) -> usize {
    const INTRODUCED: usize = 2;
    let bytes = text.as_bytes();
    match bytes.get(1) {
        Some(b'[') => {
            let parameters = bytes.iter().skip(INTRODUCED).take_while(|byte| (0x30..=0x3f).contains(*byte)).count();
            match bytes.get(INTRODUCED + parameters) {
                Some(b'A'..=b'D' | b'G' | b'H' | b'J' | b'K' | b'h' | b'l' | b'm') => INTRODUCED + parameters + 1,
                _ => INTRODUCED,
            }
        }
        Some(b'(' | b')') if matches!(bytes.get(INTRODUCED), Some(b'B' | b'0')) => INTRODUCED + 1,
        Some(b']' | b'7' | b'8' | b'=' | b'>') => INTRODUCED,
        _ => 1,
    }
}

/// Whether something failed that no test is named for: a build that broke, a suite that did not load, a runner that died. Then
/// nobody can say that only the tests which are named have failed.
pub fn has_unnamed_failure(output: &str) -> bool {
    const ANYWHERE: [&str; 15] = [
        "error: could not compile",
        "Test suite failed to run",
        "Failed Suites",
        "Unhandled Error",
        "Unhandled Rejection",
        "COMPILATION ERROR",
        "Compilation failed",
        "INTERNALERROR>",
        "occurred outside of examples",
        "PHP Fatal error",
        "Build FAILED",
        "error TS",
        ": error: ",
        "Segmentation fault",
        "core dumped",
    ];
    const AT_BEGIN: [&str; 3] = ["panic: ", "fatal error: ", "FATAL ERROR: "];
    shown_lines(output).any(|line| {
        let line = line.trim();
        let hidden = ["--- FAIL: ", "not ok "].iter().any(|mark| !line.starts_with(mark) && line.contains(mark));
        hidden
            || ANYWHERE.iter().any(|words| line.contains(words))
            || AT_BEGIN.iter().any(|words| line.starts_with(words))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_few_thousand_tests_are_kept() {
        let tests = |count: usize| {
            let line = |number| format!("tests/test_module.py::test_some_behaviour_of_the_product[{number}] PASSED\n");
            (0..count).map(line).collect::<String>()
        };
        let names = bounded_names(&tests(3000), true, "");
        assert_eq!((names.passed.len(), names.cut), (3000, false));
        let names = bounded_names(&tests(30_000), true, "");
        assert_eq!((names.passed.len(), names.cut), (0, true));
    }

    #[test]
    fn a_control_sequence_that_is_cut_off_hides_nothing() {
        for (line, expected) in [
            ("\u{1b}[32m\u{1b}[1mok\u{1b}[0m", "ok"),
            ("\u{1b}[2K\u{1b}[1Gok\u{1b}[?25h", "ok"),
            ("\u{1b}(B\u{1b}[mtext\u{1b}7.", "text."),
            ("\u{1b}--- FAIL: TestB", "--- FAIL: TestB"),
            ("\u{1b}[--- FAIL: TestB", "--- FAIL: TestB"),
            ("\u{1b}[3\u{1b}[1m--- FAIL: TestB", "3--- FAIL: TestB"),
            ("\u{1b}]--- FAIL: TestB\u{7}", "--- FAIL: TestB"),
            ("\u{1b}[not ok 2 - b", "not ok 2 - b"),
            ("\u{1b}(not ok 2 - b", "(not ok 2 - b"),
            ("\u{1b}FAILED tests/a.py::b", "FAILED tests/a.py::b"),
            ("\u{1b}[ERROR tests/a.py", "ERROR tests/a.py"),
            ("\u{1b}[12345 9 test a ... FAILED", "12345 9 test a ... FAILED"),
            ("\u{1b}[é1 failed", "é1 failed"),
            ("end\u{1b}", "end"),
        ] {
            assert_eq!(without_colors(line), expected, "{line:?}");
        }
    }

    #[test]
    fn a_line_that_is_drawn_over_another_is_read() {
        let output = "building 1/2\rtest a ... FAILED\n\rtest b ... ok\r\n";
        let names = bounded_names(output, true, "");
        assert_eq!((names.failed, names.passed), (vec!["a".to_owned()], vec!["b".to_owned()]));
    }

    #[test]
    fn failures_that_name_no_test_are_noticed() {
        for output in [
            "error: could not compile `app` (lib test) due to 1 previous error",
            "  ● Test suite failed to run\n\n    SyntaxError",
            "⎯⎯⎯ Failed Suites 1 ⎯⎯⎯",
            "[ERROR] COMPILATION ERROR :",
            "src/a.ts(3,1): error TS2322: Type",
            "a.c:3:5: error: expected ';'",
            "panic: runtime error: index out of range",
            "An error occurred while loading ./spec/a_spec.rb.\n1 error occurred outside of examples",
            "Segmentation fault (core dumped)",
            "output without an end--- FAIL: TestB (0.00s)",
        ] {
            assert!(has_unnamed_failure(output), "{output}");
        }
        for output in [
            "--- FAIL: TestB (0.00s)\nFAIL\nFAIL\texample.com/a\t0.1s",
            "test a ... FAILED\n\nthread 'a' panicked at src/lib.rs:3:5\nerror: test failed, to rerun pass `--lib`",
            "FAILED tests/test_a.py::test_x - assert 1 == 2\n1 failed in 0.1s",
            "not ok 1 - a",
        ] {
            assert!(!has_unnamed_failure(output), "{output}");
        }
    }
}
