//! What is done with results over the API, and what the page needs around them: merging, signed evidence, one file of a diff,
//! builds of snapshots, caps, and accounts.

use std::fs;

use serde_json::{Value, json};
use ureq::http::Method;

use crate::reattach::wait_until;
use crate::serve_access::with_projects;
use crate::support::World;

fn mending() -> Value {
    json!([{ "shell": "printf 'echo two\\n' > src/two.sh" }, { "say": "Done." }])
}

fn of(task: &Value, path: &str) -> String {
    format!("/api/tasks/{}/{path}", task["id"].as_str().unwrap())
}

#[test]
fn admins_of_the_installation_merge_work_by_the_rules_of_the_terminal_and_nobody_else_does() {
    let world = World::new();
    with_projects(&world);
    let server = world.serve_with(&mending(), &["--agents", "1"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let task = server.with(&world.token(&[])).worked_off(&world.ask("Mend it"));
    let apply = of(&task, "apply");
    server.with(&world.token(&["--role", "member"])).post(&apply, &json!({})).problem(403, "HV-0602");
    let of_the_project = world.token(&["--role", "admin", "--project", "shop"]);
    server.with(&of_the_project).post(&apply, &json!({})).problem(403, "HV-0602");
    let head = world.head();
    world.write("src/one.sh", "echo changed\n");
    let dirty = admin.post(&apply, &json!({ "force": true })).problem(409, "HV-0162");
    assert!(dirty["detail"].as_str().unwrap().contains("uncommitted changes"), "{dirty}");
    assert_eq!(world.head(), head);
    world.write("src/one.sh", "echo one\n");
    let merged = admin.post(&apply, &json!({})).ok();
    assert_eq!(
        (&merged["into"], &merged["before"], &merged["commit"]),
        (&json!("main"), &json!(head), &task["commit"])
    );
    assert_eq!(fs::read_to_string(world.repo().join("src/two.sh")).unwrap(), "echo two\n");
    let again = admin.post(&apply, &json!({})).ok();
    assert_eq!(again["before"], again["commit"], "once");
    let log = admin.get("/api/audit?action=task.apply").ok();
    assert_eq!(log["items"][0]["target"], json!(format!("task:{}", task["id"].as_str().unwrap())));
}

#[test]
fn work_that_proves_nothing_is_merged_over_the_api_with_force_alone() {
    let world = World::new();
    let server = world.serve_with(&json!([{ "shell": "echo x > x" }, {}]), &["--agents", "1"]);
    let admin = server.with(&world.token(&[]));
    let mut ask = world.ask("Write x");
    ask["test"] = json!("echo no tests ran");
    let task = admin.worked_off(&ask);
    let refused = admin.post(&of(&task, "apply"), &json!({})).problem(409, "HV-0162");
    assert!(refused["detail"].as_str().unwrap().contains("into main"), "{refused}");
    assert!(refused["help"].as_str().unwrap().ends_with("then apply it with `force`"), "{refused}");
    admin.post(&of(&task, "apply"), &json!({ "force": true })).ok();
    assert_eq!(world.show("HEAD:x"), "x");
}

#[test]
fn signed_evidence_over_the_api_is_what_the_terminal_verifies() {
    let world = World::new();
    let server = world.serve_with(&mending(), &["--agents", "1"]);
    let viewer = server.with(&world.token(&["--role", "viewer"]));
    let task = server.with(&world.token(&[])).worked_off(&world.ask("Mend it"));
    let envelope = viewer.get(&of(&task, "evidence")).ok();
    assert_eq!(envelope["payloadType"], "application/vnd.in-toto+json");
    let key = viewer.get("/api/evidence-key").ok()["public_key"].as_str().unwrap().to_owned();
    let file = world.path().join("evidence.json");
    fs::write(&file, envelope.to_string()).unwrap();
    let verified = world.json(&["evidence", "verify", file.to_str().unwrap(), "--key", &key]);
    assert_eq!(verified["statement"]["predicate"]["proves_success"], true);
    viewer.get("/api/tasks/0000000000000000/evidence").problem(404, "HV-0151");
}

#[test]
fn one_file_of_a_diff_is_had_with_all_of_its_lines_and_by_its_literal_name() {
    let world = World::new();
    let lines: String = (1..=60).map(|line| format!("line {line}\n")).collect();
    world.write("long[1].txt", &lines);
    world.commit("Add a long file");
    let change = "sed -i 's/line 30/line thirty/' 'long[1].txt'; printf 'echo two\\n' > src/two.sh";
    let server = world.serve_with(&json!([{ "shell": change }, {}]), &["--agents", "1"]);
    let client = server.with(&world.token(&[]));
    let task = client.worked_off(&world.ask("Mend it"));
    let diff = |query: &str| {
        let path = format!("/api/sessions/{}/diff{query}", task["sessions"][0]["id"].as_str().unwrap());
        client.clone().header("accept", "application/json").get(&path).ok()["diff"].as_str().unwrap().to_owned()
    };
    assert!(diff("").contains("two.sh") && !diff("").contains("line 20"), "{}", diff(""));
    let whole = diff("?path=long%5B1%5D.txt&context=1000");
    assert!(whole.contains(" line 1\n") && whole.contains(" line 60\n") && !whole.contains("two.sh"), "{whole}");
    assert_eq!(diff("?path=src/*"), "", "a star is a letter");
    assert_eq!(diff("?path=:(top)src/two.sh"), "", "and so is what git would take for more than a name");
}

#[test]
fn a_build_is_asked_for_by_admins_and_comes_about() {
    let world = World::new();
    let server = world.serve_with(&mending(), &["--agents", "1"]);
    let admin = server.with(&world.token(&[]));
    admin.post("/api/repositories", &json!({ "source": world.repo(), "name": "orchard" })).ok();
    let last = || admin.get("/api/repositories/orchard").ok()["snapshot"]["last_build"]["at"].clone();
    wait_until("the first build", || last().is_string());
    let first = last();
    server
        .with(&world.token(&["--role", "member"]))
        .post("/api/repositories/orchard/build", &json!({}))
        .problem(403, "HV-0602");
    admin.post("/api/repositories/nowhere/build", &json!({})).problem(404, "HV-0184");
    assert_eq!(admin.post("/api/repositories/orchard/build", &json!({})).status, 202);
    wait_until("another build", || last() != first);
}

#[test]
fn the_queue_lists_its_workers_and_takes_caps() {
    let world = World::new();
    let server = world.serve_with(&mending(), &["--agents", "1"]);
    let admin = server.with(&world.token(&[]));
    let queue = admin.get("/api/queue").ok();
    assert_eq!((queue["processes"].as_array().unwrap().len(), &queue["processes"][0]["kind"]), (1, &json!("worker")));
    let set = |body: &Value| admin.send(Method::PUT, "/api/queue/caps", Some(body));
    let set_name = |name: &str| set(&json!({ "name": name, "size": 2 }));
    assert_eq!(set_name("user:ada").ok()["caps"], json!([{ "name": "user:ada", "size": 2, "used": 0 }]));
    for name in ["", "user:", "ada", "nobody:ada", "user:a\nb"] {
        assert_eq!(set_name(name).problem(400, "HV-0604")["field"], "name", "{name:?}");
    }
    assert_eq!(set(&json!({ "name": "", "size": null })).problem(400, "HV-0604")["field"], "name");
    assert_eq!(set(&json!({ "name": "user:ada", "size": 0 })).problem(400, "HV-0604")["field"], "size");
    assert_eq!(set(&json!({ "name": "user:ada", "size": null })).ok()["caps"], json!([]));
}

/// However people name what a cap is for, it holds back the second task.
#[test]
fn a_cap_that_is_set_over_the_api_holds_back_the_second_task() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--user", "ada"]));
    admin.post("/api/repositories", &json!({ "source": world.repo(), "name": "orchard" })).ok();
    let key = json!({ "provider": "anthropic", "secret": "sk-ant-api03-0123456789" });
    let key = admin.post("/api/credentials", &key).ok()["id"].as_str().unwrap().to_owned();
    let set = |name: &str, size: Option<u32>| {
        admin.send(Method::PUT, "/api/queue/caps", Some(&json!({ "name": name, "size": size })))
    };
    let source = format!("repository:{}", world.repo().display());
    for (name, counted) in [
        ("repository:orchard", source.as_str()),
        (&source, &source),
        ("credential:anthropic", "credential:anthropic"),
        (&format!("credential:{key}"), "credential:anthropic"),
        ("user:ada", "user:ada"),
    ] {
        let caps = set(name, Some(1)).ok()["caps"].clone();
        assert_eq!(caps, json!([{ "name": counted, "size": 1, "used": 0 }]), "{name}");
        let add = || admin.post("/api/tasks", &json!({ "prompt": "Mend it", "repository": "orchard" })).ok();
        let tasks = [add(), add()];
        let turns = admin.get("/api/queue").ok()["turns"].clone();
        assert_eq!((&turns["ready"], &turns["parked"]), (&json!(1), &json!(1)), "{name}");
        for task in &tasks {
            admin.post(&format!("/api/tasks/{}/cancel", task["id"].as_str().unwrap()), &json!({})).ok();
        }
        assert_eq!(set(name, None).ok()["caps"], json!([]), "{name}");
        let audit = world.harvest(&["audit", "export"]).finish().stdout;
        let last = audit.lines().rfind(|line| line.contains("queue.set_cap")).unwrap();
        assert!(last.contains(&format!("\"cap:{counted}\"")), "{name} is the cap that went: {last}");
    }
    for name in ["credential:github", "credential:nobody", "repository:nowhere"] {
        let refused = set(name, Some(1)).problem(400, "HV-0604");
        assert_eq!(refused["field"], "name", "{name}: {refused}");
        let here = world.harvest(&["queue", "cap", name, "1"]).finish();
        assert!(here.exit == Some(2) && here.stderr.starts_with("error[HV-0141]"), "{name}: {here:?}");
    }
}

#[test]
fn the_account_on_github_is_kept_by_admins_of_the_installation_alone() {
    let world = World::new();
    with_projects(&world);
    let server = world.serve(&["--agents", "0"]);
    let new = json!({ "provider": "github", "secret": "ghp_0123456789" });
    for args in [&["--role", "member"][..], &["--role", "admin", "--project", "shop"]] {
        let refused = server.with(&world.token(args)).post("/api/credentials", &new).problem(403, "HV-0602");
        assert_eq!(refused["field"], "provider");
    }
    let admin = server.with(&world.token(&["--user", "someone"]));
    let kept = admin.post("/api/credentials", &new).ok();
    assert_ne!(kept["scope"], "user:someone", "it is the account of the server's own user: {kept}");
    let id = kept["id"].as_str().unwrap().to_owned();
    let path = |what: &str| format!("/api/credentials/{id}{what}");
    // Tokens stand for the person who made them, who is the owner of the account, too.
    for args in [&["--role", "member"][..], &["--role", "member", "--project", "shop"], &["--project", "shop"]] {
        let other = server.with(&world.token(args));
        assert_eq!(other.get("/api/credentials").ok()["items"], json!([]), "{args:?}");
        other.send(Method::PUT, &path("/secret"), Some(&json!({ "secret": "ghp_another" }))).problem(404, "HV-0342");
        other.send(Method::DELETE, &path(""), None).problem(404, "HV-0342");
    }
    let model = json!({ "provider": "anthropic", "secret": "sk-ant-api03-0123456789abcdef" });
    let confined = server.with(&world.token(&["--role", "member", "--project", "shop"]));
    assert_eq!(confined.post("/api/credentials", &model).problem(403, "HV-0602")["field"], "scope");
    server.with(&world.token(&["--role", "member"])).post("/api/credentials", &model).ok();
    assert_eq!(confined.get("/api/credentials").ok()["items"], json!([]), "not the owner's keys either");
    let elsewhere = json!({ "provider": "github", "secret": "ghp_0123456789", "scope": "project:shop" });
    assert_eq!(admin.post("/api/credentials", &elsewhere).problem(400, "HV-0604")["field"], "scope");
    let mcp = json!({ "provider": "mcp", "name": "tracker", "secret": "abcdefgh", "scope": "project:shop" });
    assert_eq!(admin.post("/api/credentials", &mcp).ok()["scope"], "project:shop");
    let without_secret =
        |provider: &str| admin.post("/api/credentials", &json!({ "provider": provider, "secret": "" }));
    assert_eq!(without_secret("ollama").ok()["last4"], "", "its server may need none");
    without_secret("openai").problem(400, "HV-0344");
}
