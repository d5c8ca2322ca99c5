//! A server with an address: each message is a request, and its answer a document or a stream of events.

use std::io::{BufReader, Read};
use std::time::Duration;

use serde_json::Value;

use super::{Wire, answers};
use crate::model::client;
use crate::sse::Events;
use crate::wire::Framing;

const MAX_ANSWER: u64 = 32 * 1024 * 1024;
const SESSION: &str = "mcp-session-id";

pub(super) struct Http {
    http: ureq::Agent,
    url: String,
    /// What the server calls this conversation.
    session: Option<String>,
}

impl Http {
    pub(super) fn new(url: String) -> Self {
        Self { http: client(), url, session: None }
    }

    fn send(&mut self, message: &Value, within: Duration) -> Result<ureq::http::Response<ureq::Body>, String> {
        let mut request = self
            .http
            .post(&self.url)
            .config()
            .timeout_global(Some(within))
            .build()
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", super::VERSION);
        if let Some(session) = &self.session {
            request = request.header(SESSION, session);
        }
        let response = request.send(message.to_string()).map_err(|error| error.to_string())?;
        if let Some(session) = response.headers().get(SESSION).and_then(|value| value.to_str().ok()) {
            self.session = Some(session.to_owned());
        }
        if !response.status().is_success() {
            let status = response.status().as_u16();
            let mut said = String::new();
            let _ = response.into_body().into_reader().take(500).read_to_string(&mut said);
            return Err(format!("HTTP {status}: {}", said.trim()));
        }
        Ok(response)
    }
}

impl Wire for Http {
    fn ask(&mut self, id: u64, message: &Value, within: Duration) -> Result<Value, String> {
        let response = self.send(message, within)?;
        let content_type = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        let is_stream = content_type.is_some_and(|text| text.starts_with("text/event-stream"));
        let reader = response.into_body().into_reader().take(MAX_ANSWER);
        if !is_stream {
            return serde_json::from_reader(reader).map_err(|error| format!("the answer is not JSON: {error}"));
        }
        let mut events = Events::new(BufReader::new(reader), Framing::Events);
        while let Some(data) = events.next().map_err(|error| error.to_string())? {
            match serde_json::from_str::<Value>(&data) {
                Ok(heard) if answers(&heard, id) => return Ok(heard),
                _ => {}
            }
        }
        Err("the stream ended without an answer".to_owned())
    }

    fn tell(&mut self, message: &Value) -> Result<(), String> {
        self.send(message, super::QUESTION).map(drop)
    }
}
