//! What goes to standard output: one event per line, flushed, in the shapes Harvest journals.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use crate::conversation::{Call, CallResult};

/// Why the agent gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErrorKind {
    ModelQuota,
    Model,
    Turns,
    Internal,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", content = "data")]
enum Event<'a> {
    #[serde(rename = "message")]
    Message { role: &'static str, text: &'a str },
    #[serde(rename = "message.delta")]
    MessageDelta { text: &'a str },
    #[serde(rename = "tool.call")]
    ToolCall { id: &'a str, name: &'a str, input: &'a Value },
    #[serde(rename = "tool.result")]
    ToolResult { id: &'a str, output: &'a str, is_error: bool },
    #[serde(rename = "agent.error")]
    Error { kind: ErrorKind, message: &'a str },
    #[serde(rename = "agent.done")]
    Done { turns: u32 },
}

pub(crate) struct Output<W>(W);

impl<W: Write> Output<W> {
    pub(crate) fn new(writer: W) -> Self {
        Self(writer)
    }

    pub(crate) fn message(&mut self, text: &str) -> io::Result<()> {
        self.write(&Event::Message { role: "assistant", text })
    }

    pub(crate) fn delta(&mut self, text: &str) -> io::Result<()> {
        self.write(&Event::MessageDelta { text })
    }

    pub(crate) fn call(&mut self, call: &Call) -> io::Result<()> {
        self.write(&Event::ToolCall { id: &call.id, name: &call.name, input: &call.input.to_value() })
    }

    pub(crate) fn result(&mut self, result: &CallResult) -> io::Result<()> {
        self.write(&Event::ToolResult { id: &result.id, output: &result.output, is_error: result.is_error })
    }

    pub(crate) fn error(&mut self, kind: ErrorKind, message: &str) -> io::Result<()> {
        self.write(&Event::Error { kind, message })
    }

    pub(crate) fn done(&mut self, turns: u32) -> io::Result<()> {
        self.write(&Event::Done { turns })
    }

    /// A line of someone else's, which Harvest keeps as it is.
    pub(crate) fn as_it_came(&mut self, line: &str) -> io::Result<()> {
        let line = line.replace(['\n', '\r'], " ") + "\n";
        self.0.write_all(line.as_bytes())?;
        self.0.flush()
    }

    /// One write per line, so that lines of other writers never get into the middle of one.
    fn write(&mut self, event: &Event<'_>) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        self.0.write_all(&line)?;
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Input;
    use harvest_core::{EventBody, MessageRole};
    use serde_json::json;

    #[test]
    fn events_are_those_of_the_journal() {
        let mut bytes = Vec::new();
        let mut output = Output::new(&mut bytes);
        output.message("hi").unwrap();
        output.delta("h").unwrap();
        let input = Input::read(r#"{"command": "ls"}"#);
        output.call(&Call { id: "1".to_owned(), name: "bash".to_owned(), input, signature: None }).unwrap();
        output.result(&CallResult { id: "1".to_owned(), output: "x\n".to_owned(), is_error: false }).unwrap();

        let text = String::from_utf8(bytes).unwrap();
        let events: Vec<EventBody> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let expected = vec![
            EventBody::Message { role: MessageRole::Assistant, text: "hi".to_owned() },
            EventBody::MessageDelta { text: "h".to_owned() },
            EventBody::ToolCall { id: "1".to_owned(), name: "bash".to_owned(), input: json!({"command": "ls"}) },
            EventBody::ToolResult { id: "1".to_owned(), output: "x\n".to_owned(), is_error: false },
        ];
        assert_eq!(events, expected);
        let lines: String = expected.iter().map(|event| serde_json::to_string(event).unwrap() + "\n").collect();
        assert_eq!(text, lines);
    }
}
