//! Where the credentials of a session come from. The engine says for whom; it knows no vault and no key.

use std::fmt::Debug;
use std::sync::Arc;

use harvest_core::Identity;
use harvest_gateway::Credentials;

pub trait Keyring: Send + Sync + Debug {
    /// The credentials for whatever is done on behalf of `identity`, from now on and as they change.
    fn of(&self, identity: Identity) -> Arc<dyn Credentials>;
}
