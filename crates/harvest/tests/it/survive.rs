//! What is around the work fails and comes back: sandboxes, the database, models. Nothing is given up for it.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::agents;
use crate::cluster::{self, Cluster};
use crate::killed::journal;
use crate::reattach::wait_until;
use crate::support::{FIX, World};

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

/// Kills every runner of this world's sandboxes, and with each everything in it.
pub fn lose_sandboxes(world: &World) -> usize {
    let runners = world.runners();
    for runner in &runners {
        let _ = kill_process(Pid::from_raw(*runner as i32).unwrap(), Signal::KILL);
    }
    runners.len()
}

#[test]
fn a_lost_sandbox_costs_what_came_after_its_last_checkpoint() {
    let world = World::new();
    world.without_spares();
    let script = world.conversations(&[
        ("You have begun already", json!([{ "shell": "echo second >> steps" }, { "say": "Done." }])),
        ("Mend it", json!([{ "shell": format!("{FIX}; echo first > steps") }, { "shell": "sleep 987654" }])),
    ]);
    let task = world.add_task("Mend it");
    let running = world.worker(&script, &["--until-empty"]).start();
    wait_until("it is checkpointed", || count(&journal(&world, &task), "checkpoint.created") == 1);
    assert!(lose_sandboxes(&world) > 0);
    assert_eq!(running.finish().exit, Some(0));
    let shown = world.json(&["task", "show", &task]);
    let events = journal(&world, &task);
    assert_eq!(shown["status"], "completed", "{shown:#}\n{events:#?}");
    assert_eq!(shown["tries"], 1, "it is the same try");
    assert_eq!(world.show(&format!("{}:steps", shown["branch"].as_str().unwrap())), "first\nsecond");
    assert_eq!((count(&events, "agent.started"), count(&events, "turn.started")), (2, 1));
    world.assert_nothing_left();
}

/// A tool call that goes on for long is checkpointed before it ends.
#[test]
fn a_long_tool_call_is_checkpointed_while_it_runs() {
    let world = World::new();
    let mut run = world.run_with(&json!([{ "shell": format!("{FIX}; sleep 987654") }]), &[]).start();
    let saved = run.wait_for_type("checkpoint.created");
    run.signal(Signal::INT);
    let ran = run.finish();
    assert!(saved["data"]["commit"].is_string(), "{saved:#}");
    let results = ran.stdout.lines().filter(|line| line.contains("\"tool.result\"")).count();
    assert_eq!(results, 0, "{ran:?}");
}

/// An agent that only prints lines tells of no tool call; its work is checkpointed by the time.
#[test]
fn an_agent_that_prints_lines_is_checkpointed_while_it_runs() {
    let world = World::new();
    world.add_agent("liner", "text", &format!("cat > /dev/null; {FIX}; echo working; sleep 987654"));
    let script = world.script(&json!([{}]));
    let args = ["run", "Mend it", "--agent", "liner", "--json", "--model-script", script.to_str().unwrap()];
    let mut run = world.harvest(&args).start();
    let saved = run.wait_for_type("checkpoint.created");
    run.signal(Signal::INT);
    run.finish();
    assert!(saved["data"]["commit"].is_string(), "{saved:#}");
}

/// An agent on a terminal draws rather than tells; its work is checkpointed by the time, too.
#[test]
fn an_agent_that_draws_a_terminal_is_checkpointed_while_it_runs() {
    let world = World::new();
    let draws = format!("read -r prompt; {FIX}; while :; do tput home 2>/dev/null; printf working; sleep 1; done");
    world.add_agent_with("drawer", "text", &draws, "terminal = true");
    let script = world.script(&json!([{}]));
    let args = ["run", "Mend it", "--agent", "drawer", "--json", "--model-script", script.to_str().unwrap()];
    let mut run = world.harvest(&args).start();
    let saved = run.wait_for_type("checkpoint.created");
    run.signal(Signal::INT);
    run.finish();
    assert!(saved["data"]["commit"].is_string(), "{saved:#}");
}

/// The last lines of an agent that fails without a word of its own are part of what people are told.
#[test]
fn an_agent_that_exits_with_an_error_is_reported_with_its_last_lines() {
    let world = World::new();
    world.add_agent(
        "broken",
        "text",
        "cat > /dev/null; echo starting; echo 'Cannot find module codex-linux-x64' >&2; exit 1",
    );
    let script = world.script(&json!([{}]));
    let args = ["run", "Mend it", "--agent", "broken", "--json", "--model-script", script.to_str().unwrap()];
    let ran = world.harvest(&args).finish();
    let outcome = ran.assert_ended(1, "failed", Some("agent"));
    let error = outcome["error"].as_str().unwrap();
    assert!(error.contains("exited with code 1") && error.contains("Cannot find module codex-linux-x64"), "{error}");
    let check = world.harvest(&["agent", "check", "broken"]).finish();
    assert!(check.stdout.contains("Cannot find module codex-linux-x64"), "{check:?}");
}

