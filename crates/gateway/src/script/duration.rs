//! Durations as people write them: `200ms`, `60s`, `1m30s`.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};

const MAX: Duration = Duration::from_secs(24 * 60 * 60);
const EXPECTED: &str = "a duration such as 200ms, 60s or 1m30s";

/// A length of time, at most a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Humane(pub(super) Duration);

impl<'de> Deserialize<'de> for Humane {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Humane;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Humane, E> {
                parse(text).map(Humane).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

fn parse(text: &str) -> Result<Duration, String> {
    let refuse = || format!("`{text}` is not {EXPECTED}");
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(refuse());
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest.get(..digits).unwrap_or_default().parse().map_err(|_| refuse())?;
        let tail = rest.get(digits..).unwrap_or_default();
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let millis = match tail.get(..letters).unwrap_or_default() {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(refuse()),
        };
        total = total.saturating_add(Duration::from_millis(number.saturating_mul(millis)));
        rest = tail.get(letters..).unwrap_or_default();
    }
    if total > MAX {
        return Err(format!("`{text}` is longer than a day"));
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_people_write() {
        for (text, millis) in
            [("200ms", 200), ("60s", 60_000), ("1m", 60_000), ("1m30s", 90_000), ("0s", 0), ("2h", 7_200_000)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "1.5s", "-1s", "1 s", "1d", "25h", "99999999999999999999s", "1s!"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_never_panics(text: String) {
            let _ = parse(&text);
        }
    }
}
