//! A server that is a program: one message per line on its standard input and output.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use super::{Wire, answers};
use crate::process;

/// A line longer than this is no message.
const MAX_LINE: u64 = 32 * 1024 * 1024;
const QUEUE: usize = 64;

pub(super) struct Line {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
}

impl Line {
    pub(super) fn start(
        command: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
        workspace: &Path,
    ) -> Result<Self, String> {
        let mut program = process::program(command, workspace);
        program.args(args).envs(env).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = program.spawn().map_err(|error| format!("{command} cannot be started: {error}"))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (sender, lines) = sync_channel(QUEUE);
        if let Some(stdout) = stdout {
            thread::spawn(move || {
                let mut reader = BufReader::new(stdout);
                let mut line = Vec::new();
                while let Ok(1..) = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line) {
                    // What is no message is noise: some programs print a greeting.
                    if let Ok(message) = serde_json::from_slice(&line)
                        && sender.send(message).is_err()
                    {
                        return;
                    }
                    line.clear();
                }
            });
        }
        Ok(Self { child, stdin, lines })
    }

    fn write(&mut self, message: &Value) -> Result<(), String> {
        let Some(stdin) = &mut self.stdin else { return Err("it takes no input".to_owned()) };
        let written = stdin.write_all(format!("{message}\n").as_bytes()).and_then(|()| stdin.flush());
        written.map_err(|error| format!("it has ended: {error}"))
    }
}

impl Wire for Line {
    fn ask(&mut self, id: u64, message: &Value, within: Duration) -> Result<Value, String> {
        self.write(message)?;
        let until = Instant::now() + within;
        loop {
            let heard = match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(heard) => heard,
                Err(RecvTimeoutError::Timeout) => return Err(format!("no answer within {} s", within.as_secs())),
                Err(RecvTimeoutError::Disconnected) => return Err("it ended without an answer".to_owned()),
            };
            if answers(&heard, id) {
                return Ok(heard);
            }
            if let (Some(method), Some(id)) = (heard.get("method").and_then(Value::as_str), heard.get("id")) {
                let answer = if method == "ping" {
                    json!({ "jsonrpc": "2.0", "id": id, "result": {} })
                } else {
                    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "there is no such method" } })
                };
                self.write(&answer)?;
            }
        }
    }

    fn tell(&mut self, message: &Value) -> Result<(), String> {
        self.write(message)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stdin = None;
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
