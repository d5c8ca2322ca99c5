//! Schemathesis makes requests of all kinds from the document, valid and not, and holds every answer against it.
//!
//! It is installed from PyPI and kept, so it needs the network once; `make test` asks for it when it is there.

use std::process::Command;

use serde_json::json;

use crate::agents::python_package;
use crate::served::Client;
use crate::support::{PATH, World};

/// What is valid by its form may still name something that is not there, a key that was used before, or an older version.
const SETTINGS: &str = "[checks.positive_data_acceptance]\n\
    expected-statuses = [\"2xx\", \"3xx\", 400, 401, 403, 404, 409, 412, 422, 428, 429]\n";

#[test]
#[ignore = "needs the network"]
fn row_27_schemathesis_finds_no_failure_and_no_answer_outside_of_the_document() {
    let program = python_package("schemathesis-4.32.5", "schemathesis==4.32.5").join("bin/schemathesis");
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let token = world.token(&["--role", "admin"]);
    // The examples of the document name it.
    server.with(&token).post("/api/repositories", &json!({ "source": world.repo(), "name": "shop" })).ok();
    std::fs::write(world.path().join("schemathesis.toml"), SETTINGS).unwrap();
    let ran = Command::new(program)
        .env_clear()
        .envs([("PATH", PATH), ("LANG", "C.UTF-8")])
        .env("HOME", world.home())
        .current_dir(world.path())
        .args(["--config-file", "schemathesis.toml", "run", "--checks", "all", "--max-examples", "10"])
        .args(["--workers", "2", "--request-timeout", "20", "--seed", "7", "--header"])
        .arg(format!("Authorization: Bearer {token}"))
        // Streams do not end.
        .args(["--exclude-path", "/api/events"])
        .arg(format!("{}/api/openapi.json", server.url))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(server.anyone().get("/readyz").status, 200);
}

#[test]
fn the_api_reference_without_scripts_lists_the_fields_of_a_body_and_depends_on_accept() {
    let world = World::new();
    let server = world.serve(&[]);
    let program = Client::at(&server.url).get("/api/docs");
    let browser = Client::at(&server.url).header("accept", "text/html");
    for answer in [&program, &browser.get("/api/docs?plain")] {
        assert_eq!(answer.status, 200, "{answer:?}");
        let (_, create) = answer.text.split_once("<h2><code>POST /api/tasks</code></h2>").unwrap();
        let create = create.split("<h2>").next().unwrap();
        assert!(create.contains("<tr><td><code>budget_usd</code><td>"), "{create}");
        assert!(create.contains("The most that the task may cost, in US dollars."), "{create}");
    }
    for answer in [&program, &browser.get("/api/docs")] {
        let vary = answer.headers.iter().filter(|(name, _)| name == "vary").map(|(_, value)| value.as_str());
        assert!(vary.clone().any(|value| value == "accept"), "{:?}", vary.collect::<Vec<_>>());
    }
}
