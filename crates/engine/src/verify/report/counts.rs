//! Reads how many tests passed and failed from what a test runner printed. What it cannot read it leaves open.

use super::shown_lines;

/// `None` where the output does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub passed: Option<u64>,
    pub failed: Option<u64>,
    pub skipped: Option<u64>,
}

impl Counts {
    fn of(passed: u64, failed: u64, skipped: u64) -> Self {
        Self { passed: Some(passed), failed: Some(failed), skipped: Some(skipped) }
    }

    fn add(&mut self, other: Self) {
        let sum = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a + b.unwrap_or(0)));
        self.passed = sum(self.passed, other.passed);
        self.failed = sum(self.failed, other.failed);
        self.skipped = sum(self.skipped, other.skipped);
    }

    /// Tests that really ran.
    pub fn executed(&self) -> Option<u64> {
        Some(self.passed? + self.failed?)
    }
}

/// Reads the summaries of one test runner.
type Reader = fn(&[String]) -> Option<Counts>;

/// The sum of all summaries of all test runners whose formats are found: one command often runs several of them.
pub fn read_counts(output: &str) -> Counts {
    // nextest shows the output of a test that failed indented, and in it a summary of that test alone.
    let is_quoted = |line: &String| line.starts_with(' ') && line.trim_start().starts_with("test result:");
    let lines = shown_lines(output).filter(|line| !is_quoted(line));
    let lines: Vec<String> = lines.map(|line| line.trim().to_owned()).collect();
    // Each of these has words that no other one prints.
    let own: [Reader; 16] = [
        nextest, cargo, maven, gradle, unittest, jest, mocha, node, ava, phpunit, minitest, ctest, bats, go, pytest,
        rspec,
    ];
    // These read what others print as well, so they count only where there is nothing better.
    let shared: [Reader; 3] = [worded, tap, none];
    let prints_tap = [node as Reader, ava, bats].iter().any(|read| read(&lines).is_some());
    let whole_tap: Option<Reader> = (!prints_tap && names_all_tests(&lines)).then_some(tap);
    let sum = own.iter().chain(&whole_tap).filter_map(|read| read(&lines)).reduce(|mut sum, next| {
        sum.add(next);
        sum
    });
    sum.or_else(|| shared.iter().find_map(|read| read(&lines))).unwrap_or_default()
}

/// The number right before a word: `before("3 passed; 1 failed", "failed")` is 1.
fn before(line: &str, word: &str) -> Option<u64> {
    let words: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '(' | ')' | '='))
        .filter(|word| !word.is_empty())
        .collect();
    words.windows(2).find(|pair| pair[1].trim_end_matches('.') == word).and_then(|pair| pair[0].parse().ok())
}

/// The number right behind a word: `after("# pass 3", "pass")` is 3.
fn after(line: &str, word: &str) -> Option<u64> {
    let words: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | ':' | '=' | '(' | ')'))
        .filter(|word| !word.is_empty())
        .collect();
    words.windows(2).find(|pair| pair[0] == word).and_then(|pair| pair[1].parse().ok())
}

