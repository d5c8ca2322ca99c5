//! OpenCode, `opencode run --format json`: one JSON object per line, each about a part that is complete.

use std::borrow::Cow;

use harvest_core::{EventBody, MessageRole, OutputStream};
use serde::Deserialize;
use serde_json::Value;

use super::Verdict;

#[derive(Debug, Default)]
pub(super) struct Parser {
    /// What it last complained of; whatever comes after shows that it went on.
    failure: Option<String>,
}

/// Of whatever kind the line is; see the dialect of Claude Code for why it is flat.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    part: Option<Part>,
    #[serde(default)]
    error: Option<Problem>,
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: Option<String>,
    #[serde(default, rename = "callID")]
    id: Option<String>,
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    state: Option<State>,
}

#[derive(Deserialize)]
struct State {
    status: String,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    output: Option<String>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    /// Of a shell command.
    #[serde(default)]
    exit: Option<i64>,
}

#[derive(Deserialize)]
struct Problem {
    #[serde(default)]
    name: String,
    #[serde(default)]
    data: Details,
}

#[derive(Default, Deserialize)]
struct Details {
    #[serde(default)]
    message: Option<String>,
    #[serde(default, rename = "statusCode")]
    status: Option<u64>,
}

impl Parser {
    pub(super) fn parse(&mut self, stream: OutputStream, line: &[u8]) -> Vec<EventBody> {
        if stream == OutputStream::Stderr {
            return super::raw(stream, line);
        }
        let events = serde_json::from_slice(line).ok().and_then(|line| self.read(line));
        events.unwrap_or_else(|| super::raw(stream, line))
    }

    /// The events in a line; `None` when it is to be kept as it came.
    fn read(&mut self, line: Line<'_>) -> Option<Vec<EventBody>> {
        match (&*line.kind, line.part, line.error) {
            ("text", Some(Part { text: Some(text), .. }), _) => {
                self.failure = None;
                Some(vec![EventBody::Message { role: MessageRole::Assistant, text }])
            }
            ("tool_use", Some(Part { id: Some(id), tool: Some(name), state: Some(state), .. }), _) => {
                self.failure = None;
                let is_error = state.status != "completed" || state.metadata.exit.is_some_and(|code| code != 0);
                let output = state.output.or(state.error).unwrap_or_default();
                let call = EventBody::ToolCall { id: id.clone(), name, input: state.input };
                Some(vec![call, EventBody::ToolResult { id, output, is_error }])
            }
            ("error", _, Some(Problem { name, data })) => {
                let status = data.status.map(|status| format!(" ({status})")).unwrap_or_default();
                self.failure = Some(format!("{}{status}", data.message.unwrap_or(name)));
                None
            }
            _ => None,
        }
    }

    /// What was told before a crash.
    pub(super) fn recall(&mut self, event: &EventBody) {
        match event {
            EventBody::Message { .. } | EventBody::ToolCall { .. } => self.failure = None,
            EventBody::Raw { stream, line } => {
                self.parse(*stream, line.as_bytes());
            }
            _ => {}
        }
    }

    /// Only a failure is said; that all went well, the exit code tells.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.failure.clone().map(super::gave_up)
    }
}
