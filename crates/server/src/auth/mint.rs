//! New tokens.

use std::time::Duration;

use harvest_core::{Clock, Entropy, Role, TokenId};
use harvest_store::{AccessToken, TokenKind};

use super::TOKEN_PREFIX;
use super::secret::Secret;
use crate::Error;

/// What a token is to be.
#[derive(Debug, Clone)]
pub struct Mint {
    pub kind: TokenKind,
    pub name: String,
    pub user: String,
    pub role: Role,
    /// `None`: all.
    pub projects: Option<Vec<String>>,
    /// `None`: for ever.
    pub life: Option<Duration>,
}

impl Mint {
    /// The record to keep, and the secret to show once.
    pub fn make(self, clock: &dyn Clock, entropy: &dyn Entropy) -> Result<(AccessToken, Secret), Error> {
        let secret = Secret::generate(match self.kind {
            TokenKind::Api | TokenKind::Personal => TOKEN_PREFIX,
            TokenKind::Login | TokenKind::Person | TokenKind::Link => "",
        })?;
        let now = clock.now();
        let token = AccessToken {
            id: TokenId::generate(entropy),
            kind: self.kind,
            name: self.name,
            user: self.user,
            role: self.role,
            projects: self.projects,
            digest: secret.digest(),
            created_at: now,
            expires_at: self.life.and_then(|life| now.checked_add(life).ok()),
            revoked_at: None,
            last_used_at: None,
            made_by: None,
        };
        Ok((token, secret))
    }
}
