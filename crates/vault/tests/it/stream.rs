//! Texts in pieces: however they are cut, nothing gets through and nothing else changes.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use harvest_vault::{Redactor, StreamRedactor};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::redactor;

fn in_pieces<'a>(redactor: &Redactor, pieces: impl IntoIterator<Item = &'a str>) -> String {
    let mut stream = StreamRedactor::new(redactor.clone());
    let mut clean: String = pieces.into_iter().map(|piece| stream.push(piece)).collect();
    clean.push_str(&stream.finish());
    clean
}

fn cut<'a>(text: &'a str, cuts: &[Index]) -> Vec<&'a str> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    at.retain(|at| text.is_char_boundary(*at));
    at.extend([0, text.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

#[test]
fn text_flows_without_delay_unless_it_may_become_a_secret() {
    let mut stream = StreamRedactor::new(redactor(&["swordfish-42"]));
    assert_eq!(stream.push("hello, "), "hello, ");
    assert_eq!(stream.push("the word is swor"), "the word is ");
    assert_eq!(stream.push("d, not sword"), "sword, not ");
    assert_eq!(stream.push("fish-42"), "[redacted]");
    assert_eq!(stream.push("!"), "!");
    assert_eq!(stream.finish(), "");
}

#[test]
fn an_endless_token_takes_no_memory_and_leaves_one_mark() {
    let mut stream = StreamRedactor::new(redactor(&[]));
    let mut clean = stream.push("sk-ant-");
    for _ in 0..10_000 {
        clean.push_str(&stream.push("aaaaaaaaaa"));
    }
    clean.push_str(&stream.push(" end"));
    clean.push_str(&stream.finish());
    assert_eq!(clean, "[redacted] end");
}

#[test]
fn the_end_of_a_text_has_no_part_of_a_secret_that_begins_before_it() {
    let redactor = redactor(&["swordfish-42"]);
    for secret in ["swordfish-42", "sk-ant-api03-canary0123456789abcdefgh"] {
        let text = format!("before {secret} after");
        for most in 0..=text.len() + 2 {
            let end = redactor.redact_tail(&text, most);
            let kept = text.len().saturating_sub(most);
            match kept {
                0..7 => assert_eq!(end, format!("{}[redacted] after", &"before "[kept..]), "{most}"),
                _ => assert!(" after".ends_with(&end) || end == "[redacted] after", "{most}: {end}"),
            }
        }
    }
    assert!(redactor.reach() >= "swordfish-42".len() * 2, "its hex form");
}

#[derive(Debug, Clone, Copy)]
enum Encoding {
    Plain,
    Json,
    JsonAscii,
    JsonTwice,
    Url,
    UrlLower,
    Standard,
    UrlSafe,
    Hex,
}

/// The encoded text around and including `secret`, and the part of it that must not be seen.
fn encode(encoding: Encoding, before: &str, secret: &str, after: &str) -> (String, String) {
    let inside = |text: &str| {
        let quoted = serde_json::to_string(text).unwrap();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let url = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
                _ => format!("%{byte:02X}"),
            })
            .collect()
    };
    let url_lower = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
                _ => format!("%{byte:02x}"),
            })
            .collect()
    };
    let hex = |text: &str| -> String { text.bytes().map(|byte| format!("{byte:02x}")).collect() };
    let each = |how: &dyn Fn(&str) -> String| (format!("{}{}{}", how(before), how(secret), how(after)), how(secret));
    let whole = |engine: &dyn Fn(&str) -> String| {
        let encoded = engine(&format!("{before}{secret}{after}"));
        let first = (before.len() * 8).div_ceil(6);
        let last = (before.len() + secret.len()) * 8 / 6;
        let core = encoded[first..last].to_owned();
        (encoded, core)
    };
    match encoding {
        Encoding::Plain => each(&str::to_owned),
        Encoding::Json => each(&inside),
        Encoding::JsonAscii => each(&|text| {
            let escaped = |character: char| match character {
                ' '..='~' => character.to_string(),
                other => other.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
            };
            // Those that have a short form keep it.
            inside(text).chars().map(escaped).collect()
        }),
        Encoding::JsonTwice => each(&|text| inside(&inside(text))),
        Encoding::Url => each(&url),
        Encoding::UrlLower => each(&url_lower),
        Encoding::Hex => each(&hex),
        Encoding::Standard => whole(&|text| STANDARD.encode(text)),
        Encoding::UrlSafe => whole(&|text| URL_SAFE.encode(text)),
    }
}

