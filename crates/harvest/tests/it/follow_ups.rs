//! Follow-ups from the owner's side: what was proved stays proved, and nobody waits without being told for what.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::reattach::wait_until;
use crate::session::of_type;
use crate::support::{FIX, World, git};

/// A completed and verified task, as its command says it ended.
fn verified(world: &World) -> Value {
    world.run(&json!([{ "shell": FIX }, { "say": "Mended." }]), &[]).assert_ended(0, "completed", None)
}

#[test]
fn cancelling_a_waiting_follow_up_leaves_the_verified_result_as_it_was() {
    let world = World::new();
    let first = verified(&world);
    let task = first["task_id"].as_str().unwrap();
    let before = world.json(&["task", "show", task]);
    assert_eq!(before["evidence"]["exit_code"], 0, "{before:#}");
    world.json(&["session", "prompt", task, "Now write it down"]);
    assert_eq!(world.status_of(task), "pending");
    let cancelled = world.harvest(&["task", "cancel", task]).finish();
    assert_eq!(cancelled.exit, Some(0), "{cancelled:?}");
    assert!(cancelled.stdout.contains("the waiting follow-up is cancelled; task"), "{cancelled:?}");
    assert!(cancelled.stdout.contains("is completed as before; its work is on harvest/"), "{cancelled:?}");
    let after = world.json(&["task", "show", task]);
    for field in ["status", "reason", "error", "evidence", "branch", "commit", "cost_usd", "finished_at", "tries"] {
        assert_eq!(after[field], before[field], "{field} of {after:#}");
    }
    assert_eq!(world.tasks()[0]["status"], "completed");
    let logs = world.harvest(&["task", "logs", task]).finish();
    assert!(logs.stdout.contains("turn 2 was cancelled before it began"), "{logs:?}");
    let session = world.harvest(&["session", "show", task]).finish().stdout;
    let says = |turn: &str, word: &str| session.lines().any(|line| line.contains(turn) && line.contains(word));
    assert!(says("turn 1", "done ·") && says("turn 2", "withdrawn ·"), "{session}");
    let turns = world.json(&["session", "show", task])["turns"].clone();
    assert_eq!((&turns[0]["ended"], &turns[1]["ended"]), (&json!("completed"), &json!("withdrawn")));
    // Nothing is left to work on, and the result is merged like any verified one.
    let up = world.work_off(&[("write it down", json!([{ "shell": "echo x > NOTES" }, {}]))]);
    assert!(!up.stdout.contains("started"), "{up:?}");
    let applied = world.harvest(&["task", "apply", task]).finish();
    assert_eq!(applied.exit, Some(0), "{applied:?}");
    // The session goes on from there, as if nothing had been asked in between.
    world.json(&["session", "prompt", task, "Now write it down"]);
    world.work_off(&[("write it down", json!([{ "shell": "cat src/two.sh > NOTES" }, {}]))]);
    let shown = world.json(&["task", "show", task]);
    assert_eq!(shown["status"], "completed", "{shown:#}");
    assert_eq!(world.show(&format!("{}:NOTES", shown["branch"].as_str().unwrap())), "echo two");
    world.assert_nothing_left();
}

#[test]
fn cancelling_a_waiting_retry_brings_the_failed_result_back() {
    let world = World::new();
    let breaks = json!([{ "shell": format!("{FIX}; echo 'exit 1' > src/one.sh") }, { "say": "Broken." }]);
    let ended = world.run(&breaks, &[]).assert_ended(1, "failed", Some("tests"));
    let task = ended["task_id"].as_str().unwrap();
    let before = world.json(&["task", "show", task]);
    assert_eq!((&before["evidence"]["exit_code"], before["branch"].is_string()), (&json!(1), true), "{before:#}");
    world.json(&["task", "retry", task]);
    assert_eq!(world.status_of(task), "pending");
    let cancelled = world.harvest(&["task", "cancel", task]).finish();
    assert_eq!(cancelled.exit, Some(0), "{cancelled:?}");
    assert!(cancelled.stdout.contains("the waiting turn is cancelled; task"), "{cancelled:?}");
    assert!(cancelled.stdout.contains("is failed as before; its work is on harvest/"), "{cancelled:?}");
    let after = world.json(&["task", "show", task]);
    for field in ["status", "reason", "error", "evidence", "branch", "commit", "cost_usd", "finished_at", "tries"] {
        assert_eq!(after[field], before[field], "{field} of {after:#}");
    }
    let logs = world.harvest(&["task", "logs", task]).finish();
    assert!(logs.stdout.contains("the retry was cancelled before it began"), "{logs:?}");
    // Another retry is worked on as if the first had not been asked for.
    world.json(&["task", "retry", task]);
    let mends = "printf 'echo one\\n' > src/one.sh";
    world.work_off(&[("Make the failing test pass", json!([{ "shell": mends }, {}]))]);
    let mended = world.json(&["task", "show", task]);
    assert_eq!(mended["status"], "completed", "{mended:#}");
    world.assert_nothing_left();
}

