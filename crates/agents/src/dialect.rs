//! What the output of an agent means. One file per dialect; this one only chooses between them.
//!
//! **Invariant:** every line leaves a trace. A dialect that does not understand a line keeps it as `raw`, and no line of
//! any agent is an error. Only a line that says nothing but "done", or a piece of what comes whole, produces no event.

mod aider;
mod builtin;
mod claude_code;
mod codex;
mod conversation;
mod gemini_cli;
mod opencode;
mod text;

use harvest_core::{EventBody, FailureReason, OutputStream};
use serde::Deserialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Dialect {
    /// The events of Harvest itself, one JSON object per line.
    Builtin,
    ClaudeCode,
    Codex,
    GeminiCli,
    Opencode,
    Aider,
    /// Plain text: every line is a message.
    Text,
    /// An agent that speaks the Agent Client Protocol. A bridge in the sandbox drives it and prints what the built-in one does.
    Acp,
}

/// Reads the output of one run, line by line.
#[derive(Debug)]
pub struct Parser {
    state: State,
    dialect: Dialect,
    conversation: Option<String>,
}

#[derive(Debug)]
enum State {
    Builtin(builtin::Parser),
    ClaudeCode(claude_code::Parser),
    Codex(codex::Parser),
    GeminiCli(gemini_cli::Parser),
    Opencode(opencode::Parser),
    Aider(aider::Parser),
    Text,
}

/// What a run amounted to, as far as the agent can tell. Limits, budgets and people who stopped it are not its business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Done,
    Failed { reason: FailureReason, message: String },
}

impl Parser {
    pub(crate) fn new(dialect: Dialect) -> Self {
        let state = match dialect {
            Dialect::Builtin | Dialect::Acp => State::Builtin(builtin::Parser::default()),
            Dialect::ClaudeCode => State::ClaudeCode(claude_code::Parser::default()),
            Dialect::Codex => State::Codex(codex::Parser::default()),
            Dialect::GeminiCli => State::GeminiCli(gemini_cli::Parser::default()),
            Dialect::Opencode => State::Opencode(opencode::Parser::default()),
            Dialect::Aider => State::Aider(aider::Parser::default()),
            Dialect::Text => State::Text,
        };
        Self { state, dialect, conversation: None }
    }

    /// What the agent calls this conversation, once it has said so.
    pub fn conversation(&self) -> Option<&str> {
        self.conversation.as_deref()
    }

    /// One line of output, with or without its line ending → events. Never an error; unknown lines become
    /// [`EventBody::Raw`].
    pub fn parse(&mut self, stream: OutputStream, line: &[u8]) -> Vec<EventBody> {
        let line = without_ending(line);
        if self.conversation.is_none() && stream == OutputStream::Stdout {
            self.conversation = conversation::named_in(self.dialect, line);
        }
        match &mut self.state {
            State::Builtin(parser) => parser.parse(stream, line),
            State::ClaudeCode(parser) => parser.parse(stream, line),
            State::Codex(parser) => parser.parse(stream, line),
            State::GeminiCli(parser) => parser.parse(stream, line),
            State::Opencode(parser) => parser.parse(stream, line),
            State::Aider(parser) => parser.parse(stream, line),
            State::Text => text::parse(stream, line),
        }
    }

    /// Takes notice of an event that an earlier parser of the same run produced, so that a run that is taken up again
    /// after a crash gets the verdict it would have got.
    pub fn recall(&mut self, event: &EventBody) {
        if let (None, EventBody::Raw { stream: OutputStream::Stdout, line }) = (&self.conversation, event) {
            self.conversation = conversation::named_in(self.dialect, line.as_bytes());
        }
        match (&mut self.state, event) {
            (State::Builtin(parser), EventBody::Raw { stream, line }) => {
                parser.parse(*stream, line.as_bytes());
            }
            (State::ClaudeCode(parser), EventBody::Raw { stream, line }) => {
                parser.parse(*stream, line.as_bytes());
            }
            (State::Codex(parser), event) => parser.recall(event),
            (State::GeminiCli(parser), event) => parser.recall(event),
            (State::Opencode(parser), event) => parser.recall(event),
            (State::Aider(parser), event) => parser.recall(event),
            (State::Builtin(_) | State::ClaudeCode(_) | State::Text, _) => {}
        }
    }

    /// What the run amounted to. `exit_code` is `None` when a signal ended it.
    pub fn verdict(&self, exit_code: Option<i32>) -> Verdict {
        self.reported(exit_code).unwrap_or_else(|| match exit_code {
            Some(0) => Verdict::Done,
            Some(code) => failed(format!("the agent exited with code {code}")),
            None => failed("the agent was killed before it was done".to_owned()),
        })
    }

    /// Whether the verdict is the agent's own word. Otherwise it is made from the exit code alone.
    pub fn reports(&self, exit_code: Option<i32>) -> bool {
        self.reported(exit_code).is_some()
    }

    fn reported(&self, exit_code: Option<i32>) -> Option<Verdict> {
        let reported = match &self.state {
            State::Builtin(parser) => parser.failure(),
            State::ClaudeCode(parser) => parser.verdict(),
            State::Codex(parser) => parser.verdict(),
            State::GeminiCli(parser) => parser.verdict(),
            State::Opencode(parser) => parser.verdict(),
            State::Aider(parser) => parser.verdict(),
            State::Text => None,
        };
        // One that says it is done and then fails has not ended well.
        reported.filter(|verdict| *verdict != Verdict::Done || exit_code == Some(0))
    }
}

/// The plan that an event holds, of an agent that plans: what it says last, or hands in.
pub fn plan_in(event: &EventBody) -> Option<&str> {
    match event {
        EventBody::Message { role: harvest_core::MessageRole::Assistant, text } => Some(text),
        // How Claude Code ends its planning.
        EventBody::ToolCall { name, input, .. } if name == "ExitPlanMode" => input["plan"].as_str(),
        _ => None,
    }
}

fn failed(message: String) -> Verdict {
    Verdict::Failed { reason: FailureReason::Agent, message }
}

/// What an agent gave up for, in its words: they tell whether another time or another key may help.
fn gave_up(message: String) -> Verdict {
    const QUOTA: [&str; 7] =
        ["429", "rate limit", "ratelimit", "quota", "usage limit", "too many requests", "resource_exhausted"];
    let lower = message.to_ascii_lowercase();
    let refused = QUOTA.iter().any(|sign| lower.contains(sign));
    Verdict::Failed { reason: if refused { FailureReason::ModelQuota } else { FailureReason::Agent }, message }
}

/// In its own words, and said to be so: other warnings are Harvest's.
fn warning(message: &str) -> EventBody {
    EventBody::Warning { message: format!("the agent says: {message}") }
}

fn raw(stream: OutputStream, line: &[u8]) -> Vec<EventBody> {
    vec![EventBody::Raw { stream, line: String::from_utf8_lossy(line).into_owned() }]
}

fn without_ending(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
