//! OpenAI's Chat Completions.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Streamed, Wire, halves, read_messages, words};
use crate::script::conversation::{Reply, Request, ToolOffer};

/// The format wants a time; a script has none.
const CREATED: u64 = 1_735_689_600;

pub(super) struct ChatCompletions;

impl Wire for ChatCompletions {
    fn decode(&self, body: &Value) -> Result<Request, String> {
        let tools = body.get("tools").and_then(Value::as_array).into_iter().flatten();
        let offers = tools.filter_map(|tool| {
            let function = tool.get("function")?;
            let name = function.get("name")?.as_str()?.to_owned();
            Some(ToolOffer { name, schema: function.get("parameters").cloned().unwrap_or_default() })
        });
        Ok(Request {
            tools: offers.collect(),
            ..read_messages(body, |role| matches!(role, "user" | "tool" | "function"))?
        })
    }

    fn document(&self, reply: &Reply) -> Value {
        let content = if reply.text.is_empty() { Value::Null } else { json!(reply.text) };
        let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
        if !reply.calls.is_empty() {
            message["tool_calls"] = reply
                .calls
                .iter()
                .map(|call| {
                    let function = json!({ "name": call.name, "arguments": call.input.to_string() });
                    json!({ "id": format!("call_{}", call.id), "type": "function", "function": function })
                })
                .collect();
        }
        json!({
            "id": format!("chatcmpl-{}", reply.id),
            "object": "chat.completion",
            "created": CREATED,
            "model": reply.model,
            "choices": [{ "index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(reply) }],
            "usage": usage(reply),
        })
    }

    fn stream(&self, reply: &Reply) -> Streamed {
        let chunk = |delta: Value, finish_reason: Value| {
            let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason });
            event(reply, &json!([choice]), &Value::Null)
        };
        let delta = |delta| Bytes::from(chunk(delta, Value::Null));
        let mut chunks: Vec<Bytes> = words(&reply.text).map(|word| delta(json!({ "content": word }))).collect();
        for (index, call) in reply.calls.iter().enumerate() {
            let arguments = call.input.to_string();
            for (number, half) in halves(&arguments).into_iter().enumerate() {
                let part = if number == 0 {
                    let function = json!({ "name": call.name, "arguments": half });
                    json!({ "index": index, "id": format!("call_{}", call.id), "type": "function", "function": function })
                } else {
                    json!({ "index": index, "function": { "arguments": half } })
                };
                chunks.push(delta(json!({ "tool_calls": [part] })));
            }
        }
        let end =
            chunk(json!({}), finish_reason(reply)) + &event(reply, &json!([]), &usage(reply)) + "data: [DONE]\n\n";
        Streamed { opening: delta(json!({ "role": "assistant", "content": "" })), chunks, closing: end.into() }
    }
}

pub(super) fn models(model: &str) -> Value {
    json!({ "object": "list", "data": [{ "id": model, "object": "model", "created": CREATED, "owned_by": "script" }] })
}

fn usage(reply: &Reply) -> Value {
    let tokens = reply.tokens;
    let prompt = tokens.input + tokens.cache_read + tokens.cache_write;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": tokens.output,
        "total_tokens": prompt + tokens.output,
        "prompt_tokens_details": { "cached_tokens": tokens.cache_read },
        "completion_tokens_details": { "reasoning_tokens": 0 },
    })
}

fn finish_reason(reply: &Reply) -> Value {
    if reply.calls.is_empty() { "stop".into() } else { "tool_calls".into() }
}

fn event(reply: &Reply, choices: &Value, usage: &Value) -> String {
    let data = json!({
        "id": format!("chatcmpl-{}", reply.id),
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": reply.model,
        "choices": choices,
        "usage": usage,
    });
    format!("data: {data}\n\n")
}
