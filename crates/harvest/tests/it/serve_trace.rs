//! One trace of a whole task, at a collector that knows nothing but OTLP.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::http::{Reply, host};
use crate::support::{FIX, World};

#[test]
fn a_task_is_one_trace_from_the_request_to_the_model_call() {
    let world = World::new();
    let heard: Arc<Mutex<Vec<Value>>> = Arc::default();
    let own = heard.clone();
    let collector = host(move |asked| {
        assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/v1/traces"));
        assert_eq!(asked.headers["content-type"], "application/json");
        own.lock().unwrap().push(serde_json::from_slice(&asked.body).unwrap());
        Reply { status: 200, location: None, body: json!({}) }
    });
    let script = world.script(&json!([{ "say": "I see.", "shell": FIX }, { "say": "Done." }]));
    let mut serving = world.harvest(&["serve", "--listen", "127.0.0.1:0", "--json", "--agents", "1", "--log", "info"]);
    serving
        .command
        .arg("--log-format")
        .arg("json")
        .arg("--model-script")
        .arg(script)
        .env("HARVEST_OTLP_ENDPOINT", &collector);
    let server = crate::served::Server::started(serving.start());
    let client = server.with(&world.token(&[]));
    let task = client.worked_off(&world.ask("Make the failing test pass"));
    assert_eq!(task["status"], "completed");
    server.running.signal(Signal::TERM);
    let ran = server.running.finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    for line in ran.stderr.lines().filter(|line| line.starts_with('{')) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["level"].is_string() && line["timestamp"].is_string(), "{line}");
    }
    let heard = heard.lock().unwrap();
    let batches = heard.iter().flat_map(|document| document["resourceSpans"].as_array().unwrap().clone());
    let spans: Vec<Value> = batches
        .flat_map(|batch| {
            assert_eq!(
                batch["resource"]["attributes"][0],
                json!({ "key": "service.name", "value": { "stringValue": "harvest" } })
            );
            batch["scopeSpans"][0]["spans"].as_array().unwrap().clone()
        })
        .collect();
    let trace = spans[0]["traceId"].as_str().unwrap().to_owned();
    assert_eq!(trace.len(), 32);
    assert!(spans.iter().all(|span| span["traceId"] == trace.as_str()), "{spans:#?}");
    let by_id: HashMap<&str, &Value> = spans.iter().map(|span| (span["spanId"].as_str().unwrap(), span)).collect();
    assert_eq!(by_id.len(), spans.len(), "every span is told once");
    // From a span up to the one that nothing is above.
    let path = |name: &str| -> Vec<String> {
        let mut span =
            spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("no {name}: {spans:#?}"));
        let mut names = vec![name.to_owned()];
        while let Some(parent) = span["parentSpanId"].as_str() {
            let above = by_id.get(parent).unwrap_or_else(|| panic!("{name} hangs in the air"));
            let time = |span: &Value, at: &str| span[at].as_str().unwrap().parse::<u128>().unwrap();
            assert!(time(above, "startTimeUnixNano") <= time(span, "startTimeUnixNano") + 5_000_000, "{above} {span}");
            span = above;
            names.push(span["name"].as_str().unwrap().to_owned());
        }
        names
    };
    assert_eq!(path("model call"), ["model call", "agent", "turn", "task", "POST /api/tasks"]);
    assert_eq!(path("sandbox"), ["sandbox", "turn", "task", "POST /api/tasks"]);
    assert_eq!(path("claim"), ["claim", "task", "POST /api/tasks"]);
    assert_eq!(path("tests"), ["tests", "turn", "task", "POST /api/tasks"]);
    let count = |name: &str| spans.iter().filter(|span| span["name"] == name).count();
    assert_eq!((count("model call"), count("agent"), count("task")), (2, 1, 1));
    let call = spans.iter().find(|span| span["name"] == "model call").unwrap();
    let keys: Vec<&str> = call["attributes"].as_array().unwrap().iter().filter_map(|one| one["key"].as_str()).collect();
    assert!(keys.contains(&"gen_ai.usage.input_tokens") && keys.contains(&"gen_ai.request.model"), "{call}");
    let root = spans.iter().find(|span| span["name"] == "task").unwrap();
    assert_eq!(root["status"]["code"], 1);
}

#[test]
fn a_collector_that_is_away_costs_nobody_anything() {
    let world = World::new();
    let script = world.script(&json!([{ "say": "Done." }]));
    let mut serving = world.harvest(&["serve", "--listen", "127.0.0.1:0", "--json", "--agents", "1"]);
    serving.command.arg("--model-script").arg(script).env("HARVEST_OTLP_ENDPOINT", "http://127.0.0.1:1");
    let server = crate::served::Server::started(serving.start());
    let client = server.with(&world.token(&[]));
    client.worked_off(&world.ask("Look around"));
    server.running.signal(Signal::TERM);
    assert_eq!(server.running.finish().exit, Some(0));
    let mut bad = world.harvest(&["serve", "--listen", "127.0.0.1:0", "--agents", "0"]);
    bad.command.env("HARVEST_OTLP_ENDPOINT", "collector");
    let refused = bad.finish();
    assert_eq!(refused.exit, Some(2));
    assert!(refused.stderr.contains("HARVEST_OTLP_ENDPOINT: it must begin with https://"), "{refused:?}");
}
