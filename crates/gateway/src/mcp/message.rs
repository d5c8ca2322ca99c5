//! JSON-RPC as far as the gateway has to understand it: which tool is called, and which tools are told of.

use harvest_core::{McpOutcome, McpServer};
use serde_json::{Map, Value, json};

/// JSON-RPC: wrong parameters, and an error of the server.
pub(super) const NOT_ALLOWED: i64 = -32602;
pub(super) const SERVER_ERROR: i64 = -32000;
pub(super) const NO_METHOD: i64 = -32601;

/// One message of a client.
#[derive(Debug, Clone)]
pub(super) struct Message {
    whole: Map<String, Value>,
}

impl Message {
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(whole)) => Ok(Self { whole }),
            // Batches were part of one version of the protocol only; taken apart, each message is looked at.
            Ok(Value::Array(_)) => Err("batches are not supported: send the messages one by one".to_owned()),
            Ok(_) => Err("the message is not a JSON object".to_owned()),
            Err(error) => Err(format!("the message is not JSON: {error}")),
        }
    }

    pub(super) fn method(&self) -> Option<&str> {
        self.whole.get("method").and_then(Value::as_str)
    }

    /// What an answer has to name; `None` for a notification and for an answer.
    pub(super) fn id(&self) -> Option<&Value> {
        self.method()?;
        self.whole.get("id").filter(|id| !id.is_null())
    }

    pub(super) fn params(&self) -> Option<&Map<String, Value>> {
        self.whole.get("params").and_then(Value::as_object)
    }

    pub(super) fn asks_for_tools(&self) -> bool {
        self.method() == Some("tools/list")
    }

    /// The tool that is called; empty when the call names none.
    pub(super) fn tool(&self) -> Option<&str> {
        (self.method()? == "tools/call")
            .then(|| self.params().and_then(|params| params.get("name")).and_then(Value::as_str).unwrap_or_default())
    }

    /// The same with another id and other parameters, as a line.
    pub(super) fn line(&self, id: Option<u64>, params: Option<Value>) -> String {
        let mut whole = self.whole.clone();
        if let Some(id) = id {
            whole.insert("id".to_owned(), id.into());
        }
        if let Some(params) = params {
            whole.insert("params".to_owned(), params);
        }
        let mut line = Value::Object(whole).to_string();
        line.push('\n');
        line
    }

    pub(super) fn refusal(&self, code: i64, reason: &str) -> Value {
        let id = self.whole.get("id").cloned().unwrap_or_default();
        json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": reason } })
    }

    pub(super) fn is_answered_by(&self, answer: &Value) -> bool {
        answer.get("method").is_none() && self.id().is_some() && answer.get("id") == self.id()
    }
}

/// Leaves out the tools that are not allowed, wherever a list of them is told, also in a batch of answers. Whether anything was
/// left out.
pub(super) fn without_forbidden_tools(answer: &mut Value, server: &McpServer) -> bool {
    if let Value::Array(answers) = answer {
        let mut changed = false;
        for one in answers {
            changed |= without_forbidden_tools(one, server);
        }
        return changed;
    }
    let Some(Value::Array(tools)) = answer.pointer_mut("/result/tools") else { return false };
    let before = tools.len();
    tools.retain(|tool| tool.get("name").and_then(Value::as_str).is_some_and(|name| server.allows(name)));
    tools.len() != before
}

pub(super) fn outcome(answer: &Value) -> McpOutcome {
    let failed = answer.get("error").is_some() || answer.pointer("/result/isError") == Some(&Value::Bool(true));
    if failed { McpOutcome::Failed } else { McpOutcome::Answered }
}
