//! What must hold of the parsers here whatever bytes they are given. The targets in `fuzz/` look for input that breaks it;
//! the tests below try random input, and input made of what the formats are made of.
//!
//! A function takes bytes and panics when its promise is broken.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a broken promise is to be found")]

use bytes::Bytes;
use serde_json::Value;

use super::array::Elements;
use super::lines::{Kind, Lines};
use super::usage::{End, Known, Reader};
use super::{Endpoint, edit};

const GENERATING: [Endpoint; 7] = [
    Endpoint::Messages,
    Endpoint::ChatCompletions,
    Endpoint::Responses,
    Endpoint::GenerateContent,
    Endpoint::StreamGenerateContent,
    Endpoint::OllamaChat,
    Endpoint::OllamaGenerate,
];
const CONTENT_TYPES: [&str; 4] = ["text/event-stream", "application/x-ndjson", "application/json", ""];
const PATH: &str = "v1beta/models/m:generateContent";

/// Server-sent events: cut anywhere, the same `data` is found.
pub fn events(input: &[u8]) {
    lines_of(Kind::Events, input);
}

/// JSON one to a line: cut anywhere, the same lines are found.
pub fn json_lines(input: &[u8]) {
    lines_of(Kind::Json, input);
}

fn lines_of(kind: Kind, input: &[u8]) {
    let read = |chunks: &mut dyn Iterator<Item = Bytes>| {
        let (mut lines, mut seen) = (Lines::new(kind), Vec::new());
        for chunk in chunks {
            lines.feed(&chunk, |at, data| {
                assert!(at <= chunk.len());
                seen.push(data.to_vec());
            });
        }
        lines.finish(|_, data| seen.push(data.to_vec()));
        seen
    };
    let (size, text) = sized(input);
    assert_eq!(read(&mut chunks(text, size)), read(&mut chunks(text, usize::MAX)));
}

/// A JSON array: cut anywhere, the same elements and the same end are found.
pub fn json_array(input: &[u8]) {
    let read = |chunks: &mut dyn Iterator<Item = Bytes>| {
        let (mut elements, mut seen, mut end, mut before) = (Elements::default(), Vec::new(), None, 0);
        for chunk in chunks {
            let at = elements.feed(&chunk, |element| seen.push(element.to_vec()));
            end = end.or(at.map(|at| before + at));
            before += chunk.len();
        }
        (seen, end)
    };
    let (size, text) = sized(input);
    assert_eq!(read(&mut chunks(text, size)), read(&mut chunks(text, usize::MAX)));
}

/// Every usage reader: cut anywhere, the same tokens are counted, and an end lies within what came.
pub fn usage(input: &[u8]) {
    let [endpoint, content_type, rest @ ..] = input else { return };
    let endpoint = GENERATING[usize::from(*endpoint) % GENERATING.len()];
    let content_type = CONTENT_TYPES[usize::from(*content_type) % CONTENT_TYPES.len()];
    let read = |chunks: &mut dyn Iterator<Item = Bytes>| -> Known {
        let mut reader = Reader::new(endpoint, content_type);
        for chunk in chunks {
            if let Some(End::Here(at) | End::Likely(at)) = reader.feed(&chunk) {
                assert!(at < chunk.len().max(1), "an end at {at} of {}", chunk.len());
            }
        }
        reader.finish(200, Some(input.len() as u64))
    };
    let (size, text) = sized(rest);
    assert_eq!(read(&mut chunks(text, size)), read(&mut chunks(text, usize::MAX)));
}

