//! Digests as registries announce them, and the check that content has one.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};

/// What content must hash to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Digest {
    Sha1([u8; 20]),
    Sha256([u8; 32]),
    Sha512([u8; 64]),
}

/// Hashes content piece by piece.
pub(super) enum Hasher {
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Digest {
    pub(super) fn sha1(hex: &str) -> Option<Self> {
        unhex(hex).map(Self::Sha1)
    }

    pub(super) fn sha256(hex: &str) -> Option<Self> {
        unhex(hex).map(Self::Sha256)
    }

    /// Subresource integrity, as npm announces it: the strongest of its hashes that is known here.
    pub(super) fn integrity(text: &str) -> Option<Self> {
        let read = |prefix: &str| {
            let hash = text.split_ascii_whitespace().find_map(|hash| hash.strip_prefix(prefix))?;
            STANDARD.decode(hash.split('?').next()?).ok()
        };
        let sha512 = || read("sha512-")?.try_into().ok().map(Self::Sha512);
        let sha256 = || read("sha256-")?.try_into().ok().map(Self::Sha256);
        let sha1 = || read("sha1-")?.try_into().ok().map(Self::Sha1);
        sha512().or_else(sha256).or_else(sha1)
    }

    pub(super) fn hasher(&self) -> Hasher {
        match self {
            Self::Sha1(_) => Hasher::Sha1(Sha1::new()),
            Self::Sha256(_) => Hasher::Sha256(Sha256::new()),
            Self::Sha512(_) => Hasher::Sha512(Sha512::new()),
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Sha1(bytes) => format!("sha1:{}", hex(bytes)),
            Self::Sha256(bytes) => format!("sha256:{}", hex(bytes)),
            Self::Sha512(bytes) => format!("sha512:{}", hex(bytes)),
        }
    }
}

impl Hasher {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha1(hasher) => hasher.update(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    pub(super) fn finish(self) -> Digest {
        match self {
            Self::Sha1(hasher) => Digest::Sha1(hasher.finalize().into()),
            Self::Sha256(hasher) => Digest::Sha256(hasher.finalize().into()),
            Self::Sha512(hasher) => Digest::Sha512(hasher.finalize().into()),
        }
    }
}

pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_digests_are_read() {
        let known = Digest::sha256("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad").unwrap();
        let mut hasher = known.hasher();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish(), known);
        assert_eq!(Digest::sha1("a9993e364706816aba3e25717850c26c9cd0d89d").unwrap().text().len(), 45);
        let both = "sha1-qZk+NkcGgWq6PiVxeFDCbJzQ2J0= sha512-3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw==";
        assert!(matches!(Digest::integrity(both), Some(Digest::Sha512(_))));
        assert!(matches!(Digest::integrity("sha1-qZk+NkcGgWq6PiVxeFDCbJzQ2J0="), Some(Digest::Sha1(_))));
        for bad in ["", "md5-abc", "sha512-abc", "sha512"] {
            assert_eq!(Digest::integrity(bad), None, "{bad}");
        }
        for bad in ["", "zz", "ba7816", "+a7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"] {
            assert_eq!(Digest::sha256(bad), None, "{bad}");
        }
    }
}
