//! Idempotency keys: what a request has made is made once, also when the server dies before it has kept its answer.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;

use serde_json::{Value, json};

use crate::github::Hub;
use crate::github_pull_requests::failed;
use crate::reattach::wait_until;
use crate::served::{Client, Server};
use crate::support::{FIX, PATIENCE, World, init};

/// A request that makes something, and the table that it adds rows to.
struct Create {
    path: String,
    body: Value,
    /// With a condition, perhaps.
    table: &'static str,
    rows: i64,
}

fn create(path: impl Into<String>, body: Value, table: &'static str) -> Create {
    Create { path: path.into(), body, table, rows: 1 }
}

fn rows(world: &World, table: &str) -> i64 {
    let database = rusqlite::Connection::open(world.data().join("harvest.db")).unwrap();
    database.busy_timeout(PATIENCE).unwrap();
    database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// A server that aborts when a change is made and its answer is not kept yet.
fn dying(world: &World) -> Server {
    let args = ["serve", "--listen", "127.0.0.1:0", "--json", "--agents", "0"];
    Server::started(world.harvest(&args).env("HARVEST_FAILPOINTS", "answer::before=return(crash)").start())
}

fn request(server: &Server, token: &str, key: &str, create: &Create) -> Vec<u8> {
    let body = create.body.to_string();
    let head = [
        format!("POST {} HTTP/1.1", create.path),
        format!("Host: {}", server.host()),
        format!("Authorization: Bearer {token}"),
        format!("Idempotency-Key: {key}"),
        format!("Content-Type: application/json\r\nContent-Length: {}", body.len()),
    ];
    format!("{}\r\n\r\n{body}", head.join("\r\n")).into_bytes()
}

#[test]
fn a_request_whose_client_hangs_up_is_carried_out_and_recorded_and_its_answer_is_kept() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let token = world.token(&["--role", "admin"]);
    // A rehearsal takes a sandbox and a while.
    let check = create("/api/agents/builtin/check", json!({}), "audit");
    let mut connection = TcpStream::connect(server.host()).unwrap();
    connection.write_all(&request(&server, &token, "once", &check)).unwrap();
    drop(connection);
    let client = server.with(&token).header("idempotency-key", "once");
    let mut again = client.post(&check.path, &check.body);
    wait_until("its answer", || {
        again = client.post(&check.path, &check.body);
        again.status != 409
    });
    assert_eq!(again.ok()["works"], json!(true));
    let audit = world.harvest(&["audit", "export"]).finish().stdout;
    assert_eq!(audit.lines().filter(|line| line.contains("agent.check")).count(), 1, "{audit}");
}

