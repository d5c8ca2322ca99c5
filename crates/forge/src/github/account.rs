//! As whom Harvest acts on GitHub: an App that was made for it, or a person's token.

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::jwt::SigningKey;

/// The secrets of one account, as they are kept in the vault: a token, or a JSON document on one line.
#[derive(Debug)]
pub struct Account {
    pub(super) way: Way,
    webhook_secret: Option<SecretString>,
}

#[derive(Debug)]
pub(super) enum Way {
    /// A personal token, sent as it is.
    Token(SecretString),
    /// Signs for itself and gets a token for each installation.
    App { id: String, key: Box<SigningKey> },
}

/// What is wrong with an account's secret. Says nothing of what is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the GitHub credential cannot be used: {0}")]
pub struct BadAccount(pub(super) &'static str);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    app_id: Option<Id>,
    private_key: Option<String>,
    token: Option<String>,
    webhook_secret: Option<String>,
}

/// GitHub writes an App's id as a number, and its client id, which serves as well, as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Number(u64),
    Text(String),
}

impl Account {
    pub(super) fn is_app(&self) -> bool {
        matches!(self.way, Way::App { .. })
    }

    /// `ghp_…`, `{"token": …, "webhook_secret": …}` or `{"app_id": …, "private_key": …, "webhook_secret": …}`.
    pub fn parse(secret: &SecretString) -> Result<Self, BadAccount> {
        let text = secret.expose_secret().trim();
        if !text.starts_with('{') {
            return Ok(Self { way: Way::Token(checked(text)?), webhook_secret: None });
        }
        let document: Document = serde_json::from_str(text).map_err(|_| {
            BadAccount("it is not a JSON document with app_id and private_key, or token, and webhook_secret")
        })?;
        let way = match (document.app_id, document.private_key, document.token) {
            (Some(id), Some(key), None) => {
                let id = match id {
                    Id::Number(id) => id.to_string(),
                    Id::Text(id) => id,
                };
                Way::App { id, key: Box::new(SigningKey::from_pem(&SecretString::from(key))?) }
            }
            (None, None, Some(token)) => Way::Token(checked(&token)?),
            _ => return Err(BadAccount("it needs app_id and private_key, or token, and not both")),
        };
        let webhook_secret = match document.webhook_secret.map(|secret| secret.trim().to_owned()) {
            Some(secret) if secret.is_empty() => return Err(BadAccount("its webhook_secret is empty")),
            secret => secret.map(SecretString::from),
        };
        Ok(Self { way, webhook_secret })
    }

    pub fn webhook_secret(&self) -> Option<&SecretString> {
        self.webhook_secret.as_ref()
    }

    #[cfg(feature = "fake")]
    pub(crate) fn public_key(&self) -> Option<Vec<u8>> {
        match &self.way {
            Way::App { key, .. } => Some(key.public()),
            Way::Token(_) => None,
        }
    }

    /// The token in it, if it has one.
    pub fn token(secret: &SecretString) -> Option<SecretString> {
        let text = secret.expose_secret().trim();
        if !text.starts_with('{') {
            return Some(SecretString::from(text.to_owned()));
        }
        let document: Document = serde_json::from_str(text).ok()?;
        document.token.map(SecretString::from)
    }

    /// Everything in it that nobody may ever see.
    pub fn secrets(secret: &SecretString) -> Vec<SecretString> {
        let text = secret.expose_secret().trim();
        let mut secrets = vec![SecretString::from(text.to_owned())];
        if let Ok(document) = serde_json::from_str::<Document>(text) {
            let parts = [document.private_key, document.token, document.webhook_secret];
            secrets.extend(parts.into_iter().flatten().map(SecretString::from));
        }
        secrets
    }
}

fn checked(token: &str) -> Result<SecretString, BadAccount> {
    let token = token.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(BadAccount("the token is empty or has white space in it"));
    }
    Ok(SecretString::from(token.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Account, BadAccount> {
        Account::parse(&SecretString::from(text.to_owned()))
    }

    #[test]
    fn a_token_alone_or_with_a_secret_for_webhooks() {
        assert!(matches!(parse("ghp_x\n").unwrap(), Account { way: Way::Token(_), webhook_secret: None }));
        let both = parse(r#"{"token": "ghp_x", "webhook_secret": "s"}"#).unwrap();
        assert!(matches!(&both.way, Way::Token(_)));
        assert_eq!(both.webhook_secret().map(ExposeSecret::expose_secret), Some("s"));
    }

    #[test]
    fn what_cannot_work_is_refused_without_being_shown() {
        for bad in [
            "",
            "ghp x",
            "{}",
            r#"{"token": "canary", "app_id": 1}"#,
            r#"{"app_id": 1}"#,
            r#"{"app_id": 1, "private_key": "canary"}"#,
            r#"{"token": "t", "webhook_secret": " "}"#,
            r#"{"tokens": "canary"}"#,
        ] {
            let error = parse(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("canary"), "{bad}");
        }
        assert!(!format!("{:?}", parse("ghp_canary").unwrap()).contains("canary"));
    }
}
