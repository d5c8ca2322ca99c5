//! Bridges to agents that do not simply print: programs that stand between such an agent and Harvest inside the sandbox, so
//! that what comes out is lines like any other agent's.
//!
//! `harvest-builtin acp --workspace DIR -- PROGRAM…` drives an agent that speaks the Agent Client Protocol and prints the
//! built-in agent's events. `harvest-builtin pty -- PROGRAM…` runs a program that insists on a terminal and prints its text.
//! The prompt comes on standard input. A signal is passed on in the agent's own way, so that it can end cleanly.
//!
//! `harvest-builtin mcp-filter --allow TOOL… -- PROGRAM…` stands between an agent and an MCP server.

mod acp;
mod filter;
mod pty;
mod signals;

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::mcp;

#[derive(Debug, thiserror::Error)]
enum UsageError {
    #[error("usage: harvest-builtin acp [--mcp FILE] --workspace DIR -- PROGRAM [ARGUMENT]...")]
    Acp,
    #[error("usage: harvest-builtin mcp-filter --allow TOOL... -- PROGRAM [ARGUMENT]...")]
    Filter,
    #[error("the MCP servers cannot be used: {0}")]
    Servers(String),
    #[error("usage: harvest-builtin pty -- PROGRAM [ARGUMENT]...")]
    Pty,
    #[error("the prompt cannot be read from standard input: {0}")]
    Prompt(std::io::Error),
}

/// Runs the bridge that the arguments name; `None` when they name none.
pub(crate) fn run(arguments: &[OsString]) -> Option<ExitCode> {
    let (name, rest) = arguments.split_first()?;
    let ended = match name.to_str()? {
        "acp" => acp_arguments(rest).and_then(|(servers, workspace, command)| {
            let servers = servers.map(|file| mcp::servers_in(&file)).transpose().map_err(UsageError::Servers)?;
            Ok(acp::run(&workspace, command, &servers.unwrap_or_default(), &prompt()?))
        }),
        "mcp-filter" => filter_arguments(rest).map(|(allowed, command)| filter::run(&allowed, command)),
        "pty" => match rest {
            [dashes, command @ ..] if dashes == "--" && !command.is_empty() => {
                prompt().map(|prompt| pty::run(command, &prompt))
            }
            _ => Err(UsageError::Pty),
        },
        _ => return None,
    };
    Some(ended.unwrap_or_else(|error| {
        eprintln!("harvest-builtin: {error}");
        ExitCode::from(2)
    }))
}

fn acp_arguments(arguments: &[OsString]) -> Result<(Option<PathBuf>, PathBuf, &[OsString]), UsageError> {
    let (servers, arguments) = match arguments {
        [name, file, rest @ ..] if name == "--mcp" => (Some(PathBuf::from(file)), rest),
        all => (None, all),
    };
    match arguments {
        [name, workspace, dashes, command @ ..] if name == "--workspace" && dashes == "--" && !command.is_empty() => {
            Ok((servers, PathBuf::from(workspace), command))
        }
        _ => Err(UsageError::Acp),
    }
}

fn filter_arguments(mut arguments: &[OsString]) -> Result<(Vec<String>, &[OsString]), UsageError> {
    let mut allowed = Vec::new();
    while let [name, tool, rest @ ..] = arguments
        && name == "--allow"
    {
        allowed.push(tool.to_string_lossy().into_owned());
        arguments = rest;
    }
    match arguments {
        [dashes, command @ ..] if dashes == "--" && !command.is_empty() => Ok((allowed, command)),
        _ => Err(UsageError::Filter),
    }
}

fn prompt() -> Result<String, UsageError> {
    let mut prompt = Vec::new();
    std::io::stdin().lock().read_to_end(&mut prompt).map_err(UsageError::Prompt)?;
    Ok(String::from_utf8_lossy(&prompt).into_owned())
}