/// Programs that cannot be started, and one that fails with words: each is told the same in the command, the rehearsal and the API.
#[test]
fn an_agent_that_cannot_be_started_says_which_program_and_why_everywhere() {
    let world = World::new();
    let bin = agents::program("mine", "#!/nowhere/python3\n");
    let program = bin.path().canonicalize().unwrap().join("mine").display().to_string();
    agents::add_agent(&world, &agents::script_agent(std::path::Path::new(&program)));
    world.add_agent("broken", "text", "cat > /dev/null; echo 'Cannot find module codex-linux-x64' >&2; exit 1");
    let script = world.script(&json!([{}]));
    let started = format!("`{program}` could not be started: No such file or directory");
    let server = world.serve(&["--agents", "1", "--model-script", script.to_str().unwrap()]);
    let client = server.with(&world.token(&["--role", "admin"]));
    for (agent, reason) in [("mine", started.as_str()), ("broken", "Cannot find module codex-linux-x64")] {
        let args = ["run", "Mend it", "--agent", agent, "--json", "--model-script", script.to_str().unwrap()];
        let outcome = world.harvest(&args).finish().assert_ended(1, "failed", Some("agent"));
        let error = outcome["error"].as_str().unwrap();
        assert!(error.contains(reason), "{error}");
        let check = world.harvest(&["agent", "check", agent]).finish();
        assert!(check.exit == Some(1) && check.stdout.contains(reason), "{check:?}");
        let mut ask = world.ask("Mend it");
        ask["agent"] = json!(agent);
        let task = client.worked_off(&ask);
        assert!(task["error"].as_str().is_some_and(|error| error.contains(reason)), "{task:#}");
        let listed = client.get("/api/tasks?status=failed").ok();
        assert!(listed["items"].to_string().contains(reason), "{listed:#}");
    }
}

/// Debian's programs are links in /usr/bin: to /etc/alternatives, /usr/share/nodejs or /usr/lib/node_modules.
#[test]
fn an_agent_that_is_a_link_of_the_system_works_in_a_sandbox() {
    let world = World::new();
    let awk = std::path::Path::new("/usr/bin/awk");
    if !awk.is_symlink() {
        return harvest_testing::skip("there is no awk of Debian's in /usr/bin");
    }
    let folder = world.home().join(".config/harvest/agents");
    fs::create_dir_all(&folder).unwrap();
    let text = "[[agent]]\nid = 'linked'\nname = 'Linked'\nproviders = ['openai']\ndialect = 'text'\nprompt = 'stdin'\n\
                command = 'awk'\ninstall_hint = ''\n\
                arguments = ['''BEGIN { system(\"printf 'echo two\\\\n' > src/two.sh\"); print \"Mended.\" }''']\n";
    fs::write(folder.join("linked.toml"), text).unwrap();
    let ran = world.run(&json!([{}]), &["--agent", "linked"]);
    ran.assert_ended(0, "completed", None);
    assert_eq!(ran.of_type("message")[0]["text"], "Mended.");
}

/// A sandbox that vanishes under the tests says nothing about them: they run in another.
#[test]
fn tests_whose_sandbox_is_lost_run_in_another() {
    let world = World::new();
    world.without_spares();
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let args = ["task", "add", "Mend it", "--test", "sleep 2; sh test.sh"];
    let task = world.json(&args)["id"].as_str().unwrap().to_owned();
    let running = world.worker(&script, &["--until-empty"]).start();
    let is_of_tests = |event: &&Value| event["type"] == "sandbox.ready" && event["data"]["purpose"] != "execute";
    wait_until("both are tested", || journal(&world, &task).iter().filter(is_of_tests).count() == 2);
    assert!(lose_sandboxes(&world) > 0);
    assert_eq!(running.finish().exit, Some(0));
    let (shown, events) = (world.json(&["task", "show", &task]), journal(&world, &task));
    assert_eq!((&shown["status"], &shown["tries"]), (&json!("completed"), &json!(1)), "{shown:#}\n{events:#?}");
    assert!(events.iter().filter(is_of_tests).count() > 2, "{events:#?}");
    assert_eq!(count(&events, "tests.finished"), 2, "{events:#?}");
    world.assert_nothing_left();
}

