//! Keeps a credential from coming back. A host that repeats a request's headers in its answer would show the key to the agent,
//! so every answer is searched for the credential that it was asked with.
//!
//! What is found is overwritten with a mark of the same length, so that the lengths an answer tells stay true. Of a stream only
//! bytes are held back that may be the beginning of the credential.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt, stream};
use harvest_vault::in_json;
use hyper::header::{HeaderMap, HeaderValue};
use regex::bytes::Regex;

use crate::answer::BoxError;

/// Shorter ones would overwrite ordinary words.
const SHORTEST: usize = 8;
const MARK: &[u8] = b"[redacted]";

/// The forms of one credential; cheap to clone. Printing it shows none of them.
#[derive(Clone)]
pub struct Echo(Arc<Forms>);

struct Forms {
    texts: Vec<Vec<u8>>,
    /// The first bytes of the texts.
    firsts: BTreeSet<u8>,
    any: Regex,
}

impl std::fmt::Debug for Echo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Echo").finish_non_exhaustive()
    }
}

impl Echo {
    /// `None` for one that is too short to be told from other text.
    pub fn of(secret: &str) -> Option<Self> {
        if secret.len() < SHORTEST {
            return None;
        }
        let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        let mut texts = vec![secret.to_owned(), hex.to_uppercase(), hex];
        texts.extend(in_json(secret));
        for digits in [Digits::Lower, Digits::Upper] {
            texts.push(percent_encoded(secret, digits));
        }
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            // Whatever stands before it, the secret begins at one of three places of a group; the letters that also depend on
            // what stands around it are left out.
            for before in 0..3usize {
                let padded = [&[0; 2][..before.min(2)], secret.as_bytes()].concat();
                let encoded = engine.encode(&padded);
                let from = if before == 0 { 0 } else { before + 1 };
                let until = padded.len() / 3 * 4;
                if let Some(settled) = encoded.get(from..until) {
                    // PHP escapes the slashes of base64 in JSON.
                    texts.extend([settled.to_owned(), settled.replace('/', "\\/")]);
                }
            }
        }
        texts.retain(|text| text.len() >= SHORTEST);
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        texts.dedup();
        let pattern: Vec<String> = texts.iter().map(|text| regex::escape(text)).collect();
        let any = Regex::new(&pattern.join("|")).ok()?;
        let texts: Vec<Vec<u8>> = texts.into_iter().map(String::into_bytes).collect();
        let firsts = texts.iter().filter_map(|text| text.first().copied()).collect();
        Some(Self(Arc::new(Forms { texts, firsts, any })))
    }

    /// The text with a mark in place of the credential.
    pub fn without(&self, text: Bytes) -> Bytes {
        // Most pieces lack even the first letter of every form, which is found out much faster.
        let may_hold = self.0.firsts.iter().any(|first| text.contains(first));
        if !may_hold || !self.0.any.is_match(&text) {
            return text;
        }
        let mut clean = BytesMut::from(text.as_ref());
        for found in self.0.any.find_iter(&text) {
            if let Some(place) = clean.get_mut(found.range()) {
                let mark = MARK.iter().copied().chain(std::iter::repeat(b'*'));
                place.iter_mut().zip(mark).for_each(|(byte, mark)| *byte = mark);
            }
        }
        clean.freeze()
    }

    pub(crate) fn clean_headers(&self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            if self.0.any.is_match(value.as_bytes()) {
                let clean = self.without(Bytes::copy_from_slice(value.as_bytes()));
                *value = HeaderValue::from_bytes(&clean).unwrap_or(HeaderValue::from_static("[redacted]"));
            }
        }
    }

    pub(crate) fn filter(&self) -> Filter {
        Filter { echo: self.clone(), held: Bytes::new() }
    }

    /// How many bytes at the end of a text may be the beginning of the credential.
    fn undecided(&self, text: &[u8]) -> usize {
        let longest = self.0.texts.first().map_or(0, Vec::len).saturating_sub(1).min(text.len());
        let begins = |tail: &[u8]| self.0.texts.iter().any(|form| form.len() > tail.len() && form.starts_with(tail));
        (1..=longest).rev().find(|length| text.get(text.len() - length..).is_some_and(begins)).unwrap_or(0)
    }
}

#[derive(Clone, Copy)]
enum Digits {
    Lower,
    Upper,
}

