//! Reporters that draw a tree: a title for each suite, and below it a mark before each test. So do Mocha, AVA, Jest,
//! Vitest, Node.js, TestDox and Bats.

use super::names::{Outcome, SEPARATOR, Told};
use super::wholes::{WHOLE_FILE, is_node_file};

/// Marks before a test. Mocha numbers those that failed.
const PASSED: &[char] = &['✓', '✔', '√'];
const FAILED: &[char] = &['✕', '✖', '✗', '✘', '×'];
const SKIPPED: &[char] = &['○', '﹣', '↓'];
/// Titles of suites at the margin begin with one of these; anything else there is output of a program.
const AT_MARGIN: &[&str] = &["PASS ", "FAIL ", "▶ ", "❯ "];
const LONGEST_TITLE: usize = 200;
const DEEPEST: usize = 20;

/// Where in the tree the next line is.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// The titles above, with their indentation.
    above: Vec<(usize, String)>,
    /// Behind the tree come the failed tests again, in other words.
    is_over: bool,
}

impl Tree {
    pub(super) fn read(&mut self, line: &str) -> Option<Told> {
        let text = line.trim();
        if text.is_empty() {
            return None;
        }
        let indent = line.chars().take_while(|c| c.is_whitespace()).count();
        if is_end(text) {
            self.is_over = true;
            self.above.clear();
            return None;
        }
        if self.is_over {
            // Another suite may begin at the margin.
            self.is_over = indent > 0 || !AT_MARGIN.iter().any(|start| text.starts_with(start));
            if self.is_over {
                return None;
            }
        }
        let mark = mark(text, indent);
        // A suite of Node.js is told again below its tests.
        let mut is_suite = false;
        while self.above.last().is_some_and(|(above, _)| *above >= indent) {
            let title = self.above.pop();
            is_suite |= mark.is_some_and(|(_, name)| title.is_some_and(|(at, title)| at == indent && title == name));
        }
        let Some((outcome, name)) = mark else {
            let starts = AT_MARGIN.iter().find_map(|start| text.strip_prefix(start));
            if (indent > 0 || starts.is_some()) && text.len() <= LONGEST_TITLE && self.above.len() < DEEPEST {
                self.above.push((indent, without_figures(starts.unwrap_or(text)).to_owned()));
            }
            return None;
        };
        if outcome == Outcome::Failed
            && !is_suite
            && self.above.is_empty()
            && let Some(file) = whole_file(text, name)
        {
            return Some((outcome, format!("{file}{WHOLE_FILE}")));
        }
        let titles = self.above.iter().map(|(_, title)| title.as_str());
        Some((outcome, titles.chain([name]).collect::<Vec<_>>().join(SEPARATOR)))
    }
}

/// `3 passing (5ms)` of Mocha, `✖ failing tests:` of Node.js, a line of AVA.
fn is_end(text: &str) -> bool {
    let mut words = text.split(' ');
    let counted = words.next().is_some_and(|word| word.parse::<u64>().is_ok());
    let summary = counted && matches!(words.next(), Some("passing" | "failing"));
    summary || text == "✖ failing tests:" || (text.chars().count() > 2 && text.chars().all(|c| c == '─'))
}

/// The file that a failed line at the top of the tree is about: `✖ test/a.test.js (262ms)` of Node.js, and of AVA
/// `✘ No tests found in test/a.js` and `✘ test/a.js exited with a non-zero exit code: 1`.
fn whole_file<'n>(text: &str, name: &'n str) -> Option<&'n str> {
    if text.starts_with('✖') && is_node_file(name) {
        return Some(name);
    }
    let of_ava = match name.strip_prefix("No tests found in ") {
        Some(rest) => rest.split(", ").next(),
        None => name.split_once(" exited ").filter(|(_, why)| is_end_of_worker(why)).map(|(file, _)| file),
    };
    of_ava.filter(|file| is_node_file(file))
}

fn is_end_of_worker(why: &str) -> bool {
    why.starts_with("with a non-zero exit code: ") || why.starts_with("due to ")
}

fn mark(text: &str, indent: usize) -> Option<(Outcome, &str)> {
    let first = text.chars().next()?;
    let outcome = if PASSED.contains(&first) {
        Outcome::Passed
    } else if FAILED.contains(&first) {
        Outcome::Failed
    } else if SKIPPED.contains(&first) {
        Outcome::Skipped
    } else {
        let (number, name) = text.split_once(") ")?;
        let is_test = indent >= 2 && number.parse::<u32>().is_ok() && !name.ends_with(':');
        return is_test.then_some((Outcome::Failed, without_figures(name)));
    };
    let name = text[first.len_utf8()..].strip_prefix(' ')?.trim_start();
    let name = ["[fail]: ", "[skip] ", "skipped "].iter().find_map(|start| name.strip_prefix(start)).unwrap_or(name);
    // A whole file, with the number of its tests.
    let is_file = name.contains(" tests)") || name.contains(" test)") || name.contains(" tests | ");
    (!is_file).then(|| (outcome, without_figures(name)))
}

/// Without what differs from run to run: `(5 ms)`, `5ms`, `(0.5s)`, `# SKIP`, `(3 tests | 1 failed)`.
pub(super) fn without_figures(name: &str) -> &str {
    let mut name = name.split(" # ").next().unwrap_or(name).trim_end();
    loop {
        let bracketed = name.rsplit_once(" (").filter(|(_, last)| {
            last.strip_suffix(')')
                .is_some_and(|last| is_time(last) || last.ends_with(" tests") || last.contains(" tests | "))
        });
        let timed = name.rsplit_once(' ').filter(|(_, last)| is_time(last));
        match bracketed.or(timed) {
            Some((rest, _)) => name = rest.trim_end(),
            None => return name,
        }
    }
}

fn is_time(text: &str) -> bool {
    let number = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.trim()[number.len()..].trim();
    matches!(unit, "ms" | "s" | "m") && number.trim().parse::<f64>().is_ok()
}
