//! Files and terminals that an agent asks its client for. Files are those of the workspace; a terminal is a program started
//! there, with its output kept up to a bound.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Component, Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::signals;
use super::{Incoming, answer, no_such_method};
use crate::process;

const MOST_TERMINALS: usize = 64;
/// What is kept of a terminal's output when the agent does not say.
const OUTPUT_BYTES: usize = 1024 * 1024;
const MOST_FILE_BYTES: u64 = 16 * 1024 * 1024;

pub(super) struct Desk {
    workspace: PathBuf,
    sender: SyncSender<Incoming>,
    terminals: HashMap<String, Arc<Terminal>>,
    opened: u64,
}

struct Terminal {
    group: Option<Pid>,
    most: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    output: Vec<u8>,
    truncated: bool,
    ended: Option<ExitStatus>,
}

#[derive(Deserialize)]
struct Wanted {
    path: PathBuf,
    #[serde(default)]
    line: Option<usize>,
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    content: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<Variable>,
    #[serde(default)]
    cwd: Option<PathBuf>,
    #[serde(default)]
    output_byte_limit: Option<usize>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    value: String,
}

impl Desk {
    pub(super) fn new(workspace: PathBuf, sender: SyncSender<Incoming>) -> Self {
        let workspace = workspace.canonicalize().unwrap_or(workspace);
        Self { workspace, sender, terminals: HashMap::new(), opened: 0 }
    }

    /// The answer to a request; `None` when it comes later.
    pub(super) fn serve(&mut self, method: &str, params: &Value, id: &Value) -> Option<Value> {
        let result = match method {
            "fs/read_text_file" => self.read(params),
            "fs/write_text_file" => self.write(params),
            "terminal/create" => self.create(params),
            "terminal/output" => self.terminal(params).map(|terminal| terminal.told()),
            "terminal/wait_for_exit" => match self.terminal(params) {
                Ok(terminal) => {
                    let (terminal, sender, id) = (Arc::clone(terminal), self.sender.clone(), id.clone());
                    thread::spawn(move || {
                        let status = terminal.wait();
                        let _ = sender.send(Incoming::Answer(answer(&id, Ok(exit_of(status)))));
                    });
                    return None;
                }
                Err(error) => Err(error),
            },
            "terminal/kill" => self.terminal(params).map(|terminal| {
                terminal.kill();
                json!({})
            }),
            "terminal/release" => self.terminal(params).map(|terminal| terminal.kill()).map(|()| {
                self.terminals.remove(params.get("terminalId").and_then(Value::as_str).unwrap_or_default());
                json!({})
            }),
            other => return Some(no_such_method(id, other)),
        };
        Some(answer(id, result))
    }

    /// Ends every terminal.
    pub(super) fn close(&mut self) {
        self.terminals.drain().for_each(|(_, terminal)| terminal.kill());
    }

