//! Webhooks: only what GitHub signed, each delivery once, and nothing that GitHub sends breaks the server.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::github::{Hub, SECRET};
use crate::served::{Answer, Client, Server};
use crate::support::World;

/// HMAC as the standard has it, from its two hashes.
fn signature(secret: &str, body: &str) -> String {
    let mut key = [0; 64];
    key[..secret.len()].copy_from_slice(secret.as_bytes());
    let hash = |pad: u8, data: &[u8]| {
        let padded: Vec<u8> = key.iter().map(|byte| byte ^ pad).collect();
        Sha256::new().chain_update(padded).chain_update(data).finalize()
    };
    let tag = hash(0x5c, &hash(0x36, body.as_bytes()));
    format!("sha256={}", tag.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn client(server: &Server, event: &str, delivery: &str, signed: Option<&str>) -> Client {
    let client = server.anyone().header("x-github-event", event).header("x-github-delivery", delivery);
    match signed {
        Some(signed) => client.header("x-hub-signature-256", signed),
        None => client,
    }
}

/// Sends something as GitHub does.
pub fn deliver(server: &Server, event: &str, delivery: &str, payload: &Value) -> Answer {
    let signed = signature(SECRET, &payload.to_string());
    client(server, event, delivery, Some(&signed)).post("/webhooks/github", payload)
}

/// What GitHub publishes as examples: the kind of event, and a payload. Nothing where there is no npm to get them with.
pub fn examples() -> Option<Vec<(String, Value)>> {
    let file = crate::description::packages()?.join("webhooks-examples/api.github.com/index.json");
    let events: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let of_event = |event: &Value| {
        let name = event["name"].as_str().unwrap().to_owned();
        let examples = event["examples"].as_array().unwrap().clone();
        examples.into_iter().map(move |example| (name.clone(), example))
    };
    Some(events.iter().flat_map(of_event).collect())
}

fn asked(hub: &Hub) -> Value {
    let url = hub.fake.url();
    json!({
        "action": "labeled",
        "label": { "name": "harvest" },
        "issue": { "number": 1, "html_url": format!("{url}/ada/shop/issues/1"), "title": "Make the failing test pass",
            "body": "", "user": { "login": "ada" } },
        "repository": { "full_name": "ada/shop" },
        "sender": { "login": "ada", "type": "User" },
    })
}

#[test]
fn what_is_not_signed_has_no_effect() {
    let world = World::new();
    let hub = Hub::new(&world);
    hub.person("ada").post("/issues", &json!({ "title": "Make the failing test pass" })).ok();
    let server = world.serve(&["--agents", "0"]);
    let payload = asked(&hub);
    let body = payload.to_string();
    let good = signature(SECRET, &body);
    let digits = &good["sha256=".len()..];
    let forged = [
        None,
        Some(String::new()),
        Some(signature("another secret", &body)),
        Some(signature(SECRET, &format!("{body} "))),
        Some(digits.to_owned()),
        Some(format!("sha1={digits}")),
        Some(format!("SHA256={digits}")),
        Some(format!("sha256={}", digits.to_uppercase())),
        Some(good[..good.len() - 2].to_owned()),
        Some(format!("{good}00")),
    ];
    for signed in &forged {
        let answer = client(&server, "issues", "d-1", signed.as_deref()).post("/webhooks/github", &payload);
        let problem = answer.problem(401, "HV-0603");
        assert_eq!(problem["field"], "x-hub-signature-256", "{signed:?}");
    }
    // A different body that means the same is not what was signed.
    let mut pretty = server.anyone().header("x-github-event", "issues").header("x-github-delivery", "d-1");
    pretty = pretty.header("x-hub-signature-256", &signature(SECRET, &format!("{payload:#}")));
    assert_eq!(pretty.post("/webhooks/github", &payload).status, 401);
    assert_eq!(world.tasks().len(), 0);
    assert_eq!(client(&server, "issues", "d 1", Some(&good)).post("/webhooks/github", &payload).status, 400);
    assert_eq!(
        client(&server, "issues", "d-1", Some(&good)).post("/webhooks/github", &payload).ok(),
        json!({ "status": "queued" })
    );
}

/// GitHub sends up to 25 MiB. Of a sender who signs nothing the server holds none of it.
#[test]
fn a_delivery_without_a_signature_is_refused_before_its_body_comes() {
    let world = World::new();
    let _hub = Hub::new(&world);
    let server = world.serve(&["--agents", "0"]);
    for signed in ["", "X-Hub-Signature-256: sha256=00\r\n"] {
        let head = format!(
            "POST /webhooks/github HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{signed}X-GitHub-Event: issues\r\n\
             X-GitHub-Delivery: d-1\r\nConnection: close\r\nContent-Length: 26214400\r\n\r\n",
            server.host()
        );
        // None of the body is ever sent.
        let answer = server.raw(head.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("HV-0603"), "{answer}");
    }
}

#[test]
fn a_delivery_sent_often_at_once_makes_one_task() {
    let world = World::new();
    let hub = Hub::new(&world);
    hub.person("ada").post("/issues", &json!({ "title": "Make the failing test pass" })).ok();
    let server = world.serve(&["--agents", "0"]);
    let payload = asked(&hub);
    let signed = signature(SECRET, &payload.to_string());
    let sender = client(&server, "issues", "d-1", Some(&signed));
    let send = || sender.post("/webhooks/github", &payload).ok();
    let statuses: Vec<String> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..50).map(|_| scope.spawn(send)).collect();
        all.into_iter().map(|one| one.join().unwrap()["status"].as_str().unwrap().to_owned()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| *status == "queued").count(), 1, "{statuses:?}");
    // Another delivery about the same issue, and the same one after a restart.
    let mut later = payload.clone();
    later["issue"]["updated_at"] = json!(jiff::Timestamp::now().to_string());
    assert_eq!(deliver(&server, "issues", "d-2", &later).ok()["status"], "queued");
    hub.status("Queued");
    drop(server);
    let server = world.serve(&["--agents", "0"]);
    let known = client(&server, "issues", "d-1", Some(&signed)).post("/webhooks/github", &payload);
    assert_eq!(known.ok()["status"], "known");
    assert_eq!(world.tasks().len(), 1);
}

