//! Codex CLI, `codex exec --json`: one event per line, about items that start, change and complete.

use std::borrow::Cow;
use std::collections::HashSet;

use harvest_core::{EventBody, MessageRole, OutputStream};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Verdict;

#[derive(Debug, Default)]
pub(super) struct Parser {
    /// Items whose start was told, so that their end is only the result.
    begun: HashSet<String>,
    failure: Option<String>,
    completed: bool,
}

/// Of whatever kind the line is; see the dialect of Claude Code for why it is flat.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    item: Option<Item<'a>>,
    #[serde(default)]
    error: Option<Problem>,
    #[serde(default)]
    message: Option<String>,
}

#[derive(Deserialize)]
struct Problem {
    message: String,
}

#[derive(Deserialize)]
struct Item<'a> {
    id: String,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    aggregated_output: Option<String>,
    #[serde(default)]
    exit_code: Option<i64>,
    #[serde(default)]
    changes: Option<Value>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    server: Option<String>,
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

impl Parser {
    pub(super) fn parse(&mut self, stream: OutputStream, line: &[u8]) -> Vec<EventBody> {
        if stream == OutputStream::Stderr {
            return super::raw(stream, line);
        }
        let Ok(read) = serde_json::from_slice::<Line<'_>>(line) else { return super::raw(stream, line) };
        let events = match (&*read.kind.clone(), read) {
            ("item.started", Line { item: Some(item), .. }) => {
                let call = item.call();
                if call.is_some() {
                    self.begun.insert(item.id);
                }
                call.into_iter().collect()
            }
            ("item.completed", Line { item: Some(item), .. }) => {
                let call = if self.begun.remove(&item.id) { None } else { item.call() };
                call.into_iter().chain(item.end()).collect()
            }
            // A notice that something is tried again; what ends a turn is `turn.failed`.
            ("error", Line { message: Some(message), .. }) => vec![super::warning(&message)],
            ("turn.completed", _) => {
                self.completed = true;
                Vec::new()
            }
            ("turn.failed", Line { error: Some(error), .. }) => {
                self.failure = Some(error.message);
                Vec::new()
            }
            _ => Vec::new(),
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

impl Item<'_> {
    /// The call that begins with this item.
    fn call(&self) -> Option<EventBody> {
        let (name, input) = match &*self.kind {
            "command_execution" => ("shell".to_owned(), json!({ "command": self.command.as_ref()? })),
            "file_change" => ("apply_patch".to_owned(), json!({ "changes": self.changes.as_ref()? })),
            "mcp_tool_call" => {
                let name = format!("{}.{}", self.server.as_ref()?, self.tool.as_ref()?);
                (name, self.arguments.clone().unwrap_or_default())
            }
            _ => return None,
        };
        Some(EventBody::ToolCall { id: self.id.clone(), name, input })
    }

    /// What came of it.
    fn end(self) -> Option<EventBody> {
        let id = self.id;
        Some(match &*self.kind {
            "agent_message" => EventBody::Message { role: MessageRole::Assistant, text: self.text? },
            "command_execution" => {
                let output = self.aggregated_output.unwrap_or_default();
                EventBody::ToolResult { id, output, is_error: self.exit_code != Some(0) }
            }
            "file_change" => {
                let status = self.status?;
                EventBody::ToolResult { id, is_error: status != "completed", output: status }
            }
            "mcp_tool_call" => {
                let (is_error, told) = (self.error.is_some(), self.error.or(self.result));
                EventBody::ToolResult { id, output: told.map_or("null", RawValue::get).to_owned(), is_error }
            }
            "error" => super::warning(&self.message?),
            _ => return None,
        })
    }
}
