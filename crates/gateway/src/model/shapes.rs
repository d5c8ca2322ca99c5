//! The parts of the vendors' events and documents that tell models and tokens. All else in them is ignored.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// An event or document of any of the formats; each fills its own fields.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) usage: Option<Counts>,
    /// Anthropic's first event.
    #[serde(borrow, default)]
    pub(super) message: Option<Inner<'a>>,
    /// The last event of OpenAI's Responses.
    #[serde(borrow, default)]
    pub(super) response: Option<Inner<'a>>,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    /// OpenAI's tier that the answer was made in.
    #[serde(borrow, default)]
    pub(super) service_tier: Option<Cow<'a, str>>,
    /// What OpenAI's Responses have made, in an event and in a document.
    #[serde(borrow, default)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) output: Option<&'a RawValue>,
}

/// Something that a response has made.
#[derive(Deserialize)]
pub(super) struct Item<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Cow<'a, str>,
}

#[derive(Deserialize)]
pub(super) struct Inner<'a> {
    #[serde(borrow, default)]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) usage: Option<Counts>,
    #[serde(borrow, default)]
    pub(super) service_tier: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Delta<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Parts(#[serde(borrow)] Parts<'a>),
}

#[derive(Deserialize)]
pub(super) struct Parts<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) partial_json: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow, default)]
    pub(super) delta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Counts {
    // Anthropic, and OpenAI's Responses
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
    pub(super) cache_creation: Option<CacheCreation>,
    pub(super) input_tokens_details: Option<Details>,
    pub(super) output_tokens_details: Option<Details>,
    pub(super) server_tool_use: Option<ServerToolUse>,
    /// Each run of the model that Anthropic made for the answer. The counts beside it leave out the runs that are no message.
    pub(super) iterations: Option<Vec<Iteration>>,
    // OpenAI's Chat Completions
    pub(super) prompt_tokens: Option<u64>,
    pub(super) completion_tokens: Option<u64>,
    pub(super) prompt_tokens_details: Option<Details>,
    pub(super) completion_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
pub(super) struct Iteration {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
}

/// How often tools were used that Anthropic runs.
#[derive(Deserialize)]
pub(super) struct ServerToolUse {
    pub(super) web_search_requests: Option<u64>,
    pub(super) web_fetch_requests: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct CacheCreation {
    pub(super) ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct Details {
    pub(super) cached_tokens: Option<u64>,
    pub(super) cache_write_tokens: Option<u64>,
    pub(super) reasoning_tokens: Option<u64>,
}

impl Message<'_> {
    /// Bytes of generated text in an event.
    pub(super) fn generated(&self) -> u64 {
        let length = |text: &Option<Cow<'_, str>>| text.as_ref().map_or(0, |text| text.len());
        let own = match &self.delta {
            Some(Delta::Text(text)) => text.len(),
            Some(Delta::Parts(parts)) => length(&parts.text) + length(&parts.partial_json) + length(&parts.thinking),
            None => 0,
        };
        // A chunk of Chat Completions may hold text, reasoning or a call; the names around it weigh a little too.
        let frame = r#"{"content":""}"#.len();
        let chosen = self.choices.iter().flatten().filter_map(|choice| choice.delta);
        let chosen: usize = chosen.map(|delta| delta.get().len().saturating_sub(frame)).sum();
        (own + chosen) as u64
    }
}
