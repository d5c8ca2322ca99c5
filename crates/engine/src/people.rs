//! Whom a forge knows people as, and what readers there know this installation by. The engine says for whom it acts; it knows no
//! vault.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use harvest_vault::{Attestor, SecretString};

#[async_trait]
pub trait People: Send + Sync + Debug {
    /// The token of a person who signed in with the forge, as long as it holds. `None` is no reason to stop: then the
    /// installation acts in its own name.
    async fn forge_token(&self, person: &str) -> Option<SecretString>;
}

/// Signs what others will read.
pub trait Attests: Send + Sync + Debug {
    /// Makes the key the first time: where nobody would read what is signed, there is none. `None` where it cannot be used.
    fn attestor(&self) -> Option<Arc<Attestor>>;
}
