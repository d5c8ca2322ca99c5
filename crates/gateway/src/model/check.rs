//! Whether a vendor accepts a key. Its list of models is asked for, which costs nothing.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use super::Upstream;
use super::upstream::Clients;
use crate::egress::Network;
use crate::patience::Patience;

const PATIENCE: Duration = Duration::from_secs(10);
const ANTHROPIC_VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// What a vendor says to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyCheck {
    Accepted,
    Refused,
    /// The vendor could not be asked, or its answer says neither.
    Unclear(String),
}

impl Upstream {
    /// Asks the vendor for its models, with this credential.
    pub async fn check_key(&self) -> KeyCheck {
        let patience = Arc::new(Patience { connect: PATIENCE, ..Patience::default() });
        let clients = match Clients::new(patience, Network::default()) {
            Ok(clients) => clients,
            Err(error) => return KeyCheck::Unclear(error.to_string()),
        };
        let client = match clients.to(self) {
            Ok(client) => client,
            Err(reason) => return KeyCheck::Unclear(reason),
        };
        let path = if self.provider() == "gemini" { "v1beta/models" } else { "v1/models" };
        let mut headers = HeaderMap::new();
        if self.provider() == "anthropic" {
            headers.insert("anthropic-version", ANTHROPIC_VERSION);
        }
        self.authenticate(&mut headers);
        let asked = client.get(self.url(path, None)).headers(headers).timeout(PATIENCE).send().await;
        match asked {
            Ok(answer) => self.judge(answer.status().as_u16()),
            Err(error) if error.is_timeout() => {
                KeyCheck::Unclear(format!("its host did not answer within {} s", PATIENCE.as_secs()))
            }
            Err(_) => KeyCheck::Unclear("its host could not be reached".to_owned()),
        }
    }

    fn judge(&self, status: u16) -> KeyCheck {
        match status {
            200..300 => KeyCheck::Accepted,
            401 => KeyCheck::Refused,
            // A subscription's token may be good for messages and not for this list.
            403 if !self.is_subscription() => KeyCheck::Refused,
            // Gemini's answer to a key that it does not know.
            400 if self.provider() == "gemini" => KeyCheck::Refused,
            other => KeyCheck::Unclear(format!("its host answered with status {other}")),
        }
    }
}

/// How the keys of a vendor's own host look, where the vendor says so.
struct KeyForm {
    provider: &'static str,
    prefixes: &'static [&'static str],
    /// Why a text without any of the prefixes is not a key.
    mismatch: &'static str,
}

const KEY_FORMS: [KeyForm; 3] = [
    KeyForm { provider: "anthropic", prefixes: &["sk-ant-"], mismatch: "does not begin with `sk-ant-`" },
    KeyForm { provider: "openai", prefixes: &["sk-"], mismatch: "does not begin with `sk-`" },
    KeyForm { provider: "gemini", prefixes: &["AIza", "AQ."], mismatch: "begins neither with `AIza` nor with `AQ.`" },
];
/// Every vendor's keys are longer; a shorter text is a key that was cut off.
const SHORTEST_KEY: usize = 20;

/// The beginnings of all forms of keys that vendors say of their own.
pub fn key_prefixes() -> impl Iterator<Item = &'static str> {
    KEY_FORMS.iter().flat_map(|form| form.prefixes).copied()
}

/// Why a text cannot be a key of `provider`. The form is only known for the vendor's own host: a proxy at `base_url` may give out
/// keys of any form.
pub fn key_form_mismatch(provider: &str, base_url: Option<&str>, key: &SecretString) -> Option<&'static str> {
    let key = key.expose_secret().trim();
    if key.contains(char::is_whitespace) {
        return Some("has a space in it");
    }
    if base_url.is_some() {
        return None;
    }
    let form = KEY_FORMS.iter().find(|form| form.provider == provider)?;
    if !form.prefixes.iter().any(|prefix| key.starts_with(prefix)) {
        return Some(form.mismatch);
    }
    (key.len() < SHORTEST_KEY).then_some("is too short to be whole")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_judged_as_each_vendor_means_them() {
        let judge = |provider: &str, key: &str, status| {
            Upstream::new(provider, "id", None, &key.to_owned().into()).unwrap().judge(status)
        };
        assert_eq!(judge("anthropic", "sk-ant-api03-x", 200), KeyCheck::Accepted);
        assert_eq!(judge("anthropic", "sk-ant-api03-x", 401), KeyCheck::Refused);
        assert_eq!(judge("anthropic", "sk-ant-api03-x", 403), KeyCheck::Refused);
        assert!(matches!(judge("anthropic", "sk-ant-oat01-x", 403), KeyCheck::Unclear(_)));
        assert_eq!(judge("gemini", "x", 400), KeyCheck::Refused);
        assert!(matches!(judge("openai", "x", 400), KeyCheck::Unclear(_)));
        assert!(matches!(judge("openai", "x", 500), KeyCheck::Unclear(_)));
    }

    #[test]
    fn a_text_that_does_not_look_like_the_vendors_keys_is_told_from_one_that_does() {
        let mismatch = |provider, base_url, key: &str| key_form_mismatch(provider, base_url, &key.to_owned().into());
        let proxy = Some("https://proxy.example.com");
        assert_eq!(mismatch("anthropic", None, "sk-ant-api03-0123456789abcdef"), None);
        assert_eq!(mismatch("anthropic", None, " sk-ant-oat01-0123456789abcdef\n"), None);
        assert_eq!(mismatch("anthropic", None, "banana"), Some("does not begin with `sk-ant-`"));
        assert_eq!(mismatch("anthropic", None, "sk-ant-api03"), Some("is too short to be whole"));
        assert_eq!(mismatch("anthropic", None, "sk-ant-api03-0123 456789abcdef"), Some("has a space in it"));
        assert_eq!(mismatch("anthropic", proxy, "banana"), None);
        assert_eq!(mismatch("openai", None, "sk-proj-0123456789abcdef"), None);
        assert_eq!(mismatch("openai", None, "AIza0123456789abcdef0123"), Some("does not begin with `sk-`"));
        assert_eq!(mismatch("gemini", None, "AIza0123456789abcdef0123"), None);
        assert_eq!(mismatch("gemini", None, "banana"), Some("begins neither with `AIza` nor with `AQ.`"));
        assert_eq!(mismatch("ollama", None, "banana"), None);
    }

    #[tokio::test]
    async fn a_host_that_nobody_listens_at_says_nothing_about_the_key() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let upstream = Upstream::new("openai", "id", Some(&url), &"k".to_owned().into()).unwrap();
        assert_eq!(upstream.check_key().await, KeyCheck::Unclear("its host could not be reached".to_owned()));
    }
}
