//! The way to a registry: its own host, and the few others that its metadata and redirects may lead to.
//!
//! Nothing of the client's request goes out but the path. Hosts that were not named by the operator must have public
//! addresses, as for the proxy.

use std::collections::HashMap;
use std::error::Error as _;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, IF_MODIFIED_SINCE, IF_NONE_MATCH, LOCATION, USER_AGENT};
use reqwest::{Client, Method, Url};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::{BuilderVerifierExt, Verifier};

use super::{Ecosystem, Reach, Trouble};
use crate::Error;
use crate::egress::{Names, Network, Unreachable};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_REDIRECTS: usize = 5;
/// After it could not be reached, a registry is not asked again for so long; what is cached is served meanwhile.
const PAUSE: Duration = Duration::from_secs(15);
/// For a host that is only tried.
const REACH_TIMEOUT: Duration = Duration::from_secs(15);
/// Before a second attempt to connect.
const BETWEEN_TRIES: Duration = Duration::from_millis(500);
const AGENT: &str = concat!("harvest/", env!("CARGO_PKG_VERSION"));

/// One registry.
#[derive(Debug)]
pub(super) struct Upstream {
    base: Url,
    /// Named by the operator, so its address may be a private one.
    own: bool,
    others: &'static [&'static str],
    /// The operator has named the public registry, so what is true of its host is true of its others.
    own_others: bool,
    /// Hosts that serve the files of the operator's mirrors, named by the operator too.
    file_hosts: Arc<[Url]>,
    clients: Arc<Clients>,
    /// Hosts that could not be reached: until when each is not asked again, and why.
    down: Mutex<HashMap<String, (Instant, Problem)>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("{host} cannot be reached: {cause}")]
    Unreachable { host: String, cause: Cause },
    #[error(
        "{host} resolves to {address}, which is {what}; if it is a mirror of your own, {} under [registries] in \
         harvest.toml", way_in(*part)
    )]
    NotPublic { host: String, address: IpAddr, what: &'static str, part: Part },
    /// It was found so a moment ago, and is not tried again yet.
    #[error("{host} could not be reached a moment ago; it will be retried soon")]
    Paused { host: String },
    #[error("the registry's answer was cut off")]
    Cut,
    #[error(
        "the mirror leads to {host}, which is not one of its hosts; if it serves the mirror's files, {} under [registries] \
         in harvest.toml",
        way_in(Part::Files)
    )]
    MirrorLeadsElsewhere { host: String },
    #[error("the registry leads to a host that is not one of its own")]
    Elsewhere,
    #[error("the registry says {0}")]
    Status(StatusCode),
    #[error("the registry's answer is too large")]
    TooLarge,
    #[error("the registry publishes no digest for this file")]
    NoDigest,
    #[error("the file does not match the digest of its registry")]
    WrongDigest,
    #[error("the registry's metadata cannot be understood")]
    Malformed,
    #[error("the cache cannot be written")]
    Cache,
}

/// Why a host did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Cause {
    #[error("its name cannot be looked up")]
    Name,
    #[error("its certificate is not trusted by this machine")]
    Certificate,
    #[error("it does not answer")]
    NoAnswer,
    #[error("this machine has no certificates to check it with")]
    NoClient,
}

/// What a host is to its registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Index,
    Files,
}

/// How an operator names such a host.
fn way_in(part: Part) -> &'static str {
    match part {
        Part::Index => "name it",
        Part::Files => "add it to `file_hosts`",
    }
}

/// What a document was when it was last fetched.
#[derive(Debug, Clone, Default)]
pub(super) struct Validators {
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
}

impl Problem {
    /// Whether no package can be had from the registry, and why; `None` for what one package or one answer is about.
    pub(super) fn trouble(&self, ecosystem: Ecosystem) -> Option<Trouble> {
        self.is_about_all().then(|| Trouble { ecosystem, reason: self.to_string(), is_lasting: self.is_lasting() })
    }

