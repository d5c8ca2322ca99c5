//! The account on GitHub is added, replaced and removed while workers and servers run.

use harvest_forge::fake::Exchange;
use serde_json::{Value, json};

use crate::description;
use crate::github::{Hub, SECRET, wait_for};
use crate::killed::journal;
use crate::reattach::wait_until;
use crate::served::Server;
use crate::support::{FIX, World};

fn ask(hub: &Hub) {
    hub.person("ada").post("/issues", &json!({ "title": "Make the failing test pass", "labels": ["harvest"] })).ok();
}

fn opened(hub: &Hub) -> Value {
    let is_one = |call: &Exchange| call.method == "POST" && call.path.ends_with("/pulls") && call.status == 201;
    hub.exchange("a pull request", is_one).answer.unwrap()
}

fn done(hub: &Hub) -> String {
    hub.status("**Done**").request.unwrap()["body"].as_str().unwrap().to_owned()
}

/// The installation's one credential.
fn credential(world: &World) -> String {
    world.json(&["credential", "list"])["items"][0]["id"].as_str().unwrap().to_owned()
}

/// Until a server that runs has noticed that there is an account: an unsigned webhook is refused for its signature then.
fn wait_for_webhooks(server: &Server) {
    wait_until("webhooks are taken", || server.anyone().post("/webhooks/github", &json!({})).status == 401);
}

#[test]
fn a_worker_that_was_there_before_the_account_delivers_with_it() {
    let world = World::new();
    let hub = Hub::unknown(&world);
    let script = world.script(&json!([{ "shell": FIX }, { "say": "Done." }]));
    let mut worker = world.worker(&script, &["--agents", "1"]).start();
    // It has worked before there is an account.
    world.add_task("Make the failing test pass");
    worker.wait_for_type("finished");
    let evidence = world.data().join("evidence.key");
    assert!(!evidence.exists(), "where nobody would read it, no key is made");

    hub.introduce(&world);
    let server = world.serve(&["--agents", "0"]);
    hub.tell(&server);
    ask(&hub);
    let pull = opened(&hub);
    assert!(pull["body"].as_str().unwrap().contains("```json\n"), "the evidence is signed: {pull:#}");
    assert!(evidence.exists());
    let body = done(&hub);
    assert!(body.contains("/pull/2") && body.contains("`harvest task logs "), "{body}");
    assert!(!body.contains("--follow"), "it is over: {body}");
    assert_eq!((hub.calls("POST", "/pulls"), hub.calls("POST", "/issues/1/comments")), (1, 1), "one of each");
    description::holds(&hub.fake.exchanges());
}

#[test]
fn a_server_that_was_there_before_the_account_takes_its_webhooks() {
    let world = World::new();
    let hub = Hub::unknown(&world);
    let server = world.serve_with(&json!([{ "shell": FIX }, { "say": "Done." }]), &["--agents", "1"]);
    server.anyone().post("/webhooks/github", &json!({})).problem(404, "HV-0605");
    hub.introduce(&world);
    wait_for_webhooks(&server);
    hub.tell(&server);
    ask(&hub);
    opened(&hub);
    done(&hub);
    // As soon as it is gone, it is gone for the server, too.
    assert_eq!(world.harvest(&["credential", "remove", &credential(&world)]).finish().exit, Some(0));
    wait_until("no webhooks are taken", || server.anyone().post("/webhooks/github", &json!({})).status == 404);
}

/// A server whose agent is at work on the first issue until it is let go on, and its task.
fn at_work(world: &World, hub: &Hub) -> (Server, String) {
    let wait = format!("until test -e {}; do sleep 0.1; done", world.path().join("go").display());
    let replies = json!([{ "shell": format!("{FIX}; {wait}") }, { "say": "Done." }]);
    let server = world.serve_with(&replies, &["--agents", "1", "--sandbox", "none"]);
    hub.tell(&server);
    ask(hub);
    hub.status("Working on it");
    let task = wait_for(|| world.tasks().into_iter().next())["id"].as_str().unwrap().to_owned();
    wait_until("its agent works", || journal(world, &task).iter().any(|event| event["type"] == "tool.call"));
    (server, task)
}

#[test]
fn a_task_says_so_when_the_account_is_removed_while_its_agent_works() {
    let world = World::new();
    let hub = Hub::new(&world);
    let (_server, task) = at_work(&world, &hub);
    assert_eq!(world.harvest(&["credential", "remove", &credential(&world)]).finish().exit, Some(0));
    std::fs::write(world.path().join("go"), "").unwrap();
    wait_until("the task ends", || world.tasks()[0]["status"] == "completed");
    let events = journal(&world, &task);
    let says = |event: &&Value| {
        event["data"]["message"].as_str().is_some_and(|text| text.starts_with("there is no GitHub account for http"))
    };
    assert_eq!(events.iter().filter(says).count(), 1, "{events:#?}");
    assert_eq!(hub.calls("POST", "/pulls"), 0, "what was removed is not used");
}

#[test]
fn work_is_delivered_with_the_account_that_took_the_place_of_the_one_it_began_with() {
    let world = World::new();
    let hub = Hub::new(&world);
    let (_server, _) = at_work(&world, &hub);
    let document = json!({ "token": "token-ada", "webhook_secret": SECRET }).to_string();
    let rotated =
        world.harvest(&["credential", "rotate", &credential(&world), "--from-stdin"]).input(&document).finish();
    assert_eq!(rotated.exit, Some(0), "{rotated:?}");
    std::fs::write(world.path().join("go"), "").unwrap();
    assert_eq!(opened(&hub)["user"]["login"], "ada");
    done(&hub);
}
