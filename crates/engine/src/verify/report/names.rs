//! Which tests passed, failed and were skipped, in the words of the runners that tell.
//!
//! Every line is held against the formats of all runners, since one command often runs several of them.

use std::collections::{BTreeMap, HashMap, HashSet};

use harvest_core::TestNames;

use super::shown_lines;
use super::tree::{Tree, without_figures};
use super::wholes::{GO_PACKAGE, NOT_LOADED, SETUP_FAILED, WHOLE_FILE, is_load_error, is_node_file, split};

/// Longer names are cut.
const LONGEST: usize = 300;
/// Between the titles of suites and a test.
pub(super) const SEPARATOR: &str = " › ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// One test in one line.
pub(super) type Told = (Outcome, String);

/// `workspace` is the folder that the runner ran in; names of files in it are told without it.
pub fn read_names(output: &str, workspace: &str) -> TestNames {
    let within = format!("{}/", workspace.trim_end_matches('/'));
    let mut found: BTreeMap<String, Outcome> = BTreeMap::new();
    let (mut tree, mut sections) = (Tree::default(), Sections::default());
    for line in shown_lines(output) {
        sections.notice(&line);
        let told = read_line(&line).or_else(|| sections.read(&line)).or_else(|| tree.read(&line));
        let Some((outcome, name)) = told else { continue };
        let name = sections.titled(&line, name);
        let (plain, ending) = sections.without_ending(&line, outcome, &name);
        let plain = plain.strip_prefix(&within).unwrap_or(plain);
        if plain.is_empty() {
            continue;
        }
        let name = plain.chars().take(LONGEST).chain(ending.chars()).collect();
        // A test that several programs have, or that was tried again, failed if it failed once.
        let known = found.entry(name).or_insert(outcome);
        if outcome == Outcome::Failed || (*known == Outcome::Skipped && outcome == Outcome::Passed) {
            *known = outcome;
        }
    }
    let of = |wanted: Outcome| {
        let names = found.iter().filter(move |(_, outcome)| **outcome == wanted);
        names.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let failed = without_repeats(of(Outcome::Failed));
    TestNames { passed: of(Outcome::Passed), failed, skipped: of(Outcome::Skipped), cut: false, missing: None }
}

/// Some runners name a failed test twice: in the tree, and alone or with all its titles. The longer name is kept.
fn without_repeats(mut failed: Vec<String>) -> Vec<String> {
    let paths: Vec<String> = failed.iter().map(|name| name.replace(" > ", SEPARATOR)).collect();
    // The ends of all paths, and the length of the longest path between each first title and test.
    let (mut ends, mut longest) = (HashSet::new(), HashMap::new());
    let around = |path: &str| {
        let first = path.split(SEPARATOR).next().unwrap_or_default().to_owned();
        (first, path.rsplit(SEPARATOR).next().unwrap_or_default().to_owned())
    };
    for path in &paths {
        ends.extend(path.match_indices(SEPARATOR).filter_map(|(at, _)| path.get(at + SEPARATOR.len()..)));
        let length = path.matches(SEPARATOR).count();
        let known = longest.entry(around(path)).or_insert(length);
        *known = length.max(*known);
    }
    let (mut seen, mut repeated) = (HashSet::new(), Vec::with_capacity(paths.len()));
    for path in &paths {
        let is_shorter = longest.get(&around(path)).is_some_and(|longest| path.matches(SEPARATOR).count() < *longest);
        repeated.push(!seen.insert(path.as_str()) || ends.contains(path.as_str()) || is_shorter);
    }
    let mut repeated = repeated.into_iter();
    failed.retain(|_| repeated.next() != Some(true));
    failed
}

/// Formats that need no context.
fn read_line(line: &str) -> Option<Told> {
    let trimmed = line.trim();
    let readers: [fn(&str) -> Option<Told>; 8] = [nextest, pytest, unittest, go, ctest, minitest, gradle, failures];
    // nextest shows the output of a test that failed indented, and in it the line of the test once more.
    cargo(line).or_else(|| readers.iter().find_map(|read| read(trimmed))).or_else(|| tap(trimmed))
}

fn told(outcome: Outcome, name: &str) -> Option<Told> {
    Some((outcome, name.to_owned()))
}

/// A file or module whose tests did not run.
fn not_loaded(name: &str) -> Option<Told> {
    Some((Outcome::Failed, format!("{name}{NOT_LOADED}")))
}

/// `test module::name ... ok`
fn cargo(line: &str) -> Option<Told> {
    let (name, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let outcome = match outcome.split([',', ' ']).next()? {
        "ok" => Outcome::Passed,
        "FAILED" => Outcome::Failed,
        "ignored" => Outcome::Skipped,
        _ => return None,
    };
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    // A documentation test is named by its line, which moves.
    let name = name.rsplit_once(" (line ").filter(|(_, rest)| rest.ends_with(')')).map_or(name, |(name, _)| name);
    told(outcome, name)
}

/// `PASS [   0.004s] (1/3) crate::file module::name`
fn nextest(line: &str) -> Option<Told> {
    let (word, rest) = line.split_once(" [")?;
    let (time, name) = rest.split_once(']')?;
    if !time.trim().trim_start_matches('>').strip_suffix('s')?.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return None;
    }
    let name = name.trim_start();
    let counted = name.strip_prefix('(').and_then(|rest| rest.split_once(") "));
    let name = counted.filter(|(count, _)| count.contains('/')).map_or(name, |(_, name)| name);
    match word.trim() {
        "PASS" | "LEAK" | "FLAKY" => told(Outcome::Passed, name),
        "FAIL" | "TIMEOUT" | "ABORT" | "SIGABRT" | "SIGSEGV" | "SIGKILL" => told(Outcome::Failed, name),
        _ => None,
    }
}

/// `tests/test_a.py::test_x PASSED [ 50%]`, `FAILED tests/test_a.py::test_x - assert …` and, side by side,
/// `[gw0] [ 50%] PASSED tests/test_a.py::test_x`. Of a file that cannot be imported `ERROR tests/test_a.py - …`.
fn pytest(line: &str) -> Option<Told> {
    let outcome = |word: &str| match word {
        "PASSED" | "XPASS" => Some(Outcome::Passed),
        "FAILED" | "ERROR" => Some(Outcome::Failed),
        "SKIPPED" | "XFAIL" => Some(Outcome::Skipped),
        _ => None,
    };
    let line = match line.strip_prefix("[gw") {
        Some(rest) => rest.split_once("] [")?.1.split_once("] ")?.1,
        None => line,
    };
    let heading = line.trim_matches('_').trim();
    if let Some(name) = heading.strip_prefix("ERROR collecting ").filter(|name| name.ends_with(".py")) {
        return not_loaded(name);
    }
    if let Some((word, rest)) = line.split_once(' ')
        && let Some(outcome) = outcome(word)
    {
        let name = rest.split_once(" - ").map_or(rest, |(name, _)| name);
        return match name.contains(".py::") {
            true => told(outcome, name),
            false if word == "ERROR" && name.ends_with(".py") => not_loaded(name),
            false => None,
        };
    }
    let (name, _) = line.split_once(".py::")?;
    if name.contains(' ') {
        return None;
    }
    let line =
        line.rsplit_once(" [").filter(|(_, rest)| rest.ends_with("%]")).map_or(line, |(line, _)| line).trim_end();
    let mut words = line.match_indices(' ').map(|(at, _)| (&line[..at], line[at..].trim_start()));
    words.find_map(|(name, rest)| {
        let word = rest.split(' ').next()?;
        let ends = rest.len() == word.len() || rest[word.len()..].trim_start().starts_with('(');
        outcome(word).filter(|_| ends).map(|outcome| (outcome, name.trim_end().to_owned()))
    })
}

/// `test_x (module.Class.test_x) ... ok` and, of those that failed, `FAIL: test_x (module.Class.test_x)`. A module that cannot be
/// imported is `ERROR: module (unittest.loader._FailedTest.module)`, and so it was without the last word.
fn unittest(line: &str) -> Option<Told> {
    const LOADER: [&str; 2] = ["unittest.loader._FailedTest.", "unittest.loader.ModuleImportFailure."];
    let full = |name: &str, rest: &str| {
        let (place, rest) = rest.split_once(')')?;
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '<' | '>');
        let is_set_up = matches!(name, "setUpClass" | "setUpModule");
        if name.is_empty() || name.contains(' ') || !place.chars().all(plain) || !(is_set_up || place.contains('.')) {
            return None;
        }
        let whole = if place.ends_with(&format!(".{name}")) { place.to_owned() } else { format!("{place}.{name}") };
        let name = match LOADER.iter().find_map(|loader| whole.strip_prefix(loader)) {
            Some(module) => format!("{module}{NOT_LOADED}"),
            None if is_set_up => format!("{place}{SETUP_FAILED}"),
            None => whole,
        };
        Some((name, rest.to_owned()))
    };
    for word in ["FAIL: ", "ERROR: "] {
        if let Some((name, rest)) = line.strip_prefix(word).and_then(|line| line.split_once(" (")) {
            return full(name, rest).map(|(name, _)| (Outcome::Failed, name));
        }
    }
    let (name, rest) = line.split_once(" (")?;
    let (name, rest) = full(name, rest)?;
    let outcome = match rest.rsplit_once("... ")?.1.split(' ').next()? {
        "ok" | "expected" => Outcome::Passed,
        "FAIL" | "ERROR" | "unexpected" => Outcome::Failed,
        "skipped" => Outcome::Skipped,
        _ => return None,
    };
    Some((outcome, name))
}

