//! Gemini's generateContent and its streaming form, as events or as an array.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Streamed, Wire, words};
use crate::script::conversation::{Reply, Request, ToolOffer};

/// One format in three forms.
pub(super) enum GenerateContent {
    Document,
    Events,
    Array,
}

impl Wire for GenerateContent {
    fn decode(&self, body: &Value) -> Result<Request, String> {
        let contents = body.get("contents").and_then(Value::as_array).ok_or("`contents` is not a list")?;
        let is_model = |content: &Value| content.get("role").is_some_and(|role| role == "model");
        let text = |content: &Value| {
            let parts = content.get("parts").and_then(Value::as_array).into_iter().flatten();
            parts.filter_map(part_text).collect::<Vec<_>>().join("\n")
        };
        let newest = contents.iter().rposition(is_model).map_or(0, |last| last + 1);
        let asked = contents.iter().take_while(|content| !is_model(content));
        let starts = |(at, content): &(usize, &Value)| {
            is_model(content) && !at.checked_sub(1).and_then(|before| contents.get(before)).is_some_and(is_model)
        };
        Ok(Request {
            first_user_text: asked.map(text).collect::<Vec<_>>().join("\n"),
            newest_text: contents.iter().skip(newest).map(text).collect::<Vec<_>>().join("\n"),
            assistant_count: contents.iter().enumerate().filter(starts).count(),
            tools: tools(body),
            stream: !matches!(self, Self::Document),
            ..Request::default()
        })
    }

    fn document(&self, reply: &Reply) -> Value {
        let text = (!reply.text.is_empty()).then(|| json!({ "text": reply.text }));
        let parts: Vec<Value> = text.into_iter().chain(calls(reply)).collect();
        chunk(reply, &parts, End::Here)
    }

    fn stream(&self, reply: &Reply) -> Streamed {
        let texts = words(&reply.text).map(|word| json!({ "text": word }));
        let parts = texts.chain(calls(reply)).map(|part| chunk(reply, &[part], End::Later));
        let end = chunk(reply, &[json!({ "text": "" })], End::Here);
        let event = |data: Value| Bytes::from(format!("data: {data}\r\n\r\n"));
        match self {
            Self::Document | Self::Events => {
                Streamed { opening: Bytes::new(), chunks: parts.map(event).collect(), closing: event(end) }
            }
            Self::Array => Streamed {
                opening: Bytes::from("["),
                chunks: parts.map(|data| Bytes::from(format!("{data}\n,\r\n"))).collect(),
                closing: Bytes::from(format!("{end}\n]\n")),
            },
        }
    }

    fn stream_type(&self) -> &'static str {
        match self {
            Self::Array => "application/json; charset=UTF-8",
            Self::Document | Self::Events => "text/event-stream",
        }
    }
}

pub(super) fn models(id: &str) -> Value {
    json!({ "models": [model(id)] })
}

pub(super) fn model(id: &str) -> Value {
    json!({
        "name": format!("models/{id}"),
        "version": "1",
        "displayName": id,
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    })
}

pub(super) fn tokens(count: usize) -> Value {
    json!({ "totalTokens": count })
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Later,
    Here,
}

fn chunk(reply: &Reply, parts: &[Value], end: End) -> Value {
    let mut candidate = json!({ "content": { "parts": parts, "role": "model" }, "index": 0 });
    let tokens = reply.tokens;
    let mut usage = json!({ "promptTokenCount": tokens.prompt(), "totalTokenCount": tokens.prompt() });
    if end == End::Here {
        candidate["finishReason"] = "STOP".into();
        usage["candidatesTokenCount"] = tokens.output.saturating_sub(tokens.reasoning).into();
        usage["totalTokenCount"] = tokens.prompt().saturating_add(tokens.output).into();
        for (name, count) in [("cachedContentTokenCount", tokens.cache_read), ("thoughtsTokenCount", tokens.reasoning)]
        {
            if count > 0 {
                usage[name] = count.into();
            }
        }
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": reply.model,
        "responseId": format!("resp_{}", reply.id),
    })
}

fn calls(reply: &Reply) -> impl Iterator<Item = Value> {
    reply.calls.iter().map(
        |call| json!({ "functionCall": { "id": format!("call_{}", call.id), "name": call.name, "args": call.input } }),
    )
}

fn tools(body: &Value) -> Vec<ToolOffer> {
    let declared =
        body.get("tools").and_then(Value::as_array).into_iter().flatten().filter_map(|tool| {
            tool.get("functionDeclarations").or_else(|| tool.get("function_declarations"))?.as_array()
        });
    let offers = declared.flatten().filter_map(|function| {
        let name = function.get("name")?.as_str()?.to_owned();
        let schema = function.get("parametersJsonSchema").or_else(|| function.get("parameters"));
        Some(ToolOffer::function(name, schema.cloned().unwrap_or_default()))
    });
    offers.collect()
}

/// The text of a part; of a function's response, every text in it.
fn part_text(part: &Value) -> Option<String> {
    if let Some(text) = part.get("text").and_then(Value::as_str) {
        return Some(text.to_owned());
    }
    let response = part.get("functionResponse").or_else(|| part.get("function_response"))?.get("response")?;
    let mut texts = Vec::new();
    gather(response, &mut texts);
    Some(texts.join("\n"))
}

fn gather(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| gather(value, texts)),
        Value::Object(fields) => fields.values().for_each(|value| gather(value, texts)),
        _ => {}
    }
}
