//! Quotas at every door, answers that hold no secret, changes that are recorded with themselves, streams that end with the
//! token they were opened with, and schedules that may no more than their owner.

use std::ops::Range;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use ureq::http::Method;

use crate::cluster::{self, Cluster};
use crate::github::Hub;
use crate::serve::websocket;
use crate::serve_access::sign_in;
use crate::served::{Answer, Client, Server, Stream};
use crate::support::{FIX, PATIENCE, World};

/// Long before a server looks at the tokens of open streams unasked, which it does every 30 s: it was woken. How soon after
/// that a stream ends is measured by `make bench`.
pub const WOKEN: Duration = Duration::from_secs(15);

/// A server looks at the token of a stream that was just opened, too. By then it has: what comes later has to wake it.
pub const LOOKED_AT: Duration = Duration::from_secs(1);

pub fn settings(world: &World, text: &str) {
    let folder = world.home().join(".config/harvest");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("harvest.toml"), text).unwrap();
}

pub fn database(world: &World) -> rusqlite::Connection {
    let database = rusqlite::Connection::open(world.data().join("harvest.db")).unwrap();
    database.busy_timeout(PATIENCE).unwrap();
    database
}

pub fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_else(|| panic!("{field} of {value}"))
}

/// Asks until it is so.
#[track_caller]
pub fn eventually(client: &Client, path: &str, so: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let answer = client.get(path).ok();
        if so(&answer) {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{answer}");
        std::thread::yield_now();
    }
}

#[test]
fn of_twelve_requests_at_once_a_quota_of_two_accepts_two() {
    let world = World::new();
    settings(&world, "[quota]\nuser_sessions = 2\n");
    let server = world.serve(&["--agents", "0"]);
    let client = server.with(&world.token(&[]));
    let ask = world.ask("Mend it");
    let answers: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..12).map(|_| scope.spawn(|| client.post("/api/tasks", &ask))).collect();
        asking.into_iter().map(|asking| asking.join().unwrap()).collect()
    });
    let (made, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
    assert_eq!(made.len(), 2, "{answers:#?}");
    for answer in refused {
        answer.problem(429, "HV-0617");
        assert_eq!(answer.header("retry-after"), Some("30"));
    }
    assert_eq!(client.get("/api/tasks").ok()["items"].as_array().unwrap().len(), 2);
}

#[test]
fn every_door_is_held_to_the_quota() {
    let world = World::new();
    settings(&world, "[quota]\nuser_sessions = 1\n");
    let server = world.serve(&["--agents", "0"]);
    let client = server.with(&world.token(&[]));
    let ended = client.post("/api/tasks", &world.ask("Mend it")).ok();
    client.post(&format!("/api/tasks/{}/cancel", text(&ended, "id")), &json!({})).ok();
    client.post("/api/templates", &json!({ "name": "mend", "task": world.ask("Mend {{ what }}") })).ok();
    // One that is under way takes the only place.
    client.post("/api/tasks", &world.ask("Mend it")).ok();
    let session = text(&ended["sessions"][0], "id");
    let race = json!({ "prompt": "Mend it", "repository": world.repo(), "race": { "agents": ["builtin", "builtin"] } });
    let doors = [
        ("/api/tasks".to_owned(), world.ask("Mend it")),
        ("/api/tasks".to_owned(), race),
        ("/api/sessions".to_owned(), world.ask("Mend it")),
        ("/api/templates/mend/tasks".to_owned(), json!({ "values": { "what": "it" } })),
        (format!("/api/tasks/{}/retry", text(&ended, "id")), json!({})),
        (format!("/api/sessions/{session}/prompts"), json!({ "prompt": "Go on" })),
    ];
    for (path, body) in doors {
        let answer = client.post(&path, &body);
        assert_eq!(answer.status, 429, "{path}: {answer:?}");
        answer.problem(429, "HV-0617");
    }
    server.with(&world.token(&["--role", "admin"])).post("/api/demo", &json!({})).problem(429, "HV-0617");
    let beads = world.path().join("beads.jsonl");
    std::fs::write(&beads, "{\"id\":\"b-1\",\"title\":\"Mend it\",\"status\":\"open\"}\n").unwrap();
    for command in [
        vec!["task", "add", "Mend it"],
        vec!["task", "retry", text(&ended, "id")],
        vec!["session", "prompt", session, "Go on"],
        vec!["import", "beads", beads.to_str().unwrap()],
    ] {
        let ran = world.harvest(&command).current_dir(&world.repo()).finish();
        assert!(ran.exit != Some(0) && ran.stderr.contains("HV-0617"), "{command:?}: {ran:?}");
    }
    assert_eq!(world.tasks().len(), 2, "nothing is left of what was refused");
}

