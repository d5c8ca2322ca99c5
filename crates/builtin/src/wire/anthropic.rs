//! The Messages format of Anthropic, streamed.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Broken, Decoder, Framing, Request, Wire, not_json};
use crate::conversation::{Call, End, Input, Message, Reply};

pub(super) const WIRE: Wire = Wire {
    path: |_| "/v1/messages".to_owned(),
    headers: &[("x-api-key", "harvest"), ("anthropic-version", "2023-06-01")],
    framing: Framing::Events,
    body,
    decoder: || Box::new(AnthropicDecoder::default()),
};

fn body(request: &Request<'_>) -> Value {
    let mut messages: Vec<Value> = request.messages.iter().map(message).collect();
    // Everything up to here is the same in the next request, so the vendor may keep it.
    if let Some(block) = messages.last_mut().and_then(|last| last.pointer_mut("/content"))
        && let Some(block) = block.as_array_mut().and_then(|blocks| blocks.last_mut())
    {
        block["cache_control"] = json!({"type": "ephemeral"});
    }
    json!({
        "model": request.model,
        "max_tokens": request.max_tokens,
        "stream": true,
        "system": [{"type": "text", "text": request.system, "cache_control": {"type": "ephemeral"}}],
        "tools": request.tools.iter().map(|tool| json!({
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.schema,
        })).collect::<Vec<_>>(),
        "messages": messages,
    })
}

fn message(message: &Message) -> Value {
    match message {
        Message::User(text) => json!({"role": "user", "content": [{"type": "text", "text": text}]}),
        Message::Assistant(reply) => {
            // Blank text is refused by the vendor.
            let text = Some(reply.text.trim_end()).filter(|text| !text.is_empty());
            let text = text.map(|text| json!({"type": "text", "text": text}));
            let calls = reply.calls.iter().map(|call| {
                let input = match &call.input {
                    Input::Object(map) => Value::Object(map.clone()),
                    Input::Invalid(text) => json!({"invalid": text}),
                };
                json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
            });
            json!({"role": "assistant", "content": text.into_iter().chain(calls).collect::<Vec<_>>()})
        }
        Message::Results(results) => json!({
            "role": "user",
            "content": results.iter().map(|result| json!({
                "type": "tool_result",
                "tool_use_id": result.id,
                "content": result.output,
                "is_error": result.is_error,
            })).collect::<Vec<_>>(),
        }),
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum StreamEvent {
    ContentBlockStart {
        content_block: Block,
    },
    ContentBlockDelta {
        delta: Delta,
    },
    MessageDelta {
        delta: MessageEnd,
    },
    MessageStop,
    Error {
        error: VendorError,
    },
    /// `message_start`, `content_block_stop`, `ping`, and whatever is invented later.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        #[serde(default)]
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "input_json_delta")]
    Input { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct MessageEnd {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct VendorError {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    message: String,
}

#[derive(Default)]
struct AnthropicDecoder {
    text: String,
    calls: Vec<PartialCall>,
    end: End,
    complete: bool,
}

struct PartialCall {
    id: String,
    name: String,
    json: String,
}

impl Decoder for AnthropicDecoder {
    fn event(&mut self, data: &str) -> Result<String, Broken> {
        let mut added = String::new();
        match serde_json::from_str(data).map_err(|error| not_json(data, &error))? {
            StreamEvent::ContentBlockStart { content_block } => match content_block {
                Block::Text { text } => {
                    if !self.text.is_empty() {
                        added.push_str("\n\n");
                    }
                    added.push_str(&text);
                }
                Block::ToolUse { id, name } => {
                    self.calls.push(PartialCall { id, name, json: String::new() });
                }
                Block::Other => {}
            },
            StreamEvent::ContentBlockDelta { delta: Delta::Text { text } } => added = text,
            // Blocks come one after the other, so it belongs to the newest call.
            StreamEvent::ContentBlockDelta { delta: Delta::Input { partial_json } } => {
                if let Some(call) = self.calls.last_mut() {
                    call.json.push_str(&partial_json);
                }
            }
            StreamEvent::MessageDelta { delta } => match delta.stop_reason.as_deref() {
                Some("max_tokens") => self.end = End::TooLong,
                Some("refusal") => self.end = End::Refused,
                _ => {}
            },
            StreamEvent::MessageStop => self.complete = true,
            StreamEvent::Error { error } => return Err(broken(&error)),
            StreamEvent::ContentBlockDelta { delta: Delta::Other } | StreamEvent::Other => {}
        }
        self.text.push_str(&added);
        Ok(added)
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn into_reply(self: Box<Self>) -> Reply {
        let calls = self.calls.into_iter();
        let calls = calls
            .map(|call| Call { id: call.id, name: call.name, input: Input::read(&call.json), signature: None })
            .collect();
        Reply { text: self.text, calls, end: self.end }
    }
}

fn broken(error: &VendorError) -> Broken {
    let message = format!("{}: {}", error.kind, error.message);
    match error.kind.as_str() {
        "rate_limit_error" => Broken::Quota(message),
        "invalid_request_error"
        | "authentication_error"
        | "permission_error"
        | "billing_error"
        | "not_found_error"
        | "request_too_large" => Broken::Refused(message),
        _ => Broken::Retry(message),
    }
}
