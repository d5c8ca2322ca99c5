//! Files that never change: fetched once, by a task of their own that no slow reader can hold up, and read by any number
//! of clients while they grow. The last piece is held back until the whole has the digest that was announced.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use reqwest::{Method, Url};
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;

use super::cache::{Cache, Head, Key, Part};
use super::digest::Digest;
use super::upstream::{Problem, Upstream, Validators};
use crate::answer::{Body, BoxError, Cut, flushed};

const MAX_BYTES: u64 = 4 << 30;
const TOTAL: Duration = Duration::from_secs(30 * 60);
/// Downloads under way at a time, for all sessions.
const MAX_DOWNLOADS: usize = 64;
const PIECE: usize = 256 * 1024;

/// What makes a file trustworthy enough to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Proof {
    /// It must have this digest.
    Digest(Digest),
    /// Its address stands for its content, and clients verify it themselves (go.sum, apt's signed lists, commit hashes).
    Address,
}

impl Proof {
    fn text(&self) -> Option<String> {
        match self {
            Self::Digest(digest) => Some(digest.text()),
            Self::Address => None,
        }
    }
}

/// A file to be sent: what is known of it, and its content as it comes.
pub(super) struct Sending {
    pub(super) content_type: Option<String>,
    pub(super) length: Option<u64>,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) struct Downloads {
    cache: Arc<Cache>,
    under_way: Arc<Mutex<HashMap<Key, watch::Receiver<Progress>>>>,
    slots: Arc<Semaphore>,
}

#[derive(Debug, Clone)]
struct Progress {
    /// So much of the file may be passed on.
    readable: u64,
    phase: Phase,
}

#[derive(Debug, Clone)]
enum Phase {
    Asking,
    Growing(Arc<Growing>),
    Complete(Arc<Growing>),
    Failed(Problem),
}

#[derive(Debug)]
struct Growing {
    file: Arc<File>,
    content_type: Option<String>,
    length: Option<u64>,
}

impl Downloads {
    pub(super) fn new(cache: Arc<Cache>) -> Self {
        Self { cache, under_way: Arc::default(), slots: Arc::new(Semaphore::new(MAX_DOWNLOADS)) }
    }

    /// From the cache, from a download under way, or from the registry.
    pub(super) async fn get(&self, upstream: &Arc<Upstream>, url: &Url, proof: &Proof) -> Result<Sending, Problem> {
        let digest = proof.text();
        let key = Key::new(&["file", upstream.base(), url.as_str(), digest.as_deref().unwrap_or_default()]);
        if let Some(cached) = self.cached(&key, digest).await {
            return Ok(cached);
        }
        let progress = self.join_or_start(&key, upstream, url, proof);
        sending(progress).await
    }

    /// What is known of a file without fetching it.
    pub(super) async fn head(&self, upstream: &Upstream, url: &Url, proof: &Proof) -> Result<Sending, Problem> {
        let digest = proof.text();
        let key = Key::new(&["file", upstream.base(), url.as_str(), digest.as_deref().unwrap_or_default()]);
        if let Some(cached) = self.cached(&key, digest).await {
            return Ok(cached);
        }
        let answer = upstream.ask(Method::HEAD, url, None, &Validators::default()).await?;
        if !answer.status().is_success() {
            return Err(Problem::Status(answer.status()));
        }
        Ok(Sending { content_type: header(&answer, "content-type"), length: None, body: crate::answer::full("") })
    }

    async fn cached(&self, key: &Key, digest: Option<String>) -> Option<Sending> {
        let (cache, key) = (Arc::clone(&self.cache), key.clone());
        let (head, file) = spawn_blocking(move || cache.open(&key)).await.ok().flatten()?;
        // The key says so already; a name that was given to another content must not pass for it.
        if head.digest != digest {
            return None;
        }
        let file = Growing { file: Arc::new(file), content_type: head.content_type, length: Some(head.size) };
        let done = Progress { readable: head.size, phase: Phase::Complete(Arc::new(file)) };
        sending(watch::channel(done).1).await.ok()
    }

    fn join_or_start(
        &self,
        key: &Key,
        upstream: &Arc<Upstream>,
        url: &Url,
        proof: &Proof,
    ) -> watch::Receiver<Progress> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(progress) = under_way.get(key) {
            return progress.clone();
        }
        let (tell, progress) = watch::channel(Progress { readable: 0, phase: Phase::Asking });
        under_way.insert(key.clone(), progress.clone());
        let download = Download {
            cache: Arc::clone(&self.cache),
            upstream: Arc::clone(upstream),
            url: url.clone(),
            proof: proof.clone(),
            key: key.clone(),
        };
        let (slots, over) =
            (Arc::clone(&self.slots), Over { under_way: Arc::clone(&self.under_way), key: key.clone() });
        tokio::spawn(async move {
            let slot = slots.acquire().await;
            let done = tokio::time::timeout(TOTAL, download.run(&tell)).await.unwrap_or(Err(Problem::Cut));
            // Whoever comes now finds the file in the cache, or tries again.
            drop((over, slot));
            if let Err(problem) = done {
                if problem == Problem::WrongDigest {
                    tracing::warn!(url = %download.url, "a file did not match the digest of its registry; it is not cached");
                }
                tell.send_modify(|progress| progress.phase = Phase::Failed(problem));
            }
        });
        progress
    }
}