/// `--- PASS: TestX/case (0.00s)`
fn go(line: &str) -> Option<Told> {
    let (word, rest) = line.strip_prefix("--- ")?.split_once(": ")?;
    let name = rest.rsplit_once(" (").map_or(rest, |(name, _)| name);
    match word {
        "PASS" => told(Outcome::Passed, name),
        "FAIL" => told(Outcome::Failed, name),
        "SKIP" => told(Outcome::Skipped, name),
        _ => None,
    }
}

/// `1/3 Test  #1: name .......   Passed    0.01 sec`
fn ctest(line: &str) -> Option<Told> {
    let (count, rest) = line.split_once(" Test ")?;
    if !count.contains('/') || !count.bytes().all(|byte| byte.is_ascii_digit() || byte == b'/' || byte == b' ') {
        return None;
    }
    let (number, rest) = rest.trim_start().strip_prefix('#')?.split_once(": ")?;
    number.parse::<u32>().ok()?;
    let (name, rest) = rest.split_once(' ')?;
    let result = rest.trim_start_matches(['.', ' ', '*']);
    let passed = result.starts_with("Passed");
    let skipped = result.starts_with("Skipped") || result.starts_with("Not Run (Disabled)");
    told(
        if passed {
            Outcome::Passed
        } else if skipped {
            Outcome::Skipped
        } else {
            Outcome::Failed
        },
        name,
    )
}

