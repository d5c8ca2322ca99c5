//! `harvest serve`: tasks, sessions and their journals over HTTP, from the first request to the last event.

use rustix::process::Signal;
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

use crate::served::Server;
use crate::support::{FIX, World, assert_gapless};

fn mended() -> Value {
    json!([{ "say": "I see.", "shell": FIX }, { "say": "Done." }])
}

/// An agent that waits until a file appears, so that a test can look at it while it works.
fn patient() -> Value {
    json!([{ "shell": "while [ ! -e go ]; do sleep 0.05; done" }, {}])
}

#[test]
fn a_task_is_given_worked_off_and_looked_at() {
    let world = World::new();
    let server = world.serve_with(&mended(), &["--agents", "1"]);
    let token = world.token(&["--role", "admin"]);
    let client = server.with(&token);
    assert_eq!(server.anyone().get("/healthz").ok(), json!({ "status": "ok" }));
    assert_eq!(server.anyone().get("/readyz").ok(), json!({ "status": "ok" }));
    let created = client.post("/api/sessions", &world.ask("Make the failing test pass"));
    let session = created.ok();
    assert_eq!(created.status, 201);
    let id = session["id"].as_str().unwrap();
    assert_eq!(created.header("location"), Some(format!("/api/sessions/{id}").as_str()));
    assert_eq!(session["task"]["source"], "api");
    assert_under_way(&session["task"]);
    let journal = client.journal(id, 0);
    assert_gapless(&journal);
    let ended = journal.last().unwrap();
    assert_eq!(ended["data"]["status"], "completed", "{ended:#}");
    let shown = client.get(&format!("/api/sessions/{id}")).ok();
    assert_eq!((&shown["task"]["status"], &shown["last_seq"]), (&json!("completed"), &ended["seq"]));
    let messages = client.get(&format!("/api/sessions/{id}/messages")).ok();
    let said: Vec<_> = messages["items"].as_array().unwrap().iter().map(|one| (&one["role"], &one["text"])).collect();
    let (user, assistant) = (json!("user"), json!("assistant"));
    let texts = [json!("Make the failing test pass"), json!("I see."), json!("Done.")];
    assert_eq!(said, [(&user, &texts[0]), (&assistant, &texts[1]), (&assistant, &texts[2])]);
    let files = client.get(&format!("/api/sessions/{id}/files")).ok();
    assert_eq!(files["items"], json!([{ "path": "src/two.sh", "change": "modified" }]));
    let diff = client.get(&format!("/api/sessions/{id}/diff")).ok();
    assert!(diff["diff"].as_str().unwrap().contains("+echo two"), "{diff}");
    let bytes = client.clone().header("accept", "text/x-diff").get(&format!("/api/sessions/{id}/diff"));
    assert_eq!(
        (bytes.header("content-type"), bytes.text.as_str()),
        (Some("text/x-diff"), diff["diff"].as_str().unwrap())
    );
    // The API and the command line show the same object.
    let task = client.get(&format!("/api/tasks/{}", shown["task_id"].as_str().unwrap())).ok();
    assert_eq!(task, world.json(&["task", "show", task["id"].as_str().unwrap()]));
    let attempts = client.get(&format!("/api/tasks/{}/attempts", task["id"].as_str().unwrap())).ok();
    assert_eq!(attempts["items"][0]["exit_code"], 0);
    server.running.signal(Signal::TERM);
    let ran = server.running.finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    world.assert_nothing_left();
}

