//! The ways in which a secret shows up in text other than as itself: escaped in JSON, in a URL, in base64 or in hex.

use std::collections::BTreeSet;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

/// Shorter secrets would redact ordinary words.
pub const MIN_SECRET_BYTES: usize = 8;

/// A line of a secret of several lines is looked for by itself when it has at least this many bytes: output comes in lines.
const MIN_LINE_BYTES: usize = 16;

/// Which bytes a URL encoder leaves alone, besides letters and digits; encoders disagree.
const URL_KEPT: [&[u8]; 3] = [b"-_.~", b"-_.!~*'()", b"-_.!~*'();/?:@&=+$,#"];
const FORM_KEPT: &[u8] = b"-_.*";

/// Every form of `secret` worth looking for, each at least [`MIN_SECRET_BYTES`] long; empty when the secret is too short.
pub(crate) fn forms(secret: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    let trimmed = secret.trim();
    for text in [secret, trimmed] {
        if text.len() >= MIN_SECRET_BYTES {
            add_forms(text, &mut forms);
        }
    }
    if trimmed.contains('\n') {
        let lines = trimmed.lines().map(str::trim);
        for line in lines.filter(|line| line.len() >= MIN_LINE_BYTES && !line.starts_with("-----")) {
            add_forms(line, &mut forms);
        }
    }
    forms
}

fn add_forms(text: &str, forms: &mut BTreeSet<String>) {
    forms.insert(text.to_owned());
    add_json(text, forms);
    for kept in URL_KEPT {
        forms.extend([Hex::Upper, Hex::Lower].map(|hex| url_encoded(text, kept, hex, "%20")));
    }
    forms.extend([Hex::Upper, Hex::Lower].map(|hex| url_encoded(text, FORM_KEPT, hex, "+")));
    forms.extend([Hex::Upper, Hex::Lower].map(|hex| {
        text.bytes().fold(String::new(), |mut digits, byte| {
            hex.push(&mut digits, byte);
            digits
        })
    }));
    add_base64(text.as_bytes(), forms);
}

/// The text as it stands inside a JSON string, and inside a JSON string inside a JSON string.
fn add_json(text: &str, forms: &mut BTreeSet<String>) {
    let plain = Json::default();
    let ascii = Json { ascii: true, ..plain };
    let slash = Json { slash: true, ..plain };
    let html = Json { html: true, ..plain };
    for how in [plain, ascii, slash, Json { slash: true, ..ascii }, html] {
        let escaped = how.escape(text);
        forms.insert(plain.escape(&escaped));
        forms.insert(escaped);
    }
}

#[derive(Default, Clone, Copy)]
struct Json {
    /// Non-ASCII characters as `\uXXXX`, as many writers do.
    ascii: bool,
    /// `/` as `\/`, as PHP and others do.
    slash: bool,
    /// `<`, `>` and `&` as `\uXXXX`, as Go does.
    html: bool,
}

impl Json {
    fn escape(self, text: &str) -> String {
        let mut escaped = String::with_capacity(text.len());
        for character in text.chars() {
            match character {
                '"' => escaped.push_str("\\\""),
                '\\' => escaped.push_str("\\\\"),
                '\n' => escaped.push_str("\\n"),
                '\r' => escaped.push_str("\\r"),
                '\t' => escaped.push_str("\\t"),
                '\u{8}' => escaped.push_str("\\b"),
                '\u{c}' => escaped.push_str("\\f"),
                '/' if self.slash => escaped.push_str("\\/"),
                character
                    if character < ' '
                        || (self.ascii && !character.is_ascii())
                        || (self.html && matches!(character, '<' | '>' | '&')) =>
                {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        // Writing to a string cannot fail.
                        let _ = write!(escaped, "\\u{unit:04x}");
                    }
                }
                character => escaped.push(character),
            }
        }
        escaped
    }
}

#[derive(Clone, Copy)]
enum Hex {
    Upper,
    Lower,
}

impl Hex {
    fn push(self, text: &mut String, byte: u8) {
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Upper => write!(text, "{byte:02X}"),
            Self::Lower => write!(text, "{byte:02x}"),
        };
    }
}

fn url_encoded(text: &str, kept: &[u8], hex: Hex, space: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte == b' ' {
            encoded.push_str(space);
        } else if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            hex.push(&mut encoded, byte);
        }
    }
    encoded
}

/// Base64 as a whole, with and without padding, and the part of it that does not change when other bytes stand before and after the secret: the
/// encoding works on groups of three bytes, so there are three of these.
fn add_base64(secret: &[u8], forms: &mut BTreeSet<String>) {
    for engine in [STANDARD, URL_SAFE] {
        let whole = engine.encode(secret);
        forms.insert(whole.trim_end_matches('=').to_owned());
        forms.insert(whole);
        for (before, tainted) in [(0, 0), (1, 2), (2, 3)] {
            let mut bytes = vec![0; before];
            bytes.extend_from_slice(secret);
            let settled = bytes.len() * 8 / 6;
            forms.extend(engine.encode(&bytes).get(tainted..settled).map(str::to_owned));
        }
    }
}
