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
    /// Calls that have no result yet.
    open: HashMap<String, Known>,
}

/// What is known of a call so far; it is told piece by piece.
#[derive(Default)]
struct Known {
    kind: Option<String>,
    title: Option<String>,
    input: Option<Value>,
    output: String,
    told: bool,
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

    /// The agent asks whether it may make a call; by then all of it is known.
    pub(super) fn asks(&mut self, params: &Value) -> io::Result<()> {
        self.end()?;
        let Some(call) = params.get("toolCall") else { return Ok(()) };
        let Some(id) = call.get("toolCallId").and_then(Value::as_str) else { return Ok(()) };
        let known = self.open.entry(id.to_owned()).or_default();
        known.learn(call);
        if !std::mem::replace(&mut known.told, true) {
            self.output.call(&known.call(id))?;
        }
        Ok(())
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
        }
        let is_first = !self.open.contains_key(id);
        let known = self.open.entry(id.to_owned()).or_default();
        known.learn(update);
        // Some begin with no input or half of it, and tell the rest before they start.
        let awaits_more = known.awaits_input() || (is_first && status == "pending");
        if !known.told && (is_over || !awaits_more) {
            known.told = true;
            self.output.call(&known.call(id))?;
        }
        if is_over {
            let output = self.open.remove(id).map(|known| known.output).unwrap_or_default();
            self.output.result(&CallResult { id: id.to_owned(), output, is_error: status == "failed" })?;
        }
        Ok(())
    }
}

impl Known {
    fn learn(&mut self, update: &Value) {
        let field = |name: &str| update.get(name).and_then(Value::as_str).map(str::to_owned);
        self.kind = field("kind").or(self.kind.take());
        self.title = field("title").or(self.title.take());
        self.input = update.get("rawInput").filter(|input| !input.is_null()).cloned().or(self.input.take());
        if let Some(said) = said(update) {
            self.output = said;
        }
    }

    fn awaits_input(&self) -> bool {
        self.input.as_ref().and_then(Value::as_object).is_some_and(Map::is_empty)
    }

    fn call(&self, id: &str) -> Call {
        let mut input = match &self.input {
            Some(Value::Object(input)) => input.clone(),
            Some(other) => Map::from_iter([("input".to_owned(), other.clone())]),
            None => Map::new(),
        };
        if let Some(title) = &self.title {
            input.entry("title").or_insert(json!(title));
        }
        let name = self.kind.as_ref().or(self.title.as_ref()).map_or("tool", String::as_str).to_owned();
        Call { id: id.to_owned(), name, input: Input::Object(input), signature: None }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn told(updates: &[Value]) -> Vec<Value> {
        let mut bytes = Vec::new();
        let mut output = Output::new(&mut bytes);
        let mut story = Story::new(&mut output);
        for update in updates {
            story.update(&json!({ "update": update }), &json!({ "line": update }).to_string()).unwrap();
        }
        story.end().unwrap();
        let lines = String::from_utf8(bytes).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_message_ends_where_a_call_begins() {
        let piece =
            |text: &str| json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": "1", "kind": "execute", "title": "ls"});
        let told = told(&[piece("One "), piece("two"), call, piece("Three")]);
        let kinds: Vec<&Value> = told.iter().map(|event| &event["type"]).collect();
        assert_eq!(kinds, ["message.delta", "message.delta", "message", "tool.call", "message.delta", "message"]);
        assert_eq!((&told[2]["data"]["text"], &told[3]["data"]["input"]), (&json!("One two"), &json!({"title": "ls"})));
    }

    #[test]
    fn a_call_is_told_when_its_input_is_known() {
        let told = told(&[
            json!({"sessionUpdate": "tool_call", "toolCallId": "1", "kind": "execute", "title": "Terminal", "rawInput": {}}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "title": "ls", "rawInput": {"command": "ls"}}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed",
                "content": [{"type": "content", "content": {"type": "text", "text": "a"}}, {"type": "diff", "path": "b"}]}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "in_progress"}),
            json!({"sessionUpdate": "tool_call", "toolCallId": "2", "status": "pending", "rawInput": {"cwd": "/"}}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "2", "status": "in_progress", "rawInput": {"command": "x"}}),
        ]);
        let call = json!({"id": "1", "name": "execute", "input": {"command": "ls", "title": "ls"}});
        let result = json!({"id": "1", "output": "a\nchanged b", "is_error": false});
        let second = json!({"id": "2", "name": "tool", "input": {"command": "x"}});
        assert_eq!(told.iter().map(|event| &event["data"]).collect::<Vec<_>>(), [&call, &result, &second]);
    }

    #[test]
    fn what_is_not_understood_is_kept() {
        let plan = json!({"sessionUpdate": "plan", "entries": []});
        assert_eq!(told(std::slice::from_ref(&plan)), [json!({ "line": plan })]);
    }
}