#[test]
fn lists_have_filters_cursors_and_an_order() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let token = world.token(&[]);
    let client = server.with(&token);
    let mut ids = Vec::new();
    for number in 0..5 {
        let mut ask = world.ask(&format!("Number {number}"));
        ask["convoy"] = json!(if number % 2 == 0 { "even" } else { "odd" });
        ids.push(client.post("/api/tasks", &ask).ok()["id"].as_str().unwrap().to_owned());
    }
    let listed = |query: &str| -> Vec<String> {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = client.get(&format!("/api/tasks?limit=2{query}{cursor}")).ok();
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 2);
            found.extend(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return found,
            }
        }
    };
    let newest: Vec<_> = ids.iter().rev().cloned().collect();
    assert_eq!(listed(""), newest);
    assert_eq!(listed("&sort=created_at"), ids);
    assert_eq!(listed("&sort=-created_at&status=pending"), newest);
    assert_eq!(listed("&convoy=odd&sort=created_at"), [ids[1].clone(), ids[3].clone()]);
    assert_eq!(listed("&q=NUMBER+3"), [ids[3].clone()]);
    assert_eq!(listed("&status=completed"), [""; 0]);
    let sessions = client.get("/api/sessions?limit=500").ok();
    assert_eq!(sessions["items"].as_array().unwrap().len(), 5);
    assert_eq!(sessions["items"][0]["title"], "Number 4");
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=x", "limit"),
        ("cursor=x", "cursor"),
        ("sort=up", "sort"),
        ("status=odd", "status"),
        ("colour=red", "query"),
    ] {
        let problem = client.get(&format!("/api/tasks?{query}")).problem(400, "HV-0604");
        assert!(
            problem["field"] == field || problem["detail"].as_str().unwrap().contains(field) || field == "query",
            "{query}: {problem}"
        );
    }
}

#[test]
fn what_cannot_be_asked_for_is_refused_with_its_field_and_changes_nothing() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let token = world.token(&[]);
    let client = server.with(&token);
    let with = |field: &str, value: Value| {
        let mut ask = world.ask("Mend it");
        ask[field] = value;
        ask
    };
    for (ask, code, field) in [
        (with("prompt", json!("  ")), "HV-0111", Some("prompt")),
        (with("prompt", json!(7)), "HV-0604", Some("prompt")),
        (with("colour", json!("red")), "HV-0604", Some("colour")),
        (with("timeout", json!(0)), "HV-0604", Some("timeout")),
        (with("retries", json!(21)), "HV-0604", Some("retries")),
        (with("budget_usd", json!(-1)), "HV-0604", Some("budget_usd")),
        (with("after", json!(["zzzz"])), "HV-0171", Some("after")),
        (with("repository", json!("nowhere")), "HV-0101", None),
        (with("repository", json!("/nowhere/at/all")), "HV-0101", None),
        (with("base", json!("--upload-pack=x")), "HV-0104", None),
        (with("agent", json!("nobody")), "HV-0121", None),
        (with("convoy", json!("a b")), "HV-0141", None),
        (json!([]), "HV-0604", Some("body")),
    ] {
        let problem = client.post("/api/tasks", &ask).problem(400, code);
        if let Some(field) = field {
            assert_eq!(problem["field"], field, "{problem}");
        }
        assert!(problem["help"].is_string(), "{problem}");
    }
    assert_eq!(client.get("/api/tasks").ok()["items"], json!([]));
    let unknown = "0000000000000000";
    client.get(&format!("/api/tasks/{unknown}")).problem(404, "HV-0151");
    client.get(&format!("/api/sessions/{unknown}")).problem(404, "HV-0154");
    let odd = client.get("/api/tasks/..%2f..%2fetc").problem(404, "HV-0605");
    assert_eq!(odd["detail"], "the path holds no valid ID");
    let short = client.get("/api/tasks/7").problem(404, "HV-0605");
    assert_eq!(short["detail"], "`7` is not a valid ID");
    client.get("/api/nothing").problem(404, "HV-0605");
    client.delete("/api/tasks").problem(405, "HV-0605");
}

/// Queued or, when a worker was faster than the answer, claimed already.
#[track_caller]
fn assert_under_way(task: &Value) {
    let status = task["status"].as_str().unwrap();
    assert!(["pending", "provisioning", "running"].contains(&status), "{status}");
}

