//! A worker with live sessions that is killed at random moments, again and again, and the outcome compared with what was asked.
//!
//! `make torture` does it hundreds of times: `HARVEST_TORTURE_KILLS=500`. The seed is printed, and `HARVEST_TORTURE_SEED` repeats
//! the same sequence of faults.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::chance::{Random, number};
use crate::cluster::{self, Cluster};
use crate::faults::{Disk, faketime};
use crate::killed::journal;
use crate::support::{FIX, Harvest, Running, World, git};

const STEPS: usize = 5;

/// What happens to the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill,
    /// Right after it was started, while it puts right what the one before left.
    KillEarly,
    /// It sleeps for longer than its leases, and dies in its sleep.
    Sleep,
    /// It sleeps for longer than its leases, wakes up, and dies a little later.
    Nap,
    /// Its model refuses every answer at first.
    Outage,
    /// A sandbox vanishes, then the worker.
    LoseSandbox,
    /// It is asked to leave its agents, and does.
    Leave,
    /// Its clock is hours ahead of the others', or behind.
    Clock,
    /// The disk is full for a while, and the worker may die of something else meanwhile.
    FullDisk,
    /// Nothing can be written when it starts.
    ReadOnly,
    /// The database is gone for a while, and the worker may die meanwhile.
    NoDatabase,
}

fn fault(random: &mut Random) -> Fault {
    match random.below(20) {
        0..3 => Fault::KillEarly,
        3 => Fault::Sleep,
        4 => Fault::Nap,
        5 => Fault::LoseSandbox,
        6..8 => Fault::Leave,
        8..10 => Fault::Outage,
        10 => Fault::Clock,
        _ => Fault::Kill,
    }
}

#[test]
fn killed_again_and_again_it_loses_nothing() {
    let kills = number("HARVEST_TORTURE_KILLS").unwrap_or(20);
    let (mut random, seed) = Random::seeded("HARVEST_TORTURE_SEED");
    println!("torture: seed {seed}, {kills} faults");
    let world = World::new();
    let agents = if kills > 50 { 24 } else { 6 };
    let script = world.script(&steps(None));
    let troubled = world.script_file("troubled.yaml", &steps(Some(503)));
    let clock = faketime();
    let mut tasks: Vec<String> = Vec::new();
    let mut faults = Faults::new();
    let begun = Instant::now();
    for round in 0..kills {
        ask_for_more(&world, &mut tasks, agents, &[]);
        let mut fault = fault(&mut random);
        let mut worker = worker(&world, if fault == Fault::Outage { &troubled } else { &script }, agents);
        match (&clock, fault) {
            (Some(library), Fault::Clock) => {
                let offset = ["+5h", "-5h"][random.below(2) as usize];
                worker = worker.env("LD_PRELOAD", library.to_str().unwrap()).env("FAKETIME", offset);
                worker = worker.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            }
            (None, Fault::Clock) => fault = Fault::Kill,
            _ => {}
        }
        let running = worker.start();
        match fault {
            Fault::KillEarly => std::thread::sleep(random.millis(0, 300)),
            _ => std::thread::sleep(random.millis(200, 1700)),
        }
        match fault {
            Fault::Kill | Fault::KillEarly | Fault::Outage | Fault::Clock => running.signal(Signal::KILL),
            Fault::Sleep => {
                running.signal(Signal::STOP);
                std::thread::sleep(Duration::from_secs(4));
                running.signal(Signal::KILL);
            }
            Fault::Nap => {
                running.signal(Signal::STOP);
                std::thread::sleep(Duration::from_secs(4));
                running.signal(Signal::CONT);
                std::thread::sleep(random.millis(0, 1000));
                running.signal(Signal::KILL);
            }
            Fault::LoseSandbox => {
                if !lose_one(&world, &mut random) {
                    fault = Fault::Kill;
                }
                std::thread::sleep(random.millis(0, 500));
                running.signal(Signal::KILL);
            }
            Fault::Leave => running.signal(Signal::TERM),
            Fault::FullDisk | Fault::ReadOnly | Fault::NoDatabase => unreachable!("these have tests of their own"),
        }
        running.finish();
        *faults.entry(fault).or_default() += 1;
        if (round + 1) % 25 == 0 {
            println!("torture: {} faults, {} tasks, {:?}", round + 1, tasks.len(), begun.elapsed());
        }
    }
    finish(&world, &script, agents, &tasks, (&faults, begun));
    world.assert_nothing_left();
}

