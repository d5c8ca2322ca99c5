//! Agents that get nowhere: each limit ends one with its own reason, after it was asked to end by itself; the work is kept and
//! no process is left.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{FIX, Ran, World};

/// An agent that is a program of its own: an interpreter's line and what follows.
fn add_agent(world: &World, text: &str) -> TempDir {
    // Not below /tmp, which every sandbox has its own of.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("agent");
    fs::write(&file, text).unwrap();
    for path in [folder.path(), &file] {
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let definition = format!(
        "[[agent]]\nid = 'mine'\nname = 'My script'\nproviders = ['anthropic']\ndialect = 'text'\nprompt = 'stdin'\n\
         command = '{}'\narguments = ['{{base_url}}']\ninstall_hint = 'write it'\n",
        file.display()
    );
    let agents = world.home().join(".config/harvest/agents");
    fs::create_dir_all(&agents).unwrap();
    fs::write(agents.join("mine.toml"), definition).unwrap();
    folder
}

fn settings(world: &World, text: &str) {
    let file = world.home().join(".config/harvest/harvest.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// It was stopped for this reason, said so, kept its work and left nothing running.
#[track_caller]
fn assert_limit(world: &World, ran: &Ran, limit: &str, reason: &str, code: &str) -> Value {
    let outcome = ran.assert_ended(3, "failed", Some(reason));
    assert!(ran.stderr.starts_with(&format!("error[{code}]:")), "{}", ran.stderr);
    let reached = ran.of_type("limit.reached");
    assert_eq!(reached.iter().map(|data| &data["limit"]).collect::<Vec<_>>(), [limit], "{ran:?}");
    assert_eq!(reached[0]["message"], outcome["error"]);
    assert_eq!(ran.of_type("agent.finished")[0]["reason"], reason);
    let branch = outcome["branch"].as_str().unwrap_or_else(|| panic!("no branch: {outcome:#}"));
    assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two");
    world.assert_nothing_left();
    outcome
}

#[test]
fn a_silent_agent_is_interrupted_and_may_finish_what_it_does() {
    let world = World::new();
    settings(&world, "stall = '1s'\ngrace = '60s'");
    let text = format!(
        "#!/bin/sh\n{FIX}\ntrap 'echo I was interrupted; echo clean > ended.txt; exit 0' INT\n\
         (setsid sleep 987654 &)\necho I begin\nsleep 987654 & wait\n"
    );
    let _agent = add_agent(&world, &text);
    // However Harvest itself was started.
    let ran = world.run_with(&json!([{}]), &["--agent", "mine"]).deaf_to_interrupts().start().finish();
    let outcome = assert_limit(&world, &ran, "stall", "stall", "HV-0404");
    assert_eq!(outcome["error"], "the agent printed nothing for 1 s");
    assert_eq!(ran.of_type("message").last().unwrap()["text"], "I was interrupted");
    let branch = outcome["branch"].as_str().unwrap();
    assert_eq!(world.show(&format!("{branch}:ended.txt")), "clean");
}

#[test]
fn an_agent_that_hears_nothing_is_killed_with_its_children() {
    let world = World::new();
    settings(&world, "stall = '1s'\ngrace = '300ms'");
    let text = format!(
        "#!/bin/sh\n{FIX}\ntrap 'echo interrupted' INT\ntrap 'echo terminated' TERM\n(setsid sleep 987654 &)\n\
         echo I begin\nwhile :; do sleep 987654 & wait; done\n"
    );
    let _agent = add_agent(&world, &text);
    let ran = world.run(&json!([{}]), &["--agent", "mine"]);
    assert_limit(&world, &ran, "stall", "stall", "HV-0404");
    let said: Vec<String> = ran.of_type("message").iter().map(|data| data["text"].as_str().unwrap().into()).collect();
    assert_eq!(said, ["I begin", "interrupted", "terminated"]);
    assert_eq!(ran.of_type("agent.finished")[0]["exit_code"], Value::Null);
}

#[test]
fn time_is_up_however_much_an_agent_says() {
    let world = World::new();
    let text = format!("#!/bin/sh\n{FIX}\nwhile :; do echo still here; sleep 0.1; done\n");
    let _agent = add_agent(&world, &text);
    let ran = world.run(&json!([{}]), &["--agent", "mine", "--timeout", "2s"]);
    let outcome = assert_limit(&world, &ran, "wall", "timeout", "HV-0403");
    assert_eq!(outcome["error"], "the agent did not end within 2 s");
}

#[test]
fn the_same_call_with_the_same_outcome_is_a_loop() {
    let world = World::new();
    settings(&world, "max_repeats = 4");
    let again = json!({ "shell": "sh tests/one.sh && echo ok" });
    let mut replies = vec![json!({ "shell": FIX }), json!({ "shell": "echo first" })];
    replies.extend(std::iter::repeat_n(again, 12));
    let ran = world.run(&Value::Array(replies), &[]);
    let outcome = assert_limit(&world, &ran, "loop", "loop", "HV-0409");
    assert_eq!(outcome["error"], "the agent made the same tool call 4 times, with the same outcome");
    // The agent may have begun the next call before it is stopped.
    let calls = ran.of_type("tool.result").len();
    assert!((6..14).contains(&calls), "{calls}");
}

/// One that does not count its calls itself.
#[test]
fn an_agent_that_asks_the_model_too_often_is_stopped() {
    let world = World::new();
    settings(&world, "max_turns = 3");
    let text = r#"#!/usr/bin/python3
import json, sys, urllib.request
open("src/two.sh", "w").write("echo two\n")
body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
for number in range(1000):
    request = urllib.request.Request(sys.argv[1] + "/v1/messages", json.dumps(body).encode(), {"content-type": "application/json"})
    json.load(urllib.request.urlopen(request))
    print("answer", number, flush=True)
"#;
    let _agent = add_agent(&world, text);
    let ran = world.run(&json!([{ "say": "Hello." }]), &["--agent", "mine"]);
    let outcome = assert_limit(&world, &ran, "turns", "turns", "HV-0410");
    assert_eq!(outcome["error"], "the agent called the model more than 3 times; `max_turns` allows no more");
}

/// One that does.
#[test]
fn an_agent_that_counts_its_turns_stops_itself() {
    let world = World::new();
    settings(&world, "max_turns = 2");
    let ran = world.run(&json!([{ "shell": FIX }, { "shell": "ls" }, { "shell": "true" }, {}]), &[]);
    let outcome = ran.assert_ended(3, "failed", Some("turns"));
    assert_eq!(outcome["error"], "the model did not finish within 2 turns");
    assert!(ran.of_type("limit.reached").is_empty() && outcome["branch"].is_string(), "{outcome:#}");
    world.assert_nothing_left();
}
