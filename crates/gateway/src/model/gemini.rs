//! Tokens in Gemini's answers. Every event of a stream tells the totals so far, and none says that it is the last.

use std::borrow::Cow;

use harvest_core::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::usage::{Position, Tally};

/// An event or a document.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Generated<'a> {
    #[serde(borrow, default)]
    model_version: Option<Cow<'a, str>>,
    #[serde(default)]
    usage_metadata: Option<UsageMetadata>,
    #[serde(borrow, default)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(default)]
    prompt_feedback: Option<PromptFeedback>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    #[serde(default)]
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UsageMetadata {
    /// With what came from a cache.
    prompt_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    /// What tools of Google's own put into the prompt.
    tool_use_prompt_token_count: Option<u64>,
    /// Without the thoughts.
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
}

pub(super) fn event(tally: &mut Tally, data: &[u8]) -> Position {
    let Ok(event) = serde_json::from_slice::<Generated<'_>>(data) else {
        tally.generated += data.len() as u64;
        return Position::Within;
    };
    // The names around a text weigh a little too.
    let frame = r#"{"parts":[{"text":""}],"role":"model"}"#.len();
    let contents = event.candidates.iter().flatten().filter_map(|candidate| candidate.content);
    tally.generated += contents.map(|content| content.get().len().saturating_sub(frame) as u64).sum::<u64>();
    let finished = event.is_finished();
    let counted = count(tally, &event);
    // A second candidate may still be writing, and then counts again.
    tally.output_final = finished && counted;
    if finished { Position::LikelyLast } else { Position::Within }
}

pub(super) fn document(tally: &mut Tally, text: &[u8]) {
    if let Ok(document) = serde_json::from_slice::<Generated<'_>>(text) {
        tally.output_final = count(tally, &document);
    }
}

impl Generated<'_> {
    fn is_finished(&self) -> bool {
        let candidates = self.candidates.iter().flatten();
        let refused = self.prompt_feedback.as_ref().is_some_and(|feedback| feedback.block_reason.is_some());
        refused || candidates.filter_map(|candidate| candidate.finish_reason).any(|reason| reason.get() != "null")
    }
}

