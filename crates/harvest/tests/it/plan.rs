//! First a plan, then a person decides, then it is carried out.

use serde_json::{Value, json};

use crate::session::of_type;
use crate::support::{FIX, World, git};

#[test]
fn a_plan_is_made_changed_approved_and_carried_out() {
    let world = World::new();
    let script = world.conversations(&[("Make a plan", json!([{ "say": "I would mend two.sh." }]))]);
    let args = ["run", "Make the failing test pass", "--plan", "--json", "--model-script", script.to_str().unwrap()];
    let ran = world.harvest(&args).finish();
    assert_eq!(ran.exit, Some(3), "it waits for a person: {ran:?}");
    let events = ran.events();
    let proposed = events.last().unwrap();
    assert_eq!(
        (&proposed["type"], &proposed["data"]["text"]),
        (&json!("plan.proposed"), &json!("I would mend two.sh."))
    );
    let task = events[0]["data"]["task_id"].as_str().unwrap();
    let waiting = world.json(&["task", "show", task]);
    assert_eq!((&waiting["status"], &waiting["branch"]), (&json!("awaiting_approval"), &Value::Null));
    assert_eq!(waiting["sessions"][0]["turns"][0]["status"], "held");
    // Workers come and go meanwhile.
    world.work_off(&[("never", json!([{}]))]);
    world.assert_nothing_left();
    let plan = world.path().join("plan.md");
    std::fs::write(&plan, "Mend two.sh and write it down in NOTES.\n").unwrap();
    let decided = world.json(&["task", "approve", task, "--edit", plan.to_str().unwrap()]);
    assert_eq!(decided["status"], "pending");
    let carried_out = json!([
        { "expect": "write it down in NOTES", "shell": format!("{FIX}; echo mended > NOTES") },
        { "say": "Done as planned." },
    ]);
    world.work_off(&[("The plan for it is approved", carried_out)]);
    let shown = world.json(&["task", "show", task]);
    assert_eq!(shown["status"], "completed", "{shown:#}");
    assert_eq!(world.show(&format!("{}:NOTES", shown["branch"].as_str().unwrap())), "mended");
    let journal = world.journal(task);
    assert_eq!(of_type(&journal, "plan.decided")[0]["approved"], true);
    assert_eq!(of_type(&journal, "plan.proposed").len(), 1);
    world.assert_nothing_left();
}

#[test]
fn a_plan_that_is_turned_down_is_made_again_or_is_the_end() {
    let world = World::new();
    let task = world.json(&["task", "add", "Make the failing test pass", "--plan"])["id"].as_str().unwrap().to_owned();
    let early = world.harvest(&["task", "approve", &task]).finish();
    assert!(early.exit == Some(2) && early.stderr.starts_with("error[HV-0156]"), "{early:?}");
    let conversations = [
        ("Leave the database alone", json!([{ "expect": "I would drop tables.", "say": "Only two.sh, then." }])),
        ("Make a plan", json!([{ "say": "I would drop tables." }])),
    ];
    let up = world.work_off(&conversations);
    assert!(up.stdout.contains("awaits_approval"), "{up:?}");
    let again = world.json(&["task", "reject", &task, "--comment", "Leave the database alone"]);
    assert_eq!(again["status"], "pending");
    world.work_off(&conversations);
    let journal = world.journal(&task);
    let plans: Vec<_> = of_type(&journal, "plan.proposed").iter().map(|plan| &plan["text"]).collect();
    assert_eq!(plans, ["I would drop tables.", "Only two.sh, then."]);
    assert_eq!(world.json(&["task", "reject", &task])["status"], "cancelled");
    let shown = world.json(&["task", "show", &task]);
    assert_eq!(shown["error"], "its plan was rejected");
    let late = world.harvest(&["task", "approve", &task]).finish();
    assert!(late.exit == Some(2) && late.stderr.starts_with("error[HV-0156]"), "{late:?}");
    assert_eq!(git(&world.repo(), &["branch", "--list", "harvest/*"]), "");
    world.assert_nothing_left();
}

/// One that knows no planning mode is told to change nothing, and what it changes all the same is thrown away.
#[test]
fn what_is_changed_while_planning_is_thrown_away() {
    let world = World::new();
    world.add_agent("scribbler", "text", &format!("cat > /dev/null; {FIX}; echo x >> scribble; echo I scribble."));
    let ran = world.run(&json!([{}]), &["--agent", "scribbler", "--plan"]);
    assert_eq!(ran.exit, Some(3), "{ran:?}");
    let task = ran.events()[0]["data"]["task_id"].as_str().unwrap().to_owned();
    world.json(&["task", "approve", &task]);
    world.work_off(&[("never", json!([{}]))]);
    let shown = world.json(&["task", "show", &task]);
    assert_eq!(shown["status"], "completed", "{shown:#}");
    assert_eq!(world.show(&format!("{}:scribble", shown["branch"].as_str().unwrap())), "x", "once, not twice");
}

/// The built-in agent has no tool that changes anything while it plans.
#[test]
fn the_built_in_agent_plans_without_tools_that_write() {
    let world = World::new();
    let ran = world.run(&json!([{ "tool": { "name": "bash", "input": { "command": "touch x" } } }]), &["--plan"]);
    let outcome = ran.assert_ended(1, "failed", Some("agent"));
    assert!(outcome["error"].as_str().unwrap().contains("400"), "{outcome:#}");
}
