//! `harvest evidence …` against a server.

use harvest_api_types::EvidenceKey;
use serde_json::Value;

use super::{Remote, task};
use crate::failure::Failure;

/// The signed evidence of a task.
pub async fn evidence(remote: &Remote, prefix: &str) -> Result<Value, Failure> {
    remote.get(&format!("/api/tasks/{}/evidence", task::find(remote, prefix).await?)).await
}

/// The public key that the server signs with.
pub async fn evidence_key(remote: &Remote) -> Result<String, Failure> {
    Ok(remote.get::<EvidenceKey>("/api/evidence-key").await?.public_key)
}
