//! Ollama's own chats and completions. A stream is one JSON document to a line.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Streamed, Wire, functions, read_messages, words};
use crate::script::conversation::{Reply, Request};

/// The format wants a time; a script has none.
const CREATED: &str = "2025-01-01T00:00:00Z";
const LINES: &str = "application/x-ndjson";

pub(super) struct Chat;

/// A completion of a prompt: no tools, no history.
pub(super) struct Generate;

impl Wire for Chat {
    fn decode(&self, body: &Value) -> Result<Request, String> {
        let request = read_messages(body, |role| matches!(role, "user" | "tool"))?;
        Ok(Request { tools: functions(body), stream: stream(body), ..request })
    }

    fn document(&self, reply: &Reply) -> Value {
        ended(reply, "message", &message(&reply.text, &calls(reply)))
    }

    fn stream(&self, reply: &Reply) -> Streamed {
        let texts = words(&reply.text).map(|word| message(word, &[]));
        let calls = calls(reply).into_iter().map(|call| message("", &[call]));
        Streamed {
            opening: Bytes::new(),
            chunks: texts.chain(calls).map(|message| line(&begun(reply, "message", &message))).collect(),
            closing: line(&ended(reply, "message", &message("", &[]))),
        }
    }

    fn stream_type(&self) -> &'static str {
        LINES
    }
}

impl Wire for Generate {
    fn decode(&self, body: &Value) -> Result<Request, String> {
        let prompt = body.get("prompt").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Request {
            newest_text: prompt.clone(),
            first_user_text: prompt,
            is_completion: true,
            stream: stream(body),
            ..Request::default()
        })
    }

    fn document(&self, reply: &Reply) -> Value {
        ended(reply, "response", &reply.text.as_str().into())
    }

    fn stream(&self, reply: &Reply) -> Streamed {
        Streamed {
            opening: Bytes::new(),
            chunks: words(&reply.text).map(|word| line(&begun(reply, "response", &word.into()))).collect(),
            closing: line(&ended(reply, "response", &"".into())),
        }
    }

    fn stream_type(&self) -> &'static str {
        LINES
    }
}

pub(super) fn tags(model: &str) -> Value {
    json!({ "models": [{
        "name": model, "model": model, "modified_at": CREATED, "size": 0, "digest": "0".repeat(64), "details": details(),
    }] })
}

pub(super) fn show() -> Value {
    json!({
        "modelfile": "", "parameters": "", "template": "", "details": details(), "model_info": {}, "modified_at": CREATED,
        "capabilities": ["completion", "tools"],
    })
}

fn details() -> Value {
    json!({ "format": "script", "family": "script", "families": ["script"], "parameter_size": "", "quantization_level": "" })
}

/// Ollama streams unless told not to.
fn stream(body: &Value) -> bool {
    body.get("stream").and_then(Value::as_bool).unwrap_or(true)
}

fn calls(reply: &Reply) -> Vec<Value> {
    let calls = reply.calls.iter().enumerate().map(|(index, call)| {
        let function = json!({ "index": index, "name": call.name, "arguments": call.input });
        json!({ "id": format!("call_{}", call.id), "function": function })
    });
    calls.collect()
}

fn message(text: &str, calls: &[Value]) -> Value {
    let mut message = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

fn begun(reply: &Reply, key: &str, content: &Value) -> Value {
    json!({ "model": reply.model, "created_at": CREATED, key: content, "done": false })
}

fn ended(reply: &Reply, key: &str, content: &Value) -> Value {
    json!({
        "model": reply.model, "created_at": CREATED, key: content, "done": true, "done_reason": "stop",
        "total_duration": 0, "load_duration": 0,
        "prompt_eval_count": reply.tokens.prompt(), "prompt_eval_duration": 0,
        "eval_count": reply.tokens.output, "eval_duration": 0,
    })
}

fn line(data: &Value) -> Bytes {
    Bytes::from(format!("{data}\n"))
}