/// Takes a download off the list however it ends.
struct Over {
    under_way: Arc<Mutex<HashMap<Key, watch::Receiver<Progress>>>>,
    key: Key,
}

impl Drop for Over {
    fn drop(&mut self) {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

struct Download {
    cache: Arc<Cache>,
    upstream: Arc<Upstream>,
    url: Url,
    proof: Proof,
    key: Key,
}

impl Download {
    async fn run(&self, tell: &watch::Sender<Progress>) -> Result<(), Problem> {
        let answer = self.upstream.ask(Method::GET, &self.url, None, &Validators::default()).await?;
        if answer.status().as_u16() != 200 {
            return Err(Problem::Status(answer.status()));
        }
        let length = answer.content_length();
        if length.is_some_and(|length| length > MAX_BYTES) {
            return Err(Problem::TooLarge);
        }
        let content_type = header(&answer, "content-type");
        let cache = Arc::clone(&self.cache);
        let mut part = blocking(move || cache.part()).await?;
        let file = Arc::new(Growing { file: Arc::clone(part.file()), content_type: content_type.clone(), length });
        tell.send_modify(|progress| progress.phase = Phase::Growing(Arc::clone(&file)));
        let mut hasher = match &self.proof {
            Proof::Digest(digest) => Some(digest.hasher()),
            Proof::Address => None,
        };
        let mut pieces = answer.bytes_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| Problem::Cut)?;
            if part.written() + piece.len() as u64 > MAX_BYTES {
                return Err(Problem::TooLarge);
            }
            // All but the newest piece: the last one waits for the verdict.
            let before = part.written();
            (part, hasher) = blocking(move || {
                if let Some(hasher) = &mut hasher {
                    hasher.update(&piece);
                }
                part.write(&piece).map(|()| (part, hasher))
            })
            .await?;
            tell.send_modify(|progress| progress.readable = before);
        }
        if length.is_some_and(|length| length != part.written()) {
            return Err(Problem::Cut);
        }
        if let (Proof::Digest(expected), Some(hasher)) = (&self.proof, hasher)
            && hasher.finish() != *expected
        {
            return Err(Problem::WrongDigest);
        }
        let size = part.written();
        self.keep(part, content_type).await;
        tell.send_modify(|progress| *progress = Progress { readable: size, phase: Phase::Complete(file) });
        Ok(())
    }

    /// A full disk is no reason to fail whoever waits for the file.
    async fn keep(&self, part: Part, content_type: Option<String>) {
        let head = Head {
            url: self.url.to_string(),
            size: part.written(),
            content_type,
            etag: None,
            last_modified: None,
            checked_at: self.cache.now(),
            digest: self.proof.text(),
        };
        let (cache, key) = (Arc::clone(&self.cache), self.key.clone());
        let kept = spawn_blocking(move || cache.keep(part, &key, &head)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(%error, "a file could not be kept in the registry cache");
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> Result<T, Problem> {
    match spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the registry cache cannot be written");
            Err(Problem::Cache)
        }
        Err(_) => Err(Problem::Cache),
    }
}

/// Waits until there is something to send or the verdict is known, so that a short file that is wrong gets a clear answer.
async fn sending(mut progress: watch::Receiver<Progress>) -> Result<Sending, Problem> {
    let begun =
        |progress: &Progress| progress.readable > 0 || matches!(progress.phase, Phase::Complete(_) | Phase::Failed(_));
    let known = progress.wait_for(begun).await;
    let phase = known.map_err(|_| Problem::Cut)?.phase.clone();
    let file = match phase {
        Phase::Growing(file) | Phase::Complete(file) => file,
        Phase::Failed(problem) => return Err(problem),
        Phase::Asking => return Err(Problem::Cut),
    };
    let (content_type, length) = (file.content_type.clone(), file.length);
    let pieces = futures_util::stream::unfold(Some((progress, file, 0)), |state| async move {
        let (progress, file, at) = state?;
        next_piece(progress, file, at).await
    });
    Ok(Sending { content_type, length, body: StreamBody::new(pieces).boxed_unsync() })
}

type Reading = (watch::Receiver<Progress>, Arc<Growing>, u64);

async fn next_piece(
    mut progress: watch::Receiver<Progress>,
    file: Arc<Growing>,
    at: u64,
) -> Option<(Result<Frame<Bytes>, BoxError>, Option<Reading>)> {
    let moved = |progress: &Progress| progress.readable > at || !matches!(progress.phase, Phase::Growing(_));
    let now = progress.wait_for(moved).await.ok().map(|now| (now.readable, now.phase.clone()));
    let readable = match now {
        Some((readable, Phase::Growing(_) | Phase::Complete(_))) if readable > at => readable,
        Some((_, Phase::Complete(_))) => return None,
        _ => {
            flushed().await;
            return Some((Err(Cut.into()), None));
        }
    };
    let length = usize::try_from(readable - at).unwrap_or(PIECE).min(PIECE);
    let from = Arc::clone(&file);
    let read = spawn_blocking(move || {
        let mut piece = vec![0; length];
        from.file.read_exact_at(&mut piece, at).map(|()| Bytes::from(piece))
    });
    match read.await {
        Ok(Ok(piece)) => Some((Ok(Frame::data(piece)), Some((progress, file, at + length as u64)))),
        _ => Some((Err(Cut.into()), None)),
    }
}

pub(super) fn header(answer: &reqwest::Response, name: &str) -> Option<String> {
    answer.headers().get(name)?.to_str().ok().map(str::to_owned)
}
