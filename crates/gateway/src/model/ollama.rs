//! Tokens in Ollama's answers: the last line of a stream, or the document, tells them.

use std::borrow::Cow;

use harvest_core::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::usage::{Position, Tally};

/// A line or a document, of a chat or of a completion.
#[derive(Deserialize)]
struct Generated<'a> {
    #[serde(borrow, default)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
    #[serde(default)]
    done: bool,
    /// Left out when it is zero, which it is for a prompt that was answered before.
    #[serde(default)]
    prompt_eval_count: u64,
    #[serde(default)]
    eval_count: u64,
}

pub(super) fn event(tally: &mut Tally, data: &[u8]) -> Position {
    let Ok(line) = serde_json::from_slice::<Generated<'_>>(data) else {
        tally.generated += data.len() as u64;
        return Position::Within;
    };
    // The names around a text weigh a little too.
    let frame = r#"{"role":"assistant","content":""}"#.len();
    let length = |text: Option<&RawValue>, frame: usize| text.map_or(0, |text| text.get().len().saturating_sub(frame));
    tally.generated += (length(line.message, frame) + length(line.response, 2) + length(line.thinking, 2)) as u64;
    if let Some(model) = &line.model {
        tally.name(model);
    }
    if !line.done {
        return Position::Within;
    }
    tally.input = Some(Usage { input_tokens: line.prompt_eval_count, ..Usage::default() });
    tally.output = line.eval_count;
    tally.output_final = true;
    Position::Last
}

/// Some hosts call a stream a document, so there may be several lines.
pub(super) fn document(tally: &mut Tally, text: &[u8]) {
    let lines = serde_json::Deserializer::from_slice(text).into_iter::<&RawValue>();
    for line in lines.map_while(Result::ok) {
        event(tally, line.get().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::Endpoint;
    use super::super::usage::{End, Known, Reader};
    use super::*;

    const WORD: &str = r#"{"model":"qwen3:8b","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"Hello, how are you?"},"done":false}"#;
    const DONE: &str = r#"{"model":"qwen3:8b","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":1,"prompt_eval_count":26,"eval_count":12}"#;

    fn read(endpoint: Endpoint, content_type: &str, chunks: &[&str]) -> (Vec<Option<End>>, Known) {
        let mut reader = Reader::new(endpoint, content_type);
        let ends = chunks.iter().map(|chunk| reader.feed(&Bytes::copy_from_slice(chunk.as_bytes()))).collect();
        (ends, reader.finish(200, Some(400)))
    }

    fn known() -> Known {
        let usage = Usage { input_tokens: 26, output_tokens: 12, ..Usage::default() };
        Known {
            model: Some("qwen3:8b".into()),
            usage,
            cache_write_1h: 0,
            estimated: false,
            spoke: true,
            ..Known::default()
        }
    }

    #[test]
    fn lines() {
        let (word, done) = (format!("{WORD}\n"), format!("{WORD}\n{DONE}\n"));
        let (ends, read) = read(Endpoint::OllamaChat, "application/x-ndjson", &[&word, &done]);
        assert_eq!((ends, read), (vec![None, Some(End::Here(word.len()))], known()));
    }

    #[test]
    fn documents_of_both_kinds() {
        assert_eq!(read(Endpoint::OllamaChat, "application/json; charset=utf-8", &[DONE]).1, known());
        let generated = r#"{"model":"qwen3:8b","response":"Hi","done":true,"prompt_eval_count":26,"eval_count":12}"#;
        assert_eq!(read(Endpoint::OllamaGenerate, "application/json", &[generated]).1, known());
        let lines = format!("{WORD}\n{DONE}");
        assert_eq!(read(Endpoint::OllamaChat, "application/json", &[&lines]).1, known());
        let cached = r#"{"model":"q","response":"Hi","done":true,"eval_count":12}"#;
        let read = read(Endpoint::OllamaGenerate, "", &[cached]).1;
        assert_eq!((read.usage.input_tokens, read.usage.output_tokens, read.estimated), (0, 12, false));
    }

    #[test]
    fn what_is_cut_is_estimated_from_what_was_seen() {
        let known = read(Endpoint::OllamaChat, "application/x-ndjson", &[WORD, "\n", r#"{"mod"#]).1;
        assert_eq!((known.usage.input_tokens, known.usage.output_tokens, known.estimated), (100, 6, true));
    }
}
