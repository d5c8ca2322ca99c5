//! `harvest evidence …` against a server.

use serde::Deserialize;
use serde_json::Value;

use super::{Remote, task};
use crate::failure::Failure;

#[derive(Deserialize)]
struct Key {
    public_key: String,
}

/// The signed evidence of a task.
pub async fn evidence(remote: &Remote, prefix: &str) -> Result<Value, Failure> {
    remote.get(&format!("/api/tasks/{}/evidence", task::find(remote, prefix).await?)).await
}

/// The public key that the server signs with.
pub async fn evidence_key(remote: &Remote) -> Result<String, Failure> {
    Ok(remote.get::<Key>("/api/evidence-key").await?.public_key)
}
