//! Names that people give hold no key, whichever door they come through.

use std::fs;

use serde_json::{Value, json};
use ureq::http::Method;

use crate::secret_scan::Scanner;
use crate::secrets::{SHAPES, assert_nowhere};
use crate::serve_limits::{database, settings, text};
use crate::served::{Answer, Client};
use crate::support::World;

/// Has no shape, and could be a name; only the vault knows it.
const KEPT: &str = "canaryofthevault0123456789";

fn world_with_a_kept_secret() -> World {
    let world = World::new();
    let added = world.harvest(&["credential", "add", "openai", "--from-stdin"]).input(KEPT).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    world
}

/// What is sent to each door of the API, and the field that it is refused for.
fn asked_of_the_api(world: &World, admin: &Client, comments: &str, key: &str) -> Vec<(&'static str, Answer)> {
    let line = json!({ "kind": "line", "path": format!("src/{key}"), "side": "new", "line": 1 });
    let ask = |field: &str| {
        let mut ask = world.ask("Mend it");
        ask[field] = key.into();
        ask
    };
    let credential = |field: &str, value: String| {
        let mut ask = json!({ "provider": "openai", "name": "spare", "secret": "x" });
        ask[field] = value.into();
        admin.post("/api/credentials", &ask)
    };
    let cap = |name: String, size: Option<u32>| {
        admin.send(Method::PUT, "/api/queue/caps", Some(&json!({ "name": name, "size": size })))
    };
    let token = |field: &str, value: Value| {
        let mut ask = json!({ "name": "ci", "role": "member" });
        ask[field] = value;
        admin.post("/api/tokens", &ask)
    };
    let template = |name: &str, task: Value| admin.post("/api/templates", &json!({ "name": name, "task": task }));
    let schedule = |task: Value| admin.post("/api/schedules", &json!({ "cron": "0 3 * * *", "task": task }));
    let member = format!("/api/projects/shop/members/{key}");
    let own = json!({ "provider": "openai", "name": "hollyhocks", "secret": "hollyhocks" });
    vec![
        ("the name of a token", token("name", key.into())),
        ("its user", token("user", key.into())),
        ("its projects", token("projects", json!([key]))),
        ("a member", admin.send(Method::PUT, &member, Some(&json!({ "role": "member" })))),
        ("a project", admin.post("/api/projects", &json!({ "name": key }))),
        ("a comment", admin.post(comments, &json!({ "about": line, "text": "Why?" }))),
        ("the name of a credential", credential("name", key.to_owned())),
        ("its scope", credential("scope", format!("team:{key}"))),
        ("its address", credential("base_url", format!("https://models.example.com/{key}"))),
        ("a credential that is called like its secret", admin.post("/api/credentials", &own)),
        ("a template", template(key, world.ask("Mend it"))),
        ("the convoy of a template", template("mend", ask("convoy"))),
        ("the base of a template", template("mend", ask("base"))),
        ("the convoy of a schedule", schedule(ask("convoy"))),
        ("the base of a schedule", schedule(ask("base"))),
        ("the convoy of a task", admin.post("/api/tasks", &ask("convoy"))),
        ("the base of a task", admin.post("/api/tasks", &ask("base"))),
        ("the agent of a task", admin.post("/api/tasks", &ask("agent"))),
        ("its servers", {
            let mut ask = world.ask("Mend it");
            ask["mcp"] = json!([key]);
            admin.post("/api/tasks", &ask)
        }),
        ("the convoy of a session", admin.post("/api/sessions", &ask("convoy"))),
        ("a repository", admin.post("/api/repositories", &json!({ "source": world.repo(), "name": key }))),
        ("its branch", admin.post("/api/repositories", &json!({ "source": world.repo(), "branch": key }))),
        ("a cap", cap(format!("user:{key}"), Some(3))),
        ("a cap of a repository", cap(format!("repository:https://git.example.com/{key}/shop.git"), Some(3))),
        (
            "a repository of a project",
            admin.post("/api/projects", &json!({ "name": "till", "repositories": [format!("/srv/{key}")] })),
        ),
        ("a cap to be taken away", cap(format!("credential:{key}"), None)),
        ("an idempotency key", admin.clone().header("idempotency-key", key).post("/api/tasks", &world.ask("Mend it"))),
    ]
}

