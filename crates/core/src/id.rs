//! Typed identifiers.
//!
//! An id is 16 characters of lower-case Crockford base 32 (80 random bits): short enough to type a prefix of, safe in file
//! names, refs, URLs and shells without quoting.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const LENGTH: usize = 16;
const SHORT: usize = 8;

/// Where randomness comes from; injected like the clock.
pub trait Entropy: Send + Sync + fmt::Debug {
    fn bytes(&self) -> [u8; 10];
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an id: ids have {LENGTH} characters from 0-9 and a-z without i, l, o, u")]
pub struct IdError {
    pub text: String,
}

fn encode(bytes: [u8; 10]) -> String {
    let bits = bytes.iter().fold(0u128, |bits, byte| bits << 8 | u128::from(*byte));
    (0..LENGTH).rev().map(|place| ALPHABET[(bits >> (place * 5) & 31) as usize] as char).collect()
}

fn is_id(text: &str) -> bool {
    text.len() == LENGTH && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[cfg_attr(feature = "schema", schema(pattern = "^[0-9a-hjkmnp-tv-z]{16}$", example = "7k3m9x2c4v6b8n0q"))]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn generate(entropy: &dyn Entropy) -> Self {
                Self(encode(entropy.bytes()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The first characters, as shown to people and used in branch names.
            pub fn short(&self) -> &str {
                &self.0[..SHORT]
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                if is_id(text) { Ok(Self(text.to_owned())) } else { Err(IdError { text: text.to_owned() }) }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

ids! {
    /// The id of a task.
    TaskId,
    /// The id of a session.
    SessionId,
    /// The id of a turn.
    TurnId,
    /// The id of an attempt.
    AttemptId,
    /// The id of a sandbox.
    SandboxId,
    /// One process that owns live sessions: a `harvest run`, a server.
    OwnerId,
    /// The id of a credential.
    CredentialId,
    /// The id of a model call.
    CallId,
    /// The id of an API token or of a browser session.
    TokenId,
    /// The id of a comment.
    CommentId,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug)]
    struct Fixed([u8; 10]);
    impl Entropy for Fixed {
        fn bytes(&self) -> [u8; 10] {
            self.0
        }
    }

    proptest! {
        #[test]
        fn generated_ids_parse_back_and_differ(a: [u8; 10], b: [u8; 10]) {
            let (first, second) = (TaskId::generate(&Fixed(a)), TaskId::generate(&Fixed(b)));
            prop_assert_eq!(first.as_str().parse::<TaskId>().unwrap(), first.clone());
            prop_assert_eq!(a == b, first == second);
        }
    }

    #[test]
    fn traversal_and_case_tricks_are_no_ids() {
        for text in ["", "../../etc/passwd", "0123456789ABCDEF", "0123456789abcdeu", "0123456789abcdef0"] {
            assert!(text.parse::<SessionId>().is_err(), "{text}");
        }
    }
}
