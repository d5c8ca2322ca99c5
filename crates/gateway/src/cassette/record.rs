//! Writes a cassette while a run goes on: each exchange as a line once its answer has ended.
//!
//! Of headers only those on a short list are written, so that no credential can be among them; everything else passes
//! through the redactor of whoever records.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::Response;
use hyper::body::Frame;
use hyper::header::CONTENT_LENGTH;
use serde_json::Value;

use super::CassetteError;
use super::file::{Answer, Exchange, Heading};
use crate::answer::{Body, BoxError};
use crate::script::Asked;

/// What is kept of an answer's headers.
const KEPT: [&str; 4] = ["content-type", "retry-after", "retry-after-ms", "x-should-retry"];
/// A longer answer is recorded as one that was cut here.
const MAX_ANSWER: usize = 64 << 20;

/// Takes secrets out of a text.
pub type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// A cassette that is being written.
pub struct Recorder {
    path: PathBuf,
    file: Mutex<File>,
    redact: Redact,
    numbers: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Makes the file, readable by its owner alone, and writes the heading. Blocks on the file.
    pub fn create(path: &Path, heading: &Heading, redact: Redact) -> Result<Self, CassetteError> {
        let unwritable = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::AlreadyExists => CassetteError::Exists { path: path.to_owned() },
            _ => CassetteError::Unwritable { path: path.to_owned(), source },
        };
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path).map_err(unwritable)?;
        let recorder = Self {
            path: path.to_owned(),
            file: Mutex::new(file),
            redact,
            numbers: AtomicU64::new(0),
            failure: Mutex::default(),
        };
        let line = serde_json::to_string(heading).map_err(|error| unwritable(error.into()))?;
        recorder.append(&line).map_err(unwritable)?;
        Ok(recorder)
    }

    /// Why the cassette is not complete, if it is not.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The answer, unchanged, which is written down once it has ended.
    pub(crate) fn tape(self: &Arc<Self>, asked: Asked<'_>, method: &str, response: Response<Body>) -> Response<Body> {
        let query = asked.query.map(|query| format!("?{query}")).unwrap_or_default();
        let headers = KEPT.iter().filter_map(|name| {
            let value = response.headers().get(*name)?.to_str().ok()?;
            Some(((*name).to_owned(), value.to_owned()))
        });
        let taping = Taping {
            recorder: Arc::clone(self),
            method: method.to_owned(),
            path: format!("/{}/{}{query}", asked.vendor.id(), asked.path),
            request: Bytes::copy_from_slice(asked.body),
            n: self.numbers.fetch_add(1, Ordering::Relaxed) + 1,
            status: response.status().as_u16(),
            headers: headers.collect(),
            pieces: Vec::new(),
            length: 0,
            announced: response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok()),
            complete: false,
        };
        response.map(|body| {
            let source = body.into_data_stream();
            let frames = stream::unfold((source, taping), |(mut source, mut taping)| async move {
                let piece: Result<Bytes, BoxError> = match source.next().await {
                    Some(piece) => piece,
                    None => {
                        taping.end();
                        return None;
                    }
                };
                if let Ok(piece) = &piece {
                    taping.keep(piece);
                }
                Some((piece.map(Frame::data), (source, taping)))
            });
            BodyExt::boxed_unsync(StreamBody::new(frames))
        })
    }

    /// One write for a line, so that a killed process leaves whole lines. It is short and goes to the page cache, so it is
    /// made where the answer ended.
    fn append(&self, line: &str) -> std::io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(format!("{line}\n").as_bytes())
    }
}

/// An exchange whose answer is under way. Dropped, it is written down: complete, or cut at what has passed.
struct Taping {
    recorder: Arc<Recorder>,
    method: String,
    path: String,
    request: Bytes,
    n: u64,
    status: u16,
    headers: std::collections::BTreeMap<String, String>,
    pieces: Vec<Bytes>,
    length: usize,
    /// By `content-length`. Whoever knows it does not ask for an end after it.
    announced: Option<usize>,
    complete: bool,
}

impl Taping {
    fn end(&mut self) {
        self.complete = true;
    }

    fn keep(&mut self, piece: &Bytes) {
        self.length += piece.len();
        if self.length <= MAX_ANSWER {
            self.pieces.push(piece.clone());
        }
    }

    fn exchange(&mut self) -> Exchange {
        let redact = &self.recorder.redact;
        let request = String::from_utf8_lossy(&self.request);
        let request = match serde_json::from_str(&redact(&request)) {
            Ok(request) => request,
            Err(_) if self.request.is_empty() => Value::Null,
            Err(_) => Value::String(redact(&request)),
        };
        // A secret may lie across pieces: then there is one piece.
        let pieces = texts(&std::mem::take(&mut self.pieces));
        let whole = pieces.concat();
        let clean = redact(&whole);
        let pieces = if clean == whole { pieces } else { vec![clean] };
        let is_whole = self.complete || self.announced == Some(self.length);
        let cut = !is_whole || self.length > MAX_ANSWER;
        let answer = Answer { status: self.status, headers: std::mem::take(&mut self.headers), pieces, cut };
        let (method, path) = (std::mem::take(&mut self.method), redact(&self.path));
        Exchange { n: self.n, method, path, request, answer }
    }
}

impl Drop for Taping {
    fn drop(&mut self) {
        let exchange = self.exchange();
        let written = serde_json::to_string(&exchange).map_err(std::io::Error::from);
        if let Err(error) = written.and_then(|line| self.recorder.append(&line)) {
            tracing::error!(path = %self.recorder.path.display(), %error, "the cassette is not complete");
            let mut failure = self.recorder.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(format!("{}: {error}", self.recorder.path.display()));
        }
    }
}

/// The pieces as texts; a character that lies across two goes to the later one.
fn texts(pieces: &[Bytes]) -> Vec<String> {
    let mut texts = Vec::with_capacity(pieces.len());
    let mut rest: Vec<u8> = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        rest.extend_from_slice(piece);
        let is_last = number + 1 == pieces.len();
        let whole = match std::str::from_utf8(&rest) {
            Err(error) if error.error_len().is_none() && !is_last => error.valid_up_to(),
            _ => rest.len(),
        };
        let text: Vec<u8> = rest.drain(..whole).collect();
        if !text.is_empty() {
            texts.push(String::from_utf8_lossy(&text).into_owned());
        }
    }
    texts
}