#[test]
fn a_task_is_stopped_and_tried_again() {
    let world = World::new();
    let server = world.serve_with(&patient(), &["--agents", "1"]);
    let token = world.token(&[]);
    let client = server.with(&token);
    let working = client.post("/api/tasks", &world.ask("Wait")).ok();
    let waiting = client.post("/api/tasks", &world.ask("Wait behind it")).ok();
    let (first, second) = (working["id"].as_str().unwrap(), waiting["id"].as_str().unwrap());
    let mut stream = client.stream(&format!("/api/sessions/{}/events", working["sessions"][0]["id"].as_str().unwrap()));
    stream.until("tool.call");
    let stopped = client.post(&format!("/api/tasks/{second}/cancel"), &json!({}));
    assert_eq!((stopped.status, &stopped.ok()["status"]), (200, &json!("cancelled")));
    client.post(&format!("/api/tasks/{second}/cancel"), &json!({})).problem(409, "HV-0153");
    assert_eq!(client.post(&format!("/api/tasks/{first}/cancel"), &json!({})).status, 202);
    let journal = stream.until("task.finished");
    assert_eq!(journal.last().unwrap()["data"]["reason"], "cancelled");
    let again = client.post(&format!("/api/tasks/{second}/retry"), &json!({})).ok();
    assert_under_way(&again);
    client.post(&format!("/api/tasks/{second}/retry"), &json!({})).problem(409, "HV-0174");
    let session = again["sessions"][0]["id"].as_str().unwrap();
    client.stream(&format!("/api/sessions/{session}/events")).until("tool.call");
    assert_eq!(client.post(&format!("/api/sessions/{session}/stop"), &json!({})).status, 202);
    client.stream(&format!("/api/sessions/{session}/events?after=10")).until("task.finished");
}

#[test]
fn a_journal_goes_on_from_any_number_over_either_stream() {
    let world = World::new();
    let server = world.serve_with(&mended(), &["--agents", "1"]);
    let token = world.token(&["--role", "admin"]);
    let client = server.with(&token);
    let task = client.worked_off(&world.ask("Make the failing test pass"));
    let session = task["sessions"][0]["id"].as_str().unwrap();
    let path = format!("/api/sessions/{session}/events");
    let whole = client.journal(session, 0);
    assert_gapless(&whole);
    let half = whole.len() / 2;
    assert_eq!(client.journal(session, half as u64), whole[half..]);
    let resumed = client.clone().header("last-event-id", "3").stream(&format!("{path}?after=0")).until("task.finished");
    assert_eq!(resumed, whole[3..], "what a browser says of itself is newer than its address");
    let page = client.get(&format!("{path}?limit=4")).ok();
    assert_eq!((&page["items"], &page["next_cursor"]), (&json!(whole[..4]), &json!(4)));
    let rest = client.get(&format!("{path}?limit=1000&after=4")).ok();
    assert_eq!((&rest["items"], &rest["next_cursor"]), (&json!(whole[4..]), &Value::Null));
    let mut socket =
        websocket(&server, &format!("{path}?after=2"), &[("authorization", &format!("Bearer {token}"))]).unwrap();
    let heard: Vec<Value> = (2..whole.len()).map(|_| next_text(&mut socket)).collect();
    assert_eq!(heard, whole[2..]);
    client.clone().header("last-event-id", "x").get(&path).problem(400, "HV-0604");
}

