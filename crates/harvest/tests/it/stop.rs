//! Stopped by a person, a limit or a reader who goes away: the work is kept, and nothing is left running.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::support::{FIX, Ran, World};

/// Works on something and then hangs in a tool call.
fn hanging() -> Value {
    json!([{ "shell": FIX }, { "shell": "(setsid sleep 987654 &) ; sleep 987654" }, {}])
}

#[track_caller]
fn assert_cancelled(world: &World, ran: &Ran) -> Value {
    let outcome = ran.assert_ended(3, "cancelled", Some("cancelled"));
    assert!(ran.stderr.contains("error[HV-0405]"), "{}", ran.stderr);
    world.assert_nothing_left();
    assert_eq!(world.tasks()[0]["status"], "cancelled");
    outcome
}

#[track_caller]
fn assert_fix_kept(world: &World, outcome: &Value) {
    let branch = outcome["branch"].as_str().unwrap_or_else(|| panic!("no branch: {outcome:#}"));
    assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two");
}

#[test]
fn signals_at_every_moment() {
    for kind in ["task.created", "turn.started", "sandbox.ready", "agent.started", "message.delta", "tool.call"] {
        for signal in [Signal::INT, Signal::TERM] {
            let world = World::new();
            let replies = json!([{ "say": "One two three four five.", "shell": FIX }, { "shell": "sleep 987654" }]);
            let mut running = world.run_with(&replies, &[]).start();
            running.wait_for_type(kind);
            running.signal(signal);
            assert_cancelled(&world, &running.finish());
        }
    }
}

/// A terminal sends it to every process in the foreground. Those that Harvest needs to end its work are not among them.
#[test]
fn ctrl_c_at_a_terminal_reaches_harvest_alone() {
    let world = World::new();
    let replies = json!([{ "shell": FIX }, {}]);
    let mut harvest = world.run_with(&replies, &["--test", "sleep 987654"]);
    harvest.command.process_group(0);
    let mut running = harvest.start();
    running.wait_for_type("turn.started");
    let group = running.pid();
    let watched = Arc::new(AtomicBool::new(true));
    let watching = std::thread::spawn({
        let watched = watched.clone();
        move || {
            let mut others = BTreeSet::new();
            while watched.load(Ordering::Relaxed) {
                others.extend(foreground(group));
            }
            others
        }
    });
    wait_for_process("sleep 987654", &world);
    watched.store(false, Ordering::Relaxed);
    assert_eq!(watching.join().unwrap(), BTreeSet::new());
    kill_process_group(Pid::from_raw(i32::try_from(group).unwrap()).unwrap(), Signal::INT).unwrap();
    let outcome = assert_cancelled(&world, &running.finish());
    assert_fix_kept(&world, &outcome);
}

/// The command lines in a process group but of Harvest's own programs, which leave it as the first thing that they do.
fn foreground(group: u32) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        // After the name: state, parent, group.
        let of = stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse::<u32>().ok()?;
        let cmdline = String::from_utf8(std::fs::read(process.path().join("cmdline")).ok()?).ok()?;
        let is_others = !cmdline.is_empty() && !cmdline.split('\0').next()?.contains("harvest");
        (of == group && is_others).then(|| cmdline.replace('\0', " "))
    });
    lines.collect()
}

#[test]
fn a_signal_during_a_tool_call_keeps_the_work() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let world = World::new();
        let mut running = world.run_with(&hanging(), &[]).start();
        running.wait_for("the second call", |event| {
            event["type"] == "tool.call" && event["data"]["input"].to_string().contains("setsid")
        });
        running.signal(signal);
        let outcome = assert_cancelled(&world, &running.finish());
        assert_fix_kept(&world, &outcome);
    }
}

#[test]
fn a_signal_during_verification_keeps_the_work() {
    // The first of the two sandboxes is ready, or both, or their tests are about to start.
    for ready in [1, 2, 3] {
        let world = World::new();
        let replies = json!([{ "shell": FIX }, {}]);
        let mut running = world.run_with(&replies, &["--test", "sleep 987654"]).start();
        running.wait_for("the end of the work", |event| event["type"] == "stage.finished");
        for _ in 0..ready.min(2) {
            running.wait_for_type("sandbox.ready");
        }
        if ready == 3 {
            wait_for_process("sleep 987654", &world);
        }
        running.signal(Signal::INT);
        let outcome = assert_cancelled(&world, &running.finish());
        assert_fix_kept(&world, &outcome);
    }
}

/// Whatever moment of making the sandboxes it hits.
#[test]
fn signals_while_sandboxes_are_being_made() {
    for delay in [0, 5, 10, 20, 40, 60, 90] {
        let world = World::new();
        let replies = json!([{ "shell": FIX }, {}]);
        let mut running = world.run_with(&replies, &["--test", "sleep 987654"]).start();
        let from = if delay % 20 == 0 { "turn.started" } else { "branch" };
        running.wait_for("the moment", |event| event["type"] == from || event["type"] == "stage.finished");
        std::thread::sleep(std::time::Duration::from_millis(delay));
        running.signal(Signal::TERM);
        assert_cancelled(&world, &running.finish());
    }
}

