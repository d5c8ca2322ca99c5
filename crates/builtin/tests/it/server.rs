//! A model that says what it is told to say: one scripted answer per request, in the format of any wire.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

#[derive(Debug, Clone, Copy)]
pub enum WireName {
    Anthropic,
    Openai,
    Gemini,
    Ollama,
}

impl WireName {
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::Openai, Self::Gemini, Self::Ollama];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// The id that the first call of the first reply gets.
    pub fn call_id(self) -> &'static str {
        match self {
            Self::Anthropic | Self::Openai => "call-0",
            Self::Gemini | Self::Ollama => "call_1_0",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Anthropic => "/base/v1/messages",
            Self::Openai => "/base/v1/chat/completions",
            Self::Gemini => "/base/v1beta/models/scripted-1:streamGenerateContent?alt=sse",
            Self::Ollama => "/base/api/chat",
        }
    }
}

#[derive(Debug, Clone)]
pub enum Answer {
    Reply(Reply),
    /// A reply of which only so many events arrive.
    Cut(Reply, usize),
    /// A status, headers and a message.
    Error(u16, &'static str, &'static str),
    /// An error in the middle of a stream, after so many events of the reply.
    Broken(Reply, usize, Value),
}

#[derive(Debug, Clone, Default)]
pub struct Reply {
    text: &'static str,
    calls: Vec<(&'static str, String)>,
    too_long: bool,
}

pub fn say(text: &'static str) -> Reply {
    Reply { text, ..Reply::default() }
}

impl Reply {
    pub fn call(self, name: &'static str, input: &Value) -> Self {
        self.raw_call(name, &input.to_string())
    }

    pub fn raw_call(mut self, name: &'static str, json: &str) -> Self {
        self.calls.push((name, json.to_owned()));
        self
    }

    pub fn too_long(mut self) -> Self {
        self.too_long = true;
        self
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

pub struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Server {
    /// Gives `answers` in order, the last one for ever.
    pub fn start(wire: WireName, answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let stream = stream.unwrap();
                let (path, request) = read_request(&stream);
                assert_eq!(path, wire.path());
                seen.lock().unwrap().push(request);
                answer(wire, &answers[number.min(answers.len() - 1)], &stream);
            }
        });
        Self { port, requests }
    }

    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/base", self.port)
    }

    pub fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }
}

fn read_request(stream: &TcpStream) -> (String, Value) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let path = line.split(' ').nth(1).unwrap().to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        if header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (path, serde_json::from_slice(&body).unwrap())
}

fn answer(wire: WireName, answer: &Answer, mut stream: &TcpStream) {
    let all = |reply: &Reply| match wire {
        WireName::Anthropic => anthropic(reply),
        WireName::Openai => openai(reply),
        WireName::Gemini => gemini(reply),
        WireName::Ollama => ollama(reply),
    };
    let events = match answer {
        Answer::Error(status, headers, message) => {
            let body = json!({"error": {"type": "some_error", "message": message}}).to_string();
            let head = format!("HTTP/1.1 {status} No\r\n{headers}content-length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).unwrap();
            return;
        }
        Answer::Reply(reply) => all(reply),
        Answer::Cut(reply, count) => all(reply)[..*count].to_vec(),
        Answer::Broken(reply, count, error) => {
            let mut events = all(reply)[..*count].to_vec();
            events.push(error.to_string());
            events
        }
    };
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        .unwrap();
    for event in &events {
        let event = match wire {
            WireName::Ollama => format!("{event}\n"),
            _ => format!("data: {event}\n\n"),
        };
        write!(stream, "{:x}\r\n{event}\r\n", event.len()).unwrap();
    }
    if matches!(answer, Answer::Reply(_)) {
        stream.write_all(b"0\r\n\r\n").unwrap();
    }
}

fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive([' ', ','])
}

fn anthropic(reply: &Reply) -> Vec<String> {
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "m", "role": "assistant", "content": []}}),
        json!({"type": "ping"}),
    ];
    if !reply.text.is_empty() {
        events.push(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}));
        events.extend(pieces(reply.text).map(
            |piece| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}),
        ));
        events.push(json!({"type": "content_block_stop", "index": 0}));
    }
    for (index, (name, input)) in reply.calls.iter().enumerate() {
        let block = json!({"type": "tool_use", "id": format!("call-{index}"), "name": name, "input": {}});
        events.push(json!({"type": "content_block_start", "index": index + 1, "content_block": block}));
        events.extend(pieces(input).map(|piece| {
            let delta = json!({"type": "input_json_delta", "partial_json": piece});
            json!({"type": "content_block_delta", "index": index + 1, "delta": delta})
        }));
        events.push(json!({"type": "content_block_stop", "index": index + 1}));
    }
    let reason = match (reply.too_long, reply.calls.is_empty()) {
        (true, _) => "max_tokens",
        (false, true) => "end_turn",
        (false, false) => "tool_use",
    };
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(Value::to_string).collect()
}

fn openai(reply: &Reply) -> Vec<String> {
    let chunk = |delta: Value, reason: Value| {
        json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
            .to_string()
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    events.extend(pieces(reply.text).map(|piece| chunk(json!({"content": piece}), Value::Null)));
    for (index, (name, input)) in reply.calls.iter().enumerate() {
        let function = json!({"name": name, "arguments": ""});
        let call = json!({"index": index, "id": format!("call-{index}"), "type": "function", "function": function});
        events.push(chunk(json!({"tool_calls": [call]}), Value::Null));
        events.extend(pieces(input).map(|piece| {
            chunk(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), Value::Null)
        }));
    }
    let reason = match (reply.too_long, reply.calls.is_empty()) {
        (true, _) => "length",
        (false, true) => "stop",
        (false, false) => "tool_calls",
    };
    events.push(chunk(json!({}), json!(reason)));
    events.push(json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}).to_string());
    events.push("[DONE]".to_owned());
    events
}

/// The arguments of a call, as formats have them that do not stream them.
fn arguments(input: &str) -> Value {
    serde_json::from_str(input).unwrap_or_default()
}

fn gemini(reply: &Reply) -> Vec<String> {
    let chunk = |parts: Value| json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}]});
    let mut events = vec![chunk(json!([{"text": "Hm.", "thought": true}]))];
    events.extend(pieces(reply.text).map(|piece| chunk(json!([{"text": piece}]))));
    events.extend(reply.calls.iter().map(|(name, input)| {
        chunk(json!([{"functionCall": {"name": name, "args": arguments(input)}, "thoughtSignature": "c2lnbmVk"}]))
    }));
    let reason = if reply.too_long { "MAX_TOKENS" } else { "STOP" };
    events.push(json!({"candidates": [{"index": 0, "finishReason": reason}], "usageMetadata": {"totalTokenCount": 2}}));
    events.iter().map(Value::to_string).collect()
}

fn ollama(reply: &Reply) -> Vec<String> {
    let message = |message: Value| json!({"model": "m", "message": message, "done": false});
    let said = pieces(reply.text).map(|piece| message(json!({"role": "assistant", "content": piece})));
    let mut events: Vec<Value> = said.collect();
    events.extend(reply.calls.iter().map(|(name, input)| {
        let call = json!({"function": {"name": name, "arguments": arguments(input)}});
        message(json!({"role": "assistant", "content": "", "tool_calls": [call]}))
    }));
    let reason = if reply.too_long { "length" } else { "stop" };
    let last = json!({"role": "assistant", "content": ""});
    events.push(json!({"model": "m", "message": last, "done": true, "done_reason": reason, "eval_count": 1}));
    events.iter().map(Value::to_string).collect()
}
