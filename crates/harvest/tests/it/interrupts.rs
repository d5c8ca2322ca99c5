//! Interrupted by every way, and resumed with what was done and said.
//!
//! How soon an interrupt is obeyed is measured by `make bench ARGS=recovery`.

use std::fs;
use std::path::PathBuf;

use harvest_store::{Sqlite, Store};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cluster::{self, Cluster};
use crate::killed::journal;
use crate::reattach::wait_until;
use crate::remote::remote;
use crate::support::{FIX, Running, World};

/// Works and then hangs in a tool call. When it goes on it is told so, and finds what it did.
fn script(world: &World, told: &str) -> PathBuf {
    world.conversations(&[
        (told, json!([{ "shell": "cat src/two.sh" }, { "expect": "echo two", "say": "Done." }])),
        ("Mend it", json!([{ "say": "First the fix.", "shell": FIX }, { "shell": "sleep 987654" }])),
    ])
}

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

/// A task that hangs in its second tool call.
pub fn hanging(world: &World, told: &str) -> (Running, String) {
    let script = script(world, told);
    let task = world.add_task("Mend it");
    let running = world.worker(&script, &[]).start();
    wait_until("it hangs", || of_type(&journal(world, &task), "tool.call").len() == 2);
    (running, task)
}

#[track_caller]
fn assert_interrupted(world: &World, task: &str, author: Option<&str>, reason: &str) {
    wait_until("it is interrupted", || world.json(&["task", "show", task])["status"] == "interrupted");
    let events = journal(world, task);
    let interrupted = &of_type(&events, "session.interrupted")[0]["data"];
    let asker = world.json(&["task", "show", task])["requested_by"].as_str().unwrap().to_owned();
    assert_eq!(interrupted["author"], author.unwrap_or(&asker));
    assert_eq!(interrupted["reason"], reason);
    assert_eq!(of_type(&events, "agent.finished")[0]["data"]["reason"], "interrupted");
    assert_eq!(of_type(&events, "file.changed")[0]["data"]["path"], "src/two.sh");
    assert!(of_type(&events, "task.finished").is_empty());
    assert!(world.agents().is_empty(), "no sandbox is held");
    assert_attempt_was_interrupted(world, task);
}

/// For a person, too: nobody killed it.
#[track_caller]
fn assert_attempt_was_interrupted(world: &World, task: &str) {
    let page = world.harvest(&["task", "show", task]).finish().stdout;
    let first = page.lines().find(|line| line.contains("attempt")).unwrap_or_default();
    assert!(first.ends_with("interrupted") && !page.contains("killed"), "{page}");
    let is_told = page.contains("stopped     by ") && page.contains("next        harvest session resume ");
    let waits = world.json(&["task", "show", task])["status"] == "interrupted";
    assert_eq!(is_told, waits, "{page}");
}

#[track_caller]
fn assert_resumed(world: &World, running: &mut Running, task: &str) {
    running.wait_for("its end", |notice| notice["type"] == "finished" && notice["task_id"] == task);
    let shown = world.json(&["task", "show", task]);
    assert_eq!(shown["status"], "completed", "{shown:#}\n{:#?}", journal(world, task));
    let events = journal(world, task);
    assert_attempt_was_interrupted(world, task);
    assert_eq!(of_type(&events, "session.resumed").len(), 1);
    assert_eq!(of_type(&events, "message").last().unwrap()["data"]["text"], "Done.");
    assert_eq!(world.show(&format!("{}:src/two.sh", shown["branch"].as_str().unwrap())), "echo two");
}

fn end(world: &World, running: Running) {
    running.signal(Signal::TERM);
    assert_eq!(running.finish().exit, Some(0));
    world.assert_nothing_left();
}

