//! A small client of the Model Context Protocol: it greets the servers of a file, learns their tools and calls them.
//!
//! A server that cannot be had is said so on standard error and done without. Nothing is asked of this client, and what servers
//! tell unasked is not listened to.

mod http;
mod line;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::http::Http;
use self::line::Line;
use crate::tools::Definition;
use crate::truncate::Truncated;

/// The last version of the protocol in which client and server greet each other.
const VERSION: &str = "2025-11-25";
/// A server may have to be fetched first.
const GREETING: Duration = Duration::from_secs(180);
const QUESTION: Duration = Duration::from_secs(60);
const CALL: Duration = Duration::from_secs(600);
/// More tools than this confuse every model.
const MOST_TOOLS: usize = 200;
const MAX_OUTPUT: usize = 30_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    mcp_servers: BTreeMap<String, Server>,
}

/// A server as the file has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Server {
    Program {
        command: String,
        #[serde(default)]
        args: Vec<String>,
        #[serde(default)]
        env: BTreeMap<String, String>,
    },
    Url {
        url: String,
    },
}

/// The servers of a file, by name.
pub(crate) fn servers_in(path: &Path) -> Result<BTreeMap<String, Server>, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let file: File = serde_json::from_str(&text).map_err(|error| format!("{shown} is not valid: {error}"))?;
    Ok(file.mcp_servers)
}

/// A way to one server: a question goes out, its answer comes back.
trait Wire: Send {
    fn ask(&mut self, id: u64, message: &Value, within: Duration) -> Result<Value, String>;

    fn tell(&mut self, message: &Value) -> Result<(), String>;
}

struct Connection {
    wire: Box<dyn Wire>,
    asked: u64,
}

/// Where a tool of the model's is.
struct Place {
    server: usize,
    tool: String,
}

/// All servers that answered, and their tools.
#[derive(Default)]
pub(crate) struct Servers {
    connections: Vec<Connection>,
    definitions: Vec<Definition>,
    places: BTreeMap<String, Place>,
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Servers").field("tools", &self.places.keys()).finish_non_exhaustive()
    }
}

impl Servers {
    pub(crate) fn connect(file: Option<&Path>, workspace: &Path) -> Self {
        let mut servers = Self::default();
        let Some(file) = file else { return servers };
        let wanted = match servers_in(file) {
            Ok(wanted) => wanted,
            Err(error) => {
                eprintln!("MCP servers cannot be used: {error}");
                return servers;
            }
        };
        for (name, server) in wanted {
            if let Err(error) = servers.add(&name, &server, workspace) {
                eprintln!("the MCP server {name} cannot be used: {error}");
            }
        }
        servers
    }

    fn add(&mut self, name: &str, server: &Server, workspace: &Path) -> Result<(), String> {
        let wire: Box<dyn Wire> = match server {
            Server::Program { command, args, env } => Box::new(Line::start(command, args, env, workspace)?),
            Server::Url { url } => Box::new(Http::new(url.clone())),
        };
        let mut connection = Connection { wire, asked: 0 };
        let tools = connection.greet()?;
        let place = self.connections.len();
        self.connections.push(connection);
        for tool in tools {
            let Some(of_server) = tool.get("name").and_then(Value::as_str) else { continue };
            let known_as = format!("mcp__{name}__{of_server}");
            let text = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let schema = tool.get("inputSchema").cloned().unwrap_or_else(|| json!({ "type": "object" }));
            self.definitions.push(Definition {
                name: known_as.clone().into(),
                description: text("description").into(),
                schema,
            });
            self.places.insert(known_as, Place { server: place, tool: of_server.to_owned() });
        }
        Ok(())
    }

    pub(crate) fn definitions(&self) -> &[Definition] {
        &self.definitions
    }

    /// `None` when no server has such a tool.
    pub(crate) fn call(&mut self, name: &str, input: &Map<String, Value>) -> Option<Result<String, String>> {
        let place = self.places.get(name)?;
        let connection = self.connections.get_mut(place.server)?;
        let params = json!({ "name": place.tool, "arguments": input });
        Some(connection.ask("tools/call", &params, CALL).and_then(|result| outcome(&result)))
    }
}

impl Connection {
    fn greet(&mut self) -> Result<Vec<Value>, String> {
        let greeting = json!({
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": { "name": "harvest", "version": env!("CARGO_PKG_VERSION") },
        });
        self.ask("initialize", &greeting, GREETING)?;
        self.wire.tell(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        let (mut tools, mut cursor) = (Vec::new(), None);
        loop {
            let params = match &cursor {
                Some(cursor) => json!({ "cursor": cursor }),
                None => json!({}),
            };
            let page = self.ask("tools/list", &params, QUESTION)?;
            tools.extend(page.get("tools").and_then(Value::as_array).cloned().unwrap_or_default());
            cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            if cursor.is_none() || tools.len() >= MOST_TOOLS {
                tools.truncate(MOST_TOOLS);
                return Ok(tools);
            }
        }
    }

    fn ask(&mut self, method: &str, params: &Value, within: Duration) -> Result<Value, String> {
        self.asked += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params });
        let answer = self.wire.ask(self.asked, &message, within)?;
        match answer.get("error") {
            Some(error) => {
                let said = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
                Err(format!("The server refused: {said}"))
            }
            None => Ok(answer.get("result").cloned().unwrap_or_default()),
        }
    }
}

/// Whether `message` is the answer to question `id`.
fn answers(message: &Value, id: u64) -> bool {
    message.get("method").is_none() && message.get("id").and_then(Value::as_u64) == Some(id)
}

/// What the model is told of a result.
fn outcome(result: &Value) -> Result<String, String> {
    let parts = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let part = |part: &Value| match part.get("type").and_then(Value::as_str) {
        Some("text") => part.get("text").and_then(Value::as_str).unwrap_or_default().to_owned(),
        Some("resource") => part.pointer("/resource/text").and_then(Value::as_str).unwrap_or("[a resource]").to_owned(),
        Some(kind) => format!("[{kind}: not shown]"),
        None => String::new(),
    };
    let mut text = parts.iter().map(part).collect::<Vec<_>>().join("\n");
    if text.is_empty()
        && let Some(structured) = result.get("structuredContent")
    {
        text = structured.to_string();
    }
    let mut short = Truncated::new(MAX_OUTPUT);
    short.push(text.as_bytes());
    let text = short.into_text();
    if result.get("isError") == Some(&Value::Bool(true)) { Err(text) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_become_texts() {
        let result = json!({ "content": [{ "type": "text", "text": "one" }, { "type": "image", "data": "…" }] });
        assert_eq!(outcome(&result), Ok("one\n[image: not shown]".to_owned()));
        assert_eq!(outcome(&json!({ "content": [], "structuredContent": { "a": 1 } })), Ok("{\"a\":1}".to_owned()));
        let failed = json!({ "isError": true, "content": [{ "type": "text", "text": "no" }] });
        assert_eq!(outcome(&failed), Err("no".to_owned()));
    }
}
