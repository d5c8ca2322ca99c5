//! Webhooks: only what GitHub signed, each delivery once, and nothing that GitHub sends breaks the server.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::github::{Hub, SECRET};
use crate::served::{Client, Server};
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
    let again = client(&server, "issues", "d-2", Some(&signed)).post("/webhooks/github", &payload);
    assert_eq!(again.ok()["status"], "queued");
    hub.status("Queued");
    drop(server);
    let server = world.serve(&["--agents", "0"]);
    let known = client(&server, "issues", "d-1", Some(&signed)).post("/webhooks/github", &payload);
    assert_eq!(known.ok()["status"], "known");
    assert_eq!(world.tasks().len(), 1);
}

#[test]
fn every_published_example_is_accepted() {
    let Some(packages) = crate::description::packages() else {
        eprintln!("there is no npm here: the published examples are not sent");
        return;
    };
    let world = World::new();
    let _hub = Hub::new(&world);
    let server = world.serve(&["--agents", "0"]);
    let text = std::fs::read_to_string(packages.join("webhooks-examples/api.github.com/index.json")).unwrap();
    let events: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut sent = 0;
    for event in &events {
        let name = event["name"].as_str().unwrap();
        for example in event["examples"].as_array().unwrap() {
            let delivery = format!("example-{sent}");
            let signed = signature(SECRET, &example.to_string());
            let answer = client(&server, name, &delivery, Some(&signed)).post("/webhooks/github", example);
            assert_eq!(answer.status, 202, "{name}: {answer:?}");
            sent += 1;
        }
    }
    assert!(sent > 150, "{sent}");
    assert_eq!(world.tasks().len(), 0, "none of them speaks to us");
}

#[test]
fn without_a_secret_there_are_no_webhooks() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    client(&server, "ping", "d-1", Some("sha256=00")).post("/webhooks/github", &json!({})).problem(404, "HV-0605");
}
