//! Secrets that let someone in. They are random, shown once and kept as a digest: 260 bits need no slow hash.

use sha2::{Digest, Sha256};

use crate::Error;

/// Five bits each.
const LETTERS: usize = 52;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Never printed by accident: only [`Secret::reveal`] shows it.
pub struct Secret(String);

impl Secret {
    /// One that someone else made.
    pub fn given(text: String) -> Self {
        Self(text)
    }

    /// A new one that begins with `prefix`.
    pub fn generate(prefix: &str) -> Result<Self, Error> {
        let mut bytes = [0u8; LETTERS];
        getrandom::fill(&mut bytes).map_err(|_| Error::NoRandomness)?;
        let letters = bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte & 31)]));
        Ok(Self(prefix.chars().chain(letters).collect()))
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub fn digest(&self) -> String {
        digest(&self.0)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What is kept of a secret.
pub fn digest(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

/// The whole secret of a browser's session. Its cookie holds one half and the storage of our page the other: browsers send a
/// cookie to every port of a host, and show storage to one origin alone.
pub fn session(cookie: &str, proof: &str) -> String {
    format!("{cookie}.{proof}")
}

/// Whether two are the same, in a time that does not tell where they differ.
pub fn same(one: &str, other: &str) -> bool {
    digest(one) == digest(other)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
