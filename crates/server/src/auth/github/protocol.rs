//! What is said to GitHub and its Enterprise servers: the exchange of codes and tokens, and the few questions of its API.

use std::time::Duration;

use harvest_core::Timestamp;
use harvest_outbound::{Answer, Ask, Client, Method, escape};
use serde::{Deserialize, Serialize};

use crate::Error;

const PATIENCE: Duration = Duration::from_secs(15);
/// The version of the API that is spoken here.
const VERSION: &str = "2022-11-28";
/// OAuth apps ask for these; GitHub apps have their own permissions, and ignore them. `repo` opens pull requests.
const SCOPES: &str = "read:org repo";

#[derive(Debug)]
pub struct Github {
    client: Client,
    url: String,
    api: String,
    host: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// GitHub's own words.
    #[error("GitHub refused: {0}")]
    Refused(String),
    #[error("GitHub does not know the refresh token")]
    BadRefreshToken,
    #[error("the token is being exchanged for a new one elsewhere")]
    Busy,
    #[error(transparent)]
    Unreachable(#[from] harvest_outbound::Error),
    #[error("GitHub answered {0}")]
    Status(u16),
    #[error("what was kept cannot be read: {0}")]
    Vault(String),
}

/// A person's token and how to get the next one, as it is kept in the vault.
#[derive(Clone, Serialize, Deserialize)]
pub struct UserToken {
    /// Of the account; names can change hands.
    #[serde(default)]
    pub account: u64,
    pub access_token: String,
    pub expires_at: Option<Timestamp>,
    pub refresh_token: Option<String>,
}

impl UserToken {
    /// Whether it is a token of this account; accounts were not always kept.
    pub fn is_of(&self, person: &Person) -> bool {
        self.account == 0 || self.account == person.id
    }
}

impl std::fmt::Debug for UserToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserToken").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

#[derive(Debug, Deserialize)]
pub struct Person {
    pub id: u64,
    pub login: String,
}

/// What the token endpoint answers; trouble comes with status 200 as well.
#[derive(Deserialize)]
struct Granted {
    access_token: Option<String>,
    expires_in: Option<i64>,
    refresh_token: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

#[derive(Deserialize)]
struct Membership {
    state: String,
}

impl Github {
    pub fn at(url: &str) -> Result<Self, Error> {
        let url = url.trim_end_matches('/');
        let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        let plain = |host: &&str| !host.is_empty() && !host.contains(['/', '@', '?', '#']);
        let host = host.filter(plain).ok_or_else(|| Error::BadGithubUrl { url: url.to_owned() })?;
        let api = if host == "github.com" { "https://api.github.com".to_owned() } else { format!("{url}/api/v3") };
        Ok(Self { client: Client::new(PATIENCE), url: url.to_owned(), api, host: host.to_owned() })
    }

    /// As they are called here: a name is unique where it was given.
    pub fn name_of(&self, person: &Person) -> String {
        format!("{}@{}", person.login.to_ascii_lowercase(), self.host)
    }

    /// The login that a name of [`Self::name_of`] has; `None` for people of elsewhere.
    pub fn login_of<'u>(&self, user: &'u str) -> Option<&'u str> {
        user.strip_suffix(self.host.as_str())?.strip_suffix('@').filter(|login| !login.is_empty())
    }

    /// Where to send a browser.
    pub fn authorize(&self, client_id: &str, redirect: &str, state: &str, challenge: &str) -> String {
        let fields = [
            ("client_id", client_id),
            ("redirect_uri", redirect),
            ("scope", SCOPES),
            ("state", state),
            ("code_challenge", challenge),
            ("code_challenge_method", "S256"),
        ];
        let query = fields.map(|(name, value)| format!("{name}={}", escape(value))).join("&");
        format!("{}/login/oauth/authorize?{query}", self.url)
    }

    /// Exchanges a code, or a refresh token, for a token.
    pub async fn grant(&self, fields: &[(&str, &str)], now: Timestamp) -> Result<UserToken, Trouble> {
        let address = format!("{}/login/oauth/access_token", self.url);
        let ask = Ask::new(Method::POST, address).header("accept", "application/json").form(fields);
        let answer = self.client.ask(ask).await?;
        let granted: Granted = answer.json()?;
        let Some(access_token) = granted.access_token else {
            if granted.error.as_deref() == Some("bad_refresh_token") {
                return Err(Trouble::BadRefreshToken);
            }
            let why = granted.error_description.or(granted.error);
            return Err(why.map_or(Trouble::Status(answer.status), Trouble::Refused));
        };
        let expires_at = granted.expires_in.and_then(|seconds| {
            let life = Duration::from_secs(u64::try_from(seconds).ok()?);
            now.checked_add(life).ok()
        });
        Ok(UserToken { account: 0, access_token, expires_at, refresh_token: granted.refresh_token })
    }

    pub async fn person(&self, access: &str) -> Result<Person, Trouble> {
        let answer = self.get(access, "/user").await?;
        match answer.status {
            200 => Ok(answer.json()?),
            401 | 403 if !is_too_often(&answer) => Err(Trouble::Refused("the token is not valid".to_owned())),
            status => Err(Trouble::Status(status)),
        }
    }

    pub async fn is_in_organization(&self, access: &str, organization: &str) -> Result<bool, Trouble> {
        self.is_active(access, &format!("/user/memberships/orgs/{}", escape(organization))).await
    }

    /// `organization/team`.
    pub async fn is_in_team(&self, access: &str, team: &str, login: &str) -> Result<bool, Trouble> {
        let (organization, team) = team.split_once('/').unwrap_or_default();
        let (organization, team, login) = (escape(organization), escape(team), escape(login));
        self.is_active(access, &format!("/orgs/{organization}/teams/{team}/memberships/{login}")).await
    }

    /// Invited is not yet a member; what one may not know, one does not belong to.
    async fn is_active(&self, access: &str, path: &str) -> Result<bool, Trouble> {
        let answer = self.get(access, path).await?;
        match answer.status {
            200 => Ok(answer.json::<Membership>()?.state == "active"),
            403 | 404 if !is_too_often(&answer) => Ok(false),
            status => Err(Trouble::Status(status)),
        }
    }

    async fn get(&self, access: &str, path: &str) -> Result<Answer, Trouble> {
        let ask = Ask::get(format!("{}{path}", self.api))
            .header("accept", "application/vnd.github+json")
            .header("x-github-api-version", VERSION)
            .header("authorization", format!("Bearer {access}"));
        Ok(self.client.ask(ask).await?)
    }
}

/// Whether GitHub refuses because it was asked too often, which says nothing about the person.
fn is_too_often(answer: &Answer) -> bool {
    answer.header("retry-after").is_some() || answer.header("x-ratelimit-remaining") == Some("0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enterprise_servers_have_their_api_below_themselves() {
        let api = |url: &str| Github::at(url).unwrap().api;
        assert_eq!(api("https://github.com/"), "https://api.github.com");
        assert_eq!(api("https://git.example.com"), "https://git.example.com/api/v3");
        for bad in ["github.com", "ftp://x", "https://", "https://a@b", "https://x/y"] {
            assert!(Github::at(bad).is_err(), "{bad}");
        }
        let person = Person { id: 1, login: "Ada".into() };
        assert_eq!(Github::at("https://git.example.com").unwrap().name_of(&person), "ada@git.example.com");
    }
}
