//! The lines of a test command's output that tell why it failed.
//!
//! Many runners print more after a failure than before it: tests that pass, stacks of their own frames, counters. The last lines
//! of such an output say nothing. This finds the lines that name the failed tests, and what follows each of them.

use super::report::shown_lines;

/// So many lines of one failure are kept where there are several.
const LINES_OF_ONE: usize = 8;

/// The lines of a failed command's output to show, at most `most_lines` of them and `most_bytes` in all: the last ones, or those
/// that name the failures where the last ones do not.
pub(super) fn choose(output: &str, most_lines: usize, most_bytes: usize) -> String {
    let tail = last_lines(output, most_lines, most_bytes);
    match is_chatty(output) || !names_one(&tail) {
        true => find(output, most_lines, most_bytes).unwrap_or(tail),
        false => tail,
    }
}

/// The last `most_bytes` of an output. Where they name no failed test and what is before them does, those lines come first.
pub(super) fn tail(output: &str, most_bytes: usize) -> String {
    let tail = last(output, most_bytes);
    let told = if names_one(tail) { None } else { find(output, most_bytes / 128, most_bytes / 4) };
    match told {
        Some(told) => {
            let rest = last(output, most_bytes.saturating_sub(told.len() + CUT.len()));
            format!("{told}{CUT}{rest}")
        }
        None => tail.to_owned(),
    }
}

/// Between the lines that tell of failures and the end of the output.
const CUT: &str = "\n…\n";

/// The last lines that are not empty, as far as they fit.
fn last_lines(text: &str, most_lines: usize, most_bytes: usize) -> String {
    let lines: Vec<&str> = last(text.trim_end(), most_bytes).lines().collect();
    let start = lines.len().saturating_sub(most_lines);
    lines[start..].join("\n").trim_start_matches('\n').to_owned()
}

fn last(text: &str, bytes: usize) -> &str {
    let start = (text.len().saturating_sub(bytes)..text.len()).find(|index| text.is_char_boundary(*index));
    start.map_or("", |start| &text[start..])
}

/// Whether the runner prints its counters, stacks and passing tests behind the failures: node:test, and others that speak TAP.
fn is_chatty(output: &str) -> bool {
    shown_lines(output).any(|line| {
        let line = line.trim();
        line.starts_with("TAP version ") || line.starts_with("# duration_ms ") || line.starts_with("ℹ duration_ms ")
    })
}

/// The lines that name failures and say why. `None` where the runner is not known by its lines.
fn find(output: &str, most_lines: usize, most_bytes: usize) -> Option<String> {
    let lines: Vec<String> = shown_lines(output).map(|line| line.trim_end().to_owned()).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut failures = failures(&lines);
    // Each is looked for in the whole output, so only for those that can be shown.
    for failure in failures.iter_mut().take(most_lines).filter(|failure| is_of_file(failure)) {
        let thrown = thrown_by(failure[0], &lines);
        failure.splice(1..1, thrown);
    }
    if failures.is_empty() {
        return None;
    }
    let most_of_one = if failures.len() == 1 { most_lines } else { LINES_OF_ONE };
    let (mut kept, mut bytes) = (Vec::new(), 0);
    for (index, failure) in failures.iter().enumerate() {
        // The last line is for the number of those that are left out.
        let room = most_lines.saturating_sub(kept.len() + usize::from(index + 1 < failures.len()));
        let taken: Vec<&str> = failure.iter().copied().take(most_of_one.min(room)).collect();
        let size: usize = taken.iter().map(|line| line.len() + 1).sum();
        if taken.len() < failure.len().min(2) || (index > 0 && bytes + size > most_bytes) {
            let left = failures.len() - index;
            kept.push(format!("… and {left} more {}", if left == 1 { "failure" } else { "failures" }));
            break;
        }
        bytes += size;
        kept.extend(taken.into_iter().map(str::to_owned));
    }
    let mut text = kept.join("\n");
    while text.len() > most_bytes {
        let end = text.rfind('\n').unwrap_or_default();
        text.truncate(end);
    }
    (!text.is_empty()).then_some(text)
}

