//! The first day: `harvest init` at a terminal, answered by a person's keys, and by programs.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agents::Vendor;
use crate::run::people;
use crate::support::{FIX, PATH, World, git};

/// Gives a program a terminal of its own and types an answer whenever a question is shown: the rules are pairs of what is
/// shown and what is typed, each used once, in any order. Prints all that was shown, and leaves with the program's exit code.
const TERMINAL: &str = r#"
import json, os, pty, select, signal, sys, time
rules, command = json.loads(sys.argv[1]), sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execvp(command[0], command)
shown, seen, end = b'', 0, time.time() + 300
while time.time() < end:
    if not select.select([terminal], [], [], 1)[0]:
        continue
    try:
        piece = os.read(terminal, 65536)
    except OSError:
        break
    if not piece:
        break
    shown += piece
    found = True
    while found:
        found = [(at, rule) for rule in rules if (at := shown.find(rule[0].encode(), seen)) >= 0]
        if found:
            at, rule = min(found)
            os.write(terminal, rule[1].encode())
            seen = at + len(rule[0].encode())
            rules.remove(rule)
else:
    os.kill(child, signal.SIGKILL)
sys.stdout.buffer.write(shown)
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

/// What was shown at the terminal, and the exit code.
pub fn at_a_terminal(
    world: &World,
    variables: &[(&str, &str)],
    args: &[&str],
    rules: &[(&str, &str)],
) -> (String, i32) {
    let rules = json!(rules).to_string();
    let mut command = Command::new("python3");
    command.args(["-c", TERMINAL, &rules, env!("CARGO_BIN_EXE_harvest")]).args(args);
    command.env_clear().envs([("PATH", PATH), ("LANG", "C.UTF-8"), ("TERM", "dumb"), ("USER", "ada")]);
    command.env("HOME", world.home()).env("HARVEST_DATA_DIR", world.data()).envs(variables.iter().copied());
    let ran = command.current_dir(world.repo()).stdin(Stdio::null()).output().unwrap();
    let shown = String::from_utf8_lossy(&ran.stdout).replace("\r\n", "\n");
    assert!(ran.stderr.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
    (shown, ran.status.code().unwrap())
}

/// A host that accepts one key and refuses all others, and says nothing else.
fn host_that_accepts(key: &'static str) -> String {
    host_that_accepts_header(format!("x-api-key: {key}"), "401 Unauthorized")
}

/// Says `refusal` to every request without this header.
fn host_that_accepts_header(header: String, refusal: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            let accepted = String::from_utf8_lossy(&head).contains(&format!("{header}\r\n"));
            let status = if accepted { "200 OK" } else { refusal };
            let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
        }
    });
    url
}

#[test]
fn it_leads_from_nothing_to_the_first_verified_branch() {
    let world = World::new();
    let replies = json!([{ "shell": FIX }, { "say": "Done." }]);
    let conversations = json!([{ "when_prompt_contains": "failing test", "replies": replies }, { "replies": [{}] }]);
    let vendor = Vendor::playing(&world, &json!({ "model": "claude-sonnet-4-5", "conversations": conversations }));
    let host = format!("{}/anthropic", vendor.address);
    let key = "sk-ant-api03-first-day-0123456789";
    world.give(key);
    let begin = Instant::now();
    let (shown, exit) = at_a_terminal(
        &world,
        &[("ANTHROPIC_BASE_URL", &host)],
        &["init"],
        &[
            ("Which agent?", "\n"),
            ("Which model provider?", "\n"),
            ("not shown, and Enter skips: ", &format!("{key}\n")),
            ("verifies results", "sh test.sh\n"),
            ("First task", "Make the failing test pass\n"),
        ],
    );
    assert_eq!(exit, 0, "{shown}");
    // The promise is about setting up a key; this is the whole way.
    assert!(begin.elapsed() < Duration::from_secs(120), "{:?}", begin.elapsed());
    for line in ["✓ machine", "✓ agent", "✓ key", "✓ repository", "✓ dependencies", "✓ tests", "✓ task"] {
        assert!(shown.contains(line), "{line} is missing in\n{shown}");
    }
    assert!(!shown.contains(key), "{shown}");
    transcript(&world, &shown);
    let tasks = world.tasks();
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0]["status"], "completed", "{tasks:#?}");
    let log = world.harvest(&["audit", "export"]).finish().stdout;
    let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let actions: Vec<String> = entries.map(|entry| entry["action"].as_str().unwrap().to_owned()).collect();
    assert_eq!(actions, ["credential.create", "run"]);
    let branch = git(&world.repo(), &["branch", "--list", "harvest/*", "--format=%(refname:short)"]);
    assert_eq!(git(&world.repo(), &["show", &format!("{}:src/two.sh", branch.trim())]).trim(), "echo two");
    world.assert_nothing_left();
}

