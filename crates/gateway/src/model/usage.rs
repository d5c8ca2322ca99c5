//! Tokens, read from an answer while it passes: from the events, lines or elements of a stream, or from a JSON document.
//!
//! An answer may end at any byte. What the vendor did not get to report is estimated from what was sent and seen, four
//! bytes a token, so that hanging up early is no way to use a model for nothing.

use std::collections::BTreeMap;
use std::ops::Add;

use bytes::Bytes;
use harvest_core::Usage;

use super::array::Elements;
use super::edit::extra_tier;
use super::lines::{Kind, Lines};
use super::shapes::{Counts, Details, Item, Iteration, Message};
use super::{Endpoint, gemini, ollama};

pub(super) const BYTES_PER_TOKEN: u64 = 4;
/// A document longer than this is not read; its tokens are estimated.
const MAX_DOCUMENT: usize = 32 << 20;
/// Stands for the status of an answer that the client did not wait for.
pub(super) const HUNG_UP: u16 = 499;

/// Reads one answer.
#[derive(Debug)]
pub(super) struct Reader {
    endpoint: Endpoint,
    form: Form,
    tally: Tally,
    /// The newest event is likely the last.
    likely: bool,
}

#[derive(Debug)]
enum Form {
    Lines(Lines),
    Array(Elements),
    Document(Vec<u8>),
}

/// Where in a chunk a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The vendor's last event begins here.
    Here(usize),
    /// An event begins here that is the last one unless another follows.
    Likely(usize),
    /// Nothing but blank lines followed what was likely the last event.
    StillLikely,
}

/// What one event tells of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    Within,
    LikelyLast,
    Last,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    model: Option<String>,
    pub(super) input: Option<Usage>,
    /// Cumulative; final once `output_final`.
    pub(super) output: u64,
    pub(super) output_final: bool,
    pub(super) reasoning: u64,
    cache_write_1h: u64,
    /// Runs of the model that the counts of the answer leave out, such as the summary of a conversation.
    beside: Usage,
    /// Bytes of generated text seen.
    pub(super) generated: u64,
    /// The service tier, as far as the answer has told it.
    tier: Option<Tier>,
    /// Uses of server tools that the answer has told of.
    uses: BTreeMap<&'static str, u64>,
}

/// A service tier that an answer was made in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tier {
    Ordinary,
    Extra(String),
}

/// What is known at the end of an answer.
#[derive(Debug, PartialEq, Default)]
pub(super) struct Known {
    pub(super) model: Option<String>,
    pub(super) usage: Usage,
    pub(super) cache_write_1h: u64,
    pub(super) estimated: bool,
    pub(super) tier: Option<Tier>,
    pub(super) uses: BTreeMap<&'static str, u64>,
    /// Bytes of generated text were seen.
    pub(super) spoke: bool,
}

impl Reader {
    pub(super) fn new(endpoint: Endpoint, content_type: &str) -> Self {
        let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let form = match kind.as_str() {
            "text/event-stream" => Form::Lines(Lines::new(Kind::Events)),
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Form::Lines(Lines::new(Kind::Json)),
            _ if endpoint == Endpoint::StreamGenerateContent => Form::Array(Elements::default()),
            _ => Form::Document(Vec::new()),
        };
        Self { endpoint, form, tally: Tally::default(), likely: false }
    }

    /// Whether the end of the answer can be told from its events.
    pub(super) fn is_stream(&self) -> bool {
        !matches!(self.form, Form::Document(_))
    }

    /// Reads on. Of a stream, returns where in `chunk` the event begins that ends it.
    pub(super) fn feed(&mut self, chunk: &Bytes) -> Option<End> {
        let (tally, endpoint) = (&mut self.tally, self.endpoint);
        match &mut self.form {
            Form::Lines(lines) => {
                if self.likely && chunk.iter().all(|byte| matches!(byte, b'\r' | b'\n')) {
                    return Some(End::StillLikely);
                }
                let mut end = None;
                lines.feed(chunk, |at, data| {
                    end = match (tally.event(endpoint, data), end) {
                        (_, Some(End::Here(at))) => Some(End::Here(at)),
                        (Position::Last, _) => Some(End::Here(at)),
                        (Position::LikelyLast, _) => Some(End::Likely(at)),
                        (Position::Within, _) => None,
                    };
                });
                self.likely = matches!(end, Some(End::Likely(_))) && lines.are_complete();
                end
            }
            Form::Array(elements) => elements.feed(chunk, |data| _ = tally.event(endpoint, data)).map(End::Here),
            Form::Document(text) => {
                tally.generated += chunk.len() as u64;
                if text.len() + chunk.len() <= MAX_DOCUMENT {
                    text.extend_from_slice(chunk);
                }
                None
            }
        }
    }

