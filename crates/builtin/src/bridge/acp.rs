//! A client of the Agent Client Protocol, version 1: one session, one prompt, everything allowed.
//!
//! Messages are JSON-RPC, one per line. What the agent tells becomes events; what it tells beyond that is printed as it came.
//! Files and terminals it asks for are served within the workspace: an agent that does more does it by itself, in the sandbox.

mod desk;
mod story;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::{Value, json};

use self::desk::Desk;
use self::story::Story;
use super::signals;
use crate::mcp::Server;
use crate::output::{ErrorKind, Output};
use crate::process;

/// A line longer than this is no message.
const MAX_LINE: u64 = 64 * 1024 * 1024;
/// How long an agent may take to get ready.
const GREETING: Duration = Duration::from_secs(120);
/// How long it may take to go when all is said, or after it was told to stop.
const FAREWELL: Duration = Duration::from_secs(3);
/// JSON-RPC: no such method; and of the protocol: sign in first.
const NO_METHOD: i64 = -32601;
const SIGN_IN: i64 = -32000;

/// What the loop waits for.
pub(super) enum Incoming {
    Line(String),
    /// The agent's output is over.
    Closed,
    Signal,
    /// An answer to the agent that took its time.
    Answer(Value),
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the agent could not be started: {0}")]
    Start(io::Error),
    #[error("the agent ended without an answer")]
    Ended,
    #[error("the agent did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    #[error("{message}")]
    Refused { code: i64, message: String },
    #[error("the agent stopped: {0}")]
    Stopped(String),
    #[error("the agent was interrupted")]
    Interrupted,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// One line of the agent.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

struct Client<W> {
    child: Child,
    stdin: ChildStdin,
    incoming: Receiver<Incoming>,
    asked: u64,
    desk: Desk,
    story: Story<W>,
    session: Option<String>,
    interrupted: bool,
}

pub(super) fn run(
    workspace: &Path,
    command: &[OsString],
    servers: &BTreeMap<String, Server>,
    prompt: &str,
) -> ExitCode {
    let mut output = Output::new(io::stdout().lock());
    let told = match Client::start(workspace, command, &mut output) {
        Ok(mut client) => {
            let told = client.converse(workspace, servers, prompt);
            client.leave();
            told
        }
        Err(failure) => Err(failure),
    };
    let failure = match told {
        Ok(()) => return if output.done(1).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE },
        Err(failure) => failure,
    };
    let message = failure.to_string();
    let kind = match &failure {
        Failure::Refused { .. } if is_quota(&message) => ErrorKind::ModelQuota,
        Failure::Refused { .. } => ErrorKind::Model,
        Failure::Stopped(reason) if reason == "max_turn_requests" => ErrorKind::Turns,
        _ => ErrorKind::Internal,
    };
    let _ = output.error(kind, &message);
    ExitCode::FAILURE
}

fn is_quota(message: &str) -> bool {
    let lower = message.to_ascii_lowercase();
    ["429", "rate limit", "quota", "resource_exhausted", "too many requests"].iter().any(|sign| lower.contains(sign))
}

impl<'o, W: Write> Client<&'o mut Output<W>> {
    fn start(workspace: &Path, command: &[OsString], output: &'o mut Output<W>) -> Result<Self, Failure> {
        let (sender, incoming) = sync_channel(64);
        let told = sender.clone();
        signals::listen(move || drop(told.send(Incoming::Signal)));
        let [program, arguments @ ..] = command else { return Err(Failure::Ended) };
        let mut command = process::program(&program.to_string_lossy(), workspace);
        // A group of its own: what is sent to ours is told to it in words.
        command.args(arguments).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = signals::undone(&mut command).spawn().map_err(Failure::Start)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else { return Err(Failure::Ended) };
        let lines = sender.clone();
        thread::spawn(move || read_lines(BufReader::new(stdout), &lines));
        let desk = Desk::new(workspace.to_owned(), sender);
        let story = Story::new(output);
        Ok(Self { child, stdin, incoming, asked: 0, desk, story, session: None, interrupted: false })
    }

