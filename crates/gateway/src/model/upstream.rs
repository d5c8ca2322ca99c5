//! Where models are: addresses and keys, and the HTTP client that reaches them.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use harvest_core::NamedBy;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;
use rustls_platform_verifier::BuilderVerifierExt;
use secrecy::{ExposeSecret, SecretString};

use super::Vendor;
use super::lane::Lane;
use crate::Error;
use crate::echo::Echo;
use crate::egress::{Names, Network, not_public};
use crate::patience::Patience;

const OAUTH_BETA: &str = "oauth-2025-04-20";

/// A host and the credential for it, checked and ready to be called. Printing it does not show the key.
#[derive(Debug)]
pub struct Upstream {
    id: String,
    provider: &'static str,
    base: String,
    credential: Option<(HeaderName, HeaderValue)>,
    /// Finds the credential in answers.
    echo: Option<Echo>,
    oauth: bool,
    named_by: NamedBy,
    lane: Lane,
}

impl Upstream {
    /// `provider` is `anthropic`, `openai`, `gemini` or `ollama`; `id` tells this credential from others and is shown to
    /// people. The address may end in `/`, `/v1` or `/v1beta`; without one it is the provider's own. The key is an API key,
    /// for Anthropic also an OAuth token (`sk-ant-oat…`), and empty for an Ollama that wants none.
    pub fn new(
        provider: &str,
        id: impl Into<String>,
        base_url: Option<&str>,
        key: &SecretString,
    ) -> Result<Self, Error> {
        let Some((vendor, _)) = Vendor::of_path(&format!("/{provider}/")) else {
            return Err(Error::UnknownProvider { provider: provider.to_owned() });
        };
        let base_url = base_url.unwrap_or_else(|| public_host(vendor));
        let bad = |reason: String| {
            // What stands before an `@` may be a password.
            let url = base_url.rsplit('@').next().unwrap_or_default().to_owned();
            Error::BadUpstream { vendor: vendor.id(), url, reason }
        };
        let url = Url::parse(base_url).map_err(|error| bad(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("it must begin with https:// or http://".to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
            return Err(bad("it must have no user, query or fragment".to_owned()));
        }
        let base = url.as_str().trim_end_matches('/');
        let base = base.strip_suffix("/v1").or_else(|| base.strip_suffix("/v1beta")).unwrap_or(base).to_owned();
        let key = key.expose_secret().trim();
        let oauth = vendor == Vendor::Anthropic && key.starts_with("sk-ant-oat");
        let (name, text) = match vendor {
            Vendor::Anthropic if !oauth => (HeaderName::from_static("x-api-key"), key.to_owned()),
            Vendor::Gemini => (HeaderName::from_static("x-goog-api-key"), key.to_owned()),
            Vendor::Anthropic | Vendor::OpenAi | Vendor::Ollama(_) => (AUTHORIZATION, format!("Bearer {key}")),
        };
        let mut value = HeaderValue::try_from(text).map_err(|_| Error::BadKey { vendor: vendor.id() })?;
        value.set_sensitive(true);
        let needs_none = matches!(vendor, Vendor::Ollama(_)) && key.is_empty();
        let credential = (!needs_none).then_some((name, value));
        let echo = Echo::of(key);
        Ok(Self {
            id: id.into(),
            provider: vendor.id(),
            base,
            credential,
            echo,
            oauth,
            named_by: NamedBy::default(),
            lane: Lane::default(),
        })
    }

    /// The same with a host that is taken on someone else's word than the installation's. Names are judged by their addresses when
    /// they are connected to; an address that is written out is judged here, too.
    pub fn named_by(mut self, by: NamedBy) -> Result<Self, Error> {
        self.named_by = by;
        let url = Url::parse(&self.base).ok();
        match url.and_then(|url| written_out(&url)).and_then(not_public).filter(|_| !by.reaches_private_addresses()) {
            None => Ok(self),
            Some(what) => {
                let reason = format!("its address is {what}, and a project's host must have a public one");
                Err(Error::BadUpstream { vendor: self.provider, url: self.base, reason })
            }
        }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether it is the token of a subscription, and not an API key.
    pub fn is_subscription(&self) -> bool {
        self.oauth
    }

    /// Where it is, without the path of a call.
    pub fn address(&self) -> &str {
        &self.base
    }

    pub fn provider(&self) -> &'static str {
        self.provider
    }

    pub(super) fn echo(&self) -> Option<Echo> {
        self.echo.clone()
    }

    pub(super) fn lane(&self) -> &Lane {
        &self.lane
    }

    pub(super) fn url(&self, path: &str, query: Option<&str>) -> String {
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}/{path}{query}", self.base)
    }

    /// Puts the credential into the headers, and what Anthropic asks for beside an OAuth token.
    pub(super) fn authenticate(&self, headers: &mut HeaderMap) {
        if let Some((name, value)) = self.credential.clone() {
            headers.insert(name, value);
        }
        let asked = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.contains(OAUTH_BETA));
        if self.oauth && !headers.get_all("anthropic-beta").iter().any(asked) {
            headers.append("anthropic-beta", HeaderValue::from_static(OAUTH_BETA));
        }
    }
}

fn public_host(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Anthropic => "https://api.anthropic.com",
        Vendor::OpenAi => "https://api.openai.com",
        Vendor::Gemini => "https://generativelanguage.googleapis.com",
        Vendor::Ollama(_) => "https://ollama.com",
    }
}

