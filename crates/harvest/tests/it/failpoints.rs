//! A crash at every named place: the next command leaves nothing behind, and every task ends exactly once.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use harvest_engine::failpoint;
use serde_json::json;

use crate::killed::journal;
use crate::support::{FIX, World};

#[test]
fn a_crash_at_every_place_is_recovered_from() {
    for name in failpoint::ALL {
        let world = World::new();
        let crash = format!("{name}=return(crash)");
        let ran = world.run_with(&json!([{ "shell": FIX }, {}]), &[]).env("HARVEST_FAILPOINTS", &crash).finish();
        assert_eq!(ran.status.signal(), Some(6), "{name}: {ran:?}");
        let tasks = world.tasks();
        world.assert_nothing_left();
        assert_eq!(tasks.len(), 1, "{name}");
        let task = &tasks[0];
        let expected = if *name == "record::after" { ("completed", None) } else { ("failed", Some("internal")) };
        assert_eq!((task["status"].as_str().unwrap(), task["reason"].as_str()), expected, "{name}: {task:#}");
        let id = task["id"].as_str().unwrap();
        let events = journal(&world, id);
        assert_eq!(events.iter().filter(|event| event["type"] == "task.finished").count(), 1, "{name}");
        assert_eq!(events.last().unwrap()["type"], "task.finished", "{name}");
        let changed = events.iter().any(|event| event["type"] == "commit.created");
        if changed {
            let branch = task["branch"].as_str().unwrap_or_else(|| panic!("{name}: the work is lost: {task:#}"));
            assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two", "{name}");
        }
        // The same again, undisturbed.
        world.run(&json!([{ "shell": FIX }, {}]), &[]).assert_ended(0, "completed", None);
        world.assert_nothing_left();
    }
}

/// An engine that cannot go on says so, ends what it was working on and clears up.
#[test]
fn an_error_at_every_place_is_told() {
    for name in failpoint::ALL {
        let world = World::new();
        let ran = world
            .run_with(&json!([{ "shell": FIX }, {}]), &[])
            .env("HARVEST_FAILPOINTS", &format!("{name}=return(error)"))
            .finish();
        assert_eq!(ran.exit, Some(1), "{name}: {ran:?}");
        assert!(ran.stderr.starts_with("error[HV-0901]:"), "{name}: {}", ran.stderr);
        ran.outcome();
        world.assert_nothing_left();
        let tasks = world.tasks();
        let status = tasks[0]["status"].as_str().unwrap();
        assert!(["failed", "completed"].contains(&status), "{name}: {:#}", tasks[0]);
    }
}

/// Prompts in line are neither lost nor worked on twice, wherever the worker dies.
#[test]
fn prompts_in_line_survive_the_worker() {
    for name in ["execute::started", "execute::after", "deliver::published", "record::before", "record::after"] {
        let world = World::new();
        let task = world.json(&["task", "add", "Begin"])["id"].as_str().unwrap().to_owned();
        world.json(&["session", "prompt", &task, "Then the second thing"]);
        let script = world.conversations(&[
            ("second thing", json!([{ "shell": "echo 2 >> order" }, {}])),
            ("Begin", json!([{ "shell": format!("{FIX}; echo 1 >> order") }, {}])),
        ]);
        let args = ["up", "--until-empty", "--model-script", script.to_str().unwrap()];
        let crash = format!("{name}=return(crash)");
        let crashed = world.harvest(&args).env("HARVEST_FAILPOINTS", &crash).finish();
        assert_eq!(crashed.status.signal(), Some(6), "{name}: {crashed:?}");
        let again = world.harvest(&args).finish();
        assert_eq!(again.exit, Some(0), "{name}: {again:?}");
        let shown = world.json(&["task", "show", &task]);
        assert_eq!(shown["status"], "completed", "{name}: {shown:#}");
        assert_eq!(world.show(&format!("{}:order", shown["branch"].as_str().unwrap())), "1\n2", "{name}");
        let ended = journal(&world, &task).iter().filter(|event| event["type"] == "task.finished").count();
        assert_eq!(ended, 2, "{name}");
        world.assert_nothing_left();
    }
}