/// How often each has happened.
type Faults = BTreeMap<Fault, u64>;

/// Faults of what is around the worker take longer, so there are fewer.
fn around() -> u64 {
    number("HARVEST_TORTURE_KILLS").map_or(6, |kills| (kills / 5).max(1))
}

/// The worker dies with it, or lives on and is told to leave later.
fn end_somehow(running: Running, random: &mut Random) {
    running.signal(if random.below(2) == 0 { Signal::KILL } else { Signal::TERM });
    running.finish();
}

#[test]
fn on_a_disk_that_fills_and_turns_read_only_it_loses_nothing() {
    let (mut random, seed) = Random::seeded("HARVEST_TORTURE_SEED");
    println!("torture: seed {seed}, {} faults of the disk", around());
    let world = World::new();
    let Some(disk) = Disk::at(world.data()) else { return harvest_testing::skip(crate::faults::CANNOT_MOUNT) };
    let (agents, script) = (4, world.script(&patient_steps()));
    let (mut tasks, mut faults, begun) = (Vec::new(), Faults::new(), Instant::now());
    for _ in 0..around() {
        // What a sandbox could not write may fail a try.
        ask_for_more(&world, &mut tasks, agents, &["--retries", "3"]);
        // Not while an agent of the worker before has a file open there.
        let fault = if disk.mount(&["-o", "remount,ro"]) { Fault::ReadOnly } else { Fault::FullDisk };
        if fault == Fault::ReadOnly {
            let refused = worker(&world, &script, agents).finish();
            assert!(refused.exit.is_some_and(|exit| exit != 0), "{refused:?}");
            assert!(disk.mount(&["-o", "remount,rw"]));
            *faults.entry(fault).or_default() += 1;
        }
        let running = worker(&world, &script, agents).start();
        std::thread::sleep(random.millis(200, 2500));
        disk.fill();
        std::thread::sleep(random.millis(100, 2000));
        let dies_full = random.below(2) == 0;
        if dies_full {
            running.signal(Signal::KILL);
        }
        disk.make_room();
        if !dies_full {
            std::thread::sleep(random.millis(0, 1500));
        }
        end_somehow(running, &mut random);
        *faults.entry(Fault::FullDisk).or_default() += 1;
    }
    finish(&world, &script, agents, &tasks, (&faults, begun));
    disk.assert_nothing_left(&world);
}

#[test]
fn with_a_database_that_goes_away_it_loses_nothing() {
    let Some(cluster) = Cluster::private() else { return harvest_testing::skip(cluster::WITHOUT) };
    let (mut random, seed) = Random::seeded("HARVEST_TORTURE_SEED");
    println!("torture: seed {seed}, {} faults of the database", around());
    let world = World::new().on_database(cluster.url("postgres"));
    let (agents, script) = (4, world.script(&steps(None)));
    let (mut tasks, mut faults, begun) = (Vec::new(), Faults::new(), Instant::now());
    for _ in 0..around() {
        ask_for_more(&world, &mut tasks, agents, &[]);
        let running = worker(&world, &script, agents).start();
        std::thread::sleep(random.millis(200, 2500));
        cluster.down();
        std::thread::sleep(random.millis(0, 2000));
        let dies_alone = random.below(2) == 0;
        if dies_alone {
            running.signal(Signal::KILL);
        }
        cluster.up();
        if !dies_alone {
            std::thread::sleep(random.millis(0, 2500));
        }
        end_somehow(running, &mut random);
        *faults.entry(Fault::NoDatabase).or_default() += 1;
    }
    finish(&world, &script, agents, &tasks, (&faults, begun));
    world.assert_nothing_left();
}

/// There is always more to do than hands.
fn ask_for_more(world: &World, tasks: &mut Vec<String>, agents: usize, how: &[&str]) {
    for _ in world.open_tasks()..agents + 2 {
        let prompt = format!("Task {}", tasks.len());
        let added = world.json(&[&["task", "add", &prompt], how].concat());
        tasks.push(added["id"].as_str().unwrap().to_owned());
    }
}