#[test]
fn work_on_other_peoples_tasks_is_held_to_the_quota_of_whoever_asks() {
    let world = World::new();
    settings(&world, "[quota]\nuser_sessions = 2\n");
    let server = world.serve(&["--agents", "0"]);
    let [ada, eve] = ["ada", "eve"].map(|user| server.with(&world.token(&["--user", user])));
    let submit = || ada.post("/api/tasks", &world.ask("Mend it")).ok();
    let ended: Vec<Value> = (0..4)
        .map(|_| {
            let task = submit();
            ada.post(&format!("/api/tasks/{}/cancel", text(&task, "id")), &json!({})).ok();
            task
        })
        .collect();
    let under_way = submit();
    let prompts = |task: &Value| format!("/api/sessions/{}/prompts", text(&task["sessions"][0], "id"));
    let retry = |task: &Value| format!("/api/tasks/{}/retry", text(task, "id"));
    let more = json!({ "prompt": "Go on" });
    eve.post(&prompts(&ended[0]), &more).ok();
    eve.post(&retry(&ended[1]), &json!({})).ok();
    let doors = [
        (prompts(&ended[2]), &more),
        (retry(&ended[2]), &json!({})),
        (prompts(&under_way), &more),
        ("/api/tasks".to_owned(), &world.ask("Mend it")),
    ];
    for (path, body) in doors {
        let answer = eve.post(&path, body);
        assert!(
            text(&answer.problem(429, "HV-0617"), "detail")
                .contains("user eve has reached the limit for unfinished tasks: 2"),
            "{path}: {answer:?}"
        );
    }
    // What Eve asks of Ada's tasks takes none of Ada's places.
    submit();
    ada.post("/api/tasks", &world.ask("Mend it")).problem(429, "HV-0617");
    // What is under way for Eve already continues.
    eve.post(&prompts(&ended[0]), &more).ok();
}

#[test]
fn a_token_that_was_made_under_a_key_is_kept_nowhere_in_clear() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let keyed = admin.clone().header("idempotency-key", "once");
    let ask = json!({ "name": "robot", "role": "member" });
    let made = keyed.post("/api/tokens", &ask).ok();
    let secret = text(&made, "token");
    let again = keyed.post("/api/tokens", &ask);
    let problem = again.problem(409, "HV-0173");
    assert!(text(&problem, "detail").contains(text(&made, "id")) && !again.text.contains(secret), "{problem}");
    let robots = |client: &Client| {
        let all = client.get("/api/tokens").ok();
        all["items"].as_array().unwrap().iter().filter(|token| token["name"] == "robot").count()
    };
    assert_eq!(robots(&admin), 1);
    for file in std::fs::read_dir(world.data()).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "the token is in {}", path.display());
        }
    }
    // A key belongs to the token that it came with, not to a name that several tokens share.
    let other = server.with(&world.token(&["--role", "admin"])).header("idempotency-key", "once");
    other.post("/api/tokens", &ask).ok();
    assert_eq!(robots(&admin), 2);
}

