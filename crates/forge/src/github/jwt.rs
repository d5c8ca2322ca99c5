//! What an App says of itself: a JSON Web Token, signed with its private key (RS256).

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use harvest_core::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use super::account::BadAccount;

/// Clocks differ: it is valid since a minute ago.
const BACK: i64 = 60;
/// GitHub takes no token that holds longer than ten minutes.
const HOLDS: i64 = 9 * 60;

pub(super) struct SigningKey(RsaKeyPair);

impl SigningKey {
    /// As GitHub gives it out (`RSA PRIVATE KEY`), or as others write it (`PRIVATE KEY`).
    pub(super) fn from_pem(pem: &SecretString) -> Result<Self, BadAccount> {
        let pem = pem.expose_secret();
        let inner = |label: &str| {
            let (_, rest) = pem.split_once(&format!("-----BEGIN {label}-----"))?;
            let (text, _) = rest.split_once(&format!("-----END {label}-----"))?;
            let text: String = text.split_ascii_whitespace().collect();
            STANDARD.decode(text).ok()
        };
        let pair = match (inner("RSA PRIVATE KEY"), inner("PRIVATE KEY")) {
            (Some(der), _) => RsaKeyPair::from_der(&der),
            (None, Some(der)) => RsaKeyPair::from_pkcs8(&der),
            (None, None) => return Err(BadAccount("its private_key is not in PEM format")),
        };
        pair.map(Self).map_err(|_| BadAccount("its private_key is not an RSA key of 2048 bits or more"))
    }

    pub(super) fn token(&self, issuer: &str, now: Timestamp) -> Result<SecretString, BadAccount> {
        let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let now = now.as_second();
        let claims = json!({ "iat": now - BACK, "exp": now + HOLDS, "iss": issuer });
        let message = format!("{}.{}", part(&json!({ "alg": "RS256", "typ": "JWT" })), part(&claims));
        let mut signature = vec![0; self.0.public().modulus_len()];
        self.0
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature)
            .map_err(|_| BadAccount("its private_key does not sign"))?;
        Ok(SecretString::from(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }

    #[cfg(feature = "fake")]
    pub(crate) fn public(&self) -> Vec<u8> {
        self.0.public().as_ref().to_vec()
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey(…)")
    }
}
