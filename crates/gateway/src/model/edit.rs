//! What a request asks for, and the one edit of its body: a Chat Completions stream is told to report its usage.
//!
//! The edit splices a few bytes into the text, so that every other byte stays as the client wrote it.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::Endpoint;
use super::vendor::model_action;

const ASK_FOR_USAGE: &str = r#""include_usage":true"#;

/// What the gateway must know of a request.
#[derive(Debug, PartialEq)]
pub(super) struct Head {
    pub(super) model: String,
    /// Whether the answer comes in pieces.
    pub(super) stream: bool,
    /// The most tokens that one answer can have, if the request says so.
    pub(super) most_output: Option<u64>,
    /// How many answers are made, each of which is paid for.
    pub(super) answers: u64,
    /// How often the model may read the request and answer: twice when the vendor may summarise the conversation first.
    pub(super) passes: u64,
    /// The service tier, where it is not the ordinary one.
    pub(super) tier: Option<String>,
}

/// A request in any of the formats; each fills its own fields.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    model: Cow<'a, str>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(borrow, default, deserialize_with = "even_null")]
    stream_options: Option<&'a RawValue>,
    /// Anthropic, and Chat Completions of old.
    #[serde(default)]
    max_tokens: Option<u64>,
    #[serde(default)]
    max_completion_tokens: Option<u64>,
    /// Responses.
    #[serde(default)]
    max_output_tokens: Option<u64>,
    /// Answers that Chat Completions gives.
    #[serde(default)]
    n: Option<u64>,
    /// Answers that it makes to choose from.
    #[serde(default)]
    best_of: Option<u64>,
    /// Gemini. Google's parser takes either spelling, so both are read.
    #[serde(default, alias = "generation_config", rename = "generationConfig")]
    generation_config: Option<GenerationConfig>,
    /// Ollama.
    #[serde(default)]
    options: Option<OllamaOptions>,
    /// Google's parser takes either spelling here, too.
    #[serde(borrow, default, alias = "serviceTier")]
    service_tier: Option<Cow<'a, str>>,
    /// Anthropic's tiers.
    #[serde(borrow, default)]
    speed: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    inference_geo: Option<Cow<'a, str>>,
    /// Anthropic's and OpenAI's rules for long conversations.
    #[serde(default)]
    context_management: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct GenerationConfig {
    #[serde(default, alias = "max_output_tokens", rename = "maxOutputTokens")]
    max_output_tokens: Option<u64>,
    #[serde(default, alias = "candidate_count", rename = "candidateCount")]
    candidate_count: Option<u64>,
}

#[derive(Deserialize)]
struct OllamaOptions {
    /// Below zero there is no limit.
    #[serde(default)]
    num_predict: Option<i64>,
}

#[derive(Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