/// Whether a line names a failed test.
fn names_one(output: &str) -> bool {
    shown_lines(output).any(|line| begins_failure(line.trim()))
}

/// The line that names each failed test, with the lines below that say why. Suites that fail because a test in them does are
/// left out.
fn failures<'o>(lines: &[&'o str]) -> Vec<Vec<&'o str>> {
    // Where a runner repeats all failures at its end, that list is enough.
    let list = lines.iter().rposition(|line| LISTS.contains(&line.trim()));
    let lines = &lines[list.map_or(0, |at| at + 1)..];
    let mut failures = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let first = lines[at];
        at += 1;
        if !begins_failure(first.trim()) {
            continue;
        }
        let end = lines[at..].iter().position(|line| ends_failure(line.trim())).map_or(lines.len(), |end| at + end);
        let below = &lines[at..end];
        at = end;
        if is_of_suite(first, below, lines.get(end).copied()) {
            continue;
        }
        let reason = below.iter().copied().filter(|line| !is_noise(line.trim()));
        failures.push(std::iter::once(first).chain(without_stack(reason)).collect());
    }
    failures
}

/// Whether a failure is that of a file that ended before its tests, of which `node --test` says below no more than that.
fn is_of_file(failure: &[&str]) -> bool {
    failure.iter().skip(1).any(|line| matches!(line.trim(), "error: 'test failed'" | "'test failed'"))
}

/// What a file threw, which `node --test` prints above the line that names it: the place and the message.
fn thrown_by<'o>(first: &str, lines: &[&'o str]) -> Vec<&'o str> {
    let name = without_number(first.trim());
    let Some(at) = lines.iter().position(|line| without_number(line.trim()) == name) else { return Vec::new() };
    let is_edge = |line: &str| {
        let line = line.trim();
        (ends_failure(line) && !line.starts_with("# Subtest: ")) || line == "..." || line.starts_with("TAP version ")
    };
    let begin = lines[..at].iter().rposition(|line| is_edge(line)).map_or(0, |edge| edge + 1);
    let plain = |line: &&'o str| line.trim_start().strip_prefix("# ").unwrap_or(line).trim_end();
    let block: Vec<&'o str> = lines[begin..at].iter().map(plain).collect();
    let Some(message) = block.iter().rposition(|line| is_message(line)) else { return Vec::new() };
    let place = block[..message].iter().rev().find(|line| is_place(line));
    place.into_iter().chain([&block[message]]).copied().collect()
}

/// A line that names a test, without the number of TAP and without the time.
fn without_number(line: &str) -> &str {
    let line = line.strip_suffix("ms)").and_then(|line| line.rsplit_once(" (")).map_or(line, |(line, _)| line);
    let numbered = line.strip_prefix("not ok ").and_then(|rest| rest.split_once(" - "));
    numbered.map_or(line, |(_, name)| name)
}

/// `SyntaxError: Unexpected end of input`, `Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x'`
fn is_message(line: &str) -> bool {
    let kind = line.split([':', ' ']).next().unwrap_or_default();
    kind.ends_with("Error") && kind.starts_with(char::is_uppercase) && line.contains(": ")
}

/// `file:///srv/app/test/a.test.js:3`, and without a scheme where the file is no module.
fn is_place(line: &str) -> bool {
    let is_numbered = line.rsplit_once(':').is_some_and(|(_, number)| number.parse::<u32>().is_ok());
    is_numbered && (line.starts_with("file:///") || line.starts_with('/'))
}

/// Headings of a list of all failures.
const LISTS: [&str; 3] = ["✖ failing tests:", "Failed tests:", "Summary of all failing tests"];

/// `not ok 2 - adds`, `✖ adds (1.2ms)`, `● cart › adds`, `✘ [fail]: adds`, `--- FAIL: TestAdds (0.00s)`.
fn begins_failure(line: &str) -> bool {
    let is_todo = || ["# TODO", "# todo", "# SKIP", "# skip"].iter().any(|mark| line.contains(mark));
    let starts = ["not ok ", "✖ ", "✘ ", "● ", "--- FAIL: "].iter().any(|start| line.starts_with(start));
    starts && !LISTS.contains(&line) && !is_todo()
}

