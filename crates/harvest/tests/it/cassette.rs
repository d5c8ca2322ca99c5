//! A run recorded, and the same run again: without script, key or network.

use serde_json::{Value, json};

use crate::support::{FIX, Ran, World};

const KEY: &str = "sk-ant-api03-canary-of-the-cassette-0123456789abcdef";

fn replies() -> Value {
    json!([
        { "say": "I will look.", "shell": "cat src/two.sh && date && git log -1", "tokens": { "input": 1000, "output": 10 } },
        { "shell": FIX, "tokens": { "input": 1100, "output": 20 }, "status": 529 },
        { "say": "Done.", "tokens": { "input": 1200, "output": 30 } },
    ])
}

/// What a run came to, without what is each run's own.
fn told(ran: &Ran) -> Value {
    let outcome = ran.outcome();
    json!({
        "status": outcome["status"],
        "usage": outcome["usage"],
        "cost": outcome["cost_usd"],
        "messages": ran.of_type("message").iter().map(|data| data["text"].clone()).collect::<Vec<_>>(),
        "calls": ran.of_type("tool.call").iter().map(|data| data["input"].clone()).collect::<Vec<_>>(),
    })
}

#[test]
fn a_recorded_run_comes_again() {
    let world = World::new();
    let cassette = world.path().join("run.jsonl");
    let path = cassette.to_str().unwrap();
    // A key in the environment and in the repository: the agent prints it, and the cassette must not hold it.
    world.write("notes.txt", format!("the key is {KEY}\n"));
    world.commit("Add notes");
    let mut replies = replies();
    replies[0]["shell"] = json!("cat notes.txt src/two.sh && date && git log -1");
    let recorded = world.run_with(&replies, &["--record", path]).env("ANTHROPIC_API_KEY", KEY).finish();
    recorded.assert_ended(0, "completed", None);
    let file = std::fs::read_to_string(&cassette).unwrap();
    assert!(!file.contains(KEY) && file.contains("[redacted]"), "{file}");
    assert!(file.lines().count() >= 4, "{file}");

    let again = world.harvest(&["run", "Make the failing test pass", "--json", "--replay", path]);
    let again = again.env("ANTHROPIC_API_KEY", KEY).finish();
    again.assert_ended(0, "completed", None);
    assert_eq!(told(&again), told(&recorded));
    let branch = again.outcome()["branch"].as_str().unwrap().to_owned();
    assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two");
    world.assert_nothing_left();
}

#[test]
fn a_replay_that_goes_another_way_fails_and_says_where() {
    let world = World::new();
    let cassette = world.path().join("run.jsonl");
    let path = cassette.to_str().unwrap();
    world.run(&replies(), &["--record", path]).assert_ended(0, "completed", None);
    world.write("src/two.sh", "echo four\n");
    world.commit("Another bug");
    let ran = world.harvest(&["run", "Make the failing test pass", "--json", "--replay", path]).finish();
    assert_eq!(ran.exit, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.starts_with("error[HV-0134]: request 2 of the cassette"), "{}", ran.stderr);
    assert!(ran.stderr.contains("echo three") && ran.stderr.contains("echo four"), "both are shown: {}", ran.stderr);
    assert!(ran.stderr.contains("/messages/2/content/0/content"), "{}", ran.stderr);
    assert_eq!(ran.outcome()["status"], "failed");

    let other = world.harvest(&["run", "Something else", "--json", "--replay", path]).finish();
    assert_eq!(other.exit, Some(1));
    assert!(other.stderr.contains("no request") && other.stderr.contains("Something else"), "{}", other.stderr);
}

#[test]
fn cassettes_that_cannot_be_used_are_refused_before_anything_is_made() {
    let world = World::new();
    let taken = world.path().join("taken.jsonl");
    std::fs::write(&taken, "not a cassette\n").unwrap();
    let taken = taken.to_str().unwrap();
    for (args, says) in [
        (vec!["--record", taken, "--model-script", "script"], "never overwritten"),
        (vec!["--replay", taken], "line 1"),
        (vec!["--replay", "/nonexistent/x"], "/nonexistent/x"),
    ] {
        let script = world.script(&replies());
        let args: Vec<&str> =
            args.into_iter().map(|arg| if arg == "script" { script.to_str().unwrap() } else { arg }).collect();
        let ran = world.harvest(&["run", "x", "--json"]).args(&args).finish();
        assert_eq!(ran.exit, Some(2), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error[HV-0133]") && ran.stderr.contains(says), "{args:?}: {}", ran.stderr);
    }
    assert_eq!(world.tasks(), Vec::<Value>::new());
    assert_eq!(std::fs::read_to_string(taken).unwrap(), "not a cassette\n");
}