#[test]
fn a_stream_says_where_it_stopped_when_the_server_ends() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let token = world.token(&[]);
    let client = server.with(&token);
    let task = client.post("/api/tasks", &world.ask("Wait")).ok();
    let session = task["sessions"][0]["id"].as_str().unwrap().to_owned();
    let mut stream = client.stream(&format!("/api/sessions/{session}/events"));
    let path = format!("/api/sessions/{session}/events");
    let mut socket = websocket(&server, &path, &[("authorization", &format!("Bearer {token}"))]).unwrap();
    assert_eq!(stream.until("task.created").len(), 1);
    assert_eq!(next_text(&mut socket)["type"], "task.created");
    server.running.signal(Signal::TERM);
    let last = stream.until("closing");
    assert_eq!(last[0]["after"], 1);
    assert!(stream.next().is_none());
    match socket.read().unwrap() {
        Message::Close(Some(close)) => assert!(close.reason.contains("after=1"), "{close}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(server.running.finish().exit, Some(0));
}

#[test]
fn everything_that_happens_is_told_in_short() {
    let world = World::new();
    let server = world.serve_with(&mended(), &["--agents", "1"]);
    let token = world.token(&[]);
    let client = server.with(&token);
    let mut feed = client.stream("/api/events");
    let task = client.post("/api/tasks", &world.ask("Make the failing test pass")).ok();
    let mut kinds = Vec::new();
    while let Some(told) = feed.next() {
        let notice: Value = serde_json::from_str(&told.data).unwrap();
        if notice["task_id"] != task["id"] {
            continue;
        }
        kinds.push(notice["type"].as_str().unwrap().to_owned());
        if notice["type"] == "task.finished" {
            assert_eq!(notice["status"], "completed");
            break;
        }
    }
    assert!(kinds.first().is_some_and(|kind| kind == "task.created"), "{kinds:?}");
    assert!(!kinds.iter().any(|kind| kind.starts_with("message")), "{kinds:?}");
}

/// How soon it is ready is measured by `make bench ARGS=api`.
#[test]
fn a_server_that_says_where_it_listens_is_ready() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    assert_eq!(server.anyone().get("/readyz").status, 200);
}

#[test]
fn asking_twice_with_one_key_is_asking_once() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let (ada, bob) = (world.token(&["--user", "ada"]), world.token(&["--user", "bob"]));
    let keyed = |token| server.with(token).header("idempotency-key", "k1");
    let first = keyed(&ada).post("/api/tasks", &world.ask("Once"));
    let again = keyed(&ada).post("/api/tasks", &world.ask("Once"));
    assert_eq!((first.status, again.status, first.ok()), (201, 201, again.ok()));
    assert_eq!((first.header("idempotency-replayed"), again.header("idempotency-replayed")), (None, Some("true")));
    keyed(&ada).post("/api/tasks", &world.ask("Something else")).problem(422, "HV-0173");
    keyed(&ada).post("/api/sessions", &world.ask("Once")).problem(422, "HV-0173");
    assert_eq!(keyed(&bob).post("/api/tasks", &world.ask("Once")).status, 201, "keys are everyone's own");
    assert_eq!(world.tasks().len(), 2);
    let refused = server.with(&ada).header("idempotency-key", "k2");
    refused.post("/api/tasks", &json!({})).problem(400, "HV-0604");
    refused.post("/api/tasks", &json!({})).problem(400, "HV-0604");
    let (racing, ask) = (server.with(&ada).header("idempotency-key", "k3"), world.ask("Race"));
    let many: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(|| racing.post("/api/tasks", &ask))).collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(many.iter().all(|answer| [201, 409].contains(&answer.status)), "{many:?}");
    assert_eq!(world.tasks().len(), 3);
}

