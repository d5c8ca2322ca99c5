//! Credentials, as far as anyone may know them: never the secret itself.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{CredentialId, Timestamp};

/// The name of the one that is used where no other is asked for.
pub const DEFAULT_CREDENTIAL: &str = "default";
const SHOWN: usize = 4;
const MAX_NAME: usize = 64;

/// A key or token for a provider, stored in the vault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Credential {
    pub id: CredentialId,
    /// `anthropic`, `openai`, …
    pub provider: String,
    pub scope: Scope,
    /// The name of the credential; those not named `default` are fallbacks.
    pub name: String,
    /// The last characters of the secret, to identify it.
    pub last4: String,
    /// The host to use it with, if not the provider's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    pub created_at: Timestamp,
    pub rotated_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
}

impl Credential {
    /// What it is sealed for: opened under any other description it is refused.
    pub fn record(&self) -> String {
        format!("harvest credential {} for {} of {} named {}", self.id, self.provider, self.scope, self.name)
    }

    /// The end of a secret that may be shown; nothing of one so short that this would give it away, and nothing of a JSON
    /// document, whose end tells it from no other.
    pub fn last4_of(secret: &str) -> String {
        let characters: Vec<char> = secret.trim().chars().collect();
        if characters.len() < 4 * SHOWN || characters.last() == Some(&'}') {
            return String::new();
        }
        characters[characters.len() - SHOWN..].iter().collect()
    }
}

/// Who may use a credential.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    User(String),
    Team(String),
    Project(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a scope: write user:NAME, team:NAME or project:NAME")]
pub struct ScopeError {
    text: String,
}

impl Scope {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Team(_) => "team",
            Self::Project(_) => "project",
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::User(name) | Self::Team(name) | Self::Project(name) => name,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind(), self.name())
    }
}

impl FromStr for Scope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        let error = || ScopeError { text: text.to_owned() };
        let (kind, name) = text.split_once(':').ok_or_else(error)?;
        let valid = (1..=MAX_NAME).contains(&name.len()) && !name.contains(char::is_control) && name.trim() == name;
        match (kind, valid) {
            ("user", true) => Ok(Self::User(name.to_owned())),
            ("team", true) => Ok(Self::Team(name.to_owned())),
            ("project", true) => Ok(Self::Project(name.to_owned())),
            _ => Err(error()),
        }
    }
}

impl Serialize for Scope {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Scope {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// On whose behalf a model is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    pub teams: Vec<String>,
    pub project: Option<String>,
}

impl Identity {
    /// The credentials for a provider in the order in which they are tried: the person's own, then the teams', then the
    /// project's; in each the default before the extras.
    pub fn choose<'a>(&self, credentials: &'a [Credential], provider: &str) -> Vec<&'a Credential> {
        let nearness = |scope: &Scope| match scope {
            Scope::User(name) => (*name == self.user).then_some(0),
            Scope::Team(name) => self.teams.iter().position(|team| team == name).map(|place| 1 + place),
            Scope::Project(name) => (self.project.as_ref() == Some(name)).then_some(usize::MAX),
        };
        let mut found: Vec<_> = credentials
            .iter()
            .filter(|credential| credential.provider == provider)
            .filter_map(|credential| Some((nearness(&credential.scope)?, credential)))
            .collect();
        found.sort_by_key(|(near, credential)| (*near, credential.name != DEFAULT_CREDENTIAL, credential.name.clone()));
        found.into_iter().map(|(_, credential)| credential).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(provider: &str, scope: &str, name: &str) -> Credential {
        Credential {
            id: "0000000000000001".parse().unwrap(),
            provider: provider.into(),
            scope: scope.parse().unwrap(),
            name: name.into(),
            last4: String::new(),
            base_url: None,
            created_at: Timestamp::UNIX_EPOCH,
            rotated_at: None,
            last_used_at: None,
        }
    }

    #[test]
    fn the_nearest_comes_first_and_the_default_before_the_extras() {
        let all = [
            credential("anthropic", "project:shop", "default"),
            credential("anthropic", "team:fruit", "spare"),
            credential("anthropic", "team:fruit", "default"),
            credential("anthropic", "team:other", "default"),
            credential("anthropic", "user:ada", "backup"),
            credential("anthropic", "user:bob", "default"),
            credential("openai", "user:ada", "default"),
            credential("anthropic", "user:ada", "default"),
        ];
        let ada = Identity { user: "ada".into(), teams: vec!["fruit".into()], project: Some("shop".into()) };
        let order: Vec<String> = ada
            .choose(&all, "anthropic")
            .iter()
            .map(|credential| format!("{} {}", credential.scope, credential.name))
            .collect();
        let expected =
            ["user:ada default", "user:ada backup", "team:fruit default", "team:fruit spare", "project:shop default"];
        assert_eq!(order, expected);
        assert!(Identity { user: "eve".into(), ..Identity::default() }.choose(&all, "anthropic").is_empty());
    }

    #[test]
    fn scopes_are_written_with_their_kind() {
        for text in ["user:ada", "team:fruit & veg", "project:shop"] {
            assert_eq!(text.parse::<Scope>().unwrap().to_string(), text);
        }
        for text in ["", "ada", "user:", "user: ada", "group:x", "team:a\nb"] {
            assert!(text.parse::<Scope>().is_err(), "{text}");
        }
    }

    #[test]
    fn little_is_shown_of_a_secret_and_nothing_of_a_short_one() {
        assert_eq!(Credential::last4_of("sk-ant-api03-abcdefgh\n"), "efgh");
        assert_eq!(Credential::last4_of("short-secret"), "");
        assert_eq!(Credential::last4_of(r#"{"app_id": 1, "webhook_secret": "harvest"}"#), "");
    }
}
