//! Keys of every known shape go in wherever people, agents, models and hosts can put them, and come out nowhere.

use std::fs;

use serde_json::json;

use crate::secret_scan::Scanner;
use crate::support::{FIX, World};

/// One of every shape, made up.
const SHAPES: &[&str] = &[
    "sk-ant-api03-canary0123456789abcdefgh",
    "sk-proj-canary0123456789abcdefgh",
    "sk-svcacct-canary0123456789abcdefgh",
    "sk-admin-canary0123456789abcdefgh",
    "sk-or-v1-canary0123456789abcdefgh",
    "sk-canary0123456789abcdefghijklmnopqrstuv",
    "ghp_canary0123456789abcdefghijklmnopqr",
    "gho_canary0123456789abcdefghijklmnopqr",
    "ghu_canary0123456789abcdefghijklmnopqr",
    "ghs_canary0123456789abcdefghijklmnopqr",
    "ghr_canary0123456789abcdefghijklmnopqr",
    "github_pat_canary0123456789abcdefghijklmnop",
    "xoxb-canary0123456789",
    "xapp-canary0123456789",
    "hv_canary0123456789abcdefghjkmnpqrstvwxyz0123456789abcd",
    "glpat-canary0123456789abcdef",
    "npm_canary0123456789abcdefghijklmnopqrstuv",
    "hf_canary0123456789abcdefghijklmnop",
    "lin_api_canary0123456789abcdefghijklmn",
    "AKIACANARY0123456789",
    "AIzacanary0123456789abcdefghijklmnopqrs",
];
/// Has no shape; only the vault knows it.
const KEPT: &str = "canary/of+the=vault 0123456789";

fn all() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().copied().chain([KEPT])
}

#[test]
fn keys_go_in_at_every_entrance_and_come_out_nowhere() {
    let world = World::new();
    let scanner = Scanner::new(all());
    let added = world.harvest(&["credential", "add", "openai", "--from-stdin"]).input(KEPT).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    let planted = all().collect::<Vec<_>>().join(" and ");
    // The model says them; the agent prints them, and writes them into its own files.
    let print = format!("printf '%s\\n' '{}'", SHAPES.join("' '"));
    let replies = json!([
        { "say": format!("I found {planted}."), "shell": print },
        { "shell": format!("{FIX}; printf '%s' '{}' >&2", SHAPES.join("' '")) },
        { "say": format!("Done: {planted}") },
    ]);
    let prompt = format!("Make the failing test pass with {planted}");
    let script = world.script(&replies);
    let args = ["run", &prompt, "--json", "--log", "trace", "--model-script", script.to_str().unwrap()];
    let ran = world.harvest(&args).finish();
    ran.assert_ended(0, "completed", None);
    let mut exits: Vec<(&str, String)> = vec![("stdout", ran.stdout.clone()), ("log", ran.stderr.clone())];
    assert!(ran.stdout.contains("I found [redacted] and [redacted]"), "{}", ran.stdout);
    // Templates and schedules are kept for later.
    let kept = world.harvest(&["template", "add", "canary", &format!("Do it with {planted}")]).finish();
    exits.push(("template", format!("{kept:?}")));
    let listed = world.harvest(&["template", "list", "--json"]).finish();
    exits.push(("templates", format!("{listed:?}")));
    // What is refused repeats what it refuses.
    let refused = world.harvest(&["task", "show", SHAPES[0]]).finish();
    exits.push(("refusal", format!("{refused:?}")));
    let server = world.serve(&[]);
    let client = server.with(&world.token(&["--role", "admin"]));
    let asked = client.post("/api/tasks", &json!({ "prompt": prompt, "repository": planted }));
    exits.push(("problem", asked.json().to_string()));
    let asked = client.post("/api/tasks", &json!({ "prompt": prompt, "repository": world.repo() }));
    exits.push(("api", asked.ok().to_string()));
    exits.push(("tasks", client.get("/api/tasks").ok().to_string()));
    // Words of people beside prompts.
    let session = ran.outcome()["session_id"].as_str().unwrap().to_owned();
    let comment = json!({ "about": { "kind": "event", "seq": 1 }, "text": format!("See {planted}") });
    exits.push(("comment", client.post(&format!("/api/sessions/{session}/comments"), &comment).ok().to_string()));
    drop(server);
    let backup = world.path().join("backup.tar");
    let saved = world.harvest(&["backup", backup.to_str().unwrap()]).finish();
    assert_eq!(saved.exit, Some(0), "{saved:?}");
    for (exit, text) in &exits {
        assert_eq!(scanner.found_in(text.as_bytes()), Vec::<&str>::new(), "{exit}: {text}");
    }
    fs::remove_file(&script).unwrap();
    assert_eq!(scanner.scan(&world.data()), Vec::<String>::new());
    let kept = tempfile::tempdir().unwrap();
    fs::copy(&backup, kept.path().join("backup.tar")).unwrap();
    assert_eq!(scanner.scan(kept.path()), Vec::<String>::new());
}