pub fn websocket(
    server: &Server,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<WebSocket<std::net::TcpStream>, Box<tungstenite::Error>> {
    let mut request = format!("ws://{}{path}", server.host()).into_client_request().unwrap();
    for (name, value) in headers {
        let name: tungstenite::http::HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let stream = std::net::TcpStream::connect(server.host()).unwrap();
    stream.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    match tungstenite::client(request, stream) {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::HandshakeError::Failure(error)) => Err(Box::new(error)),
        Err(error) => panic!("{error}"),
    }
}

fn next_text(socket: &mut WebSocket<std::net::TcpStream>) -> Value {
    loop {
        if let Message::Text(text) = socket.read().unwrap() {
            return serde_json::from_str(&text).unwrap();
        }
    }
}

#[test]
fn the_other_resources_do_what_the_command_line_does() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let token = world.token(&["--role", "admin", "--user", "ada"]);
    let client = server.with(&token);
    let added = client.post("/api/repositories", &json!({ "source": world.repo(), "name": "shop" })).ok();
    assert_eq!((&added["name"], &added["snapshot"]["state"]), (&json!("shop"), &json!("none")));
    assert_eq!(client.get("/api/repositories/shop").ok(), added);
    assert_eq!(client.get("/api/snapshots").ok()["items"][0]["repository"], "shop");
    client.post("/api/repositories", &json!({ "source": ".", "name": "here" })).problem(400, "HV-0101");
    client.post("/api/repositories", &json!({ "source": "/etc", "alert": "touch /tmp/x" })).problem(400, "HV-0604");
    // A known repository can be named.
    let task =
        client.post("/api/tasks", &json!({ "prompt": "Mend it", "repository": "shop", "convoy": "spring" })).ok();
    assert_eq!(task["repository"], json!(world.repo()));
    assert_eq!(client.get("/api/tasks?repository=shop").ok()["items"].as_array().unwrap().len(), 1);
    assert_eq!(client.get("/api/convoys/spring").ok()["tasks"], json!({ "pending": 1 }));
    client.get("/api/convoys/autumn").problem(404, "HV-0605");

    let schedule =
        json!({ "cron": "0 3 * * *", "time_zone": "UTC", "task": { "prompt": "Update", "repository": "shop" } });
    let kept = client.post("/api/schedules", &schedule).ok();
    assert!(kept["next"].as_str().unwrap().contains("T03:00:00"), "{kept}");
    assert_eq!(world.json(&["schedule", "list"])["items"][0]["id"], kept["id"]);
    let mut bad = schedule.clone();
    bad["cron"] = json!("every day");
    client.post("/api/schedules", &bad).problem(400, "HV-0181");
    let path = format!("/api/schedules/{}", kept["id"].as_str().unwrap());
    assert_eq!(client.delete(&path).status, 204);
    client.delete(&path).problem(404, "HV-0182");

    let template = json!({ "name": "upgrade", "task": { "prompt": "Upgrade {{ package }}", "repository": "shop" } });
    assert_eq!(client.post("/api/templates", &template).ok()["parameters"], json!(["package"]));
    let made = client.post("/api/templates/upgrade/tasks", &json!({ "values": { "package": "serde" } })).ok();
    assert_eq!(made["prompt"], "Upgrade serde");
    client.post("/api/templates/upgrade/tasks", &json!({ "values": { "colour": "red" } })).problem(400, "HV-0141");
    assert_eq!(client.delete("/api/templates/upgrade").status, 204);

    let agents = client.get("/api/agents").ok();
    let builtin = agents["items"].as_array().unwrap().iter().find(|agent| agent["id"] == "builtin").unwrap();
    assert_eq!((&builtin["installed"], &builtin["default"]), (&json!(true), &json!(true)));

    let queue = client.send(ureq::http::Method::PATCH, "/api/queue", Some(&json!({ "paused": true }))).ok();
    assert_eq!((&queue["paused"], &queue["turns"]["ready"]), (&json!(true), &json!(2)));
    assert_eq!(world.json(&["status"])["paused"], true);
    assert_eq!(client.delete("/api/repositories/shop").status, 204);
    client.get("/api/repositories/shop").problem(404, "HV-0184");
}