/// `FooTest#test_bar = 0.00 s = .`
fn minitest(line: &str) -> Option<Told> {
    let (name, rest) = line.split_once(" = ")?;
    let (time, letter) = rest.split_once(" s = ")?;
    time.parse::<f64>().ok()?;
    if !name.contains('#') {
        return None;
    }
    match letter.trim() {
        "." => told(Outcome::Passed, name),
        "F" | "E" => told(Outcome::Failed, name),
        "S" => told(Outcome::Skipped, name),
        _ => None,
    }
}

/// `com.example.FooTest > bar() PASSED`
fn gradle(line: &str) -> Option<Told> {
    let (name, word) = line.rsplit_once(' ')?;
    if !name.contains(" > ") {
        return None;
    }
    match word {
        "PASSED" => told(Outcome::Passed, name),
        "FAILED" => told(Outcome::Failed, name),
        "SKIPPED" => told(Outcome::Skipped, name),
        _ => None,
    }
}

/// Runners that name only what failed: `● suite › name` (Jest), `FAIL  file > suite > name` (Vitest),
/// `rspec ./spec/a_spec.rb:3 # suite name`, `[ERROR] FooTest.bar -- Time elapsed: 0.1 s <<< FAILURE!` (Maven).
fn failures(line: &str) -> Option<Told> {
    if let Some(name) = line.strip_prefix("● ") {
        return if name.contains(" › ") { told(Outcome::Failed, name) } else { None };
    }
    if let Some(name) = line.strip_prefix("FAIL  ") {
        // A file that cannot be loaded is told with its path: `FAIL  a.test.ts [ a.test.ts ]`.
        let file = name.strip_suffix(" ]").and_then(|name| name.rsplit_once(" [ "));
        return match file.filter(|(name, path)| name.ends_with(path)) {
            Some((name, _)) => not_loaded(name),
            None if name.contains(" > ") => told(Outcome::Failed, name),
            None => None,
        };
    }
    if let Some(rest) = line.strip_prefix("rspec ./") {
        return rest.split_once(" # ").and_then(|(_, name)| told(Outcome::Failed, name));
    }
    if line.ends_with("<<< FAILURE!") || line.ends_with("<<< ERROR!") {
        let name = line.strip_prefix("[ERROR] ").unwrap_or(line).split_whitespace().next()?;
        return if name.contains('.') || name.contains('(') { told(Outcome::Failed, name) } else { None };
    }
    None
}

