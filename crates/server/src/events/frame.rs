//! An event as bytes, made once for everyone.

use bytes::Bytes;
use harvest_core::Event;

/// Cheap to clone: all clones are the same bytes.
#[derive(Debug, Clone)]
pub struct Frame {
    pub seq: u64,
    /// The whole `id`, `event` and `data` lines of a server-sent event.
    sse: Bytes,
    /// Where in it the JSON is.
    json: std::ops::Range<usize>,
}

impl Frame {
    pub fn of(event: &Event) -> Self {
        let mut text = format!("id: {}\nevent: {}\ndata: ", event.seq, event.body.kind()).into_bytes();
        let begin = text.len();
        // An event was JSON before it got here; and JSON has no line breaks of its own.
        if serde_json::to_writer(&mut text, event).is_err() {
            text.truncate(begin);
            text.extend_from_slice(b"{}");
        }
        let json = begin..text.len();
        text.extend_from_slice(b"\n\n");
        Self { seq: event.seq, sse: text.into(), json }
    }

    pub fn sse(&self) -> Bytes {
        self.sse.clone()
    }

    pub fn json(&self) -> Bytes {
        self.sse.slice(self.json.clone())
    }
}
