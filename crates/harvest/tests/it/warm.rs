//! Sandboxes that are there before they are asked for: the same work, sooner, and nothing left of them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use harvest_core::SandboxPurpose;
use harvest_store::{SandboxRecord, Sqlite, Store};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::killed::journal;
use crate::support::{FIX, Running, World};

const PATIENCE: Duration = Duration::from_secs(30);

fn add(world: &World, prompt: &str, args: &[&str]) -> String {
    let mut all = vec!["task", "add", prompt];
    all.extend(args);
    world.json(&all)["id"].as_str().unwrap().to_owned()
}

fn start(world: &World, replies: &Value, args: &[&str]) -> Running {
    let script = world.script(replies);
    world.harvest(&["up", "--json", "--agents", "1", "--model-script", script.to_str().unwrap()]).args(args).start()
}

/// The sandbox that the agent of a task had.
fn place(world: &World, task: &str) -> Value {
    let ready = |event: &Value| event["type"] == "sandbox.ready" && event["data"]["purpose"] == "execute";
    journal(world, task).into_iter().find(ready).unwrap()["data"].clone()
}

fn finished(up: &mut Running, task: &str) -> Value {
    up.wait_for("the end of a task", |notice| notice["type"] == "finished" && notice["task_id"] == task)
}

fn spares(world: &World) -> Vec<SandboxRecord> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = Sqlite::open(&world.data().join("harvest.db")).unwrap();
        let mut records = store.sandboxes().await.unwrap();
        records.retain(|record| record.purpose == SandboxPurpose::Warm);
        records
    })
}