    fn converse(&mut self, workspace: &Path, servers: &BTreeMap<String, Server>, prompt: &str) -> Result<(), Failure> {
        let capabilities = json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true});
        let greeting = json!({"protocolVersion": 1, "clientCapabilities": capabilities,
            "clientInfo": {"name": "harvest", "version": env!("CARGO_PKG_VERSION")}});
        let welcome = self.ask("initialize", &greeting, Some(GREETING))?;
        let servers: Vec<Value> = servers.iter().map(|(name, server)| offer(name, server)).collect();
        let session = json!({"cwd": workspace, "mcpServers": servers});
        let opened = match self.ask("session/new", &session, Some(GREETING)) {
            Err(Failure::Refused { code: SIGN_IN, message }) => {
                // The gateway signs in for everyone, so the first way is as good as any.
                let method = welcome.pointer("/authMethods/0/id").cloned();
                let method = method.ok_or(Failure::Refused { code: SIGN_IN, message })?;
                self.ask("authenticate", &json!({"methodId": method}), Some(GREETING))?;
                self.ask("session/new", &session, Some(GREETING))?
            }
            other => other?,
        };
        let id = opened.get("sessionId").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.session = Some(id.clone());
        let prompt = json!({"sessionId": id, "prompt": [{"type": "text", "text": prompt}]});
        let answer = self.ask("session/prompt", &prompt, None)?;
        self.story.end()?;
        match answer.get("stopReason").and_then(Value::as_str) {
            Some("cancelled") if self.interrupted => Err(Failure::Interrupted),
            Some("end_turn") | None => Ok(()),
            Some(reason) => Err(Failure::Stopped(reason.to_owned())),
        }
    }

    /// Asks the agent and does what it asks meanwhile.
    fn ask(&mut self, method: &str, params: &Value, within: Option<Duration>) -> Result<Value, Failure> {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        let mut until = within.map(|within| Instant::now() + within);
        loop {
            let next = match until {
                None => self.incoming.recv().map_err(|_| Failure::Ended)?,
                Some(until) => match self.incoming.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(next) => next,
                    Err(RecvTimeoutError::Timeout) if self.interrupted => return Err(Failure::Interrupted),
                    Err(RecvTimeoutError::Timeout) => return Err(Failure::Silent(within.unwrap_or_default())),
                    Err(RecvTimeoutError::Disconnected) => return Err(Failure::Ended),
                },
            };
            match next {
                Incoming::Line(line) => {
                    if let Some(answer) = self.hear(&line, id)? {
                        return answer;
                    }
                }
                Incoming::Answer(answer) => self.send(&answer)?,
                Incoming::Closed if self.interrupted => return Err(Failure::Interrupted),
                Incoming::Closed => return Err(Failure::Ended),
                Incoming::Signal => {
                    let Some(session) = self.session.clone().filter(|_| !self.interrupted) else {
                        return Err(Failure::Interrupted);
                    };
                    self.interrupted = true;
                    until = Some(Instant::now() + FAREWELL);
                    let params = json!({"sessionId": session});
                    self.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}))?;
                }
            }
        }
    }

    /// One line of the agent; the answer to `wanted`, if it is that.
    fn hear(&mut self, line: &str, wanted: u64) -> Result<Option<Result<Value, Failure>>, Failure> {
        let Ok(message) = serde_json::from_str::<Message>(line) else {
            self.story.keep(line)?;
            return Ok(None);
        };
        match (message.method.as_deref(), message.id) {
            (Some("session/update"), None) => self.story.update(&message.params, line)?,
            (Some(_), None) => self.story.keep(line)?,
            (Some("session/request_permission"), Some(id)) => {
                self.story.asks(&message.params)?;
                let outcome = if self.interrupted { json!({"outcome": "cancelled"}) } else { allow(&message.params) };
                self.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}}))?;
            }
            (Some(method), Some(id)) => {
                if let Some(answer) = self.desk.serve(method, &message.params, &id) {
                    self.send(&answer)?;
                }
            }
            (None, Some(id)) if id == wanted => {
                return Ok(Some(match message.error {
                    Some(error) => Err(refused(&error)),
                    None => Ok(message.result.unwrap_or_default()),
                }));
            }
            (None, _) => self.story.keep(line)?,
        }
        Ok(None)
    }

    fn send(&mut self, message: &Value) -> Result<(), Failure> {
        let mut line = message.to_string();
        line.push('\n');
        self.stdin.write_all(line.as_bytes())?;
        Ok(self.stdin.flush()?)
    }
}

impl<W> Client<W> {
    /// An agent ends when nobody speaks to it any more; one that does not is ended, with what it has started.
    fn leave(mut self) {
        self.desk.close();
        drop(self.stdin);
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let until = Instant::now() + FAREWELL;
        while let Ok(next) = self.incoming.recv_timeout(until.saturating_duration_since(Instant::now())) {
            if matches!(next, Incoming::Closed) {
                break;
            }
        }
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// A server in the words of the protocol.
fn offer(name: &str, server: &Server) -> Value {
    match server {
        Server::Program { command, args, env } => {
            let env: Vec<Value> = env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
            json!({"name": name, "command": command, "args": args, "env": env})
        }
        Server::Url { url } => json!({"type": "http", "name": name, "url": url, "headers": []}),
    }
}

/// What is asked for, this once: an agent that may do so always could write that down in the workspace.
fn allow(params: &Value) -> Value {
    let options = params.get("options").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let of_kind = |kind: &str| options.iter().find(|option| option.get("kind").is_some_and(|value| value == kind));
    let chosen = of_kind("allow_once").or_else(|| of_kind("allow_always")).or_else(|| options.first());
    match chosen.and_then(|option| option.get("optionId")) {
        Some(id) => json!({"outcome": "selected", "optionId": id}),
        None => json!({"outcome": "cancelled"}),
    }
}

fn refused(error: &Value) -> Failure {
    let said = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
    let details = error.pointer("/data/details").or_else(|| error.pointer("/data/message")).and_then(Value::as_str);
    let message = match details {
        Some(details) => format!("the agent gave up: {said}: {details}"),
        None => format!("the agent gave up: {said}"),
    };
    Failure::Refused { code: error.get("code").and_then(Value::as_i64).unwrap_or_default(), message }
}

/// An answer to something the agent asked.
pub(super) fn answer(id: &Value, result: Result<Value, String>) -> Value {
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(message) => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": message}}),
    }
}

pub(super) fn no_such_method(id: &Value, method: &str) -> Value {
    let message = format!("there is no method {method}");
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": NO_METHOD, "message": message}})
}

fn read_lines(mut reader: impl BufRead, sender: &SyncSender<Incoming>) {
    loop {
        let mut line = Vec::new();
        match (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(1..) => {
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                if !line.is_empty() && sender.send(Incoming::Line(line)).is_err() {
                    return;
                }
            }
            Ok(0) | Err(_) => {
                let _ = sender.send(Incoming::Closed);
                return;
            }
        }
    }
}