/// The HTTP clients for everything that is called with a credential. Certificates are looked for when one of them is first reached by TLS, so that a
/// machine without any can still use a script or a local model.
#[derive(Debug)]
pub(crate) struct Clients {
    plain: reqwest::Client,
    encrypted: OnceLock<Result<reqwest::Client, Error>>,
    /// The same for hosts that must have public addresses. They share no connection with the others.
    public_plain: OnceLock<Result<reqwest::Client, Error>>,
    public_encrypted: OnceLock<Result<reqwest::Client, Error>>,
    network: Network,
    patience: Arc<Patience>,
}

impl Clients {
    pub(super) fn new(patience: Arc<Patience>, network: Network) -> Result<Self, Error> {
        let plain = client(&patience, false, None)?;
        let [encrypted, public_plain, public_encrypted] = [const { OnceLock::new() }; 3];
        Ok(Self { plain, encrypted, public_plain, public_encrypted, network, patience })
    }

    pub(super) fn to(&self, upstream: &Upstream) -> Result<&reqwest::Client, String> {
        self.at(&upstream.base, upstream.named_by)
    }

    /// For an address of someone who is no model.
    pub(crate) fn at(&self, url: &str, named_by: NamedBy) -> Result<&reqwest::Client, String> {
        let is_encrypted = !url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"));
        if named_by.reaches_private_addresses() {
            let encrypted = || self.encrypted.get_or_init(|| client(&self.patience, true, None)).as_ref();
            return if is_encrypted { encrypted().map_err(ToString::to_string) } else { Ok(&self.plain) };
        }
        // A name is judged when it is looked up; an address that is written out is connected to without that.
        let address = Url::parse(url).ok().and_then(|url| written_out(&url));
        if let Some(what) = address.and_then(self.network.check) {
            return Err(format!("its address is {what}, and a project's host must have a public one"));
        }
        let slot = if is_encrypted { &self.public_encrypted } else { &self.public_plain };
        let names = Names::Public(self.network.clone());
        let made = slot.get_or_init(|| client(&self.patience, is_encrypted, Some(names))).as_ref();
        made.map_err(ToString::to_string)
    }
}

/// The address that stands in place of a host's name.
fn written_out(url: &Url) -> Option<IpAddr> {
    // Parsing has brought every spelling of an address, one number among them, into the usual form.
    url.host_str()?.trim_matches(['[', ']']).parse().ok()
}

fn client(patience: &Patience, encrypted: bool, names: Option<Names>) -> Result<reqwest::Client, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::Certificates)?;
    let tls = if encrypted {
        builder.with_platform_verifier().map_err(Error::Certificates)?.with_no_client_auth()
    } else {
        builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
    };
    let builder = match names {
        Some(names) => reqwest::Client::builder().dns_resolver(Arc::new(names)),
        None => reqwest::Client::builder(),
    };
    builder
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(patience.connect)
        // Each phase has its own limit where it is awaited; this is for answers that are passed on unmetered.
        .read_timeout(patience.first_byte.max(patience.idle))
        .pool_idle_timeout(Duration::from_secs(60))
        .tcp_nodelay(true)
        .build()
        .map_err(Error::Client)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(provider: &str, base_url: &str, key: &str) -> Result<Upstream, Error> {
        Upstream::new(provider, "id", Some(base_url), &key.to_owned().into())
    }

    #[test]
    fn the_address_may_end_in_v1_or_not() {
        for base in
            ["https://host/x", "https://host/x/", "https://host/x/v1", "https://host/x/v1/", "https://host/x/v1beta"]
        {
            let target = target("openai", base, "k").unwrap();
            assert_eq!(target.url("v1/models", Some("a=b%2F")), "https://host/x/v1/models?a=b%2F");
        }
    }

    #[test]
    fn a_project_names_no_address_that_is_not_public() {
        let by_project = |base: &str| target("openai", base, "k").unwrap().named_by(NamedBy::Project);
        for base in [
            "http://127.0.0.1:1",
            "http://169.254.169.254/latest",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://127.0.0.1./",
            "http://[::1]:1",
            "http://[::ffff:10.0.0.1]",
            "https://192.168.1.1",
        ] {
            assert!(matches!(by_project(base), Err(Error::BadUpstream { .. })), "{base}");
            assert!(target("openai", base, "k").unwrap().named_by(NamedBy::Installation).is_ok(), "{base}");
        }
        assert!(by_project("https://1.1.1.1").is_ok() && by_project("https://models.example.com").is_ok());
    }

    #[test]
    fn each_kind_of_key_goes_into_its_header() {
        let header = |provider, key| {
            let mut headers = HeaderMap::new();
            target(provider, "https://host", key).unwrap().authenticate(&mut headers);
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(header("anthropic", "sk-ant-api03-x\n"), ["x-api-key: sk-ant-api03-x"]);
        let oauth = ["authorization: Bearer sk-ant-oat01-x", "anthropic-beta: oauth-2025-04-20"];
        assert_eq!(header("anthropic", "sk-ant-oat01-x"), oauth);
        assert_eq!(header("openai", "sk-x"), ["authorization: Bearer sk-x"]);
        assert_eq!(header("gemini", "AIza-x"), ["x-goog-api-key: AIza-x"]);
        assert_eq!(header("ollama", "k"), ["authorization: Bearer k"]);
        assert_eq!(header("ollama", ""), [""; 0]);
    }

    #[test]
    fn bad_addresses_and_keys_are_refused_without_showing_the_key() {
        for base in ["", "host", "ftp://host", "https://user:pass@host", "https://host/?a=b"] {
            assert!(matches!(target("openai", base, "k"), Err(Error::BadUpstream { .. })), "{base}");
        }
        let error = target("openai", "https://host", "canary\nkey").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"));
        let shown = format!("{:?}", target("openai", "https://host", "canary").unwrap());
        assert!(!shown.contains("canary"), "{shown}");
        assert!(matches!(target("nobody", "https://host", "k"), Err(Error::UnknownProvider { .. })));
    }
}