#[test]
fn by_a_command_and_resumed_with_a_word() {
    let world = World::new();
    world.without_spares();
    let (mut running, task) = hanging(&world, "leave the other one alone");
    let told = world.json(&["interrupt", &task, "--reason", "lunch"]);
    assert_eq!(told["status"], "interrupted");
    assert_interrupted(&world, &task, None, "lunch");
    let again = world.harvest(&["interrupt", &task]).finish();
    assert!(again.exit == Some(2) && again.stderr.starts_with("error[HV-0175]"), "{again:?}");
    world.json(&["session", "resume", &task, "Go on, and leave the other one alone"]);
    assert_resumed(&world, &mut running, &task);
    let over = world.harvest(&["session", "resume", &task]).finish();
    assert!(over.exit == Some(2) && over.stderr.starts_with("error[HV-0176]"), "{over:?}");
    end(&world, running);
}

#[test]
fn by_a_file_and_resumed_without_a_word() {
    let world = World::new();
    world.without_spares();
    let (mut running, task) = hanging(&world, "This was interrupted");
    let reason = "out of credit: sk-ant-api03-canary0123456789abcdefgh\n";
    fs::write(world.data().join("interrupts").join(&task), reason).unwrap();
    assert_interrupted(&world, &task, Some("operator"), "out of credit: [redacted]");
    let audited = world.harvest(&["audit", "export"]).finish().stdout;
    let entries = audited.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let entry = entries.into_iter().find(|entry| entry["actor"] == "operator").expect(&audited);
    assert_eq!((&entry["action"], &entry["target"]), (&json!("interrupt"), &json!(format!("task:{task}"))), "{entry}");
    world.json(&["session", "resume", &task]);
    assert_resumed(&world, &mut running, &task);
    end(&world, running);
}

#[test]
fn by_the_api_and_resumed_by_it() {
    let world = World::new();
    let token = world.token(&["--role", "admin", "--name", "ci"]);
    world.without_spares();
    let script = script(&world, "use tabs");
    let server = world.serve(&["--model-script", script.to_str().unwrap()]);
    let client = server.with(&token);
    let task = client.post("/api/tasks", &world.ask("Mend it")).ok();
    let (id, session) = (task["id"].as_str().unwrap(), task["sessions"][0]["id"].as_str().unwrap());
    client.post(&format!("/api/sessions/{session}/resume"), &json!({})).problem(409, "HV-0176");
    wait_until("it hangs", || of_type(&journal(&world, id), "tool.call").len() == 2);
    let answer = client.post(&format!("/api/sessions/{session}/interrupt"), &json!({ "reason": "later" }));
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_interrupted(&world, id, None, "later");
    client.post(&format!("/api/tasks/{id}/interrupt"), &json!({})).problem(409, "HV-0175");
    let resumed = client.post(&format!("/api/sessions/{session}/resume"), &json!({ "prompt": "And use tabs" })).ok();
    assert!(["pending", "provisioning"].contains(&resumed["status"].as_str().unwrap()), "{resumed:#}");
    let events = client.journal(session, 0);
    assert_eq!(events.last().unwrap()["data"]["status"], "completed", "{events:#?}");
}

/// Another process, over the database that both share.
#[test]
fn across_processes_on_postgresql() {
    let Some(cluster) = Cluster::private() else { return harvest_testing::skip(cluster::WITHOUT) };
    let world = World::new();
    let url = cluster.url("postgres");
    let database = ["--database-url", url.as_str()];
    let script = script(&world, "This was interrupted");
    let other = world.path().join("elsewhere");
    let at = |args: &[&str]| {
        let ran = world.harvest_at(&other, args).args(&database).args(&["--json"]).finish();
        assert_eq!(ran.exit, Some(0), "{args:?}: {ran:?}");
        ran
    };
    let added: Value = serde_json::from_str(&at(&["task", "add", "Mend it"]).stdout).unwrap();
    let task = added["id"].as_str().unwrap();
    let mut running = world.worker(&script, &database).start();
    let events = || at(&["task", "logs", task]).events();
    wait_until("it hangs", || of_type(&events(), "tool.call").len() == 2);
    at(&["interrupt", "--all"]);
    assert_eq!(of_type(&events(), "session.interrupted").len(), 1);
    at(&["session", "resume", task]);
    running.wait_for_type("finished");
    assert_eq!(events().last().unwrap()["data"]["status"], "completed");
    running.signal(Signal::TERM);
    assert_eq!(running.finish().exit, Some(0));
}

