//! What Harvest itself asks of others over HTTP: a server's API, a forge that signs people in, a collector of traces.
//!
//! Every request has a deadline and every answer a bound; nothing is redirected, so that a secret goes where it was meant to
//! go. What agents ask for goes through the gateway and never through here.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustls_platform_verifier::BuilderVerifierExt;
use serde::de::DeserializeOwned;

pub use reqwest::Method;

/// Of an answer that is read as a whole.
const MOST_BYTES: usize = 16 * 1024 * 1024;
const CONNECT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{0}` is not an address of the form https://host/path")]
    BadUrl(String),
    #[error("{host} cannot be reached: {why}")]
    Unreachable { host: String, why: String },
    #[error("{host} did not answer within {} s", patience.as_secs())]
    TooLate { host: String, patience: Duration },
    #[error("the answer of {host} has more than {MOST_BYTES} bytes")]
    TooLarge { host: String },
    #[error("the answer of {host} is not what was expected: {why}")]
    Unreadable { host: String, why: String },
    #[error("no connection by TLS is possible: {0}")]
    Tls(String),
}

/// A request.
#[derive(Debug, Clone)]
pub struct Ask {
    method: Method,
    url: String,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
}

/// What came back, whatever its status.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    host: String,
    headers: Vec<(String, String)>,
    pub body: Bytes,
}

/// Cheap to clone. Certificates are looked for when something is first reached by TLS.
#[derive(Debug, Clone)]
pub struct Client {
    plain: OnceLock<reqwest::Client>,
    encrypted: OnceLock<reqwest::Client>,
    /// For a whole answer; for a stream, until its next part.
    patience: Duration,
}

/// An answer that goes on.
#[derive(Debug)]
pub struct Stream {
    host: String,
    response: reqwest::Response,
    patience: Duration,
}

impl Ask {
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        Self { method, url: url.into(), headers: Vec::new(), body: Bytes::new() }
    }

    pub fn get(url: impl Into<String>) -> Self {
        Self::new(Method::GET, url)
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn json(self, body: &impl serde::Serialize) -> Self {
        let body = serde_json::to_vec(body).unwrap_or_default();
        Self { body: body.into(), ..self.header("content-type", "application/json") }
    }

    /// Fields as a form sends them.
    pub fn form(self, fields: &[(&str, &str)]) -> Self {
        let pairs = fields.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value)));
        let body = pairs.collect::<Vec<_>>().join("&");
        Self { body: body.into(), ..self.header("content-type", "application/x-www-form-urlencoded") }
    }
}

/// As part of an address.
pub fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

impl Answer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The names are in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let unreadable =
            |error: serde_json::Error| Error::Unreadable { host: self.host.clone(), why: error.to_string() };
        serde_json::from_slice(&self.body).map_err(unreadable)
    }
}

impl Client {
    pub fn new(patience: Duration) -> Self {
        Self { plain: OnceLock::new(), encrypted: OnceLock::new(), patience }
    }

    /// Asks, and reads the whole answer.
    pub async fn ask(&self, ask: Ask) -> Result<Answer, Error> {
        let host = host_of(&ask.url)?;
        let late = Error::TooLate { host: host.clone(), patience: self.patience };
        let asking = async {
            let mut response = self.send(ask, &host).await?;
            let mut body = BytesMut::new();
            while let Some(part) = response.chunk().await.map_err(|error| unreachable(&host, &error))? {
                if body.len() + part.len() > MOST_BYTES {
                    return Err(Error::TooLarge { host: host.clone() });
                }
                body.extend_from_slice(&part);
            }
            let headers = response.headers().iter();
            let headers = headers.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
            let headers = headers.collect();
            Ok(Answer { status: response.status().as_u16(), headers, body: body.freeze(), host: host.clone() })
        };
        tokio::time::timeout(self.patience, asking).await.unwrap_or(Err(late))
    }

    /// Asks, and reads the answer as it comes.
    pub async fn stream(&self, ask: Ask) -> Result<(u16, Stream), Error> {
        let host = host_of(&ask.url)?;
        let late = Error::TooLate { host: host.clone(), patience: self.patience };
        let response = tokio::time::timeout(self.patience, self.send(ask, &host)).await.unwrap_or(Err(late))?;
        Ok((response.status().as_u16(), Stream { host, response, patience: self.patience }))
    }

    async fn send(&self, ask: Ask, host: &str) -> Result<reqwest::Response, Error> {
        let client = self.to(&ask.url)?;
        let mut request = client.request(ask.method, &ask.url).body(ask.body);
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        request.send().await.map_err(|error| unreachable(host, &error))
    }

    fn to(&self, url: &str) -> Result<&reqwest::Client, Error> {
        let encrypted = !url.starts_with("http://");
        let place = if encrypted { &self.encrypted } else { &self.plain };
        if place.get().is_none() {
            let _ = place.set(client(encrypted)?);
        }
        place.get().ok_or_else(|| Error::Tls("there is no client".to_owned()))
    }
}

impl Stream {
    /// The next part; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        match tokio::time::timeout(self.patience, self.response.chunk()).await {
            Ok(part) => part.map_err(|error| unreachable(&self.host, &error)),
            Err(_) => Err(Error::TooLate { host: self.host.clone(), patience: self.patience }),
        }
    }
}

/// An address that can be asked, and the host in it.
fn host_of(url: &str) -> Result<String, Error> {
    let bad = || Error::BadUrl(url.to_owned());
    let parsed: reqwest::Url = url.parse().map_err(|_| bad())?;
    if !["http", "https"].contains(&parsed.scheme()) {
        return Err(bad());
    }
    let port = parsed.port().map(|port| format!(":{port}")).unwrap_or_default();
    Ok(format!("{}{port}", parsed.host_str().ok_or_else(bad)?))
}

fn unreachable(host: &str, error: &reqwest::Error) -> Error {
    // The innermost cause is what happened; those around it repeat the address.
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    Error::Unreachable { host: host.to_owned(), why: cause.to_string() }
}

fn client(encrypted: bool) -> Result<reqwest::Client, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls(error.to_string()))?;
    let tls = if encrypted {
        let verified = builder.with_platform_verifier().map_err(|error| Error::Tls(error.to_string()))?;
        verified.with_no_client_auth()
    } else {
        builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
    };
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT)
        .pool_idle_timeout(Duration::from_secs(60))
        .tcp_nodelay(true)
        .user_agent(concat!("harvest/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| Error::Tls(error.to_string()))
}
