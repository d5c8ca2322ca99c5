//! Anthropic's Messages.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Streamed, Wire, halves, read_messages, words};
use crate::script::conversation::{Reply, Request, ToolOffer};

pub(super) struct Messages;

impl Wire for Messages {
    fn decode(&self, body: &Value) -> Result<Request, String> {
        let tools = body.get("tools").and_then(Value::as_array).into_iter().flatten();
        let offers = tools.filter_map(|tool| {
            let name = tool.get("name")?.as_str()?.to_owned();
            Some(ToolOffer::function(name, tool.get("input_schema").cloned().unwrap_or_default()))
        });
        Ok(Request { tools: offers.collect(), ..read_messages(body, |role| role == "user")? })
    }

    fn document(&self, reply: &Reply) -> Value {
        let text = (!reply.text.is_empty()).then(|| json!({ "type": "text", "text": reply.text }));
        let calls = reply.calls.iter().map(
            |call| json!({ "type": "tool_use", "id": format!("toolu_{}", call.id), "name": call.name, "input": call.input }),
        );
        let mut message = message(reply);
        message["content"] = text.into_iter().chain(calls).collect();
        message["stop_reason"] = stop_reason(reply);
        message["usage"]["output_tokens"] = reply.tokens.output.into();
        message
    }

    fn stream(&self, reply: &Reply) -> Streamed {
        let mut streamed = Streamed {
            opening: [
                event(&json!({ "type": "message_start", "message": message(reply) })),
                event(&json!({ "type": "ping" })),
            ]
            .concat()
            .into(),
            ..Streamed::default()
        };
        let mut index = 0;
        let mut block = |start: Value, deltas: Vec<Value>| {
            let mut pieces: Vec<String> = deltas
                .into_iter()
                .map(|delta| event(&json!({ "type": "content_block_delta", "index": index, "delta": delta })))
                .collect();
            let start = event(&json!({ "type": "content_block_start", "index": index, "content_block": start }));
            let stop = event(&json!({ "type": "content_block_stop", "index": index }));
            match pieces.as_mut_slice() {
                [] => pieces.push(start + &stop),
                [only] => *only = start + only + &stop,
                [first, .., last] => {
                    *first = start + first;
                    *last += &stop;
                }
            }
            streamed.chunks.extend(pieces.into_iter().map(Bytes::from));
            index += 1;
        };
        if !reply.text.is_empty() {
            let deltas = words(&reply.text).map(|word| json!({ "type": "text_delta", "text": word }));
            block(json!({ "type": "text", "text": "" }), deltas.collect());
        }
        for call in &reply.calls {
            let arguments = call.input.to_string();
            let deltas =
                halves(&arguments).into_iter().map(|half| json!({ "type": "input_json_delta", "partial_json": half }));
            let start =
                json!({ "type": "tool_use", "id": format!("toolu_{}", call.id), "name": call.name, "input": {} });
            block(start, deltas.collect());
        }
        let delta = json!({
            "type": "message_delta",
            "delta": { "stop_reason": stop_reason(reply), "stop_sequence": null },
            "usage": { "output_tokens": reply.tokens.output },
        });
        streamed.closing = [event(&delta), event(&json!({ "type": "message_stop" }))].concat().into();
        streamed
    }
}

pub(super) fn model(model: &str) -> Value {
    json!({ "type": "model", "id": model, "display_name": model, "created_at": "2025-01-01T00:00:00Z" })
}

pub(super) fn models(id: &str) -> Value {
    json!({
        "data": [model(id)],
        "has_more": false,
        "first_id": id,
        "last_id": id,
    })
}

pub(super) fn tokens(count: usize) -> Value {
    json!({ "input_tokens": count })
}

/// The message as it stands at the start of a stream.
fn message(reply: &Reply) -> Value {
    json!({
        "id": format!("msg_{}", reply.id),
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": {
            "input_tokens": reply.tokens.input,
            "cache_creation_input_tokens": reply.tokens.cache_write,
            "cache_read_input_tokens": reply.tokens.cache_read,
            "output_tokens": 0,
        },
    })
}

fn stop_reason(reply: &Reply) -> Value {
    if reply.calls.is_empty() { "end_turn".into() } else { "tool_use".into() }
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}
