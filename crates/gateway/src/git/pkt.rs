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

/// Finds where the packets of a stream end.
#[derive(Debug, Default)]
pub(super) struct Boundaries {
    digits: Vec<u8>,
    /// Bytes until the packet ends.
    left: usize,
}

impl Boundaries {
    pub(super) fn pass(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            bytes = bytes.get(self.step(bytes)..).unwrap_or_default();
        }
    }

    /// How many of these bytes belong to the packet that has begun.
    pub(super) fn rest_of_packet(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while (self.left > 0 || !self.digits.is_empty()) && taken < bytes.len() {
            taken += self.step(bytes.get(taken..).unwrap_or_default());
        }
        taken
    }

    fn step(&mut self, bytes: &[u8]) -> usize {
        if self.left > 0 {
            let taken = self.left.min(bytes.len());
            self.left -= taken;
            return taken;
        }
        let wanted = 4 - self.digits.len();
        let taken = wanted.min(bytes.len());
        self.digits.extend(bytes.iter().take(taken));
        if taken == wanted {
            let length = std::str::from_utf8(&self.digits).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
            self.left = length.unwrap_or_default().saturating_sub(4);
            self.digits.clear();
        }
        taken
    }
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
        fn a_packet_ends_in_the_same_place_wherever_it_is_cut(
            lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..200), 1..5), cut: prop::sample::Index
        ) {
            let (mut stream, mut ends) = (Vec::new(), Vec::from([0]));
            for line in &lines {
                write(&mut stream, line);
                ends.push(stream.len());
                flush(&mut stream);
                ends.push(stream.len());
            }
            let cut = cut.index(stream.len() + 1);
            let mut boundaries = Boundaries::default();
            boundaries.pass(&stream[..cut]);
            let end = cut + boundaries.rest_of_packet(&stream[cut..]);
            prop_assert_eq!(Some(&end), ends.iter().find(|end| **end >= cut));
        }

        #[test]
        fn what_is_written_is_read_back(data in prop::collection::vec(any::<u8>(), 1..2000)) {
            let mut line = Vec::new();
            write(&mut line, &data);
            prop_assert_eq!(next(&line), Ok(Some((Packet::Line(&data), line.len()))));
        }
    }
}
