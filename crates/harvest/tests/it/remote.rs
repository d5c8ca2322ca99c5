//! The command line against a server.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::serve_streams::listen_again;
use crate::support::{FIX, Harvest, Ran, World};

/// A command that knows a server and no data directory.
pub fn remote(world: &World, url: &str, args: &[&str]) -> Harvest {
    let mut harvest = world.harvest(args);
    let command = &mut harvest.command;
    let mut bare = std::process::Command::new(command.get_program());
    bare.env_clear();
    for (name, value) in command.get_envs() {
        bare.env(name, value.unwrap());
    }
    // Without `--data-dir` and its value.
    bare.current_dir(command.get_current_dir().unwrap()).env("HARVEST_URL", url).args(command.get_args().skip(2));
    harvest.command = bare;
    harvest
}

fn json_of(ran: &Ran) -> Value {
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
}

#[test]
fn tasks_and_sessions_of_a_server() {
    let world = World::new();
    let server = world.serve_with(&json!([{ "say": "I see.", "shell": FIX }, { "say": "Done." }]), &["--agents", "1"]);
    let url = server.url.clone();
    let run = |args: &[&str]| remote(&world, &url, args).finish();
    // Nobody is signed in yet.
    let refused = run(&["task", "list"]);
    assert_eq!(refused.exit, Some(2));
    assert!(refused.stderr.contains("error[HV-0601]") && refused.stderr.contains("harvest login"), "{refused:?}");
    let wrong = remote(&world, &url, &["login", "--from-stdin"]).input("hv_wrong").finish();
    assert!(wrong.exit == Some(2) && wrong.stderr.contains("HV-0601"), "{wrong:?}");
    let token = world.token(&["--role", "admin", "--user", "ada"]);
    let signed = json_of(&remote(&world, &url, &["login", "--from-stdin", "--json"]).input(&token).finish());
    assert_eq!((&signed["user"], &signed["role"]), (&json!("ada"), &json!("admin")));
    let file = world.home().join(".config/harvest/login.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // The same objects as over the API.
    let repo = world.repo();
    let repo = repo.to_str().unwrap();
    let asked =
        json_of(&run(&["task", "add", "Make the failing test pass", "--repo", repo, "--priority", "high", "--json"]));
    assert_eq!(
        (&asked["priority"], &asked["requested_by"], &asked["source"]),
        (&json!("high"), &json!("ada"), &json!("api"))
    );
    let id = asked["id"].as_str().unwrap();
    let client = server.with(&token);
    let task = client.get(&format!("/api/tasks/{id}")).ok();
    let session = task["sessions"][0]["id"].as_str().unwrap();
    let journal = client.journal(session, 0);
    let short = &id[..6];
    assert_eq!(json_of(&run(&["task", "show", short, "--json"])), client.get(&format!("/api/tasks/{id}")).ok());
    let listed = json_of(&run(&["task", "list", "--status", "completed", "--json"]));
    assert_eq!(listed["items"][0]["id"], *id);
    assert!(run(&["task", "list"]).stdout.contains("Make the failing test pass"));
    let printed: Vec<Value> = run(&["task", "logs", short, "--json"])
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(printed, journal);
    assert!(run(&["task", "diff", short]).stdout.contains("+echo two"));
    assert_eq!(json_of(&run(&["session", "show", short, "--json"]))["id"], *session);
    let signed = run(&["evidence", "export", short]);
    let file = world.home().join("evidence.json");
    std::fs::write(&file, &signed.stdout).unwrap();
    let key = run(&["evidence", "key"]).stdout;
    let verified = run(&["evidence", "verify", file.to_str().unwrap(), "--key", key.trim()]);
    assert!(verified.exit == Some(0), "{signed:?}\n{verified:?}");
    let turn = json_of(&run(&["session", "prompt", short, "And now?", "--json"]));
    assert_eq!((&turn["number"], &turn["author"]), (&json!(2), &json!("ada")));
    client.stream(&format!("/api/sessions/{session}/events?after={}", journal.len())).until("task.finished");
    assert!(json_of(&run(&["status", "--json"]))["workers"] == 1);
    // What the server refuses is told in its words, with its code.
    let finished = run(&["task", "cancel", short]);
    assert!(finished.exit == Some(2) && finished.stderr.contains("error[HV-0153]"), "{finished:?}");
    let unknown = run(&["task", "show", "zzzz"]);
    assert!(unknown.exit == Some(2) && unknown.stderr.contains("error[HV-0151]"), "{unknown:?}");
    let nowhere = run(&["task", "add", "Mend it"]);
    assert!(nowhere.exit == Some(2) && nowhere.stderr.contains("--repo is missing"), "{nowhere:?}");
    assert!(run(&["login", "--forget"]).exit == Some(0) && run(&["task", "list"]).exit == Some(2));
    // Named on the command line, a place on this machine goes before the server.
    let mut local = world.harvest(&["task", "list", "--json"]);
    local.command.env("HARVEST_URL", "http://127.0.0.1:1");
    assert_eq!(json_of(&local.finish())["items"][0]["id"], *id);
}

#[test]
fn commands_that_never_ask_the_server_say_so_or_are_refused() {
    let world = World::new();
    let url = "http://127.0.0.1:1";
    let archive = world.path().join("here.tar");
    let backup = format!("backup {}", archive.display());
    for line in ["mcp list", "audit verify", "config show", "agent list", &backup] {
        let ran = remote(&world, url, &line.split(' ').collect::<Vec<_>>()).finish();
        assert_eq!(ran.exit, Some(0), "{line}: {ran:?}");
        let name = if line == backup { "backup" } else { line };
        let note = format!("note: `harvest {name}` works on this machine, not on the server in HARVEST_URL ({url})");
        assert!(ran.stderr.contains(&note), "{line}: {ran:?}");
    }
    for line in ["init", "mcp remove x", "import beads x", "gc"] {
        let ran = remote(&world, url, &line.split(' ').collect::<Vec<_>>()).finish();
        assert_eq!(ran.exit, Some(2), "{line}: {ran:?}");
        let name = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        assert!(
            ran.stderr.contains(&format!("`harvest {name}` changes this machine's data directory")),
            "{line}: {ran:?}"
        );
        assert!(ran.stderr.contains("--data-dir DIR, or unset HARVEST_URL"), "{line}: {ran:?}");
    }
    // Named on the command line, this machine is meant.
    let mut local = world.harvest(&["template", "list"]);
    local.command.env("HARVEST_URL", url);
    let ran = local.finish();
    assert!(ran.exit == Some(0) && !ran.stderr.contains("HARVEST_URL"), "{ran:?}");
}

#[test]
fn a_run_is_watched_to_its_end_over_a_restart_of_the_server() {
    let world = World::new();
    let replies = json!([{ "say": "I see.", "shell": FIX }, { "say": "Done." }]);
    let server = world.serve_with(&replies, &["--agents", "1"]);
    let token = world.token(&["--role", "admin"]);
    let url = server.url.clone();
    let at = |args: &[&str]| {
        let mut harvest = remote(&world, &url, args);
        harvest.command.env("HARVEST_TOKEN", &token);
        harvest
    };
    let repo = world.repo();
    let repo = repo.to_str().unwrap();
    let paused = at(&["queue", "pause", "--json"]).finish();
    assert_eq!(json_of(&paused)["paused"], true);
    let mut watching = at(&["run", "Make the failing test pass", "--repo", repo, "--json"]).start();
    let session = watching.wait_for_type("task.created")["session_id"].as_str().unwrap().to_owned();
    server.running.signal(Signal::KILL);
    let script = world.script(&replies);
    let server = listen_again(&world, &server, script.to_str().unwrap());
    assert!(at(&["queue", "resume"]).finish().stdout.contains("the queue is running again"));
    let ran = watching.finish();
    ran.assert_ended(0, "completed", None);
    assert_eq!(ran.events(), server.with(&token).journal(&session, 0), "each event once, over both connections");
    let followed = at(&["session", "prompt", &session, "And now?", "--follow", "--json"]).finish();
    let kinds: Vec<Value> =
        followed.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone()).collect();
    assert_eq!(
        (followed.exit, &kinds[0], kinds.last().unwrap()),
        (Some(0), &json!("turn.queued"), &json!("task.finished"))
    );
    let here = at(&["run", "Mend it", "--repo", repo, "--record", "x"]).finish();
    assert!(here.exit == Some(2) && here.stderr.contains("--record is for work on this machine"), "{here:?}");
    let race = at(&["run", "Mend it", "--repo", repo, "--race", "2"]).finish();
    assert!(race.exit == Some(2) && race.stderr.contains("harvest task add"), "{race:?}");
}