    /// What is known by now of an answer that is still coming; the rest is estimated.
    pub(super) fn so_far(&self, request_bytes: u64) -> Usage {
        let tally = &self.tally;
        let estimated = Usage { input_tokens: request_bytes.div_ceil(BYTES_PER_TOKEN), ..Usage::default() };
        let output_tokens = tally.output.max(tally.generated.div_ceil(BYTES_PER_TOKEN));
        Usage { output_tokens, ..tally.input.unwrap_or(estimated) } + tally.beside
    }

    /// The totals of an answer with this status to a request of this many bytes; without their number nothing is guessed.
    pub(super) fn finish(mut self, status: u16, request_bytes: Option<u64>) -> Known {
        let (tally, endpoint) = (&mut self.tally, self.endpoint);
        match &mut self.form {
            Form::Lines(lines) => {
                let skipped = lines.finish(|_, data| _ = tally.event(endpoint, data));
                tally.generated += skipped;
            }
            Form::Array(elements) => tally.generated += elements.skipped(),
            Form::Document(text) => tally.document(endpoint, text),
        }
        let tally = self.tally;
        let mut usage = tally.input.unwrap_or_default();
        usage.output_tokens = tally.output;
        usage.reasoning_tokens = tally.reasoning;
        let charged = (200..300).contains(&status) || status == HUNG_UP;
        let estimated = charged && !(tally.output_final && tally.input.is_some());
        if let (true, Some(request_bytes)) = (estimated, request_bytes) {
            if tally.input.is_none() {
                usage.input_tokens = request_bytes.div_ceil(BYTES_PER_TOKEN);
            }
            if !tally.output_final {
                usage.output_tokens = tally.output.max(tally.generated.div_ceil(BYTES_PER_TOKEN));
            }
        }
        Known {
            model: tally.model,
            usage: usage + tally.beside,
            cache_write_1h: tally.cache_write_1h,
            estimated,
            tier: tally.tier,
            uses: tally.uses,
            spoke: tally.generated > 0,
        }
    }
}

impl Tally {
    /// Counts one event of a stream.
    fn event(&mut self, endpoint: Endpoint, data: &[u8]) -> Position {
        match endpoint {
            Endpoint::GenerateContent | Endpoint::StreamGenerateContent => gemini::event(self, data),
            Endpoint::OllamaChat | Endpoint::OllamaGenerate => ollama::event(self, data),
            _ if self.message(endpoint, data) => Position::Last,
            _ => Position::Within,
        }
    }

    /// Counts an event of Anthropic's or OpenAI's; true for the one that ends the stream.
    fn message(&mut self, endpoint: Endpoint, data: &[u8]) -> bool {
        if endpoint == Endpoint::ChatCompletions && data.trim_ascii() == b"[DONE]" {
            return true;
        }
        let Ok(event) = serde_json::from_slice::<Message<'_>>(data) else {
            self.generated += data.len() as u64;
            return false;
        };
        if let Some(model) = event.model.as_ref() {
            self.name(model);
        }
        self.told_tier(event.service_tier.as_deref());
        self.generated += event.generated();
        let kind = event.kind.as_deref().unwrap_or_default();
        match endpoint {
            Endpoint::Messages => {
                if let Some(started) = event.message {
                    if let Some(model) = &started.model {
                        self.name(model);
                    }
                    started.usage.inspect(|counts| self.count(counts));
                }
                if let Some(counts) = &event.usage {
                    self.count(counts);
                    self.output_final |= kind == "message_delta" && counts.output_tokens.is_some();
                }
                kind == "message_stop"
            }
            Endpoint::Responses => {
                let last = matches!(kind, "response.completed" | "response.incomplete" | "response.failed");
                if kind == "response.output_item.done"
                    && let Some(item) = event.item.and_then(|item| serde_json::from_str::<Item<'_>>(item.get()).ok())
                {
                    self.used(&item);
                }
                if let Some(inner) = event.response {
                    self.told_tier(inner.service_tier.as_deref());
                    if let Some(model) = &inner.model {
                        self.name(model);
                    }
                    if let Some(counts) = &inner.usage {
                        self.count(counts);
                        self.output_final |= last;
                    }
                }
                last
            }
            _ => {
                if let Some(counts) = &event.usage {
                    self.count(counts);
                    self.output_final = true;
                }
                false
            }
        }
    }