/// The whole transcript, without what differs between machines and runs.
fn transcript(world: &World, shown: &str) {
    let of_agents = [", no key yet", "not installed: ", "Which agent?"];
    let mut lines: Vec<&str> =
        shown.lines().filter(|line| !of_agents.iter().any(|words| line.contains(words))).collect();
    // The two test runs go side by side, so either may be told first.
    let first = lines.iter().position(|line| line.contains("tests at the")).unwrap_or_else(|| panic!("{shown}"));
    lines[first..first + 2].sort_by_key(|line| line.contains("result"));
    people(world).bind(|| insta::assert_snapshot!("the_transcript_of_the_first_day", lines.join("\n")));
}

fn step(report: &Value, name: &str) -> (String, String) {
    let step = report["steps"].as_array().unwrap().iter().find(|step| step["name"] == name);
    let step = step.unwrap_or_else(|| panic!("no {name}: {report:#}"));
    (step["state"].as_str().unwrap().to_owned(), step["detail"].as_str().unwrap().to_owned())
}

#[test]
fn the_test_command_is_tried_with_the_dependencies_that_were_installed() {
    if Command::new("npm").arg("--version").output().is_err() {
        return harvest_testing::skip("npm is not installed");
    }
    let world = World::new();
    crate::repo::npm_project(&world);
    let init = |args: &[&str]| -> Value {
        let ran = world.harvest(&["init", "--yes", "--json"]).args(args).finish();
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    };
    let report = init(&[]);
    let (state, detail) = step(&report, "tests");
    // The one that needs the dependency is among those that pass.
    assert!(detail.starts_with("`sh test.sh`, found in the repository: 2 passed, 1 failed in "), "{report:#}");
    assert_eq!(state, "done", "{report:#}");
    let skipped = step(&init(&["--skip-test-run"]), "tests");
    assert_eq!(skipped, ("unchecked".into(), "`sh test.sh`, found in the repository, not tried".into()));
    world.assert_nothing_left();
}

#[test]
fn a_test_command_that_cannot_run_is_told_with_what_it_printed_and_the_way_out() {
    let world = World::new();
    world.write("Makefile", "test:\n\tno-such-runner --all\n");
    world.commit("Make");
    let ran = world.harvest(&["init", "--yes"]).finish();
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert!(
        ran.stdout.contains("✗ tests         `make test`, found in the repository: ended with exit code 2"),
        "{ran:?}"
    );
    let (_, left) = ran.stdout.split_once("Left to do:\n").unwrap_or_else(|| panic!("{ran:?}"));
    assert!(ran.stdout.contains("no-such-runner") && left.contains("  tests "), "{ran:?}");
    world.assert_nothing_left();
}

