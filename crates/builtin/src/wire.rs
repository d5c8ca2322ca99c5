//! The formats in which models are spoken to. One file each; the conversation they carry is the same.

mod anthropic;
mod gemini;
mod ollama;
mod openai;

use serde_json::Value;

use crate::conversation::{Message, Reply};
use crate::options::WireName;
use crate::tools::Definition;

/// Everything a model is told in one request.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) model: &'a str,
    pub(crate) max_tokens: u32,
    pub(crate) system: &'a str,
    pub(crate) tools: &'a [Definition],
    pub(crate) messages: &'a [Message],
}

/// One format: where requests go, what they look like, and how answers are read.
#[derive(Debug)]
pub(crate) struct Wire {
    /// After the base URL, for a model.
    pub(crate) path: fn(&str) -> String,
    /// The gateway puts the real key in the place of the one given here.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    pub(crate) framing: Framing,
    pub(crate) body: fn(&Request<'_>) -> Value,
    pub(crate) decoder: fn() -> Box<dyn Decoder>,
}

/// How the events of a streamed answer are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON object per line.
    Lines,
}

/// Reads one streamed answer, event by event.
pub(crate) trait Decoder {
    /// Takes the `data` of one event and returns what it adds to the text.
    fn event(&mut self, data: &str) -> Result<String, Broken>;

    /// Whether the whole reply is there.
    fn is_complete(&self) -> bool;

    fn into_reply(self: Box<Self>) -> Reply;
}

/// An answer that went wrong after it had begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broken {
    /// It makes no sense, or the vendor had a problem: the same again may go better.
    Retry(String),
    /// The vendor ran out of patience with this account.
    Quota(String),
    Refused(String),
}

pub(crate) fn named(name: WireName) -> &'static Wire {
    match name {
        WireName::Anthropic => &anthropic::WIRE,
        WireName::Openai => &openai::WIRE,
        WireName::Gemini => &gemini::WIRE,
        WireName::Ollama => &ollama::WIRE,
    }
}

fn not_json(data: &str, error: &serde_json::Error) -> Broken {
    Broken::Retry(format!("the answer is not valid: {error} in `{}`", data.chars().take(100).collect::<String>()))
}
