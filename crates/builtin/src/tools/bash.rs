//! `bash`: a command line in the workspace. The result ends with the exit code, so that the model cannot miss it.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::{Definition, MAX_OUTPUT, Outcome, object_schema};
use crate::process::{self, End, Finished};

const DEFAULT_SECONDS: u64 = 120;
const MAX_SECONDS: u64 = 1800;

#[derive(Debug, Deserialize)]
pub(super) struct BashInput {
    command: String,
    timeout_seconds: Option<u64>,
}

pub(super) fn definition() -> Definition {
    Definition {
        name: "bash".into(),
        description: "Runs a command line with bash in the workspace and returns what it printed (standard output and \
            standard error together, in order), ending with a line `exit code N`. Each call is a new shell: `cd` and \
            variables do not carry over. There is no terminal and no standard input, so use options that avoid questions. \
            Very long output loses its middle. Start long-running servers in the background with their output in a file."
            .into(),
        schema: object_schema(
            &json!({
                "command": {"type": "string", "description": "The command line to run."},
                "timeout_seconds": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_SECONDS,
                    "description": "After this time the command and all it started are killed. 120 unless given.",
                },
            }),
            &["command"],
        ),
    }
}

pub(super) fn run(workspace: &Path, input: &BashInput) -> Outcome {
    let seconds = input.timeout_seconds.unwrap_or(DEFAULT_SECONDS).clamp(1, MAX_SECONDS);
    let finished = shell(workspace, &input.command, Duration::from_secs(seconds))
        .map_err(|error| format!("The command could not be started: {error}."))?;
    let mut text = finished.output;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    match finished.end {
        End::Exited(0) => Ok(text + "exit code 0"),
        End::Exited(code) => Err(format!("{text}exit code {code}")),
        End::TimedOut => Err(format!("{text}timed out after {seconds} s\nexit code 124")),
    }
}

/// bash where there is one, else whatever `sh` is.
fn shell(workspace: &Path, command: &str, timeout: Duration) -> io::Result<Finished> {
    let with = |shell| {
        let mut program = process::program(shell, workspace);
        program.args(["-c", command]);
        process::run(program, timeout, MAX_OUTPUT)
    };
    match with("bash") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => with("sh"),
        result => result,
    }
}