/// A runner that counts a file which it cannot load as a failed test has run none.
#[test]
fn a_trial_in_which_no_test_could_be_loaded_is_not_told_as_failed_tests() {
    let world = World::new();
    let lacks = "import unittest\nimport no_such_package\n";
    world.write("tests/__init__.py", "");
    world.write("tests/test_cart.py", lacks);
    world.write(".harvest.toml", "test = \"python3 -m unittest discover -s tests -t .\"\n");
    world.commit("Tests");
    let ran = world.harvest(&["init", "--yes"]).finish();
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    let told = "found in the repository: ended with exit code 1: tests.test_cart could not be loaded\n";
    assert!(ran.stdout.contains("✗ tests ") && ran.stdout.contains(told), "{ran:?}");
    assert!(ran.stdout.contains("ModuleNotFoundError: No module named 'no_such_package'"), "{ran:?}");
    let (_, left) = ran.stdout.split_once("Left to do:\n").unwrap_or_else(|| panic!("{ran:?}"));
    assert!(left.contains("  tests         `no_such_package` is not installed in the sandbox: declare"), "{ran:?}");

    let passes = "import unittest\n\nclass Price(unittest.TestCase):\n    def test_it(self):\n        pass\n";
    world.write("tests/test_price.py", passes);
    world.commit("Another");
    let ran = world.harvest(&["init", "--yes"]).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("■ tests ") && ran.stdout.contains("1 passed, 1 failed in "), "{ran:?}");
    assert!(ran.stdout.contains(", but tests.test_cart could not be loaded\n"), "{ran:?}");
    world.assert_nothing_left();
}

#[test]
fn ctrl_c_skips_the_run_of_the_test_command_and_the_setup_continues() {
    let world = World::new();
    world.write("test.sh", "sleep 600\n");
    world.commit("Sleep");
    let (shown, exit) = at_a_terminal(
        &world,
        &[],
        &["init"],
        &[
            ("Which agent?", "\n"),
            ("Which model provider?", "\n"),
            ("not shown, and Enter skips: ", "\n"),
            ("verifies results", "\n"),
            // What a terminal makes of Ctrl-C.
            ("Ctrl-C skips this", "\u{3}"),
            ("First task", "\n"),
        ],
    );
    assert_eq!(exit, 0, "{shown}");
    assert!(shown.contains("■ tests         `sh test.sh`, found in the repository, not tried"), "{shown}");
    world.assert_nothing_left();
}

#[test]
fn the_token_of_a_subscription_is_saved_whether_or_not_its_host_lists_models() {
    let token = "sk-ant-oat01-subscription-0123456789";
    for (header, said) in [
        (format!("authorization: Bearer {token}"), "✓ key           anthropic key …6789 works"),
        // A token may be good for messages and not for the list of models.
        (
            "never: sent".to_owned(),
            "■ key           anthropic key …6789 saved, not checked: its host answered with status 403",
        ),
    ] {
        let world = World::new();
        world.give(token);
        let host = host_that_accepts_header(header, "403 Forbidden");
        let (shown, exit) = at_a_terminal(
            &world,
            &[("ANTHROPIC_BASE_URL", &host)],
            &["init", "--skip-test-run"],
            &[
                ("Which agent?", "\n"),
                ("Which model provider?", "\n"),
                ("for a Claude subscription what `claude setup-token` prints; it is not shown", &format!("{token}\n")),
                ("verifies results", "\n"),
                ("First task", "\n"),
            ],
        );
        assert_eq!(exit, 0, "{shown}");
        assert!(shown.contains(said) && !shown.contains(token), "{shown}");
        assert_eq!(world.json(&["credential", "list"])["items"][0]["last4"], "6789");
    }
}

#[test]
fn a_key_that_its_host_refuses_is_asked_for_again() {
    let world = World::new();
    let host = host_that_accepts("sk-ant-api03-the-right-one-0042");
    world.give("sk-ant-api03-the-right-one-0042");
    let (shown, exit) = at_a_terminal(
        &world,
        &[("ANTHROPIC_BASE_URL", &host)],
        &["init"],
        &[
            ("Which agent?", "\n"),
            ("Which model provider?", "\n"),
            ("not shown, and Enter skips: ", "sk-ant-api03-a-wrong-one-0001\n"),
            ("not shown, and Enter skips: ", "sk-ant-api03-the-right-one-0042\n"),
            ("verifies results", "\n"),
            ("First task", "\n"),
        ],
    );
    assert_eq!(exit, 0, "{shown}");
    assert!(shown.contains("anthropic rejects this key; try another, or press Enter to skip"), "{shown}");
    assert!(shown.contains("✓ key           anthropic key …0042 works"), "{shown}");
    assert!(shown.contains("■ task"), "{shown}");
    let credentials = world.json(&["credential", "list"]);
    assert_eq!(credentials["items"].as_array().unwrap().len(), 1, "{credentials:#}");
    assert_eq!(credentials["items"][0]["last4"], "0042");
}

