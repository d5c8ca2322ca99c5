//! Nothing leaves before a person has looked at the tested result.

use serde_json::{Value, json};

use crate::session::of_type;
use crate::support::{FIX, World, git};

fn branches(world: &World) -> String {
    git(&world.repo(), &["branch", "--list", "harvest/*"])
}

fn held(world: &World) -> String {
    let ran = world.run(&json!([{ "shell": FIX }, { "say": "Mended." }]), &["--gate"]);
    assert_eq!(ran.exit, Some(3), "it waits for a person: {ran:?}");
    let events = ran.events();
    let proposed = events.last().unwrap();
    assert_eq!((&proposed["type"], &proposed["data"]["files"]), (&json!("delivery.proposed"), &json!(["src/two.sh"])));
    assert_eq!(branches(world), "");
    events[0]["data"]["task_id"].as_str().unwrap().to_owned()
}

fn decide(world: &World, args: &[&str], status: &str) {
    assert_eq!(world.json(args)["status"], status);
}

#[test]
fn the_tested_result_is_shown_approved_and_delivered() {
    let world = World::new();
    let task = held(&world);
    let waiting = world.json(&["task", "show", &task]);
    assert_eq!((&waiting["status"], &waiting["branch"]), (&json!("awaiting_approval"), &Value::Null));
    let journal = world.journal(&task);
    let proposed = &of_type(&journal, "delivery.proposed")[0];
    assert_eq!(proposed["evidence"]["exit_code"], 0, "{proposed:#}");
    assert!(world.json(&["task", "diff", &task])["diff"].as_str().unwrap().contains("+echo two"));
    let shown = world.harvest(&["task", "show", &task]).finish().stdout;
    assert!(shown.contains("What it would deliver") && shown.contains("src/two.sh"), "{shown}");
    // Workers come and go meanwhile, and none of them does anything.
    world.work_off(&[("never", json!([{}]))]);
    assert_eq!(branches(&world), "");
    world.assert_nothing_left();
    let edited = world.harvest(&["task", "approve", &task, "--edit", "/dev/null"]).finish();
    assert_eq!(edited.exit, Some(2), "{edited:?}");
    let plan = world.path().join("plan.md");
    std::fs::write(&plan, "Something else").unwrap();
    let edited = world.harvest(&["task", "approve", &task, "--edit", plan.to_str().unwrap()]).finish();
    assert!(edited.exit == Some(2) && edited.stderr.contains("--edit is for a plan"), "{edited:?}");
    decide(&world, &["task", "approve", &task], "pending");
    world.work_off(&[("never", json!([{}]))]);
    let done = world.json(&["task", "show", &task]);
    assert_eq!(done["status"], "completed", "{done:#}");
    assert_eq!(world.show(&format!("{}:src/two.sh", done["branch"].as_str().unwrap())), "echo two");
    let journal = world.journal(&task);
    assert_eq!(of_type(&journal, "agent.started").len(), 1, "nothing was done again");
    assert_eq!(of_type(&journal, "branch.delivered").len(), 1);
    world.assert_nothing_left();
}

#[test]
fn what_is_turned_down_stays_here_and_with_a_comment_is_done_differently() {
    let world = World::new();
    let rejected = held(&world);
    decide(&world, &["task", "reject", &rejected], "cancelled");
    world.work_off(&[("never", json!([{}]))]);
    assert_eq!(branches(&world), "");
    let again = held(&world);
    decide(&world, &["task", "reject", &again, "--comment", "Write it down, too"], "pending");
    let differently = json!([
        { "expect": "Write it down, too", "shell": "cat src/two.sh; echo mended > NOTES" },
        { "expect": "echo two", "say": "Written down." },
    ]);
    world.work_off(&[("does not want it", differently)]);
    let journal = world.journal(&again);
    let proposed = of_type(&journal, "delivery.proposed").pop().unwrap();
    assert_eq!(proposed["files"], json!(["NOTES", "src/two.sh"]), "{proposed:#}");
    assert_eq!(branches(&world), "");
    let said = world.harvest(&["task", "approve", &again]).finish().stdout;
    assert!(said.contains(" is approved; `harvest up` delivers it"), "{said}");
    world.work_off(&[("never", json!([{}]))]);
    let done = world.json(&["task", "show", &again]);
    assert_eq!(done["status"], "completed", "{done:#}");
    assert_eq!(world.show(&format!("{}:NOTES", done["branch"].as_str().unwrap())), "mended");
    assert_eq!(of_type(&world.journal(&again), "agent.started").len(), 2);
    world.assert_nothing_left();
}

