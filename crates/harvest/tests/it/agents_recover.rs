//! The real agents when their worker dies in the middle of an answer, when they are interrupted, and against each other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agents_survive::{AIDER, CLAUDE_CODE, CODEX, Cli, GEMINI_CLI, OPENCODE, aider};
use crate::killed::journal;
use crate::reattach::wait_until;
use crate::support::{FIX, Harvest, PATH, Running, World};

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

/// A model that gives these replies to the prompt, and is brief with all else.
fn script(world: &World, replies: &Value) -> PathBuf {
    let conversations = json!([
        { "when_prompt_contains": "failing test", "replies": replies },
        { "replies": [{ "say": "Yes." }] },
    ]);
    let path = world.path().join("script.json");
    std::fs::write(&path, json!({ "model": "gpt-5", "conversations": conversations }).to_string()).unwrap();
    path
}

/// A worker that finds these agents.
fn worker(world: &World, bin: &Path, script: &Path, args: &[&str]) -> Harvest {
    world.worker(script, args).env("PATH", &format!("{}:{PATH}", bin.display()))
}

fn add(world: &World, bin: &Path, args: &[&str]) -> Value {
    let all = [&["task", "add", "Make the failing test pass", "--json"], args].concat();
    let added = world.harvest(&all).env("PATH", &format!("{}:{PATH}", bin.display())).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    serde_json::from_str(&added.stdout).unwrap()
}

/// The worker is killed, and another goes on.
fn completed_by_another(world: &World, running: Running, another: Harvest, task: &str) -> (Value, Vec<Value>) {
    running.signal(Signal::KILL);
    running.finish();
    let ran = another.finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let (shown, events) = (world.json(&["task", "show", task]), journal(world, task));
    assert_eq!(shown["status"], "completed", "{shown:#}\n{events:#?}");
    (shown, events)
}

/// kill -9 of the worker while the model is in the middle of an answer.
fn killed_in_an_answer(cli: Cli, args: &[&str]) -> (World, Value, Vec<Value>) {
    let world = World::new();
    world.without_spares();
    let bin = cli.installed(&world);
    // Some give up on a model that says the same again and again.
    let long: String = (0..30).map(|number| format!("This is thought {number}. ")).collect();
    let replies = json!([
        { "shell": FIX },
        { "say": long, "chunk_delay": "150ms", "shell": "echo later > later" },
        { "say": "Done." },
    ]);
    let script = script(&world, &replies);
    let task = add(&world, &bin, &[&["--agent", cli.id], args].concat())["id"].as_str().unwrap().to_owned();
    let running = worker(&world, &bin, &script, &[]).start();
    wait_until("its first call", || count(&journal(&world, &task), "tool.result") == 1);
    // In the middle of the second answer, which takes seconds.
    std::thread::sleep(Duration::from_secs(2));
    let (shown, events) =
        completed_by_another(&world, running, worker(&world, &bin, &script, &["--until-empty"]), &task);
    let branch = shown["branch"].as_str().unwrap();
    assert_eq!(
        (world.show(&format!("{branch}:src/two.sh")), world.show(&format!("{branch}:later"))),
        ("echo two".into(), "later".into())
    );
    world.assert_nothing_left();
    (world, shown, events)
}

/// The agent asks again, and finishes.
fn outlives_its_worker(cli: Cli) {
    let (_, _, events) = killed_in_an_answer(cli, &[]);
    assert_eq!(["agent.started", "agent.reattached", "task.finished"].map(|kind| count(&events, kind)), [1, 1, 1]);
}

/// The agent gives up, which is no end of its task: it is tried again and goes on with what was there.
fn gives_up_and_is_tried_again(cli: Cli) {
    let (_, shown, events) = killed_in_an_answer(cli, &["--retries", "1"]);
    assert_eq!(["agent.reattached", "task.retried", "task.finished"].map(|kind| count(&events, kind)), [1, 1, 1]);
    let retried = events.iter().find(|event| event["type"] == "task.retried").unwrap();
    assert_eq!((&retried["data"]["reason"], &shown["tries"]), (&json!("agent"), &json!(2)), "{retried:#}");
}

/// Interrupted in a tool call and resumed by a word: it goes on with its own conversation.
fn resumes_its_own_conversation(cli: Cli) {
    let world = World::new();
    world.without_spares();
    let bin = cli.installed(&world);
    let replies = json!([
        { "say": "First the fix.", "shell": FIX },
        { "say": "Then a long look.", "shell": "sleep 600" },
        // One that had to begin anew would be told to sleep again. Some put a word of their own between.
        { "expect": "leave the rest", "shell": "echo known > known" },
        { "shell": "echo known > known" },
        { "say": "Done." },
    ]);
    let script = script(&world, &replies);
    let task = add(&world, &bin, &["--agent", cli.id])["id"].as_str().unwrap().to_owned();
    let mut running = worker(&world, &bin, &script, &[]).start();
    wait_until("its second call", || count(&journal(&world, &task), "tool.call") == 2);
    assert_eq!(world.json(&["interrupt", &task])["status"], "interrupted");
    let before = journal(&world, &task);
    assert_eq!((count(&before, "conversation.kept"), count(&before, "session.interrupted")), (1, 1), "{before:#?}");
    world.json(&["session", "resume", &task, "Go on, and leave the rest"]);
    running.wait_for("its end", |notice| notice["type"] == "finished");
    let (shown, events) = (world.json(&["task", "show", &task]), journal(&world, &task));
    assert_eq!(shown["status"], "completed", "{shown:#}\n{events:#?}");
    assert_eq!(world.show(&format!("{}:known", shown["branch"].as_str().unwrap())), "known");
    running.signal(Signal::TERM);
    assert_eq!(running.finish().exit, Some(0));
    world.assert_nothing_left();
}

