//! Claude Code in `stream-json`: one JSON object per line.
//!
//! A message comes one block at a time, each in a line of its own with the id of the whole, and with partial messages also in
//! pieces before that. Of the pieces only text is shown; everything in them comes again, whole. A `status` says that something
//! is under way, which the next line shows. The last line is the `result`.

use harvest_core::{EventBody, FailureReason, MessageRole, OutputStream};
use serde::Deserialize;
use serde_json::Value;

use super::Verdict;

#[derive(Debug, Default)]
pub(super) struct Parser {
    /// What the model's vendor refused a message for.
    refusal: Option<String>,
    ended: Option<Ended>,
}

/// What the last line says.
#[derive(Debug, Clone, PartialEq)]
enum Ended {
    Well,
    Badly { message: String },
}

/// The parts that mean something here. The order of keys is not fixed, and there may be others.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    Assistant {
        message: Message,
        #[serde(default)]
        error: Option<String>,
    },
    User {
        message: Message,
    },
    StreamEvent {
        event: Piece,
    },
    Result(Outcome),
    System(System),
}

#[derive(Deserialize)]
struct Message {
    content: Content,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Blocks(Vec<Block>),
    Text(#[expect(dead_code, reason = "a prompt that is repeated; it is kept as it came")] String),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(default)]
        content: Value,
        #[serde(default)]
        is_error: bool,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Piece {
    #[serde(default)]
    delta: Option<Delta>,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    text: Option<String>,
}

#[derive(Deserialize)]
struct Outcome {
    subtype: String,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    result: Option<String>,
    #[serde(default)]
    errors: Vec<String>,
}

#[derive(Deserialize)]
struct System {
    subtype: String,
    #[serde(default)]
    attempt: Option<u64>,
    #[serde(default)]
    max_retries: Option<u64>,
    #[serde(default)]
    error_status: Option<u64>,
    #[serde(default)]
    error: Option<String>,
}

impl Parser {
    pub(super) fn parse(&mut self, stream: OutputStream, line: &[u8]) -> Vec<EventBody> {
        if stream == OutputStream::Stderr {
            return super::raw(stream, line);
        }
        let events = match serde_json::from_slice(line) {
            Ok(Line::StreamEvent { event }) => {
                let text = event.delta.and_then(|delta| delta.text).filter(|text| !text.is_empty());
                return text.map(|text| EventBody::MessageDelta { text }).into_iter().collect();
            }
            Ok(Line::Assistant { message, error }) => {
                self.refusal = error.or(self.refusal.take());
                said(message)
            }
            Ok(Line::User { message }) => returned(message),
            Ok(Line::Result(outcome)) => {
                self.ended = Some(outcome.ended());
                Vec::new()
            }
            Ok(Line::System(system)) if system.subtype == "status" => return Vec::new(),
            Ok(Line::System(system)) => system.warning().into_iter().collect(),
            Err(_) => Vec::new(),
        };
        // What is not understood in full is kept as it came.
        if events.is_empty() { super::raw(stream, line) } else { events }
    }

    /// What the run amounted to, if it said so.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        Some(match self.ended.as_ref()? {
            Ended::Well => Verdict::Done,
            Ended::Badly { message } => {
                let quota = ["rate_limit", "billing_error", "overloaded"];
                let refused = self.refusal.as_deref().is_some_and(|refusal| quota.contains(&refusal));
                // Some refusals have no name of their own there.
                let refused = refused || ["API Error: 402", "API Error: 429"].iter().any(|sign| message.contains(sign));
                let reason = if refused { FailureReason::ModelQuota } else { FailureReason::Agent };
                Verdict::Failed { reason, message: message.clone() }
            }
        })
    }
}

fn said(message: Message) -> Vec<EventBody> {
    let Content::Blocks(blocks) = message.content else { return Vec::new() };
    let event = |block| match block {
        Block::Text { text } => Some(EventBody::Message { role: MessageRole::Assistant, text }),
        Block::ToolUse { id, name, input } => Some(EventBody::ToolCall { id, name, input }),
        Block::ToolResult { .. } | Block::Other => None,
    };
    blocks.into_iter().map(event).collect::<Option<_>>().unwrap_or_default()
}

fn returned(message: Message) -> Vec<EventBody> {
    let Content::Blocks(blocks) = message.content else { return Vec::new() };
    let event = |block| match block {
        Block::ToolResult { tool_use_id: id, content, is_error } => {
            Some(EventBody::ToolResult { id, output: text_of(content), is_error })
        }
        Block::Text { .. } | Block::ToolUse { .. } | Block::Other => None,
    };
    blocks.into_iter().map(event).collect::<Option<_>>().unwrap_or_default()
}

/// A result is a text, or a list of blocks of which some have one.
fn text_of(content: Value) -> String {
    match content {
        Value::String(text) => text,
        Value::Array(blocks) => {
            let texts = blocks.iter().map(|block| block.get("text").and_then(Value::as_str).unwrap_or("[not a text]"));
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

impl Outcome {
    fn ended(self) -> Ended {
        if self.subtype == "success" && !self.is_error {
            return Ended::Well;
        }
        let said = match self.errors.is_empty() {
            true => self.result.unwrap_or_default(),
            false => self.errors.join("; "),
        };
        let what = match self.subtype.as_str() {
            "error_max_turns" => "the agent used up its turns",
            "error_max_budget_usd" => "the agent reached the budget it was given",
            _ => "the agent gave up",
        };
        Ended::Badly { message: if said.is_empty() { what.to_owned() } else { format!("{what}: {said}") } }
    }
}

impl System {
    /// A model that does not answer looks like silence, so it is told.
    fn warning(self) -> Option<EventBody> {
        if self.subtype != "api_retry" {
            return None;
        }
        let number = |number: Option<u64>| number.map_or("?".to_owned(), |number| number.to_string());
        let why = match (self.error_status, self.error) {
            (Some(status), Some(error)) => format!("{status}, {error}"),
            (Some(status), None) => status.to_string(),
            (None, Some(error)) => error,
            (None, None) => "no answer".to_owned(),
        };
        let (attempt, most) = (number(self.attempt), number(self.max_retries));
        Some(EventBody::Warning { message: format!("the agent asks the model again ({why}): {attempt} of {most}") })
    }
}