/// `ok 1 - name`, `not ok 2 - name # TODO`
fn tap(line: &str) -> Option<Told> {
    let (passed, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok ")?),
    };
    let (number, name) = rest.split_once(' ')?;
    number.parse::<u64>().ok()?;
    let name = name.trim_start().strip_prefix("- ").unwrap_or(name);
    let (name, directive) = name.split_once(" # ").or_else(|| name.split_once("# ")).unwrap_or((name, ""));
    let directive = directive.to_ascii_lowercase();
    let outcome = if directive.starts_with("skip") || directive.starts_with("todo") {
        Outcome::Skipped
    } else if passed {
        Outcome::Passed
    } else {
        Outcome::Failed
    };
    told(outcome, name.trim_end_matches(" {"))
}

/// What earlier lines say about the next ones, such as a heading above a list of failures.
#[derive(Debug, Default)]
struct Sections {
    phpunit: Option<Outcome>,
    minitest: Option<Outcome>,
    /// A test of the Go package that is being told of has failed.
    go_test_failed: bool,
    /// The test of tape whose assertions are being told of; `None` before TAP begins.
    tape_title: Option<String>,
    /// The file that Jest tells about.
    jest_file: Option<String>,
    /// Since the last outcome at the margin of TAP there were some below it.
    has_subtests: bool,
    /// Since the last outcome at the margin something was printed that tells of a file that cannot be loaded.
    has_load_error: bool,
}

impl Sections {
    /// Remembers what has to be known when a later line is read.
    fn notice(&mut self, line: &str) {
        if let Some(file) = line.strip_prefix("FAIL ").filter(|rest| !rest.starts_with(' ')) {
            self.jest_file = Some(without_figures(file).to_owned());
        } else if line.starts_with("PASS ") {
            self.jest_file = None;
        }
        self.has_load_error |= is_load_error(line);
        let is_outcome = ["ok ", "not ok "].iter().any(|start| line.trim_start().starts_with(start));
        self.has_subtests |= is_outcome && line.starts_with(' ');
        self.go_test_failed |= line.trim_start().starts_with("--- FAIL: ");
        if line == "TAP version 13" {
            self.tape_title = Some(String::new());
        } else if let (Some(title), Some(comment)) = (&mut self.tape_title, line.strip_prefix("# ")) {
            comment.trim().clone_into(title);
        }
    }

    /// tape tells assertions, which many tests share (`ok 3 should be equal`), below a comment with the name of their test.
    /// Others write a dash before the name of a test.
    fn titled(&self, line: &str, name: String) -> String {
        let rest = line.strip_prefix("not ok ").or_else(|| line.strip_prefix("ok "));
        let is_assertion = rest.and_then(|rest| rest.split_once(' ')).is_some_and(|(_, rest)| !rest.starts_with("- "));
        match &self.tape_title {
            Some(title) if is_assertion && !title.is_empty() => format!("{title}{SEPARATOR}{name}"),
            _ => name,
        }
    }

