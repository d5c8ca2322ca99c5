//! Names that stand for a package, module, file or suite that failed as a whole, and so for an unknown number of tests.
//!
//! Runners report a file that they cannot load as one failed test. Such a name says nothing about the tests behind it: they did not
//! run. It is told from the name of a test by how it ends.

/// What `go test` prints behind the name of a package that failed as a whole.
pub(super) const GO_PACKAGE: [&str; 3] = [" [build failed]", SETUP_FAILED, " [failed]"];
/// Behind the name of a class or module whose tests did not run since its set-up failed.
pub(super) const SETUP_FAILED: &str = " [setup failed]";
/// Behind the name of a file or module that could not be loaded.
pub(super) const NOT_LOADED: &str = " [not loaded]";
/// Behind the name of a file that failed as a whole, whether it could not be loaded or is a script without named tests.
pub(super) const WHOLE_FILE: &str = " [whole file]";
/// The hooks of Mocha whose failure keeps the rest of a suite from running.
const HOOKS: [&str; 2] = ["\"before all\" hook", "\"before each\" hook"];
/// What the files that Node.js runs end with.
const NODE_FILES: [&str; 8] = [".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"];

/// A name without what marks it as one that stands for many tests, and that mark.
pub(super) fn split(name: &str) -> (&str, &'static str) {
    let marks = GO_PACKAGE.into_iter().chain([NOT_LOADED, WHOLE_FILE]);
    let mut splits = marks.filter_map(|mark| name.strip_suffix(mark).map(|plain| (plain, mark)));
    splits.next().unwrap_or((name, ""))
}

/// Whether a failed name stands for an unknown number of tests.
pub(in crate::verify) fn stands_for_many(name: &str) -> bool {
    let is_marked = !split(name).1.is_empty();
    let last = name.rsplit(super::names::SEPARATOR).next().unwrap_or(name);
    is_marked || HOOKS.iter().any(|hook| last.starts_with(hook))
}

/// Whether a failed name is that of a file or module that could not be loaded, so that none of its tests ran.
pub(in crate::verify) fn is_unloaded(name: &str) -> bool {
    name.ends_with(NOT_LOADED)
}

/// The name of a file that failed as a whole as it reads where the file passes; any other name as it is.
pub(in crate::verify) fn as_passed(name: &str) -> &str {
    name.strip_suffix(WHOLE_FILE).unwrap_or(name)
}

/// What the names that stand for many tests come to: `a.test.js and 2 more could not be loaded`. `None` where there is no such name.
pub(in crate::verify) fn sentence<'n>(names: impl IntoIterator<Item = &'n String>) -> Option<String> {
    let names: Vec<&str> = names.into_iter().map(String::as_str).filter(|name| stands_for_many(name)).collect();
    let plain = |name: &&'n str| name.strip_suffix(NOT_LOADED).unwrap_or(as_passed(name)).to_owned();
    let which = match names.as_slice() {
        [] => return None,
        [one] => plain(one),
        [one, other] => format!("{} and {}", plain(one), plain(other)),
        [first, more @ ..] => format!("{} and {} more", plain(first), more.len()),
    };
    let is_load = names.iter().all(|name| is_unloaded(name));
    Some(format!("{which} {}", if is_load { "could not be loaded" } else { "failed as a whole" }))
}

/// Whether Node.js may run a file of this name. The title of a test can end like one, but has spaces.
pub(super) fn is_node_file(name: &str) -> bool {
    let is_path = name.starts_with('/') || !name.contains(char::is_whitespace);
    is_path && NODE_FILES.iter().any(|ending| name.len() > ending.len() && name.ends_with(ending))
}

/// Whether a line that Node.js prints tells that a file could not be loaded.
pub(super) fn is_load_error(line: &str) -> bool {
    const WORDS: [&str; 4] = ["SyntaxError", "MODULE_NOT_FOUND", "Cannot find module ", "Cannot find package "];
    WORDS.iter().any(|words| line.contains(words))
}

#[cfg(test)]
mod tests {
    use super::super::names::read_names;
    use super::*;

