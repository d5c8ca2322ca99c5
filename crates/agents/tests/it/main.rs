//! Agents as the engine sees them: the command that starts one, and the events that come of its output.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod command;
mod mcp;
mod parser;
mod prompts;
mod registry;
mod transcripts;

use harvest_agents::{Agent, Registry};

/// An agent that exists only as data.
const ECHO: &str = r#"
[[agent]]
id = "echo"
name = "Echo"
providers = ["openai"]
dialect = "text"
prompt = "stdin"
command = "/bin/sh"
arguments = ["-c", "cat; echo {model} {gateway_port}"]
environment = { OPENAI_BASE_URL = "{base_url}", TERM = "xterm" }
install_hint = "Nothing to do."

[[agent.files]]
path = "{home}/.echo/settings.json"
content = '{"model": "{model}", "turns": {max_turns}}'

[agent.features]
auto_commit = true
"#;

fn agent(registry: &Registry, id: &str) -> Agent {
    registry.get(id).unwrap().clone()
}

fn builtin() -> Agent {
    agent(&Registry::bundled().unwrap(), "builtin")
}

fn echo() -> Agent {
    agent(&Registry::from_toml(ECHO).unwrap(), "echo")
}