#[test]
fn the_program_alone_guides_on_the_first_day_and_lists_commands_later() {
    let world = World::new();
    let rules = [
        ("not shown, and Enter skips: ", "\n"),
        ("Which agent?", "\n"),
        ("Which model provider?", "\n"),
        ("verifies results", "\n"),
    ];
    let (shown, exit) = at_a_terminal(&world, &[], &[], &[&rules[..], &[("First task", "\n")]].concat());
    assert_eq!(exit, 0, "{shown}");
    assert!(shown.contains("Setting up Harvest, step by step"), "{shown}");
    assert!(shown.contains("■ key"), "{shown}");
    let (shown, exit) = at_a_terminal(&world, &[], &[], &[]);
    assert_eq!(exit, 2);
    assert!(shown.contains("a command is missing") && shown.contains("harvest init"), "{shown}");
}

#[test]
fn programs_take_the_suggested_answers_and_read_every_step() {
    let world = World::new();
    let host = host_that_accepts("made-up-for-this-test");
    let variables = [("ANTHROPIC_BASE_URL", host.as_str()), ("ANTHROPIC_API_KEY", "made-up-for-this-test")];
    let mut harvest = world.harvest(&["init", "--yes", "--json"]);
    for (name, value) in variables {
        harvest = harvest.env(name, value);
    }
    let ran = harvest.finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["error"], Value::Null);
    let states: Vec<(&str, &str)> = report["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (step["name"].as_str().unwrap(), step["state"].as_str().unwrap()))
        .collect();
    let expected = [
        ("machine", "done"),
        ("agent", "done"),
        ("key", "done"),
        ("repository", "done"),
        ("dependencies", "done"),
        ("tests", "done"),
        ("task", "skipped"),
    ];
    assert_eq!(states, expected, "{report:#}");
}

#[test]
fn without_a_terminal_nothing_is_asked_and_nothing_is_made() {
    let world = World::new();
    let ran = world.harvest(&["init"]).finish();
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("take the suggested answers: harvest init --yes"), "{ran:?}");
    assert!(!world.data().exists());
}

#[test]
fn a_text_that_is_not_a_key_is_not_saved_and_everything_skipped_is_listed_with_its_command() {
    let world = World::new();
    let (shown, exit) = at_a_terminal(
        &world,
        &[],
        &["init"],
        &[
            ("Which model provider? [1] (or `skip`)", "\n"),
            ("not shown, and Enter skips: ", "banana\n"),
            ("not shown, and Enter skips: ", "skip\n"),
            ("verifies results [sh test.sh] (or `skip`)", "skip\n"),
            ("First task, e.g. \"Make the failing test pass\" [Enter skips]", "\n"),
        ],
    );
    assert_eq!(exit, 0, "{shown}");
    assert!(shown.contains("this is not a key of anthropic: it does not begin with `sk-ant-`"), "{shown}");
    assert_eq!(world.json(&["credential", "list"])["items"], json!([]));
    let (_, left) = shown.split_once("Left to do:\n").unwrap_or_else(|| panic!("{shown}"));
    let left: Vec<String> = left.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(left, ["key harvest credential add anthropic", "task harvest run \"Make the failing test pass\""]);
}

#[test]
fn a_key_that_cannot_be_checked_is_saved_without_a_check_mark_and_with_the_reason() {
    let world = World::new();
    // Nobody listens there.
    let host = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let key = "sk-ant-api03-unreachable-0007";
    world.give(key);
    let answers = [
        ("Which agent?", "\n"),
        ("Which model provider?", "\n"),
        ("not shown, and Enter skips: ", "sk-ant-api03-unreachable-0007\n"),
        ("verifies results", "\n"),
        ("First task", "\n"),
    ];
    let (shown, exit) = at_a_terminal(&world, &[("ANTHROPIC_BASE_URL", &host)], &["init"], &answers);
    assert_eq!(exit, 0, "{shown}");
    let says = "■ key           anthropic key …0007 saved, not checked: its host could not be reached";
    assert!(shown.contains(says), "{shown}");
    assert!(shown.contains("  key           harvest doctor --reach"), "{shown}");
    // The same key the next time: in the vault, and still unchecked.
    let mut again = world.harvest(&["init", "--yes", "--json"]).env("ANTHROPIC_BASE_URL", &host);
    again.command.env("USER", "ada");
    let report: Value = serde_json::from_str(&again.finish().stdout).unwrap();
    let key = report["steps"].as_array().unwrap().iter().find(|step| step["name"] == "key").unwrap();
    assert_eq!(key["state"], "unchecked", "{report:#}");
    assert_eq!(key["detail"], "anthropic key present, not checked: its host could not be reached");
}

