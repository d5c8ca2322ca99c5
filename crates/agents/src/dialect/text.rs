//! Agents that print plain text: every line on standard output is a message, everything on standard error is kept raw.

use harvest_core::{EventBody, MessageRole, OutputStream};

pub(super) fn parse(stream: OutputStream, line: &[u8]) -> Vec<EventBody> {
    match stream {
        OutputStream::Stdout => {
            vec![EventBody::Message { role: MessageRole::Assistant, text: String::from_utf8_lossy(line).into_owned() }]
        }
        OutputStream::Stderr => super::raw(stream, line),
    }
}
