//! Credentials, sealed. The store cannot open them.

use harvest_core::{Credential, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRecord {
    pub credential: Credential,
    /// What the vault made of the secret.
    pub sealed: String,
}

/// A new secret in place of an old one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSecret {
    pub sealed: String,
    pub last4: String,
    pub at: Timestamp,
}
