//! Reads what a test runner printed: how many tests passed and failed, and which.

mod counts;
mod names;
mod tree;

use harvest_core::TestNames;

pub use counts::{Counts, read_counts};
use names::read_names;

/// The names of one run are kept up to this size, so that its event stays small.
const MOST_FAILED_BYTES: usize = 16 * 1024;
const MOST_PASSED_BYTES: usize = 48 * 1024;

/// Names within their bounds. `is_whole` is whether the output was read from its beginning.
pub fn bounded_names(output: &str, is_whole: bool) -> TestNames {
    let mut names = read_names(output);
    let fits = |list: &[String], most: usize| list.iter().map(|name| name.len() + 3).sum::<usize>() <= most;
    if !is_whole || !fits(&names.passed, MOST_PASSED_BYTES) || !fits(&names.skipped, MOST_PASSED_BYTES) {
        names.passed.clear();
        names.skipped.clear();
        names.cut = true;
    }
    while !fits(&names.failed, MOST_FAILED_BYTES) {
        names.failed.pop();
        names.cut = true;
    }
    names
}

/// Without terminal colours, cursor movements and the characters that a terminal would not show.
fn without_colors(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            for c in chars.by_ref() {
                if c.is_ascii_alphabetic() {
                    break;
                }
            }
        } else if !c.is_control() || c == '\t' {
            text.push(c);
        }
    }
    text
}