#[test]
fn names_that_hold_a_key_are_refused_by_the_api_and_kept_nowhere() {
    let world = world_with_a_kept_secret();
    let scanner = Scanner::new([SHAPES[0], KEPT]);
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let task = admin.post("/api/tasks", &world.ask("Mend it")).ok();
    admin.post("/api/projects", &json!({ "name": "shop", "repositories": [world.repo()] })).ok();
    let comments = format!("/api/sessions/{}/comments", text(&task["sessions"][0], "id"));
    let mut exits = Vec::new();
    for key in [SHAPES[0], KEPT] {
        for (what, answer) in asked_of_the_api(&world, &admin, &comments, key) {
            assert_eq!(answer.status, 400, "{what} {key}: {answer:?}");
            exits.push((what, answer.text));
        }
    }
    drop(server);
    assert_nowhere(&world, &scanner, &exits);
}

#[test]
fn names_that_hold_a_key_are_refused_by_the_command_line_and_kept_nowhere() {
    let world = world_with_a_kept_secret();
    let scanner = Scanner::new([SHAPES[0], KEPT]);
    let task = world.json(&["task", "add", "Mend it"])["id"].as_str().unwrap().to_owned();
    let beads = world.path().join("beads.jsonl");
    let mut exits = Vec::new();
    for key in [SHAPES[0], KEPT] {
        let user = format!("user:{key}");
        let credential = format!("credential:{key}");
        let team = format!("team:{key}");
        let address = format!("https://models.example.com/{key}");
        for args in [
            &["token", "create", "--role", "member", "--name", key][..],
            &["token", "create", "--role", "member", "--user", key],
            &["token", "create", "--role", "member", "--project", key],
            &["task", "add", "Mend it", "--convoy", key],
            &["task", "add", "Mend it", "--base", key],
            &["task", "add", "Mend it", "--agent", key],
            &["task", "add", "Mend it", "--mcp", key],
            &["task", "add", "Mend it", "--idempotency-key", key],
            &["session", "prompt", &task, "And more", "--idempotency-key", key],
            &["session", "continue", &task, "--agent", "builtin", "--idempotency-key", key],
            &["template", "add", key, "Mend it"],
            &["template", "add", "mend", "Mend it", "--convoy", key],
            &["template", "add", "mend", "Mend it", "--base", key],
            &["schedule", "add", "0 3 * * *", "Mend it", "--convoy", key],
            &["schedule", "add", "0 3 * * *", "Mend it", "--base", key],
            &["repo", "add", ".", "--name", key],
            &["repo", "add", ".", "--branch", key],
            &["repo", "add", ".", "--sparse", key],
            &["queue", "cap", &user, "3"],
            &["queue", "cap", &credential, "none"],
            &["credential", "add", "openai", "--from-stdin", "--name", key],
            &["credential", "add", "openai", "--from-stdin", "--scope", &team],
            &["credential", "add", "openai", "--from-stdin", "--base-url", &address],
            &["mcp", "add", key, "--url", "https://mcp.example.com/"],
        ] {
            let ran = world.harvest(args).input("x").current_dir(&world.repo()).finish();
            assert_eq!(ran.exit, Some(2), "{args:?}: {ran:?}");
            exits.push(("command", format!("{ran:?}")));
        }
        for issue in [
            json!({ "id": key, "title": "Mend it", "status": "open" }),
            json!({ "id": "b-1", "title": "Mend it", "status": "open", "labels": [format!("convoy:{key}")] }),
        ] {
            fs::write(&beads, format!("{issue}\n")).unwrap();
            let ran = world.harvest(&["import", "beads", beads.to_str().unwrap()]).finish();
            assert_eq!(ran.exit, Some(2), "{issue}: {ran:?}");
            exits.push(("import", format!("{ran:?}")));
        }
    }
    fs::remove_file(&beads).unwrap();
    assert_nowhere(&world, &scanner, &exits);
}