#[test]
fn a_plan_is_decided_on_and_a_task_tried_again() {
    let world = World::new();
    let server = world.serve_with(&json!([{ "say": "First this, then that." }]), &["--agents", "1"]);
    let token = world.token(&[]);
    let run = |args: &[&str]| {
        let mut harvest = remote(&world, &server.url, args);
        harvest.command.env("HARVEST_TOKEN", &token);
        harvest.finish()
    };
    let repo = world.repo();
    let asked = json_of(&run(&["task", "add", "Plan it", "--repo", repo.to_str().unwrap(), "--plan", "--json"]));
    let (id, client) = (asked["id"].as_str().unwrap(), server.with(&token));
    let session = client.get(&format!("/api/tasks/{id}")).ok()["sessions"][0]["id"].as_str().unwrap().to_owned();
    client.stream(&format!("/api/sessions/{session}/events")).until("plan.proposed");
    while client.get(&format!("/api/tasks/{id}")).ok()["status"] != "awaiting_approval" {}
    assert_eq!(json_of(&run(&["task", "reject", id, "--json"]))["status"], "cancelled");
    assert_eq!(json_of(&run(&["task", "retry", id, "--json"]))["id"], *id);
    client.stream(&format!("/api/sessions/{session}/events?after=5")).until("plan.proposed");
    while client.get(&format!("/api/tasks/{id}")).ok()["status"] != "awaiting_approval" {}
    assert_eq!(json_of(&run(&["task", "approve", id, "--json"]))["id"], *id);
}

