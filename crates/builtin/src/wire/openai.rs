//! The Chat Completions format of OpenAI, streamed, as many other servers speak it too. Read leniently: they differ in what
//! they leave out.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Broken, Decoder, Framing, Request, Wire, not_json};
use crate::conversation::{Call, End, Input, Message, Reply};

pub(super) const WIRE: Wire = Wire {
    path: |_| "/v1/chat/completions".to_owned(),
    headers: &[("authorization", "Bearer harvest")],
    framing: Framing::Events,
    body,
    decoder: || Box::new(OpenaiDecoder::default()),
};

fn body(request: &Request<'_>) -> Value {
    let mut messages = vec![json!({"role": "system", "content": request.system})];
    for message in request.messages {
        add_message(message, &mut messages);
    }
    json!({
        "model": request.model,
        "stream": true,
        "stream_options": {"include_usage": true},
        "tools": request.tools.iter().map(|tool| json!({
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
        })).collect::<Vec<_>>(),
        "messages": messages,
    })
}

fn add_message(message: &Message, messages: &mut Vec<Value>) {
    match message {
        Message::User(text) => messages.push(json!({"role": "user", "content": text})),
        Message::Assistant(reply) => {
            let mut assistant = json!({"role": "assistant", "content": null});
            if !reply.text.trim().is_empty() || reply.calls.is_empty() {
                assistant["content"] = json!(reply.text);
            }
            if !reply.calls.is_empty() {
                assistant["tool_calls"] = reply.calls.iter().map(call).collect();
            }
            messages.push(assistant);
        }
        Message::Results(results) => messages.extend(
            results.iter().map(|result| json!({"role": "tool", "tool_call_id": result.id, "content": result.output})),
        ),
    }
}

fn call(call: &Call) -> Value {
    let arguments = match &call.input {
        Input::Object(map) => Value::Object(map.clone()).to_string(),
        Input::Invalid(text) => json!({"invalid": text}).to_string(),
    };
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<usize>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Default)]
struct OpenaiDecoder {
    text: String,
    calls: Vec<PartialCall>,
    end: End,
    /// The model is through. Usage and `[DONE]` may follow; some servers leave them out.
    complete: bool,
}

#[derive(Default)]
struct PartialCall {
    index: Option<usize>,
    id: String,
    name: String,
    json: String,
}

impl OpenaiDecoder {
    fn add_call(&mut self, delta: CallDelta) {
        let id = delta.id.unwrap_or_default();
        let known = match delta.index {
            Some(index) => self.calls.iter().position(|call| call.index == Some(index)),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().position(|call| call.id == id),
        };
        let at = known.unwrap_or_else(|| {
            self.calls.push(PartialCall { index: delta.index, ..PartialCall::default() });
            self.calls.len() - 1
        });
        let Some(call) = self.calls.get_mut(at) else { return };
        if call.id.is_empty() {
            call.id = id;
        }
        if let Some(function) = delta.function {
            if call.name.is_empty() {
                call.name = function.name.unwrap_or_default();
            }
            call.json.push_str(&function.arguments.unwrap_or_default());
        }
    }
}

impl Decoder for OpenaiDecoder {
    fn event(&mut self, data: &str) -> Result<String, Broken> {
        if data.trim() == "[DONE]" {
            self.complete = true;
            return Ok(String::new());
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(|error| not_json(data, &error))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(broken(&error));
        }
        let mut added = String::new();
        for choice in chunk.choices.into_iter().take(1) {
            if let Some(delta) = choice.delta {
                added.push_str(&delta.content.unwrap_or_default());
                added.push_str(&delta.refusal.unwrap_or_default());
                delta.tool_calls.into_iter().flatten().for_each(|call| self.add_call(call));
            }
            if let Some(reason) = choice.finish_reason {
                self.complete = true;
                match reason.as_str() {
                    "length" => self.end = End::TooLong,
                    "content_filter" => self.end = End::Refused,
                    _ => {}
                }
            }
        }
        self.text.push_str(&added);
        Ok(added)
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn into_reply(self: Box<Self>) -> Reply {
        let calls = self.calls.into_iter().enumerate().map(|(number, call)| Call {
            id: if call.id.is_empty() { format!("call_{number}") } else { call.id },
            name: call.name,
            input: Input::read(&call.json),
            signature: None,
        });
        Reply { text: self.text, calls: calls.collect(), end: self.end }
    }
}

fn broken(error: &Value) -> Broken {
    let field = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
    let message = match field("message") {
        "" => error.to_string(),
        message => message.to_owned(),
    };
    match (field("code"), field("type")) {
        ("rate_limit_exceeded" | "insufficient_quota", _) | (_, "rate_limit_error" | "insufficient_quota") => {
            Broken::Quota(message)
        }
        (_, "invalid_request_error" | "authentication_error" | "permission_error") => Broken::Refused(message),
        _ => Broken::Retry(message),
    }
}