#[test]
fn a_follow_up_that_is_cancelled_at_work_says_where_the_result_before_it_is() {
    let world = World::new();
    let first = verified(&world);
    let (task, commit) = (first["task_id"].as_str().unwrap(), first["commit"].as_str().unwrap());
    world.json(&["session", "prompt", task, "Now write it down"]);
    let script = world.conversations(&[("write it down", json!([{ "shell": "sleep 987654" }, {}]))]);
    let mut up = world.harvest(&["up", "--until-empty", "--json", "--model-script", script.to_str().unwrap()]).start();
    up.wait_for_type("started");
    wait_until("its agent works", || of_type(&world.journal(task), "tool.call").len() == 2);
    let cancelled = world.json(&["task", "cancel", task]);
    assert_eq!(cancelled["status"], "cancelled");
    up.finish();
    let shown = world.json(&["task", "show", task]);
    let session = world.harvest(&["session", "show", task]).finish().stdout;
    assert!(session.lines().any(|line| line.contains("turn 2") && line.contains("cancelled ·")), "{session}");
    let error = shown["error"].as_str().unwrap();
    assert!(error.contains(&format!("git merge {}", &commit[..10])), "{error}");
    git(&world.repo(), &["merge", "--ff-only", commit]);
    world.assert_nothing_left();
}

#[test]
fn a_follow_up_is_not_a_try() {
    let world = World::new();
    let task = verified(&world)["task_id"].as_str().unwrap().to_owned();
    world.json(&["session", "prompt", &task, "Now write it down"]);
    world.work_off(&[("write it down", json!([{ "shell": "cat src/two.sh > NOTES" }, {}]))]);
    assert_eq!(world.json(&["task", "show", &task])["tries"], 1);
    let shown = world.harvest(&["task", "show", &task]).finish();
    assert!(!shown.stdout.contains("tries"), "{shown:?}");
}

#[test]
fn following_a_prompt_without_a_worker_says_how_to_start_one() {
    let world = World::new();
    let task = verified(&world)["task_id"].as_str().unwrap().to_owned();
    world.json(&["queue", "pause"]);
    let following = world.harvest(&["session", "prompt", &task, "Now write it down", "--follow", "--json"]).start();
    wait_until("it is queued", || world.status_of(&task) == "pending");
    world.json(&["queue", "resume"]);
    world.work_off(&[("write it down", json!([{ "shell": "cat src/two.sh > NOTES" }, {}]))]);
    let followed = following.finish();
    assert_eq!(followed.exit, Some(0), "{followed:?}");
    assert!(followed.stderr.contains("no worker is running; start one with `harvest up`"), "{followed:?}");
    assert!(followed.stderr.contains("the queue is paused; `harvest queue resume`"), "{followed:?}");
}

#[test]
fn a_prompt_for_work_that_was_removed_is_refused_and_changes_nothing() {
    let world = World::new();
    let url = format!("file://{}", world.repo().display());
    let ran = world.run(&json!([{ "shell": FIX }, {}]), &["--repo", &url]);
    let first = ran.assert_ended(0, "completed", None);
    let (task, session) = (first["task_id"].as_str().unwrap(), first["session_id"].as_str().unwrap());
    let before = world.json(&["task", "show", task]);
    wait_until("its work is collected", || {
        let collected = world.json(&["gc", "--older-than", "1s", "--unpublished"]);
        collected["removed"].to_string().contains(session)
    });
    let refused = world.harvest(&["session", "prompt", task, "Now write it down"]).finish();
    assert_eq!(refused.exit, Some(2), "{refused:?}");
    assert!(refused.stderr.starts_with("error[HV-0157]"), "{refused:?}");
    assert!(refused.stderr.contains("start a new task: harvest task add"), "{refused:?}");
    assert_eq!(world.json(&["task", "show", task]), before);
}