/// The number of a delivery is in its header, which nobody signs; so are the times at which it is sent.
#[test]
fn row_25_deliveries_that_are_replayed_under_another_number_or_too_late_have_no_effect() {
    let world = World::new();
    let hub = Hub::new(&world);
    hub.person("ada").post("/issues", &json!({ "title": "Make the failing test pass" })).ok();
    let server = world.serve(&["--agents", "0"]);
    let days_ago = |days: i64| (jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days)).to_string();
    let mut payload = asked(&hub);
    payload["issue"]["updated_at"] = json!(days_ago(0));
    assert_eq!(deliver(&server, "issues", "d-1", &payload).ok()["status"], "queued");
    settled(&world, 1);
    let mut comment = payload.clone();
    comment["action"] = json!("created");
    comment["comment"] = json!({ "id": 7, "body": "@harvest and write notes", "created_at": days_ago(0) });
    assert_eq!(deliver(&server, "issue_comment", "d-2", &comment).ok()["status"], "queued");
    let outcomes = settled(&world, 2);
    assert!(outcomes[0].starts_with("task ") && outcomes[1].starts_with("turn 2 "), "{outcomes:?}");
    for number in 3..20 {
        assert_eq!(deliver(&server, "issue_comment", &format!("d-{number}"), &comment).ok()["status"], "known");
        assert_eq!(deliver(&server, "issues", &format!("e-{number}"), &payload).ok()["status"], "known");
    }
    // What happened long ago is nothing to act on, even when nobody remembers that it was told before.
    comment["comment"]["created_at"] = json!(days_ago(8));
    assert_eq!(deliver(&server, "issue_comment", "d-20", &comment).ok()["status"], "stale");
    payload["issue"]["updated_at"] = json!(days_ago(31));
    assert_eq!(deliver(&server, "issues", "d-21", &payload).ok()["status"], "stale");
    payload["issue"]["updated_at"] = json!(days_ago(6));
    assert_eq!(deliver(&server, "issues", "d-22", &payload).ok()["status"], "queued");
    let outcomes = settled(&world, 3);
    assert!(outcomes[2].starts_with("ignored"), "{outcomes:?}");
    let shown = world.json(&["task", "show", world.tasks()[0]["id"].as_str().unwrap()]);
    assert_eq!((world.tasks().len(), shown["sessions"][0]["turns"].as_array().unwrap().len()), (1, 2), "{shown:#}");
}