/// Another test, or what is said of all.
fn ends_failure(line: &str) -> bool {
    const STARTS: [&str; 21] = [
        "…",
        "ok ",
        "not ok ",
        "✔ ",
        "✓ ",
        "✖ ",
        "✘ ",
        "● ",
        "▶ ",
        "ℹ ",
        "# Subtest: ",
        "# tests ",
        "# suites ",
        "# pass ",
        "--- ",
        "=== ",
        "PASS",
        "FAIL",
        "Test Suites: ",
        "test at ",
        "npm ",
    ];
    STARTS.iter().any(|start| line.starts_with(start)) || is_plan(line)
}

/// `1..2`
fn is_plan(line: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    line.split_once("..").is_some_and(|(first, last)| is_number(first) && is_number(last))
}

/// Whether a test fails only because of another one that is named.
fn is_of_suite(first: &str, below: &[&str], next: Option<&str>) -> bool {
    let is_told = |line: &&str| {
        let line = line.trim();
        line.contains("subtestsFailed") || line.ends_with("subtest failed'") || line.ends_with("subtests failed'")
    };
    // `✖ a cart (8.0ms)` below its tests, with nothing to say of its own.
    let is_bare = below.iter().all(|line| line.trim().is_empty());
    let has_time = first.trim().starts_with("✖ ") && first.ends_with("ms)");
    below.iter().any(is_told) || (is_bare && has_time && next.is_some())
}

/// Lines below the name of a failed test that do not say why it failed.
fn is_noise(line: &str) -> bool {
    const STARTS: [&str; 14] = [
        "duration_ms: ",
        "type: ",
        "failureType: ",
        "code: ",
        "name: ",
        "operator: ",
        "generatedMessage: ",
        "compare: ",
        "stdio: ",
        "cwd: ",
        "externalID: ",
        "exitCode: ",
        "signal: ",
        "─",
    ];
    line.is_empty()
        || ["---", "...", "error: |-", "{", "}", "});"].contains(&line)
        || STARTS.iter().any(|start| line.starts_with(start))
}

/// Of each stack only the first frame, which is the test's own.
fn without_stack<'o>(lines: impl Iterator<Item = &'o str>) -> impl Iterator<Item = &'o str> {
    let mut is_first = true;
    lines.filter(move |line| {
        let text = line.trim();
        if ["stack: |-", "stack: |"].contains(&text) {
            return false;
        }
        let is_frame = is_frame(text);
        std::mem::replace(&mut is_first, !is_frame) || !is_frame
    })
}