#[test]
fn a_server_that_is_not_there_is_named_with_the_way_out() {
    let world = World::new();
    for (url, said) in [
        ("http://127.0.0.1:1", "no answer from the server http://127.0.0.1:1: 127.0.0.1:1 cannot be reached"),
        ("http://harvest.example.com", "plain http:// is only allowed for this machine; use https://"),
        ("harvest.example.com", "it begins neither with https:// nor with http://"),
        ("https://harvest.example.com/path", "it must be only a host and a port"),
    ] {
        let mut harvest = remote(&world, url, &["task", "list"]);
        harvest.command.env("HARVEST_TOKEN", "hv_x");
        let ran = harvest.finish();
        assert!(ran.exit != Some(0) && ran.stderr.contains(said), "{ran:?}");
    }
}

#[test]
fn a_race_is_asked_for_and_looked_at_and_counted_over_a_server() {
    let world = World::new();
    world.add_agent("idles", "text", "echo x > junk; echo Done.");
    world.add_agent("mends", "text", &format!("{FIX}; echo Done."));
    let server = world.serve_with(&json!([{}]), &["--agents", "2"]);
    let token = world.token(&["--role", "admin", "--user", "ada"]);
    let at = |args: &[&str]| remote(&world, &server.url, args).env("HARVEST_TOKEN", &token);
    let repo = world.repo();
    let repo = repo.to_str().unwrap();
    let add = ["task", "add", "Mend it", "--repo", repo, "--race", "idles,mends", "--judge", "mends", "--gate"];
    let asked = json_of(&at(&add).args(&["--fallback-agent", "idles", "--json"]).finish());
    let settings = &asked["settings"];
    let race = settings["race"]["id"].as_str().unwrap();
    assert_eq!(settings["race"]["judge"], "mends", "{asked:#}");
    assert_eq!((&settings["gate"], &settings["on_quota"]), (&json!(true), &json!(["idles"])), "{asked:#}");
    let client = server.with(&token);
    let shown = json_of(&at(&["race", "show", race, "--json"]).finish());
    assert_eq!(shown["items"].as_array().unwrap().len(), 2, "{shown:#}");
    let mends = shown["items"].as_array().unwrap().iter().find(|row| row["agent"] == "mends").unwrap();
    let session = mends["session_id"].as_str().unwrap();
    client.stream(&format!("/api/sessions/{session}/events")).until("delivery.proposed");
    let won = mends["task_id"].as_str().unwrap();
    assert_eq!(at(&["task", "approve", won]).finish().exit, Some(0));
    client.stream(&format!("/api/sessions/{session}/events")).until("task.finished");
    let over = json_of(&at(&["race", "show", &won[..6], "--json"]).finish());
    assert_eq!((&over["winner"], &over["id"]), (&mends["task_id"], &json!(race)), "{over:#}");
    assert_eq!(over, client.get(&format!("/api/races/{race}")).ok());
    assert!(at(&["race", "show", race]).finish().stdout.contains("won"));
    let stats = json_of(&at(&["stats", "--by", "agent", "--json"]).finish());
    assert_eq!(stats, client.get("/api/stats?by=agent").ok());
    assert_eq!((&stats["items"][1]["key"], &stats["items"][1]["wins"]), (&json!("mends"), &json!(1)), "{stats:#}");
    let unknown = at(&["race", "show", "zzzz"]).finish();
    assert!(unknown.exit == Some(2) && unknown.stderr.contains("HV-0151"), "{unknown:?}");
}

