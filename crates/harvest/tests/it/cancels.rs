//! Tasks that are cancelled while no one works on them: what their turns have done is delivered.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::interrupts::hanging;
use crate::killed::journal;
use crate::reattach::wait_until;
use crate::session::of_type;
use crate::support::{FIX, Running, World, git};

/// A task that was interrupted after its agent had changed something, and the worker that it had.
fn interrupted(world: &World) -> (Running, String) {
    world.without_spares();
    let (running, task) = hanging(world, "never");
    world.json(&["interrupt", &task]);
    (running, task)
}

/// A task whose first try has failed after its agent had changed something. It waits for the second, and no worker is there.
fn waiting_for_its_retry(world: &World) -> String {
    world.without_spares();
    world.add_agent("fails", "text", &format!("{FIX}; echo No.; exit 1"));
    let script = world.script(&json!([{}]));
    let added = world.json(&["task", "add", "Mend it", "--agent", "fails", "--retries", "1"]);
    let task = added["id"].as_str().unwrap().to_owned();
    let mut running = world.worker(&script, &[]).start();
    running.wait_for_type("will_retry");
    end(running);
    let page = world.harvest(&["task", "show", &task]).finish().stdout;
    assert!(page.contains("waits for   its next attempt at 20"), "{page}");
    // It is not tried again while the test looks at it.
    world.json(&["queue", "pause"]);
    task
}

fn end(running: Running) {
    running.signal(Signal::TERM);
    assert_eq!(running.finish().exit, Some(0));
}

#[track_caller]
fn assert_delivered(world: &World, task: &str) -> Value {
    let shown = world.json(&["task", "show", task]);
    assert_eq!((&shown["status"], &shown["reason"]), (&json!("cancelled"), &json!("cancelled")), "{shown:#}");
    let branch = shown["branch"].as_str().unwrap_or_else(|| panic!("no branch: {shown:#}"));
    assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two");
    assert_eq!(git(&world.repo(), &["rev-parse", branch]), shown["commit"].as_str().unwrap());
    let error = shown["error"].as_str().unwrap();
    assert!(error.contains("the work up to the last checkpoint is on its branch"), "{error}");
    let events = journal(world, task);
    assert_eq!(of_type(&events, "branch.delivered").len(), 1, "{events:#?}");
    assert_eq!(of_type(&events, "task.finished").len(), 1, "{events:#?}");
    let diff = world.json(&["task", "diff", task]);
    assert!(diff["diff"].as_str().unwrap().contains("+echo two"), "{diff:#}");
    shown
}

#[test]
fn the_work_of_an_interrupted_task_is_delivered_beside_a_worker_and_without_one() {
    for verb in ["cancel", "terminate"] {
        let world = World::new();
        let (running, task) = interrupted(&world);
        let mut running = Some(running);
        if verb == "terminate" {
            end(running.take().unwrap());
        }
        let said = world.harvest(&["task", verb, &task]).finish();
        assert!(said.exit == Some(0) && said.stdout.contains("is cancelled; its work is on harvest/"), "{said:?}");
        let shown = assert_delivered(&world, &task);
        assert!(shown["error"].as_str().unwrap().starts_with("cancelled before it continued;"), "{shown:#}");
        let deleted = world.harvest(&["task", "delete", &task]).finish();
        assert!(deleted.exit == Some(0) && deleted.stdout.contains("stays"), "{deleted:?}");
        assert_eq!(world.show(&format!("{}:src/two.sh", shown["branch"].as_str().unwrap())), "echo two");
        running.into_iter().for_each(end);
        world.assert_nothing_left();
    }
}

#[test]
fn the_work_of_a_task_that_waits_for_its_retry_is_delivered() {
    let world = World::new();
    let task = waiting_for_its_retry(&world);
    let said = world.harvest(&["task", "cancel", &task]).finish();
    assert!(said.exit == Some(0) && said.stdout.contains("its work is on harvest/"), "{said:?}");
    assert_delivered(&world, &task);
    world.assert_nothing_left();
}

#[test]
fn a_server_delivers_it_as_well() {
    let world = World::new();
    let token = world.token(&["--role", "admin", "--name", "ci"]);
    let (running, task) = interrupted(&world);
    end(running);
    let waiting = waiting_for_its_retry(&world);
    let never = world.script(&json!([{}]));
    let server = world.serve(&["--model-script", never.to_str().unwrap()]);
    let client = server.with(&token);
    for id in [&task, &waiting] {
        let answer = client.post(&format!("/api/tasks/{id}/cancel"), &json!({}));
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_delivered(&world, id);
    }
}

/// What is cancelled and was then not cancelled again can be tried again, with the same work.
#[test]
fn a_retry_continues_with_what_was_delivered() {
    let world = World::new();
    let (running, task) = interrupted(&world);
    end(running);
    world.json(&["task", "cancel", &task]);
    world.json(&["task", "retry", &task]);
    let script = world.conversations(&[(
        "Mend it",
        json!([{ "shell": "cat src/two.sh && echo more > NOTES" }, { "expect": "echo two", "say": "Done." }]),
    )]);
    let ran = world.worker(&script, &["--until-empty"]).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let shown = world.json(&["task", "show", &task]);
    assert_eq!(shown["status"], "completed", "{shown:#}");
    assert_eq!(world.show(&format!("{}:NOTES", shown["branch"].as_str().unwrap())), "more");
}

