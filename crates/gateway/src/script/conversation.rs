//! What a request gets: which conversation of the script it belongs to, and which reply of it comes next.

use serde_json::Value;

use super::format::{Conversation, File, Reply as Planned};

const MAX_SHOWN: usize = 400;

/// A request, whatever wire format it came in.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Request {
    /// The text of the first user message.
    pub(super) first_user_text: String,
    /// The text of user messages and tool results since the last assistant message.
    pub(super) newest_text: String,
    pub(super) assistant_count: usize,
    pub(super) tools: Vec<ToolOffer>,
    pub(super) stream: bool,
    /// What the client asked for; the answer comes from the script's model all the same.
    pub(super) model: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ToolOffer {
    pub(super) name: String,
    /// A JSON Schema of its arguments; null when the vendor defines the tool.
    pub(super) schema: Value,
}

/// An answer, before it is put into a wire format.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Reply {
    /// Unique in the conversation.
    pub(super) id: String,
    pub(super) model: String,
    pub(super) text: String,
    pub(super) calls: Vec<ToolCall>,
    pub(super) tokens: super::format::Tokens,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ToolCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: Value,
}

/// Where in the script a request is.
#[derive(Debug)]
pub(super) enum Place<'a> {
    /// The request offers no tools: a title, a summary. It uses up nothing.
    Aside,
    /// Every reply has been given.
    Past,
    At {
        conversation: usize,
        index: usize,
        reply: &'a Planned,
    },
}

/// Finds the request's place, or says why it has none.
pub(super) fn place<'a>(script: &'a File, request: &Request) -> Result<Place<'a>, String> {
    if request.tools.is_empty() {
        return Ok(Place::Aside);
    }
    let fits = |conversation: &Conversation| {
        conversation.when_prompt_contains.as_ref().is_none_or(|text| request.first_user_text.contains(text.as_str()))
    };
    let Some(number) = script.conversations.iter().position(fits) else {
        let known: Vec<String> = script
            .conversations
            .iter()
            .filter_map(|conversation| conversation.when_prompt_contains.as_ref())
            .map(|text| format!("{text:?}"))
            .collect();
        return Err(format!(
            "no conversation of the model script fits: the first user message contains none of {}; it says: {:?}",
            known.join(", "),
            shorten(&request.first_user_text)
        ));
    };
    let conversation = script.conversations.get(number);
    let Some(reply) = conversation.and_then(|conversation| conversation.replies.get(request.assistant_count)) else {
        return Ok(Place::Past);
    };
    if let Some(expected) = reply.expect.as_ref().filter(|text| !request.newest_text.contains(text.as_str())) {
        return Err(format!(
            "the model script expects {expected:?} before reply {} of conversation {}; the newest message says: {:?}",
            request.assistant_count + 1,
            number + 1,
            shorten(&request.newest_text)
        ));
    }
    Ok(Place::At { conversation: number, index: request.assistant_count, reply })
}

/// Beginning and end of a long text: tool results tell the outcome last.
fn shorten(text: &str) -> String {
    let length = text.chars().count();
    if length <= MAX_SHOWN {
        return text.to_owned();
    }
    let start: String = text.chars().take(MAX_SHOWN / 2).collect();
    let end: String = text.chars().skip(length - MAX_SHOWN / 2).collect();
    format!("{start} … {end}")
}
