//! Gemini CLI, `--output-format stream-json`: one JSON object per line.
//!
//! A message comes in pieces only, and nothing says which is the last. It is whole when another kind of line follows.

use std::borrow::Cow;

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

/// Of whatever kind the line is; see the dialect of Claude Code for why it is flat.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    role: Option<MessageRole>,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    delta: bool,
    #[serde(default)]
    tool_name: Option<String>,
    #[serde(default)]
    tool_id: Option<String>,
    #[serde(default)]
    parameters: Option<Value>,
    #[serde(default, borrow)]
    status: Option<Cow<'a, str>>,
    #[serde(default)]
    output: Option<String>,
    #[serde(default)]
    error: Option<Problem>,
    #[serde(default)]
    message: Option<String>,
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
        let Some(event) = self.read(line) else {
            return self.whole().into_iter().chain(super::raw(stream, line)).collect();
        };
        if let EventBody::MessageDelta { text } = &event {
            self.text.push_str(text);
            let whole = if self.text.len() > MOST_TEXT { self.whole() } else { None };
            return std::iter::once(event).chain(whole).collect();
        }
        self.whole().into_iter().chain([event]).collect()
    }

    /// The event in a line; `None` when it is to be kept as it came. That includes the last: it says what was used.
    fn read(&mut self, line: &[u8]) -> Option<EventBody> {
        let line: Line<'_> = serde_json::from_slice(line).ok()?;
        Some(match &*line.kind {
            "message" => {
                let role = line.role.filter(|role| *role == MessageRole::Assistant)?;
                let text = line.content?;
                if line.delta { EventBody::MessageDelta { text } } else { EventBody::Message { role, text } }
            }
            "tool_use" => EventBody::ToolCall {
                id: line.tool_id?,
                name: line.tool_name?,
                input: line.parameters.unwrap_or_default(),
            },
            "tool_result" => {
                let output = line.output.or(line.error.map(|error| error.message)).unwrap_or_default();
                EventBody::ToolResult { id: line.tool_id?, output, is_error: line.status? != "success" }
            }
            "error" => super::warning(&line.message?),
            "result" => {
                let status = line.status?;
                let message =
                    line.error.map_or_else(|| format!("the agent ended with `{status}`"), |error| error.message);
                self.ended = Some(if status == "success" { Ended::Well } else { Ended::Badly(message) });
                return None;
            }
            _ => return None,
        })
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