const ENCODINGS: [Encoding; 9] = [
    Encoding::Plain,
    Encoding::Json,
    Encoding::JsonAscii,
    Encoding::JsonTwice,
    Encoding::Url,
    Encoding::UrlLower,
    Encoding::Standard,
    Encoding::UrlSafe,
    Encoding::Hex,
];

/// Not a sample: every place to cut in two, every pair of places, every alignment of base64.
#[test]
fn no_secret_gets_through_wherever_it_is_cut() {
    let secret = "hunter2/\"\u{e9} pass+word";
    let redactor = redactor(&[secret]);
    for encoding in ENCODINGS {
        for before in ["", "u", "us", "use"] {
            let (text, hidden) = encode(encoding, before, secret, "!");
            let places: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
            for (number, first) in places.iter().enumerate() {
                for second in &places[number..] {
                    let pieces = [&text[..*first], &text[*first..*second], &text[*second..]];
                    let clean = in_pieces(&redactor, pieces);
                    assert!(!clean.contains(&hidden), "{encoding:?} cut at {first} and {second}: {clean}");
                    assert!(clean.contains("[redacted]"), "{encoding:?} cut at {first} and {second}: {clean}");
                }
            }
            let bytes = text.char_indices().map(|(at, character)| &text[at..at + character.len_utf8()]);
            let clean = in_pieces(&redactor, bytes);
            assert!(!clean.contains(&hidden), "{encoding:?}, character by character: {clean}");
        }
    }
}

fn encodings() -> impl Strategy<Value = Encoding> {
    prop::sample::select(ENCODINGS.to_vec())
}

/// Printable, with everything that encodings change; no brackets, so that a secret is never part of a mark.
fn secrets() -> impl Strategy<Value = String> {
    r#"[a-zA-Z0-9/+=\-_ "\\\n\té漢😀%&<>]{8,40}"#
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// No secret, cut anywhere, in any of its encodings, gets through.
    #[test]
    fn no_secret_gets_through(
        secret in secrets(),
        others in prop::collection::vec(secrets(), 0..3),
        encoding in encodings(),
        (before, after) in ("[ -Z\\^-~é漢\n]{0,20}", "[ -Z\\^-~é漢\n]{0,20}"),
        cuts in prop::collection::vec(any::<Index>(), 0..12),
    ) {
        let known: Vec<&str> = others.iter().chain([&secret]).map(String::as_str).collect();
        let redactor = redactor(&known);
        let (text, hidden) = encode(encoding, &before, &secret, &after);
        let clean = in_pieces(&redactor, cut(&text, &cuts));
        prop_assert!(!clean.contains(&hidden), "{hidden:?} in {clean:?}");
        prop_assert!(clean.contains("[redacted]"));
        prop_assert_eq!(clean, redactor.redact(&text));
    }

    /// Pieces give what the whole gives, also where shapes, secrets and parts of them run into each other.
    #[test]
    fn pieces_give_what_the_whole_gives(
        parts in prop::collection::vec(prop::sample::select(vec![
            "sk-", "sk-ant-", "sk-proj-", "ghp_", "gh", "AKIA", "AIza", "AI", "xoxb-", "github_pat_",
            "aaaaaaaaaaaaaaaa", "A1B2C3D4E5F6G7H8", "abababab", "ababab", "abab", "task-", "\\n", "\n", " ", "é", "-", "_", "n",
            "0123456789abcdef0123456789abcdef",
        ]), 0..14),
        cuts in prop::collection::vec(any::<Index>(), 0..20),
    ) {
        let redactor = redactor(&["abababababab", "aaaaaaaaaaaaaaaaabab", "AIzaaaaaaaaa", "é - é - é"]);
        let text = parts.concat();
        prop_assert_eq!(in_pieces(&redactor, cut(&text, &cuts)), redactor.redact(&text));
    }

    /// Without secrets every text comes out as it went in.
    #[test]
    fn other_text_is_unchanged(pieces in prop::collection::vec("[a-z \n\u{e9}]{0,12}", 0..12)) {
        let redactor = redactor(&["0123456789"]);
        prop_assert_eq!(in_pieces(&redactor, pieces.iter().map(String::as_str)), pieces.concat());
    }
}