    fn document(&mut self, endpoint: Endpoint, text: &[u8]) {
        match endpoint {
            Endpoint::GenerateContent | Endpoint::StreamGenerateContent => return gemini::document(self, text),
            Endpoint::OllamaChat | Endpoint::OllamaGenerate => return ollama::document(self, text),
            _ => {}
        }
        let Ok(document) = serde_json::from_slice::<Message<'_>>(text) else { return };
        if let Some(model) = &document.model {
            self.name(model);
        }
        self.told_tier(document.service_tier.as_deref());
        if endpoint == Endpoint::Responses {
            let made = document.output.and_then(|made| serde_json::from_str::<Vec<Item<'_>>>(made.get()).ok());
            made.iter().flatten().for_each(|item| self.used(item));
        }
        if let Some(counts) = &document.usage {
            self.count(counts);
            self.output_final = true;
        }
    }

    pub(super) fn name(&mut self, model: &str) {
        if self.model.is_none() && !model.is_empty() {
            self.model = Some(model.chars().take(200).collect());
        }
    }

    fn told_tier(&mut self, name: Option<&str>) {
        if let Some(name) = name {
            self.tier = Some(extra_tier(name).map_or(Tier::Ordinary, Tier::Extra));
        }
    }

    /// Counts what OpenAI has run for a response.
    fn used(&mut self, item: &Item<'_>) {
        let tool = match item.kind.as_ref() {
            "web_search_call" => "web_search",
            "file_search_call" => "file_search",
            "code_interpreter_call" => "code_execution",
            "image_generation_call" => "image_generation",
            "mcp_call" => "mcp",
            _ => return,
        };
        *self.uses.entry(tool).or_default() += 1;
    }

    fn count(&mut self, counts: &Counts) {
        if let Some(used) = &counts.server_tool_use {
            for (tool, uses) in [("web_search", used.web_search_requests), ("web_fetch", used.web_fetch_requests)] {
                if let Some(uses) = uses {
                    self.uses.insert(tool, uses);
                }
            }
        }
        if let Some(iterations) = &counts.iterations {
            let beside = iterations.iter().filter(|iteration| iteration.kind != "message");
            self.beside = beside.map(Iteration::usage).fold(Usage::default(), Add::add);
        }
        // OpenAI's counts of input have both in them.
        let cached = |details: &Option<Details>, of: u64| {
            let told = |count: fn(&Details) -> Option<u64>| details.as_ref().and_then(count).unwrap_or(0);
            let read = told(|details| details.cached_tokens).min(of);
            (read, told(|details| details.cache_write_tokens).min(of - read))
        };
        let reasoning = |details: &Option<Details>| details.as_ref().and_then(|details| details.reasoning_tokens);
        let mut input = self.input.unwrap_or_default();
        let before = input;
        if let Some(prompt) = counts.prompt_tokens {
            let (read, written) = cached(&counts.prompt_tokens_details, prompt);
            input.input_tokens = prompt - read - written;
            (input.cache_read_tokens, input.cache_write_tokens) = (read, written);
        }
        if let Some(tokens) = counts.input_tokens {
            // The Responses format counts cached tokens in, Anthropic's does not and has no such details.
            let (read, written) = cached(&counts.input_tokens_details, tokens);
            input.input_tokens = tokens - read - written;
            input.cache_read_tokens = read;
            if counts.input_tokens_details.is_some() {
                input.cache_write_tokens = written;
            }
        }
        if let Some(tokens) = counts.cache_read_input_tokens {
            input.cache_read_tokens = tokens;
        } else if counts.input_tokens.is_some() && counts.input_tokens_details.is_none() {
            input.cache_read_tokens = before.cache_read_tokens;
        }
        if let Some(tokens) = counts.cache_creation_input_tokens {
            input.cache_write_tokens = tokens;
        }
        if let Some(tokens) = counts.cache_creation.as_ref().and_then(|creation| creation.ephemeral_1h_input_tokens) {
            self.cache_write_1h = tokens;
        }
        if counts.prompt_tokens.is_some() || counts.input_tokens.is_some() {
            self.input = Some(input);
        }
        if let Some(tokens) = counts.output_tokens.or(counts.completion_tokens) {
            self.output = tokens;
        }
        let details = reasoning(&counts.output_tokens_details).or(reasoning(&counts.completion_tokens_details));
        if let Some(tokens) = details {
            self.reasoning = tokens;
        }
    }
}

impl Iteration {
    fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.input_tokens.unwrap_or(0),
            output_tokens: self.output_tokens.unwrap_or(0),
            cache_read_tokens: self.cache_read_input_tokens.unwrap_or(0),
            cache_write_tokens: self.cache_creation_input_tokens.unwrap_or(0),
            reasoning_tokens: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANTHROPIC: &str = concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-sonnet-4-5\",\"usage\":",
        "{\"input_tokens\":25,\"cache_creation_input_tokens\":100,\"cache_read_input_tokens\":7,\"output_tokens\":1,",
        "\"cache_creation\":{\"ephemeral_5m_input_tokens\":60,\"ephemeral_1h_input_tokens\":40}}}}\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":",
        "{\"type\":\"text_delta\",\"text\":\"Hello, how are you?\"}}\n\n",
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},",
        "\"usage\":{\"output_tokens\":15}}\n\n",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    );
    const OPENAI: &str = concat!(
        "data: {\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello, how are you?\"}}],\"usage\":null}\n\n",
        "data: {\"model\":\"gpt-4o\",\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":20,",
        "\"prompt_tokens_details\":{\"cached_tokens\":30},\"completion_tokens_details\":{\"reasoning_tokens\":5}}}\n\n",
        "data: [DONE]\n\n",
    );
    const RESPONSES: &str = concat!(
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hello\"}\n\n",
        "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"model\":\"gpt-5\",\"usage\":",
        "{\"input_tokens\":100,\"input_tokens_details\":{\"cached_tokens\":30},\"output_tokens\":20,",
        "\"output_tokens_details\":{\"reasoning_tokens\":5}}}}\n\n",
    );
    const OPENAI_USAGE: Usage = Usage {
        input_tokens: 70,
        output_tokens: 20,
        cache_read_tokens: 30,
        cache_write_tokens: 0,
        reasoning_tokens: 5,
    };

    fn stream(endpoint: Endpoint, text: &str) -> (Vec<Option<End>>, Known) {
        let mut reader = Reader::new(endpoint, "text/event-stream; charset=utf-8");
        let ends =
            text.split_inclusive("\n\n").map(|part| reader.feed(&Bytes::copy_from_slice(part.as_bytes()))).collect();
        (ends, reader.finish(200, Some(400)))
    }

    #[test]
    fn an_anthropic_stream() {
        let (ends, known) = stream(Endpoint::Messages, ANTHROPIC);
        assert_eq!(ends, [None, None, None, Some(End::Here("event: message_stop\n".len()))]);
        let usage = Usage {
            input_tokens: 25,
            output_tokens: 15,
            cache_read_tokens: 7,
            cache_write_tokens: 100,
            reasoning_tokens: 0,
        };
        assert_eq!(
            known,
            Known {
                model: Some("claude-sonnet-4-5".into()),
                usage,
                cache_write_1h: 40,
                estimated: false,
                spoke: true,
                ..Known::default()
            }
        );
    }

    /// Anthropic's own example: the counts of the answer leave out the summary of 180,000 tokens.
    #[test]
    fn a_summary_that_anthropic_makes_on_the_way_is_counted() {
        let usage = r#"{"input_tokens":23000,"output_tokens":1000,"iterations":[
            {"type":"compaction","input_tokens":180000,"output_tokens":3500,"cache_read_input_tokens":7,"cache_creation_input_tokens":9},
            {"type":"message","input_tokens":23000,"output_tokens":1000}]}"#;
        let usage = usage.replace('\n', "");
        let counted = Usage {
            input_tokens: 203_000,
            output_tokens: 4_500,
            cache_read_tokens: 7,
            cache_write_tokens: 9,
            reasoning_tokens: 0,
        };
        let document = format!(r#"{{"type":"message","model":"claude-opus-4-6","usage":{usage}}}"#);
        let mut reader = Reader::new(Endpoint::Messages, "application/json");
        reader.feed(&Bytes::from(document));
        assert_eq!(reader.finish(200, Some(400)).usage, counted);
        let events = format!(
            "data: {{\"type\":\"message_delta\",\"delta\":{{}},\"usage\":{usage}}}\n\ndata: {{\"type\":\"message_stop\"}}\n\n"
        );
        assert_eq!(stream(Endpoint::Messages, &events).1.usage, counted);
    }

    #[test]
    fn what_openai_writes_to_its_cache_is_counted_apart() {
        let details = r#"{"cached_tokens":30,"cache_write_tokens":50}"#;
        let counted = Usage {
            input_tokens: 20,
            output_tokens: 5,
            cache_read_tokens: 30,
            cache_write_tokens: 50,
            reasoning_tokens: 0,
        };
        for (endpoint, usage) in [
            (
                Endpoint::ChatCompletions,
                format!(r#"{{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{details}}}"#),
            ),
            (
                Endpoint::Responses,
                format!(r#"{{"input_tokens":100,"output_tokens":5,"input_tokens_details":{details}}}"#),
            ),
        ] {
            let mut reader = Reader::new(endpoint, "application/json");
            reader.feed(&Bytes::from(format!(r#"{{"model":"gpt-5.6-sol","usage":{usage}}}"#)));
            assert_eq!(reader.finish(200, Some(400)).usage, counted, "{endpoint:?}");
        }
    }

    #[test]
    fn an_openai_chat_stream() {
        let (ends, known) = stream(Endpoint::ChatCompletions, OPENAI);
        assert_eq!(ends, [None, None, Some(End::Here(0))]);
        let expected = Known {
            model: Some("gpt-4o".into()),
            usage: OPENAI_USAGE,
            cache_write_1h: 0,
            estimated: false,
            spoke: true,
            ..Known::default()
        };
        assert_eq!(known, expected);
    }

    #[test]
    fn an_openai_responses_stream() {
        let (ends, known) = stream(Endpoint::Responses, RESPONSES);
        assert_eq!(ends, [None, Some(End::Here("event: response.completed\n".len()))]);
        let expected = Known {
            model: Some("gpt-5".into()),
            usage: OPENAI_USAGE,
            cache_write_1h: 0,
            estimated: false,
            spoke: true,
            ..Known::default()
        };
        assert_eq!(known, expected);
    }

    #[test]
    fn a_cut_stream_is_estimated_from_what_was_seen() {
        let cut = |endpoint, text: &str| {
            let parts: String =
                text.split_inclusive("\n\n").take(if endpoint == Endpoint::Messages { 2 } else { 1 }).collect();
            let known = stream(endpoint, &parts).1;
            (known.usage.input_tokens, known.usage.output_tokens, known.estimated)
        };
        assert_eq!(cut(Endpoint::Messages, ANTHROPIC), (25, 5, true));
        assert_eq!(cut(Endpoint::ChatCompletions, OPENAI), (100, 5, true));
        assert_eq!(cut(Endpoint::Responses, RESPONSES), (100, 2, true));
    }

    #[test]
    fn documents() {
        let read = |endpoint, status, text: &str| {
            let mut reader = Reader::new(endpoint, "application/json");
            for byte in text.as_bytes() {
                reader.feed(&Bytes::copy_from_slice(&[*byte]));
            }
            reader.finish(status, Some(400))
        };
        let known = read(Endpoint::Messages, 200, r#"{"model":"m","usage":{"input_tokens":3,"output_tokens":4}}"#);
        assert_eq!((known.usage.input_tokens, known.usage.output_tokens, known.estimated), (3, 4, false));
        let known = read(Endpoint::Messages, 529, r#"{"type":"error","error":{"type":"overloaded_error"}}"#);
        assert_eq!((known.usage, known.estimated), (Usage::default(), false));
        let known = read(Endpoint::ChatCompletions, 200, "garbage!");
        assert_eq!((known.usage.input_tokens, known.usage.output_tokens, known.estimated), (100, 2, true));
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(chunks: Vec<Vec<u8>>, events: bool) {
            for endpoint in [Endpoint::Messages, Endpoint::ChatCompletions, Endpoint::Responses] {
                let mut reader = Reader::new(endpoint, if events { "text/event-stream" } else { "" });
                for chunk in &chunks {
                    reader.feed(&Bytes::copy_from_slice(chunk));
                }
                reader.finish(200, Some(0));
            }
        }

        #[test]
        fn any_counts_never_overflow(a: u64, b: u64, c: u64) {
            let event = format!(
                "data: {{\"usage\":{{\"prompt_tokens\":{a},\"prompt_tokens_details\":{{\"cached_tokens\":{b}}},\"completion_tokens\":{c},\"input_tokens\":{c},\"input_tokens_details\":{{\"cached_tokens\":{a}}}}}}}\n\n"
            );
            stream(Endpoint::ChatCompletions, &event);
        }
    }
}
