//! One request to GitHub at a time: with the least permission it needs, within a time, and as often as GitHub likes.
//!
//! What is asked for again is asked conditionally (`If-None-Match`), which costs nothing of the allowance. When GitHub wants
//! to be left alone for a while, everyone who uses this account waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use harvest_core::{Clock, Timestamp};
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode};
use rustls_platform_verifier::BuilderVerifierExt;
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::account::Account;
use super::address::{Host, Repository};
use super::tokens::{Permissions, Tokens};
use crate::Error;

const CONNECT: Duration = Duration::from_secs(10);
const REQUEST: Duration = Duration::from_secs(30);
/// Whoever is asked to wait longer is told so instead.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const TRIES: u32 = 4;
const BACKOFF: Duration = Duration::from_millis(500);
const MOST_ANSWER: usize = 8 << 20;
const MOST_KEPT: usize = 256;
const KEPT_ANSWER: usize = 256 << 10;
const VERSION: &str = "2022-11-28";

/// Everything that asks GitHub as one account. Repositories share it.
#[derive(Debug)]
pub struct Client {
    pub(super) host: Host,
    pub(super) account: Account,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) tokens: Tokens,
    plain: OnceLock<Result<reqwest::Client, String>>,
    known: Mutex<HashMap<String, Known>>,
    /// GitHub asked to be left alone until then.
    rests_until: Mutex<Option<Timestamp>>,
}

/// An answer that holds as long as its tag does.
#[derive(Debug, Clone)]
struct Known {
    tag: HeaderValue,
    body: Vec<u8>,
}

/// What is asked for.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    /// Below the API, beginning with a slash.
    pub(super) path: String,
    pub(super) body: Option<Value>,
    pub(super) authority: Authority<'a>,
}

pub(super) enum Authority<'a> {
    /// Who asks with a code instead.
    Nobody,
    /// The App itself.
    App,
    /// The account, for one repository, with no more than this.
    Repository(&'a Repository, Permissions),
    /// Someone who signed in.
    Person(&'a SecretString),
}

/// An answer that says yes.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| Error::Unexpected { reason: error.to_string() })
    }
}

impl Client {
    pub fn new(host: Host, account: Account, clock: Arc<dyn Clock>) -> Self {
        Self {
            host,
            account,
            clock,
            tokens: Tokens::default(),
            plain: OnceLock::new(),
            known: Mutex::default(),
            rests_until: Mutex::default(),
        }
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Asks, waits where GitHub wants it, and asks again where that is safe. 404 is an answer: `None`.
    pub(super) async fn ask(&self, ask: &Ask<'_>) -> Result<Option<Answer>, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            self.wait_for_rest().await?;
            let secret = self.secret(&ask.authority).await?;
            let trouble = match self.send(ask, secret.as_ref()).await {
                Ok(answer) if answer.status.is_success() || answer.status == StatusCode::FOUND => {
                    return Ok(Some(answer));
                }
                Ok(answer) if answer.status == StatusCode::NOT_FOUND => return Ok(None),
                Ok(answer) => {
                    if let Some(pause) = self.pause(&answer) {
                        self.rest_for(pause);
                        if tries < TRIES {
                            continue;
                        }
                        return Err(Error::RateLimited { seconds: pause.as_secs() });
                    }
                    // One that was taken back in the meantime is asked for anew, once.
                    if answer.status == StatusCode::UNAUTHORIZED
                        && tries == 1
                        && secret.is_some_and(|secret| self.tokens.forget(&secret))
                    {
                        continue;
                    }
                    refusal(ask, &answer)
                }
                Err(error) => error,
            };
            // A request that changes something may have been carried out: whoever asked looks before asking again.
            if ask.method != Method::GET || tries >= TRIES || !trouble.may_pass() {
                return Err(trouble);
            }
            tokio::time::sleep(BACKOFF * tries).await;
        }
    }

    /// The same where there is no way that it is not there.
    pub(super) async fn must(&self, ask: &Ask<'_>) -> Result<Answer, Error> {
        self.ask(ask).await?.ok_or_else(|| Error::Refused {
            doing: doing(ask),
            status: 404,
            message: "it does not exist, or this account has no access to it".to_owned(),
        })
    }

    /// A document that GitHub leads to by another address, which needs no token. At most the last `most` bytes of it.
    pub(super) async fn end_of(&self, url: &str, most: usize) -> Result<Vec<u8>, Error> {
        let unreachable = |error: reqwest::Error| unreachable(&error);
        let mut answer = self.http()?.get(url).timeout(REQUEST).send().await.map_err(unreachable)?;
        let (mut end, mut read) = (Vec::new(), 0);
        while let Some(piece) = answer.chunk().await.map_err(unreachable)? {
            read += piece.len();
            end.extend_from_slice(&piece);
            if end.len() > 2 * most {
                end.drain(..end.len() - most);
            }
            if read > 64 * MOST_ANSWER {
                break;
            }
        }
        end.drain(..end.len().saturating_sub(most));
        Ok(end)
    }

    async fn secret(&self, authority: &Authority<'_>) -> Result<Option<SecretString>, Error> {
        match authority {
            Authority::Nobody => Ok(None),
            Authority::Person(token) => Ok(Some((*token).clone())),
            Authority::App => self.tokens.of_the_app(self).map(Some),
            Authority::Repository(repository, permissions) => {
                Box::pin(self.tokens.for_repository(self, repository, *permissions)).await.map(Some)
            }
        }
    }

