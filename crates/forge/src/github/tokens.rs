//! Tokens for single repositories, each with no more than one kind of request needs, kept until shortly before they expire.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use harvest_core::Timestamp;
use reqwest::Method;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::account::Way;
use super::address::Repository;
use super::client::{Ask, Authority, Client};
use crate::Error;

/// A token that holds less than this is not used any more.
const MARGIN: Duration = Duration::from_secs(5 * 60);
const MOST_KEPT: usize = 1024;

/// What a token is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Permissions {
    Look,
    Fetch,
    Push,
    PullRequests,
    Issues,
    Checks,
}

impl Permissions {
    fn document(self) -> Value {
        let pairs: &[(&str, &str)] = match self {
            Self::Look => &[("metadata", "read")],
            Self::Fetch => &[("contents", "read")],
            Self::Push => &[("contents", "write")],
            Self::PullRequests => &[("pull_requests", "write")],
            Self::Issues => &[("issues", "write"), ("pull_requests", "write")],
            Self::Checks => &[("checks", "read"), ("actions", "read")],
        };
        let pairs = pairs.iter().map(|(name, access)| ((*name).to_owned(), json!(access)));
        Value::Object(pairs.collect::<Map<_, _>>())
    }
}

#[derive(Debug, Default)]
pub(super) struct Tokens {
    installations: Mutex<HashMap<Repository, u64>>,
    kept: Mutex<HashMap<(Repository, Permissions), Kept>>,
}

#[derive(Debug)]
struct Kept {
    token: SecretString,
    expires: Timestamp,
}

impl Tokens {
    pub(super) fn of_the_app(&self, client: &Client) -> Result<SecretString, Error> {
        match &client.account.way {
            Way::App { id, key } => Ok(key.token(id, client.clock.now())?),
            // Only what an App is asked for comes here, and a person's token is no App.
            Way::Token(_) => Err(Error::Unexpected { reason: "a personal token is not an App".to_owned() }),
        }
    }

    pub(super) async fn for_repository(
        &self,
        client: &Client,
        repository: &Repository,
        permissions: Permissions,
    ) -> Result<SecretString, Error> {
        if let Way::Token(token) = &client.account.way {
            return Ok(token.clone());
        }
        let key = (repository.clone(), permissions);
        let soon = client.clock.now().saturating_add(MARGIN).unwrap_or(Timestamp::MAX);
        {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(kept) = kept.get(&key).filter(|kept| kept.expires > soon) {
                return Ok(kept.token.clone());
            }
        }
        let made = self.make(client, repository, permissions).await?;
        let token = made.token.clone();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(key, made);
        Ok(token)
    }

    /// Whether it was one of these, which is asked for anew then.
    pub(super) fn forget(&self, token: &SecretString) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let before = kept.len();
        kept.retain(|_, kept| kept.token.expose_secret() != token.expose_secret());
        kept.len() < before
    }

    /// The same for git, which does not tell with which token it was refused. False where there is none to ask for anew.
    pub(super) fn forget_for(&self, repository: &Repository, permissions: Permissions) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(&(repository.clone(), permissions)).is_some()
    }

    async fn make(&self, client: &Client, repository: &Repository, permissions: Permissions) -> Result<Kept, Error> {
        #[derive(Deserialize)]
        struct Made {
            token: String,
            expires_at: Timestamp,
        }
        loop {
            let was_known = self.is_known(repository);
            let installation = self.installation(client, repository).await?;
            let ask = Ask {
                method: Method::POST,
                path: format!("/app/installations/{installation}/access_tokens"),
                body: Some(json!({ "repositories": [repository.name], "permissions": permissions.document() })),
                authority: Authority::App,
            };
            if let Some(answer) = client.ask(&ask).await? {
                let made: Made = answer.read()?;
                return Ok(Kept { token: SecretString::from(made.token), expires: made.expires_at });
            }
            // An App that was removed and installed again has another number.
            self.installations.lock().unwrap_or_else(PoisonError::into_inner).remove(repository);
            if !was_known {
                return Err(not_installed(repository));
            }
        }
    }

    fn is_known(&self, repository: &Repository) -> bool {
        self.installations.lock().unwrap_or_else(PoisonError::into_inner).contains_key(repository)
    }

    async fn installation(&self, client: &Client, repository: &Repository) -> Result<u64, Error> {
        #[derive(Deserialize)]
        struct Installation {
            id: u64,
        }
        if let Some(known) = self.installations.lock().unwrap_or_else(PoisonError::into_inner).get(repository) {
            return Ok(*known);
        }
        let ask = Ask {
            method: Method::GET,
            path: format!("/repos/{repository}/installation"),
            body: None,
            authority: Authority::App,
        };
        let Some(answer) = client.ask(&ask).await? else { return Err(not_installed(repository)) };
        let Installation { id } = answer.read()?;
        self.installations.lock().unwrap_or_else(PoisonError::into_inner).insert(repository.clone(), id);
        Ok(id)
    }
}

fn not_installed(repository: &Repository) -> Error {
    Error::NotInstalled { repository: repository.to_string() }
}
