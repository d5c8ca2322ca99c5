//! Server-sent events: the lines of a streamed answer become the `data` of one event after the other.

use std::io::{self, BufRead, Read};

/// A line longer than this is not a model's answer.
const MAX_LINE: u64 = 32 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Events<R> {
    reader: R,
}

impl<R: BufRead> Events<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader }
    }

    /// The `data` of the next event, or `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> io::Result<Option<String>> {
        let mut data: Option<String> = None;
        loop {
            let mut line = Vec::new();
            let read = (&mut self.reader).take(MAX_LINE).read_until(b'\n', &mut line)?;
            if line.len() as u64 == MAX_LINE {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "an event is larger than 32 MB"));
            }
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            if let Some(value) = line.strip_prefix("data:") {
                let value = value.strip_prefix(' ').unwrap_or(value);
                match &mut data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    None => data = Some(value.to_owned()),
                }
            }
            if read == 0 || (line.is_empty() && data.is_some()) {
                return Ok(data);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_all_kinds() {
        let stream = b"event: a\ndata: one\n\n: comment\n\n\r\ndata:two\r\ndata: three\r\n\r\ndata: last";
        let mut events = Events::new(&stream[..]);
        let mut all = Vec::new();
        while let Some(data) = events.next().unwrap() {
            all.push(data);
        }
        assert_eq!(all, ["one", "two\nthree", "last"]);
    }
}
