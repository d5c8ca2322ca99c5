//! MCP servers, as data and as agents are told of them.
//!
//! [`Catalogue`] is what there is: the servers that Harvest knows, and those of an installation. [`Offer`] is one of them as an
//! agent in a sandbox finds it; each agent has its own way to be told.

mod catalogue;
mod config;

pub use catalogue::{Catalogue, Entry, Error};

pub(crate) use config::{Style, tell};

use std::path::Path;

use harvest_core::{McpAddress, McpServer};

/// A server as an agent finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub name: String,
    pub at: Found,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The agent starts it, beside itself.
    Program { argv: Vec<String>, environment: Vec<(String, String)> },
    /// It is somewhere else, and this is the way there.
    Url(String),
}

/// The places in a sandbox that servers are told of.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    pub home: &'a Path,
    pub workspace: &'a Path,
    /// The folder with the programs that Harvest brings along.
    pub bin: &'a Path,
    pub gateway_port: u16,
}

impl Places<'_> {
    /// `{home}` and `{workspace}` in arguments and variables of a server.
    pub fn fill(&self, text: &str) -> String {
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        text.replace("{home}", &shown(self.home)).replace("{workspace}", &shown(self.workspace))
    }
}

impl Offer {
    pub fn of(server: &McpServer, places: Places<'_>) -> Self {
        let at = match &server.at {
            McpAddress::Program { command, args } if !server.is_behind_the_gateway() => {
                let mut argv = filter(server, places);
                argv.push(command.clone());
                argv.extend(args.iter().map(|argument| places.fill(argument)));
                let environment =
                    server.environment.iter().map(|(name, value)| (name.clone(), places.fill(value))).collect();
                Found::Program { argv, environment }
            }
            _ => Found::Url(format!("http://127.0.0.1:{}/mcp/{}", places.gateway_port, server.name)),
        };
        Self { name: server.name.clone(), at }
    }
}

/// What stands between an agent and a server of which it may not use all.
fn filter(server: &McpServer, places: Places<'_>) -> Vec<String> {
    let Some(tools) = &server.tools else { return Vec::new() };
    let program = places.bin.join("harvest-builtin").to_string_lossy().into_owned();
    let allowed = tools.iter().flat_map(|tool| ["--allow".to_owned(), tool.clone()]);
    [program, "mcp-filter".to_owned()].into_iter().chain(allowed).chain(["--".to_owned()]).collect()
}
