//! OpenAI's Responses, as Codex speaks them: functions, custom tools and the local shell.

use bytes::Bytes;
use serde_json::{Value, json};

use super::openai_chat::CREATED;
use super::{Streamed, Wire, halves, text_of, words};
use crate::script::conversation::{Reply, ReplyId, Request, ToolCall, ToolKind, ToolOffer};

pub(super) struct Responses;

impl Wire for Responses {
    fn decode(&self, body: &Value) -> Result<Request, String> {
        let said = body.get("input").ok_or("`input` is missing")?;
        let alone;
        let items = match said {
            Value::Array(items) => items.as_slice(),
            Value::String(_) => {
                alone = [json!({ "role": "user", "content": said })];
                alone.as_slice()
            }
            _ => return Err("`input` is neither a text nor a list".to_owned()),
        };
        let mut request = Request {
            follows: body.get("previous_response_id").and_then(Value::as_str).and_then(followed),
            tools: tools(body),
            stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
            model: body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned(),
            ..Request::default()
        };
        // An answer is several items here, and clients may put the results of calls between them.
        let (mut within, mut newest_call) = (false, None);
        let (mut asked, mut newest) = (Vec::new(), Vec::new());
        for item in items {
            match part(item) {
                Part::Answer(call) => {
                    let same = within || (call.is_some() && call == newest_call);
                    request.assistant_count += usize::from(!same);
                    within = true;
                    newest_call = call.or(newest_call);
                    newest.clear();
                }
                Part::User(text) => {
                    within = false;
                    if request.assistant_count == 0 {
                        asked.push(text.clone());
                    }
                    newest.push(text);
                }
                Part::Result(text) => {
                    within = false;
                    newest.push(text);
                }
                Part::Other => {}
            }
        }
        request.first_user_text = asked.join("\n");
        request.newest_text = newest.join("\n");
        Ok(request)
    }

    fn document(&self, reply: &Reply) -> Value {
        response(reply, "completed", &items(reply), &usage(reply))
    }

    fn stream(&self, reply: &Reply) -> Streamed {
        let mut events = Events::default();
        let started = response(reply, "in_progress", &[], &Value::Null);
        let mut streamed = Streamed {
            opening: (events.next("response.created", json!({ "response": started }))
                + &events.next("response.in_progress", json!({ "response": started })))
                .into(),
            ..Streamed::default()
        };
        let mut output_index = 0;
        if !reply.text.is_empty() {
            streamed.chunks.extend(message_events(&mut events, reply));
            output_index += 1;
        }
        for call in &reply.calls {
            streamed.chunks.extend(call_events(&mut events, call, output_index));
            output_index += 1;
        }
        streamed.closing = events.next("response.completed", json!({ "response": self.document(reply) })).into();
        streamed
    }
}

/// Numbers events as it writes them.
#[derive(Default)]
struct Events(u64);

impl Events {
    fn next(&mut self, kind: &str, mut data: Value) -> String {
        data["type"] = kind.into();
        data["sequence_number"] = self.0.into();
        self.0 += 1;
        format!("event: {kind}\ndata: {data}\n\n")
    }
}

fn message_events(events: &mut Events, reply: &Reply) -> Vec<Bytes> {
    let item = message(reply);
    let place = json!({ "item_id": item["id"], "output_index": 0, "content_index": 0 });
    let with = |key: &str, value: Value| {
        let mut data = place.clone();
        data[key] = value;
        data
    };
    let mut begun = item.clone();
    begun["status"] = "in_progress".into();
    begun["content"] = json!([]);
    let empty = json!({ "type": "output_text", "annotations": [], "text": "" });
    let mut head = events.next("response.output_item.added", json!({ "output_index": 0, "item": begun }))
        + &events.next("response.content_part.added", with("part", empty));
    let mut pieces: Vec<String> = Vec::new();
    for word in words(&reply.text) {
        pieces.push(std::mem::take(&mut head) + &events.next("response.output_text.delta", with("delta", word.into())));
    }
    if let Some(last) = pieces.last_mut() {
        *last += &events.next("response.output_text.done", with("text", reply.text.as_str().into()));
        *last += &events.next("response.content_part.done", with("part", item["content"][0].clone()));
        *last += &events.next("response.output_item.done", json!({ "output_index": 0, "item": item }));
    }
    pieces.into_iter().map(Bytes::from).collect()
}

fn call_events(events: &mut Events, call: &ToolCall, output_index: usize) -> Vec<Bytes> {
    let item = call_item(call);
    let (argument, kind) = match call.kind {
        ToolKind::Function | ToolKind::InNamespace { .. } => ("arguments", "response.function_call_arguments"),
        ToolKind::Custom => ("input", "response.custom_tool_call_input"),
        ToolKind::LocalShell => ("", ""),
    };
    let mut begun = item.clone();
    begun["status"] = "in_progress".into();
    let text = item.get(argument).and_then(Value::as_str).unwrap_or_default().to_owned();
    if !argument.is_empty() {
        begun[argument] = "".into();
    }
    let place = |key: &str, value: &str| json!({ "item_id": item["id"], "output_index": output_index, key: value });
    let mut head = events.next("response.output_item.added", json!({ "output_index": output_index, "item": begun }));
    let mut pieces: Vec<String> = Vec::new();
    for half in halves(&text) {
        pieces.push(std::mem::take(&mut head) + &events.next(&format!("{kind}.delta"), place("delta", half)));
    }
    let mut last = pieces.pop().unwrap_or(head);
    if !argument.is_empty() {
        last += &events.next(&format!("{kind}.done"), place(argument, &text));
    }
    last += &events.next("response.output_item.done", json!({ "output_index": output_index, "item": item }));
    pieces.push(last);
    pieces.into_iter().map(Bytes::from).collect()
}

