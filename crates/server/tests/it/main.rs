//! The document of the API, held against the code. How the server behaves is tested from outside, in `crates/harvest`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use serde_json::Value;

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap();
        item.iter().map(move |(method, operation)| (path.clone(), method.clone(), operation.clone()))
    });
    all.collect()
}

fn document() -> Value {
    serde_json::to_value(harvest_server::document()).unwrap()
}

#[test]
fn the_committed_document_is_the_one_that_is_served() {
    let committed = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi.json")).unwrap();
    let made = harvest_server::document().to_pretty_json().unwrap();
    assert!(
        committed.trim_end() == made,
        "openapi.json is not what the code says: cargo run -p harvest-server --example openapi > openapi.json"
    );
}

#[test]
fn no_description_has_links_or_values_of_the_source_code() {
    let text = harvest_server::document().to_pretty_json().unwrap();
    let leaks = ["[`", "`None`", "`Some(", "`Ok(", "`Err("];
    let lines: Vec<&str> = text.lines().filter(|line| leaks.iter().any(|leak| line.contains(leak))).collect();
    assert!(lines.is_empty(), "{lines:#?}");
}

#[test]
fn every_operation_says_who_may_call_it_and_how_it_fails() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    let mut names = std::collections::BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        let place = format!("{method} {path}");
        assert!(path.starts_with("/api/") || path == "/metrics", "{place}");
        let role =
            operation["security"][0].as_object().and_then(|one| one.values().next()?[0].as_str().map(str::to_owned));
        assert!(["viewer", "member", "admin"].contains(&role.as_deref().unwrap_or_default()), "{place}");
        let first = &operation["security"][0].as_object().unwrap().values().next().unwrap().clone();
        for other in operation["security"].as_array().unwrap() {
            assert_eq!(
                other.as_object().unwrap().values().next().unwrap(),
                first,
                "{place}: one rule for token and cookie"
            );
        }
        assert!(operation["responses"]["4XX"]["content"]["application/problem+json"].is_object(), "{place}");
        assert!(operation["summary"].is_string() || operation["description"].is_string(), "{place}");
        assert!(names.insert(operation["operationId"].as_str().unwrap().to_owned()), "{place}: the name is used twice");
        // Everyone may leave, and revoke their own tokens.
        let of_oneself = ["/api/logout", "/api/tokens/{id}"].contains(&path.as_str());
        if method != "get" && !of_oneself {
            assert_ne!(role.as_deref(), Some("viewer"), "{place}: a viewer changes nothing");
        }
    }
}