/// The edit of requests: nothing changes but the options of a Chat Completions stream, which then asks for its usage.
pub fn prepare(input: &[u8]) {
    let [endpoint, body @ ..] = input else { return };
    let endpoint = GENERATING[usize::from(*endpoint) % GENERATING.len()];
    let Ok((head, edited)) = edit::prepare(endpoint, PATH, Bytes::copy_from_slice(body)) else { return };
    if endpoint != Endpoint::ChatCompletions || !head.stream {
        assert_eq!(edited, body);
        return;
    }
    let mut before: Value = serde_json::from_slice(body).unwrap();
    let mut after: Value = serde_json::from_slice(&edited).unwrap();
    assert_eq!(after["stream_options"]["include_usage"], true);
    for value in [&mut before, &mut after] {
        let options = value.as_object_mut().unwrap().remove("stream_options");
        let options = options.and_then(|options| options.as_object().cloned()).unwrap_or_default();
        value["others"] = options.into_iter().filter(|(name, _)| name != "include_usage").collect();
    }
    assert_eq!(before, after);
}

/// The first byte says how long chunks are.
fn sized(input: &[u8]) -> (usize, &[u8]) {
    match input {
        [size, text @ ..] => (usize::from(*size).max(1), text),
        [] => (1, input),
    }
}

fn chunks(text: &[u8], size: usize) -> impl Iterator<Item = Bytes> {
    text.chunks(size.max(1)).map(Bytes::copy_from_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pieces that the formats are made of, in any order.
    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let known = prop::sample::select(vec![
            "data: ",
            "data:",
            "event: x",
            "\n",
            "\r\n",
            "\r",
            "\n\n",
            ": ping\n",
            "[DONE]",
            "[",
            "]",
            "{",
            "}",
            ",",
            "\"",
            "\\",
            "{}",
            "null",
            "true",
            "12",
            "18446744073709551615",
            r#"{"type":"message_start","message":{"model":"m","usage":{"input_tokens":1,"output_tokens":2}}}"#,
            r#"{"type":"message_delta","usage":{"output_tokens":5}}"#,
            r#"{"type":"message_stop"}"#,
            r#"{"choices":[{"delta":{"content":"x"}}],"usage":null}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}"#,
            r#"{"type":"response.output_text.delta","delta":"x"}"#,
            r#"{"type":"response.completed","response":{"model":"m","usage":{"input_tokens":3,"output_tokens":2}}}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"x"}]}}],"usageMetadata":{"promptTokenCount":4}}"#,
            r#"{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":2}}"#,
            r#"{"model":"q","message":{"role":"assistant","content":"x"},"done":false}"#,
            r#"{"model":"q","done":true,"prompt_eval_count":3,"eval_count":2}"#,
            "{\"stream\":true",
            ",\"stream_options\":{\"include_usage\":false,\"x\":1}",
            ",\"stream_options\":null",
            "\"n\":2,",
            "{\"options\":{\"num_predict\":-1}}",
            "{\"generationConfig\":{\"maxOutputTokens\":7}}",
        ]);
        let noise = prop::collection::vec(any::<u8>(), 0..4);
        let piece = prop_oneof![8 => known.prop_map(|text| text.as_bytes().to_vec()), 1 => noise];
        (any::<[u8; 3]>(), prop::collection::vec(piece, 0..24))
            .prop_map(|(head, pieces)| [&head[..], &pieces.concat()].concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn what_the_formats_are_made_of(input in pieces()) {
            events(&input);
            json_lines(&input);
            json_array(&input);
            usage(&input);
            prepare(&input);
        }

        #[test]
        fn anything(input: Vec<u8>) {
            events(&input);
            json_lines(&input);
            json_array(&input);
            usage(&input);
            prepare(&input);
        }
    }

    #[test]
    fn a_line_that_begins_in_the_chunk_of_a_likely_end_is_read_whole() {
        let last = r#"{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":2}}"#;
        let mut reader = Reader::new(Endpoint::StreamGenerateContent, "text/event-stream");
        for chunk in [&format!("data: {last}\ndata: {{\"usage"), "\n", &format!("data: {last}\n")] {
            reader.feed(&Bytes::copy_from_slice(chunk.as_bytes()));
        }
        assert!(!reader.finish(200, Some(4)).estimated);
    }
}