#[test]
fn names_in_the_settings_hold_no_key_but_may_be_any_word() {
    let world = world_with_a_kept_secret();
    let tables = [
        "[project.KEY]\nrepositories = []\n",
        "[team.KEY]\nmembers = []\n",
        "[team.fruit]\nmembers = ['KEY']\n",
        "[mcp.KEY]\nurl = 'https://mcp.example.com/'\n",
    ];
    for table in tables {
        settings(&world, &table.replace("KEY", SHAPES[0]));
        let refused = world.harvest(&["task", "add", "Mend it"]).finish();
        assert_eq!(refused.exit, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("contains a key") && !refused.stderr.contains(SHAPES[0]), "{refused:?}");
        settings(&world, &table.replace("KEY", KEPT));
        let added = world.harvest(&["task", "add", "Mend it"]).finish();
        assert_eq!(added.exit, Some(0), "{added:?}");
    }
    settings(&world, "");
}

#[test]
fn a_cap_that_was_kept_with_a_key_can_be_taken_away_and_the_log_does_not_repeat_it() {
    let world = World::new();
    world.json(&["task", "add", "Mend it"]);
    let cap = "repository:https://ada:pass@example.com/shop";
    database(&world).execute("INSERT INTO caps (name, size, used) VALUES (?1, 2, 0)", [cap]).unwrap();
    let [other, gone] = ["repository:https://ada:word@example.com/shop", cap]
        .map(|name| world.harvest(&["queue", "cap", name, "none", "--json"]).finish());
    assert_eq!([other.exit, gone.exit], [Some(2), Some(0)], "{other:?} {gone:?}");
    let audit = world.harvest(&["audit", "export"]).finish().stdout;
    assert!(audit.contains("cap:[redacted]") && !audit.contains("pass@"), "{audit}");
}

/// Random-looking, like a key without a shape.
const ADDED: &str = "canary4added7while2serving";
const ROTATED: &str = "canary5rotated8while3serving";

#[test]
fn a_server_knows_a_secret_that_is_added_or_rotated_while_it_runs_and_a_word_stays_a_name() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let token = |name: &str| admin.post("/api/tokens", &json!({ "name": name, "role": "member" }));
    let mut exits = Vec::new();
    let mut is_known = |secret: &str| {
        assert_eq!(token(secret).problem(400, "HV-0604")["field"], "name");
        let task = admin.post("/api/tasks", &world.ask(&format!("Mend it with {secret}"))).ok();
        let comments = format!("/api/sessions/{}/comments", text(&task["sessions"][0], "id"));
        let about = json!({ "kind": "line", "path": "two.sh", "side": "new", "line": 1 });
        admin.post(&comments, &json!({ "about": about, "text": format!("Why {secret}?") })).ok();
        let task = admin.get(&format!("/api/tasks/{}", text(&task, "id"))).ok();
        let comments = admin.get(&comments).ok();
        assert!(task.to_string().contains("Mend it with [redacted]"), "{task}");
        assert!(comments.to_string().contains("Why [redacted]?"), "{comments}");
        exits.extend([("task", task.to_string()), ("comments", comments.to_string())]);
    };
    let kept = admin.post("/api/credentials", &json!({ "provider": "openai", "secret": ADDED })).ok();
    is_known(ADDED);
    let path = format!("/api/credentials/{}/secret", text(&kept, "id"));
    admin.send(Method::PUT, &path, Some(&json!({ "secret": ROTATED }))).ok();
    is_known(ROTATED);
    let word = json!({ "provider": "openai", "name": "spare", "secret": "production" });
    admin.post("/api/credentials", &word).ok();
    token("production").ok();
    drop(server);
    assert_nowhere(&world, &Scanner::new([ADDED, ROTATED]), &exits);
}

