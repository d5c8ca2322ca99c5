//! A person asks for the pull request of work that was not pushed.

use std::fs;

use serde_json::{Value, json};

use crate::description;
use crate::github::{Hub, wait_for};
use crate::killed::journal;
use crate::support::{World, git};

/// Serves with `config`, lets a task fail on GitHub, and returns the server and the task's id.
pub fn failed(world: &World, hub: &Hub, config: &str, shell: &str) -> (crate::served::Server, String) {
    let path = world.path().join("harvest.toml");
    fs::write(&path, config).unwrap();
    let replies = json!([{ "shell": shell }, { "say": "Done." }]);
    let server = world.serve_with(&replies, &["--agents", "1", "--config", path.to_str().unwrap()]);
    hub.tell(&server);
    hub.person("ada").post("/issues", &json!({ "title": "Break it", "labels": ["harvest"] })).ok();
    hub.status("**Failed**");
    let ended = |task: &Value| task["status"] == "failed";
    let task = wait_for(|| world.tasks().into_iter().next().filter(ended));
    assert_eq!(hub.calls("POST", "/pulls"), 0);
    (server, task["id"].as_str().unwrap().to_owned())
}

fn ended_again(world: &World, id: &str) -> Vec<Value> {
    wait_for(|| {
        let events = journal(world, id);
        let ends = events.iter().filter(|event| event["type"] == "task.finished").count();
        (ends == 2).then_some(events)
    })
}

#[test]
fn work_that_failed_becomes_a_draft_when_a_person_asks_and_no_agent_runs_again() {
    // Where results wait for approval, asking for the pull request is one.
    for config in ["", "[deliver]\napproval = true\n"] {
        let world = World::new();
        let hub = Hub::new(&world);
        let (server, id) = failed(&world, &hub, config, "echo 'exit 1' >> src/one.sh");
        let address = format!("/api/tasks/{id}/pull-request");
        assert_eq!(server.with(&world.token(&["--role", "viewer"])).post(&address, &json!({})).status, 403);
        let member = server.with(&world.token(&["--role", "member"])).header("idempotency-key", "once");
        for _ in 0..2 {
            assert_eq!(member.post(&address, &json!({})).status, 202);
        }
        let opened = hub
            .exchange("a draft", |call| call.method == "POST" && call.path.ends_with("/pulls") && call.status == 201);
        let asked = opened.request.unwrap();
        let body = asked["body"].as_str().unwrap();
        assert_eq!((&asked["title"], &asked["draft"]), (&json!("Break it"), &json!(true)), "{config}");
        assert!(body.contains("**Not finished:**") && body.contains("| result | 1 |"), "{body}");
        let events = ended_again(&world, &id);
        let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        assert_eq!((count("agent.started"), count("turn.queued"), count("pull_request.delivered")), (1, 1, 1));
        let branch = asked["head"].as_str().unwrap();
        assert!(git(&hub.repository(), &["show", &format!("{branch}:src/one.sh")]).contains("exit 1"));
        assert_eq!(git(&hub.repository(), &["log", "-1", "--format=%s", branch]), "Break it", "what was asked for");
        // There is one now.
        let again = server.with(&world.token(&["--role", "member"])).post(&address, &json!({}));
        assert_eq!((again.status, &again.json()["code"]), (409, &json!("HV-0163")), "{again:?}");
        let log = world.harvest(&["audit", "export"]).finish().stdout;
        assert!(log.contains("\"task.pull_request\""), "{log}");
        description::holds(&hub.fake.exchanges());
    }
}

#[test]
fn a_pull_request_and_a_fork_that_a_person_asks_for_are_held_to_their_quota() {
    let world = World::new();
    let hub = Hub::new(&world);
    let (server, id) = failed(&world, &hub, "[quota]\nuser_sessions = 1\n", "echo 'exit 1' >> src/one.sh");
    let grace = server.with(&world.token(&["--user", "grace"]));
    let session = grace.get(&format!("/api/tasks/{id}")).ok()["sessions"][0]["id"].as_str().unwrap().to_owned();
    let at = grace.get(&format!("/api/sessions/{session}")).ok()["last_seq"].clone();
    let doors = [
        (format!("/api/tasks/{id}/pull-request"), json!({})),
        (format!("/api/sessions/{session}/fork"), json!({ "at": at, "prompt": "Another way" })),
    ];
    world.json(&["queue", "pause"]);
    let only = grace.post("/api/tasks", &world.ask("Mend it")).ok();
    for (path, body) in &doors {
        grace.post(path, body).problem(429, "HV-0617");
    }
    assert_eq!(world.tasks().len(), 2, "nothing is left of what was refused");
    for (path, body) in &doors {
        let under_way = world.tasks().into_iter().find(|task| task["status"] == "pending").unwrap_or(only.clone());
        grace.post(&format!("/api/tasks/{}/cancel", under_way["id"].as_str().unwrap()), &json!({})).ok();
        let answer = grace.post(path, body);
        assert!(answer.status < 300, "{path}: {answer:?}");
    }
}