fn total(lines: &[String], read: impl Fn(&str) -> Option<Counts>) -> Option<Counts> {
    lines.iter().filter_map(|line| read(line)).reduce(|mut sum, next| {
        sum.add(next);
        sum
    })
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; …`, once per binary.
fn cargo(lines: &[String]) -> Option<Counts> {
    total(lines, |line| {
        let line = line.strip_prefix("test result:")?;
        Some(Counts::of(before(line, "passed")?, before(line, "failed")?, before(line, "ignored").unwrap_or(0)))
    })
}

/// `Summary [ 0.1s] 5 tests run: 4 passed, 1 failed, 2 skipped`
fn nextest(lines: &[String]) -> Option<Counts> {
    total(lines, |line| {
        let (_, line) = line.strip_prefix("Summary")?.split_once("run:")?;
        Some(Counts::of(
            before(line, "passed")?,
            before(line, "failed").unwrap_or(0),
            before(line, "skipped").unwrap_or(0),
        ))
    })
}

/// `Tests run: 3, Failures: 1, Errors: 0, Skipped: 0`, once per module. The lines of single classes tell their time as well.
fn maven(lines: &[String]) -> Option<Counts> {
    let read = |line: &str| {
        if !(line.contains("Tests run:") && line.contains("Failures:")) {
            return None;
        }
        let failed = after(line, "Failures")? + after(line, "Errors")?;
        let skipped = after(line, "Skipped").unwrap_or(0);
        Some(Counts::of(after(line, "run")?.saturating_sub(failed + skipped), failed, skipped))
    };
    let of_modules = total(lines, |line| read(line).filter(|_| !line.contains("Time elapsed")));
    of_modules.or_else(|| total(lines, read))
}

/// `Ran 3 tests in 0.001s`, then `OK` or `FAILED (failures=1, errors=1, skipped=1)`.
fn unittest(lines: &[String]) -> Option<Counts> {
    let mut sum: Option<Counts> = None;
    let mut ran = None;
    for line in lines {
        if line.starts_with("Ran ") && line.contains(" in ") {
            ran = after(line, "Ran");
        } else if ["OK", "FAILED", "NO TESTS RAN"].iter().any(|word| line.starts_with(word))
            && let Some(ran) = ran.take()
        {
            let failed = after(line, "failures").unwrap_or(0) + after(line, "errors").unwrap_or(0);
            let skipped = after(line, "skipped").unwrap_or(0);
            sum.get_or_insert_default().add(Counts::of(ran.saturating_sub(failed + skipped), failed, skipped));
        }
    }
    sum
}

/// `Tests:  1 failed, 2 passed, 3 total` and vitest's `Tests  1 failed | 2 passed (3)`.
fn jest(lines: &[String]) -> Option<Counts> {
    total(lines, |line| {
        let words = ["passed", "failed", "skipped", "todo"];
        line.strip_prefix("Tests").filter(|rest| words.iter().any(|word| rest.contains(word)))?;
        let skipped = before(line, "skipped").or_else(|| before(line, "todo")).unwrap_or(0);
        Some(Counts::of(before(line, "passed").unwrap_or(0), before(line, "failed").unwrap_or(0), skipped))
    })
}

/// `3 passing (5ms)`, `1 failing`, `1 pending`.
fn mocha(lines: &[String]) -> Option<Counts> {
    // The number is the line's first word.
    let sum = |word: &str| {
        let told = lines.iter().filter_map(|line| {
            let mut words = line.split_whitespace();
            words.next()?.parse::<u64>().ok().filter(|_| words.next() == Some(word))
        });
        told.reduce(|sum, next| sum + next)
    };
    Some(Counts::of(sum("passing")?, sum("failing").unwrap_or(0), sum("pending").unwrap_or(0)))
}

/// `# pass 3` or `ℹ pass 3`, of node's own runner.
fn node(lines: &[String]) -> Option<Counts> {
    let sum = |word: &str| {
        let told = lines.iter().filter_map(|line| {
            let rest = line.strip_prefix('#').or_else(|| line.strip_prefix('ℹ'))?.trim();
            rest.strip_prefix(word)?.trim().parse::<u64>().ok()
        });
        told.reduce(|sum, next| sum + next)
    };
    Some(Counts::of(sum("pass ")?, sum("fail ")?, sum("skipped ").unwrap_or(0)))
}

/// `5 tests passed`, `1 test failed`, `2 tests skipped`, each on a line of its own, once per run. When some failed, only the
/// marks tell how many passed.
fn ava(lines: &[String]) -> Option<Counts> {
    let (mut sum, mut run) = (None, AvaRun::default());
    for line in lines {
        if ["✔ ", "✘ "].iter().any(|mark| line.starts_with(mark)) {
            // Marks come before the summary of their run.
            if run.has_summary() {
                run.finish(&mut sum);
            }
            run.marked += u64::from(line.starts_with("✔ "));
        }
        let Some((Ok(number), rest)) = line.split_once(' ').map(|(number, rest)| (number.parse::<u64>(), rest)) else {
            continue;
        };
        let word = rest.strip_prefix("tests ").or_else(|| rest.strip_prefix("test ")).unwrap_or_default();
        if run.told(word).is_some_and(|told| told.is_some()) {
            run.finish(&mut sum);
        }
        if let Some(told) = run.told(word) {
            *told = Some(number);
        }
    }
    if run.has_summary() {
        run.finish(&mut sum);
    }
    sum
}

#[derive(Default)]
struct AvaRun {
    marked: u64,
    passed: Option<u64>,
    failed: Option<u64>,
    skipped: Option<u64>,
}

impl AvaRun {
    fn told(&mut self, word: &str) -> Option<&mut Option<u64>> {
        match word {
            "passed" => Some(&mut self.passed),
            "failed" => Some(&mut self.failed),
            "skipped" => Some(&mut self.skipped),
            _ => None,
        }
    }

    fn has_summary(&self) -> bool {
        self.passed.is_some() || self.failed.is_some() || self.skipped.is_some()
    }

    /// Adds this run to the others, and begins the next.
    fn finish(&mut self, sum: &mut Option<Counts>) {
        let passed = self.passed.unwrap_or(self.marked);
        let counts = Counts::of(passed, self.failed.unwrap_or(0), self.skipped.unwrap_or(0));
        sum.get_or_insert_default().add(counts);
        *self = Self::default();
    }
}

/// `5 tests completed, 1 failed, 1 skipped`, once per task that has failures.
fn gradle(lines: &[String]) -> Option<Counts> {
    total(lines, |line| {
        let (number, rest) = line.split_once(' ')?;
        let rest = rest.strip_prefix("tests completed").or_else(|| rest.strip_prefix("test completed"))?;
        let (failed, skipped) = (before(rest, "failed").unwrap_or(0), before(rest, "skipped").unwrap_or(0));
        Some(Counts::of(number.parse::<u64>().ok()?.saturating_sub(failed + skipped), failed, skipped))
    })
}

/// `OK (5 tests, 8 assertions)` or `Tests: 5, Assertions: 8, Failures: 1, Errors: 1, Skipped: 1.`
fn phpunit(lines: &[String]) -> Option<Counts> {
    total(lines, |line| {
        if let Some(rest) = line.strip_prefix("OK (") {
            let ran = before(rest, "tests").or_else(|| before(rest, "test"))?;
            return rest.contains("assertion").then(|| Counts::of(ran, 0, 0));
        }
        let rest = line.strip_prefix("Tests: ").filter(|rest| rest.contains("Assertions:"))?.trim_end_matches('.');
        let ran = rest.split(',').next()?.trim().parse::<u64>().ok()?;
        let failed = after(rest, "Failures").unwrap_or(0) + after(rest, "Errors").unwrap_or(0);
        let skipped = after(rest, "Skipped").unwrap_or(0) + after(rest, "Incomplete").unwrap_or(0);
        Some(Counts::of(ran.saturating_sub(failed + skipped), failed, skipped))
    })
}

/// `5 runs, 8 assertions, 1 failures, 1 errors, 1 skips`; test-unit says `tests` and `pendings`.
fn minitest(lines: &[String]) -> Option<Counts> {
    total(lines, |line| {
        let ran = before(line, "runs").or_else(|| before(line, "tests").filter(|_| line.contains(" assertions, ")))?;
        let failed = before(line, "failures")? + before(line, "errors")?;
        let skipped = before(line, "skips").or_else(|| before(line, "pendings")).unwrap_or(0);
        Some(Counts::of(ran.saturating_sub(failed + skipped), failed, skipped))
    })
}

/// `67% tests passed, 1 tests failed out of 3`, in which tests that were skipped count as passed.
fn ctest(lines: &[String]) -> Option<Counts> {
    let skipped = lines.iter().filter(|line| line.contains("***Skipped")).count() as u64;
    let counts = total(lines, |line| {
        let (_, rest) = line.split_once("% tests passed, ")?;
        let (failed, all) =
            rest.split_once(" tests failed out of ").or_else(|| rest.split_once(" test failed out of "))?;
        let (failed, all) = (failed.parse().ok()?, all.trim().parse::<u64>().ok()?);
        Some(Counts::of(all.saturating_sub(failed), failed, 0))
    })?;
    Some(Counts::of(counts.passed?.saturating_sub(skipped), counts.failed?, skipped))
}

/// `3 tests, 1 failure, 1 skipped`
fn bats(lines: &[String]) -> Option<Counts> {
    total(lines, |line| {
        let ran = before(line, "tests").or_else(|| before(line, "test"))?;
        let failed = before(line, "failures").or_else(|| before(line, "failure"))?;
        let skipped = before(line, "skipped").unwrap_or(0);
        let is_other = line.contains("assertion");
        let is_whole = line.starts_with(|c: char| c.is_ascii_digit()) && line.len() < 80 && !is_other;
        is_whole.then(|| Counts::of(ran.saturating_sub(failed + skipped), failed, skipped))
    })
}

/// Runners that found nothing to run say so in words: pytest, Jest, Vitest, Mocha, CTest, Maven and Go.
fn none(lines: &[String]) -> Option<Counts> {
    const WORDS: [&str; 7] = [
        "no tests ran",
        "No tests found",
        "No test files found",
        "No test suite found",
        "collected 0 items",
        "No tests were found!!!",
        "No tests to run.",
    ];
    let is_none = lines.iter().any(|line| WORDS.iter().any(|words| line.contains(words)));
    (is_none || none_of_go(lines)).then(|| Counts::of(0, 0, 0))
}

/// Of each package, `go test` says that it has no tests.
fn none_of_go(lines: &[String]) -> bool {
    let is_empty = |line: &str| line.ends_with("[no test files]") || line.ends_with("[no tests to run]");
    let is_told = |line: &str| line.starts_with("ok") || line.starts_with("FAIL");
    lines.iter().any(|line| is_empty(line)) && !lines.iter().any(|line| is_told(line) && !is_empty(line))
}

/// `=== 1 failed, 3 passed, 2 skipped in 0.12s ===`, `2 deselected in 0.02s` and `no tests ran in 0.01s`.
fn pytest(lines: &[String]) -> Option<Counts> {
    total(lines, |line| {
        let line = line.trim_matches('=').trim();
        let (told, time) = line.rsplit_once(" in ")?;
        let seconds = time.split(' ').next()?.strip_suffix('s')?;
        seconds.parse::<f64>().ok()?;
        if told == "no tests ran" {
            return Some(Counts::of(0, 0, 0));
        }
        told.split(' ').next()?.parse::<u64>().ok()?;
        let count = |words: &[&str]| words.iter().filter_map(|word| before(told, word)).next();
        let (passed, failed) = (count(&["passed"]), count(&["failed"]));
        let (errors, skipped) = (count(&["error", "errors"]), count(&["skipped"]));
        let is_told = passed.or(failed).or(errors).or(skipped).or(count(&["deselected"])).is_some();
        is_told
            .then(|| Counts::of(passed.unwrap_or(0), failed.unwrap_or(0) + errors.unwrap_or(0), skipped.unwrap_or(0)))
    })
}

/// `--- PASS: TestX (0.00s)` lines of `go test -v`.
fn go(lines: &[String]) -> Option<Counts> {
    let count = |word: &str| lines.iter().filter(|line| line.starts_with(word)).count() as u64;
    let counts = Counts::of(count("--- PASS:"), count("--- FAIL:"), count("--- SKIP:"));
    (counts != Counts::of(0, 0, 0)).then_some(counts)
}

/// Whether TAP has a line for each test. A suite may print `not ok` alone, and count the others in a summary of its own.
fn names_all_tests(lines: &[String]) -> bool {
    lines.iter().any(|line| line.starts_with("ok ") || line.starts_with("1.."))
}

/// `ok 1 - name` and `not ok 2 - name`; `1..0` where there are none.
fn tap(lines: &[String]) -> Option<Counts> {
    let numbered = |line: &str, word: &str| {
        line.strip_prefix(word).is_some_and(|rest| rest.trim_start().starts_with(|c: char| c.is_ascii_digit()))
    };
    let count = |test: &dyn Fn(&str) -> bool| lines.iter().filter(|line| test(line)).count() as u64;
    let skipped = count(&|line| numbered(line, "ok ") && line.to_ascii_lowercase().contains("# skip"));
    let counts =
        Counts::of(count(&|line| numbered(line, "ok ")) - skipped, count(&|line| numbered(line, "not ok ")), skipped);
    let is_empty = |line: &String| line == "1..0" || line.starts_with("1..0 ");
    (counts != Counts::of(0, 0, 0) || lines.iter().any(is_empty)).then_some(counts)
}

/// `3 examples, 1 failure, 1 pending`
fn rspec(lines: &[String]) -> Option<Counts> {
    total(lines, |line| {
        let examples = before(line, "examples").or_else(|| before(line, "example"))?;
        let failed = before(line, "failures").or_else(|| before(line, "failure"))?;
        let skipped = before(line, "pending").unwrap_or(0);
        let is_whole = line.starts_with(|c: char| c.is_ascii_digit());
        is_whole.then(|| Counts::of(examples.saturating_sub(failed + skipped), failed, skipped))
    })
}

/// Anything that says `3 passed`, `1 failed`: the last word.
fn worded(lines: &[String]) -> Option<Counts> {
    lines.iter().rev().find_map(|line| {
        let (passed, failed) = (before(line, "passed"), before(line, "failed"));
        let errors = before(line, "errors").or_else(|| before(line, "error"));
        if passed.is_none() && failed.is_none() && errors.is_none() {
            return None;
        }
        Some(Counts::of(
            passed.unwrap_or(0),
            failed.unwrap_or(0) + errors.unwrap_or(0),
            before(line, "skipped").unwrap_or(0),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summaries_of_real_test_runners() {
        let cases = [
            (
                "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\ntest result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured",
                Counts::of(4, 2, 1),
            ),
            ("     Summary [   0.041s] 5 tests run: 4 passed, 1 failed, 2 skipped", Counts::of(4, 1, 2)),
            ("========= 1 failed, 3 passed, 2 skipped in 0.12s =========", Counts::of(3, 1, 2)),
            ("\u{1b}[32m\u{1b}[1m2 passed\u{1b}[0m\u{1b}[32m in 0.01s\u{1b}[0m", Counts::of(2, 0, 0)),
            ("...F\nRan 4 tests in 0.001s\n\nFAILED (failures=1, skipped=1)", Counts::of(2, 1, 1)),
            ("Ran 2 tests in 0.000s\n\nOK", Counts::of(2, 0, 0)),
            ("Tests:       1 failed, 2 passed, 3 total", Counts::of(2, 1, 0)),
            ("      Tests  1 failed | 2 passed (3)", Counts::of(2, 1, 0)),
            ("# tests 4\n# pass 3\n# fail 1\n# skipped 0", Counts::of(3, 1, 0)),
            ("  3 passing (5ms)\n  1 failing", Counts::of(3, 1, 0)),
            ("--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL", Counts::of(1, 1, 0)),
            ("Tests run: 5, Failures: 1, Errors: 1, Skipped: 1", Counts::of(2, 2, 1)),
            ("7 examples, 2 failures, 1 pending", Counts::of(4, 2, 1)),
            ("1..3\nok 1 - a\nnot ok 2 - b\nok 3 # SKIP later", Counts::of(1, 1, 1)),
            ("2 passed, 0 failed", Counts::of(2, 0, 0)),
            ("  1 test failed\n  2 tests passed\n  1 test skipped", Counts::of(2, 1, 1)),
            ("OK (5 tests, 8 assertions)", Counts::of(5, 0, 0)),
            ("FAILURES!\nTests: 5, Assertions: 8, Failures: 1, Errors: 1, Skipped: 1.", Counts::of(2, 2, 1)),
            ("5 runs, 8 assertions, 1 failures, 1 errors, 1 skips", Counts::of(2, 2, 1)),
            ("67% tests passed, 1 tests failed out of 3", Counts::of(2, 1, 0)),
            ("3 tests, 1 failure, 1 skipped", Counts::of(1, 1, 1)),
            ("collected 0 items\n\n===== no tests ran in 0.01s =====", Counts::of(0, 0, 0)),
            ("======= 2 deselected in 0.02s =======", Counts::of(0, 0, 0)),
            ("1 passed, 2 deselected in 0.02s", Counts::of(1, 0, 0)),
            ("Ran 0 tests in 0.000s\n\nNO TESTS RAN", Counts::of(0, 0, 0)),
            ("No test files found, exiting with code 1", Counts::of(0, 0, 0)),
        ];
        for (output, expected) in cases {
            assert_eq!(read_counts(output), expected, "{output}");
        }
    }

    #[test]
    fn where_all_tests_are_skipped_or_there_are_none_no_test_ran() {
        for (output, skipped) in [
            ("Tests:       2 skipped, 2 total", 2),
            ("Tests:       1 todo, 1 total", 1),
            ("      Tests  2 skipped (2)", 2),
            ("=== RUN   TestA\n--- SKIP: TestA (0.00s)\nPASS\nok  \texample.com/a\t0.002s", 1),
            ("1..2\nok 1 adds # skip not yet\nok 2 - divides # SKIP", 2),
            ("1..0 # SKIP nothing to do", 0),
            ("  - adds\n  ─\n\n  1 test skipped", 1),
            ("1/1 Test #1: adds .....***Skipped   0.00 sec\n\n100% tests passed, 0 tests failed out of 1", 1),
            ("?   \texample.com/a\t[no test files]\nok  \texample.com/b\t0.002s [no tests to run]", 0),
            ("No tests were found!!!", 0),
            ("[INFO] No tests to run.", 0),
        ] {
            assert_eq!(read_counts(output), Counts::of(0, 0, skipped), "{output}");
        }
        let one = "?   \texample.com/a\t[no test files]\nok  \texample.com/b\t0.002s";
        assert_eq!(read_counts(one), Counts::default(), "how many there are in b is not told");
    }

    #[test]
    fn the_counts_of_several_runners_in_one_command_are_added() {
        let cargo = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured";
        let pytest = "===== 1 failed, 3 passed, 2 skipped in 0.12s =====";
        let jest = "Tests:       1 failed, 2 passed, 3 total\nTime: 1 s";
        let unittest = "Ran 4 tests in 0.001s\n\nFAILED (failures=1, skipped=1)";
        let module = "Tests run: 5, Failures: 1, Errors: 1, Skipped: 1";
        let class = "Tests run: 5, Failures: 1, Errors: 1, Skipped: 1, Time elapsed: 0.1 s <<< FAILURE! -- in ATest";
        for (output, expected) in [
            (format!("{cargo}\n{pytest}"), Counts::of(4, 3, 2)),
            (format!("{pytest}\n{jest}"), Counts::of(5, 2, 2)),
            (format!("{jest}\n{jest}\n{unittest}"), Counts::of(6, 3, 1)),
            (format!("{unittest}\n{unittest}"), Counts::of(4, 2, 2)),
            (format!("{pytest}\n{pytest}"), Counts::of(6, 2, 4)),
            (format!("{pytest}\n7 examples, 2 failures, 1 pending\n3 tests, 1 failure"), Counts::of(9, 4, 3)),
            (format!("{cargo}\n1..2\nok 1 - a\nnot ok 2 - b"), Counts::of(2, 3, 0)),
            (format!("{class}\n{module}\n{class}\n{module}"), Counts::of(4, 4, 2)),
            (format!("  2 passing (5ms)\n  1 failing\n{cargo}\n  1 passing (1ms)"), Counts::of(4, 3, 0)),
            ("# tests 2\n# pass 1\n# fail 1\n# tests 1\n# pass 1\n# fail 0".to_owned(), Counts::of(2, 1, 0)),
        ] {
            assert_eq!(read_counts(&output), expected, "{output}");
        }
    }

    #[test]
    fn the_summaries_of_several_runs_of_ava_and_several_tasks_of_gradle_are_added() {
        let failing =
            "  ✔ adds\n  ✔ takes away\n  ✘ [fail]: fails\n  ─\n\n  1 test failed\n  1 known failure\n  1 test skipped";
        let passing = "  ✔ adds\n  ─\n\n  3 tests passed";
        let gradle = "> Task :a:test FAILED\n\n5 tests completed, 1 failed, 1 skipped\n";
        for (output, expected) in [
            (format!("{failing}\n\n{passing}"), Counts::of(5, 1, 1)),
            (format!("{passing}\n\n{failing}"), Counts::of(5, 1, 1)),
            (format!("{failing}\n\n{failing}"), Counts::of(4, 2, 2)),
            ("  2 tests passed\n\n  3 tests passed\n  1 test skipped".to_owned(), Counts::of(5, 0, 1)),
            (gradle.to_owned(), Counts::of(3, 1, 1)),
            (format!("{gradle}\n> Task :b:test FAILED\n\n2 tests completed, 2 failed"), Counts::of(3, 3, 1)),
            (format!("{gradle}\n1 test completed, 1 failed\n{passing}"), Counts::of(6, 2, 1)),
        ] {
            assert_eq!(read_counts(&output), expected, "{output}");
        }
    }

    #[test]
    fn a_suite_that_names_failures_alone_is_counted_by_its_summary() {
        for (output, expected) in [
            ("not ok 1 - divides\n1 passed, 1 failed", Counts::of(1, 1, 0)),
            ("not ok 1 - divides", Counts::of(0, 1, 0)),
            ("not ok 1 - divides\n1..1\n5 passed", Counts::of(0, 1, 0)),
            ("ok 1 - adds\nnot ok 2 - divides\n5 passed", Counts::of(1, 1, 0)),
        ] {
            assert_eq!(read_counts(output), expected, "{output}");
        }
    }

    #[test]
    fn what_cannot_be_read_stays_open() {
        assert_eq!(read_counts("all good\nok  \texample.com/x\t0.1s\n"), Counts::default());
    }
}
