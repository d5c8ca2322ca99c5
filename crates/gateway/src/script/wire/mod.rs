//! The wire formats of clients, one module each: a request in, an answer out, as a document or as a stream.

mod anthropic;
mod gemini;
mod ollama;
mod openai_chat;
mod openai_responses;

use bytes::Bytes;
use serde_json::Value;

use super::conversation::{Reply, Request, ToolOffer};
use super::player::Asked;
use crate::model::{Dialect, Endpoint, Vendor};

/// One wire format.
pub(super) trait Wire: Sync {
    /// Reads a request; an error says what is wrong with it.
    fn decode(&self, body: &Value) -> Result<Request, String>;
    fn document(&self, reply: &Reply) -> Value;
    fn stream(&self, reply: &Reply) -> Streamed;
    /// The content type of a stream.
    fn stream_type(&self) -> &'static str {
        "text/event-stream; charset=utf-8"
    }
}

/// An answer as it is streamed.
#[derive(Debug, Default)]
pub(super) struct Streamed {
    pub(super) opening: Bytes,
    /// Pieces of text and of calls; what `chunk_delay` and `cut_after` count.
    pub(super) chunks: Vec<Bytes>,
    pub(super) closing: Bytes,
}

/// How a conversation begins, in whatever format.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Opening {
    /// What the user said before the first answer.
    pub(crate) text: String,
    pub(crate) offers_tools: bool,
}

/// The beginning of a request's conversation, if it can be told.
pub(crate) fn opening_of(endpoint: Endpoint, request: &Value) -> Option<Opening> {
    let asked = Asked { vendor: Vendor::OpenAi, endpoint, path: "", query: None, body: &[] };
    let read = of(asked)?.decode(request).ok()?;
    Some(Opening { text: read.first_user_text, offers_tools: !read.tools.is_empty() })
}

/// The format of a request for an answer.
pub(super) fn of(asked: Asked<'_>) -> Option<&'static dyn Wire> {
    let events = asked.query.is_some_and(|query| query.split('&').any(|pair| pair == "alt=sse"));
    match asked.endpoint {
        Endpoint::Messages => Some(&anthropic::Messages),
        Endpoint::ChatCompletions => Some(&openai_chat::ChatCompletions),
        Endpoint::Responses => Some(&openai_responses::Responses),
        Endpoint::GenerateContent => Some(&gemini::GenerateContent::Document),
        Endpoint::StreamGenerateContent if events => Some(&gemini::GenerateContent::Events),
        Endpoint::StreamGenerateContent => Some(&gemini::GenerateContent::Array),
        Endpoint::OllamaChat => Some(&ollama::Chat),
        Endpoint::OllamaGenerate => Some(&ollama::Generate),
        Endpoint::Models | Endpoint::ShowModel | Endpoint::CountTokens => None,
    }
}

/// The answer of an endpoint that generates nothing: the list of models, of which there is one; that one; or a count.
pub(super) fn inform(asked: Asked<'_>, model: &str) -> Value {
    let tokens = asked.body.len().div_ceil(4);
    let is_list = asked.path.ends_with("models");
    match (asked.vendor, asked.endpoint) {
        (Vendor::Gemini, Endpoint::CountTokens) => gemini::tokens(tokens),
        (_, Endpoint::CountTokens) => anthropic::tokens(tokens),
        (Vendor::Anthropic, _) if is_list => anthropic::models(model),
        (Vendor::Anthropic, _) => anthropic::model(model),
        (Vendor::Gemini, _) if is_list => gemini::models(model),
        (Vendor::Gemini, _) => gemini::model(model),
        (Vendor::Ollama(Dialect::Own), Endpoint::ShowModel) => ollama::show(),
        (Vendor::Ollama(Dialect::Own), _) => ollama::tags(model),
        (Vendor::OpenAi | Vendor::Ollama(Dialect::OpenAi), _) if is_list => openai_chat::models(model),
        (Vendor::OpenAi | Vendor::Ollama(Dialect::OpenAi), _) => openai_chat::model(model),
    }
}

/// A text in pieces of a word each, with the space that follows it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}

/// A call's arguments in two pieces, so that clients must put them together.
fn halves(arguments: &str) -> Vec<&str> {
    let middle = (arguments.len() / 2..arguments.len()).find(|at| arguments.is_char_boundary(*at)).unwrap_or(0);
    let (first, second) = arguments.split_at(middle);
    [first, second].into_iter().filter(|half| !half.is_empty()).collect()
}

/// The text of a message's content: a string, or a list of blocks of which those with text count.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().map(|block| match (block.get("text"), block.get("content")) {
                (Some(Value::String(text)), _) => text.clone(),
                (_, Some(inner)) if block.get("type").is_some_and(|kind| kind == "tool_result") => text_of(inner),
                _ => String::new(),
            });
            texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Functions in the form of Chat Completions, which Ollama has taken over.
fn functions(body: &Value) -> Vec<ToolOffer> {
    let tools = body.get("tools").and_then(Value::as_array).into_iter().flatten();
    let offers = tools.filter_map(|tool| {
        let function = tool.get("function")?;
        let name = function.get("name")?.as_str()?.to_owned();
        Some(ToolOffer::function(name, function.get("parameters").cloned().unwrap_or_default()))
    });
    offers.collect()
}

/// What all formats with a list of messages have in common.
fn read_messages(body: &Value, is_input: impl Fn(&str) -> bool) -> Result<Request, String> {
    let messages = body.get("messages").and_then(Value::as_array).ok_or("`messages` is not a list")?;
    let role = |message: &Value| message.get("role").and_then(Value::as_str).unwrap_or_default().to_owned();
    let text = |message: &Value| message.get("content").map(text_of).unwrap_or_default();
    let is_assistant = |message: &&Value| role(message) == "assistant";
    let newest = messages.iter().rposition(|message| is_assistant(&message)).map_or(0, |last| last + 1);
    let newest = messages.iter().skip(newest).filter(|message| is_input(&role(message))).map(text);
    let asked = messages.iter().take_while(|message| !is_assistant(message)).filter(|message| role(message) == "user");
    Ok(Request {
        first_user_text: asked.map(text).collect::<Vec<_>>().join("\n"),
        newest_text: newest.collect::<Vec<_>>().join("\n"),
        assistant_count: messages.iter().filter(is_assistant).count(),
        stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
        model: body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned(),
        ..Request::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_add_up_to_the_whole(text: String) {
            prop_assert_eq!(words(&text).collect::<String>(), text.clone());
            prop_assert_eq!(halves(&text).concat(), text);
        }
    }
}
