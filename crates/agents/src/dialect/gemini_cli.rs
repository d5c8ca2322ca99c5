//! Gemini CLI, `--output-format stream-json`: one JSON object per line.
//!
//! A message comes in pieces only, and nothing says which is the last. It is whole when another kind of line follows.

use harvest_core::{EventBody, MessageRole, OutputStream};
use serde::Deserialize;
use serde_json::Value;

use super::Verdict;

/// A message that grows beyond this is told in several.
const MOST_TEXT: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Parser {
    /// The pieces of a message so far.
    text: String,
    ended: Option<Ended>,
}

#[derive(Debug, Clone)]
enum Ended {
    Well,
    Badly(String),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    Message {
        role: MessageRole,
        content: String,
        #[serde(default)]
        delta: bool,
    },
    ToolUse {
        tool_name: String,
        tool_id: String,
        #[serde(default)]
        parameters: Value,
    },
    ToolResult {
        tool_id: String,
        status: String,
        #[serde(default)]
        output: Option<String>,
        #[serde(default)]
        error: Option<Problem>,
    },
    Error(Problem),
    Result {
        status: String,
        #[serde(default)]
        error: Option<Problem>,
    },
}

#[derive(Deserialize)]
struct Problem {
    message: String,
}

impl Parser {
    pub(super) fn parse(&mut self, stream: OutputStream, line: &[u8]) -> Vec<EventBody> {
        if stream == OutputStream::Stderr {
            return super::raw(stream, line);
        }
        let event = match serde_json::from_slice(line) {
            Ok(Line::Message { role: MessageRole::Assistant, content, delta: true }) => {
                self.text.push_str(&content);
                let piece = EventBody::MessageDelta { text: content };
                let whole = if self.text.len() > MOST_TEXT { self.whole() } else { None };
                return std::iter::once(piece).chain(whole).collect();
            }
            Ok(Line::Message { role: role @ MessageRole::Assistant, content: text, delta: false }) => {
                EventBody::Message { role, text }
            }
            Ok(Line::ToolUse { tool_name: name, tool_id: id, parameters: input }) => {
                EventBody::ToolCall { id, name, input }
            }
            Ok(Line::ToolResult { tool_id: id, status, output, error }) => {
                let output = output.or(error.map(|error| error.message)).unwrap_or_default();
                EventBody::ToolResult { id, output, is_error: status != "success" }
            }
            Ok(Line::Error(Problem { message })) => super::warning(&message),
            Ok(Line::Result { status, error }) => {
                let message = error.map_or_else(|| format!("the agent ended with `{status}`"), |error| error.message);
                self.ended = Some(if status == "success" { Ended::Well } else { Ended::Badly(message) });
                // It says what was used, and is kept for that.
                return self.whole().into_iter().chain(super::raw(stream, line)).collect();
            }
            Ok(Line::Message { role: MessageRole::User, .. }) | Err(_) => {
                return self.whole().into_iter().chain(super::raw(stream, line)).collect();
            }
        };
        self.whole().into_iter().chain([event]).collect()
    }

    /// The message that is whole now.
    fn whole(&mut self) -> Option<EventBody> {
        let text = std::mem::take(&mut self.text);
        (!text.is_empty()).then_some(EventBody::Message { role: MessageRole::Assistant, text })
    }

    /// What was told before a crash.
    pub(super) fn recall(&mut self, event: &EventBody) {
        match event {
            EventBody::MessageDelta { text } => self.text.push_str(text),
            EventBody::Message { .. } => self.text.clear(),
            EventBody::Raw { stream, line } => {
                self.parse(*stream, line.as_bytes());
            }
            _ => {}
        }
    }

    /// What the run amounted to, if it said so.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        Some(match self.ended.clone()? {
            Ended::Well => Verdict::Done,
            Ended::Badly(message) => super::gave_up(message),
        })
    }
}
