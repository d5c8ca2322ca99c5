//! Finds secrets in text and puts a mark in their place.
//!
//! What is redacted is the union of everything that matches: where a secret overlaps another one, or a token's shape, both
//! are covered and one mark stands for them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, Input, MatchKind};
use secrecy::{ExposeSecret, SecretString};

use crate::encoding;
use crate::shape::{Alphabet, Shapes};

/// What stands where a secret was.
pub const MARK: &str = "[redacted]";

#[derive(Debug, thiserror::Error)]
#[error("the secrets to redact are too large to search for: {0}")]
pub struct Error(#[from] BuildError);

/// Cheap to clone; holds the secrets in clear for as long as it lives. Secrets can be added at any time, and all clones know
/// them from then on.
#[derive(Clone)]
pub struct Redactor(Arc<Shared>);

struct Shared {
    known: RwLock<Arc<Known>>,
    /// Held while searching for more secrets is prepared, so that of two that learn at the same time neither is forgotten.
    learning: Mutex<()>,
}

/// What is looked for, as it was at one moment.
pub(crate) struct Known {
    secrets: AhoCorasick,
    /// The forms that count in names, see [`looks_random`].
    in_names: AhoCorasick,
    /// All forms, sorted, to ask what a piece of text could still become.
    forms: Vec<String>,
    longest: usize,
    shapes: Shapes,
}

/// A place to redact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Set when more characters of this alphabet would belong to it too.
    pub(crate) goes_on: Option<Alphabet>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("forms", &self.known().forms.len()).finish_non_exhaustive()
    }
}

impl Redactor {
    /// Secrets of fewer than eight bytes are not looked for: they would redact ordinary words.
    pub fn new(secrets: impl IntoIterator<Item = SecretString>) -> Result<Self, Error> {
        let forms = secrets.into_iter().flat_map(|secret| encoding::forms(secret.expose_secret())).collect();
        let known = RwLock::new(Arc::new(Known::new(forms)?));
        Ok(Self(Arc::new(Shared { known, learning: Mutex::new(()) })))
    }

    /// The one redactor of this process. Whatever writes something down uses it, from the first log line on, and it learns every
    /// secret that the process opens.
    pub fn of_process() -> Result<Self, Error> {
        static OF_PROCESS: OnceLock<Redactor> = OnceLock::new();
        match OF_PROCESS.get() {
            Some(known) => Ok(known.clone()),
            None => {
                let new = Self::new([])?;
                Ok(OF_PROCESS.get_or_init(|| new).clone())
            }
        }
    }

    /// Whether something in `text` would be redacted.
    pub fn finds(&self, text: &str) -> bool {
        matches!(self.redact(text), Cow::Owned(_))
    }

    /// Whether a name holds a key: something of the shape of one, or a secret that looks random. Of other secrets a name may hold
    /// any, or somebody who keeps a word as a secret would take that word away from everyone.
    pub fn finds_in_name(&self, name: &str) -> bool {
        let known = self.known();
        known.in_names.is_match(name) || known.shapes.find(name.as_bytes(), 0).is_some()
    }

