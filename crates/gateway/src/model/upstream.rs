//! Where models are: addresses and keys, and the HTTP client that reaches them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;
use rustls_platform_verifier::BuilderVerifierExt;
use secrecy::{ExposeSecret, SecretString};

use super::Vendor;
use super::lane::Lane;
use crate::Error;
use crate::echo::Echo;
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
        Ok(Self { id: id.into(), provider: vendor.id(), base, credential, echo, oauth, lane: Lane::default() })
    }

    pub fn id(&self) -> &str {
        &self.id
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
    patience: Arc<Patience>,
}

impl Clients {
    pub(super) fn new(patience: Arc<Patience>) -> Result<Self, Error> {
        let plain = client(&patience, false)?;
        Ok(Self { plain, encrypted: OnceLock::new(), patience })
    }

    pub(super) fn to(&self, upstream: &Upstream) -> Result<&reqwest::Client, &Error> {
        self.at(&upstream.base)
    }

    /// For an address of someone who is no model.
    pub(crate) fn at(&self, url: &str) -> Result<&reqwest::Client, &Error> {
        if !url.starts_with("https:") {
            return Ok(&self.plain);
        }
        self.encrypted.get_or_init(|| client(&self.patience, true)).as_ref()
    }
}

fn client(patience: &Patience, encrypted: bool) -> Result<reqwest::Client, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::Certificates)?;
    let tls = if encrypted {
        builder.with_platform_verifier().map_err(Error::Certificates)?.with_no_client_auth()
    } else {
        builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
    };
    reqwest::Client::builder()
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