#[test]
fn what_is_asked_for_on_github_is_held_to_the_quota_of_whoever_asks() {
    let world = World::new();
    let hub = Hub::new(&world);
    let folder = world.home().join(".config/harvest");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("harvest.toml");
    let before = std::fs::read_to_string(&file).unwrap_or_default();
    std::fs::write(&file, format!("{before}\n[quota]\nuser_sessions = 1\n")).unwrap();
    for title in ["Make the failing test pass", "And another", "And a third"] {
        hub.person("ada").post("/issues", &json!({ "title": title })).ok();
    }
    let server = world.serve(&["--agents", "0"]);
    for (number, by) in [(1, "ada"), (2, "ada"), (3, "bob")] {
        let mut payload = asked(&hub);
        payload["issue"]["number"] = json!(number);
        payload["issue"]["html_url"] = json!(format!("{}/ada/shop/issues/{number}", hub.fake.url()));
        payload["sender"]["login"] = json!(by);
        assert_eq!(deliver(&server, "issues", &format!("d-{number}"), &payload).ok()["status"], "queued");
    }
    // Deliveries are acted on one after the other: with the third, the second has been.
    let outcomes = settled(&world, 2);
    assert!(outcomes.iter().all(|outcome| outcome.starts_with("task ")), "{outcomes:?}");
    let mut asked: Vec<_> = world.tasks().iter().map(|task| task["requested_by"].to_string()).collect();
    asked.sort();
    assert_eq!(asked, ["\"github:ada\"", "\"github:bob\""]);
}

#[test]
fn who_signs_in_and_who_asks_in_an_issue_is_one_person_with_one_quota() {
    let world = World::new();
    let hub = Hub::new(&world);
    let (url, host) = (hub.fake.url(), hub.fake.url().strip_prefix("http://").unwrap().to_owned());
    let sign_in = format!("[sign_in]\nclient_id = 'Iv1.0123456789abcdef'\nurl = '{url}'\nadmins = ['ada']\n");
    crate::serve_limits::settings(&world, &format!("[quota]\nuser_sessions = 1\n{sign_in}"));
    let secret =
        world.harvest(&["credential", "add", "github-sign-in", "--from-stdin"]).input("recorded-sign-in-secret");
    assert_eq!(secret.finish().exit, Some(0));
    hub.person("ada").post("/issues", &json!({ "title": "Make the failing test pass" })).ok();
    let server = world.serve(&["--agents", "0"]);
    let mut payload = asked(&hub);
    payload["sender"]["login"] = json!("Ada");
    assert_eq!(deliver(&server, "issues", "d-1", &payload).ok()["status"], "queued");
    let outcomes = settled(&world, 1);
    assert!(outcomes[0].starts_with("task "), "{outcomes:?}");
    // It is not the name that has credentials: a login may have got another owner since somebody signed in with it.
    assert_eq!(world.tasks()[0]["requested_by"], "github:ada");
    let name = format!("ada@{host}");
    let token = world.token(&["--user", &name]);
    let answer = server.with(&token).post("/api/tasks", &world.ask("Mend it"));
    let problem = answer.problem(429, "HV-0617");
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains(&format!("user {name} has reached the limit for unfinished tasks: 1")),
        "{problem}"
    );
    // A cap on how many run at a time holds under both names, too.
    let file = rusqlite::Connection::open(world.data().join("harvest.db")).unwrap();
    let counted = |cap: &str| -> i64 {
        file.query_row("SELECT count(*) FROM turn_caps WHERE cap = ?1", [cap], |row| row.get(0)).unwrap()
    };
    assert_eq!([counted(&format!("user:{name}")), counted("user:github:ada")], [1, 1]);
}

#[test]
fn every_published_example_is_accepted() {
    let Some(examples) = examples() else {
        return harvest_testing::skip("npm is not installed");
    };
    let world = World::new();
    let _hub = Hub::new(&world);
    let server = world.serve(&["--agents", "0"]);
    let mut queued = 0;
    for (number, (name, mut example)) in examples.clone().into_iter().enumerate() {
        happens_now(&mut example);
        let answer = deliver(&server, &name, &format!("example-{number}"), &example);
        assert_eq!(answer.status, 202, "{name}: {answer:?}");
        queued += usize::from(answer.ok()["status"] == "queued");
    }
    assert!(examples.len() > 300 && queued > 0, "{} examples, {queued} of them of interest", examples.len());
    // Each was acted on, the last of them as well as the first, and none of them speaks to us.
    let settled = settled(&world, queued);
    assert!(settled.iter().all(|outcome| outcome.starts_with("ignored")), "{settled:#?}");
    assert_eq!(world.tasks().len(), 0);
}