#[test]
fn a_task_of_a_server_is_followed_and_terminated() {
    let world = World::new();
    let waits = json!([{ "say": "I wait.", "shell": "while [ ! -e go ]; do sleep 0.05; done" }, {}]);
    let server = world.serve_with(&waits, &["--agents", "1"]);
    let token = world.token(&[]);
    let at = |args: &[&str]| remote(&world, &server.url, args).env("HARVEST_TOKEN", &token);
    let repo = world.repo();
    let asked = json_of(&at(&["task", "add", "Wait", "--repo", repo.to_str().unwrap(), "--json"]).finish());
    let id = asked["id"].as_str().unwrap();
    let mut following = at(&["task", "logs", &id[..6], "--follow", "--json"]).start();
    following.wait_for_type("agent.started");
    let told = json_of(&at(&["task", "terminate", &id[..6], "--json"]).finish());
    assert_eq!(told["id"], *id);
    let ran = following.finish();
    let events = ran.events();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert_eq!(events.last().unwrap()["data"]["status"], "cancelled", "{events:#?}");
    let client = server.with(&token);
    let task = client.get(&format!("/api/tasks/{id}")).ok();
    assert_eq!(task["status"], "cancelled");
    let journal = client.journal(task["sessions"][0]["id"].as_str().unwrap(), 0);
    assert_eq!(events, journal, "each event once");
    // One that has ended is printed whole, and does not end again.
    assert_eq!(at(&["task", "logs", id, "--follow", "--json"]).finish().events(), journal);
    let again = at(&["task", "terminate", id]).finish();
    assert!(again.exit == Some(2) && again.stderr.contains("HV-0153"), "{again:?}");
}

