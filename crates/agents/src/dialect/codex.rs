//! Codex CLI, `codex exec --json`: one event per line, about items that start, change and complete.

use std::collections::HashSet;

use harvest_core::{EventBody, MessageRole, OutputStream};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Verdict;

#[derive(Debug, Default)]
pub(super) struct Parser {
    /// Items whose start was told, so that their end is only the result.
    begun: HashSet<String>,
    failure: Option<String>,
    completed: bool,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Line {
    #[serde(rename = "item.started")]
    Started { item: Item },
    #[serde(rename = "item.completed")]
    Completed { item: Item },
    #[serde(rename = "turn.completed")]
    TurnCompleted {},
    #[serde(rename = "turn.failed")]
    TurnFailed { error: Problem },
    /// A notice that something is tried again; what ends a turn is `turn.failed`.
    #[serde(rename = "error")]
    Notice(Problem),
}

#[derive(Deserialize)]
struct Problem {
    message: String,
}

#[derive(Deserialize)]
struct Item {
    id: String,
    #[serde(flatten)]
    what: What,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum What {
    AgentMessage {
        text: String,
    },
    CommandExecution {
        command: String,
        #[serde(default)]
        aggregated_output: String,
        #[serde(default)]
        exit_code: Option<i64>,
    },
    FileChange {
        changes: Value,
        status: String,
    },
    McpToolCall {
        server: String,
        tool: String,
        #[serde(default)]
        arguments: Value,
        #[serde(default)]
        result: Value,
        #[serde(default)]
        error: Value,
    },
    Error {
        message: String,
    },
    #[serde(other)]
    Other,
}

impl Parser {
    pub(super) fn parse(&mut self, stream: OutputStream, line: &[u8]) -> Vec<EventBody> {
        if stream == OutputStream::Stderr {
            return super::raw(stream, line);
        }
        let events = match serde_json::from_slice(line) {
            Ok(Line::Started { item }) => {
                let call = item.what.call(&item.id);
                if call.is_some() {
                    self.begun.insert(item.id);
                }
                call.into_iter().collect()
            }
            Ok(Line::Completed { item }) => {
                let call = if self.begun.remove(&item.id) { None } else { item.what.call(&item.id) };
                call.into_iter().chain(item.what.end(item.id)).collect()
            }
            Ok(Line::Notice(Problem { message })) => vec![super::warning(&message)],
            Ok(Line::TurnCompleted {}) => {
                self.completed = true;
                Vec::new()
            }
            Ok(Line::TurnFailed { error }) => {
                self.failure = Some(error.message);
                Vec::new()
            }
            Err(_) => Vec::new(),
        };
        // What is not understood in full is kept as it came.
        if events.is_empty() { super::raw(stream, line) } else { events }
    }

    /// A call that was told before a crash.
    pub(super) fn recall(&mut self, event: &EventBody) {
        match event {
            EventBody::ToolCall { id, .. } => {
                self.begun.insert(id.clone());
            }
            EventBody::ToolResult { id, .. } => {
                self.begun.remove(id);
            }
            EventBody::Raw { stream, line } => {
                self.parse(*stream, line.as_bytes());
            }
            _ => {}
        }
    }

    /// What the run amounted to, if it said so.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        let Some(message) = &self.failure else { return self.completed.then_some(Verdict::Done) };
        Some(super::gave_up(message.clone()))
    }
}

impl What {
    /// The call that begins with this item.
    fn call(&self, id: &str) -> Option<EventBody> {
        let (name, input) = match self {
            Self::CommandExecution { command, .. } => ("shell".to_owned(), json!({ "command": command })),
            Self::FileChange { changes, .. } => ("apply_patch".to_owned(), json!({ "changes": changes })),
            Self::McpToolCall { server, tool, arguments, .. } => (format!("{server}.{tool}"), arguments.clone()),
            Self::AgentMessage { .. } | Self::Error { .. } | Self::Other => return None,
        };
        Some(EventBody::ToolCall { id: id.to_owned(), name, input })
    }

    /// What came of it.
    fn end(self, id: String) -> Option<EventBody> {
        Some(match self {
            Self::AgentMessage { text } => EventBody::Message { role: MessageRole::Assistant, text },
            Self::CommandExecution { aggregated_output: output, exit_code, .. } => {
                EventBody::ToolResult { id, output, is_error: exit_code != Some(0) }
            }
            Self::FileChange { status, .. } => {
                EventBody::ToolResult { id, is_error: status != "completed", output: status }
            }
            Self::McpToolCall { result, error, .. } => {
                let is_error = !error.is_null();
                EventBody::ToolResult { id, output: if is_error { error } else { result }.to_string(), is_error }
            }
            Self::Error { message } => super::warning(&message),
            Self::Other => return None,
        })
    }
}
