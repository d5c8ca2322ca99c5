//! Secrets at rest: AES-256-GCM with a nonce for every value, bound to the record it belongs to.

use std::fmt;
use std::str::FromStr;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key as AesKey, Nonce};
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD as BASE64;
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use crate::ring::{KeyId, Ring};

const VERSION: &str = "v1";
const NONCE: usize = 12;

/// A secret that only the ring can open, as text to keep in a database.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    key: KeyId,
    nonce: [u8; NONCE],
    ciphertext: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("it is sealed with the key {0}, which is not in the ring of master keys")]
    UnknownKey(KeyId),
    #[error(
        "it cannot be opened: it was changed, belongs to another record, or the master key is not the one it was sealed with"
    )]
    Refused,
    #[error("it is not a sealed secret")]
    Malformed,
    #[error("no random bytes are available: {0}")]
    Randomness(String),
}

impl Sealed {
    /// Which master key it needs.
    pub fn key(&self) -> &KeyId {
        &self.key
    }
}

impl Ring {
    /// Seals with the current key. Only whoever names the same record can open it again.
    pub fn seal(&self, record: &str, secret: &SecretString) -> Result<Sealed, SealError> {
        let (id, key) = self.current();
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|error| SealError::Randomness(error.to_string()))?;
        let payload = Payload { msg: secret.expose_secret().as_bytes(), aad: record.as_bytes() };
        let ciphertext = cipher(key).encrypt(&Nonce::from(nonce), payload).map_err(|_| SealError::Refused)?;
        Ok(Sealed { key: id.clone(), nonce, ciphertext })
    }

    pub fn open(&self, record: &str, sealed: &Sealed) -> Result<SecretString, SealError> {
        let key = self.get(&sealed.key).ok_or_else(|| SealError::UnknownKey(sealed.key.clone()))?;
        let payload = Payload { msg: sealed.ciphertext.as_slice(), aad: record.as_bytes() };
        let opened = cipher(key).decrypt(&Nonce::from(sealed.nonce), payload).map_err(|_| SealError::Refused)?;
        let opened = Zeroizing::new(opened);
        let text = std::str::from_utf8(&opened).map_err(|_| SealError::Malformed)?;
        Ok(SecretString::from(text.to_owned()))
    }
}

fn cipher(key: &[u8; 32]) -> Aes256Gcm {
    Aes256Gcm::new(&AesKey::<Aes256Gcm>::from(*key))
}

impl fmt::Display for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nonce, ciphertext) = (BASE64.encode(self.nonce), BASE64.encode(&self.ciphertext));
        write!(f, "{VERSION}.{}.{nonce}.{ciphertext}", self.key)
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed").field("key", &self.key).finish_non_exhaustive()
    }
}

impl FromStr for Sealed {
    type Err = SealError;

    fn from_str(text: &str) -> Result<Self, SealError> {
        let mut parts = text.split('.');
        let (Some(VERSION), Some(key), Some(nonce), Some(ciphertext), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(SealError::Malformed);
        };
        let decode = |part: &str| BASE64.decode(part).map_err(|_| SealError::Malformed);
        Ok(Self {
            key: key.parse().map_err(|_| SealError::Malformed)?,
            nonce: decode(nonce)?.try_into().map_err(|_| SealError::Malformed)?,
            ciphertext: decode(ciphertext)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secret(text: &str) -> SecretString {
        SecretString::from(text.to_owned())
    }

    proptest! {
        #[test]
        fn what_is_sealed_opens_again_and_only_for_its_record(text in ".*", record in "[a-z]{1,8}", other in "[A-Z]{1,8}") {
            let ring = Ring::generate().unwrap();
            let sealed: Sealed = ring.seal(&record, &secret(&text)).unwrap().to_string().parse().unwrap();
            let opened = ring.open(&record, &sealed).unwrap();
            prop_assert_eq!(opened.expose_secret(), text.as_str());
            prop_assert_eq!(ring.open(&other, &sealed).unwrap_err(), SealError::Refused);
        }

        #[test]
        fn a_changed_byte_is_noticed(text in "[a-z]{8,40}", place: prop::sample::Index, bit in 0u8..8) {
            let ring = Ring::generate().unwrap();
            let mut sealed = ring.seal("record", &secret(&text)).unwrap();
            let place = place.index(sealed.ciphertext.len());
            sealed.ciphertext[place] ^= 1 << bit;
            prop_assert_eq!(ring.open("record", &sealed).unwrap_err(), SealError::Refused);
        }

        #[test]
        fn any_text_parses_or_is_refused(text in ".{0,80}") {
            let _ = text.parse::<Sealed>();
        }
    }

    #[test]
    fn the_same_secret_never_looks_the_same() {
        let ring = Ring::generate().unwrap();
        let seal = || ring.seal("record", &secret("sk-canary-0123456789")).unwrap().to_string();
        let (first, second) = (seal(), seal());
        assert_ne!(first, second);
        assert!(!first.contains("canary"));
    }

    #[test]
    fn another_ring_says_which_key_is_missing() {
        let sealed = Ring::generate().unwrap().seal("record", &secret("x")).unwrap();
        let error = Ring::generate().unwrap().open("record", &sealed).unwrap_err();
        assert_eq!(error, SealError::UnknownKey(sealed.key().clone()));
    }
}