#[test]
fn where_nothing_was_done_nothing_is_delivered() {
    let world = World::new();
    world.without_spares();
    let unstarted = world.add_task("Another");
    world.json(&["task", "cancel", &unstarted]);
    let script = world.conversations(&[("Mend it", json!([{ "shell": "sleep 987654" }]))]);
    let task = world.add_task("Mend it");
    let running = world.worker(&script, &[]).start();
    wait_until("it hangs", || of_type(&journal(&world, &task), "tool.call").len() == 1);
    world.json(&["interrupt", &task]);
    end(running);
    world.json(&["task", "cancel", &task]);
    for id in [&unstarted, &task] {
        let shown = world.json(&["task", "show", id]);
        assert_eq!(
            (&shown["status"], &shown["error"], &shown["branch"]),
            (&json!("cancelled"), &json!("cancelled before it started"), &Value::Null)
        );
        assert_eq!(world.harvest(&["task", "delete", id]).finish().exit, Some(0));
    }
}

/// What may not leave is kept, and is not deleted by mistake.
#[test]
fn work_that_may_not_be_delivered_is_named_and_not_deleted_unasked() {
    let world = World::new();
    let settings = world.home().join(".config/harvest");
    std::fs::create_dir_all(&settings).unwrap();
    std::fs::write(settings.join("harvest.toml"), "warm = 0\nhooks = ['before_deliver: true']\n").unwrap();
    let (running, task) = hanging(&world, "never");
    world.json(&["interrupt", &task]);
    end(running);
    let said = world.harvest(&["task", "cancel", &task]).finish();
    assert!(said.exit == Some(0) && said.stdout.contains("its work is kept in Harvest"), "{said:?}");
    let shown = world.json(&["task", "show", &task]);
    assert_eq!((&shown["status"], &shown["branch"]), (&json!("cancelled"), &Value::Null), "{shown:#}");
    let error = shown["error"].as_str().unwrap();
    assert!(error.contains("the hooks that its delivery needs have not run"), "{error}");
    assert_eq!(git(&world.repo(), &["branch", "--list", "harvest/*"]), "");
    assert!(world.json(&["task", "diff", &task])["diff"].as_str().unwrap().contains("+echo two"));
    let refused = world.harvest(&["task", "delete", &task]).finish();
    assert!(refused.exit == Some(2) && refused.stderr.starts_with("error[HV-0158]"), "{refused:?}");
    let commit = &shown["commit"].as_str().unwrap()[..10];
    assert!(refused.stderr.contains(commit) && refused.stderr.contains("--force"), "{refused:?}");
    assert_eq!(world.harvest(&["task", "delete", &task, "--force"]).finish().exit, Some(0));
}

/// Before the task has ended, its work is shown as what it is.
#[test]
fn work_that_is_not_finished_is_shown_and_never_called_no_changes() {
    let world = World::new();
    let (mut running, task) = {
        world.without_spares();
        hanging(&world, "never")
    };
    wait_until("it is saved", || of_type(&journal(&world, &task), "checkpoint.created").len() == 1);
    let look = |status: &str| {
        let diff = world.harvest(&["task", "diff", &task]).finish();
        assert!(diff.stdout.contains("+echo two"), "{diff:?}");
        assert!(diff.stderr.contains(&format!("the task is {status}; these are its changes so far")), "{diff:?}");
        let page = world.harvest(&["task", "show", &task]).finish().stdout;
        assert!(page.contains("changes     not finished: 1 file so far; harvest task diff"), "{page}");
        let listed = world.harvest(&["task", "list"]).finish().stdout;
        assert_eq!(listed.contains("not finished"), status == "interrupted", "{listed}");
        let apply = world.harvest(&["task", "apply", &task]).finish();
        assert!(apply.exit == Some(2) && apply.stderr.starts_with("error[HV-0161]"), "{apply:?}");
        assert!(apply.stderr.contains(&format!("it is {status}, and its work is not finished")), "{apply:?}");
        for said in [diff.stderr, page, listed, apply.stderr] {
            assert!(!said.contains("no changes"), "{said}");
        }
    };
    look("running");
    world.json(&["interrupt", &task]);
    running.wait_for_type("interrupted");
    look("interrupted");
    end(running);
    world.json(&["session", "resume", &task]);
    let page = world.harvest(&["task", "show", &task]).finish().stdout;
    let attempt = page.lines().find(|line| line.contains("attempt")).unwrap_or_default();
    assert!(attempt.ends_with("interrupted") && !page.contains("killed"), "it was resumed and waits: {page}");
}

/// Whoever comes next ends what a cancel that died has begun.
#[test]
#[cfg(feature = "failpoints")]
fn a_cancel_that_dies_on_the_way_is_ended_by_the_next_command() {
    use std::os::unix::process::ExitStatusExt;

    for place in ["cancel::claimed", "cancel::published"] {
        let world = World::new();
        let (running, task) = interrupted(&world);
        end(running);
        let crash = format!("{place}=return(crash)");
        let died = world.harvest(&["task", "cancel", &task]).env("HARVEST_FAILPOINTS", &crash).finish();
        assert_eq!(died.status.signal(), Some(6), "{place}: {died:?}");
        assert_delivered(&world, &task);
        world.assert_nothing_left();
    }
}