#[test]
fn changes_on_the_command_line_are_in_the_audit_log() {
    let world = World::new();
    let in_repo = |args: &[&str]| {
        let ran = world.harvest(args).current_dir(&world.repo()).finish();
        assert_eq!(ran.exit, Some(0), "{args:?}: {ran:?}");
    };
    in_repo(&["task", "add", "Mend it"]);
    in_repo(&["schedule", "add", "0 3 * * *", "Mend it"]);
    in_repo(&["queue", "pause"]);
    let task = world.tasks()[0].clone();
    in_repo(&["task", "cancel", text(&task, "id")]);
    in_repo(&["task", "retry", text(&task, "id")]);
    in_repo(&["token", "create", "--role", "viewer"]);
    // Looking is no change.
    in_repo(&["task", "list"]);
    let log = world.harvest(&["audit", "export"]).finish().stdout;
    let entries: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let actions: Vec<&str> = entries.iter().map(|entry| text(entry, "action")).collect();
    let expected = ["task.create", "schedule.create", "queue.pause", "task.cancel", "task.retry", "token.create"];
    assert_eq!(actions, expected, "{log}");
    assert_eq!(text(&entries[0], "target"), format!("task:{}", text(&task, "id")));
    assert!(entries.iter().all(|entry| text(entry, "actor").starts_with("user:")), "{log}");
    assert_eq!(world.json(&["audit", "verify"])["intact"], true);
}

#[test]
fn commands_that_change_files_alone_are_in_the_audit_log_too() {
    let world = World::new();
    let run = |args: &[&str]| {
        let ran = world.harvest(args).current_dir(&world.repo()).finish();
        assert_eq!(ran.exit, Some(0), "{args:?}: {ran:?}");
    };
    let worked = world.run(&json!([{ "shell": FIX }, {}]), &[]).assert_ended(0, "completed", None);
    run(&["task", "apply", text(&worked, "task_id")]);
    run(&["mcp", "add", "docs", "--url", "https://docs.example.com/mcp"]);
    run(&["mcp", "remove", "docs"]);
    run(&["gc", "--dry-run"]);
    run(&["gc"]);
    let (backup, beads) = (world.path().join("b.tar"), world.path().join("issues.jsonl"));
    std::fs::write(&beads, "{\"id\":\"b-1\",\"title\":\"Mend it\",\"status\":\"open\"}\n").unwrap();
    run(&["import", "beads", beads.to_str().unwrap()]);
    std::fs::remove_file(&beads).unwrap();
    run(&["export", "beads", beads.to_str().unwrap()]);
    run(&["backup", backup.to_str().unwrap()]);
    let entries = |log: &str| -> Vec<(String, String)> {
        let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        entries.map(|entry| (text(&entry, "action").to_owned(), text(&entry, "target").to_owned())).collect()
    };
    let log = entries(&world.harvest(&["audit", "export"]).finish().stdout);
    let actions: Vec<&str> = log.iter().map(|(action, _)| action.as_str()).collect();
    let expected = ["run", "task.apply", "mcp.create", "mcp.remove", "gc", "import.beads", "export.beads", "backup"];
    assert_eq!(actions, expected);
    assert_eq!(log[1].1, format!("task:{}", text(&worked, "task_id")));
    assert_eq!(log[2].1, "mcp:docs");
    assert_eq!(log[7].1, format!("file:{}", backup.display()));
    // The entry of a backup is written after it, and what is restored continues from before.
    let target = world.path().join("restored");
    let target = target.to_str().unwrap();
    let elsewhere = |args: &[&str]| {
        let ran = world.harvest_at(std::path::Path::new(target), args).finish();
        assert_eq!(ran.exit, Some(0), "{args:?}: {ran:?}");
        ran.stdout
    };
    elsewhere(&["restore", backup.to_str().unwrap()]);
    let restored = entries(&elsewhere(&["audit", "export"]));
    assert_eq!(restored[..7], log[..7]);
    assert_eq!(restored[7..], [("restore".to_owned(), format!("file:{}", backup.display()))]);
    elsewhere(&["audit", "verify"]);
}

