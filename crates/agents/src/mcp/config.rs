//! How each agent is told of its servers.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Found, Offer};
use crate::{File, Invocation, Turn};

/// Servers may have to be fetched before they answer; agents wait this long for them.
const START_SECONDS: u64 = 180;
/// As long as the gateway waits for a tool.
const CALL_SECONDS: u64 = 600;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Style {
    /// A file of its own, named on the command line; nothing else counts then.
    ClaudeCode,
    /// The same for programs of Harvest.
    Harvest,
    /// Tables of `config.toml`.
    Codex,
    /// Part of `settings.json`.
    Gemini,
    /// Part of `opencode.json`.
    Opencode,
}

/// Puts the servers where the agent looks for them.
pub(crate) fn tell(style: Style, invocation: &mut Invocation, turn: &Turn<'_>) {
    let own_file = || turn.home.join(".harvest/mcp.json");
    match style {
        Style::ClaudeCode => {
            let path = write_servers(invocation, own_file(), turn.mcp);
            // Of the repository's own servers none is started: they are whoever's who can commit there.
            invocation.argv.extend(["--mcp-config".to_owned(), path, "--strict-mcp-config".to_owned()]);
            invocation.env.push(("MCP_TIMEOUT".to_owned(), (START_SECONDS * 1000).to_string()));
            invocation.env.push(("MCP_TOOL_TIMEOUT".to_owned(), (CALL_SECONDS * 1000).to_string()));
        }
        Style::Harvest => {
            let path = write_servers(invocation, own_file(), turn.mcp);
            // Behind the name of the bridge, or of the agent where there is none.
            let place = if invocation.program == 0 { 1 } else { 2 };
            invocation.argv.splice(place..place, ["--mcp".to_owned(), path]);
            invocation.program += if invocation.program == 0 { 0 } else { 2 };
        }
        Style::Codex => {
            let tables = turn.mcp.iter().map(codex_table).collect::<String>();
            if let Some(file) = named(invocation, "config.toml") {
                file.content.push_str(&tables);
            }
        }
        Style::Gemini => {
            let servers = turn.mcp.iter().map(|offer| (offer.name.clone(), gemini_entry(&offer.at)));
            merge(named(invocation, "settings.json"), "mcpServers", servers.collect());
        }
        Style::Opencode => {
            let servers = turn.mcp.iter().map(|offer| (offer.name.clone(), opencode_entry(&offer.at)));
            merge(named(invocation, "opencode.json"), "mcp", servers.collect());
        }
    }
}

fn named<'i>(invocation: &'i mut Invocation, name: &str) -> Option<&'i mut File> {
    invocation.files.iter_mut().find(|file| file.path.ends_with(name))
}

/// The form that most agents understand.
fn write_servers(invocation: &mut Invocation, path: PathBuf, offers: &[Offer]) -> String {
    let entry = |at: &Found| match at {
        Found::Program { argv, environment } => {
            let (command, args) = split(argv);
            json!({ "type": "stdio", "command": command, "args": args, "env": object(environment) })
        }
        Found::Url(url) => json!({ "type": "http", "url": url }),
    };
    let servers: Map<String, Value> = offers.iter().map(|offer| (offer.name.clone(), entry(&offer.at))).collect();
    let shown = path.to_string_lossy().into_owned();
    let content = json!({ "mcpServers": servers }).to_string();
    invocation.files.push(File { path, content, executable: false });
    shown
}

fn split(argv: &[String]) -> (&str, &[String]) {
    argv.split_first().map_or(("", &[]), |(command, args)| (command.as_str(), args))
}

fn object(environment: &[(String, String)]) -> Map<String, Value> {
    environment.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect()
}

/// JSON's texts are TOML's as well.
fn codex_table(Offer { name, at }: &Offer) -> String {
    let own = match at {
        Found::Program { argv, environment } => {
            let (command, args) = split(argv);
            let pairs: Vec<String> =
                environment.iter().map(|(name, value)| format!("{} = {}", json!(name), json!(value))).collect();
            format!("command = {}\nargs = {}\nenv = {{ {} }}\n", json!(command), json!(args), pairs.join(", "))
        }
        Found::Url(url) => format!("url = {}\n", json!(url)),
    };
    format!("\n[mcp_servers.{name}]\n{own}startup_timeout_sec = {START_SECONDS}\ntool_timeout_sec = {CALL_SECONDS}\n")
}

fn gemini_entry(at: &Found) -> Value {
    let mut entry = match at {
        Found::Program { argv, environment } => {
            let (command, args) = split(argv);
            json!({ "command": command, "args": args, "env": object(environment) })
        }
        Found::Url(url) => json!({ "httpUrl": url }),
    };
    entry["timeout"] = (CALL_SECONDS * 1000).into();
    entry["trust"] = true.into();
    entry
}

fn opencode_entry(at: &Found) -> Value {
    match at {
        Found::Program { argv, environment } => {
            json!({ "type": "local", "command": argv, "environment": object(environment), "enabled": true,
                    "timeout": START_SECONDS * 1000 })
        }
        Found::Url(url) => json!({ "type": "remote", "url": url, "enabled": true, "timeout": START_SECONDS * 1000 }),
    }
}

/// A file that is no JSON object is left alone: the registry's own are.
fn merge(file: Option<&mut File>, key: &str, servers: Map<String, Value>) {
    let Some(file) = file else { return };
    if let Ok(Value::Object(mut content)) = serde_json::from_str(&file.content) {
        content.insert(key.to_owned(), Value::Object(servers));
        file.content = Value::Object(content).to_string();
    }
}
