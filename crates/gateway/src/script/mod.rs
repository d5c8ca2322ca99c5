//! The scripted model: a file that says what a model would answer, played to any client in its own wire format.
//!
//! `format` is the file, `conversation` decides what a request gets, `tools` fits calls to the tools that the client
//! offers, `wire` has one module per wire format, and `player` puts them together and keeps the little state there is.

mod conversation;
mod duration;
mod error;
mod format;
mod player;
mod tools;
mod wire;

use std::io::Read;
use std::path::Path;

pub use error::ScriptError;
pub(crate) use player::{Asked, Player};
pub(crate) use wire::opening_of;

const MAX_FILE_BYTES: u64 = 8 << 20;

/// A model script. The format is described in `docs/model-script.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    file: format::File,
}

impl Script {
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        format::File::parse(text).map(|file| Self { file })
    }

    /// Reads a script from a file. Blocks on the file.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let unreadable = |source| ScriptError::Unreadable { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            let reason = format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20);
            return Err(ScriptError::Invalid { line: None, field: None, reason });
        }
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count() as u64;
            ScriptError::Invalid { line: Some(line), field: None, reason: "it is not UTF-8 text".to_owned() }
        })?;
        Self::parse(text)
    }

    pub(crate) fn price(&self) -> harvest_core::Price {
        self.file.price
    }

    /// The name that the model goes by.
    pub fn model(&self) -> &str {
        &self.file.model
    }
}
