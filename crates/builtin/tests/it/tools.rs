//! The tools, as the model sees their results.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::run;
use crate::server::{Server, WireName, say};

/// The result of one call and whether it is an error.
fn call(workspace: &Path, name: &'static str, input: &Value) -> (String, bool) {
    let server = Server::start(WireName::Anthropic, vec![say("").call(name, input).into(), say("Done.").into()]);
    let run = run(&server, WireName::Anthropic, workspace, &[]);
    assert_eq!(run.exit_code, 0);
    let (output, is_error) = run.results()[0];
    (output.to_owned(), is_error)
}

fn bash(workspace: &Path, command: &str) -> (String, bool) {
    call(workspace, "bash", &json!({"command": command}))
}

#[test]
fn bash_tells_output_in_order_and_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let (output, is_error) = bash(folder.path(), "echo one; echo two >&2; echo three; exit 7");
    assert_eq!((output.as_str(), is_error), ("one\ntwo\nthree\nexit code 7", true));
    assert_eq!(bash(folder.path(), "printf x"), ("x\nexit code 0".to_owned(), false));
    assert_eq!(bash(folder.path(), "true"), ("exit code 0".to_owned(), false));
    assert_eq!(bash(folder.path(), "kill -9 $$"), ("exit code 137".to_owned(), true));
    assert_eq!(bash(folder.path(), "cat; pwd").0, format!("{}\nexit code 0", folder.path().display()));
}

#[test]
fn bash_has_a_plain_environment() {
    let folder = tempfile::tempdir().unwrap();
    let (output, _) = bash(folder.path(), "env | cut -d= -f1 | sort | tr '\\n' ' '");
    assert_eq!(output, "GIT_PAGER HOME LANG PAGER PATH PWD SHLVL TERM _ \nexit code 0");
}

#[test]
fn bash_is_killed_with_all_it_started_when_its_time_is_up() {
    let folder = tempfile::tempdir().unwrap();
    let command = "echo begun; sleep 1000 & echo $! > pid; wait";
    let (output, is_error) = call(folder.path(), "bash", &json!({"command": command, "timeout_seconds": 1}));
    assert_eq!((output.as_str(), is_error), ("begun\ntimed out after 1 s\nexit code 124", true));
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(status.is_empty() || status.contains(") Z "), "the sleep lives on: {status}");
}

#[test]
fn endless_output_cannot_outrun_the_time_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (output, _) = call(folder.path(), "bash", &json!({"command": "yes", "timeout_seconds": 1}));
    assert!(output.ends_with("timed out after 1 s\nexit code 124"));
    assert!(output.len() < 31_000, "{}", output.len());
}

#[test]
fn a_background_process_does_not_hold_up_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let (output, _) = bash(folder.path(), "sleep 30 & echo $!");
    assert!(output.ends_with("exit code 0") && start.elapsed() < Duration::from_secs(10));
    let pid = output.lines().next().unwrap();
    bash(folder.path(), &format!("kill {pid}"));
}

#[test]
fn long_output_loses_its_middle() {
    let folder = tempfile::tempdir().unwrap();
    let (output, _) = bash(folder.path(), "seq 1 100000");
    assert!(output.starts_with("1\n2\n3\n") && output.ends_with("\n100000\nexit code 0"));
    assert!(output.contains("bytes left out here"));
    assert!(output.len() < 31_000, "{}", output.len());
}

#[test]
fn edits_that_are_not_clear_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.txt");
    fs::write(&file, "a\nb\na\n").unwrap();
    let (output, is_error) = call(folder.path(), "edit", &json!({"path": "f.txt", "old": "a", "new": "x"}));
    assert!(is_error && output.contains("2 times (lines 1, 3)"), "{output}");
    let (output, is_error) = call(folder.path(), "edit", &json!({"path": "f.txt", "old": "zz", "new": "x"}));
    assert!(is_error && output.contains("is not in f.txt"), "{output}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "a\nb\na\n");
    let all = json!({"path": file, "old": "a", "new": "x", "replace_all": true});
    assert_eq!(call(folder.path(), "edit", &all).0, format!("Changed {} in 2 places.", file.display()));
    assert_eq!(fs::read_to_string(&file).unwrap(), "x\nb\nx\n");
}

#[test]
fn what_cannot_be_read_is_said() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("binary"), b"\x7fELF\0\0").unwrap();
    let read = |path: &str| call(folder.path(), "read", &json!({"path": path}));
    assert_eq!(read("binary"), ("binary is a binary file of 6 bytes.".to_owned(), true));
    assert_eq!(read("."), (". is a folder. List it with bash: ls.".to_owned(), true));
    assert_eq!(read("/dev/zero"), ("/dev/zero is not an ordinary file.".to_owned(), true));
    assert!(read("none").0.starts_with("Cannot read none: No such file"));
    let (output, is_error) = call(folder.path(), "write", &json!({"path": "binary/x", "content": ""}));
    assert!(is_error && output.starts_with("Cannot write binary/x"), "{output}");
}

#[test]
fn search_knows_what_git_ignores_and_works_without_git() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("src/deep")).unwrap();
    for (file, text) in [("src/deep/a.rs", "fn main() {}\n"), ("b.txt", "fn x\n"), ("junk.log", "fn y\n")] {
        fs::write(folder.path().join(file), text).unwrap();
    }
    fs::write(folder.path().join(".gitignore"), "*.log\n").unwrap();
    let search = |input: Value| call(folder.path(), "search", &input).0;

    let mut without: Vec<String> = search(json!({"pattern": "fn +[a-z]"})).lines().map(str::to_owned).collect();
    without.sort();
    assert_eq!(without, ["./b.txt:1:fn x", "./junk.log:1:fn y", "./src/deep/a.rs:1:fn main() {}"]);

    #[expect(clippy::disallowed_methods, reason = "a repository to search in")]
    let made = Command::new("git").args(["init", "-q"]).arg(folder.path()).status().unwrap();
    assert!(made.success());
    assert_eq!(search(json!({"pattern": "fn +[a-z]"})), "b.txt:1:fn x\nsrc/deep/a.rs:1:fn main() {}");
    assert_eq!(search(json!({"pattern": "fn", "glob": "*.rs"})), "src/deep/a.rs:1:fn main() {}");
    assert_eq!(search(json!({"pattern": "fn", "path": "src", "glob": "*.rs"})), "src/deep/a.rs:1:fn main() {}");
    assert_eq!(search(json!({"pattern": "fn", "path": "b.txt"})), "b.txt:1:fn x");
    assert_eq!(search(json!({"pattern": "nothing like it"})), "Nothing found.");
    assert_eq!(search(json!({"pattern": "--version"})), "Nothing found.");
    assert_eq!(search(json!({"pattern": "x", "path": "none"})), "There is no file or folder none.");
    assert!(search(json!({"pattern": "("})).starts_with("The search failed: "));
}