    async fn send(&self, ask: &Ask<'_>, secret: Option<&SecretString>) -> Result<Answer, Error> {
        let url = format!("{}{}", self.host.api(), ask.path);
        let known = (ask.method == Method::GET).then(|| self.lock_known().get(&url).cloned()).flatten();
        let mut request = self
            .http()?
            .request(ask.method.clone(), &url)
            .timeout(REQUEST)
            .header(header::ACCEPT, "application/vnd.github+json")
            .header(header::USER_AGENT, "harvest")
            .header("x-github-api-version", VERSION);
        if let Some(secret) = secret {
            let mut authorization = HeaderValue::try_from(format!("Bearer {}", secret.expose_secret()))
                .map_err(|_| Error::Unexpected { reason: "the token cannot be sent".to_owned() })?;
            authorization.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, authorization);
        }
        if let Some(known) = &known {
            request = request.header(header::IF_NONE_MATCH, known.tag.clone());
        }
        if let Some(body) = &ask.body {
            request = request.header(header::CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let mut answer = request.send().await.map_err(|error| unreachable(&error))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| unreachable(&error))? {
            body.extend_from_slice(&piece);
            if body.len() > MOST_ANSWER {
                return Err(Error::Unexpected { reason: "the answer is longer than 8 MiB".to_owned() });
            }
        }
        if let (StatusCode::NOT_MODIFIED, Some(known)) = (status, known) {
            return Ok(Answer { status: StatusCode::OK, headers, body: known.body });
        }
        if let (StatusCode::OK, Some(tag)) = (status, headers.get(header::ETAG))
            && ask.method == Method::GET
            && body.len() <= KEPT_ANSWER
        {
            let mut known = self.lock_known();
            if known.len() >= MOST_KEPT {
                known.clear();
            }
            known.insert(url, Known { tag: tag.clone(), body: body.clone() });
        }
        Ok(Answer { status, headers, body })
    }

    /// How long GitHub wants no more requests, when that is what an answer says: the allowance is used up, or requests came
    /// too fast.
    fn pause(&self, answer: &Answer) -> Option<Duration> {
        if ![StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS].contains(&answer.status) {
            return None;
        }
        let number = |name: &str| answer.headers.get(name)?.to_str().ok()?.trim().parse::<i64>().ok();
        if let Some(seconds) = number("retry-after") {
            return Some(Duration::from_secs(seconds.max(1).unsigned_abs()));
        }
        if number("x-ratelimit-remaining") == Some(0) {
            let reset = number("x-ratelimit-reset").unwrap_or(0);
            return Some(Duration::from_secs((reset - self.clock.now().as_second()).max(1).unsigned_abs()));
        }
        let secondary = answer.status == StatusCode::TOO_MANY_REQUESTS
            || String::from_utf8_lossy(&answer.body).to_ascii_lowercase().contains("secondary rate limit");
        secondary.then_some(LONGEST_WAIT)
    }

    fn rest_for(&self, pause: Duration) {
        let until = self.clock.now().saturating_add(pause).unwrap_or(Timestamp::MAX);
        let mut rests = self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        *rests = (*rests).max(Some(until));
    }

    async fn wait_for_rest(&self) -> Result<(), Error> {
        let until = *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        let left = until.map(|until| until.duration_since(self.clock.now())).unwrap_or_default();
        match Duration::try_from(left) {
            Ok(left) if left > LONGEST_WAIT => Err(Error::RateLimited { seconds: left.as_secs() }),
            Ok(left) => {
                tokio::time::sleep(left).await;
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    fn lock_known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Certificates are looked for when GitHub is first reached.
    fn http(&self) -> Result<&reqwest::Client, Error> {
        let made = self.plain.get_or_init(|| http(self.host.is_encrypted()));
        made.as_ref().map_err(|reason| Error::Unexpected { reason: reason.clone() })
    }
}

pub(crate) fn http(encrypted: bool) -> Result<reqwest::Client, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let tls = if encrypted {
        builder.with_platform_verifier().map_err(|error| error.to_string())?.with_no_client_auth()
    } else {
        // Only this machine is reached without encryption, and nobody's certificate is believed.
        builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
    };
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        // A token goes where it belongs and nowhere else.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT)
        .build()
        .map_err(|error| error.to_string())
}

fn doing(ask: &Ask<'_>) -> String {
    let path = ask.path.split('?').next().unwrap_or_default();
    format!("{} {path}", ask.method)
}

fn refusal(ask: &Ask<'_>, answer: &Answer) -> Error {
    #[derive(serde::Deserialize)]
    struct Said {
        message: Option<String>,
        #[serde(default)]
        errors: Vec<Value>,
    }
    let said: Option<Said> = serde_json::from_slice(&answer.body).ok();
    let mut message = said.as_ref().and_then(|said| said.message.clone()).unwrap_or_default();
    for error in said.iter().flat_map(|said| &said.errors) {
        let detail = error["message"].as_str().map_or_else(|| error.to_string(), str::to_owned);
        message = format!("{message}: {detail}");
    }
    Error::Refused { doing: doing(ask), status: answer.status.as_u16(), message }
}

/// Without the address, which says nothing that its reader does not know.
fn unreachable(error: &reqwest::Error) -> Error {
    let mut reason = if error.is_timeout() { "it did not answer in time".to_owned() } else { String::new() };
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        reason = if reason.is_empty() { error.to_string() } else { format!("{reason}: {error}") };
        cause = error.source();
    }
    Error::Unreachable { reason: if reason.is_empty() { "the connection failed".to_owned() } else { reason } }
}
