//! What must hold of a push whatever bytes it is made of. The targets in `fuzz/` look for input that breaks it; the tests below
//! try random input.
//!
//! A function takes bytes and panics when its promise is broken.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a broken promise is to be found")]

use super::push::Reader;
use super::{pkt, refname};

/// The commands of a push: cut anywhere, the same is understood; and what git is given is understood as the same again.
pub fn pkt_lines(input: &[u8]) {
    let mut taken = 0;
    while let Ok(Some((_, length))) = pkt::next(&input[taken..]) {
        assert!(length >= 4 && taken + length <= input.len(), "it reads beyond its end");
        taken += length;
    }
    let whole = Reader::default().feed(input);
    let mut reader = Reader::default();
    let mut pieces = Ok(None);
    for (place, byte) in input.iter().enumerate() {
        pieces = reader.feed(&[*byte]);
        if let Ok(Some((push, rest))) = &mut pieces {
            rest.extend_from_slice(&input[place + 1..]);
            let (again, nothing) = Reader::default().feed(&push.encode()).unwrap().unwrap();
            assert!(again == *push && nothing.is_empty(), "git would understand something else");
            break;
        }
        if pieces.is_err() {
            break;
        }
    }
    assert_eq!(pieces.is_err(), whole.is_err(), "pieces are judged otherwise than the whole");
    if let (Ok(pieces), Ok(whole)) = (pieces, whole) {
        assert_eq!(pieces, whole);
    }
}

/// No name that is accepted leads out of `refs/`, looks like an option, or is one that git refuses.
pub fn ref_names(input: &[u8]) {
    let Ok(name) = std::str::from_utf8(input) else { return };
    if !refname::is_valid(name) {
        return;
    }
    assert!(name.starts_with("refs/") && !name.contains("..") && !name.contains("//") && !name.ends_with('/'));
    assert!(!name.chars().any(|letter| letter.is_control() || letter.is_whitespace() && letter == ' '));
    for part in name.split('/') {
        assert!(!part.is_empty() && !part.starts_with(['.', '-']) && !part.to_lowercase().ends_with(".lock"), "{name}");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn random_pushes(input in prop::collection::vec(prop_oneof![Just(b"0000".to_vec()), Just(b"0032".to_vec()),
            "[0-9a-f]{40} [0-9a-f]{40} refs/heads/[a-z/.-]{0,10}".prop_map(String::into_bytes), any::<Vec<u8>>()], 0..8)) {
            super::pkt_lines(&input.concat());
        }

        #[test]
        fn random_names(name in "(refs/)?[a-z./@{~^:\\\\ -]{0,20}(\\.lock)?(/[a-z.-]{0,8}){0,3}") {
            super::ref_names(name.as_bytes());
        }
    }
}
