//! The program inside every sandbox, and the one that makes it.
//!
//! `harvest-runner launch` arranges mounts and identity on the host and becomes bubblewrap. `harvest-runner run` is what
//! bubblewrap then starts: it owns the processes, spools their output and leads loopback to the gateway. Both are told what
//! to do in JSON whose types live in `harvest-link`. `harvest-runner hold` is a process that does not know yet what it is. In
//! a container `harvest-runner attempt` is around each process.

mod acting;
mod attempt;
mod command;
mod counter;
mod descriptors;
mod files;
mod gateway;
mod hold;
mod input;
mod launch;
mod lines;
mod link;
mod process;
mod reap;
mod registry;
mod relay;
mod signals;
mod spool;
mod supervisor;
mod tree;
mod usage;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

/// As in `env` and `timeout`: the program itself failed, not what it was to run.
const FAILED: u8 = 125;

fn main() -> ExitCode {
    if let Err(error) = descriptors::seal() {
        return fail(&format!("open files cannot be kept from what is started: {error}"));
    }
    if let Err(error) = signals::restore() {
        return fail(&format!("signals cannot be restored: {error}"));
    }
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let text: Vec<&str> = arguments.iter().map(|argument| argument.to_str().unwrap_or_default()).collect();
    if let ["attempt", rest @ ..] = text.as_slice() {
        return match attempt::run(rest) {
            Ok(code) => ExitCode::from(code),
            Err(error) => fail(&error.to_string()),
        };
    }
    let outcome = match (text.as_slice(), arguments.as_slice()) {
        (["run", ..], [_, boot, ..]) => supervisor::run(boot.as_ref()).map_err(|error| error.to_string()),
        (["launch", "--inline", order], _) => launch::inline(order).map_err(|error| error.to_string()),
        (["launch", "--when-told", ..], [_, _, groups @ ..]) => {
            launch::when_told(groups).map_err(|error| error.to_string())
        }
        ([hold::STUB], _) => return become_process(),
        _ => Err("usage: harvest-runner run BOOT.json [ID] | launch (--inline JSON | --when-told [GROUP]...) | hold"
            .to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(&message),
    }
}

/// Says what went wrong the way the wrapper around it would.
fn become_process() -> ExitCode {
    match hold::stub() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("harvest-runner: {error}");
            ExitCode::FAILURE
        }
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("harvest-runner: {message}");
    ExitCode::from(FAILED)
}
