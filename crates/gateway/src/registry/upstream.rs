//! The way to a registry: its own host, and the few others that its metadata and redirects may lead to.
//!
//! Nothing of the client's request goes out but the path. Hosts that were not named by the operator must have public
//! addresses, as for the proxy.

use std::error::Error as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, IF_MODIFIED_SINCE, IF_NONE_MATCH, LOCATION, USER_AGENT};
use reqwest::{Client, Method, Url};
use rustls_platform_verifier::BuilderVerifierExt;

use super::Ecosystem;
use crate::Error;
use crate::egress::{Names, Network, Unreachable};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_REDIRECTS: usize = 5;
/// After it could not be reached, a registry is not asked again for so long; what is cached is served meanwhile.
const PAUSE: Duration = Duration::from_secs(15);
const AGENT: &str = concat!("harvest/", env!("CARGO_PKG_VERSION"));

/// One registry.
#[derive(Debug)]
pub(super) struct Upstream {
    base: Url,
    /// Named by the operator, so its address may be a private one.
    own: bool,
    others: &'static [&'static str],
    clients: Arc<Clients>,
    down_until: Mutex<Option<Instant>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("the registry cannot be reached")]
    Unreachable,
    #[error("the registry's name leads to an address that is not public; if that is meant, name it in [registries]")]
    NotPublic,
    #[error("the registry leads to a host that is not one of its own")]
    Elsewhere,
    #[error("the registry says {0}")]
    Status(StatusCode),
    #[error("the registry's answer is too large")]
    TooLarge,
    #[error("the registry announces no digest for this file")]
    NoDigest,
    #[error("the file is not what its registry announced")]
    WrongDigest,
    #[error("the registry's metadata cannot be understood")]
    Malformed,
    #[error("the cache cannot be written")]
    Cache,
}

/// What a document was when it was last fetched.
#[derive(Debug, Clone, Default)]
pub(super) struct Validators {
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
}

impl Upstream {
    pub(super) fn new(ecosystem: Ecosystem, own: Option<&str>, clients: &Arc<Clients>) -> Result<Self, Error> {
        let text = own.unwrap_or(ecosystem.public());
        let bad = |reason: String| {
            // What stands before an `@` may be a password.
            let url = text.rsplit('@').next().unwrap_or_default().to_owned();
            Error::BadUpstream { vendor: ecosystem.name(), url, reason }
        };
        let base = Url::parse(text).map_err(|error| bad(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(bad("it must begin with https:// or http://".to_owned()));
        }
        if !base.username().is_empty()
            || base.password().is_some()
            || base.query().is_some()
            || base.fragment().is_some()
        {
            return Err(bad("it must have no user, query or fragment".to_owned()));
        }
        let others = ecosystem.other_hosts();
        Ok(Self { base, own: own.is_some(), others, clients: Arc::clone(clients), down_until: Mutex::default() })
    }

    pub(super) fn base(&self) -> &str {
        self.base.as_str()
    }

    /// The address of something below the registry's own; `None` when the path leads out of it.
    pub(super) fn below(&self, path: &str) -> Option<Url> {
        let base = self.base.as_str().trim_end_matches('/');
        let url = Url::parse(&format!("{base}/{path}")).ok()?;
        let inside = url.as_str().strip_prefix(base).is_some_and(|rest| rest.starts_with('/'));
        (inside && url.query().is_none() && url.fragment().is_none()).then_some(url)
    }

    /// Whether the registry may lead there.
    pub(super) fn covers(&self, url: &Url) -> bool {
        if url.has_authority() && (!url.username().is_empty() || url.password().is_some()) {
            return false;
        }
        self.is_own_host(url) || self.is_other_host(url)
    }

    fn is_own_host(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    fn is_other_host(&self, url: &Url) -> bool {
        let listed = url.host_str().is_some_and(|host| self.others.contains(&host));
        listed && url.scheme() == "https" && url.port().is_none()
    }

    /// Asks for something, following redirects within the registry.
    pub(super) async fn ask(
        &self,
        method: Method,
        url: &Url,
        accept: Option<&str>,
        known: &Validators,
    ) -> Result<reqwest::Response, Problem> {
        if self.is_down() {
            return Err(Problem::Unreachable);
        }
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            if !self.covers(&url) {
                return Err(Problem::Elsewhere);
            }
            let client = self.clients.get(self.own && self.is_own_host(&url)).ok_or(Problem::Unreachable)?;
            let request = client.request(method.clone(), url.clone()).headers(headers(accept, known));
            let answer = match request.send().await {
                Ok(answer) => answer,
                Err(error) => {
                    tracing::debug!(%error, host = url.host_str(), "a registry could not be reached");
                    self.pause();
                    return Err(if leads_inside(&error) { Problem::NotPublic } else { Problem::Unreachable });
                }
            };
            let status = answer.status();
            if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(answer);
            }
            let to = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            url = to.and_then(|to| url.join(to).ok()).ok_or(Problem::Malformed)?;
            url.set_fragment(None);
        }
        Err(Problem::Malformed)
    }

