//! The first day: `harvest init` at a terminal, answered by a person's keys, and by programs.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agents::Vendor;
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
            let accepted = String::from_utf8_lossy(&head).contains(&format!("x-api-key: {key}\r\n"));
            let status = if accepted { "200 OK" } else { "401 Unauthorized" };
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
            ("Whose models?", "\n"),
            ("not shown, and Enter skips: ", &format!("{key}\n")),
            ("proves results", "sh test.sh\n"),
            ("The first task", "Make the failing test pass\n"),
        ],
    );
    assert_eq!(exit, 0, "{shown}");
    // The promise is about setting up a key; this is the whole way.
    assert!(begin.elapsed() < Duration::from_secs(120), "{:?}", begin.elapsed());
    for line in ["✓ machine", "✓ agent", "✓ key", "✓ repository", "✓ dependencies", "✓ tests", "✓ task"] {
        assert!(shown.contains(line), "{line} is missing in\n{shown}");
    }
    assert!(!shown.contains(key), "{shown}");
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
            ("Whose models?", "\n"),
            ("not shown, and Enter skips: ", "sk-ant-api03-a-wrong-one-0001\n"),
            ("not shown, and Enter skips: ", "sk-ant-api03-the-right-one-0042\n"),
            ("proves results", "\n"),
            ("The first task", "\n"),
        ],
    );
    assert_eq!(exit, 0, "{shown}");
    assert!(shown.contains("anthropic refuses this key; try another"), "{shown}");
    assert!(shown.contains("✓ key           anthropic key …0042 is accepted"), "{shown}");
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
        ("Whose models?", "\n"),
        ("proves results", "\n"),
    ];
    let (shown, exit) = at_a_terminal(&world, &[], &[], &[&rules[..], &[("The first task", "\n")]].concat());
    assert_eq!(exit, 0, "{shown}");
    assert!(shown.contains("Harvest, step by step"), "{shown}");
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
    let report: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
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