/// Waits until there is one whose agent waits.
fn spare(world: &World) -> String {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        for record in spares(world) {
            if has_agent(record.id.as_str()) {
                return record.id.to_string();
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no spare sandbox was made: {:?}", spares(world));
}

/// Whether a process below the runner of this sandbox is the built-in agent.
fn has_agent(sandbox: &str) -> bool {
    let text = |path: PathBuf| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let is_below = |mut process: PathBuf| {
        while let Some(parent) = text(process.join("status")).lines().find_map(|line| line.strip_prefix("PPid:")) {
            if text(process.join("cmdline")).contains(sandbox) {
                return true;
            }
            process = Path::new("/proc").join(parent.trim());
        }
        false
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let mut agents = processes.filter(|process| text(process.join("cmdline")).contains("/harvest-builtin\0"));
    agents.any(is_below)
}

/// Sockets at which the gateway of this sandbox would listen.
fn gateways(world: &World, sandbox: &str) -> Vec<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let data = std::fs::metadata(world.data()).unwrap();
    let own = format!("{:x}-{:x}", data.dev(), data.ino());
    ["/run/harvest".to_owned(), format!("/tmp/harvest-{}", crate::support::uid())]
        .map(|folder| Path::new(&folder).join(&own).join(sandbox).join("gateway.sock"))
        .into_iter()
        .filter(|socket| socket.exists())
        .collect()
}

#[test]
fn the_tasks_that_wait_find_their_sandboxes_made_and_come_to_the_same() {
    let world = World::new();
    let replies = json!([{ "shell": format!("{FIX}; cp ~/.harvest/rules.md ."), "delay": "300ms" }, {}]);
    // `run` has no spares.
    let cold = world.run(&replies, &[]).assert_ended(0, "completed", None);
    let cold_task = cold["task_id"].as_str().unwrap().to_owned();
    assert_eq!(place(&world, &cold_task).get("warm"), None);
    let tasks: Vec<String> = (1..=3).map(|number| add(&world, &format!("Fix it, {number}"), &[])).collect();
    let mut up = start(&world, &replies, &["--until-empty"]);
    let outcomes: Vec<Value> = tasks.iter().map(|task| finished(&mut up, task)["outcome"].clone()).collect();
    let told = up.wait_for("how it went", |notice| notice["type"] == "warm");
    assert_eq!(up.finish().exit, Some(0));
    let places: Vec<Value> = tasks.iter().map(|task| place(&world, task)).collect();
    // The first may have been claimed before its sandbox was made; the others waited for longer than that takes.
    for warm in &places[1..] {
        assert!(warm["warm"] == true && warm["age_ms"].is_u64(), "{warm:#}");
    }
    assert_ne!(places[1]["sandbox_id"], places[2]["sandbox_id"], "each is used once");
    let hits = places.iter().filter(|place| place["warm"] == true).count();
    assert_eq!((&told["stats"]["hits"], &told["stats"]["misses"]), (&json!(hits), &json!(3 - hits)), "{told:#}");
    // What came of it does not tell which was which.
    let essence = |outcome: &Value| {
        let mut evidence = outcome["evidence"].clone();
        for passing in ["commit", "tree", "duration_ms"] {
            evidence.as_object_mut().unwrap().remove(passing).unwrap();
        }
        (outcome["status"].clone(), outcome["usage"].clone(), outcome["cost_usd"].clone(), evidence)
    };
    let kinds = |task: &String| -> Vec<Value> {
        let events = journal(&world, task).into_iter().map(|event| event["type"].clone());
        // The books are kept beside the agent's output, and what it printed just before may be written just after.
        events
            .filter(|kind| !["message.delta", "checkpoint.created", "usage"].contains(&kind.as_str().unwrap()))
            .collect()
    };
    for (outcome, task) in outcomes.iter().zip(&tasks) {
        assert_eq!(essence(outcome), essence(&cold));
        assert_eq!(kinds(task), kinds(&cold_task));
        let branch = outcome["branch"].as_str().unwrap();
        assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two");
        // The agent was there before anyone knew its task, and has the rules for it all the same.
        assert!(world.show(&format!("{branch}:rules.md")).contains(branch), "{branch}");
    }
    world.assert_nothing_left();
}

#[test]
fn a_spare_is_claimed_only_by_a_task_that_differs_in_nothing() {
    let world = World::new();
    let first = add(&world, "First", &[]);
    let mut up = start(&world, &json!([{ "shell": FIX }, {}]), &[]);
    finished(&mut up, &first);
    let ready = spare(&world);
    // It belongs to nobody, so nobody answers it.
    assert_eq!(gateways(&world, &ready), Vec::<PathBuf>::new());
    // Another time limit is another sandbox, and so is another commit. One of its own may be made before a task is claimed.
    let known = || spares(&world).iter().map(|record| record.id.to_string()).collect::<Vec<String>>();
    let before = known();
    let other = add(&world, "Other", &["--timeout", "7m"]);
    finished(&mut up, &other);
    assert!(!before.contains(&place(&world, &other)["sandbox_id"].as_str().unwrap().to_owned()), "{before:?}");
    spare(&world);
    let before = known();
    world.write("more.txt", "more");
    world.commit("More");
    let newer = add(&world, "Newer", &["--timeout", "7m"]);
    finished(&mut up, &newer);
    assert!(!before.contains(&place(&world, &newer)["sandbox_id"].as_str().unwrap().to_owned()), "{before:?}");
    up.signal(Signal::TERM);
    assert_eq!(up.finish().exit, Some(0));
    world.assert_nothing_left();
}

#[test]
fn whoever_asks_again_is_served_from_the_spares() {
    let world = World::new();
    let first = add(&world, "First", &[]);
    let mut up = start(&world, &json!([{ "shell": FIX }, {}]), &[]);
    finished(&mut up, &first);
    let ready = spare(&world);
    let second = add(&world, "Second", &[]);
    assert_eq!(finished(&mut up, &second)["outcome"]["status"], "completed");
    let used = place(&world, &second);
    assert!(used["warm"] == true && used["sandbox_id"] == ready.as_str(), "{used:#}");
    up.signal(Signal::TERM);
    assert_eq!(up.finish().exit, Some(0));
    world.assert_nothing_left();
}

/// Spares are made for what is claimed next, not for what was asked for last.
#[test]
fn the_task_that_is_claimed_next_finds_its_sandbox_though_many_newer_ones_wait() {
    let world = World::new();
    let script = world.conversations(&[
        // Long enough for the spare of the next task to be made.
        ("Wait", json!([{ "say": "Waited.", "delay": "5s" }])),
        ("", json!([{ "shell": FIX }, {}])),
    ]);
    let wait = add(&world, "Wait", &["--priority", "urgent"]);
    let next = add(&world, "Next", &["--timeout", "9m", "--priority", "high"]);
    for number in 0..66 {
        add(&world, &format!("Later {number}"), &["--timeout", "7m", "--priority", "low"]);
    }
    let mut up = world.harvest(&["up", "--json", "--agents", "1", "--model-script", script.to_str().unwrap()]).start();
    finished(&mut up, &wait);
    finished(&mut up, &next);
    let place = place(&world, &next);
    assert_eq!(place["warm"], true, "{place:#}");
    up.signal(Signal::TERM);
    assert_eq!(up.finish().exit, Some(0));
    world.assert_nothing_left();
}

/// Their agents are started with more than is known before, in a sandbox that was there before.
#[test]
fn a_plan_tools_and_a_follow_up_use_a_spare_too() {
    let world = World::new();
    let config = world.home().join(".config/harvest/harvest.toml");
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    std::fs::write(config, "[mcp.tracker]\ncommand = 'true'\n").unwrap();
    let script = world.conversations(&[
        ("Go further", json!([{ "shell": "cat src/two.sh > seen" }, {}])),
        ("First", json!([{ "shell": FIX }, {}])),
        // Long enough for the spare of the next task to be made.
        ("Wait", json!([{ "say": "Waited.", "delay": "4s" }])),
        ("", json!([{ "say": "I would mend it." }])),
    ]);
    let first = add(&world, "First", &[]);
    let mut up = world.harvest(&["up", "--json", "--agents", "1", "--model-script", script.to_str().unwrap()]).start();
    finished(&mut up, &first);
    let session = world.json(&["task", "show", &first])["sessions"][0]["id"].as_str().unwrap().to_owned();
    for kind in ["plan", "tools", "follow-up"] {
        let wait = add(&world, "Wait", &[]);
        let task = match kind {
            "plan" => add(&world, "Make it", &["--plan"]),
            "tools" => add(&world, "Track it", &["--mcp", "tracker"]),
            _ => {
                world.json(&["session", "prompt", &session, "Go further"]);
                first.clone()
            }
        };
        finished(&mut up, &wait);
        let is_place = |event: &Value| event["type"] == "sandbox.ready" && event["data"]["purpose"] == "execute";
        let places = || journal(&world, &task).into_iter().filter(is_place).collect::<Vec<_>>();
        let wanted = if kind == "follow-up" { 2 } else { 1 };
        crate::reattach::wait_until("it has a sandbox", || places().len() == wanted);
        let place = places().pop().unwrap();
        assert_eq!(place["data"]["warm"], true, "{kind}: {place:#}");
        if kind == "follow-up" {
            let ended = finished(&mut up, &task);
            let branch = ended["outcome"]["branch"].as_str().unwrap().to_owned();
            assert_eq!(world.show(&format!("{branch}:seen")), "echo two", "it stands on the work of the turn before");
        }
    }
    up.signal(Signal::TERM);
    assert_eq!(up.finish().exit, Some(0));
    world.assert_nothing_left();
}

#[test]
fn a_newer_snapshot_takes_the_place_of_the_one_before() {
    let world = World::new();
    world.json(&["repo", "add", ".", "--every", "1s"]);
    let mut up = start(&world, &json!([{ "shell": FIX }, {}]), &[]);
    up.wait_for("the first snapshot", |notice| notice["type"] == "snapshot");
    let first = add(&world, "First", &[]);
    finished(&mut up, &first);
    let before = spare(&world);
    world.write("more.txt", "more");
    world.commit("More");
    up.wait_for("the second snapshot", |notice| notice["type"] == "snapshot");
    let deadline = Instant::now() + PATIENCE;
    while spares(&world).iter().any(|record| record.id.as_str() == before) {
        assert!(Instant::now() < deadline, "the old spare stays");
        std::thread::sleep(Duration::from_millis(5));
    }
    let after = spare(&world);
    let second = add(&world, "Second", &[]);
    assert_eq!(finished(&mut up, &second)["outcome"]["status"], "completed");
    let used = place(&world, &second);
    assert!(used["warm"] == true && used["sandbox_id"] == after.as_str(), "{used:#}");
    up.signal(Signal::TERM);
    assert_eq!(up.finish().exit, Some(0));
    world.assert_nothing_left();
}

#[test]
fn spares_of_a_killed_worker_are_removed_by_the_next_command() {
    let world = World::new();
    let first = add(&world, "First", &[]);
    let mut up = start(&world, &json!([{ "shell": FIX }, {}]), &[]);
    finished(&mut up, &first);
    let ready = spare(&world);
    // Other commands leave the spares of a living worker alone.
    world.tasks();
    assert!(spares(&world).iter().any(|record| record.id.as_str() == ready), "{ready} is gone");
    up.signal(Signal::KILL);
    up.finish();
    assert!(!world.leftovers().is_empty(), "a killed process cannot have cleared up");
    world.tasks();
    world.assert_nothing_left();
}

#[test]
fn without_spares_every_sandbox_is_made_when_it_is_asked_for() {
    let world = World::new();
    let settings = world.home().join("settings.toml");
    std::fs::write(&settings, "warm = 0\n").unwrap();
    let tasks = [add(&world, "First", &[]), add(&world, "Second", &[])];
    let args = ["--until-empty", "--config", settings.to_str().unwrap()];
    let mut up = start(&world, &json!([{ "shell": FIX }, {}]), &args);
    for task in &tasks {
        finished(&mut up, task);
    }
    assert_eq!(up.finish().exit, Some(0));
    for task in &tasks {
        assert_eq!(place(&world, task).get("warm"), None);
    }
    world.assert_nothing_left();
}
