//! The verdict table: what each surface says when the test command is missing, when the base is red, and when tests are new, gone or
//! not counted. The page's tests read the same tasks from `verdict_table.json`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde_json::{Value, json};

use crate::github::Hub;
use crate::run::people;
use crate::support::World;
use crate::verdicts::{NAMED_SUITE, QUIET_SUITE, SUITE};

struct Case {
    name: &'static str,
    suite: &'static str,
    test: &'static str,
    /// The tests at the base, and whether they pass.
    base: &'static [(&'static str, &'static str)],
    /// Other files at the base.
    files: &'static [(&'static str, &'static str)],
    change: &'static str,
    /// In `harvest.toml`.
    settings: &'static str,
}

/// Runs the real runner, and prints what all its versions print alike.
const NODE_SUITE: &str = r#"told=$(node --test --test-reporter=tap 2>&1)
status=$?
printf '%s\n' "$told" | sed 's#/workspace/##g' | grep -E '^(ok|not ok) |^# (Error|SyntaxError|pass|fail|skipped)'
exit $status
"#;
const UNITTEST_SUITE: &str = r#"told=$(python3 -m unittest discover -s tests -t . 2>&1)
status=$?
printf '%s\n' "$told" | sed -e 's/_FailedTest\.[a-z._]*)/_FailedTest)/' -e 's/ in [0-9.]*s$/ in 0.001s/' |
  grep -E '^(ERROR|FAIL|Ran|OK|[A-Za-z]*Error)'
exit $status
"#;
const LACKS_A_PACKAGE: &str =
    "import test from 'node:test';\nimport pad from 'no-such-package';\ntest('adds', () => pad);\n";
const IS_NO_PROGRAM: &str = "import test from 'node:test';\ntest('adds', () => {\n";
const PASSES: &str = "import test from 'node:test';\ntest('is right', () => {});\n";
const LACKS_A_MODULE: &str = "import unittest\nimport no_such_package\n\nclass Cart(unittest.TestCase):\n    def test_adds(self):\n        pass\n";

const CASES: [Case; 13] = [
    Case {
        name: "command_missing",
        suite: SUITE,
        test: "surely-not-installed --all",
        base: &[("adds", "pass")],
        files: &[],
        change: "echo x > notes",
        settings: "",
    },
    Case {
        name: "red_base_unchanged",
        suite: SUITE,
        test: "sh suite.sh",
        base: &[("adds", "pass"), ("divides", "fail")],
        files: &[],
        change: "echo x > notes",
        settings: "",
    },
    Case {
        name: "red_base_worse",
        suite: SUITE,
        test: "sh suite.sh",
        base: &[("adds", "pass"), ("divides", "fail")],
        files: &[],
        change: "echo fail > cases/adds",
        settings: "",
    },
    Case {
        name: "new_test_that_fails",
        suite: SUITE,
        test: "sh suite.sh",
        base: &[("adds", "pass")],
        files: &[],
        change: "echo fail > cases/divides",
        settings: "",
    },
    Case {
        name: "test_that_fails_at_the_base",
        suite: SUITE,
        test: "sh suite.sh",
        base: &[("adds", "pass"), ("divides", "fail")],
        files: &[],
        change: "echo pass > cases/divides",
        settings: "",
    },
    Case {
        name: "vanished_test",
        suite: SUITE,
        test: "sh suite.sh",
        base: &[("adds", "pass"), ("divides", "pass")],
        files: &[],
        change: "git mv cases/divides cases/halves",
        settings: "",
    },
    Case {
        name: "no_counts",
        suite: SUITE,
        test: "echo fine",
        base: &[("adds", "pass")],
        files: &[],
        change: "echo x > notes",
        settings: "",
    },
    Case {
        name: "failures_at_exit_code_0",
        suite: SUITE,
        test: "sh suite.sh || true",
        base: &[("adds", "pass"), ("divides", "fail")],
        files: &[],
        change: "echo x > notes",
        settings: "",
    },
    Case {
        name: "failure_named_no_more",
        suite: QUIET_SUITE,
        test: "sh suite.sh",
        base: &[("adds", "fail"), ("divides", "fail")],
        files: &[],
        change: "git mv cases/adds cases/sums; echo pass > cases/sums",
        settings: "",
    },
    Case {
        name: "red_base_loses_a_test",
        suite: NAMED_SUITE,
        test: "sh suite.sh cases/adds cases/divides",
        base: &[("adds", "pass"), ("divides", "fail")],
        files: &[],
        change: "rm cases/adds",
        settings: "accept_unchanged = true\n",
    },
    Case {
        name: "package_missing_in_node",
        suite: NODE_SUITE,
        test: "sh suite.sh",
        base: &[],
        files: &[("test/cart.test.mjs", LACKS_A_PACKAGE)],
        change: "echo x > notes",
        settings: "accept_unchanged = true\n",
    },
    Case {
        name: "file_not_loaded_in_node",
        suite: NODE_SUITE,
        test: "sh suite.sh",
        base: &[],
        files: &[("test/cart.test.mjs", IS_NO_PROGRAM), ("test/price.test.mjs", PASSES)],
        change: "echo x > notes",
        settings: "accept_unchanged = true\n",
    },
    Case {
        name: "package_missing_in_unittest",
        suite: UNITTEST_SUITE,
        test: "sh suite.sh",
        base: &[],
        files: &[("tests/__init__.py", ""), ("tests/test_cart.py", LACKS_A_MODULE)],
        change: "echo x > notes",
        settings: "accept_unchanged = true\n",
    },
];