    /// Whether no package can be had from the registry.
    pub(super) fn is_about_all(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::NotPublic { .. } | Self::MirrorLeadsElsewhere { .. })
    }

    /// Whether the registry is left alone for a while.
    pub(super) fn pause(&self, ecosystem: Ecosystem) -> Option<Trouble> {
        let paused = matches!(self, Self::Paused { .. });
        paused.then(|| Trouble { ecosystem, reason: self.to_string(), is_lasting: false })
    }

    /// Whether it stays so until someone changes something.
    fn is_lasting(&self) -> bool {
        match self {
            Self::Unreachable { cause, .. } => !matches!(cause, Cause::Name | Cause::NoAnswer),
            Self::NotPublic { .. } | Self::MirrorLeadsElsewhere { .. } => true,
            _ => false,
        }
    }
}

impl Upstream {
    pub(super) fn new(
        ecosystem: Ecosystem,
        own: Option<&str>,
        file_hosts: &Arc<[Url]>,
        clients: &Arc<Clients>,
    ) -> Result<Self, Error> {
        let base = parse(ecosystem.name(), own.unwrap_or(ecosystem.public()))?;
        let is_public = parse(ecosystem.name(), ecosystem.public())?.origin() == base.origin();
        Ok(Self {
            own: own.is_some(),
            others: ecosystem.other_hosts(),
            own_others: own.is_some() && is_public,
            file_hosts: Arc::clone(file_hosts),
            base,
            clients: Arc::clone(clients),
            down: Mutex::default(),
        })
    }

    /// A host of files by itself, to be tried.
    pub(super) fn of_files(host: &Url, clients: &Arc<Clients>) -> Self {
        Self {
            base: host.clone(),
            own: true,
            others: &[],
            own_others: false,
            file_hosts: Arc::default(),
            clients: Arc::clone(clients),
            down: Mutex::default(),
        }
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
        // Nobody has said that the metadata of a public registry may lead to a host inside.
        self.is_own_host(url) || self.is_other_host(url) || (self.own && self.is_file_host(url))
    }

    /// Whether the operator has named the host, by itself or with the registry.
    fn is_named(&self, url: &Url) -> bool {
        (self.own && self.is_own_host(url)) || self.is_file_host(url) || (self.own_others && self.is_other_host(url))
    }