fn percent_encoded(text: &str, digits: Digits) -> String {
    let encode = |byte: u8| match (byte, digits) {
        (b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~', _) => char::from(byte).to_string(),
        (byte, Digits::Lower) => format!("%{byte:02x}"),
        (byte, Digits::Upper) => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// Cleans an answer that comes in pieces.
#[derive(Debug)]
pub(crate) struct Filter {
    echo: Echo,
    held: Bytes,
}

impl Filter {
    /// Takes the next piece and returns what is certain by now.
    pub(crate) fn push(&mut self, piece: Bytes) -> Bytes {
        let text = if self.held.is_empty() {
            piece
        } else {
            let mut joined = BytesMut::with_capacity(self.held.len() + piece.len());
            joined.extend_from_slice(&self.held);
            joined.extend_from_slice(&piece);
            joined.freeze()
        };
        let mut clean = self.echo.without(text);
        self.held = clean.split_off(clean.len() - self.echo.undecided(&clean));
        clean
    }

    /// What was still held back.
    pub(crate) fn finish(&mut self) -> Bytes {
        std::mem::take(&mut self.held)
    }
}

/// A body without the credential it was asked for with.
pub(crate) fn clean(
    source: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
    echo: Option<Echo>,
) -> stream::BoxStream<'static, Result<Bytes, BoxError>> {
    let Some(echo) = echo else { return source.boxed() };
    let state = (source.boxed(), Some(echo.filter()));
    stream::unfold(state, |(mut source, filter)| async move {
        let mut filter = filter?;
        loop {
            match source.next().await {
                Some(Ok(piece)) => {
                    let clean = filter.push(piece);
                    if !clean.is_empty() {
                        return Some((Ok(clean), (source, Some(filter))));
                    }
                }
                Some(Err(error)) => return Some((Err(error), (source, None))),
                None => {
                    let rest = filter.finish();
                    return (!rest.is_empty()).then(|| (Ok(rest), (source, None)));
                }
            }
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &str = "sk-canary-0123456789/wx+z==";

    fn in_pieces(text: &str, cuts: &[usize]) -> String {
        let mut filter = Echo::of(KEY).unwrap().filter();
        let (mut out, mut from) = (Vec::new(), 0);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
        cuts.sort_unstable();
        for cut in cuts.into_iter().chain([text.len()]) {
            out.extend_from_slice(&filter.push(Bytes::copy_from_slice(&text.as_bytes()[from..cut])));
            from = cut;
        }
        out.extend_from_slice(&filter.finish());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_form_is_overwritten_and_the_length_stays() {
        let base64 = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
        let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
        for text in [
            format!("x {KEY} y {KEY}"),
            hex.to_uppercase(),
            hex,
            base64(KEY.to_owned()),
            base64(format!("a{KEY}")),
            base64(format!("ab{KEY}zz")),
            KEY.replace('/', "%2F").replace('+', "%2B").replace('=', "%3D"),
            KEY.replace('/', "%2f").replace('+', "%2b").replace('=', "%3d"),
            // As PHP, Gson and .NET write it into JSON.
            KEY.replace('/', "\\/"),
            KEY.replace('=', "\\u003d"),
            KEY.replace('+', "\\u002B"),
            // And into JSON in a string of JSON.
            KEY.replace('=', "\\\\u003d"),
            KEY.replace('/', r"\\\/"),
        ] {
            let clean = Echo::of(KEY).unwrap().without(Bytes::from(text.clone()));
            let clean = String::from_utf8(clean.to_vec()).unwrap();
            assert!(clean.contains("[redacted]") && clean.len() == text.len(), "{text}: {clean}");
        }
        assert!(Echo::of("short").is_none());
        assert!(!format!("{:?}", Echo::of(KEY)).contains("canary"));
    }

    #[test]
    fn base64_with_escaped_slashes_is_overwritten() {
        let key = "canary???canary???canary";
        let text = base64::engine::general_purpose::STANDARD.encode(key).replace('/', "\\/");
        let clean = Echo::of(key).unwrap().without(Bytes::from(text.clone()));
        assert!(text.contains("\\/") && clean.starts_with(b"[redacted]") && clean.len() == text.len(), "{clean:?}");
    }

    #[test]
    fn only_what_may_be_the_beginning_waits() {
        let mut filter = Echo::of(KEY).unwrap().filter();
        assert_eq!(filter.push(Bytes::from_static(b"data: hello\n\n")), "data: hello\n\n");
        assert_eq!(filter.push(Bytes::from_static(b"key sk-can")), "key ");
        assert_eq!(filter.push(Bytes::from_static(b"ned fish ")), "sk-canned fish ");
    }

    proptest! {
        #[test]
        fn however_it_is_cut_no_key_passes(before in ".{0,40}", after in ".{0,40}", cuts in prop::collection::vec(0usize..200, 0..6)) {
            let text = format!("{before}{KEY}{after}");
            let clean = in_pieces(&text, &cuts);
            prop_assert!(!clean.contains(KEY));
            prop_assert_eq!(clean.len(), text.len());
            let other = format!("{before}{after}");
            prop_assert_eq!(in_pieces(&other, &cuts), other);
        }
    }
}
