//! Where models are: addresses and keys, and the HTTP client that reaches them.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;
use rustls_platform_verifier::BuilderVerifierExt;
use secrecy::{ExposeSecret, SecretString};

use super::Vendor;
use crate::Error;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest silence of an upstream. Models may think for minutes before the first byte.
const READ_TIMEOUT: Duration = Duration::from_secs(600);
const OAUTH_BETA: &str = "oauth-2025-04-20";

/// The vendors' own hosts, or others that speak the same formats.
#[derive(Debug, Default)]
pub struct Upstreams {
    pub anthropic: Option<Upstream>,
    pub openai: Option<Upstream>,
    pub gemini: Option<Upstream>,
    pub ollama: Option<Upstream>,
}

/// One host and the credential for it. Printing it does not show the key.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// With or without a trailing `/`, `/v1` or `/v1beta`.
    pub base_url: String,
    /// An API key; for Anthropic also an OAuth token (`sk-ant-oat…`). Empty for an Ollama that wants none.
    pub key: SecretString,
}

impl Upstream {
    pub const ANTHROPIC: &str = "https://api.anthropic.com";
    pub const OPENAI: &str = "https://api.openai.com";
    pub const GEMINI: &str = "https://generativelanguage.googleapis.com";
    /// Ollama's own service, which wants a key.
    pub const OLLAMA: &str = "https://ollama.com";

    /// Anthropic's own API.
    pub fn anthropic(key: SecretString) -> Self {
        Self { base_url: Self::ANTHROPIC.to_owned(), key }
    }

    /// OpenAI's own API.
    pub fn openai(key: SecretString) -> Self {
        Self { base_url: Self::OPENAI.to_owned(), key }
    }

    /// Google's own API.
    pub fn gemini(key: SecretString) -> Self {
        Self { base_url: Self::GEMINI.to_owned(), key }
    }

    /// Ollama's own service; a machine's Ollama has another address and, most often, no key.
    pub fn ollama(key: SecretString) -> Self {
        Self { base_url: Self::OLLAMA.to_owned(), key }
    }
}

/// A checked upstream, ready to be called.
#[derive(Debug)]
pub(super) struct Target {
    base: String,
    credential: Option<(HeaderName, HeaderValue)>,
    oauth: bool,
}

impl Target {
    pub(super) fn new(vendor: Vendor, upstream: &Upstream) -> Result<Self, Error> {
        let bad = |reason: String| {
            // What stands before an `@` may be a password.
            let url = upstream.base_url.rsplit('@').next().unwrap_or_default().to_owned();
            Error::BadUpstream { vendor: vendor.id(), url, reason }
        };
        let url = Url::parse(&upstream.base_url).map_err(|error| bad(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("it must begin with https:// or http://".to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
            return Err(bad("it must have no user, query or fragment".to_owned()));
        }
        let base = url.as_str().trim_end_matches('/');
        let base = base.strip_suffix("/v1").or_else(|| base.strip_suffix("/v1beta")).unwrap_or(base).to_owned();
        let key = upstream.key.expose_secret().trim();
        let oauth = vendor == Vendor::Anthropic && key.starts_with("sk-ant-oat");
        let (name, text) = match vendor {
            Vendor::Anthropic if !oauth => (HeaderName::from_static("x-api-key"), key.to_owned()),
            Vendor::Gemini => (HeaderName::from_static("x-goog-api-key"), key.to_owned()),
            Vendor::Anthropic | Vendor::OpenAi | Vendor::Ollama(_) => (AUTHORIZATION, format!("Bearer {key}")),
        };
        let mut value = HeaderValue::try_from(text).map_err(|_| Error::BadKey { vendor: vendor.id() })?;
        value.set_sensitive(true);
        let needs_none = matches!(vendor, Vendor::Ollama(_)) && key.is_empty();
        Ok(Self { base, credential: (!needs_none).then_some((name, value)), oauth })
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

    fn is_encrypted(&self) -> bool {
        self.base.starts_with("https:")
    }
}

/// The client for all upstreams. Certificates are looked for only when one of them is reached by TLS, so that a machine
/// without any can still use a script or a local model.
pub(super) fn client<'a>(mut targets: impl Iterator<Item = &'a Target>) -> Result<reqwest::Client, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::Certificates)?;
    let tls = if targets.any(Target::is_encrypted) {
        builder.with_platform_verifier().map_err(Error::Certificates)?.with_no_client_auth()
    } else {
        builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
    };
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .pool_idle_timeout(Duration::from_secs(60))
        .tcp_nodelay(true)
        .build()
        .map_err(Error::Client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dialect;

    fn target(vendor: Vendor, base_url: &str, key: &str) -> Result<Target, Error> {
        Target::new(vendor, &Upstream { base_url: base_url.to_owned(), key: key.to_owned().into() })
    }

    #[test]
    fn the_address_may_end_in_v1_or_not() {
        for base in
            ["https://host/x", "https://host/x/", "https://host/x/v1", "https://host/x/v1/", "https://host/x/v1beta"]
        {
            let target = target(Vendor::OpenAi, base, "k").unwrap();
            assert_eq!(target.url("v1/models", Some("a=b%2F")), "https://host/x/v1/models?a=b%2F");
        }
    }

    #[test]
    fn each_kind_of_key_goes_into_its_header() {
        let header = |vendor, key| {
            let mut headers = HeaderMap::new();
            target(vendor, "https://host", key).unwrap().authenticate(&mut headers);
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(header(Vendor::Anthropic, "sk-ant-api03-x\n"), ["x-api-key: sk-ant-api03-x"]);
        let oauth = ["authorization: Bearer sk-ant-oat01-x", "anthropic-beta: oauth-2025-04-20"];
        assert_eq!(header(Vendor::Anthropic, "sk-ant-oat01-x"), oauth);
        assert_eq!(header(Vendor::OpenAi, "sk-x"), ["authorization: Bearer sk-x"]);
        assert_eq!(header(Vendor::Gemini, "AIza-x"), ["x-goog-api-key: AIza-x"]);
        assert_eq!(header(Vendor::Ollama(Dialect::Own), "k"), ["authorization: Bearer k"]);
        assert_eq!(header(Vendor::Ollama(Dialect::OpenAi), ""), [""; 0]);
    }

    #[test]
    fn bad_addresses_and_keys_are_refused_without_showing_the_key() {
        for base in ["", "host", "ftp://host", "https://user:pass@host", "https://host/?a=b"] {
            assert!(matches!(target(Vendor::OpenAi, base, "k"), Err(Error::BadUpstream { .. })), "{base}");
        }
        let error = target(Vendor::OpenAi, "https://host", "canary\nkey").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"));
        let shown = format!("{:?}", target(Vendor::OpenAi, "https://host", "canary").unwrap());
        assert!(!shown.contains("canary"), "{shown}");
        assert!(!format!("{:?}", Upstream::openai("canary".to_owned().into())).contains("canary"));
    }
}