/// What the surfaces say of one case, and its task as the API has it.
struct Told {
    text: String,
    task: Value,
}

/// Runs a case in a repository of its own, and in the same repository on GitHub.
fn tell(case: &Case) -> Told {
    let world = World::empty();
    crate::support::init(&world.repo());
    world.write("suite.sh", case.suite);
    for (name, outcome) in case.base {
        world.write(&format!("cases/{name}"), format!("{outcome}\n"));
    }
    for (path, content) in case.files {
        world.write(path, content);
    }
    world.commit("Start");
    let script = world.script(&json!([{ "shell": case.change }, { "say": "Done." }]));
    let script = script.to_str().unwrap();

    // Failed work becomes a draft.
    let config = world.path().join("harvest.toml");
    fs::write(&config, format!("{}[github]\ndraft_failed = true\n", case.settings)).unwrap();
    let config = config.to_str().unwrap();
    let args = ["run", "Change it", "--test", case.test, "--model-script", script, "--config", config];
    let run = world.harvest(&args).finish();
    let id = world.tasks()[0]["id"].as_str().unwrap().to_owned();
    let print = |args: &[&str]| world.harvest(args).finish().stdout;
    let (show, logs) = (print(&["task", "show", &id]), print(&["task", "logs", &id]));
    let list = print(&["task", "list"]);

    let hub = Hub::new(&world);
    let address = format!("{}/ada/shop", hub.fake.url());
    let add = ["task", "add", "Change it", "--repo", &address, "--test", case.test, "--config", config];
    world.json(&add);
    let up = print(&["up", "--until-empty", "--agents", "1", "--model-script", script, "--config", config]);
    let proposed = hub.exchange("a pull request", |call| call.method == "POST" && call.path.ends_with("/pulls"));
    let body = proposed.request.unwrap()["body"].as_str().unwrap().to_owned();
    // Without the signature, and without the figures at the end.
    let (evidence, rest) = body.split_once("<details><summary>Signed evidence").unwrap();
    let (_, checklist) = rest.split_once("### Before you merge").unwrap();
    let (checklist, _) = checklist.split_once("\n\n<sub>").unwrap();
    let body = format!("{evidence}### Before you merge{checklist}");

    let server = world.serve(&[]);
    let task = server.with(&world.token(&[])).get(&format!("/api/tasks/{id}")).ok();
    let ended = up.lines().find(|line| line.starts_with(['✓', '✗'])).unwrap_or(&up);
    let details = serde_json::to_string_pretty(&api(&task)).unwrap();
    let sections = [
        ("harvest run", [in_order(&run.stdout), run.stderr].concat()),
        ("harvest task show", show),
        ("harvest task logs", in_order(&logs)),
        ("harvest task list", list),
        ("harvest up", ended.to_owned()),
        ("GET /api/tasks/ID", details),
        ("pull request", body),
    ];
    let text: Vec<String> = sections.iter().map(|(name, text)| format!("=== {name}\n{}", text.trim_end())).collect();
    let text = masked(&world, &text.join("\n\n"));
    let task = serde_json::from_str(&masked(&world, &task.to_string())).unwrap();
    Told { text, task }
}

