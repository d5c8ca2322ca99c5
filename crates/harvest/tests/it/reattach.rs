//! Agents outlive their worker: the next one on the same data directory goes on with the same processes.
//!
//! How soon it does is measured by `make bench ARGS=recovery`, with a hundred of them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::killed::journal;
use crate::support::{FIX, Harvest, PATIENCE, World};
use crate::survive::lose_sandboxes;

impl World {
    pub fn add_task(&self, prompt: &str) -> String {
        self.json(&["task", "add", prompt])["id"].as_str().unwrap().to_owned()
    }

    /// No sandbox is made before it is asked for, so that every agent there is has something to do.
    pub fn without_spares(&self) {
        let folder = self.home().join(".config/harvest");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("harvest.toml"), "warm = 0\n").unwrap();
    }

    /// A worker with this model, as people start it.
    pub fn worker(&self, script: &Path, args: &[&str]) -> Harvest {
        self.harvest(&["up", "--json", "--model-script", script.to_str().unwrap()]).args(args)
    }

    /// The processes of agents in this world's sandboxes, by pid, with the time when each started.
    pub fn agents(&self) -> BTreeMap<u32, u64> {
        let started = |pid: &u32| {
            let stat = read_of(*pid, "stat");
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(19)?.parse().ok()).unwrap_or(0)
        };
        let agents = self.inside("/harvest/bin/harvest-builtin");
        agents.into_iter().map(|pid| (pid, started(&pid))).collect()
    }

    /// The runners of this world's sandboxes: with each everything in it ends.
    pub fn runners(&self) -> Vec<u32> {
        self.inside("/harvest/bin/harvest-runner\0run\0")
    }

    /// The processes in this world's sandboxes whose command lines begin like this.
    fn inside(&self, command: &str) -> Vec<u32> {
        let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let own = self.path().to_str().unwrap();
        pids.filter(|pid| read_of(*pid, "cmdline").starts_with(command) && read_of(*pid, "mountinfo").contains(own))
            .collect()
    }
}

fn read_of(pid: u32, name: &str) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default()).into_owned()
}

pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

/// It completed with its fix, and its one agent was taken over so often.
#[track_caller]
fn assert_went_on(world: &World, task: &str, times: usize) -> Vec<Value> {
    let events = journal(world, task);
    let shown = world.json(&["task", "show", task]);
    assert_eq!(shown["status"], "completed", "{shown:#}\n{events:#?}");
    let counts = ["agent.started", "agent.finished", "agent.reattached", "turn.started", "task.finished"]
        .map(|kind| count(&events, kind));
    assert_eq!(counts, [1, 1, times, 1, 1], "{events:#?}");
    assert_eq!(world.show(&format!("{}:src/two.sh", shown["branch"].as_str().unwrap())), "echo two");
    events
}

/// Many at work, each in its own way: in a tool, waiting for an answer, in the middle of one.
#[test]
fn every_live_agent_is_reattached_after_the_restart() {
    let sessions = 8;
    let world = World::new();
    world.without_spares();
    // Until the last of them has begun, and has been taken over, on a machine that is busy with other things.
    let long = 30;
    let (slept, delay) = (format!("{FIX}; sleep {long}; echo slept"), format!("{long}s"));
    let ways = [
        ("By tool", json!([{ "shell": slept }, { "expect": "slept" }])),
        ("By call", json!([{ "shell": FIX }, { "delay": delay, "shell": "echo answered" }, { "expect": "answered" }])),
    ];
    let conversations: Vec<(&str, Value)> = ways.iter().map(|(way, replies)| (*way, replies.clone())).collect();
    let script = world.conversations(&conversations);
    let tasks: Vec<String> =
        (0..sessions).map(|number| world.add_task(&format!("{} number {number}", ways[number % 2].0))).collect();
    let agents = sessions.to_string();
    let worker = || world.worker(&script, &["--until-empty", "--agents", &agents]);
    let running = worker().start();
    let fixed = |task: &String| {
        let events = journal(&world, task);
        // The second answer of those that wait for one is what they wait for.
        count(&events, "tool.call") > 0 && (task_way(&world, task) == "tool" || count(&events, "tool.result") > 0)
    };
    wait_until("all are at work", || tasks.iter().all(fixed));
    let before = world.agents();
    assert_eq!(before.len(), sessions);
    running.signal(Signal::KILL);
    running.finish();
    assert_eq!(world.agents(), before, "the agents have outlived it");
    let mut second = worker().start();
    for _ in 0..sessions {
        second.wait_for_type("taken_over");
    }
    wait_until("all are back", || tasks.iter().all(|task| count(&journal(&world, task), "agent.reattached") == 1));
    assert_eq!(world.agents(), before, "no agent was started again");
    let ran = second.finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    for task in &tasks {
        assert_went_on(&world, task, 1);
    }
    world.assert_nothing_left();
}