/// Reads the request to `path` and edits it where needed. An error says why the body cannot be understood: such a request is
/// refused, since one that the gateway reads differently from the vendor would be a way around the metering.
pub(super) fn prepare(endpoint: Endpoint, path: &str, body: Bytes) -> Result<(Head, Bytes), String> {
    let not_understood = |error: serde_json::Error| format!("the request's body cannot be parsed: {error}");
    let text = std::str::from_utf8(&body).map_err(|_| "the request's body is not UTF-8".to_owned())?;
    if !text.trim_start().starts_with('{') {
        return Err("the request's body is not a JSON object".to_owned());
    }
    let read: Body<'_> = serde_json::from_str(text).map_err(not_understood)?;
    let head = read.head(endpoint, path);
    if endpoint != Endpoint::ChatCompletions || !head.stream {
        return Ok((head, body));
    }
    let edited = match read.stream_options {
        None => {
            splice(text, text.find('{').map_or(0, |at| at + 1), 0, &format!(r#""stream_options":{{{ASK_FOR_USAGE}}},"#))
        }
        Some(raw) => {
            let options: Option<StreamOptions> = serde_json::from_str(raw.get()).map_err(not_understood)?;
            if options.is_some_and(|options| options.include_usage == Some(true)) {
                return Ok((head, body));
            }
            let mut map: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str::<Option<_>>(raw.get()).map_err(not_understood)?.unwrap_or_default();
            map.insert("include_usage".to_owned(), true.into());
            let at = raw.get().as_ptr() as usize - text.as_ptr() as usize;
            splice(text, at, raw.get().len(), &serde_json::Value::Object(map).to_string())
        }
    };
    Ok((head, Bytes::from(edited)))
}

impl Body<'_> {
    fn head(&self, endpoint: Endpoint, path: &str) -> Head {
        let model = match endpoint {
            Endpoint::GenerateContent | Endpoint::StreamGenerateContent => {
                model_action(path).map_or("", |(model, _)| model)
            }
            _ => &self.model,
        };
        let stream = match endpoint {
            Endpoint::StreamGenerateContent => true,
            Endpoint::GenerateContent => false,
            Endpoint::OllamaChat | Endpoint::OllamaGenerate => self.stream.unwrap_or(true),
            _ => self.stream.unwrap_or(false),
        };
        let generation = self.generation_config.as_ref();
        let (most, answers) = match endpoint {
            Endpoint::Messages => (self.max_tokens, None),
            Endpoint::ChatCompletions => (self.max_completion_tokens.or(self.max_tokens), self.n.max(self.best_of)),
            Endpoint::Responses => (self.max_output_tokens, None),
            Endpoint::GenerateContent | Endpoint::StreamGenerateContent => {
                (generation.and_then(|it| it.max_output_tokens), generation.and_then(|it| it.candidate_count))
            }
            Endpoint::OllamaChat | Endpoint::OllamaGenerate => {
                let most = self.options.as_ref().and_then(|options| options.num_predict);
                (most.and_then(|most| u64::try_from(most).ok()), None)
            }
            Endpoint::Models | Endpoint::ShowModel | Endpoint::CountTokens => (None, None),
        };
        let (model, answers) = (model.chars().take(200).collect(), answers.unwrap_or(1).max(1));
        let passes = if self.context_management.as_ref().is_some_and(compacts) { 2 } else { 1 };
        Head { model, stream, most_output: most, answers, passes, tier: self.tier() }
    }

    /// Everything that changes the price of a token, by the names in the price table.
    fn tier(&self) -> Option<String> {
        let asked = [self.service_tier.as_deref(), self.speed.as_deref(), self.inference_geo.as_deref()];
        let tiers: Vec<String> = asked.into_iter().flatten().filter_map(extra_tier).collect();
        (!tiers.is_empty()).then(|| tiers.join("+"))
    }
}

/// Whether rules for long conversations ask for a summary: Anthropic's `compact_20260112`, OpenAI's `compaction`.
fn compacts(rules: &serde_json::Value) -> bool {
    match rules {
        serde_json::Value::String(text) => text.starts_with("compact"),
        serde_json::Value::Array(rules) => rules.iter().any(compacts),
        serde_json::Value::Object(rules) => rules.values().any(compacts),
        _ => false,
    }
}

/// A tier that is not the ordinary one.
pub(super) fn extra_tier(name: &str) -> Option<String> {
    let name: String = name.chars().take(40).collect::<String>().to_ascii_lowercase();
    let name = name.strip_prefix("service_tier_").unwrap_or(&name);
    let ordinary =
        ["", "auto", "default", "standard", "standard_only", "unspecified", "on_demand", "global", "not_available"];
    (!ordinary.contains(&name)).then(|| name.to_owned())
}

fn splice(text: &str, at: usize, removed: usize, inserted: &str) -> String {
    let (before, rest) = text.split_at(at);
    let after = rest.get(removed..).unwrap_or_default();
    [before, inserted, after].concat()
}

/// `null` is a value here, not an absence.
fn even_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chat(body: &str) -> Result<String, String> {
        let (_, edited) = prepare(Endpoint::ChatCompletions, "", Bytes::copy_from_slice(body.as_bytes()))?;
        Ok(String::from_utf8(edited.to_vec()).unwrap())
    }

    #[test]
    fn a_stream_asks_for_its_usage_and_nothing_else_changes() {
        for (sent, expected) in [
            (
                r#"{ "stream" : true, "x":1.0 }"#,
                r#"{"stream_options":{"include_usage":true}, "stream" : true, "x":1.0 }"#,
            ),
            (r#"{"stream":true,"stream_options":null}"#, r#"{"stream":true,"stream_options":{"include_usage":true}}"#),
            (r#"{"stream_options":{ },"stream":true}"#, r#"{"stream_options":{"include_usage":true},"stream":true}"#),
            (
                r#"{"stream":true,"stream_options":{"include_usage":false,"new":[1]}}"#,
                r#"{"stream":true,"stream_options":{"include_usage":true,"new":[1]}}"#,
            ),
        ] {
            assert_eq!(chat(sent).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn everything_else_passes_as_it_is() {
        for body in [
            r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
            r#"{"stream":false}"#,
            r#"{"messages":[{"stream":true}]}"#,
            "{}",
        ] {
            assert_eq!(chat(body).as_deref(), Ok(body));
        }
    }

    #[test]
    fn what_two_parsers_could_read_differently_is_refused() {
        for body in ["", "[]", "{", r#"{"stream":false,"stream":true}"#, r#"{"stream":"true"}"#, r#"{} {}"#] {
            assert!(chat(body).is_err(), "{body}");
        }
    }

    #[test]
    fn a_summary_of_the_conversation_is_a_second_pass() {
        for (rules, passes) in [
            (r#"{"edits":[{"type":"compact_20260112"}]}"#, 2),
            (r#"{"edits":[{"type":"\u0063ompact_20260112"}]}"#, 2),
            (r#"[{"type":"compaction","compact_threshold":1000}]"#, 2),
            (r#"{"edits":[{"type":"clear_tool_uses_20250919"}]}"#, 1),
            ("null", 1),
        ] {
            let body = format!(r#"{{"model":"c","context_management":{rules}}}"#);
            let (head, _) = prepare(Endpoint::Messages, "", Bytes::from(body)).unwrap();
            assert_eq!(head.passes, passes, "{rules}");
        }
    }

    #[test]
    fn heads_of_every_format() {
        let pro = "v1beta/models/gemini-2.5-pro:streamGenerateContent";
        for (endpoint, path, body, model, stream, most_output, answers) in [
            (Endpoint::Messages, "", r#"{"model":"c","max_tokens":9,"stream":true}"#, "c", true, Some(9), 1),
            (Endpoint::ChatCompletions, "", r#"{"model":"g","max_tokens":9}"#, "g", false, Some(9), 1),
            (
                Endpoint::ChatCompletions,
                "",
                r#"{"max_tokens":9,"max_completion_tokens":7,"n":3}"#,
                "",
                false,
                Some(7),
                3,
            ),
            (Endpoint::ChatCompletions, "", r#"{"n":5}"#, "", false, None, 5),
            (Endpoint::ChatCompletions, "", r#"{"n":2,"best_of":4}"#, "", false, None, 4),
            (Endpoint::Responses, "", r#"{"model":"g","max_output_tokens":5,"stream":null}"#, "g", false, Some(5), 1),
            (Endpoint::StreamGenerateContent, pro, r#"{"model":"other"}"#, "gemini-2.5-pro", true, None, 1),
            (
                Endpoint::GenerateContent,
                "v1beta/models/m:generateContent",
                r#"{"generationConfig":{"maxOutputTokens":8,"candidateCount":2},"stream":true}"#,
                "m",
                false,
                Some(8),
                2,
            ),
            (
                Endpoint::StreamGenerateContent,
                pro,
                r#"{"generation_config":{"max_output_tokens":8}}"#,
                "gemini-2.5-pro",
                true,
                Some(8),
                1,
            ),
            (Endpoint::OllamaChat, "", r#"{"model":"q","options":{"num_predict":4}}"#, "q", true, Some(4), 1),
            (
                Endpoint::OllamaGenerate,
                "",
                r#"{"model":"q","stream":false,"options":{"num_predict":-1}}"#,
                "q",
                false,
                None,
                1,
            ),
        ] {
            let (head, passed) = prepare(endpoint, path, Bytes::from_static(body.as_bytes())).unwrap();
            assert_eq!(
                head,
                Head { model: model.to_owned(), stream, most_output, answers, passes: 1, tier: None },
                "{body}"
            );
            assert_eq!(passed, body);
        }
        for (body, tier) in [
            (r#"{"service_tier":"auto"}"#, None),
            (r#"{"service_tier":"priority"}"#, Some("priority")),
            (r#"{"serviceTier":"SERVICE_TIER_FLEX"}"#, Some("flex")),
            (r#"{"service_tier":"standard_only","speed":"fast","inference_geo":"us"}"#, Some("fast+us")),
        ] {
            let (head, _) = prepare(Endpoint::Messages, "", Bytes::from_static(body.as_bytes())).unwrap();
            assert_eq!(head.tier.as_deref(), tier, "{body}");
        }
        let both = r#"{"generationConfig":{},"generation_config":{"candidateCount":8}}"#;
        assert!(prepare(Endpoint::GenerateContent, pro, Bytes::from_static(both.as_bytes())).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(body: Vec<u8>) {
            let _ = prepare(Endpoint::ChatCompletions, "", body.into());
        }
    }
}
