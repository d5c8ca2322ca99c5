//! What an agent tells of its work becomes events: pieces of a message that end where something else begins, calls, results.

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::conversation::{Call, CallResult, Input};
use crate::output::Output;

/// A message that grows beyond this is told in several.
const MOST_TEXT: usize = 64 * 1024;
/// A result longer than this helps nobody.
const MOST_OUTPUT: usize = 1024 * 1024;
/// Calls under way; what goes beyond is forgotten, since the agent decides how many there are.
const OPEN_CALLS: usize = 256;

pub(super) struct Story<O> {
    output: O,
    /// The pieces of a message so far.
    text: String,
    /// Calls that were told and have no result yet, with what is known of it.
    open: HashMap<String, String>,
}

impl<'o, W: Write> Story<&'o mut Output<W>> {
    pub(super) fn new(output: &'o mut Output<W>) -> Self {
        Self { output, text: String::new(), open: HashMap::new() }
    }

    /// A `session/update`, and the line it came in.
    pub(super) fn update(&mut self, params: &Value, line: &str) -> io::Result<()> {
        let update = params.get("update").unwrap_or(&Value::Null);
        match update.get("sessionUpdate").and_then(Value::as_str) {
            Some("agent_message_chunk") => match update.pointer("/content/text").and_then(Value::as_str) {
                Some(text) => self.piece(text),
                None => self.keep(line),
            },
            Some("tool_call" | "tool_call_update") => {
                self.end()?;
                match update.get("toolCallId").and_then(Value::as_str) {
                    Some(id) => self.tool(id, update),
                    None => self.keep(line),
                }
            }
            _ => self.keep(line),
        }
    }

    /// Whatever is not understood, as it came.
    pub(super) fn keep(&mut self, line: &str) -> io::Result<()> {
        self.output.as_it_came(line)
    }

    /// The message so far is whole.
    pub(super) fn end(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.text);
        if text.trim().is_empty() { Ok(()) } else { self.output.message(&text) }
    }

    fn piece(&mut self, text: &str) -> io::Result<()> {
        self.text.push_str(text);
        self.output.delta(text)?;
        if self.text.len() > MOST_TEXT { self.end() } else { Ok(()) }
    }

    fn tool(&mut self, id: &str, update: &Value) -> io::Result<()> {
        let status = update.get("status").and_then(Value::as_str).unwrap_or_default();
        let is_over = matches!(status, "completed" | "failed");
        if !self.open.contains_key(id) {
            // An update of a call that is over adds nothing.
            if update.get("sessionUpdate").is_some_and(|kind| kind == "tool_call_update") && !is_over {
                return Ok(());
            }
            if self.open.len() >= OPEN_CALLS {
                self.open.clear();
            }
            self.output.call(&call(id, update))?;
            self.open.insert(id.to_owned(), String::new());
        }
        if let Some(said) = said(update)
            && let Some(known) = self.open.get_mut(id)
        {
            *known = said;
        }
        if is_over {
            let output = self.open.remove(id).unwrap_or_default();
            self.output.result(&CallResult { id: id.to_owned(), output, is_error: status == "failed" })?;
        }
        Ok(())
    }
}

fn call(id: &str, update: &Value) -> Call {
    let field = |name: &str| update.get(name).and_then(Value::as_str);
    let mut input = match update.get("rawInput") {
        Some(Value::Object(input)) => input.clone(),
        Some(Value::Null) | None => Map::new(),
        Some(other) => Map::from_iter([("input".to_owned(), other.clone())]),
    };
    if let Some(title) = field("title") {
        input.entry("title").or_insert(json!(title));
    }
    let name = field("kind").or(field("title")).unwrap_or("tool").to_owned();
    Call { id: id.to_owned(), name, input: Input::Object(input), signature: None }
}

/// What the tool is said to have answered so far: its content, else its raw output.
fn said(update: &Value) -> Option<String> {
    let content = update.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let texts = content.iter().filter_map(|item| match item.get("type")?.as_str()? {
        "content" => item.pointer("/content/text")?.as_str().map(str::to_owned),
        "diff" => Some(format!("changed {}", item.get("path")?.as_str()?)),
        "terminal" => Some(format!("in terminal {}", item.get("terminalId")?.as_str()?)),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    let text = match (text.is_empty(), update.get("rawOutput")) {
        (false, _) => text,
        (true, Some(Value::String(raw))) => raw.clone(),
        (true, Some(raw)) if !raw.is_null() => raw.to_string(),
        (true, _) => return None,
    };
    Some(text.chars().take(MOST_OUTPUT).collect())
}
