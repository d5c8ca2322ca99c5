//! Secrets: types that cannot be printed, the seal that protects them at rest, and the redaction that keeps them out of
//! everything else that is written down.
//!
//! A [`Ring`] of master keys turns a secret into a [`Sealed`] one, bound to its record, and back.
//!
//! A [`Redactor`] knows the secrets of this installation and the shapes of well-known tokens. Every sink (journal, log,
//! error, page) sends its text through one; a [`StreamRedactor`] does the same for text that arrives in pieces. It is the
//! last net, not the first: secrets are kept away from whatever could print them to begin with.

mod attest;
mod encoding;
mod json;
mod redactor;
mod ring;
mod seal;
mod shape;
mod stream;

pub use attest::{AttestError, Attestor, parse_public_key, verify as verify_statement};
pub use encoding::{MIN_SECRET_BYTES, in_json};
pub use redactor::{Error, MARK, Redactor, looks_random};
pub use ring::{KeyId, Ring, RingError};
pub use seal::{SealError, Sealed};
pub use secrecy::{ExposeSecret, SecretString};
pub use shape::token_prefixes;
pub use stream::StreamRedactor;
