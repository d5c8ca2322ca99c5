//! Whole texts and JSON values.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use harvest_vault::{Redactor, SecretString, StreamRedactor};
use serde_json::json;

use crate::redactor;

const SECRET: &str = "correct horse/battery+\"staple\"é<&>";

#[test]
fn text_without_a_secret_is_borrowed() {
    let redactor = redactor(&[SECRET]);
    assert!(matches!(redactor.redact("nothing to see here, task-list, disk-usage"), Cow::Borrowed(_)));
}

#[test]
fn every_encoding_is_found() {
    let redactor = redactor(&[SECRET]);
    let cases = [
        SECRET.to_owned(),
        r#"correct horse/battery+\"staple\"é<&>"#.to_owned(),
        r#"correct horse/battery+\\\"staple\\\"é<&>"#.to_owned(),
        r#"correct horse/battery+\"staple\"\u00e9<&>"#.to_owned(),
        r#"correct horse\/battery+\"staple\"\u00e9<&>"#.to_owned(),
        r#"correct horse/battery+\"staple\"é\u003c\u0026\u003e"#.to_owned(),
        "correct%20horse%2Fbattery%2B%22staple%22%C3%A9%3C%26%3E".to_owned(),
        "correct%20horse%2fbattery%2b%22staple%22%c3%a9%3c%26%3e".to_owned(),
        "correct+horse%2Fbattery%2B%22staple%22%C3%A9%3C%26%3E".to_owned(),
        "correct%20horse/battery+%22staple%22%C3%A9%3C&%3E".to_owned(),
        STANDARD.encode(SECRET),
        URL_SAFE.encode(SECRET),
        STANDARD_NO_PAD.encode(SECRET),
        URL_SAFE_NO_PAD.encode(SECRET),
        SECRET.bytes().map(|byte| format!("{byte:02x}")).collect(),
        SECRET.bytes().map(|byte| format!("{byte:02X}")).collect(),
    ];
    for case in cases {
        assert_eq!(redactor.redact(&format!("before {case} after")), "before [redacted] after", "{case}");
    }
}

#[test]
fn base64_is_found_at_every_alignment() {
    let redactor = redactor(&["hunter2-hunter2"]);
    for before in ["", "u", "us", "user:", "user: "] {
        for after in ["", "\n", "ab", "abc"] {
            let encoded = STANDARD.encode(format!("{before}hunter2-hunter2{after}"));
            assert!(redactor.redact(&encoded).contains("[redacted]"), "{before:?} {after:?}");
        }
    }
}

#[test]
fn known_token_shapes_are_found_without_being_known() {
    let redactor = redactor(&[]);
    let long = "a1B2".repeat(12);
    let upper = "A1B2".repeat(4);
    for token in [
        format!("sk-ant-api03-{long}_-x"),
        format!("sk-proj-{long}-{long}"),
        format!("sk-{long}"),
        format!("ghp_{long}"),
        format!("gho_{long}"),
        format!("ghs_{long}"),
        format!("github_pat_{long}_{long}"),
        format!("xoxb-1234567890-{long}"),
        format!("AKIA{upper}"),
        format!("AIza{long}"),
        format!("AQ.{long}"),
    ] {
        for (before, after) in [("", ""), ("key=", "&x=1"), ("\"", "\","), ("line\\n", "\\n"), ("(", ").")] {
            let text = format!("{before}{token}{after}");
            assert_eq!(redactor.redact(&text), format!("{before}[redacted]{after}"));
        }
    }
}

#[test]
fn ordinary_words_are_left_alone() {
    let redactor = redactor(&["short", "12345"]);
    for text in [
        "risk-assessment-of-the-whole-undertaking-in-detail",
        "task-0123456789abcdef0123456789abcdef0123",
        "sk-learn and sk-ant-hill",
        "AKIA is a prefix; ghp_ too; xoxb-",
        "short 12345",
    ] {
        assert_eq!(redactor.redact(text), text);
    }
}