/// What an item of the input is.
enum Part {
    /// Of an answer; of a call, the answer that it was part of.
    Answer(Option<String>),
    User(String),
    /// Of a call.
    Result(String),
    /// Instructions, and what is new.
    Other,
}

fn part(item: &Value) -> Part {
    let text = |key: &str| item.get(key).map(text_of).unwrap_or_default();
    let kind = item.get("type").and_then(Value::as_str).unwrap_or("message");
    let role = item.get("role").and_then(Value::as_str).unwrap_or_default();
    match (kind, role) {
        ("message", "assistant") => Part::Answer(None),
        ("message", "user") => Part::User(text("content")),
        ("message", _) => Part::Other,
        ("reasoning", _) => Part::Answer(None),
        (kind, _) if kind.ends_with("_call_output") => Part::Result(text("output")),
        (kind, _) if kind.ends_with("_call") => {
            let id = item.get("call_id").and_then(Value::as_str);
            let reply = id.and_then(|id| id.rsplit_once('_')).map(|(reply, _)| reply.to_owned());
            Part::Answer(reply)
        }
        _ => Part::Other,
    }
}

fn followed(response_id: &str) -> Option<ReplyId> {
    ReplyId::parse(response_id.strip_prefix("resp_")?)
}

fn tools(body: &Value) -> Vec<ToolOffer> {
    let tools = body.get("tools").and_then(Value::as_array).into_iter().flatten();
    let (spaces, plain): (Vec<&Value>, Vec<&Value>) =
        tools.partition(|tool| tool.get("type").and_then(Value::as_str) == Some("namespace"));
    let offers = plain.into_iter().filter_map(|tool| {
        let kind = match tool.get("type")?.as_str()? {
            "function" => ToolKind::Function,
            "custom" => ToolKind::Custom,
            kind @ "local_shell" => {
                return Some(ToolOffer { name: kind.to_owned(), kind: ToolKind::LocalShell, schema: Value::Null });
            }
            _ => return None,
        };
        let name = tool.get("name")?.as_str()?.to_owned();
        Some(ToolOffer { name, kind, schema: tool.get("parameters").cloned().unwrap_or_default() })
    });
    offers.chain(spaces.into_iter().flat_map(in_namespace)).collect()
}

/// The tools of a namespace, each by its whole name.
fn in_namespace(space: &Value) -> Vec<ToolOffer> {
    let Some(namespace) = space.get("name").and_then(Value::as_str) else { return Vec::new() };
    let joint = if namespace.ends_with("__") { "" } else { "__" };
    let tools = space.get("tools").and_then(Value::as_array).into_iter().flatten();
    let offer = |tool: &Value| {
        let name = format!("{namespace}{joint}{}", tool.get("name")?.as_str()?);
        let kind = ToolKind::InNamespace { ends: namespace.len(), begins: namespace.len() + joint.len() };
        Some(ToolOffer { name, kind, schema: tool.get("parameters").cloned().unwrap_or_default() })
    };
    tools.filter_map(offer).collect()
}

fn items(reply: &Reply) -> Vec<Value> {
    let text = (!reply.text.is_empty()).then(|| message(reply));
    text.into_iter().chain(reply.calls.iter().map(call_item)).collect()
}

fn message(reply: &Reply) -> Value {
    let content = json!([{ "type": "output_text", "annotations": [], "text": reply.text }]);
    json!({ "type": "message", "id": format!("msg_{}", reply.id), "status": "completed", "role": "assistant", "content": content })
}

fn call_item(call: &ToolCall) -> Value {
    let call_id = format!("call_{}", call.id);
    match call.kind {
        ToolKind::Function => json!({
            "type": "function_call", "id": format!("fc_{}", call.id), "status": "completed", "call_id": call_id,
            "name": call.name, "arguments": call.input.to_string(),
        }),
        ToolKind::InNamespace { ends, begins } => json!({
            "type": "function_call", "id": format!("fc_{}", call.id), "status": "completed", "call_id": call_id,
            "namespace": call.name.get(..ends), "name": call.name.get(begins..), "arguments": call.input.to_string(),
        }),
        ToolKind::Custom => {
            let text = call.input.get("input").and_then(Value::as_str).map(str::to_owned);
            json!({
                "type": "custom_tool_call", "id": format!("ctc_{}", call.id), "status": "completed", "call_id": call_id,
                "name": call.name, "input": text.unwrap_or_else(|| call.input.to_string()),
            })
        }
        ToolKind::LocalShell => {
            let command = match call.input.get("command") {
                Some(Value::String(command)) => json!(["sh", "-c", command]),
                other => json!(other),
            };
            json!({
                "type": "local_shell_call", "id": format!("lsh_{}", call.id), "status": "completed", "call_id": call_id,
                "action": { "type": "exec", "command": command, "env": {} },
            })
        }
    }
}

fn response(reply: &Reply, status: &str, output: &[Value], usage: &Value) -> Value {
    json!({
        "id": format!("resp_{}", reply.id),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "metadata": {},
        "model": reply.model,
        "output": output,
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage,
    })
}

fn usage(reply: &Reply) -> Value {
    let tokens = reply.tokens;
    json!({
        "input_tokens": tokens.prompt(),
        "input_tokens_details": { "cached_tokens": tokens.cache_read },
        "output_tokens": tokens.output,
        "output_tokens_details": { "reasoning_tokens": tokens.reasoning },
        "total_tokens": tokens.prompt().saturating_add(tokens.output),
    })
}