/// Work that breaks down while its worker lives is tried again, behind what was done, and not for ever.
#[test]
fn a_turn_on_which_the_work_breaks_down_is_tried_again_a_few_times() {
    for (times, place, status) in
        [(1, "provision::before", "completed"), (2, "deliver::before", "completed"), (9, "verify::before", "failed")]
    {
        let world = World::new();
        let task = world.json(&["task", "add", "Mend it"])["id"].as_str().unwrap().to_owned();
        let script = world.script(&json!([{ "shell": FIX }, {}]));
        let args = ["up", "--until-empty", "--model-script", script.to_str().unwrap()];
        let breaks = format!("{place}={times}*return(error)");
        let ran = world.harvest(&args).env("HARVEST_FAILPOINTS", &breaks).finish();
        assert_eq!(ran.exit, Some(0), "{place}: {ran:?}");
        let shown = world.json(&["task", "show", &task]);
        assert_eq!(shown["status"], status, "{place}: {shown:#}");
        let events = journal(&world, &task);
        let broke_down = events.iter().filter(|event| {
            event["data"]["message"]
                .as_str()
                .is_some_and(|message| message.contains("failed unexpectedly; trying again"))
        });
        assert_eq!(broke_down.count(), times.min(2), "{place}: {events:#?}");
        let agents = events.iter().filter(|event| event["type"] == "agent.started").count();
        assert_eq!(agents, 1, "{place}: no agent works twice");
        assert_eq!(world.show(&format!("{}:src/two.sh", shown["branch"].as_str().unwrap())), "echo two", "{place}");
        if status == "failed" {
            let error = shown["error"].as_str().unwrap();
            assert!(error.contains("failed unexpectedly 3 times") && error.contains(place), "{place}: {error}");
        }
        world.assert_nothing_left();
    }
}

/// A disk that is full when a workspace is made fails no task of the queue; one in the foreground is told.
#[test]
fn what_there_was_no_room_for_is_tried_again_when_there_is() {
    let world = World::new();
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let task = world.json(&["task", "add", "Mend it"])["id"].as_str().unwrap().to_owned();
    let args = ["up", "--until-empty", "--model-script", script.to_str().unwrap()];
    let full = "provision::before=1*return(full)";
    let ran = world.harvest(&args).env("HARVEST_FAILPOINTS", full).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let shown = world.json(&["task", "show", &task]);
    assert_eq!(shown["status"], "completed", "{shown:#}");
    let told = |text: &str| text.starts_with("the disk was full during this turn; trying again");
    let events = journal(&world, &task);
    assert_eq!(events.iter().filter(|event| event["data"]["message"].as_str().is_some_and(told)).count(), 1);
    let ran = world.run_with(&json!([{ "shell": FIX }, {}]), &[]).env("HARVEST_FAILPOINTS", full).finish();
    let outcome = ran.assert_ended(1, "failed", Some("internal"));
    assert!(outcome["error"].as_str().unwrap().contains("disk"), "{outcome:#}");
    world.assert_nothing_left();
}

/// Every list of places, with its name as tests use it.
const LISTS: &[(&str, &[&str])] = &[
    ("ALL", failpoint::ALL),
    ("ROTATION", failpoint::ROTATION),
    ("METERING", failpoint::METERING),
    ("REATTACH", failpoint::REATTACH),
    ("INTERRUPT", failpoint::INTERRUPT),
    ("CANCEL", failpoint::CANCEL),
    ("RACE", failpoint::RACE),
    ("PLAN", failpoint::PLAN),
    ("HOSTING", failpoint::HOSTING),
    ("GATE", failpoint::GATE),
    ("PREPARE", failpoint::PREPARE),
    ("ANSWER", failpoint::ANSWER),
];

/// The text of every source file below a folder. Of this file only what precedes the lists.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            text += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            text +=
                if path.ends_with("it/failpoints.rs") { source.split("const LISTS").next().unwrap() } else { &source };
        }
    }
    text
}

/// Each place that the code reaches is in a list, each place of a list is reached, and a test makes the process die there:
/// it goes through the whole list, or it names the place.
#[test]
fn every_place_is_listed_reached_and_has_a_test() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let code: String = ["engine/src", "harvest/src", "server/src"].map(|folder| sources(&crates.join(folder))).concat();
    let reached: BTreeSet<&str> =
        code.split("failpoint::reach(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let listed: BTreeSet<&str> = LISTS.iter().flat_map(|(_, places)| places.iter().copied()).collect();
    assert_eq!(reached, listed);
    let declared = fs::read_to_string(crates.join("engine/src/failpoint.rs")).unwrap();
    assert_eq!(declared.matches("pub const ").count(), LISTS.len(), "a list is missing here");
    let tests = sources(&crates.join("harvest/tests/it"));
    let goes_through = |list: &str| tests.contains(&format!("failpoint::{list} {{"));
    let names = |place: &&str| ["\"", "="].iter().any(|end| tests.contains(&format!("\"{place}{end}")));
    let by_name = LISTS.iter().filter(|(list, _)| !goes_through(list)).flat_map(|(_, places)| places.iter().copied());
    let untested: Vec<&str> = by_name.filter(|place| !names(place)).collect();
    assert_eq!(untested, Vec::<&str>::new());
}
