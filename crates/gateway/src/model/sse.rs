//! Server-sent events, read from chunks that may be cut anywhere. The bytes themselves are not touched.

use bytes::Bytes;

/// A longer line is skipped: nothing that counts is that long, and memory stays bounded whatever comes.
const MAX_LINE: usize = 1 << 20;

/// Finds the `data` of events. Of an event with several `data` lines each is reported by itself, which the vendors
/// here never send.
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
    skipping: bool,
}

impl Lines {
    /// Calls `data` for each complete `data:` line, with the offset in `chunk` at which the line begins (0 for one that
    /// began earlier).
    pub(super) fn feed(&mut self, chunk: &Bytes, mut data: impl FnMut(usize, &[u8])) {
        let mut start = 0;
        while let Some(length) =
            chunk.get(start..).and_then(|rest| rest.iter().position(|b| *b == b'\n' || *b == b'\r'))
        {
            let line = chunk.get(start..start + length).unwrap_or_default();
            if std::mem::take(&mut self.skipping) {
                self.partial.clear();
            } else if self.partial.is_empty() {
                report(start, line, &mut data);
            } else {
                self.partial.extend_from_slice(line);
                report(start, &std::mem::take(&mut self.partial), &mut data);
            }
            start += length + 1;
        }
        let rest = chunk.get(start..).unwrap_or_default();
        if self.partial.len() + rest.len() > MAX_LINE {
            self.partial = Vec::new();
            self.skipping = true;
        } else if !self.skipping {
            self.partial.extend_from_slice(rest);
        }
    }
}

fn report(start: usize, line: &[u8], data: &mut impl FnMut(usize, &[u8])) {
    if let Some(value) = line.strip_prefix(b"data:") {
        data(start, value.strip_prefix(b" ").unwrap_or(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(chunks: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for chunk in chunks {
            lines.feed(&Bytes::copy_from_slice(chunk), |_, data| {
                seen.push(String::from_utf8_lossy(data).into_owned());
            });
        }
        seen
    }

    #[test]
    fn lines_end_in_any_of_three_ways() {
        assert_eq!(read(&[b"event: a\ndata: 1\n\ndata:2\r\n\r\n: ping\rdata: 3\r\r"]), ["1", "2", "3"]);
    }

    #[test]
    fn an_endless_line_is_skipped_and_the_next_one_is_read() {
        let long = vec![b'x'; MAX_LINE];
        assert_eq!(read(&[b"data: 1\ndata: ", &long, &long, b"\ndata: 2\n"]), ["1", "2"]);
    }

    proptest! {
        #[test]
        fn cutting_the_stream_anywhere_changes_nothing(text in "(data: ?[a-z]{0,6}|event: x|:|)(\n|\r\n|data: y\n\n){1,4}", cuts: Vec<prop::sample::Index>) {
            let bytes = text.as_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(&chunks), read(&[bytes]));
        }

        #[test]
        fn any_bytes_never_panic(chunks: Vec<Vec<u8>>) {
            read(&chunks.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    }
}
