//! OpenCode, `opencode run --format json`: one JSON object per line, each about a part that is complete.

use harvest_core::{EventBody, MessageRole, OutputStream};
use serde::Deserialize;
use serde_json::Value;

use super::Verdict;

#[derive(Debug, Default)]
pub(super) struct Parser {
    /// What it last complained of; whatever comes after shows that it went on.
    failure: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    Text { part: Text },
    ToolUse { part: Tool },
    Error { error: Problem },
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

#[derive(Deserialize)]
struct Tool {
    #[serde(rename = "callID")]
    id: String,
    tool: String,
    state: State,
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
        match serde_json::from_slice(line) {
            Ok(Line::Text { part: Text { text } }) => {
                self.failure = None;
                vec![EventBody::Message { role: MessageRole::Assistant, text }]
            }
            Ok(Line::ToolUse { part: Tool { id, tool: name, state } }) => {
                self.failure = None;
                let is_error = state.status != "completed" || state.metadata.exit.is_some_and(|code| code != 0);
                let output = state.output.or(state.error).unwrap_or_default();
                let call = EventBody::ToolCall { id: id.clone(), name, input: state.input };
                vec![call, EventBody::ToolResult { id, output, is_error }]
            }
            Ok(Line::Error { error: Problem { name, data } }) => {
                let status = data.status.map(|status| format!(" ({status})")).unwrap_or_default();
                self.failure = Some(format!("{}{status}", data.message.unwrap_or(name)));
                super::raw(stream, line)
            }
            Err(_) => super::raw(stream, line),
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
