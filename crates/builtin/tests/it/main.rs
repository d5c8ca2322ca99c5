//! The real binary against a scripted model that speaks every wire over loopback.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod agent;
mod model;
mod server;
mod tools;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::server::{Server, WireName};

/// What one run of the agent came to.
struct Run {
    exit_code: i32,
    events: Vec<Value>,
}

impl Run {
    fn of_type(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["type"] == kind).map(|event| &event["data"]).collect()
    }

    /// The types of all events in order, pieces of text left out.
    fn types(&self) -> Vec<&str> {
        let types = self.events.iter().filter_map(|event| event["type"].as_str());
        types.filter(|kind| *kind != "message.delta").collect()
    }

    fn deltas(&self) -> String {
        self.of_type("message.delta").iter().filter_map(|data| data["text"].as_str()).collect()
    }

    fn results(&self) -> Vec<(&str, bool)> {
        self.of_type("tool.result")
            .into_iter()
            .map(|data| (data["output"].as_str().unwrap_or_default(), data["is_error"] == true))
            .collect()
    }
}

fn run(server: &Server, wire: WireName, workspace: &Path, more: &[&str]) -> Run {
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    let mut child = Command::new(env!("CARGO_BIN_EXE_harvest-builtin"))
        .args(["--wire", wire.as_str(), "--base-url", &server.base_url(), "--model", "scripted-1"])
        .args(["--retry-base-ms", "1", "--workspace"])
        .arg(workspace)
        .args(more)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", workspace)
        .env("LANG", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"Do the thing.").unwrap();
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let events = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    Run { exit_code: output.status.code().unwrap(), events }
}
