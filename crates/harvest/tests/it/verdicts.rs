//! What the evidence comes to, on every surface: a command that cannot run, a red base, tests that are new or gone.

use serde_json::{Value, json};

use crate::support::{Ran, World};

/// Prints TAP: a test for each file of `cases`, which passes if the file says so.
const SUITE: &str = r#"number=0
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
    assert!(hint.starts_with("`surely-not-installed` is not installed in the sandbox: `harvest repo add .`"), "{hint}");
    let output = evidence["output"].as_str().unwrap();
    assert!(output.starts_with("begun\n") && output.contains("not found"), "{output}");
    assert!(outcome["error"].as_str().unwrap().contains("`surely-not-installed` is not installed"), "{outcome:#}");
    let (show, logs) = told(&world, &outcome);
    for text in [&show, &logs] {
        assert!(text.contains("surely-not-installed: ") && text.contains("not found"), "{text}");
    }
    assert!(show.contains("not verified: the test command could not run"), "{show}");
    assert!(show.contains("prepares the repository's dependencies"), "{show}");
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
    for (change, broken, vanished) in [
        ("echo fail > cases/adds", "adds", ""),
        ("echo fail > cases/new", "new", ""),
        ("rm cases/adds; echo pass > cases/other", "", "adds"),
    ] {
        let world = world(&[("adds", "pass"), ("old", "fail"), ("second", "pass")]);
        let config = world.path().join("accept.toml");
        std::fs::write(&config, "accept_unchanged = true\n").unwrap();
        let ran = run(&world, change, &["--config", config.to_str().unwrap()]);
        let outcome = ran.assert_ended(1, "failed", Some("tests"));
        assert_eq!(outcome["evidence"]["verdict"], "failed", "{change}: {outcome:#}");
        let lists = ["broken", "vanished"].map(|list| names(&outcome, list).join(" "));
        assert_eq!(lists, [broken, vanished], "{change}");
        let (_, logs) = told(&world, &outcome);
        assert!(logs.contains("- old\n"), "{logs}");
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