    /// From when this returns, the secrets are redacted like all others. It takes a moment; others redact meanwhile.
    pub fn learn<'a>(&self, secrets: impl IntoIterator<Item = &'a SecretString>) -> Result<(), Error> {
        let more: Vec<String> =
            secrets.into_iter().flat_map(|secret| encoding::forms(secret.expose_secret())).collect();
        let is_known = |known: &Known| more.iter().all(|form| known.forms.binary_search(form).is_ok());
        if is_known(&self.known()) {
            return Ok(());
        }
        let _learning = self.0.learning.lock().unwrap_or_else(PoisonError::into_inner);
        let forms = self.known().forms.iter().cloned().chain(more).collect();
        let new = Arc::new(Known::new(forms)?);
        *self.0.known.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// What is known now, for as long as several questions have to be answered alike.
    pub(crate) fn known(&self) -> Arc<Known> {
        Arc::clone(&self.0.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The end of `text`, of `most` bytes, with a [`MARK`] for every secret, also for one that begins before it. Half a secret is
    /// not recognised, so a text is redacted before it is cut.
    pub fn redact_tail(&self, text: &str, most: usize) -> String {
        let mut at = text.ceil_char_boundary(text.len().saturating_sub(most));
        let mut clean = String::new();
        for span in self.known().spans(text, 0, text.len()) {
            if span.end <= at {
                continue;
            }
            clean.push_str(text.get(at..span.start).unwrap_or_default());
            clean.push_str(MARK);
            at = span.end;
        }
        clean.push_str(&text[at..]);
        clean
    }

    /// How many bytes before a cut have to be known, so that no secret is taken apart by it.
    pub fn reach(&self) -> usize {
        self.known().longest.max(LONGEST_TOKEN)
    }

    /// `text` with a [`MARK`] for every secret; borrowed when there was none.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.known().redact(text)
    }
}

impl Known {
    fn new(forms: BTreeSet<String>) -> Result<Self, Error> {
        let forms: Vec<String> = forms.into_iter().collect();
        // A table for every byte would be faster still, but takes many megabytes for one key file.
        let mut builder = AhoCorasick::builder();
        builder.match_kind(MatchKind::LeftmostLongest).kind(Some(AhoCorasickKind::ContiguousNFA));
        let secrets = builder.build(&forms)?;
        let in_names = builder.build(forms.iter().filter(|form| looks_random(form)))?;
        let longest = forms.iter().map(String::len).max().unwrap_or_default();
        Ok(Self { secrets, in_names, forms, longest, shapes: Shapes::new()? })
    }

    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let spans = self.spans(text, 0, text.len());
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut clean = String::with_capacity(text.len());
        let mut at = 0;
        for span in spans {
            clean.push_str(&text[at..span.start]);
            clean.push_str(MARK);
            at = span.end;
        }
        clean.push_str(&text[at..]);
        Cow::Owned(clean)
    }

    /// The places to redact that start in `from..until`, in order, none overlapping another.
    pub(crate) fn spans(&self, text: &str, from: usize, until: usize) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut secret = self.secret(text, from);
        let mut token = self.token(text, from);
        loop {
            let next = match (secret, token) {
                (Some(a), Some(b)) if a.start <= b.start => a,
                (_, Some(b)) => b,
                (Some(a), None) => a,
                (None, None) => break,
            };
            if next.start >= until {
                break;
            }
            if Some(next) == secret {
                secret = self.secret(text, next.start + 1);
            } else {
                token = self.token(text, next.start + 1);
            }
            match spans.last_mut() {
                Some(last) if next.start < last.end => {
                    if next.end > last.end {
                        last.end = next.end;
                        last.goes_on = next.goes_on;
                    } else if next.end == last.end {
                        last.goes_on = last.goes_on.max(next.goes_on);
                    }
                }
                _ => spans.push(next),
            }
        }
        spans
    }

    /// The first place at `from` or later from which the rest of `text` may be the beginning of a secret.
    pub(crate) fn undecided(&self, text: &str, from: usize) -> usize {
        let reach = self.longest.max(SHAPE_REACH);
        let first = from.max(text.len().saturating_sub(reach));
        (first..text.len()).find(|&at| text.is_char_boundary(at) && self.may_begin(&text[at..])).unwrap_or(text.len())
    }

    fn may_begin(&self, tail: &str) -> bool {
        let next = self.forms.partition_point(|form| form.as_str() <= tail);
        self.forms.get(next).is_some_and(|form| form.starts_with(tail)) || self.shapes.may_begin(tail.as_bytes())
    }

    fn secret(&self, text: &str, from: usize) -> Option<Span> {
        let found = self.secrets.find(Input::new(text).range(from.min(text.len())..))?;
        Some(Span { start: found.start(), end: found.end(), goes_on: None })
    }

    fn token(&self, text: &str, from: usize) -> Option<Span> {
        let found = self.shapes.find(text.as_bytes(), from.min(text.len()))?;
        Some(Span { start: found.start, end: found.end, goes_on: Some(found.alphabet) })
    }
}

/// Whether a form of a secret is unlikely to be an ordinary name, path or address: it has at least 16 bytes, and at least half of
/// them stand in words that mix letters with digits or have 24 characters. `production`, `https://models.example.com/v1` and
/// `release-2026-11-18` do not look random.
pub fn looks_random(form: &str) -> bool {
    let is_random = |word: &&str| {
        word.len() >= RANDOM_WORD_BYTES
            || (word.contains(|c: char| c.is_ascii_alphabetic()) && word.contains(|c: char| c.is_ascii_digit()))
    };
    let words = form.split(|c: char| !c.is_ascii_alphanumeric());
    let random_bytes: usize = words.filter(is_random).map(str::len).sum();
    form.len() >= MIN_RANDOM_BYTES && 2 * random_bytes >= form.len()
}

/// Shorter secrets do not count in names.
const MIN_RANDOM_BYTES: usize = 16;
/// A word of so many characters looks random even if it has no digit.
const RANDOM_WORD_BYTES: usize = 24;
/// No token that is known by its shape is longer.
const LONGEST_TOKEN: usize = 4096;
/// No token needs more bytes than this to be known as one.
const SHAPE_REACH: usize = 64;
