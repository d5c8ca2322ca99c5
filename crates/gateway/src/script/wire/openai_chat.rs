//! OpenAI's Chat Completions.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Streamed, Wire, functions, halves, read_messages, words};
use crate::script::conversation::{Reply, Request};

/// The format wants a time; a script has none.
pub(super) const CREATED: u64 = 1_735_689_600;

pub(super) struct ChatCompletions;

impl Wire for ChatCompletions {
    fn decode(&self, body: &Value) -> Result<Request, String> {
        let request = read_messages(body, |role| matches!(role, "user" | "tool" | "function"))?;
        Ok(Request { tools: functions(body), ..request })
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

pub(super) fn model(model: &str) -> Value {
    json!({ "id": model, "object": "model", "created": CREATED, "owned_by": "script" })
}

pub(super) fn models(id: &str) -> Value {
    json!({ "object": "list", "data": [model(id)] })
}

fn usage(reply: &Reply) -> Value {
    let tokens = reply.tokens;
    let prompt = tokens.prompt();
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": tokens.output,
        "total_tokens": prompt.saturating_add(tokens.output),
        "prompt_tokens_details": { "cached_tokens": tokens.cache_read },
        "completion_tokens_details": { "reasoning_tokens": tokens.reasoning },
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
