//! The result of a task: its merge and its signed evidence.

use serde::{Deserialize, Serialize};

/// Options of a merge.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// Also merge work that failed or is not verified.
    #[serde(default)]
    pub force: bool,
}

/// The result of a merge.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Merge {
    /// The task's branch.
    pub branch: String,
    /// The branch of the repository that it was merged into.
    pub into: String,
    /// The commit of that branch before the merge; the same as `commit` if the branch already contained the work.
    pub before: String,
    /// The commit of that branch after the merge.
    pub commit: String,
}

/// A signed statement in a DSSE envelope (Dead Simple Signing Envelope).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    pub payload_type: String,
    /// The statement in Base64.
    pub payload: String,
    pub signatures: Vec<EnvelopeSignature>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EnvelopeSignature {
    pub keyid: String,
    pub sig: String,
}

/// The public key that signed evidence is verified with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EvidenceKey {
    pub public_key: String,
}