#[test]
fn a_backup_names_the_links_that_it_leaves_out() {
    let world = World::new();
    let ran = world.harvest(&["task", "add", "Mend it"]).current_dir(&world.repo()).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let folder = world.data().join("sessions/s/repository.git");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("packed-refs")).unwrap();
    let file = |name: &str| world.path().join(name).to_str().unwrap().to_owned();
    let shown = world.harvest(&["backup", &file("a.tar")]).finish();
    assert!(
        shown.stdout.contains("1 link or special file is left out: sessions/s/repository.git/packed-refs"),
        "{shown:?}"
    );
    let left_out = json!({ "count": 1, "first": ["sessions/s/repository.git/packed-refs"] });
    assert_eq!(world.json(&["backup", &file("b.tar")])["left_out"], left_out);
    let tar = std::fs::read(file("b.tar")).unwrap();
    let manifest = String::from_utf8_lossy(&tar).into_owned();
    assert!(manifest.contains("\"left_out\"") && !manifest.contains("root:x:0"));
}

/// How long a stream goes on from here.
fn until_the_end(mut stream: Stream) -> Duration {
    let begun = Instant::now();
    while stream.next().is_some() {}
    begun.elapsed()
}

/// Opens every kind of stream with a token, and returns a check that all of them end because of something that begins and is
/// done at these times.
pub fn streams(server: &Server, token: &str, session: &str) -> impl FnOnce(&str, Range<Instant>) + use<> {
    let client = server.with(token);
    let journal = format!("/api/sessions/{session}/events");
    let mut events = client.stream(&journal);
    events.until("task.created");
    let mut all = client.stream("/api/events");
    let bearer = format!("Bearer {token}");
    let mut socket = websocket(server, &journal, &[("authorization", &bearer)]).unwrap();
    socket.read().unwrap();
    std::thread::sleep(LOOKED_AT);
    let (ended, ends) = std::sync::mpsc::channel();
    let watch = |kind: &'static str, mut is_over: Box<dyn FnMut() -> bool + Send>| {
        let ended = ended.clone();
        std::thread::spawn(move || {
            while !is_over() {}
            ended.send((kind, Instant::now()))
        });
    };
    watch("journal", Box::new(move || events.next().is_none()));
    watch("feed", Box::new(move || all.next().is_none()));
    watch("socket", Box::new(move || matches!(socket.read(), Ok(tungstenite::Message::Close(_)) | Err(_))));
    move |what, cause| {
        for _ in 0..3 {
            let (kind, at) = ends.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: a stream goes on"));
            assert!(at >= cause.start, "{what}: the {kind} ended before");
            let took = at.saturating_duration_since(cause.end);
            assert!(took < WOKEN, "{what}: the {kind} went on for {took:?}");
        }
    }
}

#[test]
fn streams_end_at_the_revocation_expiry_and_sign_out_of_their_token() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let owner = server.with(&world.token(&[]));
    let task = owner.post("/api/tasks", &world.ask("Mend it")).ok();
    let session = text(&task["sessions"][0], "id");
    let revoked = world.json(&["token", "create"]);
    let end = streams(&server, text(&revoked, "token"), session);
    // By another process than the one that streams.
    let begun = Instant::now();
    world.json(&["token", "revoke", text(&revoked, "id")]);
    end("revoked", begun..Instant::now());
    let expiring = world.json(&["token", "create", "--expires-in-days", "1"]);
    let soon = jiff::Timestamp::now() + Duration::from_secs(8);
    database(&world)
        .execute(
            "UPDATE tokens SET expires_at = ?1 WHERE id = ?2",
            [soon.to_string(), text(&expiring, "id").to_owned()],
        )
        .unwrap();
    let end = streams(&server, text(&expiring, "token"), session);
    let begun = Instant::now();
    while jiff::Timestamp::now() < soon {
        std::thread::yield_now();
    }
    end("expired", begun..Instant::now());
    let browser = sign_in(&server);
    let own = server.anyone().header("cookie", &browser.cookie).header("x-harvest-csrf", &browser.csrf);
    let mut stream = own.stream(&format!("/api/sessions/{session}/events"));
    stream.until("task.created");
    std::thread::sleep(LOOKED_AT);
    let begun = Instant::now();
    assert_eq!(own.post("/api/logout", &json!({})).status, 204);
    until_the_end(stream);
    assert!(begun.elapsed() < WOKEN, "signed out: the journal went on for {:?}", begun.elapsed());
    // Others go on.
    owner.get("/api/me").ok();
}

