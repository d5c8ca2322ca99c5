//! Metadata: what changes now and then. Fresh for a short while, then asked about again; when the registry cannot be
//! reached, what was last known is served, so that a build works without it.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use reqwest::{Method, Url};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::spawn_blocking;

use super::artefact::header;
use super::cache::{Cache, Head, Key};
use super::upstream::{Problem, Upstream, Validators};

const FRESH: Duration = Duration::from_secs(60);
const MAX_BYTES: usize = 64 << 20;
const TOTAL: Duration = Duration::from_secs(120);
/// Documents fetched at a time, for all sessions; each may be in memory.
const MAX_FETCHES: usize = 16;
/// Requests for the same document wait for each other; so do a few others, by chance.
const LOCKS: usize = 512;

#[derive(Debug)]
pub(super) struct Documents {
    cache: Arc<Cache>,
    locks: Vec<Mutex<()>>,
    slots: Semaphore,
}

#[derive(Debug, Clone)]
pub(super) struct Document {
    pub(super) url: Url,
    pub(super) content: Bytes,
    pub(super) content_type: Option<String>,
    /// The registry could not be asked whether it is still so.
    pub(super) stale: bool,
}

/// How old a document may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    Fresh,
    /// For what does not change once it is there, such as the digest of a version.
    Any,
}

impl Documents {
    pub(super) fn new(cache: Arc<Cache>) -> Self {
        let locks = (0..LOCKS).map(|_| Mutex::new(())).collect();
        Self { cache, locks, slots: Semaphore::new(MAX_FETCHES) }
    }

    pub(super) async fn get(
        &self,
        upstream: &Upstream,
        url: &Url,
        accept: Option<&str>,
        age: Age,
    ) -> Result<Document, Problem> {
        let key = Key::new(&["document", upstream.base(), url.as_str(), accept.unwrap_or_default()]);
        let _alone = self.locks[key.slot(LOCKS)].lock().await;
        let known = self.known(&key).await;
        let document = |head: &Head, content: &Bytes, stale| Document {
            url: url.clone(),
            content: content.clone(),
            content_type: head.content_type.clone(),
            stale,
        };
        if let Some((head, content)) = &known {
            let passed = self.cache.now().saturating_sub(head.checked_at);
            let fresh = (0..i64::try_from(FRESH.as_millis()).unwrap_or(0)).contains(&passed);
            if fresh || age == Age::Any {
                return Ok(document(head, content, false));
            }
        }
        let validators = known.as_ref().map_or_else(Validators::default, |(head, _)| Validators {
            etag: head.etag.clone(),
            last_modified: head.last_modified.clone(),
        });
        let asked = self.fetch(upstream, url, accept, &validators);
        let asked = tokio::time::timeout(TOTAL, asked).await.unwrap_or(Err(Problem::Cut));
        match (asked, known) {
            (Ok(Fetched::Changed(head, content)), _) => {
                self.keep(&key, &head, &content).await;
                Ok(document(&head, &content, false))
            }
            (Ok(Fetched::Unchanged), Some((head, content))) => {
                let head = Head { checked_at: self.cache.now(), ..head };
                self.keep(&key, &head, &content).await;
                Ok(document(&head, &content, false))
            }
            (Ok(Fetched::Unchanged), None) => Err(Problem::Malformed),
            (Err(problem), Some((head, content))) if is_passing(&problem) => Ok(document(&head, &content, true)),
            (Err(problem), known) => {
                if known.is_some() && matches!(problem, Problem::Status(_)) {
                    self.cache.forget(&key);
                }
                Err(problem)
            }
        }
    }

    async fn known(&self, key: &Key) -> Option<(Head, Bytes)> {
        let (cache, key) = (Arc::clone(&self.cache), key.clone());
        let found = spawn_blocking(move || cache.document(&key)).await.ok().flatten()?;
        Some((found.0, found.1.into()))
    }

    async fn keep(&self, key: &Key, head: &Head, content: &Bytes) {
        let (cache, key, head, content) = (Arc::clone(&self.cache), key.clone(), head.clone(), content.clone());
        let kept = spawn_blocking(move || cache.keep_document(&key, &head, &content)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(%error, "a document could not be kept in the registry cache");
        }
    }

    async fn fetch(
        &self,
        upstream: &Upstream,
        url: &Url,
        accept: Option<&str>,
        known: &Validators,
    ) -> Result<Fetched, Problem> {
        let _slot = self.slots.acquire().await.map_err(|_| Problem::Cut)?;
        let answer = upstream.ask(Method::GET, url, accept, known).await?;
        match answer.status().as_u16() {
            200 => {}
            304 => return Ok(Fetched::Unchanged),
            _ => return Err(Problem::Status(answer.status())),
        }
        let [content_type, etag, last_modified] =
            ["content-type", "etag", "last-modified"].map(|name| header(&answer, name));
        let mut content = BytesMut::new();
        let mut pieces = answer.bytes_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| Problem::Cut)?;
            if content.len() + piece.len() > MAX_BYTES {
                return Err(Problem::TooLarge);
            }
            content.extend_from_slice(&piece);
        }
        let head = Head {
            url: url.to_string(),
            size: content.len() as u64,
            content_type,
            etag,
            last_modified,
            checked_at: self.cache.now(),
            digest: None,
        };
        Ok(Fetched::Changed(head, content.freeze()))
    }
}

enum Fetched {
    Changed(Head, Bytes),
    Unchanged,
}

/// Whether the registry is in trouble, rather than saying that there is no such thing.
fn is_passing(problem: &Problem) -> bool {
    match problem {
        Problem::Status(status) => status.is_server_error() || matches!(status.as_u16(), 408 | 429),
        Problem::Unreachable { .. } | Problem::Paused { .. } | Problem::Cut => true,
        _ => false,
    }
}