/// The published examples are years old. Each gets times of its own, so that no two are the same.
fn happens_now(payload: &mut Value) {
    let now = jiff::Timestamp::now();
    for (subject, field) in [
        ("issue", "updated_at"),
        ("comment", "created_at"),
        ("pull_request", "updated_at"),
        ("review", "submitted_at"),
        ("check_run", "completed_at"),
    ] {
        if payload[subject][field].is_string() {
            payload[subject][field] = json!(now.to_string());
        }
    }
    if payload["repository"].is_object() {
        payload["repository"]["pushed_at"] = json!(now.as_second());
    }
}

/// What came of so many deliveries, once all have been acted on.
fn settled(world: &World, many: usize) -> Vec<String> {
    let database = rusqlite::Connection::open(world.data().join("harvest.db")).unwrap();
    database.busy_timeout(crate::support::PATIENCE).unwrap();
    let begun = std::time::Instant::now();
    loop {
        let mut asked =
            database.prepare("SELECT outcome FROM deliveries WHERE outcome IS NOT NULL ORDER BY number").unwrap();
        let outcomes: Vec<String> = asked.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        if outcomes.len() == many {
            return outcomes;
        }
        assert!(begun.elapsed() < crate::support::PATIENCE, "{} of {many}: {outcomes:#?}", outcomes.len());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn without_a_secret_there_are_no_webhooks() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    client(&server, "ping", "d-1", Some("sha256=00")).post("/webhooks/github", &json!({})).problem(404, "HV-0605");
}

#[test]
fn strangers_and_programs_begin_so_many_tasks_in_a_day_and_no_more() {
    let world = World::new();
    let hub = Hub::new(&world);
    let quota = "[quota]\nstranger_daily_tasks = 1\nrepository_stranger_daily_tasks = 3\n";
    crate::serve_limits::settings(&world, quota);
    let asking = ["eve", "eve", "mallory", "lint[bot]", "lint[bot]", "trudy", "ada", "ada"];
    for title in asking {
        hub.person("ada").post("/issues", &json!({ "title": format!("For {title}") })).ok();
    }
    let server = world.serve(&["--agents", "0"]);
    for (by, number) in asking.iter().zip(1..) {
        let mut payload = asked(&hub);
        payload["issue"]["number"] = json!(number);
        payload["issue"]["html_url"] = json!(format!("{}/ada/shop/issues/{number}", hub.fake.url()));
        payload["sender"]["login"] = json!(by);
        assert_eq!(deliver(&server, "issues", &format!("d-{number}"), &payload).ok()["status"], "queued");
    }
    let outcomes = settled(&world, asking.len());
    let refused: Vec<_> = outcomes.iter().map(|outcome| !outcome.starts_with("task ")).collect();
    assert_eq!(refused, [false, true, false, false, true, true, false, false], "{outcomes:#?}");
    assert!(outcomes[1].contains("user github:eve has reached the limit for tasks per day: 1 of 1"), "{outcomes:#?}");
    assert!(outcomes[5].contains("has reached the limit for tasks per day: 3 of 3"), "{outcomes:#?}");
}

#[test]
fn the_mentions_of_a_program_are_bounded_like_automatic_fixes() {
    let world = World::new();
    let hub = Hub::new(&world);
    crate::serve_limits::settings(&world, "[github]\nfixes = 1\n");
    let ada = hub.person("ada");
    ada.post("/issues", &json!({ "title": "Make the failing test pass" })).ok();
    ada.send(ureq::http::Method::PUT, "/collaborators/lint%5Bbot%5D", Some(&json!({})));
    let server = world.serve(&["--agents", "0"]);
    deliver(&server, "issues", "d-0", &asked(&hub)).ok();
    for (by, number) in ["lint[bot]", "lint[bot]", "ada"].iter().zip(1..) {
        let mut payload = asked(&hub);
        payload["action"] = json!("created");
        payload["comment"] = json!({ "id": number, "body": format!("@harvest and {number}"), "user": { "login": by } });
        payload["sender"]["login"] = json!(by);
        deliver(&server, "issue_comment", &format!("d-{number}"), &payload).ok();
    }
    let outcomes = settled(&world, 4);
    assert!(outcomes[1].starts_with("turn 2 ") && outcomes[3].starts_with("turn 3 "), "{outcomes:#?}");
    assert_eq!(outcomes[2], "ignored: the limit of automatic turns (1) is reached");
}
