//! The built-in agent prints events as Harvest journals them, one JSON object per line, and two words of its own:
//! `agent.error` before it gives up and `agent.done` when the model ended its turn.
//!
//! Only what an agent may speak about is taken over: its messages and its tools. A line that claims anything else, or
//! carries more than is known here, stays `raw`, so that nothing can be forged and nothing is lost.

use harvest_core::{EventBody, FailureReason, MessageRole, OutputStream};
use serde::Deserialize;
use serde_json::Value;

use super::Verdict;

#[derive(Debug, Default)]
pub(super) struct Parser {
    error: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(tag = "type", content = "data", deny_unknown_fields)]
enum Line {
    #[serde(rename = "message")]
    Message(Message),
    #[serde(rename = "message.delta")]
    MessageDelta(Delta),
    #[serde(rename = "tool.call")]
    ToolCall(ToolCall),
    #[serde(rename = "tool.result")]
    ToolResult(ToolResult),
    #[serde(rename = "agent.error")]
    Error(Failure),
    #[serde(rename = "agent.done")]
    Done(#[expect(dead_code, reason = "read only to refuse a line that says more than this")] Done),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    role: MessageRole,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delta {
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolCall {
    id: String,
    name: String,
    input: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolResult {
    id: String,
    output: String,
    is_error: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    kind: FailureKind,
    message: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FailureKind {
    ModelQuota,
    Model,
    Turns,
    Internal,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Done {
    #[serde(rename = "turns")]
    _turns: u32,
}

impl Parser {
    pub(super) fn parse(&mut self, stream: OutputStream, line: &[u8]) -> Vec<EventBody> {
        if stream == OutputStream::Stderr {
            return super::raw(stream, line);
        }
        match serde_json::from_slice(line) {
            Ok(Line::Message(Message { role: role @ MessageRole::Assistant, text })) => {
                vec![EventBody::Message { role, text }]
            }
            Ok(Line::MessageDelta(Delta { text })) => vec![EventBody::MessageDelta { text }],
            Ok(Line::ToolCall(ToolCall { id, name, input })) => {
                vec![EventBody::ToolCall { id, name, input }]
            }
            Ok(Line::ToolResult(ToolResult { id, output, is_error })) => {
                vec![EventBody::ToolResult { id, output, is_error }]
            }
            Ok(Line::Error(failure)) => {
                self.error.get_or_insert(failure);
                super::raw(stream, line)
            }
            Ok(Line::Done(_)) => Vec::new(),
            Ok(Line::Message(Message { role: MessageRole::User, .. })) | Err(_) => super::raw(stream, line),
        }
    }

    pub(super) fn failure(&self) -> Option<Verdict> {
        self.error.as_ref().map(|failure| Verdict::Failed {
            reason: match failure.kind {
                FailureKind::ModelQuota => FailureReason::ModelQuota,
                FailureKind::Turns => FailureReason::Turns,
                FailureKind::Model | FailureKind::Internal => FailureReason::Agent,
            },
            message: failure.message.clone(),
        })
    }
}
