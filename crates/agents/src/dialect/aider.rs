//! Aider prints plain text, and ends with exit code 0 whatever the model's vendor said. So its words are read for that.

use harvest_core::{EventBody, OutputStream};

use super::{Verdict, text};

#[derive(Debug, Default)]
pub(super) struct Parser {
    /// What the model's vendor last refused; an answer since then takes it back.
    refusal: Option<String>,
}

impl Parser {
    pub(super) fn parse(&mut self, stream: OutputStream, line: &[u8]) -> Vec<EventBody> {
        let events = text::parse(stream, line);
        events.iter().for_each(|event| self.recall(event));
        events
    }

    /// The events hold all that is read.
    pub(super) fn recall(&mut self, event: &EventBody) {
        let EventBody::Message { text, .. } = event else { return };
        if text.starts_with("litellm.") && text.contains("Error") {
            self.refusal = Some(text.clone());
        } else if text.starts_with("Tokens: ") {
            self.refusal = None;
        }
    }

    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.refusal.clone().map(super::gave_up)
    }
}