fn task_way(world: &World, task: &str) -> String {
    let prompt = world.json(&["task", "show", task])["prompt"].as_str().unwrap().to_owned();
    prompt.split(' ').nth(1).unwrap().to_owned()
}

/// One task whose agent works on while its worker is killed again and again.
#[test]
fn an_agent_goes_on_through_many_workers() {
    let world = World::new();
    world.without_spares();
    let replies: Vec<Value> = (0..8)
        .map(|number| json!({ "say": format!("Step {number}."), "shell": format!("{FIX}; echo {number} >> steps; sleep 1") }))
        .chain([json!({})])
        .collect();
    let script = world.script(&Value::Array(replies));
    let task = world.add_task("Many steps");
    let mut workers = 0;
    loop {
        let running = world.worker(&script, &["--until-empty"]).start();
        let seen = journal(&world, &task).len();
        workers += 1;
        if workers == 5 {
            assert_eq!(running.finish().exit, Some(0));
            break;
        }
        // Each comes a little further.
        wait_until("it goes on", || {
            let events = journal(&world, &task);
            events.len() > seen + 4 && count(&events, "tool.call") >= 2 * workers
        });
        running.signal(Signal::KILL);
        running.finish();
    }
    let events = assert_went_on(&world, &task, 4);
    assert_eq!((count(&events, "tool.call"), count(&events, "tool.result")), (8, 8));
    let branch = world.json(&["task", "show", &task])["branch"].as_str().unwrap().to_owned();
    assert_eq!(world.show(&format!("{branch}:steps")), "0\n1\n2\n3\n4\n5\n6\n7");
    world.assert_nothing_left();
}

/// A new program takes over from the old, which was told to leave its agents.
#[test]
fn an_upgrade_in_place_keeps_the_agents() {
    let world = World::new();
    world.without_spares();
    let script = world.script(&json!([{ "shell": format!("{FIX}; sleep 4") }, {}]));
    let task = world.add_task("Mend it");
    let mut old = world.worker(&script, &["--keep-agents"]).start();
    old.wait_for_type("started");
    wait_until("it works", || count(&journal(&world, &task), "tool.call") == 1);
    let before = world.agents();
    old.signal(Signal::TERM);
    let left = old.finish();
    assert_eq!(left.exit, Some(0), "{left:?}");
    assert_eq!(world.agents(), before);
    // Looking does no harm.
    assert_eq!(world.json(&["task", "show", &task])["status"], "running");
    assert_eq!(world.agents(), before);
    let new: PathBuf = world.path().join("harvest-next");
    // By another process: a child that another test starts meanwhile would hold the file open for writing, and so keep it busy.
    let copied = std::process::Command::new("cp").arg(env!("CARGO_BIN_EXE_harvest")).arg(&new).status().unwrap();
    assert!(copied.success());
    let mut next = world.worker(&script, &["--until-empty"]);
    next.command = again_as(&new, &next.command);
    let mut next = next.start();
    next.wait_for_type("taken_over");
    assert_eq!(world.agents(), before);
    assert_eq!(next.finish().exit, Some(0));
    assert_went_on(&world, &task, 1);
    world.assert_nothing_left();
}

/// The same command with another program.
fn again_as(program: &Path, command: &std::process::Command) -> std::process::Command {
    let mut again = std::process::Command::new(program);
    again
        .env_clear()
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        again.current_dir(folder);
    }
    again
}

/// Two workers on one data directory: who lives takes over from who died, without being restarted.
#[test]
fn a_living_worker_takes_over_from_a_dead_one() {
    let world = World::new();
    world.without_spares();
    let script = world.script(&json!([{ "shell": format!("{FIX}; sleep 6") }, {}]));
    let task = world.add_task("Mend it");
    let mut first = world.worker(&script, &["--lease", "3s"]).start();
    first.wait_for_type("started");
    let mut second = world.worker(&script, &["--lease", "3s"]).start();
    wait_until("it works", || count(&journal(&world, &task), "tool.call") == 1);
    let before = world.agents();
    first.signal(Signal::KILL);
    first.finish();
    second.wait_for_type("taken_over");
    assert_eq!(world.agents(), before);
    second.wait_for_type("finished");
    assert_went_on(&world, &task, 1);
    second.signal(Signal::TERM);
    assert_eq!(second.finish().exit, Some(0));
    world.assert_nothing_left();
}

