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

/// The built-in agent cuts what its tools print; another may print all of it.
#[test]
fn output() {
    let world = World::new();
    world.add_agent("flood", "text", &format!("cat > /dev/null; {FIX}; yes 0123456789abcdef"));
    let config = world.path().join("limits.toml");
    std::fs::write(&config, "[limits]\noutput = '4MiB'\n").unwrap();
    let ran = world.run_with(&json!([{}]), &["--agent", "flood", "--config", config.to_str().unwrap()]).finish();
    let outcome = ran.assert_ended(1, "failed", Some("agent"));
    assert!(
        ran.stderr.contains("printed more than 4194304 bytes") && ran.stderr.contains("[limits] in harvest.toml"),
        "{}",
        ran.stderr
    );
    assert_eq!(world.show(&format!("{}:src/two.sh", outcome["branch"].as_str().unwrap())), "echo two");
    assert!(ran.stdout.len() < 100 << 20, "{} bytes", ran.stdout.len());
    world.assert_nothing_left();
}

/// No more files can be opened than the limit says, which ends nothing: it is told to the program that asks for more.
#[test]
fn open_files() {
    let world = World::new();
    let config = world.path().join("limits.toml");
    std::fs::write(&config, "[limits]\nopen_files = 200\n").unwrap();
    let open = "python3 -c 'held = []\ntry:\n    while True: held.append(open(\"/dev/null\"))\nexcept OSError as error: print(len(held), error)'";
    let forks = "python3 -c 'import os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (100000, 100000))' 2>&1 | tail -n 1";
    let replies = json!([{ "shell": [open, forks, FIX] }, {}]);
    let ran = world.run_with(&replies, &["--config", config.to_str().unwrap()]).finish();
    ran.assert_ended(0, "completed", None);
    let outputs = ran.tool_outputs();
    let held: usize = outputs[0].split_whitespace().next().unwrap().parse().unwrap();
    assert!(held < 200 && outputs[0].contains("Too many open files"), "{}", outputs[0]);
    assert!(outputs[1].contains("Error"), "it cannot be raised: {}", outputs[1]);
    world.assert_nothing_left();
}