#[test]
fn whatever_is_made_is_made_once_when_the_server_dies_before_it_has_kept_its_answer() {
    let world = World::new();
    let garden = world.path().join("garden");
    std::fs::create_dir(&garden).unwrap();
    init(&garden);
    let hub = Hub::new(&world);
    let (server, unpushed) = failed(&world, &hub, "", "echo 'exit 1' >> src/one.sh");
    drop(server);
    let token = world.token(&["--role", "admin"]);
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&token);
    let task = admin.post("/api/tasks", &world.ask("Mend it")).ok();
    let session = task["sessions"][0]["id"].as_str().unwrap();
    let ended = admin.post("/api/tasks", &world.ask("Mend it")).ok()["id"].as_str().unwrap().to_owned();
    admin.post(&format!("/api/tasks/{ended}/cancel"), &json!({})).ok();
    admin.post("/api/templates", &json!({ "name": "plant", "task": world.ask("Plant {{ what }}") })).ok();
    drop(server);
    // Only a session whose work has arrived can be forked.
    let worked = world.run(&json!([{ "shell": FIX }, {}]), &[]).assert_ended(0, "completed", None);
    let moment = world.journal(worked["task_id"].as_str().unwrap()).last().unwrap()["seq"].clone();
    let worked = worked["session_id"].as_str().unwrap().to_owned();
    let race = json!({ "prompt": "Mend it", "repository": world.repo(), "race": { "agents": ["builtin", "builtin"] } });
    let comment = json!({ "text": "Hm.", "about": { "kind": "event", "seq": 1 } });
    let secret = json!({ "provider": "anthropic", "secret": "sk-ant-0123456789abcdef" });
    let schedule = json!({ "cron": "0 3 * * *", "task": world.ask("Mend it") });
    let creates = [
        create("/api/tasks", world.ask("Mend it"), "tasks"),
        Create { rows: 2, ..create("/api/tasks", race, "tasks") },
        create("/api/sessions", world.ask("Mend it"), "sessions"),
        create("/api/templates/plant/tasks", json!({ "values": { "what": "it" } }), "tasks"),
        create(format!("/api/tasks/{ended}/retry"), json!({}), "audit WHERE action = 'task.retry'"),
        create(format!("/api/sessions/{session}/prompts"), json!({ "prompt": "Go on" }), "turns"),
        create(format!("/api/sessions/{session}/comments"), comment, "comments"),
        create(format!("/api/sessions/{worked}/fork"), json!({ "at": moment, "prompt": "Another way" }), "sessions"),
        create(format!("/api/tasks/{unpushed}/pull-request"), json!({}), "turns"),
        create("/api/schedules", schedule, "schedules"),
        create("/api/templates", json!({ "name": "mend", "task": world.ask("Mend it") }), "templates"),
        create("/api/repositories", json!({ "source": world.repo(), "name": "shop" }), "repositories"),
        create("/api/projects", json!({ "name": "orchard", "repositories": [] }), "projects"),
        create("/api/credentials", secret, "credentials"),
        Create { rows: 4, ..create("/api/demo", json!({}), "tasks") },
    ];
    let mut answers = BTreeMap::new();
    for (number, one) in creates.iter().enumerate() {
        let Create { path, body, table, rows: made } = one;
        let (key, before) = (format!("key-{number}"), rows(&world, table));
        let server = dying(&world);
        assert_eq!(server.raw(&request(&server, &token, &key, one)), "", "{path}");
        let died = server.running.finish();
        assert_eq!(died.status.signal(), Some(6), "{path}: {died:?}");
        assert_eq!(rows(&world, table), before + made, "{path}");
        let server = world.serve(&["--agents", "0"]);
        let again = server.with(&token).header("idempotency-key", &key).post(path, body);
        assert!((200..300).contains(&again.status), "{path}: {again:?}");
        assert_eq!(again.header("idempotency-replayed"), Some("true"), "{path}: {again:?}");
        assert_eq!(rows(&world, table), before + made, "{path}");
        answers.insert(path.as_str(), (again.status, again.json()));
    }
    let (status, task) = &answers[format!("/api/tasks/{unpushed}/pull-request").as_str()];
    assert_eq!((*status, task["id"].as_str()), (202, Some(unpushed.as_str())), "{task}");
    let (status, demo) = &answers["/api/demo"];
    assert_eq!((*status, demo["tasks"].as_array().map(Vec::len)), (201, Some(4)), "{demo}");
}

#[test]
fn a_token_that_was_made_before_the_server_died_is_named_and_not_made_again() {
    let world = World::new();
    let token = world.token(&["--role", "admin"]);
    let robot = create("/api/tokens", json!({ "name": "robot", "role": "member" }), "tokens");
    let server = dying(&world);
    assert_eq!(server.raw(&request(&server, &token, "once", &robot)), "");
    server.running.finish();
    let server = world.serve(&["--agents", "0"]);
    let client: Client = server.with(&token);
    let made = rows(&world, "tokens");
    let problem = client.clone().header("idempotency-key", "once").post(&robot.path, &robot.body);
    let problem = problem.problem(409, "HV-0173");
    assert_eq!(rows(&world, "tokens"), made);
    let all = client.get("/api/tokens").ok();
    let robots: Vec<_> = all["items"].as_array().unwrap().iter().filter(|one| one["name"] == "robot").collect();
    assert_eq!(robots.len(), 1, "{all}");
    assert!(problem["detail"].as_str().unwrap().contains(robots[0]["id"].as_str().unwrap()), "{problem}");
}
