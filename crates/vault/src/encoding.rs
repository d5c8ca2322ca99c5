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
    forms.extend(in_json(text));
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
    let mut base64 = BTreeSet::new();
    add_base64(text.as_bytes(), &mut base64);
    // PHP escapes the slashes of base64 as well.
    forms.extend(base64.iter().map(|form| PHP.escape(form)));
    forms.append(&mut base64);
}

/// A text as different programs write it into a JSON string, and that string into another one, as answers of tools are.
pub fn in_json(text: &str) -> BTreeSet<String> {
    let escaped = WRITERS.iter().map(|writer| writer.escape(text));
    escaped.flat_map(|escaped| [PLAIN.escape(&escaped), PHP.escape(&escaped), escaped]).collect()
}

/// Which characters a writer of JSON escapes although it need not.
#[derive(Clone, Copy)]
struct JsonWriter {
    /// `/` as `\/`.
    slash: bool,
    /// All that is not ASCII as `\uXXXX`.
    ascii: bool,
    /// These as `\uXXXX`.
    escaped: &'static [char],
    digits: Hex,
}

const PLAIN: JsonWriter = JsonWriter { slash: false, ascii: false, escaped: &[], digits: Hex::Lower };

const PHP: JsonWriter = JsonWriter { slash: true, ..PLAIN };

const WRITERS: [JsonWriter; 7] = [
    PLAIN,
    // Python, and others that are asked for ASCII.
    JsonWriter { ascii: true, ..PLAIN },
    // PHP, with and without its option for Unicode.
    JsonWriter { ascii: true, ..PHP },
    PHP,
    // Go.
    JsonWriter { escaped: &['<', '>', '&'], ..PLAIN },
    // Gson.
    JsonWriter { escaped: &['<', '>', '&', '=', '\''], ..PLAIN },
    // System.Text.Json of .NET.
    JsonWriter { ascii: true, escaped: &['"', '&', '\'', '+', '<', '>', '`'], digits: Hex::Upper, ..PLAIN },
];

impl JsonWriter {
    fn escape(&self, text: &str) -> String {
        let mut escaped = String::with_capacity(text.len());
        for character in text.chars() {
            let named = match character {
                _ if self.escaped.contains(&character) => None,
                '"' => Some("\\\""),
                '\\' => Some("\\\\"),
                '\n' => Some("\\n"),
                '\r' => Some("\\r"),
                '\t' => Some("\\t"),
                '\u{8}' => Some("\\b"),
                '\u{c}' => Some("\\f"),
                '/' if self.slash => Some("\\/"),
                _ => None,
            };
            let is_escaped =
                character < ' ' || (self.ascii && !character.is_ascii()) || self.escaped.contains(&character);
            match named {
                Some(named) => escaped.push_str(named),
                None if is_escaped => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        escaped.push_str("\\u");
                        for byte in unit.to_be_bytes() {
                            self.digits.push(&mut escaped, byte);
                        }
                    }
                }
                None => escaped.push(character),
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