    /// What runners print where one file lacks a package, another is no valid program, and a third has a test that passes. The outputs
    /// of pytest and Jest are not recorded, but written after their documentation.
    #[test]
    fn files_that_cannot_be_loaded_are_named_as_such() {
        macro_rules! printed {
            ($name:literal) => {
                ($name, include_str!(concat!($name, ".txt")))
            };
        }
        let node = "test/a.test.js [not loaded] test/c.test.js [not loaded]";
        let python = "tests.test_a [not loaded] tests.test_c [not loaded]";
        for ((runner, output), passed, failed) in [
            (printed!("recorded/node-unloaded"), "b one", node),
            (printed!("recorded/node-unloaded-spec"), "b one", node),
            (printed!("recorded/unittest-unloaded"), "", python),
            (printed!("recorded/unittest-unloaded-v"), "tests.test_b.B.test_x", python),
            (
                printed!("documented/pytest-unloaded"),
                "",
                "tests/test_cart.py [not loaded] tests/test_price.py [not loaded]",
            ),
            (printed!("documented/jest-unloaded"), "test/price.test.js › is right", "test/cart.test.js [not loaded]"),
            (
                printed!("recorded/vitest-unloaded"),
                "test/b.test.ts › b one",
                "test/a.test.ts [not loaded] test/b.test.ts > d test/c.test.ts [not loaded]",
            ),
        ] {
            let names = read_names(output, "/workspace");
            assert_eq!((names.passed.join(" "), names.failed.join(" ")), (passed.into(), failed.into()), "{runner}");
        }
    }

    #[test]
    fn a_test_or_a_suite_that_is_called_like_a_file_is_none() {
        let failed = |output: &str| read_names(output, "/workspace").failed.join(", ");
        let tap = "TAP version 13\n# Subtest: cart.js\n    # Subtest: adds\n    not ok 1 - adds\n    1..1\nnot ok 1 - cart.js\n1..1";
        assert_eq!(failed(tap), "adds, cart.js");
        assert_eq!(failed("▶ cart.js\n  ✖ adds (1ms)\n✖ cart.js (2ms)\n"), "cart.js, cart.js › adds");
        assert_eq!(failed("not ok 1 - answers 404 for /cart.js"), "answers 404 for /cart.js");
        // The subtests are those of the test before it.
        let next = format!("{tap}\nnot ok 2 - /workspace/price.js\n");
        assert_eq!(failed(&next), "adds, cart.js, price.js [whole file]");
    }

    #[test]
    fn what_keeps_many_tests_from_running_is_told_from_a_test() {
        for (output, name) in [
            ("ERROR: setUpClass (tests.test_b.B)", "tests.test_b.B [setup failed]"),
            ("setUpModule (test_b) ... ERROR", "test_b [setup failed]"),
            ("  ✘ test/a.js exited with a non-zero exit code: 1", "test/a.js [whole file]"),
            ("  ✘ No tests found in test/a.js, make sure to import \"ava\"", "test/a.js [whole file]"),
            ("  cart\n    1) \"before all\" hook for \"adds\"", "cart › \"before all\" hook for \"adds\""),
            ("FAIL\texample.com/b [build failed]", "example.com/b [build failed]"),
            ("✖ /workspace/test.js (9ms)\n  'test failed'", "test.js [whole file]"),
        ] {
            let failed = read_names(output, "/workspace").failed;
            assert_eq!(failed, [name], "{output}");
            assert!(stands_for_many(name), "{name}");
        }
        for name in ["tests.test_b.B.test_x", "test/a.test.js › adds", "tests/test_a.py::test_x", "cart.js"] {
            assert!(!stands_for_many(name), "{name}");
        }
    }

    #[test]
    fn a_long_name_keeps_what_tells_that_it_is_a_file() {
        let output = format!("ERROR tests/{}.py - ModuleNotFoundError", "long/".repeat(100));
        let failed = read_names(&output, "").failed.join("");
        assert!(failed.starts_with("tests/long/") && failed.ends_with(" [not loaded]"), "{failed}");
    }
}
