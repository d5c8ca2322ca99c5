//! Days unattended, compressed: many scripted tasks, something goes wrong with one in twenty, and nobody lends a hand. One worker
//! lives through all of it; its memory and its file handles are watched.
//!
//! `make soak` does ten thousand: `HARVEST_SOAK_TASKS=10000`. The picture goes to `HARVEST_SOAK_PLOT`, else beside the tests. The seed
//! is printed, and `HARVEST_SOAK_SEED` repeats the same faults.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use harvest_core::{FailureReason, TaskStatus};
use harvest_store::{Order, Sqlite, Store, TaskQuery};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::chance::{Random, number};
use crate::plot::{Series, svg};
use crate::support::{Running, World, git};

/// What memory may grow by from the second quarter to the last, in MiB, and how many more handles there may be.
const MEMORY: f64 = 24.0;
const HANDLES: f64 = 24.0;
const LOOK: Duration = Duration::from_millis(200);
const WORK: &str = "echo done > done";

/// What goes wrong from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Killed {
    Agent,
    Sandbox,
    /// A worker beside the one that is watched.
    Worker,
}

/// What a task is like, by its number: of a hundred two meet a model in trouble, one cannot succeed, ten are tested.
fn kind(number: u64) -> &'static str {
    match number % 100 {
        17 => "Refused",
        43 => "Throttled",
        71 => "Hopeless",
        5 | 15 | 25 | 35 | 45 | 55 | 65 | 75 | 85 | 95 => "Tested",
        number if number.is_multiple_of(4) => "Slow",
        _ => "Plain",
    }
}

#[test]
fn days_unattended() {
    let tasks = number("HARVEST_SOAK_TASKS").unwrap_or(300);
    let (mut random, seed) = Random::seeded("HARVEST_SOAK_SEED");
    println!("soak: {tasks} tasks, seed {seed}");
    let world = World::empty();
    crate::support::init(&world.repo());
    world.write("README", "a repository without tests\n");
    world.commit("Start");
    let script = world.conversations(&[
        ("Refused", json!([{ "status": 500, "shell": WORK }, {}])),
        ("Throttled", json!([{ "status": 429, "shell": WORK }, {}])),
        ("Hopeless", json!([{ "shell": "echo nothing of use > other" }, {}])),
        ("Slow", json!([{ "shell": WORK }, { "shell": "sleep 1; echo slept" }, {}])),
        ("", json!([{ "say": "At once.", "shell": WORK }, {}])),
    ]);
    let is_tested = |number: &u64| matches!(kind(*number), "Tested" | "Hopeless");
    import(&world, (0..tasks).filter(is_tested), &["--test", "test -e done"]);
    import(&world, (0..tasks).filter(|number| !is_tested(number)), &[]);
    let mut faults = schedule(tasks, &mut random);
    let steady = worker(&world, &script, "4");
    let mut mortal = worker(&world, &script, "2");
    let mut watch = Watch::new(&world, steady.pid());
    let mut met: BTreeMap<Killed, u64> = BTreeMap::new();
    let deadline = Duration::from_secs(180 + 3 * tasks);
    loop {
        let ended = watch.look();
        if ended == tasks {
            break;
        }
        assert!(watch.begun.elapsed() < deadline, "{ended} of {tasks} ended in {deadline:?}");
        if let Some((_, fault)) = faults.last().filter(|(after, _)| ended >= *after) {
            let has_met = match fault {
                Killed::Agent => kill_one(&mut random, &world.agents().into_keys().collect::<Vec<_>>()),
                Killed::Sandbox => kill_one(&mut random, &world.runners()),
                Killed::Worker => {
                    mortal.signal(Signal::KILL);
                    mortal.finish();
                    mortal = worker(&world, &script, "2");
                    true
                }
            };
            if has_met {
                *met.entry(*fault).or_default() += 1;
                watch.mark();
                faults.pop();
            }
        }
        std::thread::sleep(LOOK);
    }
    let took = watch.begun.elapsed();
    for running in [mortal, steady] {
        running.signal(Signal::TERM);
        let ran = running.finish();
        assert_eq!(ran.exit, Some(0), "{ran:?}");
    }
    let figures = check(&world, tasks);
    let plot = watch.draw(tasks);
    let ((memory, handles), (memory_then, handles_then)) = (watch.level(0.75, 1.0), watch.level(0.25, 0.5));
    println!("soak: {figures}, in {took:.0?}, {:.1} a second", tasks as f64 / took.as_secs_f64());
    println!("soak: killed {met:?}, and a model in trouble in {} tasks; no manual step", models_in_trouble(tasks));
    println!(
        "soak: memory {memory_then:.1} MiB, later {memory:.1} MiB; file handles {handles_then:.0}, later {handles:.0}"
    );
    println!("soak: {}", plot.display());
    assert!(memory - memory_then < MEMORY, "memory grows: {memory_then:.1} MiB, later {memory:.1} MiB");
    assert!(handles - handles_then < HANDLES, "file handles grow: {handles_then:.0}, later {handles:.0}");
    world.assert_nothing_left();
}

fn models_in_trouble(tasks: u64) -> usize {
    (0..tasks).filter(|number| matches!(kind(*number), "Refused" | "Throttled")).count()
}

/// Three of a hundred: agents most often, workers least; at least one of each. The last is due first.
fn schedule(tasks: u64, random: &mut Random) -> Vec<(u64, Killed)> {
    let many = (tasks * 3 / 100).max(3);
    let fault = |number: u64| match number % 10 {
        0 => Killed::Worker,
        1..=3 => Killed::Sandbox,
        _ => Killed::Agent,
    };
    let mut all: Vec<(u64, Killed)> = (0..many).map(|number| (random.below(tasks * 9 / 10), fault(number))).collect();
    all.sort_unstable_by_key(|(after, _)| std::cmp::Reverse(*after));
    all
}

