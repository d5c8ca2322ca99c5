//! The tests that the threat model and the promises name: each exists, and `make test` runs it.
//!
//! A test is named as `crate: test`, `crate: module::test` or `crate: module`, which stands for all tests of that file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::{manifest, tidy};

const DOCUMENTS: [&str; 2] = ["docs/THREAT_MODEL.md", "docs/PROMISES.md"];
/// The notation itself, where a document explains it.
const NOTATION: &str = "crate: test";
/// Macros that make a test of every function in them, or of every name that they list.
const TEST_MACROS: [&str; 2] = ["on_both! {", "conformance!(@each "];
/// The reason of ignored functions that a test starts in another process, and that no run of their own picks up.
const NOT_A_TEST: &str = "started by another test";

#[derive(Debug, Default)]
struct Tests {
    /// Every test as `module::function`, the module being the file's name.
    functions: BTreeSet<String>,
    modules: BTreeSet<String>,
}

/// Every name that leads nowhere and every row that nothing shows, one sentence each.
pub fn faults() -> anyhow::Result<Vec<String>> {
    let (mut faults, mut crates) = (Vec::new(), BTreeMap::new());
    for document in DOCUMENTS {
        let path = manifest::root().join(document);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for (krate, test) in references(&text) {
            if !crates.contains_key(&krate) {
                let tests = tests_of(&manifest::root().join("crates").join(&krate))?;
                crates.insert(krate.clone(), tests);
            }
            if !crates.get(&krate).is_some_and(|tests: &Tests| tests.has(&test)) {
                faults.push(format!("{document}: `{krate}: {test}`: there is no such test in crates/{krate}"));
            }
        }
        for file in end_to_end_files(&text).filter(|file| !manifest::root().join(file).is_file()) {
            faults.push(format!("{document}: there is no {file}"));
        }
        for line in text.lines().filter(|line| line.starts_with('|') && line.contains("| by hand")) {
            faults.push(format!("{document}: nothing but a person's hand shows this row: {line}"));
        }
    }
    Ok(faults)
}

/// What stands between backquotes in the notation of tests.
fn references(text: &str) -> Vec<(String, String)> {
    let quoted = text.split('`').skip(1).step_by(2).map(|span| span.split_whitespace().collect::<Vec<_>>().join(" "));
    let named = quoted.filter(|span| span != NOTATION);
    named
        .filter_map(|span| {
            let (krate, test) = span.split_once(": ")?;
            // `sandbox::container: test` is the test of that module.
            let (krate, module) = krate.split_once("::").map_or((krate, None), |(krate, module)| (krate, Some(module)));
            let is_path =
                |path: &str| path.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c));
            (is_path(krate) && is_path(test)).then(|| {
                (krate.to_owned(), module.map_or_else(|| test.to_owned(), |module| format!("{module}::{test}")))
            })
        })
        .collect()
}

fn end_to_end_files(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|span| span.starts_with("web/e2e/") && span.ends_with(".test.mjs"))
}

fn tests_of(folder: &Path) -> anyhow::Result<Tests> {
    let mut tests = Tests::default();
    for part in ["src", "tests"].map(|part| folder.join(part)).into_iter().filter(|part| part.is_dir()) {
        for file in tidy::sources(&part)? {
            let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            // The tests of `folder/mod.rs` are those of the folder.
            let parent = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            tests.add(if stem == "mod" { &parent } else { &stem }, &text);
        }
    }
    Ok(tests)
}

impl Tests {
    fn has(&self, test: &str) -> bool {
        match test.rsplit_once("::") {
            Some(_) => self.functions.contains(test),
            None => {
                self.modules.contains(test) || self.functions.iter().any(|known| known.ends_with(&format!("::{test}")))
            }
        }
    }

    /// Adds the tests of a file.
    fn add(&mut self, module: &str, text: &str) {
        let mut attributes = String::new();
        let mut in_macro = false;
        for line in text.lines() {
            let code = line.trim_start();
            if TEST_MACROS.iter().any(|name| code.starts_with(name)) {
                in_macro = true;
            } else if in_macro && (line == "}" || code == ");") {
                in_macro = false;
            }
            if code.starts_with("#[") {
                attributes.push_str(code);
                continue;
            }
            if code.starts_with("//") {
                continue;
            }
            let is_test = (attributes.contains("test]") || attributes.contains("test(") || in_macro)
                && !attributes.contains(NOT_A_TEST);
            let name = function(code).or_else(|| code.strip_suffix(',').filter(|_| in_macro));
            if let Some(name) = name.filter(|_| is_test) {
                self.functions.insert(format!("{module}::{name}"));
                self.modules.insert(module.to_owned());
            }
            if !code.is_empty() {
                attributes.clear();
            }
        }
    }
}

/// The name of the function that begins on this line.
fn function(code: &str) -> Option<&str> {
    let code = code.strip_prefix("pub ").unwrap_or(code);
    let code = code.strip_prefix("async ").unwrap_or(code);
    let name = code.strip_prefix("fn ")?;
    name.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_that_the_documents_name_exists() {
        let faults = faults().unwrap();
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    #[test]
    fn tests_are_told_from_other_functions() {
        let mut tests = Tests::default();
        let text = "#[test]\nfn one() {}\nfn other() {}\n/// Two.\n#[tokio::test(flavor = \"x\")]\nasync fn two() {}\n\
                    #[test]\n#[ignore = \"started by another test\"]\nfn to_be_killed() {}\n\
                    on_both! {\n    async fn three(place) {\n    }\n}\nasync fn helper() {}\n";
        tests.add("file", text);
        assert_eq!(
            tests.functions.iter().map(String::as_str).collect::<Vec<_>>(),
            ["file::one", "file::three", "file::two"]
        );
        assert!(tests.has("one") && tests.has("file::two") && tests.has("file"));
        assert!(!tests.has("other") && !tests.has("to_be_killed") && !tests.has("elsewhere::one") && !tests.has("ne"));
    }

    #[test]
    fn names_are_found_across_lines_and_other_quotes_are_not_names() {
        let text = "`crate: test`, `harvest:\na_b`, `sandbox::container: c`, `git status`, `max_usd: 3 USD`";
        let expected = [("harvest", "a_b"), ("sandbox", "container::c")];
        assert_eq!(references(text), expected.map(|(krate, test)| (krate.to_owned(), test.to_owned())));
    }
}