#[test]
fn a_secret_goes_in_and_never_comes_out() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let (ada, bob) =
        (world.token(&["--role", "member", "--user", "ada"]), world.token(&["--role", "member", "--user", "bob"]));
    let (ada, bob) = (server.with(&ada), server.with(&bob));
    let secret = "sk-ant-canary-0123456789abcdef-WXYZ";
    let kept = ada.post("/api/credentials", &json!({ "provider": "anthropic", "secret": secret })).ok();
    assert_eq!(
        (&kept["scope"], &kept["last4"], &kept["name"]),
        (&json!("user:ada"), &json!("WXYZ"), &json!("default"))
    );
    ada.post("/api/credentials", &json!({ "provider": "anthropic", "secret": secret })).problem(409, "HV-0341");
    for (body, status, code) in [
        (json!({ "provider": "anthropic", "secret": "two\nlines" }), 400, "HV-0344"),
        (json!({ "provider": "nobody", "secret": "x" }), 400, "HV-0604"),
        (json!({ "provider": "openai", "secret": "x", "scope": "user:bob" }), 403, "HV-0602"),
        (json!({ "provider": "openai", "secret": "x", "scope": "team:fruit" }), 403, "HV-0602"),
        (json!({ "provider": "openai", "secret": "x", "base_url": "http://169.254.169.254" }), 403, "HV-0602"),
    ] {
        ada.post("/api/credentials", &body).problem(status, code);
    }
    assert_eq!(bob.get("/api/credentials").ok()["items"], json!([]));
    let path = format!("/api/credentials/{}", kept["id"].as_str().unwrap());
    bob.delete(&path).problem(404, "HV-0342");
    let put = |client: &crate::served::Client, secret: &str| {
        client.send(ureq::http::Method::PUT, &format!("{path}/secret"), Some(&json!({ "secret": secret })))
    };
    put(&bob, "mine").problem(404, "HV-0342");
    assert_eq!(put(&ada, "sk-ant-canary-fedcba9876543210-7890").ok()["last4"], "7890");
    let shown = [ada.get("/api/credentials").text, world.harvest(&["audit", "export"]).finish().stdout].join("");
    assert!(shown.contains("credential.create") && !shown.contains("canary"), "{shown}");
    for file in ["harvest.db", "harvest.db-wal"] {
        let bytes = std::fs::read(world.data().join(file)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&bytes).contains("canary"), "{file}");
    }
    assert_eq!(ada.delete(&path).status, 204);
}