/// Undisturbed to the end, and then everything is looked at.
fn finish(world: &World, script: &Path, agents: usize, tasks: &[String], (faults, begun): (&Faults, Instant)) {
    let last = world.worker(script, &["--until-empty", "--agents", &agents.to_string()]).start().finish_late();
    assert_eq!(last, Some(0));
    let figures = check(world, tasks);
    println!("torture: {faults:?} in {:?}: {figures}", begun.elapsed());
}

/// What the model says, which may fail once before each answer.
fn steps(status: Option<u16>) -> Value {
    let step = |number: usize| {
        let pause = ["0.1", "0.3", "0.6"][number % 3];
        let mut step = json!({ "say": format!("Step {number}."), "shell": format!("{FIX}; echo {number} >> steps; sleep {pause}"), "chunk_delay": "20ms" });
        if let Some(status) = status {
            step["status"] = json!(status);
        }
        step
    };
    Value::Array((0..STEPS).map(step).chain([json!({ "say": "Done." })]).collect())
}

/// The same of an agent that tries again when there is no room for what it writes.
fn patient_steps() -> Value {
    let mut steps = steps(None);
    for step in steps.as_array_mut().unwrap().iter_mut().take(STEPS) {
        let shell = step["shell"]
            .as_str()
            .unwrap()
            .replace("; echo", " && echo")
            .replace("; sleep", "; do sleep 0.2; done; sleep");
        step["shell"] = json!(format!("until {shell}"));
    }
    steps
}

fn worker(world: &World, script: &Path, agents: usize) -> Harvest {
    world.worker(script, &["--agents", &agents.to_string(), "--lease", "3s", "--keep-agents"])
}

/// Each task ended once and well, each journal is whole, each branch was delivered once with all that was asked.
fn check(world: &World, tasks: &[String]) -> String {
    let mut sums: BTreeMap<&str, usize> = BTreeMap::new();
    for task in tasks {
        let events = journal(world, task);
        let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        let shown = world.json(&["task", "show", task]);
        assert_eq!(shown["status"], "completed", "{task}: {shown:#}\n{events:#?}");
        assert_eq!((count("task.finished"), count("branch.delivered")), (1, 1), "{task}: {events:#?}");
        assert_eq!(events.last().unwrap()["type"], "task.finished", "{task}");
        let branch = shown["branch"].as_str().unwrap();
        let steps: Vec<String> = (0..STEPS).map(|number| number.to_string()).collect();
        let done = world.show(&format!("{branch}:steps"));
        // One that begins again from a checkpoint may do a step twice, and never leaves one out.
        let mut distinct: Vec<&str> = done.lines().collect();
        distinct.dedup();
        assert!(steps.iter().all(|step| distinct.contains(&step.as_str())), "{task}: {done}");
        if count("agent.started") == 1 {
            assert_eq!(done.lines().collect::<Vec<_>>(), steps, "{task}");
        }
        for kind in ["agent.started", "agent.reattached", "turn.started"] {
            *sums.entry(kind).or_default() += count(kind);
        }
    }
    let branches = git(&world.repo(), &["branch", "--list", "harvest/*"]).lines().count();
    assert_eq!(branches, tasks.len());
    format!("{} tasks completed, each once, {branches} branches, {sums:?}", tasks.len())
}

/// Kills the runner of a sandbox; false when there is none.
fn lose_one(world: &World, random: &mut Random) -> bool {
    let chosen = random.one_of(&world.runners());
    chosen.is_some_and(|runner| kill_process(Pid::from_raw(runner as i32).unwrap(), Signal::KILL).is_ok())
}

impl World {
    /// How many tasks have not ended.
    fn open_tasks(&self) -> usize {
        let turns = &self.json(&["status"])["turns"];
        ["ready", "waiting", "parked", "claimed"].iter().map(|name| turns[name].as_u64().unwrap() as usize).sum()
    }
}

impl Running {
    /// Its exit code, with more patience than most deserve.
    fn finish_late(mut self) -> Option<i32> {
        self.wait_for("its end", |notice| notice["type"] == "warm");
        self.finish().exit
    }
}