#[test]
fn overlapping_secrets_are_covered_together() {
    let redactor = redactor(&["abcdefgh1234", "1234ijklmnop", "abcdefgh"]);
    assert_eq!(redactor.redact("<abcdefgh1234ijklmnop>"), "<[redacted]>");
    assert_eq!(redactor.redact("<abcdefgh><abcdefgh1234>"), "<[redacted]><[redacted]>");
    assert_eq!(redactor.redact("abcdefghabcdefgh"), "[redacted][redacted]");
}

#[test]
fn lines_of_a_key_file_are_secrets_too() {
    let key =
        "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQDabcdefghijkl\n-----END KEY-----\n";
    let redactor = redactor(&[key]);
    assert_eq!(redactor.redact("12: BKcwggSjAgEAAoIBAQDabcdefghijkl"), "12: [redacted]");
    assert_eq!(redactor.redact(key.trim_end()), "[redacted]");
    assert_eq!(redactor.redact("-----BEGIN KEY-----"), "-----BEGIN KEY-----");
}

#[test]
fn json_is_redacted_in_strings_and_keys() {
    let redactor = redactor(&["first-secret", "other-secret"]);
    let mut value = json!({
        "first-secret": [1, null, "x first-secret y"],
        "other-secret": {"deep": {"deeper": "other-secret"}},
        "plain": true,
    });
    redactor.redact_json(&mut value);
    assert_eq!(
        value,
        json!({
            "[redacted]": [1, null, "x [redacted] y"],
            "[redacted] (2)": {"deep": {"deeper": "[redacted]"}},
            "plain": true,
        })
    );
}

#[test]
fn a_redactor_cannot_be_printed() {
    assert!(!format!("{:?}", redactor(&["first-secret"])).contains("first"));
}

#[test]
fn a_secret_that_is_learned_later_is_found_by_everyone_who_redacts() {
    let redactor = Redactor::new([SecretString::from("first-canary-secret".to_owned())]).unwrap();
    let (clone, mut stream) = (redactor.clone(), StreamRedactor::new(redactor.clone()));
    let text = "first-canary-secret and second-canary-secret";
    assert_eq!(clone.redact(text), "[redacted] and second-canary-secret");
    let second = SecretString::from("second-canary-secret".to_owned());
    redactor.learn([&second]).unwrap();
    redactor.learn([&second]).unwrap();
    assert_eq!(clone.redact(text), "[redacted] and [redacted]");
    let streamed = stream.push("x second-can") + &stream.push("ary-secret y") + &stream.finish();
    assert_eq!(streamed, "x [redacted] y");
    assert!(!format!("{redactor:?}").contains("canary"));
}

#[test]
fn a_name_may_hold_a_word_a_path_or_an_address_that_is_kept_as_a_secret_but_nothing_that_looks_random() {
    let words = [
        "production",
        "https://",
        "https://models.example.com/v1",
        "release-2026-11-18",
        "team/checkout-service",
        "correct horse battery staple",
    ];
    let known = redactor(&words);
    for word in words {
        assert!(!known.finds_in_name(word), "{word}");
        assert_eq!(known.redact(word), "[redacted]", "text is redacted as before: {word}");
    }
    assert!(known.finds_in_name("sk-ant-api03-canary0123456789abcdefgh"), "a shape counts whatever is kept");
    let random = [
        "k3yW1thoutShape9",
        "550e8400-e29b-41d4-a716-446655440000",
        "canaryofthenamesinthevault",
        "3q2+7w/ZmFrZSBz1ZWNyZXQ5gY2FuYXJ5/A==",
    ];
    let known = redactor(&random);
    for secret in random {
        assert!(known.finds_in_name(&format!("release-{secret}-2")), "{secret}");
        assert!(!redactor(&[]).finds_in_name(secret), "{secret}");
    }
}
