//! What one run of an agent needs to be told, and the command that comes of it.

use std::path::{Path, PathBuf};

use crate::Provider;
use crate::mcp::Offer;

/// One prompt for an agent, with the places it will find. All paths are as the agent sees them.
#[derive(Debug, Clone, Copy)]
pub struct Turn<'a> {
    pub prompt: &'a str,
    pub provider: Provider,
    pub model: &'a str,
    /// The loopback port on which the gateway answers.
    pub gateway_port: u16,
    pub home: &'a Path,
    pub workspace: &'a Path,
    /// The folder with the programs that Harvest brings into every sandbox.
    pub bin: &'a Path,
    /// What the agent gets as `PATH`.
    pub path: &'a str,
    pub max_turns: u32,
    /// It is to make a plan and to change nothing.
    pub plan: bool,
    /// The agent's own name of the conversation that it is to go on with, whose state is in the home again. Empty for one
    /// that needs no name.
    pub resume: Option<&'a str>,
    /// What offers it tools.
    pub mcp: &'a [Offer],
}

/// How to start an agent. `env` is the whole environment; nothing is inherited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    pub argv: Vec<String>,
    /// Where in `argv` the agent's own program is; what stands before it comes with Harvest.
    pub program: usize,
    pub env: Vec<(String, String)>,
    pub stdin: String,
    /// Files that must be there before the agent starts.
    pub files: Vec<File>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub path: PathBuf,
    pub content: String,
    pub executable: bool,
}
