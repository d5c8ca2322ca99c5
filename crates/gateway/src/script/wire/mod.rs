//! The wire formats of clients, one module each: a request in, an answer out, as a document or as a stream.

mod anthropic;
mod openai_chat;

use bytes::Bytes;
use serde_json::Value;

use super::conversation::{Reply, Request};
use crate::model::{Endpoint, Vendor};

/// One wire format.
pub(super) trait Wire: Sync {
    /// Reads a request; an error says what is wrong with it.
    fn decode(&self, body: &Value) -> Result<Request, String>;
    fn document(&self, reply: &Reply) -> Value;
    fn stream(&self, reply: &Reply) -> Streamed;
}

/// An answer as it is streamed.
#[derive(Debug, Default)]
pub(super) struct Streamed {
    pub(super) opening: Bytes,
    /// Pieces of text and of calls; what `chunk_delay` and `cut_after` count.
    pub(super) chunks: Vec<Bytes>,
    pub(super) closing: Bytes,
}

/// The format of an endpoint, if the scripted model speaks it.
pub(super) fn of(endpoint: Endpoint) -> Option<&'static dyn Wire> {
    match endpoint {
        Endpoint::Messages => Some(&anthropic::Messages),
        Endpoint::ChatCompletions => Some(&openai_chat::ChatCompletions),
        _ => None,
    }
}

/// The list of models, of which there is one.
pub(super) fn models(vendor: Vendor, model: &str) -> Value {
    match vendor {
        Vendor::Anthropic => anthropic::models(model),
        _ => openai_chat::models(model),
    }
}

pub(super) fn tokens(count: usize) -> Value {
    anthropic::tokens(count)
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

/// What all formats with a list of messages have in common.
fn read_messages(body: &Value, is_input: impl Fn(&str) -> bool) -> Result<Request, String> {
    let messages = body.get("messages").and_then(Value::as_array).ok_or("`messages` is not a list")?;
    let role = |message: &Value| message.get("role").and_then(Value::as_str).unwrap_or_default().to_owned();
    let text = |message: &Value| message.get("content").map(text_of).unwrap_or_default();
    let is_assistant = |message: &&Value| role(message) == "assistant";
    let newest = messages.iter().rposition(|message| is_assistant(&message)).map_or(0, |last| last + 1);
    let newest = messages.iter().skip(newest).filter(|message| is_input(&role(message))).map(text);
    Ok(Request {
        first_user_text: messages.iter().find(|message| role(message) == "user").map(text).unwrap_or_default(),
        newest_text: newest.collect::<Vec<_>>().join("\n"),
        assistant_count: messages.iter().filter(is_assistant).count(),
        tools: Vec::new(),
        stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
        model: body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned(),
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
