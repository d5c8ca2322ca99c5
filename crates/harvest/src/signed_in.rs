//! People who signed in with GitHub, as the engine may act for them there.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use harvest_core::{Clock, Scope, Timestamp};
use harvest_engine::People;
use harvest_forge::Forges;
use harvest_forge::github::Host;
use harvest_store::Store;
use harvest_vault::{ExposeSecret, SecretString};
use serde::Deserialize;

use crate::failure::Failure;
use crate::installation::Installation;
use crate::keychain::Keychain;
use crate::sign_in;

/// A token that holds less than this is not used.
const MARGIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct SignedIn {
    store: Arc<dyn Store>,
    keychain: Keychain,
    clock: Arc<dyn Clock>,
    /// They know where the account is. A token of another GitHub never goes there.
    forges: Forges,
}

/// What of a kept token matters here.
#[derive(Deserialize)]
struct Kept {
    access_token: String,
    expires_at: Option<Timestamp>,
}

impl SignedIn {
    pub fn new(installation: &Installation) -> Self {
        Self {
            store: installation.store.clone(),
            keychain: Keychain::of(&installation.environment, installation.data.path()),
            clock: installation.clock.clone(),
            forges: installation.forges.clone(),
        }
    }

    async fn kept(&self, person: &str) -> Result<Option<Kept>, Failure> {
        let scope = Scope::User(person.to_owned());
        let token = sign_in::kept_for(self.store.as_ref(), &self.keychain, &scope).await?;
        Ok(token.and_then(|token| serde_json::from_str(token.expose_secret()).ok()))
    }
}

#[async_trait]
impl People for SignedIn {
    async fn forge_token(&self, person: &str) -> Option<SecretString> {
        let account = self.forges.github().await?;
        let person = name_at(person, name_of(account.host()))?;
        let kept = self.kept(&person).await;
        let kept =
            kept.inspect_err(|failure| tracing::warn!(error = failure.message, "a token cannot be opened")).ok()??;
        let soon = self.clock.now().saturating_add(MARGIN).unwrap_or(Timestamp::MAX);
        let holds = kept.expires_at.is_none_or(|end| end > soon);
        holds.then(|| SecretString::from(kept.access_token))
    }
}

fn name_of(host: &Host) -> &str {
    host.web().split_once("://").map_or(host.web(), |(_, host)| host)
}

/// As someone is called who signed in there: `login@host`. Who asked in an issue is the same person.
fn name_at(person: &str, host: &str) -> Option<String> {
    match person.strip_prefix("github:") {
        Some(login) => Some(format!("{}@{host}", login.to_ascii_lowercase())),
        None => person.rsplit_once('@').filter(|(_, at)| *at == host).map(|_| person.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_known_where_they_signed_in_and_nowhere_else() {
        assert_eq!(name_at("github:Ada", "github.com").as_deref(), Some("ada@github.com"));
        assert_eq!(name_at("ada@github.com", "github.com").as_deref(), Some("ada@github.com"));
        for stranger in ["ada", "ada@ghe.example.com", "ada@evil.com@ghe.example.com", "slack:ada"] {
            assert_eq!(name_at(stranger, "github.com"), None, "{stranger}");
        }
    }
}
