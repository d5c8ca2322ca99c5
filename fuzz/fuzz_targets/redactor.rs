//! No secret gets through, however it is encoded and cut; and pieces give what the whole gives.
#![no_main]

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use harvest_vault::{Redactor, SecretString, StreamRedactor};
use libfuzzer_sys::fuzz_target;

const SECRET: &str = "correct horse/battery+\"staple\"\u{e9}<&>";

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| {
    Redactor::new([SecretString::from(SECRET.to_owned())]).expect("one secret is not too many")
});

fn encoded(how: u8, before: &str, after: &str) -> (String, String) {
    let quoted = |text: &str| format!("{text:?}").trim_matches('"').replace("\\u{e9}", "\u{e9}");
    let url = |text: &str| -> String {
        let keeps = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        text.bytes().map(|b| if keeps(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
    };
    let whole = |encoded: String| {
        let (first, last) = ((before.len() * 8).div_ceil(6), (before.len() + SECRET.len()) * 8 / 6);
        let core = encoded[first..last].to_owned();
        (encoded, core)
    };
    let text = format!("{before}{SECRET}{after}");
    match how % 5 {
        0 => (text, SECRET.to_owned()),
        1 => (format!("{before}{}{after}", quoted(SECRET)), quoted(SECRET)),
        2 => (format!("{before}{}{after}", url(SECRET)), url(SECRET)),
        3 => whole(STANDARD.encode(text)),
        _ => whole(URL_SAFE.encode(text)),
    }
}

fuzz_target!(|input: (u8, &str, &str, Vec<u8>)| {
    let (how, before, after, cuts) = input;
    let redactor = &*REDACTOR;
    let (text, hidden) = encoded(how, before, after);
    let mut stream = StreamRedactor::new(redactor.clone());
    let (mut clean, mut rest) = (String::new(), text.as_str());
    for cut in cuts {
        let mut at = usize::from(cut).min(rest.len());
        while !rest.is_char_boundary(at) {
            at -= 1;
        }
        let (piece, after) = rest.split_at(at);
        clean += &stream.push(piece);
        rest = after;
    }
    clean += &stream.push(rest);
    clean += &stream.finish();
    assert!(!clean.contains(&hidden), "{hidden:?} in {clean:?}");
    assert_eq!(clean, redactor.redact(&text));
});