    /// The name, and what stands behind it if it is that of a file, module or package that failed as a whole. `node --test` and
    /// node-tap tell of a file as of a test. Where its tests run, they are told above it, or instead of it.
    fn without_ending<'n>(&mut self, line: &str, outcome: Outcome, name: &'n str) -> (&'n str, &'static str) {
        let (plain, ending) = split(name.trim());
        if line.starts_with(char::is_whitespace) {
            return (plain, ending);
        }
        let is_tap = line.starts_with("not ok ") || line.starts_with("ok ");
        let has_subtests = std::mem::take(&mut self.has_subtests) && is_tap;
        let has_load_error = std::mem::take(&mut self.has_load_error);
        let is_file = is_tap && outcome == Outcome::Failed && !has_subtests && is_node_file(plain);
        match is_file || ending == WHOLE_FILE {
            true if has_load_error => (plain, NOT_LOADED),
            true => (plain, WHOLE_FILE),
            false => (plain, ending),
        }
    }

    /// `FAIL⇥example.com/a [build failed]`, and `FAIL⇥example.com/a⇥0.1s` of a package none of whose tests is named.
    fn go_package(&mut self, line: &str) -> Option<Told> {
        let (word, rest) = line.split_once(['\t', ' '])?;
        let name = rest.trim().split(['\t', ' ']).next().filter(|name| !name.is_empty())?;
        match word {
            "ok" | "---" | "?" => {
                self.go_test_failed &= word == "---";
                None
            }
            "FAIL" => {
                let had_named = std::mem::take(&mut self.go_test_failed);
                let whole = GO_PACKAGE.iter().find(|ending| rest.ends_with(**ending));
                let timed = rest
                    .rsplit_once('\t')
                    .is_some_and(|(_, time)| time.strip_suffix('s').is_some_and(|time| time.parse::<f64>().is_ok()));
                match whole {
                    Some(ending) => told(Outcome::Failed, &format!("{name}{ending}")),
                    None if timed && !had_named => told(Outcome::Failed, &format!("{name} [failed]")),
                    None => None,
                }
            }
            _ => None,
        }
    }

    fn read(&mut self, line: &str) -> Option<Told> {
        let line = line.trim();
        if let Some(told) = self.go_package(line) {
            return Some(told);
        }
        if line == "● Test suite failed to run" {
            return self.jest_file.as_deref().and_then(not_loaded);
        }
        if let Some(rest) = line.strip_prefix("There was ").or_else(|| line.strip_prefix("There were ")) {
            self.phpunit = match rest.split_once(' ')?.1.trim_end_matches(':') {
                "failure" | "failures" | "error" | "errors" => Some(Outcome::Failed),
                "skipped test" | "skipped tests" | "incomplete test" | "incomplete tests" => Some(Outcome::Skipped),
                _ => None,
            };
            return None;
        }
        let numbered = line.split_once(") ").filter(|(number, _)| number.parse::<u32>().is_ok()).map(|(_, rest)| rest);
        let headed = numbered.unwrap_or(line);
        match headed {
            "Failure:" | "Error:" => {
                self.minitest = Some(Outcome::Failed);
                return None;
            }
            "Skipped:" => {
                self.minitest = Some(Outcome::Skipped);
                return None;
            }
            _ => {}
        }
        if let Some(outcome) = self.minitest.take() {
            let name = line.split([' ', ':']).next()?;
            return if name.contains('#') { told(outcome, name) } else { None };
        }
        let name = numbered.filter(|name| name.split(' ').next().is_some_and(|word| word.contains("::")))?;
        told(self.phpunit?, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(passed: &[&str], failed: &[&str], skipped: &[&str]) -> TestNames {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        TestNames { passed: owned(passed), failed: owned(failed), skipped: owned(skipped), cut: false, missing: None }
    }

    #[test]
    fn tests_are_named_as_each_runner_names_them() {
        let cases = [
            (
                "cargo",
                "running 3 tests\ntest a::one ... ok\ntest a::two ... FAILED\ntest b - should panic ... ok\ntest src/lib.rs - add (line 12) ... ok\ntest c ... ignored, slow",
                names(&["a::one", "b", "src/lib.rs - add"], &["a::two"], &["c"]),
            ),
            (
                "nextest",
                "        PASS [   0.004s] (1/2) app::it good\n        FAIL [   0.104s] (2/2) app::it bad\n     Summary [   0.1s] 2 tests run: 1 passed, 1 failed, 0 skipped",
                names(&["app::it good"], &["app::it bad"], &[]),
            ),
            (
                "pytest -v",
                "tests/test_a.py::test_x PASSED                    [ 33%]\ntests/test_a.py::test_y[a b] FAILED   [ 66%]\ntests/test_a.py::test_z SKIPPED (later)  [100%]\nFAILED tests/test_a.py::test_y[a b] - assert 1 == 2\nERROR tests/test_b.py",
                names(
                    &["tests/test_a.py::test_x"],
                    &["tests/test_a.py::test_y[a b]", "tests/test_b.py [not loaded]"],
                    &["tests/test_a.py::test_z"],
                ),
            ),
            ("pytest -n 2", "[gw0] [ 50%] PASSED test_a.py::test_x", names(&["test_a.py::test_x"], &[], &[])),
            (
                "unittest -v",
                "test_a (test_m.T.test_a) ... ok\ntest_b (test_m.T.test_b) ... FAIL\ntest_c (test_m.T) ... skipped 'no'\n\n======\nFAIL: test_b (test_m.T.test_b)",
                names(&["test_m.T.test_a"], &["test_m.T.test_b"], &["test_m.T.test_c"]),
            ),
            (
                "go test -v",
                "=== RUN   TestA\n--- FAIL: TestA (0.00s)\n    --- PASS: TestA/one (0.00s)\n    --- SKIP: TestA/two (0.00s)",
                names(&["TestA/one"], &["TestA"], &["TestA/two"]),
            ),
            (
                "go test, packages",
                "# example.com/b\nb/b.go:3:1: syntax error\n--- FAIL: TestA (0.00s)\nFAIL\nFAIL\texample.com/a\t0.002s\nFAIL\texample.com/b [build failed]\nFAIL example.com/c [setup failed]\nok  \texample.com/d\t0.1s\nexit status 1\nFAIL\texample.com/e\t0.003s\nFAIL",
                names(
                    &[],
                    &[
                        "TestA",
                        "example.com/b [build failed]",
                        "example.com/c [setup failed]",
                        "example.com/e [failed]",
                    ],
                    &[],
                ),
            ),
            (
                "TAP and Bats",
                "1..4\nok 1 - adds\nnot ok 2 - takes away\nok 3 later # SKIP not yet\nok 4 - file.js # time=3ms",
                names(&["adds", "file.js"], &["takes away"], &["later"]),
            ),
            (
                "ctest",
                "    1/2 Test #1: unit_a ...........   Passed    0.01 sec\n    2/2 Test #2: unit_b ...........***Failed    0.02 sec",
                names(&["unit_a"], &["unit_b"], &[]),
            ),
            (
                "Minitest",
                "FooTest#test_a = 0.00 s = .\nFooTest#test_b = 0.01 s = F\n\n  1) Failure:\nFooTest#test_b [test/foo_test.rb:5]:\nExpected 1",
                names(&["FooTest#test_a"], &["FooTest#test_b"], &[]),
            ),
            (
                "PHPUnit",
                "There was 1 failure:\n\n1) Tests\\FooTest::testBar\nFailed asserting\n\nThere was 1 skipped test:\n\n1) Tests\\FooTest::testBaz",
                names(&[], &["Tests\\FooTest::testBar"], &["Tests\\FooTest::testBaz"]),
            ),
            (
                "Mocha",
                "\n  calculator\n    adding\n      ✔ adds (3ms)\n      1) adds negative numbers\n    ✔ divides\n\n  2 passing (9ms)\n  1 failing\n\n  1) calculator\n       adding\n         adds negative numbers:\n     AssertionError",
                names(
                    &["calculator › adding › adds", "calculator › divides"],
                    &["calculator › adding › adds negative numbers"],
                    &[],
                ),
            ),
            (
                "Jest",
                "PASS src/a.test.js\n  sum\n    ✓ adds (2 ms)\n    ✕ fails (1 ms)\n    ○ skipped later\n\n  ● sum › fails\n\n    expect(received)",
                names(
                    &["src/a.test.js › sum › adds"],
                    &["src/a.test.js › sum › fails"],
                    &["src/a.test.js › sum › later"],
                ),
            ),
            (
                "Vitest",
                " ✓ test/b.test.ts (2 tests) 3ms\n ❯ test/a.test.ts (2 tests | 1 failed) 5ms\n   × sum > fails 3ms\n\n FAIL  test/a.test.ts > sum > fails\nAssertionError",
                names(&[], &["test/a.test.ts > sum > fails"], &[]),
            ),
            (
                "AVA",
                "  ✔ adds\n  ✘ [fail]: takes away Not equal\n  ─\n\n  takes away\n\n  1 test failed",
                names(&["adds"], &["takes away Not equal"], &[]),
            ),
            (
                "Node.js",
                "▶ suite\n  ✔ adds (0.5ms)\n  ✖ fails (1.2ms)\n▶ suite (3ms)\n✔ alone (0.1ms)\nℹ tests 3\n✖ failing tests:\n\ntest at a.js:1:1\n✖ fails (1.2ms)",
                names(&["alone", "suite › adds"], &["suite › fails"], &[]),
            ),
        ];
        for (runner, output, expected) in cases {
            assert_eq!(read_names(output, ""), expected, "{runner}");
        }
    }

    /// What real runners printed for three tests: `adds` passes, `fails` fails and `later` is skipped.
    #[test]
    fn recorded_runs_of_real_runners_are_read() {
        macro_rules! recorded {
            ($name:literal) => {
                ($name, include_str!(concat!("recorded/", $name, ".txt")))
            };
        }
        let runs = [
            (recorded!("ava"), "adds", "fails"),
            (recorded!("bats"), "adds", "fails"),
            (recorded!("cargo"), "tests::adds", "tests::fails"),
            (recorded!("ctest"), "adds", "fails"),
            (recorded!("jest"), "j/x.test.js › sum › adds", "j/x.test.js › sum › fails"),
            (recorded!("minitest"), "", "XTest#test_fails"),
            (recorded!("minitest-v"), "XTest#test_adds", "XTest#test_fails"),
            (recorded!("mocha"), "calc › add › adds calc › divides", "calc › add › fails"),
            (recorded!("nextest"), "app tests::adds", "app tests::fails"),
            (recorded!("node"), "adds alone", "fails sum"),
            (recorded!("node-spec"), "alone sum › adds", "sum sum › fails"),
            (recorded!("phpunit"), "", "XTest::testFails"),
            (recorded!("phpunit-testdox"), "Adds", "Fails"),
            (recorded!("pytest"), "test_x.py::test_a test_x.py::test_b[1]", "test_x.py::test_b[a b]"),
            (recorded!("pytest-q"), "", "test_x.py::test_b[a b]"),
            (recorded!("tape"), "adds › should be strictly equal", "fails › should be strictly equal"),
            (recorded!("tap"), "adds inner", "fails one is two t/x.test.cjs"),
            (recorded!("unittest"), "", "test_u.T.test_b"),
            (recorded!("unittest-v"), "test_u.T.test_a", "test_u.T.test_b"),
            (recorded!("vitest"), "v2/x.test.mjs › adds", "v2/x.test.mjs > sum > fails"),
            (recorded!("vitest-v"), "v2/x.test.mjs > sum > adds", "v2/x.test.mjs > sum > fails"),
        ];
        for ((runner, output), passed, failed) in runs {
            let names = read_names(output, "");
            assert_eq!((names.passed.join(" "), names.failed.join(" ")), (passed.into(), failed.into()), "{runner}");
            let counts = super::super::read_counts(output);
            assert!(
                counts.failed.is_some_and(|failed| failed > 0 && failed <= names.failed.len() as u64),
                "{runner}: {counts:?}"
            );
            assert!(counts.passed.is_some_and(|passed| passed > 0), "{runner}: {counts:?}");
        }
    }

    #[test]
    fn names_that_repeat_others_are_found_in_linear_time() {
        let names: Vec<String> = (0..8_000).map(|number| format!("suite {number} › inner › case {number}")).collect();
        let repeated = names.iter().map(|name| name.replace("inner › ", ""));
        let all: Vec<String> = names.iter().cloned().chain(repeated).collect();
        let began = std::time::Instant::now();
        assert_eq!(without_repeats(all), names);
        assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
    }

    #[test]
    fn prose_names_no_test() {
        let output = "ok then\nerror: no such file\n1) read this\nFAILED to connect\nrunning at 12 (see a.b) ... fine";
        assert_eq!(read_names(output, ""), TestNames::default());
    }
}