#[test]
fn tokens_of_a_server_are_made_listed_and_revoked() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let (admin, eve) = (world.token(&[]), world.token(&["--role", "member", "--user", "eve"]));
    let at = |token: &str, args: &[&str]| remote(&world, &server.url, args).env("HARVEST_TOKEN", token).finish();
    let create = ["token", "create", "--name", "ci", "--role", "viewer", "--user", "ada", "--expires-in-days", "2"];
    let made = json_of(&at(&admin, &[&create[..], &["--project", "shop", "--json"]].concat()));
    assert_eq!(
        (&made["name"], &made["user"], &made["role"], &made["projects"]),
        (&json!("ci"), &json!("ada"), &json!("viewer"), &json!(["shop"]))
    );
    let secret = made["token"].as_str().unwrap();
    assert_eq!(server.with(secret).get("/api/me").ok()["user"], "ada");
    let listed = json_of(&at(&admin, &["token", "list", "--json"]));
    let rows = listed["items"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["id"] == made["id"] && row["token"] == Value::Null), "{listed:#}");
    assert!(at(&admin, &["token", "list"]).stdout.contains("ci"));
    // A token of someone who is no admin makes none, and sees none of others.
    let refused = at(&eve, &create);
    assert!(refused.exit == Some(2) && refused.stderr.contains("HV-0602"), "{refused:?}");
    let own = json_of(&at(&eve, &["token", "list", "--json"]));
    let users: Vec<&Value> = own["items"].as_array().unwrap().iter().map(|row| &row["user"]).collect();
    assert_eq!(users, [&json!("eve")]);
    let unknown = at(&eve, &["token", "revoke", made["id"].as_str().unwrap()]);
    assert!(unknown.exit == Some(2) && unknown.stderr.contains("HV-0611"), "{unknown:?}");
    let short = &made["id"].as_str().unwrap()[..8];
    assert_eq!(json_of(&at(&admin, &["token", "revoke", short, "--json"]))["revoked"], true);
    server.with(secret).get("/api/me").problem(401, "HV-0601");
    let revoked = at(secret, &["task", "list"]);
    assert!(revoked.exit == Some(2) && revoked.stderr.contains("check HARVEST_TOKEN"), "{revoked:?}");
    let link = at(&admin, &["token", "link"]);
    assert!(link.exit == Some(2) && link.stderr.contains("HARVEST_URL"), "{link:?}");
}

#[test]
fn caps_convoys_schedules_and_templates_of_a_server() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let token = world.token(&[]);
    let at = |args: &[&str]| remote(&world, &server.url, args).env("HARVEST_TOKEN", &token).finish();
    let client = server.with(&token);
    let repo = world.repo().display().to_string();
    let capped = at(&["queue", "cap", "user:ada", "2"]);
    assert_eq!(capped.stdout, "✓ at most 2 tasks of user:ada at a time\n", "{capped:?}");
    assert_eq!(client.get("/api/queue").ok()["caps"][0]["size"], 2);
    assert_eq!(at(&["queue", "cap", "user:ada", "none"]).exit, Some(0));
    assert_eq!(client.get("/api/queue").ok()["caps"], json!([]));

    let cron = ["schedule", "add", "0 3 * * 1-5", "Update the dependencies", "--time-zone", "Europe/Berlin"];
    let unnamed = at(&cron);
    assert!(unnamed.exit == Some(2) && unnamed.stderr.contains("--repo is missing"), "{unnamed:?}");
    let made = at(&[&cron[..], &["--repo", &repo, "--missed", "skip", "--priority", "low"]].concat());
    assert!(made.exit == Some(0) && made.stdout.contains("created; next run 2"), "{made:?}");
    let kept = client.get("/api/schedules").ok();
    let schedule = &kept["items"][0];
    assert_eq!((&schedule["cron"], &schedule["missed"]), (&json!("0 3 * * 1-5"), &json!("skip")));
    assert_eq!(json_of(&at(&["schedule", "list", "--json"]))["items"], kept["items"]);
    // Where the data is, a schedule is shown in the same way.
    let here = json_of(&world.harvest(&["schedule", "list", "--json"]).finish());
    assert_eq!(here["items"], kept["items"]);
    let listed = at(&["schedule", "list"]).stdout;
    assert!(listed.contains("Update the dependencies") && listed.contains("03:00 Europe/Berlin"), "{listed}");
    assert_eq!(at(&["schedule", "remove", &schedule["id"].as_str().unwrap()[..8]]).exit, Some(0));
    assert_eq!(client.get("/api/schedules").ok()["items"], json!([]));

    let add = ["template", "add", "upgrade", "Upgrade {{ package }}", "--repo", &repo, "--convoy", "spring"];
    assert_eq!(at(&add).stdout, "✓ template upgrade saved; parameters: package\n");
    assert!(at(&["template", "list"]).stdout.contains("Upgrade {{ package }}"));
    let missing = at(&["template", "use", "upgrade"]);
    assert!(missing.exit == Some(2) && missing.stderr.contains("needs a value for package"), "{missing:?}");
    let task = json_of(&at(&["template", "use", "upgrade", "--set", "package=serde", "--json"]));
    assert_eq!((&task["prompt"], &task["convoy"]), (&json!("Upgrade serde"), &json!("spring")));
    assert_eq!(at(&["template", "remove", "upgrade"]).exit, Some(0));
    assert_eq!(at(&["template", "remove", "upgrade"]).exit, Some(2));

    assert_eq!(json_of(&at(&["convoy", "list", "--json"]))["items"], client.get("/api/convoys").ok()["items"]);
    let shown = at(&["convoy", "show", "spring"]).stdout;
    assert!(shown.contains("0 of 1 completed") && shown.contains("Upgrade serde"), "{shown}");
    let unknown = at(&["convoy", "show", "autumn"]);
    assert!(unknown.exit == Some(2) && unknown.stderr.contains("there is no convoy `autumn`"), "{unknown:?}");
    // The list says what a task waits for, here and there.
    let id = task["id"].as_str().unwrap();
    let later = json_of(&at(&["task", "add", "Later", "--repo", &repo, "--after", id, "--json"]));
    let list = json_of(&at(&["task", "list", "--json"]));
    assert_eq!(list["items"][0]["id"], later["id"]);
    let waiting = json!({ "turn": "blocked", "after": [{ "id": id, "status": "pending" }] });
    assert_eq!(list["items"][0]["waiting"], waiting);
    assert_eq!(world.json(&["task", "list"])["items"], list["items"]);
    assert!(at(&["task", "list"]).stdout.contains(&format!("waits for {}", &id[..8])));
}