#[test]
fn streams_end_when_a_project_loses_the_repository_or_is_removed_also_while_the_settings_cannot_be_read() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let owner = server.with(&world.token(&["--role", "admin"]));
    let task = owner.post("/api/tasks", &world.ask("Mend it")).ok();
    let session = text(&task["sessions"][0], "id");
    let make = |name: &str| owner.post("/api/projects", &json!({ "name": name, "repositories": [world.repo()] })).ok();
    let token = |project: &str| world.token(&["--role", "viewer", "--project", project]);
    make("shop");
    let end = streams(&server, &token("shop"), session);
    let begun = Instant::now();
    owner.send(Method::PATCH, "/api/projects/shop", Some(&json!({ "repositories": [] }))).ok();
    end("without the repository", begun..Instant::now());
    make("garden");
    let garden = token("garden");
    let end = streams(&server, &garden, session);
    settings(&world, "budget_usd = oops\n");
    let begun = Instant::now();
    let removed = owner.delete("/api/projects/garden");
    assert_eq!(removed.status, 204, "what is done is no failure: {removed:?}");
    assert!(removed.header("warning").is_some_and(|warning| warning.contains("harvest.toml")), "{removed:?}");
    end("removed", begun..Instant::now());
    assert_eq!(server.with(&garden).get(&format!("/api/sessions/{session}")).status, 404);
    settings(&world, "");
}

#[test]
fn streams_of_another_server_on_the_same_database_end_too() {
    let Some(cluster) = Cluster::private() else { return harvest_testing::skip(cluster::WITHOUT) };
    let world = World::new();
    let url = cluster.url("postgres");
    let serve = |data: &str| {
        let all = ["serve", "--listen", "127.0.0.1:0", "--json", "--agents", "0", "--database-url", &url];
        Server::started(world.harvest_at(&world.path().join(data), &all).start())
    };
    let (first, second) = (serve("first"), serve("second"));
    let token = |args: &[&str]| {
        let mut all = vec!["token", "create", "--database-url", &url];
        all.extend(args);
        world.json(&all)
    };
    let admin = first.with(text(&token(&["--role", "admin"]), "token"));
    let task = admin.post("/api/tasks", &world.ask("Mend it")).ok();
    let made = token(&[]);
    let end = streams(&second, text(&made, "token"), text(&task["sessions"][0], "id"));
    let begun = Instant::now();
    assert_eq!(admin.delete(&format!("/api/tokens/{}", text(&made, "id"))).status, 204);
    end("revoked over another server", begun..Instant::now());
}

