//! Lines of a stream, read from chunks that may be cut anywhere: those of server-sent events, and of JSON one to a line.
//! The bytes themselves are not touched.

use bytes::Bytes;

/// A longer line is skipped, so that memory stays bounded whatever comes. The longest that counts is the last event of
/// OpenAI's Responses, which holds the whole answer once more.
const MAX_LINE: usize = 4 << 20;

/// Which lines count, and what of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The `data` of events. Of an event with several `data` lines each is reported by itself, which the vendors here
    /// never send.
    Events,
    /// Every line that is not blank.
    Json,
}

/// Finds lines.
#[derive(Debug)]
pub(super) struct Lines {
    kind: Kind,
    partial: Vec<u8>,
    skipping: bool,
    skipped: u64,
}

impl Lines {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, partial: Vec::new(), skipping: false, skipped: 0 }
    }

    /// Calls `data` for each complete line that counts, with the offset in `chunk` at which the line begins (0 for one
    /// that began earlier).
    pub(super) fn feed(&mut self, chunk: &Bytes, mut data: impl FnMut(usize, &[u8])) {
        let mut start = 0;
        while let Some(length) =
            chunk.get(start..).and_then(|rest| rest.iter().position(|b| *b == b'\n' || *b == b'\r'))
        {
            let line = chunk.get(start..start + length).unwrap_or_default();
            if std::mem::take(&mut self.skipping) {
                self.skipped += line.len() as u64;
            } else if self.partial.is_empty() {
                self.report(start, line, &mut data);
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(line);
                self.report(0, &whole, &mut data);
            }
            start += length + 1;
        }
        let rest = chunk.get(start..).unwrap_or_default();
        if self.skipping || self.partial.len() + rest.len() > MAX_LINE {
            self.skipped += (self.partial.len() + rest.len()) as u64;
            self.partial = Vec::new();
            self.skipping = true;
        } else {
            self.partial.extend_from_slice(rest);
        }
    }

    /// Whether every line so far was ended.
    pub(super) fn are_complete(&self) -> bool {
        self.partial.is_empty() && !self.skipping
    }

    /// Calls `data` for a last line that was not ended, and returns how many bytes were too much to be read.
    pub(super) fn finish(&mut self, mut data: impl FnMut(usize, &[u8])) -> u64 {
        let rest = std::mem::take(&mut self.partial);
        self.report(0, &rest, &mut data);
        self.skipped
    }

    fn report(&self, start: usize, line: &[u8], data: &mut impl FnMut(usize, &[u8])) {
        match self.kind {
            Kind::Events => {
                if let Some(value) = line.strip_prefix(b"data:") {
                    data(start, value.strip_prefix(b" ").unwrap_or(value));
                }
            }
            Kind::Json if line.trim_ascii().is_empty() => {}
            Kind::Json => data(start, line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(kind: Kind, chunks: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::new(kind);
        let mut seen = Vec::new();
        for chunk in chunks {
            lines.feed(&Bytes::copy_from_slice(chunk), |_, data| {
                seen.push(String::from_utf8_lossy(data).into_owned());
            });
        }
        lines.finish(|_, data| seen.push(String::from_utf8_lossy(data).into_owned()));
        seen
    }

    #[test]
    fn lines_end_in_any_of_three_ways() {
        let events = b"event: a\ndata: 1\n\ndata:2\r\n\r\n: ping\rdata: 3\r\r";
        assert_eq!(read(Kind::Events, &[events]), ["1", "2", "3"]);
        assert_eq!(read(Kind::Json, &[b"{\"a\":1}\n\n{\"b\"", b":2}\r\n", b"{}"]), [r#"{"a":1}"#, r#"{"b":2}"#, "{}"]);
    }

    #[test]
    fn an_endless_line_is_skipped_and_counted_and_the_next_one_is_read() {
        let mut lines = Lines::new(Kind::Events);
        let mut seen = Vec::new();
        let long = Bytes::from(vec![b'x'; 1 << 20]);
        let mut most = 0;
        for chunk in
            [&Bytes::from("data: 1\ndata: ")].into_iter().chain([&long; 100]).chain([&Bytes::from("\ndata: 2\n")])
        {
            lines.feed(chunk, |_, data| seen.push(data.to_vec()));
            most = most.max(lines.partial.capacity());
        }
        assert_eq!(seen, [b"1", b"2"]);
        assert!(most <= 2 * MAX_LINE, "a line of 100 MiB took {most} bytes");
        assert_eq!(lines.finish(|_, _| {}), (100 << 20) + "data: ".len() as u64);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn cutting_the_stream_anywhere_changes_nothing(text in "(data: ?[a-z]{0,6}|event: x|:|)(\n|\r\n|data: y\n\n){1,4}", cuts: Vec<prop::sample::Index>) {
            let bytes = text.as_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            for kind in [Kind::Events, Kind::Json] {
                prop_assert_eq!(read(kind, &chunks), read(kind, &[bytes]));
            }
        }

        #[test]
        fn any_bytes_never_panic(chunks: Vec<Vec<u8>>) {
            for kind in [Kind::Events, Kind::Json] {
                read(kind, &chunks.iter().map(Vec::as_slice).collect::<Vec<_>>());
            }
        }
    }
}
