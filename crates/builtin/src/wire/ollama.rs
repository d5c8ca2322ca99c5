//! Ollama's own chat format: JSON, one object per line.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Broken, Decoder, Framing, Request, Wire, not_json};
use crate::conversation::{Call, End, Input, Message, Reply};

pub(super) const WIRE: Wire = Wire {
    path: |_| "/api/chat".to_owned(),
    headers: &[],
    framing: Framing::Lines,
    body,
    decoder: || Box::new(OllamaDecoder::default()),
};

/// Left to itself it keeps a few thousand tokens and forgets the beginning of what it was asked without a word.
const CONTEXT_TOKENS: u32 = 32 * 1024;

fn body(request: &Request<'_>) -> Value {
    let mut messages = vec![json!({"role": "system", "content": request.system})];
    let mut calls: &[Call] = &[];
    for message in request.messages {
        match message {
            Message::User(text) => messages.push(json!({"role": "user", "content": text})),
            Message::Assistant(reply) => {
                calls = &reply.calls;
                let mut assistant = json!({"role": "assistant", "content": reply.text});
                if !calls.is_empty() {
                    assistant["tool_calls"] = calls.iter().map(call).collect();
                }
                messages.push(assistant);
            }
            Message::Results(results) => messages.extend(results.iter().map(|result| {
                let name = calls.iter().find(|call| call.id == result.id).map_or("", |call| call.name.as_str());
                json!({"role": "tool", "tool_name": name, "content": result.output})
            })),
        }
    }
    json!({
        "model": request.model,
        "stream": true,
        "messages": messages,
        "tools": request.tools.iter().map(|tool| json!({
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
        })).collect::<Vec<_>>(),
        "options": {"num_ctx": CONTEXT_TOKENS, "num_predict": request.max_tokens},
    })
}

fn call(call: &Call) -> Value {
    let arguments = match &call.input {
        Input::Object(map) => Value::Object(map.clone()),
        Input::Invalid(text) => json!({"invalid": text}),
    };
    json!({"function": {"name": call.name, "arguments": arguments}})
}

#[derive(Deserialize)]
struct Chunk {
    message: Option<Said>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    content: String,
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
}

#[derive(Deserialize)]
struct ToolCall {
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

#[derive(Default)]
struct OllamaDecoder {
    reply: Reply,
    complete: bool,
}

impl Decoder for OllamaDecoder {
    fn event(&mut self, data: &str) -> Result<String, Broken> {
        let chunk: Chunk = serde_json::from_str(data).map_err(|error| not_json(data, &error))?;
        if let Some(error) = chunk.error {
            return Err(Broken::Retry(error));
        }
        let mut added = String::new();
        if let Some(said) = chunk.message {
            added = said.content;
            let calls = said.tool_calls.into_iter().map(|call| Call {
                id: String::new(),
                name: call.function.name,
                input: Input::Object(call.function.arguments),
                signature: None,
            });
            self.reply.calls.extend(calls);
        }
        if chunk.done {
            self.complete = true;
            if chunk.done_reason.as_deref() == Some("length") {
                self.reply.end = End::TooLong;
            }
        }
        self.reply.text.push_str(&added);
        Ok(added)
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn into_reply(self: Box<Self>) -> Reply {
        self.reply
    }
}