/// The two runs of the tests go side by side, so either may be told first.
fn in_order(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if let Some(base) = lines.iter().position(|line| line.contains("tests at the base")) {
        let line = lines.remove(base);
        let result = lines.iter().position(|line| line.contains("tests at the result")).unwrap();
        lines.insert(result, line);
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// What the API says about how a task ended, without what differs from run to run.
fn api(task: &Value) -> Value {
    let mut evidence = task["evidence"].clone();
    // Each shell says it in its own way.
    if evidence["command"].as_str().unwrap().starts_with("surely-not-installed") {
        assert!(evidence["output"].as_str().unwrap().contains("surely-not-installed: "), "{evidence:#}");
        evidence["output"] = json!("/bin/sh: surely-not-installed: not found");
    }
    for field in ["commit", "tree", "environment", "duration_ms"] {
        evidence.as_object_mut().unwrap().remove(field);
    }
    json!({ "status": task["status"], "reason": task["reason"], "error": task["error"], "evidence": evidence })
}

/// The tasks as the page reads them, with the same ids and times in every run.
fn fixture(cases: &[(&str, Value)]) -> String {
    let mut tasks = serde_json::Map::new();
    for (name, task) in cases {
        let mut shown = api(task);
        shown["kind"] = task["kind"].clone();
        shown["branch"] = if task["branch"].is_null() { Value::Null } else { json!("harvest/change-it") };
        shown["base"] = json!("b".repeat(40));
        shown["commit"] = json!("c".repeat(40));
        shown["finished_at"] = json!("2026-01-01T00:00:00Z");
        let evidence = shown["evidence"].as_object_mut().unwrap();
        evidence.insert("commit".to_owned(), json!("c".repeat(40)));
        evidence.insert("environment".to_owned(), json!("sha256:0"));
        evidence.insert("duration_ms".to_owned(), json!(12));
        tasks.insert((*name).to_owned(), shown);
    }
    format!("{:#}\n", Value::Object(tasks))
}

fn masked(world: &World, text: &str) -> String {
    text.replace(world.path().to_str().unwrap(), "[WORLD]")
}

#[test]
fn each_surface_tells_the_same_verdict() {
    if Command::new("node").arg("--version").output().is_err() {
        return harvest_testing::skip("node is not installed");
    }
    let told: Vec<Told> = thread::scope(|scope| {
        let cases: Vec<_> = CASES.iter().map(|case| scope.spawn(|| tell(case))).collect();
        cases.into_iter().map(|case| case.join().unwrap()).collect()
    });
    let mut settings = people(&World::empty());
    for (pattern, replacement) in [
        (r"(?m)^[0-9a-z]{8}  ", "[ID]  "),
        (r"(✓|✗|task) [0-9a-z]{8}\b", "$1 [ID]"),
        (r"\b[0-9a-z]{16}\b", "[ID]"),
        (r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\b", "[AT]"),
        (r" +(\d+ s|now)  repo ", "  [AGE]  repo "),
        (r"by \S+\n", "by [PERSON]\n"),
        (r"127\.0\.0\.1:\d+", "[HOST]"),
        (r"/bin/sh: .*surely-not-installed: .*not found", "/bin/sh: surely-not-installed: not found"),
        // The columns are as wide as an age or a time happens to be.
        (r"(\S) {2,}", "$1  "),
    ] {
        settings.add_filter(pattern, replacement);
    }
    settings.bind(|| {
        for (case, told) in CASES.iter().zip(&told) {
            insta::assert_snapshot!(case.name, told.text);
        }
    });

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/verdict_table.json");
    let cases: Vec<(&str, Value)> = CASES.iter().zip(told).map(|(case, told)| (case.name, told.task)).collect();
    let wanted = fixture(&cases);
    if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
        fs::write(&path, &wanted).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, wanted, "INSTA_UPDATE=always writes tests/it/verdict_table.json anew");
}