#[test]
fn failed_work_stays_here_and_nothing_to_deliver_needs_nobody() {
    let world = World::new();
    let failed = world.run(&json!([{ "shell": "echo worse > src/two.sh" }, {}]), &["--gate"]);
    let outcome = failed.assert_ended(1, "failed", Some("tests"));
    assert_eq!(outcome["branch"], Value::Null);
    assert_eq!(branches(&world), "");
    let id = outcome["task_id"].as_str().unwrap();
    assert!(world.json(&["task", "diff", id])["diff"].as_str().unwrap().contains("+worse"));
    world.assert_nothing_left();
    let world = World::new();
    let nothing = world.run(&json!([{ "say": "There is nothing to do." }]), &["--gate", "--test", "true"]);
    assert_eq!(nothing.assert_ended(0, "completed", None)["branch"], Value::Null);
    // For all tasks of an installation, by its settings.
    let file = world.home().join(".config/harvest/harvest.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, "[deliver]\napproval = true\n").unwrap();
    assert_eq!(world.run(&json!([{ "shell": FIX }, {}]), &[]).exit, Some(3));
    assert_eq!(branches(&world), "");
}

/// Asked or not yet: whoever works next finds the same result, and asks once.
#[cfg(feature = "failpoints")]
#[test]
fn a_worker_that_dies_while_it_asks_asks_once() {
    for place in ["gate::before", "gate::asked"] {
        let world = World::new();
        let task =
            world.json(&["task", "add", "Make the failing test pass", "--gate"])["id"].as_str().unwrap().to_owned();
        let script = world.conversations(&[("failing test", json!([{ "shell": FIX }, {}]))]);
        let args = ["up", "--until-empty", "--json", "--model-script", script.to_str().unwrap()];
        let died = world.harvest(&args).env("HARVEST_FAILPOINTS", &format!("{place}=return(crash)")).finish();
        assert_ne!(died.exit, Some(0), "{place}: {died:?}");
        world.work_off(&[("never", json!([{}]))]);
        let waiting = world.json(&["task", "show", &task]);
        assert_eq!(waiting["status"], "awaiting_approval", "{place}: {waiting:#}");
        let journal = world.journal(&task);
        assert_eq!(of_type(&journal, "delivery.proposed").len(), 1, "{place}");
        assert_eq!(of_type(&journal, "agent.started").len(), 1, "{place}");
        assert_eq!(branches(&world), "");
        world.assert_nothing_left();
    }
}

#[cfg(feature = "failpoints")]
#[test]
fn a_worker_that_dies_on_the_way_out_delivers_once() {
    for place in ["deliver::before", "deliver::published"] {
        let world = World::new();
        let task = held(&world);
        decide(&world, &["task", "approve", &task], "pending");
        let script = world.conversations(&[("never", json!([{}]))]);
        let args = ["up", "--until-empty", "--json", "--model-script", script.to_str().unwrap()];
        let died = world.harvest(&args).env("HARVEST_FAILPOINTS", &format!("{place}=return(crash)")).finish();
        assert_ne!(died.exit, Some(0), "{place}: {died:?}");
        world.work_off(&[("never", json!([{}]))]);
        let done = world.json(&["task", "show", &task]);
        assert_eq!(done["status"], "completed", "{place}: {done:#}");
        let journal = world.journal(&task);
        assert_eq!(of_type(&journal, "branch.delivered").len(), 1, "{place}");
        assert_eq!(of_type(&journal, "agent.started").len(), 1, "{place}");
        assert_eq!(
            git(&world.repo(), &["rev-list", "--count", &format!("main..{}", done["branch"].as_str().unwrap())]),
            "1"
        );
        world.assert_nothing_left();
    }
}
