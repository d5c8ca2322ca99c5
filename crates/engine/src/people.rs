//! Whom a forge knows people as. The engine says for whom it acts; it knows no vault.

use std::fmt::Debug;

use async_trait::async_trait;
use harvest_vault::SecretString;

#[async_trait]
pub trait People: Send + Sync + Debug {
    /// The token of a person who signed in with the forge, as long as it holds. `None` is no reason to stop: then the
    /// installation acts in its own name.
    async fn forge_token(&self, person: &str) -> Option<SecretString>;
}
