//! The `generateContent` format of Gemini, streamed as server-sent events.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Broken, Decoder, Framing, Request, Wire, not_json};
use crate::conversation::{Call, CallResult, End, Input, Message, Reply};

pub(super) const WIRE: Wire = Wire {
    path: |model| format!("/v1beta/models/{model}:streamGenerateContent?alt=sse"),
    headers: &[("x-goog-api-key", "harvest")],
    framing: Framing::Events,
    body,
    decoder: || Box::new(GeminiDecoder::default()),
};

fn body(request: &Request<'_>) -> Value {
    let mut contents: Vec<Value> = Vec::new();
    // A result is matched to its call by name, which only the call knows.
    let mut calls: &[Call] = &[];
    for message in request.messages {
        contents.push(match message {
            Message::User(text) => json!({"role": "user", "parts": [{"text": text}]}),
            Message::Assistant(reply) => {
                calls = &reply.calls;
                let text = (!reply.text.trim().is_empty()).then(|| json!({"text": reply.text}));
                json!({"role": "model", "parts": text.into_iter().chain(calls.iter().map(call)).collect::<Vec<_>>()})
            }
            Message::Results(results) => {
                let parts: Vec<Value> = results.iter().map(|result| response(result, calls)).collect();
                json!({"role": "user", "parts": parts})
            }
        });
    }
    json!({
        "systemInstruction": {"parts": [{"text": request.system}]},
        "contents": contents,
        "tools": [{"functionDeclarations": request.tools.iter().map(|tool| json!({
            "name": tool.name,
            "description": tool.description,
            "parametersJsonSchema": tool.schema,
        })).collect::<Vec<_>>()}],
        "generationConfig": {"maxOutputTokens": request.max_tokens},
    })
}

fn call(call: &Call) -> Value {
    let args = match &call.input {
        Input::Object(map) => Value::Object(map.clone()),
        Input::Invalid(text) => json!({"invalid": text}),
    };
    let mut part = json!({"functionCall": {"name": call.name, "args": args}});
    if let Some(signature) = &call.signature {
        part["thoughtSignature"] = json!(signature);
    }
    part
}

fn response(result: &CallResult, calls: &[Call]) -> Value {
    let name = calls.iter().find(|call| call.id == result.id).map_or("", |call| call.name.as_str());
    let key = if result.is_error { "error" } else { "output" };
    json!({"functionResponse": {"name": name, "response": {key: result.output}}})
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    #[serde(default)]
    candidates: Vec<Candidate>,
    prompt_feedback: Option<Feedback>,
    error: Option<VendorError>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    /// The text is what it thought, not what it says.
    #[serde(default)]
    thought: bool,
    function_call: Option<FunctionCall>,
    thought_signature: Option<String>,
}

#[derive(Deserialize)]
struct FunctionCall {
    name: String,
    #[serde(default)]
    args: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
struct VendorError {
    #[serde(default)]
    status: String,
    #[serde(default)]
    message: String,
}

#[derive(Default)]
struct GeminiDecoder {
    reply: Reply,
    complete: bool,
}

impl Decoder for GeminiDecoder {
    fn event(&mut self, data: &str) -> Result<String, Broken> {
        let chunk: Chunk = serde_json::from_str(data).map_err(|error| not_json(data, &error))?;
        if let Some(error) = chunk.error {
            return Err(broken(&error));
        }
        if let Some(reason) = chunk.prompt_feedback.and_then(|feedback| feedback.block_reason) {
            return Err(Broken::Refused(format!("the vendor's filter stopped the request: {reason}")));
        }
        let mut added = String::new();
        for candidate in chunk.candidates.into_iter().take(1) {
            for part in candidate.content.into_iter().flat_map(|content| content.parts) {
                if let Some(call) = part.function_call {
                    let input = Input::Object(call.args.unwrap_or_default());
                    let signature = part.thought_signature;
                    self.reply.calls.push(Call { id: String::new(), name: call.name, input, signature });
                } else if !part.thought {
                    added.push_str(&part.text.unwrap_or_default());
                }
            }
            match candidate.finish_reason.as_deref() {
                None => continue,
                Some("MALFORMED_FUNCTION_CALL") => {
                    return Err(Broken::Retry("the model made a call that cannot be read".to_owned()));
                }
                Some("MAX_TOKENS") => self.reply.end = End::TooLong,
                Some("SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII") => {
                    self.reply.end = End::Refused;
                }
                Some(_) => {}
            }
            self.complete = true;
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

fn broken(error: &VendorError) -> Broken {
    let message = format!("{}: {}", error.status, error.message);
    match error.status.as_str() {
        "RESOURCE_EXHAUSTED" => Broken::Quota(message),
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "PERMISSION_DENIED" | "UNAUTHENTICATED" | "NOT_FOUND" => {
            Broken::Refused(message)
        }
        _ => Broken::Retry(message),
    }
}