#[test]
fn a_setup_that_cannot_run_its_task_prints_one_document_with_the_error() {
    let world = World::new();
    let ran = world.harvest(&["init", "--yes", "--json", "--task", "Make the failing test pass"]).finish();
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(report["type"], "setup");
    let state = |name: &str| report["steps"].as_array().unwrap().iter().find(|step| step["name"] == name).unwrap();
    assert_eq!(state("key")["state"], "skipped", "{report:#}");
    assert_eq!(state("task")["state"], "failed", "{report:#}");
    let code = report["error"]["code"].as_str().unwrap();
    assert!(ran.stderr.contains(&format!("error[{code}]")), "{ran:?}");
    for field in ["type", "title", "detail", "help"] {
        assert!(report["error"][field].is_string(), "{field}: {report:#}");
    }
    // Without an answer to its questions nothing begins, and a program is told in the same way.
    let ran = world.harvest(&["init", "--json"]).finish();
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&report["steps"], &report["error"]["code"]), (&json!([]), &json!("HV-0141")), "{report:#}");
}

#[test]
fn a_setup_with_a_task_prints_one_document_and_the_tasks_events_go_to_standard_error() {
    let world = World::new();
    let conversations = json!([{ "replies": [{ "shell": FIX }, { "say": "Done." }] }]);
    let vendor = Vendor::playing(&world, &json!({ "model": "claude-sonnet-4-5", "conversations": conversations }));
    let args = ["init", "--yes", "--json", "--task", "Make the failing test pass"];
    let ran = world
        .harvest(&args)
        .env("ANTHROPIC_BASE_URL", &format!("{}/anthropic", vendor.address))
        .env("ANTHROPIC_API_KEY", "made-up-for-this-test")
        .finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let task = report["steps"].as_array().unwrap().last().unwrap();
    assert_eq!((&task["state"], &task["detail"]), (&json!("done"), &json!("done and verified")), "{report:#}");
    assert!(ran.stderr.contains("\"turn.finished\""), "{ran:?}");
}

#[test]
fn a_first_task_that_changes_nothing_or_has_no_tests_is_not_called_verified() {
    let changes_nothing = (World::new(), json!([{ "say": "There is nothing to do." }]), "done, no changes");
    let without_tests = World::empty();
    crate::support::init(&without_tests.repo());
    without_tests.write("README", "A repository\n");
    without_tests.commit("Start");
    let has_no_tests = (without_tests, json!([{ "shell": "echo x > x" }, { "say": "Done." }]), "done, not verified");
    for (world, replies, detail) in [changes_nothing, has_no_tests] {
        let conversations = json!([{ "replies": replies }]);
        let vendor = Vendor::playing(&world, &json!({ "model": "claude-sonnet-4-5", "conversations": conversations }));
        let ran = world
            .harvest(&["init", "--yes", "--json", "--task", "Look at it"])
            .env("ANTHROPIC_BASE_URL", &format!("{}/anthropic", vendor.address))
            .env("ANTHROPIC_API_KEY", "made-up-for-this-test")
            .finish();
        let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        assert_eq!(report["steps"].as_array().unwrap().last().unwrap()["detail"], detail, "{report:#}");
    }
}

#[test]
fn a_repository_without_commits_is_named_with_what_to_do() {
    let world = World::empty();
    crate::support::init(&world.repo());
    let ran = world.harvest(&["init", "--yes"]).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("no commit"), "{ran:?}");
    assert!(ran.stdout.contains("git commit"), "{ran:?}");
}