    fn is_file_host(&self, url: &Url) -> bool {
        self.file_hosts.iter().any(|host| host.origin() == url.origin())
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
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            if !self.covers(&url) {
                return Err(self.elsewhere(&url));
            }
            let host = || url.host_str().unwrap_or_default().to_owned();
            if let Some(problem) = self.known_problem(&host()) {
                return Err(problem);
            }
            let Some(client) = self.clients.get(self.is_named(&url)) else {
                return Err(Problem::Unreachable { host: host(), cause: Cause::NoClient });
            };
            let mut request = reqwest::Request::new(method.clone(), url.clone());
            *request.headers_mut() = headers(accept, known);
            let answer = match send(client, request).await {
                Ok(answer) => answer,
                Err(error) => {
                    tracing::debug!(%error, host = url.host_str(), "a registry could not be reached");
                    let part = if self.is_own_host(&url) { Part::Index } else { Part::Files };
                    let problem = problem(&error, host(), part);
                    self.pause(host(), &problem);
                    return Err(problem);
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

    /// That metadata or a redirect leads out of the registry.
    fn elsewhere(&self, url: &Url) -> Problem {
        match url.host_str().filter(|_| self.own && matches!(url.scheme(), "http" | "https")) {
            Some(host) => Problem::MirrorLeadsElsewhere { host: host.to_owned() },
            None => Problem::Elsewhere,
        }
    }

    /// Tries each host that packages come from.
    pub(super) async fn reach(&self, ecosystem: Option<Ecosystem>) -> Vec<Reach> {
        let others = if self.own && !self.own_others { &[] } else { self.others };
        let others = others.iter().filter_map(|host| Url::parse(&format!("https://{host}/")).ok());
        let others = others.filter(|url| url.host_str() != self.base.host_str());
        let tries = std::iter::once(self.base.clone()).chain(others).map(|url| async move {
            let (host, known) = (url.host_str().unwrap_or_default().to_owned(), Validators::default());
            let asked = tokio::time::timeout(REACH_TIMEOUT, self.ask(Method::HEAD, &url, None, &known)).await;
            let silent = || Err(Problem::Unreachable { host: host.clone(), cause: Cause::NoAnswer });
            let problem = asked.unwrap_or_else(|_| silent()).err().filter(|problem| match problem {
                // It answered.
                Problem::MirrorLeadsElsewhere { .. } => false,
                problem => problem.is_about_all(),
            });
            Reach { ecosystem, host, is_own: self.own, trouble: problem.map(|problem| problem.to_string()) }
        });
        futures_util::future::join_all(tries).await
    }

    /// What is known of a host that was tried a moment ago. What may pass is told as trouble once, when it was found: whoever
    /// tries again has only to wait.
    fn known_problem(&self, host: &str) -> Option<Problem> {
        let down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, problem) = down.get(host).filter(|(until, _)| Instant::now() < *until)?;
        Some(if problem.is_lasting() { problem.clone() } else { Problem::Paused { host: host.to_owned() } })
    }

    /// The hosts of a registry are few: its own, and those it may lead to.
    fn pause(&self, host: String, problem: &Problem) {
        let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        down.insert(host, (Instant::now() + PAUSE, problem.clone()));
    }
}

/// A host of files as an operator may name it: `files.example.com`, with HTTPS unless it says `http://`.
pub(super) fn file_host(text: &str) -> Result<Url, Error> {
    let url = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let url = parse("file_hosts", &url)?;
    match url.path() {
        "/" => Ok(url),
        _ => {
            let reason = "it must have no path".to_owned();
            Err(Error::BadUpstream { vendor: "file_hosts", url: url.into(), reason })
        }
    }
}

/// An address that an operator may name.
fn parse(name: &'static str, text: &str) -> Result<Url, Error> {
    let bad = |reason: String| {
        // What stands before an `@` may be a password.
        let url = text.rsplit('@').next().unwrap_or_default().to_owned();
        Error::BadUpstream { vendor: name, url, reason }
    };
    let url = Url::parse(text).map_err(|error| bad(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(bad("it must begin with https:// or http://".to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err(bad("it must have no user, query or fragment".to_owned()));
    }
    Ok(url)
}

/// Tries once more when no connection could be made: networks and name servers fail now and then.
async fn send(client: &Client, request: reqwest::Request) -> reqwest::Result<reqwest::Response> {
    let again = request.try_clone();
    match (client.execute(request).await, again) {
        (Err(error), Some(again)) if error.is_connect() && refused_address(&error).is_none() => {
            tracing::debug!(%error, "a registry could not be reached; it is tried again");
            tokio::time::sleep(BETWEEN_TRIES).await;
            client.execute(again).await
        }
        (answered, _) => answered,
    }
}

fn problem(error: &reqwest::Error, host: String, part: Part) -> Problem {
    if let Some((address, what)) = refused_address(error) {
        return Problem::NotPublic { host, address, what, part };
    }
    let is_unknown = causes(error).any(|cause| matches!(cause.downcast_ref(), Some(Unreachable::Unknown)));
    let cause = match (is_unknown, is_distrusted(error)) {
        (true, _) => Cause::Name,
        (_, true) => Cause::Certificate,
        _ => Cause::NoAnswer,
    };
    Problem::Unreachable { host, cause }
}

/// The address that the look-up found, if it is not to be connected to.
fn refused_address(error: &reqwest::Error) -> Option<(IpAddr, &'static str)> {
    causes(error).find_map(|cause| match cause.downcast_ref() {
        Some(Unreachable::Forbidden { address, what }) => Some((*address, *what)),
        _ => None,
    })
}

fn is_distrusted(error: &reqwest::Error) -> bool {
    causes(error).any(|cause| matches!(cause.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))))
}

/// Every error beneath, those that are wrapped in an [`io::Error`] too.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |&error| {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    })
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
    /// Connects for us, and looks names up: it alone knows their addresses.
    proxy: Option<Url>,
    /// Trusted beside those of the machine.
    certificates: Vec<CertificateDer<'static>>,
    checked: OnceLock<Option<Client>>,
    unchecked: OnceLock<Option<Client>>,
}

impl Clients {
    pub(super) fn new(network: Network, proxy: Option<&str>, ca_file: Option<&Path>) -> Result<Self, Error> {
        let proxy = proxy.map(|proxy| parse("proxy", proxy)).transpose()?;
        let certificates = ca_file.map(certificates).transpose()?.unwrap_or_default();
        Ok(Self { network, proxy, certificates, checked: OnceLock::new(), unchecked: OnceLock::new() })
    }

    fn get(&self, any_address: bool) -> Option<&Client> {
        let slot = if any_address { &self.unchecked } else { &self.checked };
        let made = slot.get_or_init(|| match self.make(any_address) {
            Ok(client) => Some(client),
            Err(error) => {
                tracing::error!(%error, "registries cannot be reached");
                None
            }
        });
        made.as_ref()
    }

    /// A registry of the operator's own is inside, and reached directly.
    fn make(&self, any_address: bool) -> Result<Client, Error> {
        let network = self.network.clone();
        let proxy = self.proxy.as_ref().filter(|_| !any_address);
        let is_unchecked = any_address || proxy.is_some();
        let names = if is_unchecked { Names::Any(network) } else { Names::Public(network) };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(Error::Certificates)?;
        let tls = if self.certificates.is_empty() {
            tls.with_platform_verifier().map_err(Error::Certificates)?
        } else {
            let verifier = Verifier::new_with_extra_roots(self.certificates.iter().cloned(), provider);
            let verifier = Arc::new(verifier.map_err(Error::Certificates)?);
            tls.dangerous().with_custom_certificate_verifier(verifier)
        };
        let client = Client::builder()
            .dns_resolver(Arc::new(names))
            .tls_backend_preconfigured(tls.with_no_client_auth())
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .pool_idle_timeout(Duration::from_secs(30))
            .tcp_nodelay(true);
        let client = match proxy {
            Some(proxy) => client.proxy(reqwest::Proxy::all(proxy.clone()).map_err(Error::Client)?),
            None => client.no_proxy(),
        };
        client.build().map_err(Error::Client)
    }
}

/// The certificates of a PEM file.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let bad = |reason: String| Error::BadCertificates { path: path.to_owned(), reason };
    let pem = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match read {
        Ok(found) if found.is_empty() => Err(bad("it holds none; a PEM file is expected".to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(bad(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(own: Option<&str>) -> Upstream {
        let clients = Arc::new(Clients::new(Network::default(), None, None).unwrap());
        let file_hosts = ["files.corp.example", "http://10.0.0.2:8080"].map(|host| file_host(host).unwrap());
        Upstream::new(Ecosystem::Pypi, own, &Arc::from(file_hosts), &clients).unwrap()
    }

    #[test]
    fn named_file_hosts_are_those_of_mirrors_and_may_be_inside() {
        let (mirror, url) = ("https://mirror.corp.example/simple", |url: &str| Url::parse(url).unwrap());
        for named in ["https://files.corp.example/x.whl?signed=1", "http://10.0.0.2:8080/x.whl"].map(url) {
            assert!(upstream(Some(mirror)).covers(&named) && upstream(Some(mirror)).is_named(&named), "{named}");
            assert!(!upstream(None).covers(&named), "{named}");
        }
        for other in ["http://files.corp.example/x", "https://files.corp.example:8443/x", "http://10.0.0.2/x"].map(url)
        {
            assert!(!upstream(Some(mirror)).covers(&other), "{other}");
        }
        let files = url("https://files.pythonhosted.org/x.whl");
        let is_named = |own| upstream(own).is_named(&files);
        assert_eq!([None, Some(mirror), Some("https://pypi.org/simple/")].map(is_named), [false, false, true]);
        for bad in ["", "a/b", "a b", "ftp://a", "https://a/x", "ada@a", "a?b"] {
            assert!(file_host(bad).is_err(), "{bad}");
        }
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
            let error = Upstream::new(
                Ecosystem::Npm,
                Some(url),
                &Arc::default(),
                &Arc::new(Clients::new(Network::default(), None, None).unwrap()),
            )
            .unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
