//! The events of a streamed answer, one after the other and whole, from chunks that may be cut anywhere.

use bytes::Bytes;
use serde_json::Value;

use super::MAX_MESSAGE;

#[derive(Debug, thiserror::Error)]
#[error("an event is larger than {} MiB", MAX_MESSAGE >> 20)]
pub(super) struct TooLarge;

#[derive(Debug, Default)]
pub(super) struct Events {
    partial: Vec<u8>,
    /// The last event was cut off behind a CR. An LF that follows belongs to the same end of a line.
    after_cr: bool,
    /// Events with data that is not JSON are left out: nothing can be left out of them.
    only_json: bool,
}

impl Events {
    pub(super) fn new(only_json: bool) -> Self {
        Self { only_json, ..Self::default() }
    }

    /// What is complete now. `look` sees each message, and says whether it has changed it.
    pub(super) fn feed(&mut self, chunk: &[u8], mut look: impl FnMut(&mut Value) -> bool) -> Result<Bytes, TooLarge> {
        let rest = chunk.strip_prefix(b"\n").filter(|_| self.after_cr);
        self.after_cr &= chunk.is_empty();
        self.partial.extend_from_slice(rest.unwrap_or(chunk));
        let mut out = Vec::new();
        while let Some(end) = end_of_event(&self.partial) {
            let event: Vec<u8> = self.partial.drain(..end).collect();
            self.after_cr = self.partial.is_empty() && event.ends_with(b"\r");
            out.extend(seen(event, self.only_json, &mut look));
        }
        if self.partial.len() > MAX_MESSAGE {
            return Err(TooLarge);
        }
        Ok(out.into())
    }

    /// What is left when the stream is over. Clients differ in whether an event without an empty line behind it counts, so it is
    /// seen like the others.
    pub(super) fn rest(self, mut look: impl FnMut(&mut Value) -> bool) -> Bytes {
        if self.partial.is_empty() { Bytes::new() } else { seen(self.partial, self.only_json, &mut look).into() }
    }
}

/// Behind the empty line that ends an event. Lines end with LF, CR or both.
fn end_of_event(bytes: &[u8]) -> Option<usize> {
    let mut start = 0;
    while let Some(length) = bytes[start..].iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
        let end = start + length;
        let next = end + if bytes[end..].starts_with(b"\r\n") { 2 } else { 1 };
        if length == 0 {
            return Some(next);
        }
        start = next;
    }
    None
}

fn seen(event: Vec<u8>, only_json: bool, look: &mut impl FnMut(&mut Value) -> bool) -> Vec<u8> {
    let text = String::from_utf8_lossy(&event);
    // Clients skip a byte order mark at the beginning of the stream.
    let text = text.trim_start_matches('\u{feff}');
    let mut data = String::new();
    let mut others = String::new();
    for line in text.split(['\n', '\r']) {
        match line.strip_prefix("data:") {
            Some(value) => {
                if !data.is_empty() {
                    data.push('\n');
                }
                data.push_str(value.strip_prefix(' ').unwrap_or(value));
            }
            None if line.is_empty() => {}
            None => {
                others.push_str(line);
                others.push('\n');
            }
        }
    }
    let Ok(mut message) = serde_json::from_str::<Value>(&data) else {
        return if only_json && !data.trim().is_empty() { Vec::new() } else { event };
    };
    if look(&mut message) { format!("{others}data: {message}\n\n").into_bytes() } else { event }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_seen_whole_however_they_are_cut_and_pass_as_they_came() {
        let stream = b": hello\n\nid: 1\ndata: {\"id\":1,\ndata: \"a\":2}\n\ndata: {\"id\":2}\r\n\r\nevent: x\ndata: no json\n\ndata: {\"cut";
        for size in [1, 2, 7, stream.len()] {
            let (mut events, mut ids, mut out) = (Events::default(), Vec::new(), Vec::new());
            for chunk in stream.chunks(size) {
                let passed = events.feed(chunk, |message| {
                    ids.push(message["id"].as_u64().unwrap());
                    message["id"] == 2 && {
                        message["seen"] = true.into();
                        true
                    }
                });
                out.extend(passed.unwrap());
            }
            out.extend(events.rest(|_| panic!("an event that was cut off is no message")));
            assert_eq!(ids, [1, 2]);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(
                text,
                ": hello\n\nid: 1\ndata: {\"id\":1,\ndata: \"a\":2}\n\ndata: {\"id\":2,\"seen\":true}\n\nevent: x\ndata: no json\n\ndata: {\"cut"
            );
        }
    }

    #[test]
    fn the_last_event_is_seen_without_an_empty_line_behind_it() {
        for end in ["", "\n", "\r"] {
            let mut events = Events::default();
            let stream = format!("data: {{\"id\":1}}\n\ndata: {{\"id\":2}}{end}");
            let mut out = events.feed(stream.as_bytes(), |_| false).unwrap().to_vec();
            out.extend(events.rest(|message| {
                message["seen"] = true.into();
                true
            }));
            assert_eq!(
                String::from_utf8(out).unwrap(),
                "data: {\"id\":1}\n\ndata: {\"id\":2,\"seen\":true}\n\n",
                "{end:?}"
            );
        }
    }

    #[test]
    fn an_event_is_seen_whatever_ends_its_lines_and_behind_a_byte_order_mark() {
        for stream in [
            "data: {\"id\":\rdata: 1}\r\rdata: {\"id\":2}\r\r",
            "\u{feff}data: {\"id\":1}\n\r\ndata: {\"id\":2}\r\n\n",
            "\ndata: {\"id\":1}\n\rdata: {\"id\":2}\r\n\r",
        ] {
            for size in [1, 3, stream.len()] {
                let (mut events, mut ids) = (Events::default(), Vec::new());
                for chunk in stream.as_bytes().chunks(size) {
                    events
                        .feed(chunk, |message| {
                            ids.push(message["id"].as_u64().unwrap());
                            false
                        })
                        .unwrap();
                }
                assert_eq!(ids, [1, 2], "{stream:?} in chunks of {size}");
            }
        }
    }

    #[test]
    fn of_a_list_of_tools_only_json_passes() {
        let stream = b": hello\n\ndata: {\"id\":1}\n\ndata: {\"id\":1e999}\n\nevent: x\ndata: no json\n\ndata: {\"cut";
        let mut events = Events::new(true);
        let mut out = events.feed(stream, |_| false).unwrap().to_vec();
        out.extend(events.rest(|_| false));
        assert_eq!(String::from_utf8(out).unwrap(), ": hello\n\ndata: {\"id\":1}\n\n");
    }

    #[test]
    fn an_event_without_end_is_not_kept() {
        let mut events = Events::default();
        assert!(events.feed(&vec![b'x'; MAX_MESSAGE + 1], |_| false).is_err());
    }
}
