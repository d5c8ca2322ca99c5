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
    let logs = world.harvest(&["task", "logs", task]).finish().stdout;
    let (_, after) = logs.split_once(", who edited the plan:\n").expect("the logs tell that the plan was edited");
    assert!(after.trim_start().starts_with("Mend two.sh and write it down in NOTES."), "{logs}");
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
    let again = world.harvest(&["task", "reject", &task, "--comment", "Leave the database alone"]).finish();
    assert!(again.stdout.contains(" will make a new plan; run it with `harvest up`"), "{again:?}");
    assert_eq!(world.status_of(&task), "pending");
    world.work_off(&conversations);
    let journal = world.journal(&task);
    let plans: Vec<_> = of_type(&journal, "plan.proposed").iter().map(|plan| &plan["text"]).collect();
    assert_eq!(plans, ["I would drop tables.", "Only two.sh, then."]);
    assert_eq!(world.json(&["task", "reject", &task])["status"], "cancelled");
    let shown = world.json(&["task", "show", &task]);
    assert_eq!(shown["error"], "what it proposed was rejected");
    let late = world.harvest(&["task", "approve", &task]).finish();
    assert!(late.exit == Some(2) && late.stderr.starts_with("error[HV-0156]"), "{late:?}");
    // A follow-up needs a plan as well: none was ever approved.
    world.json(&["session", "prompt", &task, "Make a plan for one.sh"]);
    world.work_off(&conversations);
    assert_eq!(world.json(&["task", "show", &task])["status"], "awaiting_approval");
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
    let task = outcome["task_id"].as_str().unwrap();
    let session = world.harvest(&["session", "show", task]).finish().stdout;
    assert!(session.contains("no changes") && !session.contains("branch"), "{session}");
    let diff = world.harvest(&["task", "diff", task]).finish();
    assert_eq!((diff.stdout.as_str(), diff.stderr.as_str()), ("", "note: the task has no changes\n"));
}

#[test]
fn another_agent_says_what_is_wrong_with_a_plan() {
    let world = World::new();
    // Of one that speaks in lines it is all of them.
    world.add_agent("critic", "text", "grep -q 'I would mend two.sh' && echo The plan && echo has no test.");
    let said = "The plan\nhas no test.";
    let script = world.conversations(&[("Make a plan", json!([{ "say": "I would mend two.sh." }]))]);
    let args = ["run", "Make the failing test pass", "--plan", "--review-plan", "critic", "--json", "--model-script"];
    let ran = world.harvest(&args).args(&[&script]).finish();
    assert_eq!(ran.exit, Some(3), "{ran:?}");
    let reviewed = ran.of_type("plan.reviewed");
    assert_eq!(reviewed, [json!({ "agent": "critic", "text": said })]);
    let task = ran.events()[0]["data"]["task_id"].as_str().unwrap().to_owned();
    let text = world.harvest(&["task", "show", &task]).finish().stdout;
    assert!(
        text.contains("I would mend two.sh.") && text.contains("Review by critic") && text.contains("has no test."),
        "{text}"
    );
    world.json(&["task", "approve", &task]);
    world.work_off(&[("The plan for it is approved", json!([{ "shell": FIX }, {}]))]);
    assert_eq!(world.json(&["task", "show", &task])["status"], "completed");
    world.assert_nothing_left();
}

/// Someone who has nothing to say keeps nobody from deciding.
#[test]
fn a_review_that_fails_is_told_and_the_plan_waits_all_the_same() {
    let world = World::new();
    world.add_agent("critic", "text", "exit 3");
    let script = world.conversations(&[("Make a plan", json!([{ "say": "I would mend two.sh." }]))]);
    let args = ["run", "Make the failing test pass", "--plan", "--review-plan", "critic", "--json", "--model-script"];
    let ran = world.harvest(&args).args(&[&script]).finish();
    assert_eq!(ran.exit, Some(3), "{ran:?}");
    assert!(ran.of_type("plan.reviewed").is_empty() && ran.of_type("plan.proposed").len() == 1);
    assert!(ran.stdout.contains("the plan is not reviewed"), "{}", ran.stdout);
    let unknown = world.run(&json!([{}]), &["--plan", "--review-plan", "nobody"]);
    assert!(unknown.exit == Some(2) && unknown.stderr.starts_with("error[HV-0121]"), "{unknown:?}");
}

#[test]
fn a_plan_can_be_a_branch_of_its_own_before_it_is_carried_out() {
    let world = World::new();
    let script = world.conversations(&[
        ("Make a plan", json!([{ "expect": "two.sh prints three", "say": "Mend two.sh." }])),
        ("Look around", json!([{ "tool": { "name": "read", "input": { "path": "src/two.sh" } } }, { "say": "two.sh prints three." }])),
    ]);
    let args =
        ["run", "Make the failing test pass", "--workflow", "research-plan-implement", "--json", "--model-script"];
    let ran = world.harvest(&args).args(&[&script]).finish();
    assert_eq!(ran.exit, Some(3), "{ran:?}");
    let delivered = ran.of_type("branch.delivered");
    let branch = delivered[0]["branch"].as_str().unwrap();
    assert!(branch.starts_with("harvest/plan-make-the-failing-test-pass-"), "{branch}");
    assert_eq!(world.show(&format!("{branch}:PLAN.md")), "Mend two.sh.");
    assert_eq!(git(&world.repo(), &["log", "-1", "--format=%s", branch]), "[PLAN] Make the failing test pass");
    assert_eq!(git(&world.repo(), &["diff", "--name-only", "main", branch]), "PLAN.md");
    let task = ran.events()[0]["data"]["task_id"].as_str().unwrap().to_owned();
    // Another plan takes its place, and the work gets a branch of its own.
    world.json(&["task", "reject", &task, "--comment", "Say why"]);
    world.work_off(&[
        ("Make a plan", json!([{ "expect": "Say why", "say": "Mend two.sh, since it prints three." }])),
        ("Look around", json!([{ "say": "two.sh prints three." }])),
    ]);
    assert_eq!(world.show(&format!("{branch}:PLAN.md")), "Mend two.sh, since it prints three.");
    world.json(&["task", "approve", &task]);
    world.work_off(&[("The plan for it is approved", json!([{ "shell": FIX }, {}]))]);
    let done = world.json(&["task", "show", &task]);
    assert_eq!(done["status"], "completed", "{done:#}");
    let own = done["branch"].as_str().unwrap();
    assert!(own != branch && git(&world.repo(), &["diff", "--name-only", "main", own]) == "src/two.sh", "{own}");
    world.assert_nothing_left();
}
