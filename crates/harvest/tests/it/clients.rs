//! The Python client: written from the document that is committed, and run against a real server.

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::support::{FIX, PATH, World};

fn python(args: &[&str], environment: &[(&str, &str)]) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../clients/python");
    let ran = Command::new("python3")
        .env_clear()
        .envs([("PATH", PATH), ("LANG", "C.UTF-8"), ("PYTHONDONTWRITEBYTECODE", "1")])
        .envs(environment.iter().copied())
        .current_dir(folder)
        .args(args)
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}");
}

#[test]
fn the_python_client_is_what_the_document_says() {
    python(&["generate.py", "--check"], &[]);
}

#[test]
fn the_python_client_speaks_to_a_real_server() {
    let world = World::new();
    let server = world.serve_with(&json!([{ "say": "I see.", "shell": FIX }, { "say": "Done." }]), &["--agents", "1"]);
    let (token, repository) = (world.token(&["--role", "admin"]), world.repo());
    python(
        &["-m", "unittest", "discover", "--start-directory", "tests", "--top-level-directory", "."],
        &[
            ("HARVEST_TEST_URL", &server.url),
            ("HARVEST_TEST_TOKEN", &token),
            ("HARVEST_TEST_REPOSITORY", repository.to_str().unwrap()),
        ],
    );
}
