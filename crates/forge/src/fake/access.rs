//! Who asks: a person, an installation of the App, or the App itself.

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde_json::Value;

use super::world::World;
use super::{APP_ID, Shared, app_public_key};

#[derive(Debug, Clone)]
pub(super) enum Caller {
    Nobody,
    App,
    Person(String),
    Installation(super::world::Grant),
}

impl Caller {
    pub(super) fn find(shared: &Shared, headers: &HeaderMap) -> Self {
        let Some(shown) = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()) else {
            return Self::Nobody;
        };
        let Some((scheme, value)) = shown.split_once(' ') else { return Self::Nobody };
        let token = match scheme.to_ascii_lowercase().as_str() {
            "bearer" | "token" => value.to_owned(),
            "basic" => {
                let decoded = STANDARD.decode(value).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                decoded.and_then(|pair| pair.split_once(':').map(|(_, token)| token.to_owned())).unwrap_or_default()
            }
            _ => return Self::Nobody,
        };
        if let Some(login) = token.strip_prefix("token-") {
            return Self::Person(login.to_owned());
        }
        let now = shared.clock.now();
        if let Some(grant) = shared.world().tokens.get(&token).filter(|grant| grant.expires > now) {
            return Self::Installation(grant.clone());
        }
        if is_app(&token, now.as_second()) { Self::App } else { Self::Nobody }
    }

    pub(super) fn login(&self) -> &str {
        match self {
            Self::Person(login) => login,
            Self::App | Self::Installation(_) => "harvest[bot]",
            Self::Nobody => "nobody",
        }
    }

    /// Whether it may do this in a repository: one of these permissions, or being one of its people.
    pub(super) fn may(&self, world: &World, repository: &str, permissions: &[(&str, &str)]) -> bool {
        match self {
            Self::Person(login) => {
                let reads = permissions.iter().any(|(name, access)| *access == "read" || *name == "issues");
                reads || world.repositories.get(repository).is_some_and(|repository| repository.may_write(login))
            }
            Self::Installation(grant) => {
                let name = repository.split_once('/').map_or(repository, |(_, name)| name);
                let granted = |(permission, access): &(&str, &str)| {
                    let held = grant.permissions.get(*permission).map(String::as_str);
                    held == Some("write") || held == Some(access) || *permission == "metadata"
                };
                grant.repositories.iter().any(|known| known == name) && permissions.iter().any(granted)
            }
            Self::App | Self::Nobody => false,
        }
    }
}

fn is_app(token: &str, now: i64) -> bool {
    let Some((message, signature)) = token.rsplit_once('.') else { return false };
    let Some((_, claims)) = message.split_once('.') else { return false };
    let decoded = (URL_SAFE_NO_PAD.decode(signature), URL_SAFE_NO_PAD.decode(claims), app_public_key());
    let (Ok(signature), Ok(claims), Some(public)) = decoded else { return false };
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public);
    if key.verify(message.as_bytes(), &signature).is_err() {
        return false;
    }
    let Ok(claims) = serde_json::from_slice::<Value>(&claims) else { return false };
    let number = |name: &str| claims[name].as_i64().unwrap_or(0);
    let lasts = number("exp") - number("iat");
    claims["iss"].as_str() == Some(APP_ID.to_string().as_str())
        && number("iat") <= now
        && number("exp") > now
        && lasts <= 600
}
