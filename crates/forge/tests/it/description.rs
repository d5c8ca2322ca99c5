//! GitHub's own description of its API (npm `@octokit/openapi`): every request has to be one that it allows, and every answer
//! of the fake one that it gives.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use harvest_forge::fake::Exchange;
use jsonschema::Validator;
use serde_json::{Map, Value, json};

const DESCRIPTION: &str = "@octokit/openapi@23.0.2";
const EXAMPLES: &str = "@octokit/webhooks-examples@7.6.1";

/// The packages, installed once and kept; `None` where there is no npm to get them with.
pub fn packages() -> Option<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let install = || {
        let tools = std::env::var_os("HARVEST_TOOLS").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
        let folder = Path::new(&tools).join("github-23.0.2");
        if let Some(filling) = harvest_testing::Filling::of(&folder).ok()? {
            let options = ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
            let npm =
                Command::new("npm").args(options).arg("--prefix").arg(&folder).args([DESCRIPTION, EXAMPLES]).status();
            if !npm.is_ok_and(|status| status.success()) {
                return None;
            }
            filling.complete().ok()?;
        }
        Some(folder.join("node_modules/@octokit"))
    };
    FOUND.get_or_init(install).clone()
}

/// Panics over the first exchange that GitHub would not have had. Without the description nothing can be said.
pub fn holds(exchanges: &[Exchange]) {
    let Some(packages) = packages() else {
        return harvest_testing::skip("npm is not installed: nothing is held against GitHub's description");
    };
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| {
        let text = std::fs::read_to_string(packages.join("openapi/generated/api.github.com.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    });
    assert!(!exchanges.is_empty(), "nothing was said");
    for exchange in exchanges {
        check(document, exchange);
    }
}

fn check(document: &Value, exchange: &Exchange) {
    let Exchange { method, path, query, request, status, answer } = exchange;
    let at = format!("{method} {path} → {status}");
    let operation = operation(document, method, path).unwrap_or_else(|| panic!("{at}: there is no such operation"));
    let allowed: BTreeSet<&str> = parameters(document, operation, "query").collect();
    for (name, _) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        assert!(allowed.contains(name), "{at}: there is no parameter `{name}`");
    }
    if let Some(body) = request {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        valid(document, schema, body, &format!("{at}: the request"));
        // What GitHub does not know it ignores, and then does something else than was meant.
        let known = schema["properties"].as_object();
        for name in body.as_object().into_iter().flat_map(|body| body.keys()) {
            assert!(known.is_none_or(|known| known.contains_key(name)), "{at}: there is no field `{name}`");
        }
    }
    let response = resolve(document, &operation["responses"][status.to_string()]);
    assert!(!response.is_null(), "{at}: GitHub does not answer that");
    // Of some refusals it describes no body.
    if let Some(body) = answer.as_ref().filter(|_| *status < 400 || !response["content"].is_null()) {
        let schema = &response["content"]["application/json"]["schema"];
        valid(document, schema, body, &format!("{at}: the answer"));
    }
}

fn operation<'d>(document: &'d Value, method: &str, path: &str) -> Option<&'d Value> {
    let asked: Vec<&str> = path.split('/').collect();
    let fits = |template: &str| {
        let parts: Vec<&str> = template.split('/').collect();
        parts.len() == asked.len()
            && parts.iter().zip(&asked).all(|(part, asked)| part == asked || part.starts_with('{'))
    };
    let mut found: Vec<(&String, &Value)> =
        document["paths"].as_object().unwrap().iter().filter(|(template, _)| fits(template)).collect();
    // The one with the fewest places that fit anything.
    found.sort_by_key(|(template, _)| template.matches('{').count());
    found.iter().find_map(|(_, item)| item.get(method.to_ascii_lowercase()))
}

fn parameters<'d>(document: &'d Value, operation: &'d Value, place: &'d str) -> impl Iterator<Item = &'d str> {
    let all = operation["parameters"].as_array().into_iter().flatten();
    let all = all.map(|parameter| resolve(document, parameter));
    all.filter(move |parameter| parameter["in"] == place).filter_map(|parameter| parameter["name"].as_str())
}

fn resolve<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => value,
    }
}

fn valid(document: &Value, schema: &Value, body: &Value, what: &str) {
    assert!(!schema.is_null(), "{what}: it has no body");
    let validator = validator(document, schema);
    let errors: Vec<String> =
        validator.iter_errors(body).take(5).map(|error| format!("{error:.300} at {}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{what}:\n{}", errors.join("\n"));
}

/// A schema with those that it names, in the words of JSON Schema.
fn validator(document: &Value, schema: &Value) -> Validator {
    let mut named = BTreeSet::new();
    let mut waiting = references(schema);
    while let Some(name) = waiting.pop() {
        if named.insert(name.clone()) {
            waiting.extend(references(&document["components"]["schemas"][&name]));
        }
    }
    let schemas: Map<String, Value> = named
        .into_iter()
        .map(|name| {
            let schema = translated(&document["components"]["schemas"][&name]);
            (name, schema)
        })
        .collect();
    let whole = json!({ "allOf": [translated(schema)], "components": { "schemas": schemas } });
    jsonschema::draft7::new(&whole).unwrap()
}

fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => {
            let own = fields.get("$ref").and_then(Value::as_str).and_then(|name| name.rsplit('/').next());
            own.map(str::to_owned).into_iter().chain(fields.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

/// OpenAPI 3.0 says `nullable` where JSON Schema says that it may be null.
fn translated(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut changed: Map<String, Value> =
                fields.iter().map(|(name, value)| (name.clone(), translated(value))).collect();
            changed.remove("example");
            if changed.remove("nullable") == Some(Value::Bool(true)) {
                return json!({ "anyOf": [Value::Object(changed), { "type": "null" }] });
            }
            Value::Object(changed)
        }
        Value::Array(items) => items.iter().map(translated).collect(),
        other => other.clone(),
    }
}