/// One that waits for its tests is interrupted as well, and goes on with them.
#[test]
fn while_the_tests_run() {
    let world = World::new();
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let added = world.json(&["task", "add", "Mend it", "--test", "sh test.sh && sleep 4"]);
    let task = added["id"].as_str().unwrap();
    let mut running = world.worker(&script, &[]).start();
    wait_until("it is tested", || of_type(&journal(&world, task), "stage.finished").len() == 1);
    world.json(&["interrupt", task]);
    assert_eq!(world.json(&["task", "show", task])["status"], "interrupted");
    world.json(&["session", "resume", task]);
    running.wait_for_type("finished");
    let events = journal(&world, task);
    assert_eq!(events.last().unwrap()["data"]["status"], "completed", "{events:#?}");
    assert_eq!(of_type(&events, "agent.started").len(), 1, "its agent had nothing more to do");
    end(&world, running);
}

/// All of them at once, from a machine that has only an address.
#[test]
fn all_of_them_by_a_command_to_a_server() {
    let world = World::new();
    let token = world.token(&["--role", "admin", "--name", "ci"]);
    world.without_spares();
    let script = script(&world, "This was interrupted");
    let server = world.serve(&["--model-script", script.to_str().unwrap(), "--agents", "2"]);
    let client = server.with(&token);
    let ids: Vec<String> = (0..2)
        .map(|_| client.post("/api/tasks", &world.ask("Mend it")).ok()["id"].as_str().unwrap().to_owned())
        .collect();
    wait_until("they hang", || ids.iter().all(|id| of_type(&journal(&world, id), "tool.call").len() == 2));
    let mut interrupt = remote(&world, &server.url, &["interrupt", "--all", "--reason", "lunch", "--json"]);
    interrupt.command.env("HARVEST_TOKEN", &token);
    let told: Value = serde_json::from_str(&interrupt.finish().stdout).unwrap();
    assert_eq!(told["items"].as_array().unwrap().len(), 2, "{told:#}");
    for id in &ids {
        assert_interrupted(&world, id, None, "lunch");
    }
    let mut again = remote(&world, &server.url, &["interrupt", &ids[0]]);
    again.command.env("HARVEST_TOKEN", &token);
    let again = again.finish();
    assert!(again.exit == Some(2) && again.stderr.starts_with("error[HV-0175]"), "{again:?}");
}

/// A worker that hears nothing any more, its task, and a cancel that waits for it.
fn deaf(world: &World) -> (Running, String, Running) {
    world.without_spares();
    let (running, task) = hanging(world, "This was interrupted");
    running.signal(Signal::STOP);
    let cancel = world.harvest(&["task", "cancel", &task]).start();
    wait_until("it is asked for", || asked_to_stop(world));
    (running, task, cancel)
}

/// What was asked for is heeded by whoever goes on with the turn.
#[test]
fn a_cancel_that_a_lost_worker_never_heard_is_heeded_by_the_next() {
    let world = World::new();
    let (running, task, cancel) = deaf(&world);
    running.signal(Signal::KILL);
    running.finish();
    let running = world.worker(&script(&world, "This was interrupted"), &[]).start();
    let cancelled = cancel.finish();
    assert_eq!(cancelled.exit, Some(0), "{cancelled:?}");
    let shown = world.json(&["task", "show", &task]);
    assert_eq!((&shown["status"], &shown["reason"]), (&json!("cancelled"), &json!("cancelled")), "{shown:#}");
    assert_eq!(world.show(&format!("{}:src/two.sh", shown["branch"].as_str().unwrap())), "echo two");
    assert_eq!(of_type(&journal(&world, &task), "agent.started").len(), 1, "no agent was started for it");
    end(&world, running);
}

