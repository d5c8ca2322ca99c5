//! Secrets: types that cannot be printed, and the redaction that keeps them out of everything written down.
//!
//! A [`Redactor`] knows the secrets of this installation and the shapes of well-known tokens. Every sink (journal, log,
//! error, page) sends its text through one; a [`StreamRedactor`] does the same for text that arrives in pieces. It is the
//! last net, not the first: secrets are kept away from whatever could print them to begin with.

mod encoding;
mod json;
mod redactor;
mod shape;
mod stream;

pub use redactor::{Error, MARK, Redactor};
pub use secrecy::{ExposeSecret, SecretString};
pub use stream::StreamRedactor;