/// Whether the event told any numbers.
fn count(tally: &mut Tally, event: &Generated<'_>) -> bool {
    if let Some(model) = &event.model_version {
        tally.name(model);
    }
    let Some(counts) = &event.usage_metadata else { return false };
    if let Some(prompt) = counts.prompt_token_count {
        let prompt = prompt.saturating_add(counts.tool_use_prompt_token_count.unwrap_or(0));
        let cached = counts.cached_content_token_count.unwrap_or(0).min(prompt);
        let input = Usage { input_tokens: prompt - cached, cache_read_tokens: cached, ..Usage::default() };
        tally.input = Some(input);
    }
    let thoughts = counts.thoughts_token_count.unwrap_or(0);
    if counts.candidates_token_count.is_some() || counts.thoughts_token_count.is_some() {
        tally.output = counts.candidates_token_count.unwrap_or(0).saturating_add(thoughts);
        tally.reasoning = thoughts;
    }
    true
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::super::Endpoint;
    use super::super::usage::{End, Known, Reader};
    use super::*;

    const FIRST: &str = r#"{"candidates":[{"content":{"parts":[{"text":"Hello, how are you?"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":30,"thoughtsTokenCount":5,"totalTokenCount":105},"modelVersion":"gemini-2.5-pro"}"#;
    const LAST: &str = r#"{"candidates":[{"content":{"parts":[{"text":"!"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":30,"candidatesTokenCount":15,"thoughtsTokenCount":5,"toolUsePromptTokenCount":3,"totalTokenCount":123},"modelVersion":"gemini-2.5-pro"}"#;
    const USAGE: Usage = Usage {
        input_tokens: 73,
        output_tokens: 20,
        cache_read_tokens: 30,
        cache_write_tokens: 0,
        reasoning_tokens: 5,
    };

    fn known(estimated: bool) -> Known {
        Known {
            model: Some("gemini-2.5-pro".into()),
            usage: USAGE,
            cache_write_1h: 0,
            estimated,
            spoke: true,
            ..Known::default()
        }
    }

    fn read(endpoint: Endpoint, content_type: &str, chunks: &[&str]) -> (Vec<Option<End>>, Known) {
        let mut reader = Reader::new(endpoint, content_type);
        let ends = chunks.iter().map(|chunk| reader.feed(&Bytes::copy_from_slice(chunk.as_bytes()))).collect();
        (ends, reader.finish(200, Some(400)))
    }

    #[test]
    fn events() {
        let chunks = [format!("data: {FIRST}\r\n\r\n"), format!("data: {LAST}\r\n\r\n")];
        let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
        let (ends, read) = read(Endpoint::StreamGenerateContent, "text/event-stream", &chunks);
        assert_eq!((ends.as_slice(), read), ([None, Some(End::Likely(0))].as_slice(), known(false)));
    }

    #[test]
    fn another_event_after_one_that_seemed_the_last() {
        let one = format!("data: {FIRST}\n\ndata: {LAST}\n\n");
        let more = format!("data: {}\n\n", FIRST.replace("\"thoughtsTokenCount\":5", "\"candidatesTokenCount\":99"));
        let (ends, read) = read(Endpoint::StreamGenerateContent, "text/event-stream", &[&one, &more]);
        assert_eq!(ends, [Some(End::Likely(format!("data: {FIRST}\n\n").len())), None]);
        assert_eq!((read.usage.output_tokens, read.estimated), (99, true), "it was cut while another candidate wrote");
    }

    #[test]
    fn blank_lines_change_nothing_about_the_end() {
        let last = format!("data: {LAST}\r\n");
        let (ends, _) = read(Endpoint::StreamGenerateContent, "text/event-stream", &[&last, "\r", "\n", "data:"]);
        assert_eq!(ends, [Some(End::Likely(0)), Some(End::StillLikely), Some(End::StillLikely), None]);
    }

    #[test]
    fn an_array() {
        let chunks = [format!("[{FIRST}\n"), ",\r\n".to_owned(), LAST.to_owned(), "\n]\n".to_owned()];
        let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
        let (ends, read) = read(Endpoint::StreamGenerateContent, "application/json; charset=UTF-8", &chunks);
        assert_eq!((ends.as_slice(), read), ([None, None, None, Some(End::Here(1))].as_slice(), known(false)));
    }

    #[test]
    fn documents_and_refusals() {
        assert_eq!(read(Endpoint::GenerateContent, "application/json", &[LAST]).1, known(false));
        let refused =
            r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":7,"totalTokenCount":7}}"#;
        let read = read(Endpoint::GenerateContent, "application/json", &[refused]).1;
        assert_eq!((read.usage.input_tokens, read.usage.output_tokens, read.estimated), (7, 0, false));
    }

    #[test]
    fn what_is_cut_is_estimated_from_what_was_seen() {
        for (content_type, text) in [
            ("text/event-stream", format!("data: {FIRST}\n\ndata: {{\"cand")),
            ("application/json", format!("[{FIRST},\n{{")),
        ] {
            let known = read(Endpoint::StreamGenerateContent, content_type, &[&text]).1;
            assert_eq!((known.usage.input_tokens, known.usage.cache_read_tokens, known.estimated), (70, 30, true));
            assert!((5..10).contains(&known.usage.output_tokens), "{known:?}");
        }
    }

    proptest! {
        #[test]
        fn any_counts_never_overflow(a: u64, b: u64, c: u64) {
            let text = format!(
                r#"{{"usageMetadata":{{"promptTokenCount":{a},"cachedContentTokenCount":{b},"toolUsePromptTokenCount":{c},"candidatesTokenCount":{a},"thoughtsTokenCount":{b}}}}}"#
            );
            read(Endpoint::GenerateContent, "", &[&text]);
        }
    }
}
