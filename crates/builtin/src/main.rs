//! The built-in agent: an ordinary process inside a sandbox that works on a prompt until the model ends its turn.
//!
//! The prompt comes on standard input, the configuration on the command line, and everything that happens goes to standard
//! output, one JSON object per line. It holds no key: the gateway it speaks to adds that outside.
//!
//! Exit codes: 0 when the model ended its turn, 1 when it could not (an `agent.error` line says why), 2 for wrong usage.

mod agent;
mod bridge;
mod conversation;
mod draft;
mod mcp;
mod model;
mod options;
mod output;
mod process;
mod sse;
mod tools;
mod truncate;
mod wire;

use std::ffi::OsString;
use std::io::Read;
use std::process::ExitCode;

use crate::agent::{Agent, Stop};
use crate::mcp::Servers;
use crate::model::Model;
use crate::options::Options;
use crate::output::{ErrorKind, Output};
use crate::tools::Tools;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(ended) = bridge::run(&arguments) {
        return ended;
    }
    let options = match Options::parse(arguments) {
        Ok(options) => options,
        Err(error) => return usage_error(&error.to_string()),
    };
    let mut prompt = Vec::new();
    if let Err(error) = std::io::stdin().lock().read_to_end(&mut prompt) {
        return usage_error(&format!("the prompt cannot be read from standard input: {error}"));
    }
    let prompt = String::from_utf8_lossy(&prompt);
    if prompt.trim().is_empty() {
        return usage_error("there is no prompt on standard input");
    }
    work(&options, &prompt)
}

fn work(options: &Options, prompt: &str) -> ExitCode {
    let mut output = Output::new(std::io::stdout().lock());
    let result = agent::system_prompt(options).and_then(|system| {
        let servers = Servers::connect(options.mcp.as_deref(), &options.workspace);
        let tools = Tools::new(options.workspace.clone(), options.mode, servers);
        let model = Model::new(options, system, tools.definitions());
        Agent { model, tools, max_turns: options.max_turns }.run(prompt, &mut output)
    });
    let (kind, message) = match result {
        Ok(turns) => {
            return if output.done(turns).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        // Nobody is listening any more, so nothing is left to say.
        Err(Stop::Output(_)) => return ExitCode::FAILURE,
        Err(Stop::Model(failure)) => (failure.kind(), failure.to_string()),
        Err(stop @ Stop::Turns(_)) => (ErrorKind::Turns, stop.to_string()),
        Err(stop @ Stop::SystemFile { .. }) => (ErrorKind::Internal, stop.to_string()),
    };
    let _ = output.error(kind, &message);
    ExitCode::FAILURE
}

fn usage_error(message: &str) -> ExitCode {
    eprintln!("harvest-builtin: {message}");
    ExitCode::from(2)
}
