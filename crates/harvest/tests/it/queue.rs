//! The queue: `task add`, `up`, `queue`, `convoy`, on the file and on PostgreSQL shared by several workers.

use std::io::{BufRead, BufReader};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cluster::{self, Cluster};
use crate::support::{FIX, Ran, Running, World, assert_gapless, git};

impl World {
    pub fn add(&self, prompt: &str, args: &[&str]) -> String {
        let mut all = vec!["task", "add", prompt];
        all.extend(args);
        self.json(&all)["id"].as_str().unwrap().to_owned()
    }

    fn up(&self, replies: &Value, args: &[&str]) -> Ran {
        let script = self.script(replies);
        let all = ["up", "--until-empty", "--json", "--model-script", script.to_str().unwrap()];
        self.harvest(&all).args(args).finish()
    }

    pub fn status_of(&self, id: &str) -> String {
        self.json(&["task", "show", id])["status"].as_str().unwrap().to_owned()
    }
}

fn finished(up: &Ran) -> Vec<String> {
    let notices = up.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    notices
        .filter(|notice| notice["type"] == "finished")
        .map(|notice| notice["task_id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_queue_is_worked_off_in_order_and_in_parallel() {
    let world = World::new();
    let low = world.add("Low", &["--priority", "low"]);
    let normal = world.add("Normal", &[]);
    let urgent = world.add("Urgent", &["--priority", "urgent", "--convoy", "spring-clean"]);
    let after = world.add("After", &["--after", &urgent, "--priority", "urgent", "--convoy", "spring-clean"]);
    // The one behind another is not ready.
    assert_eq!(world.json(&["queue", "resume"])["next"], json!([urgent, normal, low]));
    let up = world.up(&json!([{ "shell": FIX }, {}]), &["--agents", "1"]);
    assert_eq!(up.exit, Some(0), "{up:?}");
    assert_eq!(finished(&up), [&urgent, &after, &normal, &low].map(Clone::clone));
    // The one behind another begins with its result, and has nothing more to change.
    assert_eq!(git(&world.repo(), &["branch", "--list", "harvest/*"]).lines().count(), 3);
    let convoys = world.json(&["convoy", "list"]);
    assert_eq!(convoys["items"][0]["tasks"], json!({ "completed": 2 }));
    assert_eq!(world.json(&["convoy", "show", "spring-clean"]), convoys["items"][0]);
    assert_eq!(world.json(&["task", "list", "--convoy", "spring-clean"])["items"].as_array().unwrap().len(), 2);
    world.assert_nothing_left();
}

#[test]
fn a_paused_queue_without_tasks_is_empty() {
    let world = World::new();
    world.json(&["queue", "pause"]);
    let up = world.up(&json!([{}]), &[]);
    assert_eq!(up.exit, Some(0), "{up:?}");
}

#[test]
fn what_waits_for_a_failed_task_is_held_or_cancelled() {
    let world = World::new();
    let failing = world.add("Fails", &["--test", "false"]);
    let held = world.add("Held", &["--after", &failing]);
    let dropped = world.add("Dropped", &["--after", &failing, "--on-failed-dependency", "cancel"]);
    let up = world.up(&json!([{ "shell": FIX }, {}]), &["--agents", "2"]);
    assert_eq!(up.exit, Some(0), "whatever the outcome: {up:?}");
    let states = [&failing, &held, &dropped].map(|id| world.status_of(id));
    assert_eq!(states, ["failed", "pending", "cancelled"]);
    let summary = up.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let summary = summary.into_iter().find(|notice| notice["type"] == "summary").unwrap();
    let counts = ["completed", "failed", "cancelled", "blocked"].map(|name| summary[name].as_u64().unwrap());
    assert_eq!((counts, &summary["ended"]), ([0, 1, 1, 1], &json!("the queue is empty")), "{summary}");
    let state = world.json(&["status"]);
    assert_eq!((&state["turns"]["blocked"], &state["failures"]), (&json!(1), &json!({ "tests": 1 })));
    let listed = world.harvest(&["task", "list"]).finish().stdout;
    assert!(listed.contains(&format!("waits for {} (failed)", &failing[..8])), "{listed}");
    let kept = world.harvest(&["task", "delete", &failing]).finish();
    assert!(kept.exit == Some(2) && kept.stderr.starts_with("error[HV-0618]"), "{kept:?}");
    let help = format!("cancel {0} first: harvest task cancel {0}", &held[..8]);
    assert!(kept.stderr.contains(&help), "{kept:?}");
    assert_eq!(world.json(&["task", "retry", &failing])["status"], "pending");
    let again = world.harvest(&["task", "retry", &held]).finish();
    assert!(again.exit == Some(2) && again.stderr.starts_with("error[HV-0174]"), "{again:?}");
}

#[test]
fn a_failure_that_may_pass_is_tried_again() {
    let world = World::new();
    let task = world.add("Flaky", &["--retries", "1"]);
    // The vendor refuses once; the agent gives up at once on this status.
    let up = world.up(&json!([{ "status": 400 }, {}]), &["--agents", "1"]);
    assert_eq!(up.exit, Some(0), "{up:?}");
    let shown = world.json(&["task", "show", &task]);
    assert_eq!((&shown["tries"], &shown["retries_left"]), (&json!(2), &json!(0)), "{shown:#}");
    let journal = world.harvest(&["task", "logs", &task, "--json"]).finish().events();
    assert_gapless(&journal);
    assert_eq!(journal.iter().filter(|event| event["type"] == "task.retried").count(), 1);
    assert_eq!(journal.iter().filter(|event| event["type"] == "task.finished").count(), 1);
}

#[test]
fn pausing_resizing_and_caps_act_on_a_running_worker() {
    let world = World::new();
    world.json(&["queue", "pause"]);
    let first = world.add("First", &[]);
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let mut up = world.harvest(&["up", "--until-empty", "--json", "--model-script", script.to_str().unwrap()]).start();
    up.wait_for("holding", |notice| notice["type"] == "holding");
    world.json(&["queue", "resize", "3"]);
    up.wait_for("the new size", |notice| notice["type"] == "resized" && notice["agents"] == 3);
    let repository = format!("repository:{}", world.repo().display());
    world.json(&["queue", "cap", &repository, "1"]);
    let second = world.add("Second", &[]);
    assert_eq!(world.json(&["status"])["turns"]["parked"], 1);
    world.json(&["queue", "resume"]);
    let ran = up.finish();
    assert_eq!(
        (ran.exit, [&first, &second].map(|id| world.status_of(id))),
        (Some(0), ["completed"; 2].map(str::to_owned)),
        "{ran:?}"
    );
    world.assert_nothing_left();
}

#[test]
fn bad_queue_input_is_refused_and_changes_nothing() {
    let world = World::new();
    let known = world.add("Known", &["--idempotency-key", "once"]);
    assert_eq!(world.add("Known", &["--idempotency-key", "once"]), known);
    for (args, code) in [
        (vec!["task", "add", "x", "--after", "zzzz"], "HV-0171"),
        (vec!["task", "add", "Other", "--idempotency-key", "once"], "HV-0173"),
        (vec!["task", "add", "x", "--priority", "soon"], "HV-0141"),
        (vec!["task", "add", "x", "--convoy", "a b"], "HV-0141"),
        (vec!["task", "list", "--cursor", "odd"], "HV-0141"),
        (vec!["queue", "cap", "everything", "3"], "HV-0141"),
        (vec!["queue", "resize", "0"], "HV-0141"),
        (vec!["convoy", "show", "none"], "HV-0141"),
        (vec!["task", "list", "--database-url", "host=/nonexistent user=x dbname=y"], "HV-0305"),
    ] {
        let ran = world.harvest(&args).finish();
        assert_eq!((ran.exit, ran.stdout.as_str()), (Some(2), ""), "{args:?}: {ran:?}");
        assert!(ran.stderr.starts_with(&format!("error[{code}]")), "{args:?}: {ran:?}");
    }
    assert_eq!(world.tasks().len(), 1);
}

#[test]
fn a_cap_for_an_address_that_nobody_knows_is_set_and_noted() {
    let world = World::new();
    let cap = |address: &str| world.harvest(&["queue", "cap", &format!("repository:{address}"), "1"]).finish();
    let unknown = cap("/nowhere");
    assert_eq!(unknown.exit, Some(0), "{unknown:?}");
    assert_eq!(unknown.stderr, "note: no known repository has the address /nowhere\n");
    let there = cap(world.repo().to_str().unwrap());
    assert_eq!((there.exit, there.stderr.as_str()), (Some(0), ""), "{there:?}");
}

#[test]
fn a_prompt_that_is_too_long_is_refused_with_the_way_out() {
    let world = World::new();
    let ran = world.harvest(&["task", "add", "-"]).input(&"x".repeat(1_000_001)).finish();
    assert!(ran.exit == Some(2) && ran.stderr.contains("the prompt has more than 1000000 bytes"), "{ran:?}");
    assert!(ran.stderr.contains("help: shorten it, or put long texts into a file of the repository"), "{ran:?}");
}

#[test]
fn a_killed_worker_is_followed_by_the_next() {
    let world = World::new();
    let task = world.add("Survives", &[]);
    let script = world.script(&json!([{ "shell": FIX }, { "delay": "3s" }]));
    let args = ["up", "--until-empty", "--json", "--model-script", script.to_str().unwrap()];
    let mut up = world.harvest(&args).start();
    up.wait_for("started", |notice| notice["type"] == "started");
    up.signal(Signal::KILL);
    up.finish();
    let next = world.harvest(&args).finish();
    assert_eq!((next.exit, finished(&next)), (Some(0), vec![task.clone()]), "{next:?}");
    assert!(next.stderr.contains("is in the queue again"), "{next:?}");
    assert_eq!(world.status_of(&task), "completed");
    world.assert_nothing_left();
}

/// Three workers on one PostgreSQL, each with a data directory of its own as on machines of their own.
#[test]
fn every_task_once_though_a_worker_is_killed_and_another_sleeps() {
    let Some(cluster) = Cluster::private() else { return harvest_testing::skip(cluster::WITHOUT) };
    let world = World::new();
    let url = cluster.url("postgres");
    let shared = ["--database-url", url.as_str()];
    let data = |name: &str| world.path().join(name);
    let mut tasks = Vec::new();
    for number in 0..12 {
        let prompt = format!("Task {number}");
        let added = world.harvest_at(&data("a"), &["task", "add", &prompt, "--json"]).args(&shared).finish();
        assert_eq!(added.exit, Some(0), "{added:?}");
        tasks.push(serde_json::from_str::<Value>(&added.stdout).unwrap()["id"].as_str().unwrap().to_owned());
    }
    let script = world.script(&json!([{ "delay": "1s", "shell": FIX }, {}]));
    let start = |name: &str| -> Running {
        let args = [
            "up",
            "--agents",
            "2",
            "--until-empty",
            "--lease",
            "3s",
            "--json",
            "--model-script",
            script.to_str().unwrap(),
        ];
        world.harvest_at(&data(name), &args).args(&shared).start()
    };
    let (mut killed, mut asleep, awake) = (start("a"), start("b"), start("c"));
    killed.wait_for("started", |notice| notice["type"] == "started");
    asleep.wait_for("started", |notice| notice["type"] == "started");
    killed.signal(Signal::KILL);
    asleep.signal(Signal::STOP);
    killed.finish();
    let awake = awake.finish();
    assert_eq!(awake.exit, Some(0), "{awake:?}");
    asleep.signal(Signal::CONT);
    let asleep = asleep.finish();
    assert_eq!(asleep.exit, Some(0), "{asleep:?}");
    // It finds its claim lost, or first of all that a question to the database took longer than it may: it was thought dead.
    let gave_up = [r#""type":"lost""#, r#""type":"broken""#].iter().any(|notice| asleep.stdout.contains(notice));
    assert!(gave_up, "{asleep:?}");

    for task in &tasks {
        let logs = world.harvest_at(&data("c"), &["task", "logs", task, "--json"]).args(&shared).finish();
        let journal = logs.events();
        assert_gapless(&journal);
        let count = |kind: &str| journal.iter().filter(|event| event["type"] == kind).count();
        assert_eq!((count("task.finished"), count("branch.delivered")), (1, 1), "{task}");
        assert_eq!(journal.last().unwrap()["data"]["status"], "completed", "{task}");
    }
    let branches = git(&world.repo(), &["branch", "--list", "harvest/*", "--format=%(refname:short)"]);
    assert_eq!(branches.lines().count(), tasks.len());
    for branch in branches.lines() {
        assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two");
    }
    // The killed one's sandboxes go with the next command on its own data directory.
    let tidy = world.harvest_at(&data("a"), &["task", "list"]).args(&shared).finish();
    assert_eq!(tidy.exit, Some(0), "{tidy:?}");
    world.assert_nothing_left();
}

/// What another terminal works on keeps `--until-empty` from ending, and it says so.
#[test]
fn a_worker_that_waits_for_another_process_says_so_once() {
    let world = World::new();
    world.without_spares();
    let mut other = world.run_with(&json!([{ "shell": "sleep 987654" }]), &[]).start();
    let created = other.wait_for_type("task.created");
    other.wait_for_type("tool.call");
    let task = created["data"]["task_id"].as_str().unwrap();
    let mut worker = world.harvest(&["up", "--until-empty", "--json", "--model-script"]);
    worker.command.arg(world.script(&json!([{}]))).stderr(std::process::Stdio::piped());
    let mut worker =
        worker.command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(worker.stderr.take().unwrap()).lines().map_while(Result::ok);
    let note = format!(
        "note: nothing is left to take; waiting until task {} has ended: another process works on it",
        &task[..8]
    );
    assert!(said.any(|line| line == note), "it ended without the note");
    other.signal(Signal::INT);
    other.finish();
    assert!(!said.any(|line| line.starts_with("note: nothing is left")), "it was said once");
    assert!(worker.wait().unwrap().success());
}

#[test]
fn statistics_name_the_model_of_a_task_that_names_none() {
    let world = World::new();
    let task = world.add("Mend it", &[]);
    world.json(&["task", "cancel", &task]);
    let said = world.harvest(&["stats", "--by", "model"]).finish().stdout;
    assert!(said.contains("the worker's model") && !said.contains("none named"), "{said}");
}
