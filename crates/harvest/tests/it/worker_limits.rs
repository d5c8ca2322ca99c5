//! When a worker stops taking work: its own money, each dollar once, and its own hours.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{FIX, World};

/// Each turn costs one cent.
fn script(world: &World) -> String {
    let replies = json!([{ "shell": FIX, "tokens": { "input": 1000, "output": 0 } }, {}]);
    let script = json!({
        "price": { "input_per_mtok": 10.0, "output_per_mtok": 0.0 },
        "conversations": [{ "replies": replies }],
    });
    let file = world.path().join("cents.yaml");
    std::fs::write(&file, script.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

/// What the worker told.
fn up(world: &World, script: &str, more: &[&str]) -> String {
    let args = ["up", "--until-empty", "--agents", "1", "--model-script", script];
    let ran = world.harvest(&args).args(more).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    ran.stdout
}

#[test]
fn max_usd_counts_each_dollar_once_and_only_this_workers() {
    let world = World::new();
    let script = script(&world);
    let first = world.add("First", &[]);
    up(&world, &script, &[]);
    // The task has spent a cent already, with another worker, and spends one more with this.
    let shown = world.json(&["task", "show", &first]);
    let session = shown["sessions"][0]["id"].as_str().unwrap().to_owned();
    world.json(&["session", "prompt", &session, "Once more"]);
    let second = world.add("Second", &[]);
    let third = world.add("Third", &[]);
    let ended = up(&world, &script, &["--max-usd", "0.015"]);
    assert_eq!(world.status_of(&second), "completed", "one cent is less than the limit: {ended}");
    assert_eq!(world.status_of(&third), "pending", "two are more: {ended}");
    assert!(ended.contains("are spent"), "{ended}");
    up(&world, &script, &["--max-usd", "1"]);
    assert_eq!(world.status_of(&third), "completed");
}

#[test]
fn max_hours_ends_a_worker_that_has_worked_for_so_long() {
    let world = World::new();
    let script = script(&world);
    let task = world.add("First", &[]);
    let ended = up(&world, &script, &["--max-hours", "0.0000001"]);
    assert_eq!(world.status_of(&task), "pending", "{ended}");
    assert!(ended.contains("the time is up"), "{ended}");
    up(&world, &script, &["--max-hours", "1"]);
    assert_eq!(world.status_of(&task), "completed");
}

/// The limit is a fraction of an hour that passes while the first task is worked on.
#[test]
fn max_hours_lets_a_task_finish_that_began_in_time_and_begins_no_other() {
    let world = World::new();
    // 7.2 seconds. Minutes or days instead of hours would let none begin, or both.
    let (limit, hours) = (Duration::from_millis(7_200), "0.002");
    let script = world.script(&json!([{ "shell": format!("sleep 9; {FIX}") }, {}]));
    let (first, second) = (world.add("First", &[]), world.add("Second", &[]));
    let begun = Instant::now();
    let ended = up(&world, script.to_str().unwrap(), &["--max-hours", hours]);
    assert!(begun.elapsed() >= limit, "the first task takes longer than the limit");
    assert_eq!(world.status_of(&first), "completed", "{ended}");
    assert_eq!(world.status_of(&second), "pending", "{ended}");
    assert!(ended.contains("the time is up"), "{ended}");
    up(&world, script.to_str().unwrap(), &["--max-hours", "0.5"]);
    assert_eq!(world.status_of(&second), "completed");
}

#[test]
fn caps_of_a_credential_count_tasks_that_name_no_model() {
    let world = World::new();
    world.json(&["queue", "cap", "credential:anthropic", "1"]);
    world.add("First", &[]);
    world.add("Second", &[]);
    assert_eq!(world.json(&["status"])["turns"]["parked"], 1);
}