#[test]
fn a_schedule_runs_as_its_owner_and_no_longer_than_they_may() {
    let world = World::new();
    let server = world.serve_with(&json!([{ "say": "Done." }]), &["--agents", "1"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let made = world.json(&["token", "create", "--user", "grace", "--role", "member"]);
    let grace = server.with(text(&made, "token"));
    admin.post("/api/repositories", &json!({ "source": world.repo(), "name": "shop" })).ok();
    let ask = json!({ "cron": "0 3 1 1 *", "time_zone": "UTC", "task": world.ask("Mend it") });
    let schedule = grace.post("/api/schedules", &ask).ok();
    assert_eq!((&schedule["owner"], &schedule["problem"]), (&json!("grace"), &Value::Null));
    let due = |moment: i64| {
        let sql = "UPDATE schedules SET next_ms = ?1";
        database(&world).execute(sql, [moment]).unwrap();
        world.json(&["queue", "resume"]);
    };
    due(1_700_000_000_000);
    let ran = eventually(&admin, "/api/schedules", |page| page["items"][0]["last"].is_string());
    assert_eq!(ran["items"][0]["problem"], Value::Null, "{ran}");
    let tasks = admin.get("/api/tasks").ok();
    assert_eq!(
        (&tasks["items"][0]["requested_by"], &tasks["items"][0]["source"]),
        (&json!("grace"), &json!("schedule"))
    );
    world.json(&["token", "revoke", text(&made, "id")]);
    due(1_700_000_001_000);
    let refused = eventually(&admin, "/api/schedules", |page| page["items"][0]["problem"].is_string());
    assert!(text(&refused["items"][0], "problem").contains("its owner grace is refused"), "{refused}");
    assert_eq!(admin.get("/api/tasks").ok()["items"].as_array().unwrap().len(), 1);
}

#[test]
fn a_budget_given_over_the_api_never_exceeds_the_projects() {
    let world = World::new();
    settings(&world, &format!("[project.shop]\nrepositories = [{:?}]\nbudget_usd = 2\n", world.repo()));
    let server = world.serve(&["--agents", "0"]);
    let client = server.with(&world.token(&[]));
    let with = |budget: f64| json!({ "prompt": "Mend it", "repository": world.repo(), "budget_usd": budget });
    assert_eq!(client.post("/api/tasks", &with(1.5)).ok()["budget_usd"], 1.5);
    for (path, body) in [
        ("/api/tasks", with(2.5)),
        ("/api/schedules", json!({ "cron": "0 3 * * *", "task": with(2.5) })),
        ("/api/templates", json!({ "name": "mend", "task": with(2.5) })),
    ] {
        let answer = client.post(path, &body);
        assert!(answer.status == 400 && answer.text.contains("budget_usd"), "{path}: {answer:?}");
    }
}

#[test]
fn those_of_one_project_do_not_see_the_settings_of_the_installation() {
    let world = World::new();
    let own = format!("[project.shop]\nrepositories = [{:?}]\nbudget_usd = 2\n", world.repo());
    settings(&world, &format!("timeout = \"17m\"\n[quota]\nuser_sessions = 7\n{own}"));
    let server = world.serve(&["--agents", "0"]);
    let seen = |args: &[&str]| server.with(&world.token(args)).get("/api/projects/shop/settings").ok();
    let all = seen(&["--role", "admin"]);
    let viewer = seen(&["--role", "viewer", "--project", "shop"]);
    let of = |page: &Value, key: &str| {
        page["in_force"].as_array().unwrap().iter().find(|setting| setting["key"] == key).cloned()
    };
    for key in ["timeout", "quota.user_sessions"] {
        assert!(of(&all, key).is_some() && of(&viewer, key).is_none(), "{key}: {viewer}");
    }
    assert_eq!(of(&viewer, "budget_usd").unwrap()["value"], 2.0);
    assert!(!viewer.to_string().contains("harvest.toml"), "{viewer}");
}

#[test]
fn a_template_used_over_the_api_loses_nothing_of_what_it_asks_for() {
    let world = World::new();
    settings(&world, "[mcp.notes]\ncommand = 'cat'\n");
    let server = world.serve(&["--agents", "0"]);
    let client = server.with(&world.token(&["--role", "admin"]));
    let ask = json!({
        "mcp": ["notes"], "prompt": "Mend {{ what }}", "repository": world.repo(), "gate": true, "plan_review": "builtin",
        "workflow": "research-plan-implement", "fallback_agents": ["builtin"], "timeout": 90, "test": "make check",
    });
    let direct = client.post("/api/tasks", &ask).ok();
    client.post("/api/templates", &json!({ "name": "mend", "task": ask })).ok();
    let used = client.post("/api/templates/mend/tasks", &json!({ "values": { "what": "it" } })).ok();
    assert_eq!(used["settings"], direct["settings"]);
    assert_eq!((&used["settings"]["gate"], &used["settings"]["plan_review"]), (&json!(true), &json!("builtin")));
    assert_eq!(used["settings"]["mcp"][0]["name"], "notes");
}

#[test]
fn a_server_that_drains_is_not_ready_and_its_counters_never_fall() {
    let world = World::new();
    let waits = json!([{ "say": "Done.", "tokens": { "input": 100, "output": 10 } }, { "shell": "while [ ! -e go ]; do sleep 0.05; done" }, {}]);
    let server = world.serve_with(&waits, &["--agents", "1"]);
    let client = server.with(&world.token(&["--role", "admin"]));
    let task = client.worked_off(&world.ask("Say it"));
    let counters = || -> Vec<f64> {
        let page = client.get("/metrics").text;
        ["harvest_tasks_finished_total ", "harvest_cost_usd_total "]
            .map(|name| page.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap())
            .to_vec()
    };
    let before = counters();
    assert!(before.iter().all(|value| *value > 0.0), "{before:?}");
    let gone = client.delete(&format!("/api/sessions/{}", text(&task["sessions"][0], "id")));
    assert_eq!(gone.status, 204, "{gone:?}");
    assert_eq!(counters(), before);
    let busy = client.post("/api/tasks", &world.ask("Wait")).ok();
    client.stream(&format!("/api/sessions/{}/events", text(&busy["sessions"][0], "id"))).until("agent.started");
    assert_eq!(server.anyone().get("/readyz").status, 200);
    server.running.signal(Signal::TERM);
    let begun = Instant::now();
    let ready = loop {
        let ready = server.anyone().get("/readyz");
        if ready.status != 200 {
            break ready;
        }
        assert!(begun.elapsed() < PATIENCE);
    };
    assert_eq!((ready.status, ready.json()), (503, json!({ "status": "draining" })));
    assert_eq!(server.anyone().get("/healthz").status, 200);
}

/// Asks until it is refused, and returns how often it was not.
fn until_refused(client: &Client, ask: impl Fn(&Client) -> Answer) -> usize {
    for count in 0..10_000 {
        let answer = ask(client);
        if answer.status == 429 {
            answer.problem(429, "HV-0607");
            assert!(answer.header("retry-after").is_some_and(|wait| wait.parse::<u64>().is_ok()), "{answer:?}");
            return count;
        }
    }
    panic!("nothing was refused");
}

#[test]
fn an_address_that_nobody_knows_signs_in_and_sends_webhooks_so_often_and_no_more() {
    let world = World::new();
    let _hub = Hub::new(&world);
    let server = world.serve(&["--agents", "0"]);
    let anyone = server.anyone();
    let sign_ins = until_refused(&anyone, |client| client.get("/login?code=guess"));
    assert!(sign_ins >= 120, "{sign_ins}");
    // Every way of signing in is held to the same rate, and other requests are not.
    // Some more come through meanwhile, since the rate goes on; a rate of their own would be 120 again.
    for way in ["/auth/github", "/auth/github/callback?code=guess"] {
        let more = until_refused(&anyone, |client| client.get(way));
        assert!(more < 120, "{way}: {more}");
    }
    assert_eq!(anyone.get("/healthz").status, 200);
    let client = server.with(&world.token(&[]));
    client.get("/api/me").ok();
    let unsigned = until_refused(&anyone, |client| client.post("/webhooks/github", &json!({})));
    assert!(unsigned >= 1_200, "{unsigned}");
    client.get("/api/me").ok();
}

#[test]
fn behind_a_trusted_proxy_one_client_does_not_use_up_the_rate_of_another() {
    let world = World::new();
    let server = world.serve(&["--agents", "0", "--trusted-proxy", "127.0.0.0/8"]);
    let from = |client: &str| server.anyone().header("x-forwarded-for", client);
    let sign_in = |client: &Client| client.get("/login?code=guess");
    until_refused(&from("198.51.100.7"), sign_in);
    // The first address of a list is only claimed.
    let claimed = until_refused(&from("192.0.2.1, 198.51.100.7"), sign_in);
    assert!(claimed < 120, "{claimed}");
    assert_ne!(sign_in(&from("198.51.100.8")).status, 429);
    let elsewhere = World::new();
    let untrusting = elsewhere.serve(&["--agents", "0"]);
    let from = |client: &str| untrusting.anyone().header("x-forwarded-for", client);
    until_refused(&from("198.51.100.7"), sign_in);
    let other = until_refused(&from("198.51.100.8"), sign_in);
    assert!(other < 120, "{other}");
    let ran = world.harvest(&["serve", "--trusted-proxy", "proxy.example.com"]).finish();
    assert!(ran.exit == Some(2) && ran.stderr.contains("a network like 10.0.0.0/8"), "{ran:?}");
}

#[test]
fn a_schedule_is_held_to_the_budget_and_the_repositories_of_the_time_of_its_run() {
    let world = World::new();
    let project =
        |budget: &str| format!("[project.shop]\nrepositories = [{:?}]\nbudget_usd = {budget}\n", world.repo());
    let garden = world.path().join("garden");
    std::fs::create_dir(&garden).unwrap();
    crate::support::init(&garden);
    crate::github_bases::commit(&garden, "bed.txt", "one");
    settings(&world, &project("2"));
    let serve = || world.serve_with(&json!([{ "say": "Done." }]), &["--agents", "1"]);
    let server = serve();
    let admin = world.token(&["--role", "admin"]);
    let grace = world.token(&["--role", "member", "--user", "grace"]);
    let source = json!({ "source": garden, "name": "garden" });
    server.with(&admin).post("/api/repositories", &source).ok();
    let schedule = |task: Value| {
        let ask = json!({ "cron": "0 3 1 1 *", "time_zone": "UTC", "task": task });
        text(&server.with(&grace).post("/api/schedules", &ask).ok(), "id").to_owned()
    };
    let dear = schedule(json!({ "prompt": "Mend it", "repository": world.repo(), "budget_usd": 1.5 }));
    let weed = schedule(json!({ "prompt": "Weed it", "repository": "garden" }));
    let due = |moment: i64| {
        database(&world).execute("UPDATE schedules SET next_ms = ?1, problem = NULL", [moment]).unwrap();
        world.json(&["queue", "resume"]);
    };
    let tasks = || server.with(&admin).get("/api/tasks").ok()["items"].as_array().unwrap().len();
    due(1_700_000_000_000);
    eventually(&server.with(&admin), "/api/tasks", |page| page["items"].as_array().unwrap().len() == 2);
    // The repository is taken away, and the project may cost less.
    assert_eq!(server.with(&admin).delete("/api/repositories/garden").status, 204);
    settings(&world, &project("1"));
    due(1_700_000_001_000);
    let problem = |page: &Value, id: &str| {
        let all = page["items"].as_array().unwrap();
        all.iter().find(|one| one["id"] == id).unwrap()["problem"].as_str().map(str::to_owned)
    };
    let refused = eventually(&server.with(&admin), "/api/schedules", |page| {
        problem(page, &dear).is_some() && problem(page, &weed).is_some()
    });
    let (dear, weed) = (problem(&refused, &dear).unwrap(), problem(&refused, &weed).unwrap());
    assert!(dear.contains("its budget of $1.50 is more than the $1.00"), "{dear}");
    assert!(weed.contains("is not known here any more"), "{weed}");
    assert_eq!(tasks(), 2);
}
