//! Cassettes: the model calls of a run in a file, to run it again without a model.
//!
//! `file` is the format, `record` writes it while a run goes on, `replay` answers from it, `normal` takes out of requests
//! what differs from run to run, and `differ` says where two requests part. The format is described in
//! `docs/cassettes.md`.

mod differ;
mod file;
mod normal;
mod record;
mod replay;

use std::path::PathBuf;
use std::sync::Arc;

use hyper::{Method, Response};

use crate::answer::Body;
use crate::model::KeptBack;
use crate::script::Asked;

pub use file::{Heading, Scripted};
pub use record::{Recorder, Redact};
pub use replay::Replay;

/// What a gateway does with a cassette.
#[derive(Debug, Clone)]
pub enum Cassette {
    Record(Arc<Recorder>),
    /// Answers every model request in place of the upstreams.
    Replay(Arc<Replay>),
}

impl Cassette {
    pub(crate) fn replay(&self) -> Option<&Replay> {
        match self {
            Self::Replay(replay) => Some(replay),
            Self::Record(_) => None,
        }
    }

    /// The answer to a request, to be written down as it passes; what was kept back reached no model, and is not.
    pub(crate) fn tape(&self, asked: Asked<'_>, method: &Method, answer: Response<Body>) -> Response<Body> {
        match self {
            Self::Record(recorder) if answer.extensions().get::<KeptBack>().is_none() => {
                recorder.tape(asked, method.as_str(), answer)
            }
            _ => answer,
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    #[error("the cassette {} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("the cassette {} cannot be written: {source}", path.display())]
    Unwritable { path: PathBuf, source: std::io::Error },
    #[error("the file {} already exists; cassettes are never overwritten", path.display())]
    Exists { path: PathBuf },
    /// `line` counts from 1.
    #[error("the cassette {} is not valid, line {line}: {reason}", path.display())]
    Invalid { path: PathBuf, line: usize, reason: String },
}
