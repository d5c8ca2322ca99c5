//! An agent that uses more than it may: its session ends for that reason, its work is kept, and no one else notices.

use serde_json::{Value, json};

use crate::support::{FIX, World};

/// Goes beyond `limit`, after it has done something useful, while a neighbour works.
#[track_caller]
fn reaches(limit: &str, shell: &str, said: &str) {
    let neighbour = World::new();
    let mut beside = neighbour.run_with(&json!([{ "shell": "sleep 2" }, { "shell": FIX }, {}]), &[]).start();
    beside.wait_for_type("tool.call");
    let world = World::new();
    let config = world.path().join("limits.toml");
    std::fs::write(&config, format!("[limits]\n{limit}\n")).unwrap();
    let replies: Value = json!([{ "shell": FIX }, { "shell": shell }, {}]);
    let ran = world.run_with(&replies, &["--config", config.to_str().unwrap()]).finish();
    let outcome = ran.assert_ended(1, "failed", Some("agent"));
    assert!(ran.stderr.contains(said) && ran.stderr.contains("[limits] in harvest.toml"), "{}", ran.stderr);
    let branch = outcome["branch"].as_str().unwrap_or_else(|| panic!("no branch: {outcome:#}"));
    assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two");
    world.assert_nothing_left();
    beside.finish().assert_ended(0, "completed", None);
    neighbour.assert_nothing_left();
}

#[test]
fn memory() {
    let hungry = "python3 -c 'held = []\nwhile True: held.append(bytearray(8 << 20))' || true; sleep 60";
    reaches("memory = '256MiB'", hungry, "more than 256 MiB of memory");
}

#[test]
fn processes() {
    let bomb = "python3 -c 'import os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(0.01)'";
    reaches("processes = 100", bomb, "100 processes and threads at once");
}

#[test]
fn disk() {
    reaches(
        "disk = '48MiB'",
        "mkdir -p ~/d; i=0; while :; do i=$((i+1)); head -c 4194304 /dev/zero > ~/d/$i; done",
        "more than 48 MiB to disk",
    );
}

#[test]
fn files() {
    reaches(
        "files = 2000",
        "python3 -c 'import os\ni = 0\nwhile True: os.mkdir(os.path.expanduser(f\"~/d{i}\")); i += 1'",
        "more than 2000 files",
    );
}