#[test]
fn a_second_ctrl_c_interrupts_the_task_and_it_can_be_resumed() {
    let world = World::new();
    world.add_agent("deaf", "text", &format!("trap '' INT TERM; {FIX}; echo working; while :; do sleep 1; done"));
    let mut running = world.run_with(&json!([{}]), &["--agent", "deaf"]).start();
    running.wait_for("its work", |event| event.to_string().contains("working"));
    running.signal(Signal::INT);
    // The wish is in the database before anyone who is in a hurry presses it again.
    let database = rusqlite::Connection::open(world.data().join("harvest.db")).unwrap();
    wait_until("the stop is recorded", || {
        database.query_row("SELECT count(*) FROM stops", [], |row| row.get::<_, u64>(0)).is_ok_and(|count| count == 1)
    });
    running.signal(Signal::INT);
    let ran = running.finish();
    assert_eq!(ran.exit, Some(3), "{ran:?}");
    assert!(ran.stderr.contains("work since the last checkpoint is repeated"), "{ran:?}");
    let listed = world.harvest(&["task", "list", "--json"]).finish();
    let task = serde_json::from_str::<Value>(&listed.stdout).unwrap()["items"][0].clone();
    assert_eq!(task["status"], "interrupted", "{task:#}");
    assert!(listed.stderr.contains("is interrupted: its command was stopped; `harvest session resume"), "{listed:?}");
    let id = task["id"].as_str().unwrap();
    world.add_agent("deaf", "text", &format!("{FIX}; echo Done."));
    world.json(&["session", "resume", id]);
    world.work_off(&[("x", json!([{}]))]);
    assert_eq!(world.status_of(id), "completed");
    world.assert_nothing_left();
}

/// A worker with three agents on one repository, of which one may be worked on at a time; what it tells of starts and ends.
fn told_under_a_cap(world: &World) -> Vec<(String, String)> {
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let args = ["up", "--until-empty", "--json", "--agents", "3", "--model-script", script.to_str().unwrap()];
    // The end of a turn is in the store before its worker has come back, so long that the next one may end meanwhile.
    let ran = world.harvest(&args).env("HARVEST_FAILPOINTS", "record::after=sleep(1500)").finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    ran.stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|notice| notice["type"] == "started" || notice["type"] == "finished")
        .map(|notice| (notice["type"].as_str().unwrap().into(), notice["task_id"].as_str().unwrap().into()))
        .collect()
}

fn cap_of_one(world: &World) {
    let cap = format!("repository:{}", world.repo().canonicalize().unwrap().display());
    world.json(&["queue", "cap", &cap, "1"]);
}

fn one_after_the_other(tasks: &[&String]) -> Vec<(String, String)> {
    tasks.iter().flat_map(|task| ["started", "finished"].map(|kind| (kind.to_owned(), (*task).clone()))).collect()
}

#[test]
fn lines_are_in_the_order_of_events_when_a_place_gets_free() {
    let world = World::new();
    cap_of_one(&world);
    let tasks = ["Mend it", "Mend it again", "Mend it once more"].map(|prompt| world.add(prompt, &[]));
    assert_eq!(told_under_a_cap(&world), one_after_the_other(&tasks.each_ref()));
}

#[test]
fn a_turn_that_has_ended_is_not_told_as_lost_when_its_worker_comes_back_late() {
    let world = World::new();
    world.add("Mend it", &[]);
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let args = ["up", "--until-empty", "--json", "--lease", "3s", "--model-script", script.to_str().unwrap()];
    // A heartbeat, every second, finds that the turn is not the worker's any more.
    let ran = world.harvest(&args).env("HARVEST_FAILPOINTS", "record::after=sleep(2500)").finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let kinds: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone()).collect();
    assert!(kinds.contains(&json!("finished")) && !kinds.contains(&json!("lost")), "{ran:?}");
}

#[test]
fn a_turn_that_waits_for_a_person_is_not_told_as_lost_when_its_worker_comes_back_late() {
    let world = World::new();
    world.add("Mend it", &["--plan"]);
    let script = world.script(&json!([{ "say": "I would mend two.sh." }]));
    let args = ["up", "--until-empty", "--json", "--lease", "3s", "--model-script", script.to_str().unwrap()];
    let ran = world.harvest(&args).env("HARVEST_FAILPOINTS", "plan::asked=sleep(2500)").finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("\"awaits_approval\"") && !ran.stdout.contains("\"lost\""), "{ran:?}");
}

#[test]
fn an_urgent_task_that_was_queued_later_goes_first_under_a_cap() {
    let world = World::new();
    cap_of_one(&world);
    let normal = ["Mend it", "Mend it again"].map(|prompt| world.add(prompt, &[]));
    let urgent = world.add("Mend it first", &["--priority", "urgent"]);
    let state = world.json(&["status"]);
    assert_eq!((&state["caps"][0]["used"], &state["turns"]["claimed"]), (&json!(0), &json!(0)));
    assert_eq!(told_under_a_cap(&world), one_after_the_other(&[&urgent, &normal[0], &normal[1]]));
}