    fn is_down(&self) -> bool {
        let until = self.down_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    fn pause(&self) {
        *self.down_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + PAUSE);
    }
}

/// Whether the look-up found an address that is not to be connected to.
fn leads_inside(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(Unreachable::Forbidden { .. }) = error.downcast_ref() {
            return true;
        }
        cause = error.source();
    }
    false
}

fn headers(accept: Option<&str>, known: &Validators) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let pairs = [
        (ACCEPT, Some(accept.unwrap_or("*/*"))),
        (ACCEPT_ENCODING, Some("identity")),
        (USER_AGENT, Some(AGENT)),
        (IF_NONE_MATCH, known.etag.as_deref()),
        (IF_MODIFIED_SINCE, known.last_modified.as_deref()),
    ];
    for (name, value) in pairs {
        if let Some(Ok(value)) = value.map(TryInto::try_into) {
            headers.insert(name, value);
        }
    }
    headers
}

/// HTTP clients for all registries, made when first needed: a machine without certificates can do without packages.
#[derive(Debug)]
pub(super) struct Clients {
    network: Network,
    checked: OnceLock<Option<Client>>,
    unchecked: OnceLock<Option<Client>>,
}

impl Clients {
    pub(super) fn new(network: Network) -> Self {
        Self { network, checked: OnceLock::new(), unchecked: OnceLock::new() }
    }

    fn get(&self, any_address: bool) -> Option<&Client> {
        let slot = if any_address { &self.unchecked } else { &self.checked };
        let network = self.network.clone();
        let names = if any_address { Names::Any(network) } else { Names::Public(network) };
        let made = slot.get_or_init(|| match client(names) {
            Ok(client) => Some(client),
            Err(error) => {
                tracing::error!(%error, "registries cannot be reached");
                None
            }
        });
        made.as_ref()
    }
}

fn client(names: Names) -> Result<Client, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(Error::Certificates)?
        .with_no_client_auth();
    Client::builder()
        .dns_resolver(Arc::new(names))
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .pool_idle_timeout(Duration::from_secs(30))
        .tcp_nodelay(true)
        .build()
        .map_err(Error::Client)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(own: Option<&str>) -> Upstream {
        Upstream::new(Ecosystem::Pypi, own, &Arc::new(Clients::new(Network::default()))).unwrap()
    }

    #[test]
    fn a_registry_leads_to_its_own_hosts_only() {
        let covers = |own, url: &str| upstream(own).covers(&Url::parse(url).unwrap());
        assert!(covers(None, "https://pypi.org/simple/x/"));
        assert!(covers(None, "https://files.pythonhosted.org/packages/x.whl"));
        assert!(covers(Some("http://10.0.0.1:8080/simple"), "http://10.0.0.1:8080/files/x.whl"));
        for url in [
            "http://pypi.org/simple/x/",
            "https://pypi.org:8443/simple/x/",
            "http://files.pythonhosted.org/x.whl",
            "https://user@files.pythonhosted.org/x.whl",
            "https://evil.test/x.whl",
            "https://files.pythonhosted.org.evil.test/x.whl",
            "http://169.254.169.254/latest/meta-data/",
            "file:///etc/passwd",
        ] {
            assert!(!covers(None, url), "{url}");
        }
        assert!(!covers(Some("http://10.0.0.1:8080/simple"), "http://10.0.0.1/files/x.whl"));
    }

    #[test]
    fn paths_stay_below_the_base() {
        let below = |path: &str| upstream(Some("https://mirror.test/a/simple/")).below(path).map(|url| url.to_string());
        assert_eq!(below("x/").as_deref(), Some("https://mirror.test/a/simple/x/"));
        for path in ["../x", "x/../../y", "%2e%2e/x", "x?y", "x#y"] {
            assert_eq!(below(path), None, "{path}");
        }
    }

    #[test]
    fn addresses_that_cannot_be_used_are_refused_without_their_password() {
        for url in ["", "mirror", "ftp://mirror.test", "https://ada:secret@mirror.test", "https://mirror.test/?a=b"] {
            let error =
                Upstream::new(Ecosystem::Npm, Some(url), &Arc::new(Clients::new(Network::default()))).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
