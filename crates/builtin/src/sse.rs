//! The lines of a streamed answer become one event after the other: the `data` of server-sent events, or a line each.

use std::io::{self, BufRead, Read};

use crate::wire::Framing;

/// A line longer than this is not a model's answer.
const MAX_LINE: u64 = 32 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Events<R> {
    reader: R,
    framing: Framing,
}

impl<R: BufRead> Events<R> {
    pub(crate) fn new(reader: R, framing: Framing) -> Self {
        Self { reader, framing }
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
            if self.framing == Framing::Lines {
                match (read, line.is_empty()) {
                    (0, _) => return Ok(None),
                    (_, true) => continue,
                    (_, false) => return Ok(Some(line.to_owned())),
                }
            }
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

    fn read(stream: &[u8], framing: Framing) -> Vec<String> {
        let mut events = Events::new(stream, framing);
        std::iter::from_fn(|| events.next().unwrap()).collect()
    }

    #[test]
    fn events_of_all_kinds() {
        let stream = b"event: a\ndata: one\n\n: comment\n\n\r\ndata:two\r\ndata: three\r\n\r\ndata: last";
        assert_eq!(read(stream, Framing::Events), ["one", "two\nthree", "last"]);
        assert_eq!(read(b"{\"a\":1}\r\n\n{}\nlast", Framing::Lines), ["{\"a\":1}", "{}", "last"]);
    }
}
