//! Tokens that give themselves away by their shape: a vendor's prefix and a long run of token characters.

use aho_corasick::{AhoCorasick, BuildError, MatchKind};

/// The characters a token is made of after its prefix, each kind including the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alphabet {
    UpperAlphanumeric,
    Alphanumeric,
    /// Letters, digits, `-` and `_`.
    Word,
}

#[derive(Debug)]
struct Shape {
    prefix: &'static str,
    alphabet: Alphabet,
    /// How many characters must follow the prefix.
    min: usize,
    /// Whether the prefix counts only where a word begins: `task-…` holds no `sk-…`.
    at_word: bool,
}

const fn shape(prefix: &'static str, alphabet: Alphabet, min: usize) -> Shape {
    Shape { prefix, alphabet, min, at_word: false }
}

/// Where two prefixes begin at the same place, the longer one counts.
const SHAPES: &[Shape] = &[
    shape("sk-ant-", Alphabet::Word, 20),
    shape("sk-proj-", Alphabet::Word, 20),
    shape("sk-svcacct-", Alphabet::Word, 20),
    shape("sk-admin-", Alphabet::Word, 20),
    shape("sk-or-v1-", Alphabet::Word, 20),
    Shape { prefix: "sk-", alphabet: Alphabet::Alphanumeric, min: 32, at_word: true },
    shape("ghp_", Alphabet::Alphanumeric, 30),
    shape("gho_", Alphabet::Alphanumeric, 30),
    shape("ghu_", Alphabet::Alphanumeric, 30),
    shape("ghs_", Alphabet::Word, 30),
    shape("ghr_", Alphabet::Alphanumeric, 30),
    shape("github_pat_", Alphabet::Word, 30),
    shape("xoxa-", Alphabet::Word, 10),
    shape("xoxb-", Alphabet::Word, 10),
    shape("xoxe-", Alphabet::Word, 10),
    shape("xoxp-", Alphabet::Word, 10),
    shape("xoxr-", Alphabet::Word, 10),
    shape("xoxs-", Alphabet::Word, 10),
    shape("xapp-", Alphabet::Word, 10),
    // Tokens of this server.
    shape("hv_", Alphabet::Alphanumeric, 40),
    shape("glpat-", Alphabet::Word, 20),
    shape("npm_", Alphabet::Alphanumeric, 36),
    shape("pypi-AgEI", Alphabet::Word, 40),
    shape("hf_", Alphabet::Alphanumeric, 30),
    shape("lin_api_", Alphabet::Alphanumeric, 30),
    shape("sk_live_", Alphabet::Alphanumeric, 20),
    shape("rk_live_", Alphabet::Alphanumeric, 20),
    shape("AKIA", Alphabet::UpperAlphanumeric, 16),
    shape("ASIA", Alphabet::UpperAlphanumeric, 16),
    shape("AIza", Alphabet::Word, 30),
    // Google's access tokens, Groq's and xAI's keys.
    shape("ya29.", Alphabet::Word, 30),
    shape("gsk_", Alphabet::Alphanumeric, 40),
    shape("xai-", Alphabet::Alphanumeric, 40),
    Shape { prefix: "AQ.", alphabet: Alphabet::Word, min: 30, at_word: true },
];

/// The beginnings of the tokens that are known by their shape.
pub fn token_prefixes() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().map(|shape| shape.prefix)
}

/// How many bytes before a prefix decide whether a word begins there.
pub(crate) const CONTEXT_BYTES: usize = 2;

#[derive(Debug)]
pub(crate) struct Shapes {
    prefixes: AhoCorasick,
}

/// Where a token stands, and what it would go on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) alphabet: Alphabet,
}

impl Alphabet {
    /// The length of the run of token characters at the beginning of `text`.
    pub(crate) fn run(self, text: &[u8]) -> usize {
        text.iter().take_while(|byte| self.has(**byte)).count()
    }

    fn has(self, byte: u8) -> bool {
        match self {
            Self::Alphanumeric => byte.is_ascii_alphanumeric(),
            Self::UpperAlphanumeric => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Word => byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_',
        }
    }
}

impl Shapes {
    pub(crate) fn new() -> Result<Self, BuildError> {
        let prefixes = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(SHAPES.iter().map(|shape| shape.prefix))?;
        Ok(Self { prefixes })
    }

    /// The first token that starts at `from` or later.
    pub(crate) fn find(&self, text: &[u8], from: usize) -> Option<Found> {
        let mut at = from;
        while let Some(prefix) = self.prefixes.find(aho_corasick::Input::new(text).range(at..)) {
            let shape = SHAPES.get(prefix.pattern().as_usize())?;
            let run = shape.alphabet.run(&text[prefix.end()..]);
            if run >= shape.min && (!shape.at_word || begins_word(&text[..prefix.start()])) {
                return Some(Found { start: prefix.start(), end: prefix.end() + run, alphabet: shape.alphabet });
            }
            at = prefix.start() + 1;
        }
        None
    }

    /// Whether `tail` is the beginning of something that is a token if the right text follows.
    pub(crate) fn may_begin(&self, tail: &[u8]) -> bool {
        SHAPES.iter().any(|shape| match tail.strip_prefix(shape.prefix.as_bytes()) {
            Some(rest) => rest.len() < shape.min && shape.alphabet.run(rest) == rest.len(),
            None => shape.prefix.as_bytes().starts_with(tail),
        })
    }
}

/// Whether a word begins after `before`. An escaped line break or tab ends a word too, though it looks like a letter.
fn begins_word(before: &[u8]) -> bool {
    match before {
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., last] => !last.is_ascii_alphanumeric(),
        [] => true,
    }
}