macro_rules! recovery {
    ($($module:ident: $($name:ident = $check:ident($cli:expr)),*;)*) => {$(
        mod $module {
            use super::*;
            $(
                #[test]
                #[ignore = "needs the network"]
                fn $name() {
                    $check($cli);
                }
            )*
        }
    )*};
}

recovery! {
    claude_code: its_worker_is_killed_in_the_middle_of_an_answer = outlives_its_worker(CLAUDE_CODE),
        interrupted_and_resumed = resumes_its_own_conversation(CLAUDE_CODE);
    codex: its_worker_is_killed_in_the_middle_of_an_answer = outlives_its_worker(CODEX),
        interrupted_and_resumed = resumes_its_own_conversation(CODEX);
    // It does not ask again when an answer is cut off.
    gemini_cli: its_worker_is_killed_in_the_middle_of_an_answer = gives_up_and_is_tried_again(GEMINI_CLI),
        interrupted_and_resumed = resumes_its_own_conversation(GEMINI_CLI);
    // It tells of a call when that has ended, so there is no moment in one to be seen.
    opencode: its_worker_is_killed_in_the_middle_of_an_answer = outlives_its_worker(OPENCODE);
}

/// It says little of what it does, and asks again.
#[test]
#[ignore = "needs the network"]
fn the_worker_of_aider_is_killed_in_the_middle_of_an_answer() {
    let world = World::new();
    world.without_spares();
    let bin = AIDER.installed(&world);
    let long = "So this is what I will do now.\n".repeat(40);
    let mended = aider::edit("src/two.sh", "echo three\n", "echo two");
    let reply = json!({ "say": format!("{long}\n\n{mended}"), "chunk_delay": "100ms" });
    let script = PathBuf::from(aider::script(&world, "script", &reply));
    let task = add(&world, &bin, &["--agent", "aider"])["id"].as_str().unwrap().to_owned();
    let running = worker(&world, &bin, &script, &[]).start();
    wait_until("its first words", || {
        journal(&world, &task)
            .iter()
            .any(|event| event["data"]["text"].as_str().is_some_and(|text| text.contains("what I will do now")))
    });
    let (shown, events) =
        completed_by_another(&world, running, worker(&world, &bin, &script, &["--until-empty"]), &task);
    assert_eq!(["agent.started", "agent.reattached", "task.finished"].map(|kind| count(&events, kind)), [1, 1, 1]);
    assert_eq!(world.show(&format!("{}:src/two.sh", shown["branch"].as_str().unwrap())), "echo two");
    world.assert_nothing_left();
}

#[test]
#[ignore = "needs the network"]
fn a_race_of_three_real_agents() {
    let world = World::new();
    world.without_spares();
    let bin = [CLAUDE_CODE, CODEX].map(|cli| cli.installed(&world))[0].clone();
    let script = script(&world, &json!([{ "shell": FIX }, { "say": "Done." }]));
    let added = add(&world, &bin, &["--race", "claude-code,codex,builtin", "--judged-by", "time"]);
    let race = added["settings"]["race"]["id"].as_str().unwrap();
    let ran = worker(&world, &bin, &script, &["--until-empty", "--agents", "3"]).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let shown = world.json(&["race", "show", race]);
    println!("{}", world.harvest(&["race", "show", race]).finish().stdout);
    let items = shown["items"].as_array().unwrap();
    let of = |status: &str| items.iter().filter(|item| item["status"] == status).count();
    assert_eq!((of("completed"), of("cancelled")), (1, 2), "{shown:#}");
    let winner = shown["winner"].as_str().unwrap();
    let decided = journal(&world, winner);
    let verdict: harvest_core::Timestamp =
        decided.iter().find(|event| event["type"] == "race.decided").unwrap()["at"].as_str().unwrap().parse().unwrap();
    for item in items.iter().filter(|item| item["task_id"] != winner) {
        let events = journal(&world, item["task_id"].as_str().unwrap());
        let over: harvest_core::Timestamp = events.last().unwrap()["at"].as_str().unwrap().parse().unwrap();
        println!("{} was gone {} ms after the verdict", item["agent"], over.duration_since(verdict).as_millis());
    }
    world.assert_nothing_left();
}
