//! Work that was cut off is kept: another try, or another worker, begins with it.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::killed::journal;
use crate::reattach::wait_until;
use crate::support::{FIX, World};
use crate::survive::lose_sandboxes;

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

#[track_caller]
fn assert_completed(world: &World, task: &str) -> (String, Vec<Value>) {
    let (shown, events) = (world.json(&["task", "show", task]), journal(world, task));
    assert_eq!(shown["status"], "completed", "{shown:#}\n{events:#?}");
    (shown["branch"].as_str().unwrap().to_owned(), events)
}

/// Asks its model once and never again: reads a streamed answer, and gives up when that is cut.
const ASK_ONCE: &str = r#"python3 -c '
import json, sys, urllib.request
question = {"model": "gpt-5", "stream": True, "messages": [{"role": "user", "content": "Which way?"}]}
request = urllib.request.Request(sys.argv[1] + "/v1/chat/completions", json.dumps(question).encode(), {"content-type": "application/json"})
answer = urllib.request.urlopen(request)
answer.readline()
print("It answers.", flush=True)
for line in answer:
    if b"[DONE]" in line: sys.exit(0)
sys.exit("the answer was cut off")
' {base_url}"#;

/// What such an agent has done is not lost with the answer.
#[test]
fn a_worker_killed_in_the_middle_of_an_answer_costs_no_work_of_an_agent_that_does_not_ask_again() {
    let world = World::new();
    world.without_spares();
    let second = format!("[ -e begun ] && {{ cat begun > found; {FIX}; echo Done.; exit 0; }}");
    world.add_agent("asks-once", "text", &format!("{second}\necho first > begun\n{ASK_ONCE}"));
    let long = "So this is what I will do now. ".repeat(40);
    let conversations = json!([{ "without_tools": true, "replies": [{ "say": long, "chunk_delay": "150ms" }] }]);
    let script = world.path().join("script.json");
    std::fs::write(&script, json!({ "conversations": conversations }).to_string()).unwrap();
    let added = world.json(&["task", "add", "Mend it", "--agent", "asks-once", "--retries", "1"]);
    let task = added["id"].as_str().unwrap();
    let running = world.worker(&script, &[]).start();
    wait_until("the answer has begun", || count(&journal(&world, task), "message") == 1);
    running.signal(Signal::KILL);
    running.finish();
    let ran = world.worker(&script, &["--until-empty"]).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let (branch, events) = assert_completed(&world, task);
    let counts = ["agent.started", "agent.reattached", "task.retried", "task.finished"];
    assert_eq!(counts.map(|kind| count(&events, kind)), [2, 1, 1, 1], "{events:#?}");
    assert_eq!(world.show(&format!("{branch}:begun")), "first");
    assert_eq!(world.show(&format!("{branch}:found")), "first");
    assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two");
    world.assert_nothing_left();
}

/// By itself, and then because someone asks for it.
#[test]
fn every_try_goes_on_with_what_the_one_before_left() {
    let world = World::new();
    world.without_spares();
    let third = format!("if [ $(wc -l < tries) = 3 ]; then {FIX}; echo Done.; else echo No.; exit 1; fi");
    world.add_agent("fails-twice", "text", &format!("echo tried >> tries; {third}"));
    let script = world.script(&json!([{}]));
    let added = world.json(&["task", "add", "Mend it", "--agent", "fails-twice", "--retries", "1"]);
    let task = added["id"].as_str().unwrap();
    assert_eq!(world.worker(&script, &["--until-empty"]).finish().exit, Some(0));
    let shown = world.json(&["task", "show", task]);
    assert_eq!((&shown["status"], &shown["reason"]), (&json!("failed"), &json!("agent")), "{shown:#}");
    assert_eq!(world.show(&format!("{}:tries", shown["branch"].as_str().unwrap())), "tried\ntried");
    world.json(&["task", "retry", task]);
    assert_eq!(world.worker(&script, &["--until-empty"]).finish().exit, Some(0));
    let (branch, events) = assert_completed(&world, task);
    assert_eq!(world.show(&format!("{branch}:tries")), "tried\ntried\ntried");
    // What is changed is told once.
    let changed = |path: &str| events.iter().filter(|event| event["data"]["path"] == path).count();
    assert_eq!((changed("src/two.sh"), changed("tries")), (1, 3), "{events:#?}");
    world.assert_nothing_left();
}

/// The machine went down, so to say: neither the worker nor the sandbox is left.
#[test]
fn what_a_lost_worker_and_its_lost_sandbox_have_left_is_gone_on_with() {
    let world = World::new();
    world.without_spares();
    let script = world.conversations(&[
        ("You have begun already", json!([{ "shell": "echo second >> steps" }, { "say": "Done." }])),
        ("Mend it", json!([{ "say": "First the fix.", "shell": format!("{FIX}; echo first > steps") }, { "shell": "sleep 987654" }])),
    ]);
    let task = world.add_task("Mend it");
    let running = world.worker(&script, &[]).start();
    wait_until("it is checkpointed", || count(&journal(&world, &task), "checkpoint.created") == 1);
    running.signal(Signal::KILL);
    running.finish();
    assert!(lose_sandboxes(&world) > 0);
    let ran = world.worker(&script, &["--until-empty"]).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let (branch, events) = assert_completed(&world, &task);
    assert_eq!(world.show(&format!("{branch}:steps")), "first\nsecond");
    assert_eq!(["agent.started", "agent.reattached"].map(|kind| count(&events, kind)), [2, 0], "{events:#?}");
    let told =
        |event: &&Value| event["data"]["message"].as_str().is_some_and(|text| text.contains("its worker was lost"));
    assert_eq!(events.iter().filter(told).count(), 1, "{events:#?}");
    world.assert_nothing_left();
}
