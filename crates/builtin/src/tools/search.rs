//! `search`: lines that match a regular expression. git does the work where it can, because it knows what is ignored; grep
//! does it elsewhere.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::{Definition, Outcome, object_schema};
use crate::process::{self, End, Finished};

const TIMEOUT: Duration = Duration::from_secs(60);
const MAX_LINES: usize = 200;
const MAX_LINE_CHARS: usize = 300;
const MAX_BYTES: usize = 4 * 1024 * 1024;

#[derive(Debug, Deserialize)]
pub(super) struct SearchInput {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
}

pub(super) fn definition() -> Definition {
    Definition {
        name: "search".into(),
        description:
            "Searches the files of the workspace for a POSIX extended regular expression (write [0-9], not \\d) and \
            returns lines as `file:line number:text`. Files that git ignores and binary files are left out."
                .into(),
        schema: object_schema(
            &json!({
                "pattern": {"type": "string", "description": "The regular expression."},
                "path": {"type": "string", "description": "A file or folder to search in; the workspace unless given."},
                "glob": {"type": "string", "description": "Search only files with such names, for instance `*.rs`."},
            }),
            &["pattern"],
        ),
    }
}

pub(super) fn run(workspace: &Path, input: &SearchInput) -> Outcome {
    let path = input.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".");
    if !workspace.join(path).exists() {
        return Err(format!("There is no file or folder {path}."));
    }
    // git answers 0 for found, 1 for nothing found; anything else means it cannot search here.
    let finished = match process::run(git_grep(workspace, input, path), TIMEOUT, MAX_BYTES) {
        Ok(finished @ Finished { end: End::Exited(0 | 1) | End::TimedOut, .. }) => finished,
        Ok(_) | Err(_) => process::run(grep(workspace, input, path), TIMEOUT, MAX_BYTES)
            .map_err(|error| format!("Neither git nor grep can be started: {error}."))?,
    };
    match finished.end {
        End::Exited(0) => Ok(shown(&finished.output)),
        End::Exited(1) => Ok("Nothing found.".to_owned()),
        End::Exited(_) => Err(format!("The search failed: {}", finished.output.trim())),
        End::TimedOut => Err("The search took more than 60 s. Search in fewer files.".to_owned()),
    }
}

fn git_grep(workspace: &Path, input: &SearchInput, path: &str) -> Command {
    let mut git = process::program("git", workspace);
    git.args(["grep", "-nIE", "--no-color", "--untracked", "-e", &input.pattern, "--"]);
    match &input.glob {
        // A star in what git expects here also stands for slashes, so that folders are searched at any depth.
        Some(glob) if path == "." => git.arg(glob),
        Some(glob) => git.arg(format!("{}/{glob}", path.trim_end_matches('/'))),
        None => git.arg(path),
    };
    git
}

fn grep(workspace: &Path, input: &SearchInput, path: &str) -> Command {
    let mut grep = process::program("grep", workspace);
    grep.args(["-rnIE", "--exclude-dir=.git"]);
    if let Some(glob) = &input.glob {
        let name = glob.rsplit('/').next().unwrap_or(glob);
        grep.arg(format!("--include={name}"));
    }
    grep.args(["-e", &input.pattern, "--", path]);
    grep
}

fn shown(output: &str) -> String {
    let mut lines: Vec<String> = output.lines().take(MAX_LINES).map(shortened).collect();
    let more = output.lines().skip(MAX_LINES).count();
    if more > 0 {
        lines.push(format!("[… {more} more lines; search for something narrower or in fewer files …]"));
    }
    lines.join("\n")
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{} […]", &line[..end]),
        None => line.to_owned(),
    }
}