/// `at Test.run (node:internal/test_runner/test:796:25)`, and in YAML the same without `at`.
fn is_frame(line: &str) -> bool {
    let line = line.strip_suffix(" {").unwrap_or(line);
    let place = match line.strip_prefix("at ") {
        Some(place) => place,
        None if line.ends_with(')') && line.contains(" (") => line,
        None => return false,
    };
    let place = place.trim_end_matches(')');
    let mut parts = place.rsplit(':');
    let numbers = parts.by_ref().take(2).filter(|part| part.parse::<u32>().is_ok()).count();
    (numbers == 2 && parts.next().is_some()) || line.contains("(index ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: usize = 20;
    const BYTES: usize = 2048;

    fn chosen(output: &str) -> String {
        choose(output, LINES, BYTES)
    }

    #[test]
    fn a_great_many_files_that_failed_are_looked_into_as_far_as_they_are_shown() {
        let failures: String = (0..40_000).map(|number| format!("✖ t{number}.js\n  'test failed'\n")).collect();
        let output = format!("{failures}{}", "and no more\n".repeat(1000));
        let began = std::time::Instant::now();
        let told = tail(&output, 8 * 1024);
        assert!(told.starts_with("✖ t0.js\n") && told.contains(" more failures\n…\n"), "{told}");
        assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
    }

    #[test]
    fn a_failed_node_test_shows_its_failures_and_no_counters() {
        let tap = chosen(include_str!("report/recorded/node-failures-tap.txt"));
        assert!(
            tap.starts_with("    not ok 2 - adds up its prices\n      location: '/srv/app/test/cart.test.js:8:3'"),
            "{tap}"
        );
        let spec = chosen(include_str!("report/recorded/node-failures-spec.txt"));
        assert!(
            spec.starts_with("✖ adds up its prices (7.133502ms)\n  AssertionError [ERR_ASSERTION]: Expected"),
            "{spec}"
        );
        for text in [tap, spec] {
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            for wanted in ["adds up its prices", "-3 !== 3", "prices are listed"] {
                assert!(lines.iter().any(|line| line.contains(wanted)), "{wanted}: {text}");
            }
            for noise in ["node:internal", "duration_ms", "# pass", "ℹ pass", "passes 0", "later", "subtest"] {
                assert!(!text.contains(noise), "{noise}: {text}");
            }
            assert!(lines.len() <= LINES && text.len() <= BYTES);
        }
    }

    #[test]
    fn failures_before_many_tests_that_pass_are_kept() {
        let passing: String =
            (0..2000).map(|n| format!("ok {n} - passes {n}\n  ---\n  duration_ms: 0.1\n  ...\n")).collect();
        let output = include_str!("report/recorded/node-failures-tap.txt").replace("1..10\n", &passing);
        let tail = tail(&output, 8 * 1024);
        assert!(tail.len() <= 8 * 1024 && tail.ends_with("# duration_ms 363.587008\n"), "{}", tail.len());
        let text = chosen(&tail);
        assert!(text.contains("not ok 2 - adds up its prices") && text.contains("-3 !== 3"), "{text}");
        assert!(!text.contains("passes 1999"), "{text}");
    }

    #[test]
    fn the_same_holds_for_others_that_print_much_behind_a_failure() {
        let noise: String = (0..40).map(|n| format!("-----|{n}.js | 100 | 100 |\n")).collect();
        let jest = format!("{}{noise}", include_str!("report/recorded/jest.txt"));
        let text = chosen(&jest);
        assert!(text.starts_with("  ● sum › fails") && text.contains("Expected: 2"), "{text}");
        let tape = chosen(include_str!("report/recorded/tape.txt"));
        assert!(tape.starts_with("not ok 2 should be strictly equal\n    expected: 2\n    actual:   1"), "{tape}");
        assert!(!tape.contains("# pass"), "{tape}");
    }

    #[test]
    fn of_all_others_the_last_lines_are_shown() {
        for output in [
            include_str!("report/recorded/cargo.txt"),
            include_str!("report/recorded/pytest.txt"),
            include_str!("report/recorded/mocha.txt"),
            include_str!("report/recorded/bats.txt"),
            "sh: 1: pytest: not found\n",
        ] {
            assert_eq!(chosen(output), last_lines(output, LINES, BYTES));
        }
    }

    #[test]
    fn of_a_file_that_node_cannot_load_the_error_is_told() {
        let node = chosen(include_str!("report/recorded/node-unloaded.txt"));
        let expected = [
            "not ok 1 - /workspace/test/a.test.js",
            "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'left-pad' imported from /workspace/test/a.test.js",
            "  location: '/workspace/test/a.test.js:1:1'",
            "  error: 'test failed'",
            "not ok 3 - /workspace/test/c.test.js",
            "file:///workspace/test/c.test.js:3",
            "SyntaxError: Unexpected end of input",
            "  location: '/workspace/test/c.test.js:1:1'",
            "  error: 'test failed'",
        ];
        assert_eq!(node.lines().collect::<Vec<_>>(), expected);
        let spec = chosen(include_str!("report/recorded/node-unloaded-spec.txt"));
        for words in
            ["Cannot find package 'left-pad'", "c.test.js:3\nSyntaxError: Unexpected end of input\n  'test failed'"]
        {
            assert!(spec.contains(words), "{spec}");
        }
    }

    #[test]
    fn more_failures_than_fit_are_counted() {
        let many: String = (1..=50).map(|n| format!("not ok {n} - case {n}\n  error: 'no {n}'\n")).collect();
        let text = chosen(&format!("TAP version 13\n{many}# fail 50\n"));
        assert!(text.starts_with("not ok 1 - case 1\n  error: 'no 1'\nnot ok 2"), "{text}");
        assert!(text.ends_with(" more failures") && text.lines().count() <= LINES, "{text}");
    }
}