/// Tests that have ended before a crash are not run again.
#[cfg(feature = "failpoints")]
#[test]
fn tests_that_have_run_are_not_run_again_after_a_crash() {
    use std::os::unix::process::ExitStatusExt;
    let world = World::new();
    world.without_spares();
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let task = world.add_task("Mend it");
    let worker = || world.worker(&script, &["--until-empty"]);
    let crashed = worker().env("HARVEST_FAILPOINTS", "verify::after=return(crash)").finish();
    assert_eq!(crashed.status.signal(), Some(6), "{crashed:?}");
    assert_eq!(count(&journal(&world, &task), "tests.finished"), 2);
    assert_eq!(worker().finish().exit, Some(0));
    let (shown, events) = (world.json(&["task", "show", &task]), journal(&world, &task));
    assert_eq!(shown["status"], "completed", "{shown:#}\n{events:#?}");
    assert_eq!((count(&events, "tests.finished"), count(&events, "agent.started")), (2, 1), "{events:#?}");
    world.assert_nothing_left();
}

/// The database goes away while agents work, and comes back: they are the same agents.
#[test]
fn agents_outlive_a_lost_and_returned_database() {
    let Some(cluster) = Cluster::private() else { return harvest_testing::skip(cluster::WITHOUT) };
    let world = World::new();
    world.without_spares();
    let url = cluster.url("postgres");
    let database = ["--database-url", url.as_str()];
    let replies: Vec<Value> = (0..6)
        .map(|number| json!({ "shell": format!("{FIX}; echo {number} >> steps; sleep 1") }))
        .chain([json!({})])
        .collect();
    let script = world.script(&Value::Array(replies));
    let json = |args: &[&str]| -> Value {
        let ran = world.harvest(args).args(&database).args(&["--json"]).finish();
        assert_eq!(ran.exit, Some(0), "{args:?}: {ran:?}");
        serde_json::from_str(&ran.stdout).unwrap()
    };
    let tasks: Vec<String> = (0..3)
        .map(|number| json(&["task", "add", &format!("Task {number}")])["id"].as_str().unwrap().to_owned())
        .collect();
    let mut running =
        world.worker(&script, &["--agents", "3", "--until-empty", "--lease", "6s"]).args(&database).start();
    for _ in &tasks {
        running.wait_for_type("started");
    }
    wait_until("all work", || world.agents().len() == 3);
    std::thread::sleep(Duration::from_millis(1500));
    let before = world.agents();
    cluster.down();
    let why = running.wait_for_type("holding");
    println!("while it is away: {}", why["why"]);
    std::thread::sleep(Duration::from_secs(2));
    cluster.up();
    wait_until("they are back", || world.agents() == before || world.agents().len() < 3);
    let ran = running.finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    for task in &tasks {
        let shown = json(&["task", "show", task]);
        assert_eq!((&shown["status"], &shown["tries"]), (&json!("completed"), &json!(1)), "{shown:#}");
        assert_eq!(world.show(&format!("{}:steps", shown["branch"].as_str().unwrap())), "0\n1\n2\n3\n4\n5");
    }
    let tidy = world.harvest(&["task", "list"]).args(&database).finish();
    assert_eq!(tidy.exit, Some(0), "{tidy:?}");
    world.assert_nothing_left();
}

/// Whatever is wrong with the model is wrong for the next task as well.
#[test]
fn repeated_failures_of_one_kind_stop_a_worker_until_one_goes_better() {
    let world = World::new();
    let settings = world.path().join("settings.toml");
    fs::write(&settings, "warm = 0\nbreaker = 2\nbreaker_pause = '8s'\n").unwrap();
    let script = world.conversations(&[
        ("Bad", json!([{ "expect": "words that nobody says" }])),
        ("Good", json!([{ "shell": FIX }, {}])),
    ]);
    for name in ["Bad one", "Bad two", "Good three", "Good four"] {
        world.add_task(name);
    }
    let args = ["--agents", "1", "--until-empty", "--config", settings.to_str().unwrap()];
    let mut running = world.worker(&script, &args).start();
    let holding = running.wait_for_type("holding")["why"].as_str().unwrap().to_owned();
    assert!(holding.contains("2 tasks in a row failed for the same reason (agent)"), "{holding}");
    assert!(holding.contains("words that nobody says"), "{holding}");
    let status = world.json(&["status"]);
    assert!(status["holding"][0].as_str().unwrap_or_default().contains("2 tasks in a row failed"), "{status:#}");
    let ran = running.finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let statuses: Vec<String> = world.tasks().iter().map(|task| task["status"].as_str().unwrap().to_owned()).collect();
    assert_eq!(statuses, ["completed", "completed", "failed", "failed"]);
    world.assert_nothing_left();
}
