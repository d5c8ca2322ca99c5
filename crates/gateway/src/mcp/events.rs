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
}

impl Events {
    /// What is complete now. `look` sees each message, and says whether it has changed it.
    pub(super) fn feed(&mut self, chunk: &[u8], mut look: impl FnMut(&mut Value) -> bool) -> Result<Bytes, TooLarge> {
        self.partial.extend_from_slice(chunk);
        let mut out = Vec::new();
        while let Some(end) = end_of_event(&self.partial) {
            let event: Vec<u8> = self.partial.drain(..end).collect();
            out.extend(seen(event, &mut look));
        }
        if self.partial.len() > MAX_MESSAGE {
            return Err(TooLarge);
        }
        Ok(out.into())
    }

    /// What is left when the stream is over. An event that was cut off counts for nobody.
    pub(super) fn rest(self) -> Bytes {
        self.partial.into()
    }
}

/// Behind the empty line that ends an event.
fn end_of_event(bytes: &[u8]) -> Option<usize> {
    let ends: [&[u8]; 3] = [b"\n\n", b"\r\n\r\n", b"\r\r"];
    let found = ends.iter().filter_map(|end| {
        bytes.windows(end.len()).position(|window| window == *end).map(|position| position + end.len())
    });
    found.min()
}

fn seen(event: Vec<u8>, look: &mut impl FnMut(&mut Value) -> bool) -> Vec<u8> {
    let text = String::from_utf8_lossy(&event);
    let mut data = String::new();
    let mut others = String::new();
    for line in text.lines() {
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
    let Ok(mut message) = serde_json::from_str::<Value>(&data) else { return event };
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
            out.extend(events.rest());
            assert_eq!(ids, [1, 2]);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(
                text,
                ": hello\n\nid: 1\ndata: {\"id\":1,\ndata: \"a\":2}\n\ndata: {\"id\":2,\"seen\":true}\n\nevent: x\ndata: no json\n\ndata: {\"cut"
            );
        }
    }

    #[test]
    fn an_event_without_end_is_not_kept() {
        let mut events = Events::default();
        assert!(events.feed(&vec![b'x'; MAX_MESSAGE + 1], |_| false).is_err());
    }
}
