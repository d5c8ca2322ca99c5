//! Bridges to agents that do not simply print: programs that stand between such an agent and Harvest inside the sandbox, so
//! that what comes out is lines like any other agent's.
//!
//! `harvest-builtin acp --workspace DIR -- PROGRAM…` drives an agent that speaks the Agent Client Protocol and prints the
//! built-in agent's events. `harvest-builtin pty -- PROGRAM…` runs a program that insists on a terminal and prints its text.
//! The prompt comes on standard input. A signal is passed on in the agent's own way, so that it can end cleanly.

mod acp;
mod pty;
mod signals;

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, thiserror::Error)]
enum UsageError {
    #[error("usage: harvest-builtin acp --workspace DIR -- PROGRAM [ARGUMENT]...")]
    Acp,
    #[error("usage: harvest-builtin pty -- PROGRAM [ARGUMENT]...")]
    Pty,
    #[error("the prompt cannot be read from standard input: {0}")]
    Prompt(std::io::Error),
}

/// Runs the bridge that the arguments name; `None` when they name none.
pub(crate) fn run(arguments: &[OsString]) -> Option<ExitCode> {
    let (name, rest) = arguments.split_first()?;
    let ended = match name.to_str()? {
        "acp" => acp_arguments(rest).and_then(|(workspace, command)| Ok(acp::run(&workspace, command, &prompt()?))),
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

fn acp_arguments(arguments: &[OsString]) -> Result<(PathBuf, &[OsString]), UsageError> {
    match arguments {
        [name, workspace, dashes, command @ ..] if name == "--workspace" && dashes == "--" && !command.is_empty() => {
            Ok((PathBuf::from(workspace), command))
        }
        _ => Err(UsageError::Acp),
    }
}

fn prompt() -> Result<String, UsageError> {
    let mut prompt = Vec::new();
    std::io::stdin().lock().read_to_end(&mut prompt).map_err(UsageError::Prompt)?;
    Ok(String::from_utf8_lossy(&prompt).into_owned())
}
