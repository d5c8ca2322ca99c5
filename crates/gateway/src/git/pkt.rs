//! Pkt-lines: four hexadecimal digits of length, then that much data.

/// The longest line that git writes or reads.
const MAX_LINE: usize = 65520;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    Flush,
    Line(&'a [u8]),
}

/// Bytes that are no pkt-line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed pkt-line: {0}")]
pub(super) struct Malformed(pub(super) &'static str);

/// The first packet and how many bytes it takes; `None` while it is incomplete.
pub(super) fn next(bytes: &[u8]) -> Result<Option<(Packet<'_>, usize)>, Malformed> {
    let Some(digits) = bytes.first_chunk::<4>() else {
        let hexadecimal = bytes.iter().all(u8::is_ascii_hexdigit);
        return if hexadecimal { Ok(None) } else { Err(Malformed("the length is not a number")) };
    };
    let mut length = 0;
    for digit in digits {
        let value = char::from(*digit).to_digit(16).ok_or(Malformed("the length is not a number"))?;
        length = length * 16 + value as usize;
    }
    match length {
        0 => Ok(Some((Packet::Flush, 4))),
        1..=3 => Err(Malformed("a special packet that does not belong here")),
        4 => Err(Malformed("an empty line")),
        _ if length > MAX_LINE => Err(Malformed("the line is too long")),
        _ => Ok(bytes.get(4..length).map(|data| (Packet::Line(data), length))),
    }
}

/// Appends a line; longer data than fits is cut, which no caller here has.
pub(super) fn write(into: &mut Vec<u8>, data: &[u8]) {
    let data = data.get(..MAX_LINE - 4).unwrap_or(data);
    into.extend_from_slice(format!("{:04x}", data.len() + 4).as_bytes());
    into.extend_from_slice(data);
}

pub(super) fn flush(into: &mut Vec<u8>) {
    into.extend_from_slice(b"0000");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_and_flushes() {
        assert_eq!(next(b"0000rest"), Ok(Some((Packet::Flush, 4))));
        assert_eq!(next(b"0006a\nrest"), Ok(Some((Packet::Line(b"a\n"), 6))));
        assert_eq!(next(b"000Aabcdef"), Ok(Some((Packet::Line(b"abcdef"), 10))));
        for incomplete in [&b""[..], b"0", b"000", b"0006", b"0006a", b"fff0"] {
            assert_eq!(next(incomplete), Ok(None), "{incomplete:?}");
        }
    }

    #[test]
    fn what_is_no_line_is_refused() {
        for malformed in
            [&b"0001"[..], b"0002", b"0003", b"0004", b"ffff", b"fff1", b"-001", b"+005x", b"00 5", b"x", b"PACK"]
        {
            assert!(next(malformed).is_err(), "{malformed:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic_and_never_read_beyond_the_end(bytes: Vec<u8>) {
            if let Ok(Some((_, taken))) = next(&bytes) {
                prop_assert!(taken <= bytes.len());
            }
        }

        #[test]
        fn what_is_written_is_read_back(data in prop::collection::vec(any::<u8>(), 1..2000)) {
            let mut line = Vec::new();
            write(&mut line, &data);
            prop_assert_eq!(next(&line), Ok(Some((Packet::Line(&data), line.len()))));
        }
    }
}
