//! What a request asks for, and the one edit of its body: a Chat Completions stream is told to report its usage.
//!
//! The edit splices a few bytes into the text, so that every other byte stays as the client wrote it.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::Endpoint;

const ASK_FOR_USAGE: &str = r#""include_usage":true"#;

/// What the gateway must know of a request.
#[derive(Debug, PartialEq)]
pub(super) struct Head {
    pub(super) model: String,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    model: Cow<'a, str>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(borrow, default, deserialize_with = "even_null")]
    stream_options: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

/// Reads the request and edits it where needed. An error says why the body cannot be understood: such a request is
/// refused, since one that the gateway reads differently from the vendor would be a way around the metering.
pub(super) fn prepare(endpoint: Endpoint, body: Bytes) -> Result<(Head, Bytes), String> {
    let not_understood = |error: serde_json::Error| format!("the request's body is not understood: {error}");
    let text = std::str::from_utf8(&body).map_err(|_| "the request's body is not UTF-8".to_owned())?;
    if !text.trim_start().starts_with('{') {
        return Err("the request's body is not a JSON object".to_owned());
    }
    let read: Body<'_> = serde_json::from_str(text).map_err(not_understood)?;
    let head = Head { model: read.model.chars().take(200).collect() };
    if endpoint != Endpoint::ChatCompletions || read.stream != Some(true) {
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
        let (_, edited) = prepare(Endpoint::ChatCompletions, Bytes::copy_from_slice(body.as_bytes()))?;
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

    proptest! {
        #[test]
        fn any_bytes_never_panic(body: Vec<u8>) {
            let _ = prepare(Endpoint::ChatCompletions, body.into());
        }
    }
}
