//! The file's format, as it is written. Whatever is not in it is refused, with the place where it stands.

use std::fmt;
use std::marker::PhantomData;

use harvest_core::{Price, Usage};
use serde::Deserialize;
use serde::de::{self, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::ScriptError;
use super::duration::Humane;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default = "default_model", deserialize_with = "model_name")]
    pub(super) model: String,
    #[serde(default = "free", deserialize_with = "price")]
    pub(super) price: Price,
    /// For replies that say nothing of it themselves, as `chunk_delay`.
    pub(super) delay: Option<Humane>,
    pub(super) chunk_delay: Option<Humane>,
    #[serde(deserialize_with = "at_least_one")]
    pub(super) conversations: Vec<Conversation>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Conversation {
    /// Looked for in the text of the first user message; without it the conversation fits every one.
    pub(super) when_prompt_contains: Option<String>,
    /// For requests that offer no tools, and for no others.
    #[serde(default)]
    pub(super) without_tools: bool,
    pub(super) replies: Vec<Reply>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reply {
    pub(super) expect: Option<String>,
    pub(super) say: Option<String>,
    shell: Option<Spanned<OneOrMany<String>>>,
    write: Option<Spanned<OneOrMany<Write>>>,
    tool: Option<Spanned<OneOrMany<Tool>>>,
    #[serde(default)]
    pub(super) tokens: Tokens,
    pub(super) delay: Option<Humane>,
    pub(super) chunk_delay: Option<Humane>,
    #[serde(default, deserialize_with = "error_status")]
    pub(super) status: Option<u16>,
    pub(super) cut_after: Option<u32>,
    pub(super) stall: Option<Humane>,
}

/// A call, before it is known which tools there are.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    Shell(String),
    Write(Write),
    Tool(Tool),
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Write {
    pub(super) path: String,
    pub(super) content: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tool {
    pub(super) name: String,
    #[serde(default)]
    pub(super) input: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
    /// Part of `output`; formats that do not tell it apart leave it out.
    pub(super) reasoning: u64,
}

impl Tokens {
    pub(super) fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.input,
            output_tokens: self.output,
            cache_read_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            reasoning_tokens: self.reasoning,
        }
    }

    /// All that went in, as the formats count it that have one number for it.
    pub(super) fn prompt(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}

impl File {
    pub(super) fn parse(text: &str) -> Result<Self, ScriptError> {
        let options = serde_saphyr::options! { with_snippet: false };
        let mut field = None;
        serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
            let mut track = serde_path_to_error::Track::new();
            let read = Self::deserialize(serde_path_to_error::Deserializer::new(deserializer, &mut track));
            read.inspect_err(|_| {
                let path = track.path().to_string();
                field = (path != ".").then_some(path);
            })
        })
        .map_err(|error| {
            let error = error.without_snippet();
            let line = error.location().map(|location| location.line());
            let (field, reason) = describe(field, &error.to_string());
            ScriptError::Invalid { line, field, reason }
        })
    }
}

impl Reply {
    /// The calls in the order in which the file has them.
    pub(super) fn actions(&self) -> Vec<Action> {
        let mut groups: Vec<((u64, u64), Vec<Action>)> = Vec::new();
        let place = |location: &serde_saphyr::Location| (location.line(), location.column());
        if let Some(shell) = &self.shell {
            groups.push((place(&shell.referenced), shell.value.0.iter().cloned().map(Action::Shell).collect()));
        }
        if let Some(write) = &self.write {
            groups.push((place(&write.referenced), write.value.0.iter().cloned().map(Action::Write).collect()));
        }
        if let Some(tool) = &self.tool {
            groups.push((place(&tool.referenced), tool.value.0.iter().cloned().map(Action::Tool).collect()));
        }
        groups.sort_by_key(|(place, _)| *place);
        groups.into_iter().flat_map(|(_, actions)| actions).collect()
    }
}

/// The parser's field and message, as a person would put them; the place is reported by itself.
fn describe(field: Option<String>, message: &str) -> (Option<String>, String) {
    // Positions are kept in a wrapper, which is not part of the file.
    let field = field.map(|path| path.replace(".value", "")).filter(|path| path != "?");
    let message = message.split(" at line ").next().unwrap_or(message);
    let message = message.split(", set DuplicateKeyPolicy").next().unwrap_or(message);
    let message = message.lines().next().unwrap_or(message).trim_end_matches([',', ':', ' ']);
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    if let Some(name) = missing {
        let path = field.map_or(name.to_owned(), |path| format!("{path}.{name}"));
        return (Some(path), "it is missing".to_owned());
    }
    let reason = match message {
        "invalid u16" | "invalid u32" | "invalid u64" => "expected a whole number, zero or more",
        "expected sequence start" => "expected a list",
        "expected mapping start" => "expected fields with names",
        "unexpected end of input" => "there is nothing in it",
        message => message,
    };
    (field, reason.to_owned())
}

fn default_model() -> String {
    "scripted-1".to_owned()
}

fn free() -> Price {
    Price { input_per_mtok: 0.0, output_per_mtok: 0.0, cache_read_per_mtok: None, cache_write_per_mtok: None }
}

fn model_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name.is_empty() || name.len() > 200 || name.chars().any(char::is_control) {
        return Err(de::Error::custom("a model's name has 1 to 200 printable characters"));
    }
    Ok(name)
}

fn price<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Price, D::Error> {
    let price = Price::deserialize(deserializer)?;
    let required = [Some(price.input_per_mtok), Some(price.output_per_mtok)];
    let optional = [price.cache_read_per_mtok, price.cache_write_per_mtok];
    if required.into_iter().chain(optional).flatten().any(|dollars| !(0.0..=1e6).contains(&dollars)) {
        return Err(de::Error::custom("a price is zero or more dollars per million tokens"));
    }
    Ok(price)
}

fn at_least_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Conversation>, D::Error> {
    let conversations = Vec::deserialize(deserializer)?;
    if conversations.is_empty() {
        return Err(de::Error::custom("there must be at least one conversation"));
    }
    Ok(conversations)
}

fn error_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    match Option::<u16>::deserialize(deserializer)? {
        Some(status) if !(400..600).contains(&status) => {
            Err(de::Error::custom(format!("`{status}` is not an error status: use one from 400 to 599")))
        }
        status => Ok(status),
    }
}

/// A value, or a list of them.
#[derive(Debug, Clone, PartialEq)]
struct OneOrMany<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrManyVisitor(PhantomData))
    }
}

struct OneOrManyVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrManyVisitor<T> {
    type Value = OneOrMany<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one, or a list of them")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(OneOrMany(vec![T::deserialize(text.into_deserializer())?]))
    }

    /// `shell: true` means the command.
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
        self.visit_str(if value { "true" } else { "false" })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Ok(OneOrMany(vec![T::deserialize(de::value::MapAccessDeserializer::new(map))?]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut many = Vec::new();
        while let Some(one) = list.next_element()? {
            many.push(one);
        }
        Ok(OneOrMany(many))
    }
}
