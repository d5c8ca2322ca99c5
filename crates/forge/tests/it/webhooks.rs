//! Every webhook that GitHub publishes an example of is understood or left alone.

use harvest_forge::github::Host;
use harvest_forge::github::webhook::Listener;
use serde_json::Value;

#[test]
fn every_published_example_is_understood_or_ignored() {
    let Some(packages) = crate::description::packages() else {
        return harvest_testing::skip("npm is not installed");
    };
    let text = std::fs::read_to_string(packages.join("webhooks-examples/api.github.com/index.json")).unwrap();
    let events: Vec<Value> = serde_json::from_str(&text).unwrap();
    let listener = Listener::new(Host::new(None).unwrap(), &"s".to_owned().into(), "harvest", "harvest");
    let (mut tried, mut understood) = (0, Vec::new());
    for event in &events {
        let name = event["name"].as_str().unwrap();
        for example in event["examples"].as_array().unwrap() {
            let told = listener.translate(name, example.to_string().as_bytes()).unwrap();
            tried += 1;
            understood.extend(told.map(|_| name));
        }
    }
    assert!(tried > 150, "{tried}");
    understood.dedup();
    // The examples assign nobody and mention nobody; these need no such thing.
    for name in ["pull_request", "pull_request_review", "push"] {
        assert!(understood.contains(&name), "{name}: {understood:?}");
    }
}