/// Whoever does not want a worker again can still end what one has left.
#[test]
fn a_task_that_was_left_can_be_cancelled_without_a_worker() {
    let world = World::new();
    world.without_spares();
    let script = world.script(&json!([{ "shell": FIX }, { "shell": "sleep 987654" }]));
    let task = world.add_task("Mend it");
    let running = world.worker(&script, &[]).start();
    wait_until("it works", || count(&journal(&world, &task), "tool.call") == 2);
    running.signal(Signal::KILL);
    running.finish();
    let list = world.harvest(&["task", "list"]).finish();
    assert!(list.stderr.contains("1 agent of a worker that was killed is still running"), "{list:?}");
    assert_eq!(world.json(&["task", "cancel", &task])["status"], "cancelled");
    world.assert_nothing_left();
}

/// Written down, and then not started: whoever takes over starts it, in the same place.
#[cfg(feature = "failpoints")]
#[test]
fn an_agent_that_was_written_down_and_not_started_is_started_by_the_next_worker() {
    use std::os::unix::process::ExitStatusExt;
    let world = World::new();
    world.without_spares();
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let task = world.add_task("Mend it");
    let worker = || world.worker(&script, &["--until-empty"]);
    let crashed = worker().env("HARVEST_FAILPOINTS", "execute::recorded=return(crash)").finish();
    assert_eq!(crashed.status.signal(), Some(6), "{crashed:?}");
    assert_eq!((world.runners().len(), world.agents().len()), (1, 0));
    let ran = worker().finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert_went_on(&world, &task, 1);
    world.assert_nothing_left();
}

/// A worker is killed while its agent works: what the model says, and the task.
fn left_at_work(world: &World) -> (PathBuf, String) {
    world.without_spares();
    let script = world.script(&json!([{ "shell": format!("{FIX}; sleep 3") }, {}]));
    let task = world.add_task("Mend it");
    let running = world.worker(&script, &[]).start();
    wait_until("it works", || count(&journal(world, &task), "tool.call") == 1);
    running.signal(Signal::KILL);
    running.finish();
    (script, task)
}

/// A git that is killed leaves its locks. They are in nobody's way, whether the agent has lived on or not.
#[test]
fn locks_of_a_killed_git_lock_nothing() {
    for lives_on in [true, false] {
        let world = World::new();
        let (script, task) = left_at_work(&world);
        if !lives_on {
            assert_eq!(lose_sandboxes(&world), 1);
        }
        let shown = world.json(&["task", "show", &task]);
        let session = shown["sessions"][0]["id"].as_str().unwrap();
        let repository = world.data().join(format!("sessions/{session}/repository.git"));
        let branch = shown["sessions"][0]["branch"].as_str().unwrap();
        for name in [&format!("refs/heads/{branch}.lock"), "packed-refs.lock", "config.lock", "shallow.lock"] {
            let lock = repository.join(name);
            fs::create_dir_all(lock.parent().unwrap()).unwrap();
            fs::write(&lock, "").unwrap();
            // As git would have made them, which is not run by us.
            let owner = fs::metadata(repository.join("refs")).unwrap();
            for path in [lock.as_path(), lock.parent().unwrap()] {
                std::os::unix::fs::chown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
            }
        }
        let ran = world.worker(&script, &["--until-empty"]).finish();
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        let shown = world.json(&["task", "show", &task]);
        assert_eq!(shown["status"], "completed", "{lives_on}: {shown:#}\n{:#?}", journal(&world, &task));
        assert_eq!(world.show(&format!("{}:src/two.sh", shown["branch"].as_str().unwrap())), "echo two");
        world.assert_nothing_left();
    }
}

/// Crashes of the one who takes over, too.
#[cfg(feature = "failpoints")]
#[test]
fn a_crash_while_taking_over_is_recovered_from() {
    use std::os::unix::process::ExitStatusExt;
    for name in harvest_engine::failpoint::REATTACH {
        let world = World::new();
        world.without_spares();
        let (script, task) = left_at_work(&world);
        let before = world.agents();
        let crash = format!("{name}=return(crash)");
        let crashed = world.worker(&script, &["--until-empty"]).env("HARVEST_FAILPOINTS", &crash).finish();
        assert_eq!(crashed.status.signal(), Some(6), "{name}: {crashed:?}");
        assert_eq!(world.agents(), before, "{name}");
        assert_eq!(world.worker(&script, &["--until-empty"]).finish().exit, Some(0), "{name}");
        let expected = if *name == "reattach::attached" { 2 } else { 1 };
        assert_went_on(&world, &task, expected);
        world.assert_nothing_left();
    }
}
