//! The other commands: demo, doctor, agent list, explain, and the help of all.

use rustix::process::Signal;
use serde_json::json;

use crate::served::Server;
use crate::support::World;

#[test]
fn the_demo_ends_as_it_should() {
    let world = World::empty();
    let begun = std::time::Instant::now();
    let ran = world.harvest(&["demo", "--once"]).finish();
    assert_eq!(ran.exit, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(ran.stderr, "");
    for part in ["completed", "failed: tests", "failed: budget", "harvest/", "evidence"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(begun.elapsed() < crate::support::PATIENCE);
    assert_eq!(world.tasks().len(), 4);
    world.assert_nothing_left();
    // And once more beside what is there.
    let ran = world.harvest(&["demo", "--once", "--json"]).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((report["items"].as_array().unwrap().len(), &report["as_expected"]), (4, &json!(true)));
    let stopped = report["items"].as_array().unwrap().iter().find(|item| item["reason"] == "budget").unwrap();
    let spent = stopped["cost_usd"].as_f64().unwrap();
    assert!(spent > 0.01 && spent <= 0.05, "a budget of $0.05 holds to the cent: {stopped}");
    world.assert_nothing_left();
}

/// It stays, shows its tasks on the page, and works on what is asked for there.
#[test]
fn the_demo_is_live_on_the_page() {
    let world = World::empty();
    let mut server = Server::started(world.harvest(&["demo", "--json", "--listen", "127.0.0.1:0"]).start());
    let client = server.with(&world.token(&[]));
    assert!(server.anyone().get("/").text.contains("<html"), "there is no page");
    let report = server.running.wait_for("the report", |line| line["as_expected"].is_boolean());
    assert_eq!(report["as_expected"], true, "{report}");
    assert_eq!(client.get("/api/tasks").ok()["items"].as_array().unwrap().len(), 4);
    let repository = client.get("/api/repositories").ok()["items"][0]["name"].clone();
    let task = client.post("/api/tasks", &json!({ "prompt": "Something else", "repository": repository })).ok();
    server
        .running
        .wait_for("the end of what was asked for", |line| line["type"] == "finished" && line["task_id"] == task["id"]);
    let task = client.get(&format!("/api/tasks/{}", task["id"].as_str().unwrap())).ok();
    assert_eq!(task["status"], "completed", "{task}");
    server.running.signal(Signal::TERM);
    assert_eq!(server.running.finish().exit, Some(0));
    world.assert_nothing_left();
}

#[test]
fn the_doctor_says_what_is_there_and_what_is_missing() {
    let world = World::empty();
    let report = world.json(&["doctor"]);
    assert_eq!(report["works"], true, "{report:#}");
    for item in report["items"].as_array().unwrap() {
        assert!(["ok", "degraded", "missing"].contains(&item["state"].as_str().unwrap()), "{item}");
        assert!(item["state"] == "ok" || item["fix"].is_string(), "no way out: {item}");
    }
    let strength = |name: &str| {
        let items = report["items"].as_array().unwrap();
        let item = items.iter().find(|item| item["name"] == name).unwrap_or_else(|| panic!("no {name}: {report:#}"));
        item["strength"].as_str().unwrap_or_else(|| panic!("not said how firmly: {item}")).to_owned()
    };
    for layer in ["namespaces", "nested namespaces", "system calls", "privileges", "limit: processes", "limit: output"]
    {
        assert_eq!(strength(layer), "hard", "{layer}");
    }
    for limit in ["memory", "cpu", "disk", "files", "open files", "time"] {
        assert!(["hard", "soft", "absent"].contains(&strength(&format!("limit: {limit}")).as_str()), "{limit}");
    }
    let ran = world.harvest(&["doctor"]).finish();
    assert!(ran.stdout.contains("git version"), "{}", ran.stdout);
    assert!(ran.stdout.lines().any(|line| line.contains("system calls") && line.contains(" hard ")), "{}", ran.stdout);
    world.assert_nothing_left();
}

/// Without bubblewrap or git there is a clear word and no fallback.
#[test]
fn missing_programs_are_named() {
    let world = World::new();
    let bin = world.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let script = world.script(&json!([{}]));
    let run = |world: &World| world.harvest(&["run", "x", "--json", "--model-script"]).args(&[&script]);
    let ran = run(&world).env("PATH", bin.to_str().unwrap()).finish();
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error[HV-") && ran.stderr.contains("git"), "{}", ran.stderr);
}

#[test]
fn agents_are_listed() {
    let world = World::empty();
    let list = world.json(&["agent", "list"]);
    assert!(list["items"].as_array().unwrap().iter().any(|agent| agent["id"] == "builtin"), "{list:#}");
    assert!(world.harvest(&["agent", "list"]).finish().stdout.contains("builtin"));
    assert!(!world.data().exists(), "looking makes nothing");
}

#[test]
fn every_code_has_a_page_and_unknown_ones_are_refused() {
    let world = World::empty();
    for code in harvest_core::Code::ALL {
        let ran = world.harvest(&["explain", code.as_str()]).finish();
        assert_eq!(ran.exit, Some(0), "{code}: {ran:?}");
        assert!(ran.stdout.contains(code.as_str()), "{code}");
    }
    assert_eq!(world.harvest(&["explain", "0101"]).finish().exit, Some(0));
    for unknown in ["HV-9999", "", "../HV-0101", "HV-0101.md"] {
        let ran = world.harvest(&["explain", unknown]).finish();
        assert_eq!((ran.exit, ran.stdout.as_str()), (Some(2), ""), "{unknown}: {ran:?}");
        assert!(ran.stderr.starts_with("error[HV-"), "{}", ran.stderr);
    }
    assert!(!world.data().exists(), "explaining needs no data directory");
}

#[test]
fn every_command_has_examples() {
    let world = World::empty();
    for command in [
        &[][..],
        &["run"],
        &["demo"],
        &["task", "list"],
        &["task", "show"],
        &["task", "logs"],
        &["task", "diff"],
        &["task", "apply"],
        &["task", "cancel"],
        &["agent", "list"],
        &["agent", "check"],
        &["doctor"],
        &["explain"],
    ] {
        let ran = world.harvest(command).args(&["--help"]).finish();
        assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{command:?}");
        assert!(ran.stdout.contains("Examples:"), "{command:?}: {}", ran.stdout);
    }
    let version = world.harvest(&["--version"]).finish();
    assert_eq!((version.exit, version.stdout.trim()), (Some(0), concat!("harvest ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn what_the_command_line_cannot_read_is_refused_with_the_way_out() {
    let world = World::empty();
    for (args, said, help) in [
        (&["task", "add", "x", "--budget-usd", "0"][..], "it must be more than 0", "harvest task add --help"),
        (&["task", "ad"], "unrecognized subcommand 'ad'", "harvest task --help"),
        (&["task", "show"], "<ID>", "harvest task show --help"),
        (&["run", "x", "--bugdet", "3"], "unexpected argument '--bugdet'", "harvest run --help"),
        (&["--colour"], "unexpected argument '--colour'", "harvest --help"),
        (&["task"], "a command is missing", "name one of the commands above"),
    ] {
        let ran = world.harvest(args).finish();
        assert_eq!((ran.exit, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.starts_with("error[HV-0141]: ") && ran.stderr.contains(said), "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("\n  help: {help}")), "{}", ran.stderr);
        assert!(ran.stderr.ends_with("\n  more: harvest explain HV-0141\n"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("try '--help'"), "one way out: {}", ran.stderr);
    }
}

#[test]
fn an_export_has_the_issues_of_one_repository_unless_all_are_asked_for() {
    let world = World::new();
    let shed = world.path().join("shed");
    std::fs::create_dir(&shed).unwrap();
    crate::support::init(&shed);
    crate::support::git(&shed, &["commit", "--quiet", "--allow-empty", "--message", "Start"]);
    let shed = shed.to_str().unwrap();
    let issue = |id: &str| format!("{}\n", json!({ "id": id, "title": format!("Mend {id}"), "status": "open" }));
    let file = |name: &str| world.path().join(name);
    std::fs::write(file("here.jsonl"), issue("or-1")).unwrap();
    std::fs::write(file("shed.jsonl"), issue("sh-1")).unwrap();
    world.json(&["import", "beads", file("here.jsonl").to_str().unwrap()]);
    world.json(&["import", "beads", file("shed.jsonl").to_str().unwrap(), "--repo", shed]);
    let export = |name: &str, args: &[&str]| {
        let path = file(name);
        let report = world.json(&[&["export", "beads", path.to_str().unwrap()], args].concat());
        let mut added = report["added"].as_array().unwrap().clone();
        added.sort_by_key(ToString::to_string);
        serde_json::Value::from(added)
    };
    assert_eq!(export("one", &[]), json!(["or-1"]));
    assert_eq!(export("other", &["--repo", shed]), json!(["sh-1"]));
    assert_eq!(export("both", &["--all"]), json!(["or-1", "sh-1"]));
    let mut outside = world.harvest(&["export", "beads", "none"]);
    outside.command.current_dir(world.path());
    let refused = outside.finish();
    assert!(refused.exit == Some(2) && refused.stderr.contains("--all"), "{refused:?}");
}

#[test]
fn the_status_shows_tasks_that_wait_for_a_person() {
    let world = World::new();
    let none = world.harvest(&["status"]).finish().stdout;
    assert!(!none.contains("for you"), "{none}");
    let script = world.conversations(&[("Make a plan", json!([{ "say": "I would mend two.sh." }]))]);
    let args = ["run", "Make the failing test pass", "--plan", "--json", "--model-script", script.to_str().unwrap()];
    let ran = world.harvest(&args).finish();
    assert_eq!(ran.exit, Some(3), "{ran:?}");
    let id = ran.events()[0]["data"]["task_id"].as_str().unwrap().to_owned();
    let shown = world.harvest(&["status"]).finish().stdout;
    assert!(shown.contains("1 awaiting approval (harvest task approve|reject ID)"), "{shown}");
    assert!(shown.contains(&id[..8]) && shown.contains("Make the failing test pass"), "{shown}");
    assert_eq!(world.json(&["status"])["tasks"]["awaiting_approval"], 1);
}