#[test]
fn a_scrape_has_every_series() {
    let world = World::new();
    let replies =
        json!([{ "shell": FIX, "tokens": { "input": 10, "output": 5 } }, { "tokens": { "input": 10, "output": 5 } }]);
    let server = world.serve_with(&replies, &["--agents", "2"]);
    let token = world.token(&["--role", "viewer"]);
    let member = world.token(&[]);
    server.with(&member).worked_off(&world.ask("Make the failing test pass"));
    let scraped = server.with(&token).get("/metrics");
    assert_eq!(scraped.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let value = |series: &str| -> f64 {
        let line = scraped.text.lines().find(|line| line.rsplit_once(' ').is_some_and(|(name, _)| name == series));
        let line = line.unwrap_or_else(|| panic!("{series} is missing:\n{}", scraped.text));
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    assert_eq!(value("harvest_tasks{status=\"completed\"}"), 1.0);
    assert_eq!(value("harvest_worker_tasks_total{status=\"completed\",reason=\"\"}"), 1.0);
    assert_eq!(value("harvest_task_success_ratio"), 1.0);
    assert_eq!((value("harvest_pool_agents"), value("harvest_pool_busy")), (2.0, 0.0));
    assert_eq!((value("harvest_queue_depth{state=\"ready\"}"), value("harvest_sessions_active")), (0.0, 0.0));
    assert!(value("harvest_cost_usd_total") > 0.0);
    assert_eq!(value("harvest_cost_usd_total"), value("harvest_worker_cost_usd_total"));
    assert_eq!(value("harvest_model_call_seconds_count{provider=\"scripted\"}"), 2.0);
    let created = "method=\"POST\",route=\"/api/tasks\",status=\"201\"";
    assert_eq!(value(&format!("harvest_api_request_duration_seconds_count{{{created}}}")), 1.0);
    assert_eq!(value("harvest_api_errors_total"), 0.0);
    for series in
        ["harvest_sandbox_start_seconds_bucket", "harvest_event_sockets", "harvest_event_streams_dropped_total"]
    {
        assert!(scraped.text.contains(series), "{series}");
    }
    // As a parser reads it: each series has a type, values are numbers, and no line is left over.
    let mut typed = std::collections::BTreeMap::new();
    for line in scraped.text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(typed.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!(typed.contains_key(family) || typed.contains_key(name), "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}

#[test]
fn a_session_is_asked_for_more_and_forked() {
    let world = World::new();
    let server = world.serve_with(&mended(), &["--agents", "1"]);
    let (ada, bob) = (world.token(&["--user", "ada"]), world.token(&["--user", "bob"]));
    let client = server.with(&ada);
    let task = client.worked_off(&world.ask("Make the failing test pass"));
    let session = task["sessions"][0]["id"].as_str().unwrap().to_owned();
    let before = client.get(&format!("/api/sessions/{session}")).ok()["last_seq"].as_u64().unwrap();
    let path = format!("/api/sessions/{session}/prompts");
    let more = json!({ "prompt": "And explain it" });
    let keyed = server.with(&bob).header("idempotency-key", "once");
    let turn = keyed.post(&path, &more);
    assert_eq!((turn.status, &turn.ok()["number"], &turn.ok()["author"]), (201, &json!(2), &json!("bob")));
    assert_eq!(keyed.post(&path, &more).ok(), turn.ok());
    let journal = client.journal(&session, before);
    assert_eq!(journal[0]["type"], "turn.queued");
    let messages = client.get(&format!("/api/sessions/{session}/messages")).ok();
    let authors: Vec<&str> =
        messages["items"].as_array().unwrap().iter().filter_map(|one| one["author"].as_str()).collect();
    assert_eq!(authors, ["ada", "bob"]);
    client.post(&path, &json!({ "prompt": " " })).problem(400, "HV-0111");
    client.post(&path, &json!({ "prompt": "x", "agent": "nobody" })).problem(400, "HV-0121");
    let fork = format!("/api/sessions/{session}/fork");
    let forked = client.post(&fork, &json!({ "at": before, "prompt": "Another way" })).ok();
    assert_ne!(forked["id"], task["id"]);
    assert_eq!(forked["source"], "api", "it came over the API");
    client.post(&fork, &json!({ "at": 1_000_000, "prompt": "x" })).problem(409, "HV-0155");
}

#[test]
fn a_plan_is_approved_or_turned_down() {
    let world = World::new();
    let script = world.conversations(&[
        ("The plan for it is approved", json!([{ "shell": FIX }, {}])),
        ("Leave the database alone", json!([{ "say": "Only two.sh, then." }])),
        ("Make a plan", json!([{ "say": "I would drop tables." }])),
    ]);
    let server = world.serve(&["--agents", "1", "--model-script", script.to_str().unwrap()]);
    let token = world.token(&["--user", "ada"]);
    let client = server.with(&token);
    let mut ask = world.ask("Make the failing test pass");
    ask["plan"] = json!(true);
    let task = client.post("/api/tasks", &ask).ok();
    let (id, session) = (task["id"].as_str().unwrap(), task["sessions"][0]["id"].as_str().unwrap());
    let mut stream = client.stream(&format!("/api/sessions/{session}/events"));
    stream.until("plan.proposed");
    let waits = client.get("/api/tasks?status=awaiting_approval").ok();
    assert_eq!(waits["items"][0]["id"], id);
    let reject = format!("/api/tasks/{id}/reject");
    client.post(&reject, &json!({ "comment": " " })).problem(400, "HV-0604");
    assert_eq!(client.post(&reject, &json!({ "comment": "Leave the database alone" })).status, 200);
    stream.until("plan.proposed");
    assert_eq!(client.post(&format!("/api/tasks/{id}/approve"), &json!({})).status, 200);
    assert_eq!(stream.until("task.finished").last().unwrap()["data"]["status"], "completed");
    client.post(&format!("/api/tasks/{id}/approve"), &json!({})).problem(409, "HV-0156");
}