#[test]
fn a_template_of_a_server_is_used_with_options_and_without_a_repository() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let token = world.token(&[]);
    let at = |args: &[&str]| remote(&world, &server.url, args).env("HARVEST_TOKEN", &token).finish();
    let repo = world.repo().display().to_string();
    let add = ["template", "add", "upgrade", "Upgrade {{ package }}", "--priority", "low", "--gate", "--retries", "2"];
    let added = at(&add);
    assert_eq!(added.stdout, "✓ template upgrade saved; parameters: package\n", "{added:?}");
    let listed = json_of(&at(&["template", "list", "--json"]));
    assert_eq!(listed["items"][0]["options"]["repo"], Value::Null, "{listed:#}");
    let filled = ["template", "use", "upgrade", "--set", "package=serde"];
    let nowhere = at(&filled);
    assert!(nowhere.exit == Some(2) && nowhere.stderr.contains("names none"), "{nowhere:?}");
    assert!(nowhere.stderr.contains("--repo"), "{nowhere:?}");
    let first = json_of(&at(&[&filled[..], &["--repo", &repo, "--json"]].concat()));
    assert_eq!((&first["prompt"], &first["repository"]), (&json!("Upgrade serde"), &json!(repo)));
    let more =
        ["--repo", &repo, "--priority", "high", "--test", "make check", "--budget-usd", "1.5", "--convoy", "spring"];
    let (id, url) = (first["id"].as_str().unwrap(), "https://example.com/issues/7");
    let queued = ["--after", &id[..8], "--source-url", url, "--timeout", "90s", "--idempotency-key", "one", "--json"];
    let args = [&filled[..], &more, &queued].concat();
    let task = json_of(&at(&args));
    assert_eq!(
        (&task["priority"], &task["budget_usd"], &task["convoy"]),
        (&json!("high"), &json!(1.5), &json!("spring"))
    );
    assert_eq!((&task["after"], &task["source_url"]), (&json!([id]), &json!(url)), "{task:#}");
    let settings = &task["settings"];
    assert_eq!((&settings["test"], &settings["gate"]), (&json!("make check"), &json!(true)), "{task:#}");
    assert_eq!(task["retries_left"], 2, "{task:#}");
    assert_eq!(json_of(&at(&args))["id"], task["id"], "asked twice, made once");
    // What is made here of the same template is the same.
    let here = world.json(&[&filled[..], &more].concat());
    for field in ["prompt", "repository", "priority", "budget_usd", "convoy", "retries_left"] {
        assert_eq!(here[field], task[field], "{field}");
    }
    for field in ["test", "gate"] {
        assert_eq!(here["settings"][field], settings[field], "{field}");
    }
    let client = server.with(&token);
    let path = "/api/templates/upgrade/tasks";
    let values = json!({ "package": "serde" });
    for (options, field) in [
        (json!({ "repository": repo, "budget_usd": 0 }), "budget_usd"),
        (json!({ "repository": repo, "prompt": "Else" }), "options"),
        (json!({ "repository": "" }), "options"),
        (json!({}), "repository"),
    ] {
        let problem = client.post(path, &json!({ "values": values, "options": options })).problem(400, "HV-0604");
        assert_eq!(problem["field"], field, "{problem}");
    }
    // Who has some projects alone cannot make one for all.
    let own = server.with(&world.token(&["--role", "member", "--project", "shop"]));
    let open = json!({ "name": "open", "task": { "prompt": "Mend it" } });
    assert_eq!(own.post("/api/templates", &open).problem(403, "HV-0602")["field"], "repository");
}

