//! What the evidence comes to, on every surface: a command that cannot run, a red base, tests that are new or gone.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Ran, World};

/// Prints TAP: a test for each file of `cases`, which passes if the file says so.
pub const SUITE: &str = r#"number=0
status=0
for case in cases/*; do
  number=$((number + 1))
  if [ "$(cat "$case")" = pass ]; then echo "ok $number - ${case#cases/}"; else echo "not ok $number - ${case#cases/}"; status=1; fi
done
echo "1..$number"
exit $status
"#;

fn world(cases: &[(&str, &str)]) -> World {
    let world = World::new();
    world.write("suite.sh", SUITE);
    for (name, outcome) in cases {
        world.write(&format!("cases/{name}"), format!("{outcome}\n"));
    }
    world.commit("A suite");
    world
}

fn run(world: &World, change: &str, args: &[&str]) -> Ran {
    let args: Vec<&str> = ["--test", "sh suite.sh"].iter().chain(args).copied().collect();
    world.run(&json!([{ "shell": change }, {}]), &args)
}

fn names(outcome: &Value, list: &str) -> Vec<String> {
    let names = outcome["evidence"]["tests"][list].as_array().cloned().unwrap_or_default();
    names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// `task show` and `task logs`, as people read them.
fn told(world: &World, outcome: &Value) -> (String, String) {
    let id = outcome["task_id"].as_str().unwrap();
    let print = |what: &str| world.harvest(&["task", what, id]).finish().stdout;
    (print("show"), print("logs"))
}

#[test]
fn a_command_that_cannot_run_says_why_with_its_last_lines() {
    let world = World::new();
    let ran = world.run(&json!([{ "shell": "echo x > x" }, {}]), &["--test", "echo begun; surely-not-installed --all"]);
    let outcome = ran.assert_ended(1, "failed", Some("tests"));
    let evidence = &outcome["evidence"];
    assert_eq!(evidence["verdict"], "cannot_run", "{outcome:#}");
    let hint = evidence["hint"].as_str().unwrap();
    assert!(hint.starts_with("`surely-not-installed` is not installed on the machine that Harvest runs on"), "{hint}");
    let output = evidence["output"].as_str().unwrap();
    assert!(output.starts_with("begun\n") && output.contains("not found"), "{output}");
    assert!(outcome["error"].as_str().unwrap().contains("`surely-not-installed` is not installed"), "{outcome:#}");
    let plain = world.script(&json!([{ "shell": "echo x > x" }, {}]));
    let args =
        ["run", "--model-script", plain.to_str().unwrap(), "--test", "echo begun; surely-not-installed", "Go on"];
    let printed = world.harvest(&args).finish();
    let shown = printed.stdout + &printed.stderr;
    assert_eq!(shown.matches("begun\n").count(), 1, "once, with the run: {shown}");
    let (show, logs) = told(&world, &outcome);
    for text in [&show, &logs] {
        assert!(text.contains("surely-not-installed: ") && text.contains("not found"), "{text}");
    }
    assert!(show.contains("not verified: the tests could not run"), "{show}");
    assert!(show.contains("install it there"), "{show}");
}

/// Advice is typed as it stands.
#[test]
fn the_advice_about_a_missing_package_is_a_command_that_works() {
    let world = World::new();
    let change = json!([{ "shell": "echo x > x" }, {}]);
    let hint = || {
        let ran = world.run(&change, &["--test", "python3 -m surely_not_installed"]);
        let outcome = ran.assert_ended(1, "failed", Some("tests"));
        assert_eq!(outcome["evidence"]["verdict"], "cannot_run", "{outcome:#}");
        outcome["evidence"]["hint"].as_str().unwrap().to_owned()
    };
    let first = hint();
    assert!(
        first.starts_with(
            "`surely_not_installed` is not installed in the sandbox: declare its package in requirements.txt"
        ),
        "{first}"
    );
    let advised = first.split('`').nth(3).unwrap();
    for command in advised.split(" && ") {
        let words: Vec<&str> = command.split(' ').collect();
        let ran = world.harvest(&words[1..]).finish();
        assert_eq!((words[0], ran.exit), ("harvest", Some(0)), "{command}: {ran:?}");
    }
    // The repository is known now.
    let (_, build) = advised.split_once(" && ").unwrap();
    assert_eq!(hint().split('`').nth(3), Some(build));
}

#[test]
fn a_tool_that_a_recipe_lacks_is_named() {
    let world = World::new();
    world.write("Makefile", "test:\n\tsurely-not-installed\n");
    world.commit("A recipe");
    let ran = world.run(&json!([{ "shell": "echo x > x" }, {}]), &["--test", "make test"]);
    let outcome = ran.assert_ended(1, "failed", Some("tests"));
    assert_eq!(outcome["evidence"]["verdict"], "cannot_run", "{outcome:#}");
    let hint = outcome["evidence"]["hint"].as_str().unwrap();
    assert!(hint.starts_with("`surely-not-installed` is not installed on the machine"), "{hint}");
    assert!(!hint.contains("harvest repo"), "no package would bring it: {hint}");
}

#[test]
fn no_tests_before_or_after_completes_unverified_and_says_so() {
    let world = World::new();
    let test = ["--test", "echo 'collected 0 items'; echo 'no tests ran in 0.01s'; exit 5"];
    let ran = world.run(&json!([{ "shell": "echo x > x" }, {}]), &test);
    let outcome = ran.assert_ended(0, "completed", None);
    assert_eq!(outcome["evidence"]["verdict"], "no_tests", "{outcome:#}");
    let (show, logs) = told(&world, &outcome);
    assert!(show.contains("not verified: no tests ran, before or after"), "{show}");
    assert!(logs.contains("tests at the result: no tests ran"), "{logs}");
    let script = world.script(&json!([{ "shell": "echo x > x" }, {}]));
    world.json(&[&["task", "add", "Fix it"], &test[..]].concat());
    let up = world.harvest(&["up", "--until-empty", "--model-script"]).args(&[&script]).finish();
    assert!(up.stdout.contains(" completed, not verified: no tests ran, before or after · harvest/"), "{up:?}");
    let strict = [&test[..], &["--require-tests"]].concat();
    let refused = world.run(&json!([{ "shell": "echo x > x" }, {}]), &strict).assert_ended(1, "failed", Some("tests"));
    assert!(refused["error"].as_str().unwrap().ends_with("ran no tests, and tests are required"), "{refused:#}");
}

#[test]
fn a_red_base_with_the_same_failures_is_unchanged_and_a_project_may_accept_it() {
    let world = world(&[("adds", "pass"), ("old", "fail"), ("older", "fail")]);
    let change = "echo pass > cases/older; echo pass > cases/new";
    let outcome = run(&world, change, &[]).assert_ended(1, "failed", Some("tests"));
    assert_eq!(outcome["evidence"]["verdict"], "unchanged", "{outcome:#}");
    assert!(outcome["error"].as_str().unwrap().contains("accept_unchanged"), "{outcome:#}");
    let lists = ["fixed", "still_failing", "added", "broken", "vanished"].map(|list| names(&outcome, list).join(" "));
    assert_eq!(lists, ["older", "old", "new", "", ""]);
    let (show, _) = told(&world, &outcome);
    for line in ["unchanged: the tests that fail also fail at the base", "fail → pass: older", "still failing: old"] {
        assert!(show.contains(line), "{line}: {show}");
    }
    let config = world.path().join("accept.toml");
    std::fs::write(&config, "accept_unchanged = true\n").unwrap();
    let accepted = run(&world, change, &["--config", config.to_str().unwrap()]).assert_ended(0, "completed", None);
    assert_eq!(accepted["evidence"]["verdict"], "unchanged", "it is accepted, and not called verified");
}

#[test]
fn a_red_base_that_gets_worse_fails_with_the_names() {
    for (change, lists, line) in [
        ("echo fail > cases/adds", ["adds", "", ""], "pass → fail: adds\n"),
        ("echo fail > cases/new", ["", "new", ""], "new, fails: new\n"),
        ("rm cases/adds; echo pass > cases/other", ["", "", "adds"], "vanished: adds\n"),
    ] {
        let world = world(&[("adds", "pass"), ("old", "fail"), ("second", "pass")]);
        let config = world.path().join("accept.toml");
        std::fs::write(&config, "accept_unchanged = true\n").unwrap();
        let ran = run(&world, change, &["--config", config.to_str().unwrap()]);
        let outcome = ran.assert_ended(1, "failed", Some("tests"));
        assert_eq!(outcome["evidence"]["verdict"], "failed", "{change}: {outcome:#}");
        let named = ["broken", "added_failing", "vanished"].map(|list| names(&outcome, list).join(" "));
        assert_eq!(named, lists, "{change}");
        let (show, logs) = told(&world, &outcome);
        assert!(logs.contains("- old\n"), "{logs}");
        for text in [&show, &logs] {
            assert!(text.contains(line), "{text}");
        }
    }
}

/// What fails without a name, such as a build, is more than failed at the base, and is not accepted as unchanged.
#[test]
fn a_failure_that_names_no_test_is_not_unchanged() {
    let printing = SUITE.replace("echo \"1..$number\"", "cat notes 2> /dev/null\necho \"1..$number\"");
    let world = world(&[("adds", "pass"), ("old", "fail")]);
    world.write("suite.sh", printing);
    world.commit("A suite that builds");
    let config = world.path().join("accept.toml");
    std::fs::write(&config, "accept_unchanged = true\n").unwrap();
    for (notes, status) in [
        ("all is well", 0),
        ("error: could not compile `shop` (lib) due to 1 previous error", 1),
        ("FAIL\tshop/price [build failed]", 1),
        ("x\u{1b}[--- FAIL: TestB (0.00s)", 1),
    ] {
        let change = format!("printf '%s\\n' '{notes}' > notes");
        let ran = run(&world, &change, &["--config", config.to_str().unwrap()]);
        let outcome = ran.outcome();
        let expected = if status == 0 { "unchanged" } else { "failed" };
        assert_eq!(
            (ran.exit, &outcome["evidence"]["verdict"]),
            (Some(status), &json!(expected)),
            "{notes}: {outcome:#}"
        );
    }
}

#[test]
fn a_runner_without_counts_is_said_to_have_none() {
    let world = World::new();
    let ran = world.run(&json!([{ "shell": "echo x > x" }, {}]), &["--test", "echo fine"]);
    let outcome = ran.assert_ended(0, "completed", None);
    assert_eq!(outcome["evidence"]["verdict"], "verified", "{outcome:#}");
    let (show, logs) = told(&world, &outcome);
    for text in [&show, &logs] {
        assert!(text.contains("exit code 0 (no counts)"), "{text}");
    }
}

#[test]
fn a_task_without_changes_says_so_and_names_no_branch() {
    let world = World::new();
    let outcome = world.run(&json!([{ "say": "There is nothing to do." }]), &["--test", "true"]).outcome();
    assert_eq!((&outcome["status"], &outcome["branch"]), (&json!("completed"), &Value::Null), "{outcome:#}");
    let (show, _) = told(&world, &outcome);
    assert!(show.contains("no changes") && !show.contains("branch"), "{show}");
}

/// A base whose `make test` runs a script that fails.
fn with_a_recipe() -> World {
    let world = World::new();
    world.write("Makefile", "release:\n\tsh scripts/release.sh\ntest:\n\t@sh scripts/check.sh\n");
    world.write("scripts/check.sh", ". scripts/common.sh\n[ \"$(cat state)\" = mended ]\n");
    world.write("scripts/common.sh", "echo checking\n");
    world.write("scripts/release.sh", "echo release\n");
    world.write("state", "broken\n");
    world.commit("A recipe");
    world
}

#[test]
fn a_script_that_the_recipe_runs_is_the_bases_whatever_the_agent_makes_of_it() {
    for trick in [
        "echo 'exit 0' > scripts/check.sh",
        "echo 'exit 0' > scripts/common.sh",
        "rm -r scripts; mkdir scripts; echo true > scripts/check.sh",
    ] {
        let world = with_a_recipe();
        let ran = world.run(&json!([{ "shell": trick }, {}]), &["--test", "make -s test"]);
        let outcome = ran.assert_ended(1, "failed", Some("tests"));
        let evidence = &outcome["evidence"];
        assert!(evidence["flags"].as_array().unwrap().contains(&json!("test_command_changed")), "{trick}: {outcome:#}");
        let file = evidence["changed"]["command"][0].as_str().unwrap();
        assert!(trick.contains(file), "{trick}: {outcome:#}");
        // A person who asked for just this learns what was used, and how to go on.
        let error = outcome["error"].as_str().unwrap();
        assert!(error.contains(&format!("the result changes {file}")), "{error}");
        let says = "with the base's version and as delivered, and at the base the command ends with exit code 2";
        assert!(error.contains(says), "{error}");
        let (show, _) = told(&world, &outcome);
        assert!(show.contains(&format!("the base's versions were used ({file}")), "{show}");
    }
}

#[test]
fn an_honest_change_beside_the_scripts_of_the_recipe_is_verified() {
    let world = with_a_recipe();
    let change = "echo mended > state; echo 'echo another release' > scripts/release.sh";
    let ran = world.run(&json!([{ "shell": change }, {}]), &["--test", "make -s test"]);
    let outcome = ran.assert_ended(0, "completed", None);
    assert_eq!(outcome["evidence"]["verdict"], "verified", "{outcome:#}");
    assert_eq!(
        outcome["evidence"]["flags"],
        json!([]),
        "another target's script is no part of the command: {outcome:#}"
    );
}

/// The base's script of the command proves nothing about the one that is delivered.
#[test]
fn work_that_breaks_a_script_of_the_command_is_not_verified_by_the_bases_version() {
    for (product, breaks) in [("tools/two.sh", "exit code 2"), ("two.sh", "exit code 2")] {
        let world = World::new();
        world.write("Makefile", format!("test:\n\t@sh {product} | grep -qx two && echo 1 passed, 0 failed\n"));
        world.write(product, "echo two\n");
        world.commit("A tool");
        let change = format!("echo 'echo broken; exit 3' > {product}");
        let ran = world.run(&json!([{ "shell": change }, {}]), &["--test", "make test"]);
        let outcome = ran.assert_ended(1, "failed", Some("tests"));
        assert!(outcome["error"].as_str().unwrap().contains(breaks), "{outcome:#}");
        // A change that keeps it working is verified, and told where the base's version was used.
        let change = format!("echo 'printf \"two\\\\n\"' > {product}");
        let ran = world.run(&json!([{ "shell": change }, {}]), &["--test", "make test"]);
        let outcome = ran.assert_ended(0, "completed", None);
        let flagged = outcome["evidence"]["flags"] == json!(["test_command_changed"]);
        assert_eq!(flagged, product.contains('/'), "{outcome:#}");
    }
}

#[test]
fn a_runner_in_the_folder_of_tests_is_the_bases_and_a_module_in_place_of_a_runner_is_removed() {
    let world = World::new();
    world.write("Makefile", "test:\n\t@sh tests/run.sh\n");
    world.write("tests/run.sh", "echo 0 passed, 1 failed; exit 1\n");
    world.commit("A runner");
    let change = "echo 'echo 2 passed, 0 failed' > tests/run.sh";
    let ran = world.run(&json!([{ "shell": change }, {}]), &["--test", "make test"]);
    let outcome = ran.assert_ended(1, "failed", Some("tests"));
    assert_eq!(outcome["evidence"]["changed"]["command"], json!(["tests/run.sh"]), "{outcome:#}");

    let test =
        "import unittest\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(1, 2)\n";
    world.write("tests/__init__.py", "");
    world.write("tests/test_it.py", test);
    world.commit("A red test");
    let change =
        "mkdir unittest; touch unittest/__init__.py; echo 'print(\"Ran 1 test\\n\\nOK\")' > unittest/__main__.py";
    let command = "python3 -m unittest discover -s tests -t .";
    let ran = world.run(&json!([{ "shell": change }, {}]), &["--test", command]);
    let outcome = ran.assert_ended(1, "failed", Some("tests"));
    let flags = outcome["evidence"]["flags"].as_array().unwrap();
    assert!(flags.contains(&json!("test_command_changed")), "{outcome:#}");
}

#[test]
fn a_program_that_only_the_result_lacks_is_a_failure_without_advice_to_install_it() {
    let world = World::new();
    world.write("src/greet.sh", "echo hello\n");
    world.commit("A greeting");
    let ran = world.run(&json!([{ "shell": "echo surely-broken > src/greet.sh" }, {}]), &["--test", "sh src/greet.sh"]);
    let outcome = ran.assert_ended(1, "failed", Some("tests"));
    let evidence = &outcome["evidence"];
    assert_eq!((&evidence["verdict"], &evidence["hint"]), (&json!("failed"), &Value::Null), "{outcome:#}");
}

/// A program that tests itself is the work: its new version runs.
#[test]
fn a_product_that_the_command_runs_is_tested_as_the_agent_left_it() {
    let world = World::new();
    world.write("src/app.py", "raise SystemExit(1)\n");
    world.commit("An app");
    let replies = json!([{ "shell": "echo 'print(1)' > src/app.py" }, {}]);
    let ran = world.run(&replies, &["--test", "python3 src/app.py --selftest"]);
    let outcome = ran.assert_ended(0, "completed", None);
    assert_eq!(outcome["evidence"]["flags"], json!([]), "{outcome:#}");
}

#[test]
fn nothing_changed_on_a_red_base_completes_and_says_that_the_base_fails() {
    let world = world(&[("adds", "pass"), ("old", "fail")]);
    for test in ["sh suite.sh", "false"] {
        let ran = world.run(&json!([{ "say": "There is nothing to do." }]), &["--test", test]);
        let outcome = ran.assert_ended(0, "completed", None);
        assert_eq!(
            (&outcome["evidence"]["verdict"], &outcome["branch"]),
            (&json!("unchanged"), &Value::Null),
            "{test}"
        );
        let (show, _) = told(&world, &outcome);
        for words in ["no changes", "unchanged: the tests that fail also fail at the base"] {
            assert!(show.contains(words), "{test}: {show}");
        }
    }
    let changed = world.run(&json!([{ "shell": "echo x > x" }, {}]), &["--test", "false"]);
    changed.assert_ended(1, "failed", Some("tests"));
}

/// Runs the cases that are named; one that is missing or empty has no test.
pub const NAMED_SUITE: &str = r#"number=0
status=0
for case in "$@"; do
  [ -s "$case" ] || continue
  number=$((number + 1))
  if [ "$(cat "$case")" = pass ]; then echo "ok $number - ${case#cases/}"; else echo "not ok $number - ${case#cases/}"; status=1; fi
done
echo "1..$number"
exit $status
"#;

/// The base's versions of files that the command names are tested; those that are delivered must be no worse.
#[test]
fn a_red_base_is_not_unchanged_when_the_work_deletes_or_empties_what_the_command_names() {
    let command = "sh suite.sh cases/adds cases/divides cases/old";
    for (change, verdict) in [
        ("echo x > notes", "unchanged"),
        ("rm cases/adds", "failed"),
        (": > cases/adds", "failed"),
        ("rm cases/old", "doubtful"),
        (": > cases/old", "doubtful"),
        ("rm -r cases", "doubtful"),
        ("git mv cases/adds cases/sums", "failed"),
    ] {
        let world = world(&[("adds", "pass"), ("divides", "pass"), ("old", "fail")]);
        world.write("suite.sh", NAMED_SUITE);
        world.commit("A suite of named cases");
        let config = world.path().join("accept.toml");
        std::fs::write(&config, "accept_unchanged = true\n").unwrap();
        let args = ["--test", command, "--config", config.to_str().unwrap()];
        let ran = world.run(&json!([{ "shell": change }, {}]), &args);
        let outcome = ran.outcome();
        let accepted = verdict == "unchanged";
        assert_eq!(
            (ran.exit, &outcome["evidence"]["verdict"]),
            (Some(i32::from(!accepted)), &json!(verdict)),
            "{change}: {outcome:#}"
        );
        if !accepted {
            let flags = outcome["evidence"]["flags"].as_array().unwrap();
            assert!(flags.contains(&json!("tests_deleted")), "{change}: {outcome:#}");
        }
    }
}

/// A green base is no proof of a command that was emptied, where nothing tells how many tests ran.
#[test]
fn a_test_command_that_the_work_empties_is_not_verified() {
    for (change, verdict) in
        [(": > check.sh", "doubtful"), ("echo '# later' > check.sh", "doubtful"), ("rm check.sh", "failed")]
    {
        let world = World::new();
        world.write("check.sh", "echo fine\n");
        world.commit("A check");
        let ran = world.run(&json!([{ "shell": change }, {}]), &["--test", "sh check.sh"]);
        let outcome = ran.assert_ended(1, "failed", Some("tests"));
        assert_eq!(outcome["evidence"]["verdict"], verdict, "{change}: {outcome:#}");
        let flags = outcome["evidence"]["flags"].as_array().unwrap();
        assert!(flags.contains(&json!("tests_deleted")), "{change}: {outcome:#}");
    }
}

/// A shell ends a pipe with the exit code of its last command.
#[test]
fn a_pipe_that_hides_how_the_tests_ended_is_not_verified() {
    let world = world(&[("adds", "fail")]);
    let ran = |change: &str| world.run(&json!([{ "shell": change }, {}]), &["--test", "sh suite.sh | tail -1"]);
    let outcome = ran("echo x > notes").assert_ended(1, "failed", Some("tests"));
    assert_eq!(outcome["evidence"]["verdict"], "doubtful", "{outcome:#}");
    assert!(outcome["error"].as_str().unwrap().ends_with("; name the command without the pipe"), "{outcome:#}");
    let nothing = ran("true").outcome();
    assert_eq!(nothing["status"], "completed", "nothing to blame: {nothing:#}");
}

/// Names the tests that fail, and counts the others.
pub const QUIET_SUITE: &str = r#"passed=0
failed=0
for case in cases/*; do
  if [ "$(cat "$case")" = pass ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "not ok $failed - ${case#cases/}"; fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
"#;

/// A runner that names failures alone does not say what became of a test that it names no more.
#[test]
fn a_failed_test_that_is_named_no_more_is_not_called_fixed_where_passes_have_no_names() {
    let world = world(&[("adds", "fail"), ("old", "fail")]);
    world.write("suite.sh", QUIET_SUITE);
    world.commit("A quiet suite");
    let outcome = run(&world, "git mv cases/adds cases/sums; echo pass > cases/sums", &[]).outcome();
    let lists = ["fixed", "no_longer_failing", "still_failing"].map(|list| names(&outcome, list).join(" "));
    assert_eq!(lists, ["", "adds", "old"], "{outcome:#}");
    let (show, logs) = told(&world, &outcome);
    for text in [&show, &logs] {
        assert!(text.contains("no longer listed as failing: adds"), "{text}");
        assert!(!text.contains("fail → pass"), "{text}");
    }
}

#[test]
fn a_module_of_the_repository_that_the_work_deletes_is_not_advised_to_be_installed() {
    let world = World::new();
    world.write("till/__init__.py", "def total():\n    return 2\n");
    let test = "import unittest\nimport till\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        \
                self.assertEqual(till.total(), 2)\n";
    world.write("checks/test_till.py", test);
    world.commit("A till");
    let command = "python3 -c 'import till' && python3 -m unittest discover -s checks -t .";
    let ran =
        world.run(&json!([{ "shell": "mkdir cash; mv till/__init__.py cash; rmdir till" }, {}]), &["--test", command]);
    let outcome = ran.assert_ended(1, "failed", Some("tests"));
    let hint = outcome["evidence"]["hint"].as_str().unwrap();
    assert!(hint.starts_with("`till` is a module of the repository, and the result deletes or moves it"), "{hint}");
    assert!(!hint.contains("install") && !hint.contains("requirements"), "{hint}");
}

/// A world whose tests the real runners run, and work that leaves them alone.
fn with_files(files: &[(&str, &str)]) -> World {
    let world = World::new();
    for (path, content) in files {
        world.write(path, content);
    }
    world.commit("Tests");
    world
}

const NODE_TEST: &str = "import test from 'node:test';\ntest('adds', () => {});\n";
const NODE_LACKS: &str =
    "import test from 'node:test';\nimport pad from 'no-such-package';\ntest('pads', () => pad);\n";
const UNITTEST: &str =
    "import unittest\n\nclass Cart(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(1, 1)\n";
const UNITTEST_LACKS: &str = "import unittest\nimport no_such_package\n\nclass Pad(unittest.TestCase):\n    def test_pads(self):\n        pass\n";

/// The runners report a file that they cannot load as one failed test, which fails before and after any work.
#[test]
fn work_of_which_no_test_could_be_loaded_is_never_unchanged() {
    let node = Command::new("node").arg("--version").output().is_ok();
    let cases = [
        ("node --test", "test/pad.test.mjs", NODE_LACKS, "`no-such-package`", "package.json"),
        (
            "python3 -m unittest discover -s tests -t .",
            "tests/test_pad.py",
            UNITTEST_LACKS,
            "`no_such_package`",
            "pyproject",
        ),
    ];
    for (command, path, lacks, package, declared_in) in cases.into_iter().filter(|case| node || case.0 != "node --test")
    {
        let world = with_files(&[("tests/__init__.py", ""), (path, lacks)]);
        let config = world.path().join("accept.toml");
        std::fs::write(&config, "accept_unchanged = true\n").unwrap();
        let args = ["--test", command, "--config", config.to_str().unwrap()];
        let outcome =
            world.run(&json!([{ "shell": "echo x > x" }, {}]), &args).assert_ended(1, "failed", Some("tests"));
        let evidence = &outcome["evidence"];
        assert_eq!(evidence["verdict"], "cannot_run", "{outcome:#}");
        let hint = evidence["hint"].as_str().unwrap();
        assert!(
            hint.starts_with(&format!("{package} is not installed in the sandbox: declare its package in")),
            "{hint}"
        );
        assert!(hint.contains(declared_in) && hint.contains("if it is not there; then `harvest repo add "), "{hint}");
        let error = outcome["error"].as_str().unwrap();
        assert!(error.contains("could not be loaded, at the base too") && error.contains(hint), "{error}");
        assert!(!error.contains("accept_unchanged"), "{error}");
        assert!(evidence["output"].as_str().unwrap().contains(package.trim_matches('`')), "{outcome:#}");
        // Work that changes nothing is not to blame.
        let idle = world.run(&json!([{ "say": "Nothing to do." }]), &args).assert_ended(0, "completed", None);
        assert_eq!(idle["evidence"]["verdict"], "cannot_run", "{idle:#}");
    }
    if !node {
        harvest_testing::skip("node is not installed");
    }
}

#[test]
fn a_file_that_cannot_be_loaded_before_and_after_hides_tests_though_others_pass() {
    let node = Command::new("node").arg("--version").output().is_ok();
    let (is_no_node, is_no_python) = ("import test from 'node:test';\ntest('pads', () => {\n", "def test_pads(:\n");
    let unittest = "python3 -m unittest discover -v -s tests -t .";
    let cases = [
        ("node --test", "test/pad.test.mjs", NODE_LACKS, "no-such-package"),
        ("node --test", "test/pad.test.mjs", is_no_node, "SyntaxError: Unexpected end of input"),
        (unittest, "tests/test_pad.py", UNITTEST_LACKS, "No module named 'no_such_package'"),
        (unittest, "tests/test_pad.py", is_no_python, "SyntaxError: "),
    ];
    for (command, path, unloaded, why) in cases.into_iter().filter(|case| node || case.0 != "node --test") {
        let (own, test) = match command == unittest {
            true => ("tests/test_cart.py", UNITTEST),
            false => ("test/cart.test.mjs", NODE_TEST),
        };
        let world = with_files(&[("tests/__init__.py", ""), (path, unloaded), (own, test)]);
        let config = world.path().join("accept.toml");
        std::fs::write(&config, "accept_unchanged = true\n").unwrap();
        let args = ["--test", command, "--config", config.to_str().unwrap()];
        let ran = world.run(&json!([{ "shell": "echo x > x" }, {}]), &args);
        let outcome = ran.assert_ended(1, "failed", Some("tests"));
        assert_eq!(outcome["evidence"]["verdict"], "failed", "{outcome:#}");
        let name = if command == unittest { "tests.test_pad" } else { path };
        assert_eq!(names(&outcome, "still_failing"), [format!("{name} [not loaded]")], "{outcome:#}");
        let error = outcome["error"].as_str().unwrap();
        let says = format!("; {name} could not be loaded, at the base too, so the tests there cannot be compared");
        assert!(error.contains(&says), "{error}");
        assert!(outcome["evidence"]["output"].as_str().unwrap().contains(why), "{outcome:#}");
        // The work that makes it load is verified.
        let mends = format!("cp {own} {path}");
        let outcome = world.run(&json!([{ "shell": mends }, {}]), &args).assert_ended(0, "completed", None);
        assert_eq!(outcome["evidence"]["verdict"], "verified", "{outcome:#}");
        // The work that keeps another file from being loaded has broken it.
        let breaks = format!("cp {path} {own}");
        let outcome = world.run(&json!([{ "shell": breaks }, {}]), &args).assert_ended(1, "failed", Some("tests"));
        assert_eq!(outcome["evidence"]["verdict"], "failed", "{outcome:#}");
    }
    if !node {
        harvest_testing::skip("node is not installed");
    }
}

#[test]
fn a_known_cause_of_failures_that_the_base_has_too_is_told_instead_of_how_to_accept_them() {
    let lacking = SUITE.replace("exit $status", "echo \"Error: Cannot find module 'no-such-package'\"; exit $status");
    let world = world(&[("adds", "pass"), ("old", "fail")]);
    world.write("suite.sh", lacking);
    world.commit("A suite that lacks a package");
    let outcome = run(&world, "echo x > x", &[]).assert_ended(1, "failed", Some("tests"));
    assert_eq!(outcome["evidence"]["verdict"], "unchanged", "{outcome:#}");
    let error = outcome["error"].as_str().unwrap();
    let says = "fails at the result as it does at the base; `no-such-package` is not installed in the sandbox: declare";
    assert!(error.contains(says) && !error.contains("accept_unchanged"), "{error}");
}