/// Whatever is kept as a secret is taken out of everyone's texts, commands and settings.
#[test]
fn a_member_keeps_no_word_as_a_secret_that_others_write() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let (admin, member) =
        (server.with(&world.token(&[])), server.with(&world.token(&["--role", "member", "--user", "eve"])));
    let kept = member.post("/api/credentials", &json!({ "provider": "openai", "secret": ADDED })).ok();
    let rotate = format!("/api/credentials/{}/secret", text(&kept, "id"));
    let long = format!("{ADDED}-{}", "a1b2c3d4".repeat(512));
    for word in ["cargo te", "https://", "mvn -Dtest=CustomerAccountRepositoryTest test", &long] {
        let ask = json!({ "provider": "openai", "name": "word", "secret": word });
        for refused in
            [member.post("/api/credentials", &ask), member.send(Method::PUT, &rotate, Some(&json!({ "secret": word })))]
        {
            assert_eq!(refused.problem(400, "HV-0344")["field"], "secret");
        }
    }
    let mut ask = world.ask("Mend https://example.com");
    ask["test"] = "cargo test".into();
    let task = admin.post("/api/tasks", &ask).ok();
    assert!(!task.to_string().contains("[redacted]"), "{task}");
}

#[test]
fn a_member_stores_so_many_secrets_in_a_minute_and_an_admin_any_number() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&[]));
    let member = server.with(&world.token(&["--role", "member", "--user", "eve"]));
    let add = |client: &Client, number: usize| {
        let (name, secret) = (format!("spare-{number}"), format!("sk-ant-api03-{number}-0123456789abcdef"));
        client.post("/api/credentials", &json!({ "provider": "anthropic", "name": name, "secret": secret }))
    };
    // On a slow machine the rate allows some more by the time of the last one, but not three times as many.
    let answers: Vec<Answer> = (0..30).map(|number| add(&member, number)).collect();
    assert!(answers.iter().take(10).all(|answer| answer.status == 201), "{answers:?}");
    let refused = answers.iter().find(|answer| answer.status == 429).unwrap();
    assert!(
        refused.problem(429, "HV-0607")["detail"].as_str().unwrap().starts_with("user eve: more than 10 new secrets")
    );
    assert_ne!(member.post("/api/tasks", &world.ask("Mend it")).status, 429, "other writes have their own rate");
    (40..52).for_each(|number| drop(add(&admin, number).ok()));
}

/// What was asked for under a key is compared by its digest, since a prompt may hold anything.
#[test]
fn what_was_asked_for_under_an_idempotency_key_is_kept_as_a_digest() {
    let world = World::new();
    let scanner = Scanner::new([SHAPES[0]]);
    let prompt = format!("Mend it with {}", SHAPES[0]);
    let add = ["task", "add", &prompt, "--idempotency-key", "once"];
    let task = world.json(&add)["id"].clone();
    assert_eq!(world.json(&add)["id"], task);
    let other = world.harvest(&["task", "add", "Mend more", "--idempotency-key", "once"]).finish();
    assert!(other.exit == Some(2) && other.stderr.contains("HV-0"), "{other:?}");
    let id = task.as_str().unwrap();
    for _ in 0..2 {
        let again = world.harvest(&["session", "prompt", id, &prompt, "--idempotency-key", "twice"]).finish();
        assert_eq!(again.exit, Some(0), "{again:?}");
    }
    let other = world.harvest(&["session", "prompt", id, "Mend more", "--idempotency-key", "twice"]).finish();
    assert_eq!(other.exit, Some(2), "{other:?}");
    assert_nowhere(&world, &scanner, &[]);
}