/// From the very start: before there is a handler it dies of the signal, before there is a task it says so, then it is
/// cancelled. Never is anything left for the next command to find.
#[test]
fn a_signal_in_the_first_moments() {
    for delay in [0, 10, 20, 30, 40, 50, 60, 70, 80, 100, 120, 150, 200] {
        let world = World::new();
        let running = world.run_with(&json!([{ "shell": "sleep 987654" }]), &[]).start();
        std::thread::sleep(std::time::Duration::from_millis(delay));
        running.signal(Signal::INT);
        let ran = running.finish();
        assert!(matches!(ran.exit, None | Some(3)), "{delay} ms: {ran:?}");
        if ran.exit.is_some() && !ran.stdout.is_empty() {
            ran.assert_ended(3, "cancelled", Some("cancelled"));
        }
        world.assert_nothing_left();
        let open = world.tasks().into_iter().filter(|task| task["finished_at"].is_null()).count();
        assert_eq!(open, 0, "{delay} ms");
    }
}

/// As `nohup` starts it: the terminal may go away. The second signal would end it at once, if the first had counted.
#[test]
fn a_signal_that_is_ignored_from_the_start_stops_nothing() {
    let world = World::new();
    let mut harvest = world.run_with(&hanging(), &[]);
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(harvest.command.get_program())
        .args(harvest.command.get_args());
    shell.env_clear().envs(harvest.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(harvest.command.get_current_dir().unwrap());
    harvest.command = shell;
    let mut running = harvest.start();
    running.wait_for_type("tool.result");
    running.signal(Signal::HUP);
    running.signal(Signal::TERM);
    let ran = running.finish();
    ran.assert_ended(3, "cancelled", Some("cancelled"));
    assert_eq!(ran.stderr.matches("stopping;").count(), 1, "{ran:?}");
    assert!(!ran.stderr.contains("exiting;"), "{ran:?}");
    world.assert_nothing_left();
}

/// After a second signal nothing is waited for; the next command clears up.
#[test]
fn a_second_signal_ends_it_and_the_next_command_clears_up() {
    let world = World::new();
    let mut running = world.run_with(&hanging(), &[]).start();
    running.wait_for_type("tool.result");
    running.signal(Signal::INT);
    running.signal(Signal::TERM);
    let ran = running.finish();
    assert_eq!(ran.exit, Some(3), "{ran:?}");
    let task = &world.tasks()[0];
    // It had come to its end, or the wish to stop was written down, or neither.
    assert!(["cancelled", "interrupted", "failed"].contains(&task["status"].as_str().unwrap()), "{task}");
    world.assert_nothing_left();
}

#[test]
fn a_timeout_stops_a_stalling_model_and_a_hanging_tool() {
    for replies in [json!([{ "shell": FIX }, { "stall": "60s", "say": "Late." }]), hanging()] {
        let world = World::new();
        let ran = world.run(&replies, &["--timeout", "2s"]);
        let outcome = ran.assert_ended(3, "failed", Some("timeout"));
        assert!(ran.stderr.starts_with("error[HV-0403]:"), "{}", ran.stderr);
        assert_fix_kept(&world, &outcome);
        world.assert_nothing_left();
    }
}

/// `harvest run … | head -1`, with and without its errors in the same pipe.
#[test]
fn a_reader_who_goes_away_ends_it_cleanly() {
    for (json, both) in [(true, false), (true, true), (false, true)] {
        let world = World::new();
        let script = world.script(&hanging());
        let mut harvest = world.harvest(&["run", "Mend it", "--model-script"]).args(&[script]);
        if json {
            harvest.command.arg("--json");
        }
        let (reader, writer) = std::io::pipe().unwrap();
        harvest.command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap());
        harvest.command.stderr(if both { Stdio::from(writer) } else { Stdio::null() });
        let mut child = harvest.command.spawn().unwrap();
        drop(harvest);
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(reader), &mut line).unwrap();
        let deadline = std::time::Instant::now() + crate::support::PATIENCE;
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if std::time::Instant::now() > deadline => {
                    child.kill().unwrap();
                    panic!("it did not end");
                }
                None => std::thread::sleep(std::time::Duration::from_millis(10)),
            }
        };
        assert_eq!(status.code(), Some(3), "json {json}, both {both}");
        world.assert_nothing_left();
        assert_eq!(world.tasks()[0]["reason"], "cancelled");
    }
}

/// Commands whose readers go away before the first byte.
#[test]
fn closed_outputs_are_no_reason_to_panic() {
    let world = World::new();
    world.run(&json!([{ "shell": FIX }, {}]), &[]).assert_ended(0, "completed", None);
    let id = world.tasks()[0]["id"].as_str().unwrap().to_owned();
    for args in [
        &["task", "list"][..],
        &["task", "show", &id],
        &["task", "logs", &id],
        &["task", "diff", &id],
        &["agent", "list"],
        &["doctor"],
        &["explain", "HV-0101"],
        &["--help"],
        &["task", "show", "zzzz"],
        &["run", ""],
        &["nonsense"],
    ] {
        let mut harvest = world.harvest(args);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        harvest.command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer);
        let status = harvest.command.status().unwrap();
        assert!(matches!(status.code(), Some(0..=2)), "{args:?}: {status}");
    }
}

/// A process of this world's sandboxes whose command line has `text` in it.
fn wait_for_process(text: &str, world: &World) {
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    let world = world.path().to_str().unwrap();
    while std::time::Instant::now() < deadline {
        for entry in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
            let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
            let cmdline = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            if cmdline.starts_with(text) && String::from_utf8_lossy(&read("mountinfo")).contains(world) {
                return;
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("no process `{text}`");
}
