//! Claude Code in `stream-json`: one JSON object per line.
//!
//! A message comes one block at a time, each in a line of its own with the id of the whole, and with partial messages also in
//! pieces before that. Of the pieces only text is shown; everything in them comes again, whole. A `status` says that something
//! is under way, which the next line shows. The last line is the `result`.

use std::borrow::Cow;
use std::marker::PhantomData;

use harvest_core::{EventBody, FailureReason, MessageRole, OutputStream};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
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
    OutOfTurns { message: String },
    Badly { message: String },
}

/// The parts that mean something here, of whatever kind the line is. The order of keys is not fixed, and there may be others.
/// One flat struct: choosing between kinds by `type` would mean to keep the whole line aside first.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    subtype: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    message: Option<Message<'a>>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default, borrow)]
    event: Option<Piece<'a>>,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    result: Option<String>,
    #[serde(default)]
    errors: Vec<String>,
    #[serde(default)]
    attempt: Option<u64>,
    #[serde(default)]
    max_retries: Option<u64>,
    #[serde(default)]
    error_status: Option<u64>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Content<'a>,
}

/// A text, or a list of blocks.
#[derive(Default)]
enum Content<'a> {
    Blocks(Vec<Block<'a>>),
    Text(String),
    #[default]
    Nothing,
    /// Neither; kept as it came.
    Other(Value),
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    input: Option<Value>,
    #[serde(default)]
    tool_use_id: Option<String>,
    #[serde(default, borrow)]
    content: Content<'a>,
    #[serde(default)]
    is_error: Option<bool>,
}

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(default, borrow)]
    delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(default, borrow)]
    text: Option<Cow<'a, str>>,
}

impl Parser {
    pub(super) fn parse(&mut self, stream: OutputStream, line: &[u8]) -> Vec<EventBody> {
        if stream == OutputStream::Stderr {
            return super::raw(stream, line);
        }
        let Ok(read) = serde_json::from_slice::<Line<'_>>(line) else { return super::raw(stream, line) };
        let events = match (&*read.kind.clone(), read) {
            ("stream_event", Line { event: Some(event), .. }) => {
                let text = event.delta.and_then(|delta| delta.text).filter(|text| !text.is_empty());
                return text.map(|text| EventBody::MessageDelta { text: text.into_owned() }).into_iter().collect();
            }
            ("assistant", Line { message: Some(message), error, .. }) => {
                self.refusal = error.or(self.refusal.take());
                said(message)
            }
            ("user", Line { message: Some(message), .. }) => returned(message),
            ("result", line @ Line { subtype: Some(_), .. }) => {
                self.ended = Some(line.ended());
                Vec::new()
            }
            ("system", line) => match line.subtype.as_deref() {
                Some("status") => return Vec::new(),
                Some("api_retry") => vec![line.warning()],
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        // What is not understood in full is kept as it came.
        if events.is_empty() { super::raw(stream, line) } else { events }
    }

    /// What the run amounted to, if it said so.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        Some(match self.ended.as_ref()? {
            Ended::Well => Verdict::Done,
            Ended::OutOfTurns { message } => Verdict::Failed { reason: FailureReason::Turns, message: message.clone() },
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

fn said(message: Message<'_>) -> Vec<EventBody> {
    let Content::Blocks(blocks) = message.content else { return Vec::new() };
    let event = |block: Block<'_>| match &*block.kind {
        "text" => Some(EventBody::Message { role: MessageRole::Assistant, text: block.text? }),
        "tool_use" => Some(EventBody::ToolCall { id: block.id?, name: block.name?, input: block.input? }),
        _ => None,
    };
    blocks.into_iter().map(event).collect::<Option<_>>().unwrap_or_default()
}

fn returned(message: Message<'_>) -> Vec<EventBody> {
    let Content::Blocks(blocks) = message.content else { return Vec::new() };
    let event = |block: Block<'_>| match &*block.kind {
        "tool_result" => {
            let (id, is_error) = (block.tool_use_id?, block.is_error.unwrap_or_default());
            Some(EventBody::ToolResult { id, output: block.content.into_text(), is_error })
        }
        _ => None,
    };
    blocks.into_iter().map(event).collect::<Option<_>>().unwrap_or_default()
}

impl Content<'_> {
    /// A result is a text, or a list of blocks of which some have one.
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Blocks(blocks) => {
                let texts = blocks.into_iter().map(|block| block.text.unwrap_or_else(|| "[not a text]".to_owned()));
                texts.collect::<Vec<_>>().join("\n")
            }
            Self::Nothing => String::new(),
            Self::Other(value) => value.to_string(),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor(PhantomData))
    }
}

/// Told apart by their first byte, so that a large text is read once.
struct ContentVisitor<'a>(PhantomData<&'a ()>);

impl<'de: 'a, 'a> Visitor<'de> for ContentVisitor<'a> {
    type Value = Content<'a>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a text or a list of blocks")
    }

    fn visit_str<E>(self, text: &str) -> Result<Content<'a>, E> {
        Ok(Content::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Content<'a>, E> {
        Ok(Content::Text(text))
    }

    fn visit_unit<E>(self) -> Result<Content<'a>, E> {
        Ok(Content::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, blocks: A) -> Result<Content<'a>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(blocks)).map(Content::Blocks)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Content<'a>, A::Error> {
        Value::deserialize(MapAccessDeserializer::new(map)).map(Content::Other)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content<'a>, E> {
        Ok(Content::Other(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content<'a>, E> {
        Ok(Content::Other(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content<'a>, E> {
        Ok(Content::Other(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Content<'a>, E> {
        Ok(Content::Other(value.into()))
    }
}

impl Line<'_> {
    /// What a `result` says.
    fn ended(self) -> Ended {
        let subtype = self.subtype.as_deref().unwrap_or_default();
        if subtype == "success" && !self.is_error {
            return Ended::Well;
        }
        let said = match self.errors.is_empty() {
            true => self.result.unwrap_or_default(),
            false => self.errors.join("; "),
        };
        let what = match subtype {
            "error_max_turns" => "the agent used up its turns",
            "error_max_budget_usd" => "the agent reached its budget",
            _ => "the agent gave up",
        };
        let message = if said.is_empty() { what.to_owned() } else { format!("{what}: {said}") };
        match subtype {
            "error_max_turns" => Ended::OutOfTurns { message },
            _ => Ended::Badly { message },
        }
    }

    /// A model that does not answer looks like silence, so it is told.
    fn warning(self) -> EventBody {
        let number = |number: Option<u64>| number.map_or("?".to_owned(), |number| number.to_string());
        let why = match (self.error_status, self.error) {
            (Some(status), Some(error)) => format!("{status}, {error}"),
            (Some(status), None) => status.to_string(),
            (None, Some(error)) => error,
            (None, None) => "no answer".to_owned(),
        };
        let (attempt, most) = (number(self.attempt), number(self.max_retries));
        EventBody::Warning { message: format!("the agent asks the model again ({why}): {attempt} of {most}") }
    }
}
