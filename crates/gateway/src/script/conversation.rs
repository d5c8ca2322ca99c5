//! What a request gets: which conversation of the script it belongs to, and which reply of it comes next.

use serde_json::Value;

use super::format::{Conversation, File, Reply as Planned};

const MAX_SHOWN: usize = 400;

/// A request, whatever wire format it came in.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Request {
    /// The text of the user messages before the first answer.
    pub(super) first_user_text: String,
    /// The text of user messages and tool results since the last assistant message.
    pub(super) newest_text: String,
    /// Answers that are in the request already.
    pub(super) assistant_count: usize,
    /// Where the client left the rest of the conversation to the server: the answer that this request follows.
    pub(super) follows: Option<ReplyId>,
    pub(super) tools: Vec<ToolOffer>,
    /// The format has neither tools nor a history.
    pub(super) is_completion: bool,
    pub(super) stream: bool,
    /// What the client asked for; the answer comes from the script's model all the same.
    pub(super) model: String,
}

/// Numbers of a conversation and of a reply in it, both from 0; written from 1, as in `2_3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReplyId {
    pub(super) conversation: usize,
    pub(super) index: usize,
}

impl ReplyId {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (conversation, index) = text.split_once('_')?;
        let number = |text: &str| text.parse::<usize>().ok()?.checked_sub(1);
        Some(Self { conversation: number(conversation)?, index: number(index)? })
    }
}

impl std::fmt::Display for ReplyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}_{}", self.conversation + 1, self.index + 1)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ToolOffer {
    pub(super) name: String,
    pub(super) kind: ToolKind,
    /// A JSON Schema of its arguments; null when the vendor defines the tool.
    pub(super) schema: Value,
}

/// How a tool is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ToolKind {
    /// With a JSON object.
    #[default]
    Function,
    /// With a text, in OpenAI's Responses.
    Custom,
    /// OpenAI's own shell, with a command line in a form of its own.
    LocalShell,
    /// With a JSON object, by two names: of what it belongs to, which ends at one place of the whole name, and its own, which
    /// begins at another. OpenAI's Responses again.
    InNamespace { ends: usize, begins: usize },
}

impl ToolOffer {
    pub(super) fn function(name: String, schema: Value) -> Self {
        Self { name, kind: ToolKind::Function, schema }
    }
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
    pub(super) kind: ToolKind,
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
        id: ReplyId,
        reply: &'a Planned,
    },
}

/// Finds the request's place, or says why it has none.
pub(super) fn place<'a>(script: &'a File, request: &Request) -> Result<Place<'a>, String> {
    if request.tools.is_empty() && !request.is_completion {
        return Ok(place_without_tools(script, request));
    }
    let fits =
        |conversation: &Conversation| !conversation.without_tools && conversation.is_meant_by(&request.first_user_text);
    let followed =
        request.follows.map(|reply| reply.conversation).filter(|number| *number < script.conversations.len());
    let Some(number) = followed.or_else(|| script.conversations.iter().position(fits)) else {
        let known: Vec<String> = script
            .conversations
            .iter()
            .filter_map(|conversation| conversation.when_prompt_contains.as_ref())
            .map(|text| format!("{text:?}"))
            .collect();
        return Err(format!(
            "no conversation of the model script matches: the first user message contains none of {}; it says: {:?}",
            known.join(", "),
            shorten(&request.first_user_text)
        ));
    };
    let index = request.assistant_count + request.follows.map_or(0, |reply| reply.index + 1);
    let conversation = script.conversations.get(number);
    let Some(reply) = conversation.and_then(|conversation| conversation.replies.get(index)) else {
        return Ok(Place::Past);
    };
    if let Some(expected) = reply.expect.as_ref().filter(|text| !request.newest_text.contains(text.as_str())) {
        return Err(format!(
            "the model script expects {expected:?} before reply {} of conversation {}; the newest message says: {:?}",
            index + 1,
            number + 1,
            shorten(&request.newest_text)
        ));
    }
    Ok(Place::At { id: ReplyId { conversation: number, index }, reply })
}

/// Agents that offer no tools put examples before what they are asked, which look like a history. So only the newest message
/// counts, and there is one reply to it.
fn place_without_tools<'a>(script: &'a File, request: &Request) -> Place<'a> {
    let fits =
        |conversation: &Conversation| conversation.without_tools && conversation.is_meant_by(&request.newest_text);
    let Some(number) = script.conversations.iter().position(fits) else { return Place::Aside };
    let first = script.conversations.get(number).and_then(|conversation| conversation.replies.first());
    first.map_or(Place::Past, |reply| Place::At { id: ReplyId { conversation: number, index: 0 }, reply })
}

impl Conversation {
    fn is_meant_by(&self, text: &str) -> bool {
        self.when_prompt_contains.as_ref().is_none_or(|wanted| text.contains(wanted.as_str()))
    }
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