fn import(world: &World, numbers: impl Iterator<Item = u64>, args: &[&str]) {
    let issue = |number: u64| {
        let title = format!("{} task {number}", kind(number));
        json!({ "id": format!("soak-{number}"), "title": title, "status": "open", "priority": 2, "issue_type": "task" })
    };
    let lines: Vec<String> = numbers.map(|number| issue(number).to_string()).collect();
    let file = world.path().join("issues.jsonl");
    fs::write(&file, lines.join("\n")).unwrap();
    let all = ["import", "beads", file.to_str().unwrap(), "--retries", "5", "--json"];
    let imported = world.harvest(&all).args(args).finish();
    assert_eq!(imported.exit, Some(0), "{imported:?}");
}

fn worker(world: &World, script: &std::path::Path, agents: &str) -> Running {
    world.worker(script, &["--agents", agents, "--lease", "10s"]).start()
}

fn kill_one(random: &mut Random, pids: &[u32]) -> bool {
    let Some(pid) = random.one_of(pids) else { return false };
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).is_ok()
}

/// Every task ended once and as it should, every journal is whole, and every branch is there.
fn check(world: &World, tasks: u64) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = Sqlite::open(&world.data().join("harvest.db")).unwrap();
    let (mut completed, mut failed, mut retried, mut events) = (0, 0, 0, 0);
    runtime.block_on(async {
        let mut cursor = None;
        loop {
            let query = TaskQuery { order: Order::OldestFirst, limit: 500, cursor, ..TaskQuery::default() };
            let page = store.tasks(query).await.unwrap();
            for task in page.items {
                let is_hopeless = task.prompt.as_str().starts_with("Hopeless");
                let expected = if is_hopeless {
                    (TaskStatus::Failed, Some(FailureReason::Tests))
                } else {
                    (TaskStatus::Completed, None)
                };
                assert_eq!((task.status, task.reason), expected, "{task:#?}");
                let session = store.task(&task.id).await.unwrap().sessions.remove(0).id;
                let journal = store.events(&session, 0, 100_000).await.unwrap();
                assert!(journal.iter().zip(1..).all(|(event, seq)| event.seq == seq), "{journal:#?}");
                let ends = journal.iter().filter(|event| event.body.kind() == "task.finished").count();
                assert_eq!(ends, 1, "{journal:#?}");
                events += journal.len();
                retried += u64::from(task.tries > 1);
                if is_hopeless { failed += 1 } else { completed += 1 }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
    });
    assert_eq!(completed + failed, tasks);
    let branches = git(&world.repo(), &["branch", "--list", "harvest/*"]).lines().count() as u64;
    assert_eq!(branches, tasks);
    format!(
        "{completed} completed, {failed} that could not, {retried} after another try, {events} events, {branches} branches"
    )
}

/// How a process does, once a look.
struct Watch {
    pid: u32,
    store: Sqlite,
    runtime: tokio::runtime::Runtime,
    begun: Instant,
    memory: Vec<(f64, f64)>,
    handles: Vec<(f64, f64)>,
    ended: Vec<(f64, f64)>,
    marks: Vec<f64>,
}

impl Watch {
    fn new(world: &World, pid: u32) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let store = Sqlite::open(&world.data().join("harvest.db")).unwrap();
        let (memory, handles, ended, marks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { pid, store, runtime, begun: Instant::now(), memory, handles, ended, marks }
    }

    /// How many tasks have ended.
    fn look(&mut self) -> u64 {
        let tasks = self.runtime.block_on(self.store.queue()).unwrap().tasks;
        let ended = ["completed", "failed", "cancelled"].iter().filter_map(|status| tasks.get(*status)).sum();
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kib: f64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
        let handles = fs::read_dir(format!("/proc/{}/fd", self.pid)).unwrap().count();
        let now = self.begun.elapsed().as_secs_f64();
        self.memory.push((now, kib / 1024.0));
        self.handles.push((now, handles as f64));
        self.ended.push((now, ended as f64));
        ended
    }

    fn mark(&mut self) {
        self.marks.push(self.begun.elapsed().as_secs_f64());
    }

    /// The middle of what was seen in a part of the time: memory in MiB, and handles.
    fn level(&self, from: f64, to: f64) -> (f64, f64) {
        let middle = |points: &[(f64, f64)]| {
            let part = |share: f64| (points.len() as f64 * share) as usize;
            let mut values: Vec<f64> = points[part(from)..part(to)].iter().map(|(_, value)| *value).collect();
            values.sort_unstable_by(f64::total_cmp);
            values[values.len() / 2]
        };
        (middle(&self.memory), middle(&self.handles))
    }

    fn draw(&self, tasks: u64) -> PathBuf {
        let beside = || PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("soak.svg");
        let path = std::env::var_os("HARVEST_SOAK_PLOT").map_or_else(beside, PathBuf::from);
        let series = [
            Series { name: "memory of the worker, MiB", points: &self.memory },
            Series { name: "its file handles", points: &self.handles },
            Series { name: "tasks that have ended", points: &self.ended },
        ];
        let title = format!("{tasks} tasks; each line down is a kill -9 of an agent, a sandbox or another worker");
        fs::write(&path, svg(&title, &series, &self.marks)).unwrap();
        path
    }
}
