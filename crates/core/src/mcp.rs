//! Servers of the Model Context Protocol: programs and hosts that offer tools to agents.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::NamedBy;

/// An MCP server that a task may use. It contains the name of a credential, never the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct McpServer {
    /// Its name for agents and in events.
    pub name: String,
    pub at: McpAddress,
    /// Environment variables; only for a program.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// A server with a credential is isolated from the agent and reached through the gateway only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<McpCredential>,
    /// The tools that agents can use; default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The hosts that a program with a credential may connect to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Who defined the server: the installation or a project.
    #[serde(default, skip_serializing_if = "NamedBy::is_installation")]
    pub named_by: NamedBy,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum McpAddress {
    /// A program that speaks MCP on its standard input and output.
    Program { command: String, args: Vec<String> },
    /// A host that speaks MCP over HTTP.
    Url { url: String },
}

/// The secret that a server needs, and how it is passed to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct McpCredential {
    /// The name of the credential, which has the provider `mcp`.
    pub name: String,
    /// The environment variable of a program, or the header of a request.
    pub sent_as: String,
}

impl McpCredential {
    /// The provider under which such credentials are kept.
    pub const PROVIDER: &str = "mcp";
    /// Where the secret stands behind the word `Bearer`; in every other header it stands alone.
    pub const BEARER_HEADER: &str = "authorization";
}

impl McpServer {
    /// Whether it is reached through the gateway, and not started by the agent itself.
    pub fn is_behind_the_gateway(&self) -> bool {
        self.credential.is_some() || matches!(self.at, McpAddress::Url { .. })
    }

    pub fn allows(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|allowed| allowed == tool))
    }

    /// Names stand in paths, in settings of agents and in the names of tools.
    pub fn is_valid_name(name: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
        (1..=40).contains(&name.len())
            && name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.bytes().all(is_plain)
    }
}