    fn read(&self, params: &Value) -> Result<Value, String> {
        let wanted: Wanted = understood(params)?;
        let path = self.within(&wanted.path)?;
        let unreadable = |error: std::io::Error| format!("{} cannot be read: {error}", wanted.path.display());
        let file = std::fs::File::open(&path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.take(MOST_FILE_BYTES).read_to_end(&mut bytes).map_err(unreadable)?;
        let text = String::from_utf8_lossy(&bytes);
        let content = match (wanted.line, wanted.limit) {
            (None, None) => text.into_owned(),
            (line, limit) => {
                let lines = text.split_inclusive('\n').skip(line.unwrap_or(1).saturating_sub(1));
                lines.take(limit.unwrap_or(usize::MAX)).collect()
            }
        };
        Ok(json!({ "content": content }))
    }

    fn write(&self, params: &Value) -> Result<Value, String> {
        let wanted: Wanted = understood(params)?;
        let path = self.within(&wanted.path)?;
        let unwritable = |error: std::io::Error| format!("{} cannot be written: {error}", wanted.path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(unwritable)?;
        }
        std::fs::write(&path, &wanted.content).map_err(unwritable)?;
        Ok(json!({}))
    }

    /// The path with its links followed, if it is in the workspace. What is not there yet is where its folder is.
    fn within(&self, path: &Path) -> Result<PathBuf, String> {
        let outside = || format!("{} is not in the workspace", path.display());
        let whole = self.workspace.join(path);
        if whole.components().any(|part| part == Component::ParentDir) {
            return Err(outside());
        }
        let mut missing: Vec<&OsStr> = Vec::new();
        let mut there = whole.as_path();
        let real = loop {
            match there.canonicalize() {
                Ok(real) => break real,
                Err(_) => {
                    missing.push(there.file_name().ok_or_else(outside)?);
                    there = there.parent().ok_or_else(outside)?;
                }
            }
        };
        // A link to what is not there would be followed when it is written.
        if !real.starts_with(&self.workspace) || std::fs::symlink_metadata(&whole).is_ok_and(|found| found.is_symlink())
        {
            return Err(outside());
        }
        Ok(missing.iter().rev().fold(real, |path, part| path.join(part)))
    }

    fn create(&mut self, params: &Value) -> Result<Value, String> {
        let wanted: Start = understood(params)?;
        if self.terminals.len() >= MOST_TERMINALS {
            return Err(format!("there are {MOST_TERMINALS} terminals: release one first"));
        }
        let folder = wanted.cwd.as_deref().map_or(Ok(self.workspace.clone()), |folder| self.within(folder))?;
        let (reader, writer) = std::io::pipe().map_err(|error| error.to_string())?;
        let more = writer.try_clone().map_err(|error| error.to_string())?;
        // Some send a whole command line.
        let mut command = match wanted.args.is_empty() && wanted.command.contains(char::is_whitespace) {
            true => {
                let mut shell = process::program("sh", &folder);
                shell.args(["-c", &wanted.command]);
                shell
            }
            false => {
                let mut program = process::program(&wanted.command, &folder);
                program.args(&wanted.args);
                program
            }
        };
        command.envs(wanted.env.into_iter().map(|variable| (variable.name, variable.value)));
        command.stdin(Stdio::null()).stdout(writer).stderr(more);
        let spawned = signals::undone(&mut command).spawn();
        // It holds the writing end of the pipe, which must not outlive the program.
        drop(command);
        let mut child = spawned.map_err(|error| format!("`{}` cannot be started: {error}", wanted.command))?;
        self.opened += 1;
        let id = format!("terminal-{}", self.opened);
        let terminal = Arc::new(Terminal {
            group: i32::try_from(child.id()).ok().and_then(Pid::from_raw),
            most: wanted.output_byte_limit.unwrap_or(OUTPUT_BYTES).min(OUTPUT_BYTES),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let (reads, waits) = (Arc::clone(&terminal), Arc::clone(&terminal));
        let reading = thread::spawn(move || reads.collect(reader));
        thread::spawn(move || {
            let status = child.wait().unwrap_or_default();
            waits.end(status, &reading);
        });
        self.terminals.insert(id.clone(), terminal);
        Ok(json!({ "terminalId": id }))
    }

    fn terminal(&self, params: &Value) -> Result<&Arc<Terminal>, String> {
        let id = params.get("terminalId").and_then(Value::as_str).unwrap_or_default();
        self.terminals.get(id).ok_or_else(|| format!("there is no terminal `{id}`"))
    }
}

impl Terminal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the newest of what the program prints.
    fn collect(&self, mut reader: impl Read) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = reader.read(&mut buffer) {
            let mut state = self.state();
            state.output.extend_from_slice(buffer.get(..read).unwrap_or_default());
            let excess = state.output.len().saturating_sub(self.most);
            if excess > 0 {
                state.output.drain(..excess);
                state.truncated = true;
            }
        }
    }

    fn end(&self, status: ExitStatus, reading: &thread::JoinHandle<()>) {
        // What is in the pipe is its last words; a child that keeps the pipe open has none.
        for _ in 0..20 {
            if reading.is_finished() {
                break;
            }
            thread::sleep(std::time::Duration::from_millis(10));
        }
        self.state().ended = Some(status);
        self.changed.notify_all();
    }

    fn wait(&self) -> ExitStatus {
        let mut state = self.state();
        loop {
            if let Some(status) = state.ended {
                return status;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn told(&self) -> Value {
        let state = self.state();
        let output = String::from_utf8_lossy(&state.output);
        json!({"output": output, "truncated": state.truncated, "exitStatus": state.ended.map(exit_of)})
    }

    fn kill(&self) {
        if self.state().ended.is_none()
            && let Some(group) = self.group
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn exit_of(status: ExitStatus) -> Value {
    json!({"exitCode": status.code(), "signal": status.signal().map(|signal| signal.to_string())})
}

fn understood<T: serde::de::DeserializeOwned>(params: &Value) -> Result<T, String> {
    T::deserialize(params).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::mpsc::{Receiver, sync_channel};
    use std::time::Duration;

    use super::*;

    struct World {
        folder: tempfile::TempDir,
        desk: Desk,
        answers: Receiver<Incoming>,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("workspace")).unwrap();
            std::fs::write(folder.path().join("secret"), "secret").unwrap();
            let (sender, answers) = sync_channel(8);
            let desk = Desk::new(folder.path().join("workspace"), sender);
            Self { folder, desk, answers }
        }

        /// The result, or the reason why there is none.
        fn ask(&mut self, method: &str, params: &Value) -> Result<Value, String> {
            let answer = match self.desk.serve(method, params, &json!(1)) {
                Some(answer) => answer,
                None => match self.answers.recv_timeout(Duration::from_secs(60)) {
                    Ok(Incoming::Answer(answer)) => answer,
                    _ => panic!("no answer to {method}"),
                },
            };
            match answer.get("result") {
                Some(result) => Ok(result.clone()),
                None => Err(answer["error"]["message"].as_str().unwrap().to_owned()),
            }
        }
    }

    #[test]
    fn files_are_those_of_the_workspace() {
        let mut world = World::new();
        let workspace = world.folder.path().join("workspace");
        let path = workspace.join("new/folder/a.txt");
        let content = "one\ntwo\nthree\n";
        world.ask("fs/write_text_file", &json!({"path": path, "content": content})).unwrap();
        assert_eq!(world.ask("fs/read_text_file", &json!({"path": path})).unwrap()["content"], content);
        let part = world.ask("fs/read_text_file", &json!({"path": path, "line": 2, "limit": 1})).unwrap();
        assert_eq!(part["content"], "two\n");

        let secret = world.folder.path().join("secret");
        symlink(&secret, workspace.join("link")).unwrap();
        symlink(world.folder.path(), workspace.join("out")).unwrap();
        symlink(world.folder.path().join("later"), workspace.join("dangling")).unwrap();
        for outside in [
            secret.clone(),
            workspace.join("../secret"),
            workspace.join("link"),
            workspace.join("out/secret"),
            workspace.join("out/other"),
            workspace.join("dangling"),
        ] {
            let expected = format!("{} is not in the workspace", outside.display());
            for method in ["fs/read_text_file", "fs/write_text_file"] {
                let params = json!({"path": outside, "content": "x"});
                assert_eq!(world.ask(method, &params).unwrap_err(), expected, "{method}");
            }
        }
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
        assert!(!world.folder.path().join("other").exists() && !world.folder.path().join("later").exists());
    }

    #[test]
    fn a_terminal_runs_its_program_to_the_end() {
        let mut world = World::new();
        let start = json!({"command": "sh", "args": ["-c", "pwd; echo $WORD; exit 3"],
            "env": [{"name": "WORD", "value": "hello"}]});
        let terminal = world.ask("terminal/create", &start).unwrap();
        assert_eq!(world.ask("terminal/wait_for_exit", &terminal).unwrap(), json!({"exitCode": 3, "signal": null}));
        let told = world.ask("terminal/output", &terminal).unwrap();
        assert!(told["output"].as_str().unwrap().ends_with("/workspace\nhello\n"), "{told}");
        assert_eq!((&told["truncated"], &told["exitStatus"]["exitCode"]), (&json!(false), &json!(3)));
        world.ask("terminal/release", &terminal).unwrap();
        assert!(world.ask("terminal/output", &terminal).is_err(), "it is gone");
    }

    #[test]
    fn a_terminal_keeps_the_newest_output_and_can_be_killed() {
        let mut world = World::new();
        let start = json!({"command": "yes 0123456789 | head -n 1000; sleep 987654", "outputByteLimit": 55});
        let terminal = world.ask("terminal/create", &start).unwrap();
        world.ask("terminal/kill", &terminal).unwrap();
        let ended = world.ask("terminal/wait_for_exit", &terminal).unwrap();
        assert_eq!(ended, json!({"exitCode": null, "signal": "9"}));
        let told = world.ask("terminal/output", &terminal).unwrap();
        assert!(told["output"].as_str().unwrap().len() <= 55, "{told}");
    }

    #[test]
    fn what_nobody_knows_is_refused() {
        let mut world = World::new();
        assert_eq!(world.ask("terminal/resize", &json!({})).unwrap_err(), "there is no method terminal/resize");
        assert!(world.ask("fs/read_text_file", &json!({})).unwrap_err().contains("missing field `path`"));
    }
}