#[test]
fn repositories_and_credentials_of_a_server() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let token = world.token(&["--user", "ada"]);
    let at = |args: &[&str]| remote(&world, &server.url, args).env("HARVEST_TOKEN", &token).finish();
    let client = server.with(&token);
    let repo = world.repo().display().to_string();
    let unsaid = at(&["repo", "add", &repo, "--depth", "1"]);
    assert!(unsaid.exit == Some(2) && unsaid.stderr.contains("--depth is for work on this machine"), "{unsaid:?}");
    let added = at(&["repo", "add", &repo, "--name", "shop"]);
    assert!(added.exit == Some(0) && added.stdout.starts_with("✓ repository shop added\n"), "{added:?}");
    assert_eq!(json_of(&at(&["repo", "list", "--json"]))["items"][0]["name"], "shop");
    let listed = at(&["repo", "list"]).stdout;
    assert!(listed.contains("shop") && listed.contains(&repo) && listed.contains("HEAD"), "{listed}");
    let built = at(&["repo", "build", "shop"]);
    assert!(built.exit == Some(0) && built.stdout.contains("a build of shop is requested"), "{built:?}");
    assert_eq!(at(&["repo", "remove", "shop"]).exit, Some(0));
    assert_eq!(client.get("/api/repositories").ok()["items"], json!([]));

    let key = "sk-ant-api03-over-the-api-0042";
    world.give(key);
    let add = ["credential", "add", "anthropic", "--name", "spare", "--from-stdin"];
    let told =
        |args: &[&str], key: &str| remote(&world, &server.url, args).env("HARVEST_TOKEN", &token).input(key).finish();
    let added = told(&add, key);
    assert!(added.exit == Some(0) && added.stdout.contains("anthropic key of user:ada saved as"), "{added:?}");
    assert!(!format!("{added:?}").contains(key));
    let kept = json_of(&at(&["credential", "list", "--json"]));
    assert_eq!(kept["items"], client.get("/api/credentials").ok()["items"]);
    assert_eq!(kept["items"][0]["usable"], true, "{kept:#}");
    let listed = at(&["credential", "list"]).stdout;
    assert!(listed.contains("…0042") && listed.contains("STATE") && listed.contains("usable"), "{listed}");
    assert_eq!(listed, world.harvest(&["credential", "list"]).finish().stdout);
    let id = &kept["items"][0]["id"].as_str().unwrap()[..8];
    world.give("sk-ant-api03-over-the-api-0043");
    let rotated = told(&["credential", "rotate", id, "--from-stdin"], "sk-ant-api03-over-the-api-0043");
    assert!(rotated.exit == Some(0) && rotated.stdout.contains("has a new secret (…0043)"), "{rotated:?}");
    let master = at(&["credential", "rotate", "--master-key"]);
    assert!(master.exit == Some(2) && master.stderr.contains("unset HARVEST_URL"), "{master:?}");
    assert_eq!(at(&["credential", "remove", id]).exit, Some(0));
    assert_eq!(client.get("/api/credentials").ok()["items"], json!([]));
}
