//! Beads, an issue tracker that lives in a JSONL file: its open issues become tasks, and what became of them is written back.

mod export;
mod format;
mod import;

use std::collections::HashMap;
use std::path::Path;

use harvest_core::{Code, Task};
use harvest_store::TaskQuery;

pub use export::export;
pub use import::import;

use crate::failure::Failure;
use crate::installation::Installation;
use format::{BadLine, Object};

const PAGE: usize = 500;
/// Where an issue is kept in a task: as JSON for whoever looks at the task, and as the very line for writing it back.
const EXTRA: &str = "beads";
const EXTRA_LINE: &str = "beads_line";

/// The tasks made from issues, by the id of their issue. A list where several repositories have the same id.
async fn imported(
    installation: &Installation,
    repository: Option<String>,
) -> Result<HashMap<String, Vec<Task>>, Failure> {
    let mut query = TaskQuery { repository, limit: PAGE, ..TaskQuery::default() };
    let mut found: HashMap<String, Vec<Task>> = HashMap::new();
    loop {
        let page = installation.store.tasks(query.clone()).await?;
        for task in page.items {
            if let Some(id) = task.extra.as_ref().and_then(|extra| extra[EXTRA]["id"].as_str()) {
                found.entry(id.to_owned()).or_default().push(task);
            }
        }
        match page.next_cursor {
            Some(cursor) => query.cursor = Some(cursor),
            None => return Ok(found),
        }
    }
}

/// The issue as it was when it was imported.
fn original(task: &Task) -> Option<Object> {
    serde_json::from_str(task.extra.as_ref()?[EXTRA_LINE].as_str()?).ok()
}

fn read(file: &Path) -> Result<String, Failure> {
    let refuse = |reason: String| {
        Failure::refused(
            Code::BadImport,
            format!("{} cannot be read: {reason}", file.display()),
            "check the path and its permissions",
        )
    };
    let bytes = std::fs::read(file).map_err(|error| refuse(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| {
        let line =
            error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        refuse(format!("line {line} is not UTF-8 text"))
    })
}

fn bad_line(file: &Path, error: &BadLine) -> Failure {
    Failure::refused(Code::BadImport, format!("{}: {error}", file.display()), "correct the line; nothing was changed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use harvest_core::Entropy;

    #[derive(Debug)]
    pub struct Fixed(u8);

    impl Entropy for Fixed {
        fn bytes(&self) -> [u8; 10] {
            [self.0; 10]
        }
    }

    pub fn entropy(seed: u8) -> Fixed {
        Fixed(seed)
    }

    /// A task that was made from an issue and has come to `status`.
    pub fn task(status: &str, line: &str) -> Task {
        let fields: serde_json::Value = serde_json::from_str(line).unwrap();
        let finished = matches!(status, "completed" | "failed" | "cancelled");
        let failed = status == "failed";
        serde_json::from_value(serde_json::json!({
            "id": "0123456789abcdef", "kind": "prompt", "source": "cli", "status": status,
            "reason": failed.then_some("tests"), "error": failed.then_some("2 tests fail"),
            "prompt": "x", "agent": "builtin", "model": null, "repository": "/srv/shop", "base": "0".repeat(40),
            "settings": { "test": null, "require_tests": false, "timeout_ms": 1, "max_turns": 1, "provider": null,
                          "author_name": "", "author_email": "" },
            "priority": "normal", "after": [], "on_failed_dependency": "hold", "convoy": null, "retries_left": 0, "tries": 1,
            "source_url": null, "extra": { EXTRA: fields, EXTRA_LINE: line }, "budget_usd": 1.0,
            "branch": (finished && status != "cancelled").then_some("harvest/fix-01234567"), "commit": null,
            "evidence": (status == "completed").then(|| serde_json::json!({
                "commit": "1".repeat(40), "command": "make check", "exit_code": 0, "passed": 12, "failed": 0,
                "duration_ms": 5, "environment": "e", "baseline": { "exit_code": 1, "passed": 11, "failed": 1 }, "flags": [],
            })),
            "usage": harvest_core::Usage::default(), "cost_usd": 0.0, "requested_by": "ada",
            "created_at": "2026-02-01T00:00:00Z", "finished_at": finished.then_some("2026-02-03T04:05:06Z"),
        }))
        .unwrap()
    }
}
