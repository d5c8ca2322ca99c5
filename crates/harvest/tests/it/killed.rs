//! kill -9: the next command finds what was left, ends it, clears it up and tells.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{FIX, World, assert_gapless};

#[test]
fn what_a_killed_run_left_is_cleared_up_and_told() {
    let world = World::new();
    let replies = json!([{ "shell": FIX }, { "shell": "(setsid sleep 987654 &) ; sleep 987654" }]);
    let mut running = world.run_with(&replies, &[]).start();
    running.wait_for_type("checkpoint.created");
    let pid = running.pid();
    running.signal(Signal::KILL);
    let ran = running.finish();
    assert_eq!(ran.exit, None);
    assert!(!world.leftovers().is_empty(), "a killed process cannot have cleared up");
    let list = world.harvest(&["task", "list"]).finish();
    assert_eq!(list.exit, Some(0), "{list:?}");
    assert!(list.stderr.contains("had been killed"), "{list:?}");
    world.assert_nothing_left();
    let task = &world.tasks()[0];
    assert_eq!((&task["status"], &task["reason"]), (&json!("failed"), &json!("internal")), "{task:#}");
    assert!(task["error"].as_str().unwrap().contains(&format!("pid {pid}")), "{task:#}");
    let id = task["id"].as_str().unwrap();
    let show = world.harvest(&["task", "show", id]).finish();
    assert!(show.stdout.contains("was killed"), "{show:?}");
    let branch = task["branch"].as_str().unwrap();
    assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two");
    // What was seen before is the beginning of what is recorded, and there is one end.
    let events = journal(&world, id);
    for (line, event) in ran.stdout.lines().zip(&events) {
        assert_eq!(&serde_json::from_str::<Value>(line).unwrap(), event);
    }
    assert_eq!(events.iter().filter(|event| event["type"] == "task.finished").count(), 1);
    // Telling it once is enough.
    assert_eq!(world.harvest(&["task", "list"]).finish().stderr, "");
}

#[test]
fn a_kill_at_any_moment_leaves_nothing_after_the_next_command() {
    for (kind, test) in [
        ("task.created", "true"),
        ("turn.started", "true"),
        ("sandbox.ready", "true"),
        ("agent.started", "true"),
        ("tool.call", "true"),
        ("agent.finished", "true"),
        ("stage.finished", "sleep 987654"),
    ] {
        let world = World::new();
        let mut running = world.run_with(&json!([{ "shell": FIX }, {}]), &["--test", test]).start();
        running.wait_for_type(kind);
        running.signal(Signal::KILL);
        running.finish();
        let tasks = world.tasks();
        world.assert_nothing_left();
        assert_eq!(tasks.len(), 1, "{kind}");
        assert_eq!(
            (&tasks[0]["status"], &tasks[0]["reason"]),
            (&json!("failed"), &json!("internal")),
            "{kind}: {:#}",
            tasks[0]
        );
        let events = journal(&world, tasks[0]["id"].as_str().unwrap());
        assert_eq!(events.iter().filter(|event| event["type"] == "task.finished").count(), 1, "{kind}");
        assert_eq!(events.last().unwrap()["type"], "task.finished", "{kind}");
    }
}

/// The commands of one data directory leave the sandboxes of another alone.
#[test]
fn a_living_task_survives_other_commands() {
    let (world, other) = (World::new(), World::new());
    other.run(&json!([{}]), &["--test", "true"]).assert_ended(0, "completed", None);
    let replies = json!([{ "shell": FIX }, { "shell": "while ! [ -e go ]; do sleep 0.1; done" }, {}]);
    let mut running = world.run_with(&replies, &["--timeout", "6s"]).start();
    running.wait_for_type("checkpoint.created");
    for world in [&other, &world] {
        for args in [&["task", "list"][..], &["doctor"]] {
            assert_eq!(world.harvest(args).finish().exit, Some(0), "{args:?}");
        }
    }
    other.run(&json!([{}]), &["--test", "true"]).assert_ended(0, "completed", None);
    world.run(&json!([{}]), &["--test", "true"]).assert_ended(0, "completed", None);
    running.finish().assert_ended(3, "failed", Some("timeout"));
    world.assert_nothing_left();
}

pub fn journal(world: &World, id: &str) -> Vec<Value> {
    let logs = world.harvest(&["task", "logs", id, "--json"]).finish();
    assert_eq!(logs.exit, Some(0), "{logs:?}");
    let events: Vec<Value> = logs.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_gapless(&events);
    events
}