/// Without a worker the next command sees to it.
#[test]
fn a_cancel_that_a_lost_worker_never_heard_needs_no_worker() {
    let world = World::new();
    let (running, task, cancel) = deaf(&world);
    // Its agent goes with it.
    for runner in world.runners() {
        let pid = rustix::process::Pid::from_raw(i32::try_from(runner).unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
    running.signal(Signal::KILL);
    running.finish();
    wait_until("it is cancelled", || world.json(&["task", "show", &task])["status"] == "cancelled");
    assert_eq!(cancel.finish().exit, Some(0));
    world.assert_nothing_left();
}

/// Whoever is cancelled while the interrupted agent comes to its end, or while its turn is given back, is cancelled.
#[test]
#[cfg(feature = "failpoints")]
fn a_cancel_after_an_interrupt_is_a_cancel() {
    for place in ["execute::after", "interrupt::before"] {
        let world = World::new();
        world.without_spares();
        let script = script(&world, "This was interrupted");
        let task = world.add_task("Mend it");
        let slow = format!("{place}=sleep(4000)");
        let running = world.worker(&script, &[]).env("HARVEST_FAILPOINTS", &slow).start();
        wait_until("it hangs", || of_type(&journal(&world, &task), "tool.call").len() == 2);
        let interrupt = world.harvest(&["interrupt", &task]).start();
        wait_until("its agent has ended", || of_type(&journal(&world, &task), "agent.finished").len() == 1);
        let cancelled = world.harvest(&["task", "cancel", &task]).finish();
        assert_eq!(cancelled.exit, Some(0), "{place}: {cancelled:?}");
        assert_eq!(interrupt.finish().exit, Some(0), "{place}");
        let shown = world.json(&["task", "show", &task]);
        assert_eq!(shown["status"], "cancelled", "{place}: {shown:#}");
        let branch = shown["branch"].as_str().unwrap_or_else(|| panic!("{place}: its work is nowhere: {shown:#}"));
        assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two", "{place}");
        end(&world, running);
    }
}

/// A file has become a word in the store before it is gone.
#[test]
#[cfg(feature = "failpoints")]
fn a_file_outlives_whoever_has_read_it() {
    use std::os::unix::process::ExitStatusExt;

    let world = World::new();
    world.without_spares();
    let script = script(&world, "This was interrupted");
    let task = world.add_task("Mend it");
    let crash = "interrupts::obeyed=return(crash)";
    let running = world.worker(&script, &[]).env("HARVEST_FAILPOINTS", crash).start();
    wait_until("it hangs", || of_type(&journal(&world, &task), "tool.call").len() == 2);
    let file = world.data().join("interrupts").join(&task);
    fs::write(&file, "out of credit: sk-ant-api03-canary0123456789abcdefgh\n").unwrap();
    assert_eq!(running.finish().status.signal(), Some(6));
    assert!(!file.exists());
    let kept: String =
        crate::serve_limits::database(&world).query_row("SELECT how FROM stops", [], |row| row.get(0)).unwrap();
    assert!(kept.contains("[redacted]") && !kept.contains("canary"), "{kept}");
    let mut running = world.worker(&script, &[]).start();
    assert_interrupted(&world, &task, Some("operator"), "out of credit: [redacted]");
    world.json(&["session", "resume", &task]);
    assert_resumed(&world, &mut running, &task);
    end(&world, running);
}

/// Whether someone wants something stopped that is being worked on.
fn asked_to_stop(world: &World) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = Sqlite::open(&world.data().join("harvest.db")).unwrap();
        for owner in store.owners().await.unwrap() {
            if !store.stops(&owner.id).await.unwrap().is_empty() {
                return true;
            }
        }
        false
    })
}
