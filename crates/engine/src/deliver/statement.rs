//! The evidence of a task as an in-toto statement: what was proved, about which commit.

use harvest_core::{Evidence, Session, Task};
use serde_json::{Value, json};

/// What the predicate is, for those who read statements of many kinds.
const PREDICATE: &str = "urn:harvest:evidence:v1";

/// About `commit`, which has the same tree as the tested commit that the evidence names. `model` is the one that worked on it
/// last.
pub fn evidence_statement(
    task: &Task,
    session: &Session,
    model: Option<&str>,
    commit: &str,
    evidence: &Evidence,
) -> Value {
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "name": format!("{}@{}", task.repository, session.branch), "digest": { "gitCommit": commit } }],
        "predicateType": PREDICATE,
        "predicate": {
            "task": task.id,
            "session": session.id,
            "base": task.base,
            "agent": task.agent,
            "model": model,
            "requested_by": task.requested_by,
            "source_url": task.source_url,
            "tested_commit": evidence.commit,
            "tree": evidence.tree,
            "proves_success": evidence.proves_success(),
            "evidence": evidence,
        },
    })
}
