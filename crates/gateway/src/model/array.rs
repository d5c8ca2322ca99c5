//! A JSON array, read element by element from chunks that may be cut anywhere, as Gemini streams it where nobody asked
//! for events.

use bytes::Bytes;

/// A longer element is skipped, so that memory stays bounded whatever comes.
const MAX_ELEMENT: usize = 4 << 20;

/// Finds the objects of an array. It follows brackets and strings and nothing else: whether an object is one is for
/// whoever reads it.
#[derive(Debug, Default)]
pub(super) struct Elements {
    /// Brackets that are open; the array's own is the first.
    depth: usize,
    in_string: bool,
    escaped: bool,
    element: Vec<u8>,
    skipping: bool,
    skipped: u64,
    closed: bool,
}

impl Elements {
    /// Calls `found` for each complete element. Returns where in `chunk` the array is closed.
    pub(super) fn feed(&mut self, chunk: &Bytes, mut found: impl FnMut(&[u8])) -> Option<usize> {
        let mut end = None;
        let mut start = 0;
        for (at, byte) in chunk.iter().enumerate() {
            if self.closed {
                break;
            }
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = self.depth > 0,
                b'{' | b'[' => {
                    if self.depth == 1 {
                        start = at;
                    }
                    self.depth += 1;
                }
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        self.closed = true;
                        end = Some(at);
                    } else if self.depth == 1 {
                        self.keep(chunk.get(start..=at).unwrap_or_default());
                        self.report(&mut found);
                    }
                }
                _ => {}
            }
        }
        if self.depth > 1 {
            self.keep(chunk.get(start..).unwrap_or_default());
        }
        end
    }

    /// How many bytes were too much to be read.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    fn keep(&mut self, part: &[u8]) {
        if self.skipping || self.element.len() + part.len() > MAX_ELEMENT {
            self.skipped += (self.element.len() + part.len()) as u64;
            self.element = Vec::new();
            self.skipping = true;
        } else {
            self.element.extend_from_slice(part);
        }
    }

    fn report(&mut self, found: &mut impl FnMut(&[u8])) {
        if !std::mem::take(&mut self.skipping) {
            found(&self.element);
        }
        self.element.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(chunks: &[&[u8]]) -> (Vec<String>, Option<(usize, usize)>) {
        let mut elements = Elements::default();
        let (mut seen, mut end) = (Vec::new(), None);
        for (number, chunk) in chunks.iter().enumerate() {
            let at = elements.feed(&Bytes::copy_from_slice(chunk), |element| {
                seen.push(String::from_utf8_lossy(element).into_owned());
            });
            end = end.or(at.map(|at| (number, at)));
        }
        (seen, end)
    }

    #[test]
    fn elements_and_the_end() {
        let (seen, end) = read(&[br#"[{"a":"}]\""}"#, b"\r\n,\r\n{\"b\":[{}]", b"}\n]\n"]);
        assert_eq!(seen, [r#"{"a":"}]\""}"#, r#"{"b":[{}]}"#]);
        assert_eq!(end, Some((2, 2)));
        assert_eq!(read(&[b"[]"]), (vec![], Some((0, 1))));
    }

    #[test]
    fn an_endless_element_is_skipped_and_counted_and_the_next_one_is_read() {
        let mut elements = Elements::default();
        let (mut seen, mut most) = (0, 0);
        let long = Bytes::from(vec![b'x'; 1 << 20]);
        for chunk in [&Bytes::from("[{\"a\":\"")].into_iter().chain([&long; 100]).chain([&Bytes::from("\"},{}]")]) {
            elements.feed(chunk, |_| seen += 1);
            most = most.max(elements.element.capacity());
        }
        assert!(most <= 2 * MAX_ELEMENT, "an element of 100 MiB took {most} bytes");
        assert_eq!((seen, elements.skipped() > 100 << 20), (1, true));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn cutting_the_stream_anywhere_changes_nothing(texts in prop::collection::vec(".{0,12}", 0..5), cuts: Vec<prop::sample::Index>) {
            let expected: Vec<String> = texts.iter().map(|text| serde_json::json!({ "t": [text] }).to_string()).collect();
            let whole = format!("[{}]", expected.join("\n,\r\n"));
            let bytes = whole.as_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let (seen, end) = read(&chunks);
            prop_assert_eq!(seen, expected);
            prop_assert!(end.is_some());
        }

        #[test]
        fn any_bytes_never_panic(chunks: Vec<Vec<u8>>) {
            read(&chunks.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    }
}
