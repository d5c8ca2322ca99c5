//! GitHub is away while a result is delivered.

use serde_json::{Value, json};

use crate::github::Hub;
use crate::killed::journal;
use crate::reattach::wait_until;
use crate::support::{FIX, Running, World};

/// A worker whose agent will be busy for some seconds, and its task.
fn at_work(world: &World, hub: &Hub) -> (Running, String) {
    let script = world.script(&json!([{ "shell": format!("{FIX}; sleep 8") }, { "say": "Done." }]));
    let address = format!("{}/ada/shop", hub.fake.url());
    let args = ["task", "add", "Make the failing test pass", "--repo", &address, "--json"];
    let added: Value = serde_json::from_str(&world.harvest(&args).finish().stdout).unwrap();
    let task = added["id"].as_str().unwrap().to_owned();
    let mut up = world.harvest(&["up", "--until-empty", "--agents", "1", "--model-script"]);
    up.command.arg(&script);
    let running = up.start();
    wait_until("its agent works", || journal(world, &task).iter().any(|event| event["type"] == "tool.call"));
    (running, task)
}

fn tells_of_an_outage(event: &Value) -> bool {
    event["data"]["message"].as_str().is_some_and(|text| text.contains("cannot be reached"))
}

/// What is tested is delivered when GitHub is back, once, and no agent works twice.
#[test]
fn an_outage_at_delivery_is_waited_out() {
    let world = World::new();
    let hub = Hub::new(&world);
    let (running, task) = at_work(&world, &hub);
    // More than is asked for again at once.
    hub.fake.fail_next(6);
    let ran = running.finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert_eq!(hub.fake.outage(), 0);
    assert_eq!(hub.calls("POST", "/pulls"), 1);
    let events = journal(&world, &task);
    assert_eq!(events.last().unwrap()["data"]["status"], "completed", "{events:#?}");
    let count = |wanted: &dyn Fn(&Value) -> bool| events.iter().filter(|event| wanted(event)).count();
    assert_eq!(count(&|event| event["type"] == "agent.started"), 1);
    assert_eq!(count(&|event| event["type"] == "pull_request.delivered"), 1);
    assert_eq!(count(&tells_of_an_outage), 1, "{events:#?}");
}

/// Who waits for GitHub hears that nobody wants it any more.
#[test]
fn an_outage_at_delivery_can_be_cancelled() {
    let world = World::new();
    let hub = Hub::new(&world);
    let (running, task) = at_work(&world, &hub);
    hub.fake.fail_next(1_000_000);
    wait_until("it waits", || journal(&world, &task).iter().any(tells_of_an_outage));
    let cancelled = world.harvest(&["task", "cancel", &task]).finish();
    assert_eq!(cancelled.exit, Some(0), "{cancelled:?}");
    hub.fake.fail_next(0);
    running.finish();
    assert_eq!(world.tasks()[0]["status"], "cancelled");
    assert_eq!(hub.calls("POST", "/pulls"), 0);
}
