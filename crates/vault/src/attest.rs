//! Signed statements: an in-toto statement in a DSSE envelope, signed with a key of this installation (Ed25519). Whoever has
//! the public half can check one without asking anyone.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde_json::{Value, json};
use zeroize::Zeroizing;

const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
const PUBLIC_KEY: usize = 32;

/// Signs for this installation.
pub struct Attestor {
    key: Ed25519KeyPair,
}

#[derive(Debug, thiserror::Error)]
pub enum AttestError {
    #[error("the signing key {} cannot be used", .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("the signing key {} is damaged", .path.display())]
    BadKey { path: PathBuf },
    #[error("no random bytes are available for a key")]
    Randomness,
    #[error("it is not a signed statement: {0}")]
    Malformed(&'static str),
    #[error("it was signed with another key ({found}) than {expected}")]
    OtherKey { found: String, expected: String },
    #[error("the signature does not match: it was changed, or someone else signed it")]
    Forged,
}

impl Attestor {
    /// The key in this file, made when it is not there yet.
    pub fn load_or_create(path: &Path) -> Result<Self, AttestError> {
        let io = |source| AttestError::Io { path: path.to_owned(), source };
        loop {
            match std::fs::read(path) {
                Ok(bytes) => {
                    let bytes = Zeroizing::new(bytes);
                    let key = Ed25519KeyPair::from_pkcs8(&bytes);
                    let key = key.map_err(|_| AttestError::BadKey { path: path.to_owned() })?;
                    return Ok(Self { key });
                }
                Err(error) if error.kind() == ErrorKind::NotFound => create(path)?,
                Err(error) => return Err(io(error)),
            }
        }
    }

    /// The public half, as others keep it.
    pub fn public_key(&self) -> String {
        BASE64.encode(self.key.public_key().as_ref())
    }

    /// The statement in its envelope. The same statement is always the same envelope.
    pub fn sign(&self, statement: &Value) -> Value {
        let payload = statement.to_string();
        let signature = self.key.sign(&encoded(PAYLOAD_TYPE, payload.as_bytes()));
        json!({
            "payloadType": PAYLOAD_TYPE,
            "payload": BASE64.encode(payload),
            "signatures": [{ "keyid": self.public_key(), "sig": BASE64.encode(signature.as_ref()) }],
        })
    }
}

impl std::fmt::Debug for Attestor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Attestor({})", self.public_key())
    }
}

/// A public key in the form that [`Attestor::public_key`] has: from that form, or from the one that OpenSSL writes, with or
/// without its first and last line. `None` when the text is no key.
pub fn parse_public_key(text: &str) -> Option<String> {
    /// What comes before the 32 bytes of an Ed25519 key in DER.
    const DER_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
    let bytes = BASE64.decode(lines.collect::<String>()).ok()?;
    let key = bytes.strip_prefix(&DER_HEAD).unwrap_or(&bytes);
    (key.len() == PUBLIC_KEY).then(|| BASE64.encode(key))
}

/// What an envelope says, if whoever has `public_key` signed it.
pub fn verify(envelope: &Value, public_key: &str) -> Result<Value, AttestError> {
    let malformed = AttestError::Malformed;
    let text = |value: &Value, what| value.as_str().map(str::to_owned).ok_or(malformed(what));
    let kind = text(&envelope["payloadType"], "it has no payloadType")?;
    if kind != PAYLOAD_TYPE {
        return Err(malformed("its payload is not an in-toto statement"));
    }
    let decode = |text: String, what| BASE64.decode(text).map_err(|_| malformed(what));
    let payload = decode(text(&envelope["payload"], "it has no payload")?, "its payload is not base64")?;
    let [signature] = envelope["signatures"].as_array().map_or(&[][..], Vec::as_slice) else {
        return Err(malformed("it has not exactly one signature"));
    };
    let found = text(&signature["keyid"], "its signature names no key")?;
    if found != public_key.trim() {
        return Err(AttestError::OtherKey { found, expected: public_key.trim().to_owned() });
    }
    let key = decode(found, "its key is not base64")?;
    if key.len() != PUBLIC_KEY {
        return Err(malformed("its key is not 32 bytes long"));
    }
    let signature = decode(text(&signature["sig"], "its signature is empty")?, "its signature is not base64")?;
    let key = UnparsedPublicKey::new(&ED25519, key);
    key.verify(&encoded(&kind, &payload), &signature).map_err(|_| AttestError::Forged)?;
    serde_json::from_slice(&payload).map_err(|_| malformed("its payload is not JSON"))
}

/// What is signed: the type and the payload, each with its length, so that no two pairs are the same bytes.
fn encoded(kind: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

/// Of several that start at once, one makes the file and all use it.
fn create(path: &Path) -> Result<(), AttestError> {
    let io = |source| AttestError::Io { path: path.to_owned(), source };
    let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| AttestError::Randomness)?;
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new).map_err(io)?;
    file.write_all(key.as_ref()).and_then(|()| file.sync_all()).map_err(io)?;
    let linked = std::fs::hard_link(&new, path);
    std::fs::remove_file(&new).map_err(io)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(io(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_key_is_read_as_it_is_printed_and_as_openssl_writes_it() {
        let raw = BASE64.encode([7; PUBLIC_KEY]);
        let der =
            [&[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00][..], &[7; PUBLIC_KEY]].concat();
        let der = BASE64.encode(der);
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n");
        for text in [&raw, &format!("{raw}\n"), &der, &pem] {
            assert_eq!(parse_public_key(text).as_ref(), Some(&raw), "{text}");
        }
        for text in ["", "nonsense", "bm9uc2Vuc2U=", "evidence.pub", &raw[1..]] {
            assert_eq!(parse_public_key(text), None, "{text}");
        }
    }

    #[test]
    fn what_was_signed_is_read_and_what_was_changed_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("evidence.key");
        let attestor = Attestor::load_or_create(&path).unwrap();
        let statement = json!({ "_type": "https://in-toto.io/Statement/v1", "subject": [] });
        let envelope = attestor.sign(&statement);
        let again = Attestor::load_or_create(&path).unwrap();
        assert_eq!((again.public_key(), again.sign(&statement)), (attestor.public_key(), envelope.clone()));
        assert_eq!(verify(&envelope, &attestor.public_key()).unwrap(), statement);
        let mut changed = envelope.clone();
        changed["payload"] = json!(BASE64.encode("{}"));
        assert!(matches!(verify(&changed, &attestor.public_key()), Err(AttestError::Forged)));
        let other = Attestor::load_or_create(&folder.path().join("other.key")).unwrap();
        assert!(matches!(verify(&envelope, &other.public_key()), Err(AttestError::OtherKey { .. })));
        // Someone else's signature under our name.
        let mut claimed = other.sign(&statement);
        claimed["signatures"][0]["keyid"] = json!(attestor.public_key());
        assert!(matches!(verify(&claimed, &attestor.public_key()), Err(AttestError::Forged)));
        for bad in [json!(null), json!({}), json!({ "payloadType": "text/plain" })] {
            assert!(matches!(verify(&bad, &attestor.public_key()), Err(AttestError::Malformed(_))), "{bad}");
        }
    }

    /// The published example of the encoding.
    #[test]
    fn the_encoding_is_that_of_the_specification() {
        assert_eq!(
            encoded("http://example.com/HelloWorld", b"hello world"),
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
    }
}