#[test]
fn the_hooks_of_a_delivery_hold_for_a_pull_request_that_a_person_asks_for() {
    let world = World::new();
    let hub = Hub::new(&world);
    let config = "hooks = [\"before_deliver: false\"]\n";
    let (server, id) = failed(&world, &hub, config, "echo 'exit 1' >> src/one.sh");
    let member = server.with(&world.token(&["--role", "member"]));
    assert_eq!(member.post(&format!("/api/tasks/{id}/pull-request"), &json!({})).status, 202);
    ended_again(&world, &id);
    assert_eq!(hub.calls("POST", "/pulls"), 0);
    let branches = git(&hub.repository(), &["for-each-ref", "--format=%(refname)", "refs/heads/harvest"]);
    assert_eq!(branches, "", "nothing left");
}

#[test]
fn a_pull_request_is_refused_where_there_can_be_none() {
    let world = World::new();
    let server =
        world.serve_with(&json!([{ "shell": "echo more >> src/one.sh" }, { "say": "Done." }]), &["--agents", "1"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let repository = world.repo();
    let asked = json!({ "prompt": "Break it", "repository": repository.to_str().unwrap() });
    let id = admin.post("/api/tasks", &asked).ok()["id"].as_str().unwrap().to_owned();
    let ended = |task: &Value| task["finished_at"].is_string();
    wait_for(|| world.tasks().into_iter().next().filter(ended));
    let refused = admin.post(&format!("/api/tasks/{id}/pull-request"), &json!({}));
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("HV-0163")), "{refused:?}");
    assert!(refused.text.contains("is not a repository of the GitHub account"), "{refused:?}");
}

#[test]
fn the_commit_of_a_review_turn_says_what_it_is_about_and_the_description_covers_the_task() {
    let world = World::new();
    let hub = Hub::new(&world);
    let path = world.path().join("turns.json");
    let script = json!({ "conversations": [
        { "when_prompt_contains": "Say it louder.", "replies": [{ "shell": "echo louder > notes.txt" }, { "say": "It is louder now." }] },
        { "replies": [{ "shell": crate::support::FIX }, { "say": "The second script says two now." }] },
    ] });
    fs::write(&path, script.to_string()).unwrap();
    let server = world.serve(&["--model-script", path.to_str().unwrap(), "--agents", "1"]);
    hub.tell(&server);
    let ada = hub.person("ada");
    ada.post("/issues", &json!({ "title": "Make the failing test pass", "labels": ["harvest"] })).ok();
    hub.status("Done");
    let remarks = json!([{ "path": "src/two.sh", "line": 1, "body": "Say it louder." }]);
    let review = json!({ "event": "REQUEST_CHANGES", "body": "Almost there.\nSee below.", "comments": remarks });
    ada.post("/pulls/2/reviews", &review).ok();
    let updated = hub.exchange("an update", |call| {
        let body = call.request.as_ref().and_then(|request| request["body"].as_str()).unwrap_or_default();
        call.method == "PATCH" && call.path.ends_with("/pulls/2") && body.contains("louder now")
    });
    let asked = updated.request.unwrap();
    let body = asked["body"].as_str().unwrap();
    assert!(body.starts_with("The second script says two now."), "the first request comes first: {body}");
    let listed = "### Follow-ups\n\n- **Address review comments: Almost there.**: It is louder now.\n";
    assert!(body.contains(listed), "{body}");
    assert_eq!(body.matches("### Evidence").count(), 1, "{body}");
    let branch = world.tasks()[0]["branch"].as_str().unwrap().to_owned();
    let subjects = git(&hub.repository(), &["log", "--reverse", "--format=%s", &format!("main..{branch}")]);
    assert_eq!(subjects, "Make the failing test pass\nAddress review comments: Almost there.");
    description::holds(&hub.fake.exchanges());
}

/// A follow-up that fails stays here: what was delivered before is not what the newest evidence is about.
#[test]
fn evidence_of_work_that_was_not_delivered_is_about_the_tested_commit() {
    let world = World::new();
    let hub = Hub::new(&world);
    let path = world.path().join("turns.json");
    let script = json!({ "conversations": [
        { "when_prompt_contains": "Break it again", "replies": [{ "shell": "echo 'echo broken' > src/one.sh" }, { "say": "Done." }] },
        { "replies": [{ "shell": crate::support::FIX }, { "say": "Done." }] },
    ] });
    fs::write(&path, script.to_string()).unwrap();
    let server = world.serve(&["--model-script", path.to_str().unwrap(), "--agents", "1"]);
    hub.tell(&server);
    let ada = hub.person("ada");
    ada.post("/issues", &json!({ "title": "Make the failing test pass", "labels": ["harvest"] })).ok();
    hub.status("Done");
    let id = world.tasks()[0]["id"].as_str().unwrap().to_owned();
    ada.post("/issues/2/comments", &json!({ "body": "@harvest Break it again" })).ok();
    ended_again(&world, &id);
    let file = world.path().join("evidence.json");
    fs::write(&file, world.json(&["evidence", "export", &id]).to_string()).unwrap();
    let statement = &world.json(&["evidence", "verify", file.to_str().unwrap()])["statement"];
    let (subject, predicate) = (&statement["subject"][0]["digest"]["gitCommit"], &statement["predicate"]);
    assert_eq!((&predicate["proves_success"], subject), (&json!(false), &predicate["tested_commit"]), "{statement:#}");
}
