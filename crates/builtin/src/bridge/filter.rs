//! Stands before an MCP server of which only some tools may be used: the others are not told of, and not called.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::{Value, json};

use crate::process;

/// A line longer than this is no message.
const MAX_LINE: u64 = 32 * 1024 * 1024;
const NOT_ALLOWED: i64 = -32602;

pub(super) fn run(allowed: &[String], command: &[OsString]) -> ExitCode {
    let [program, arguments @ ..] = command else { return ExitCode::from(2) };
    let mut server = process::command(&program.to_string_lossy(), Path::new("."));
    server.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = match server.spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("{} cannot be started: {error}", program.to_string_lossy());
            return ExitCode::FAILURE;
        }
    };
    let (Some(mut to_server), Some(from_server)) = (child.stdin.take(), child.stdout.take()) else {
        return ExitCode::FAILURE;
    };
    let out = Arc::new(Mutex::new(io::stdout()));
    let (answers, tools) = (Arc::clone(&out), allowed.to_vec());
    // Ends with this process, or when nobody asks any more; then the server's input is closed, and it ends.
    thread::spawn(move || {
        each_line(BufReader::new(io::stdin()), |line| match refusal(line, &tools) {
            Some(answer) => write(&answers, format!("{answer}\n").as_bytes()),
            None => to_server.write_all(line).and_then(|()| to_server.flush()),
        });
    });
    each_line(BufReader::new(from_server), |line| match without_others(line, allowed) {
        Some(fewer) => write(&out, format!("{fewer}\n").as_bytes()),
        None => write(&out, line),
    });
    let code = child.wait().ok().and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}

fn each_line(mut reader: impl BufRead, mut use_it: impl FnMut(&[u8]) -> io::Result<()>) {
    let mut line = Vec::new();
    while let Ok(1..) = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line) {
        if use_it(&line).is_err() {
            return;
        }
        line.clear();
    }
}

fn write(out: &Mutex<io::Stdout>, line: &[u8]) -> io::Result<()> {
    let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
    out.write_all(line)?;
    out.flush()
}

/// The answer to a call that must not reach the server. A line that holds more than one message is refused as a whole.
fn refusal(line: &[u8], allowed: &[String]) -> Option<Value> {
    let message: Value = match serde_json::from_slice(line) {
        Ok(Value::Array(_)) => {
            return Some(
                json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": "no batches here" } }),
            );
        }
        Ok(message) => message,
        Err(_) => return None,
    };
    if message.get("method").and_then(Value::as_str) != Some("tools/call") {
        return None;
    }
    let tool = message.pointer("/params/name").and_then(Value::as_str).unwrap_or_default();
    if allowed.iter().any(|known| known == tool) {
        return None;
    }
    let reason = format!("the tool {tool} is not allowed here");
    Some(json!({ "jsonrpc": "2.0", "id": message.get("id"), "error": { "code": NOT_ALLOWED, "message": reason } }))
}

/// A list of tools without those that are not allowed; `None` for every other line.
fn without_others(line: &[u8], allowed: &[String]) -> Option<Value> {
    let mut message: Value = serde_json::from_slice(line).ok()?;
    let Some(Value::Array(tools)) = message.pointer_mut("/result/tools") else { return None };
    tools.retain(|tool| {
        tool.get("name").and_then(Value::as_str).is_some_and(|name| allowed.iter().any(|known| known == name))
    });
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_allowed_is_neither_told_of_nor_called() {
        let allowed = ["read".to_owned()];
        let call =
            |name: &str| json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": name } });
        assert_eq!(refusal(call("read").to_string().as_bytes(), &allowed), None);
        let refused = refusal(call("drop").to_string().as_bytes(), &allowed).unwrap();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(7), &json!(NOT_ALLOWED)));
        assert!(refusal(json!([call("drop")]).to_string().as_bytes(), &allowed).is_some());
        assert!(refusal(b"no json", &allowed).is_none());
        let list =
            json!({ "id": 1, "result": { "tools": [{ "name": "read" }, { "name": "drop" }], "nextCursor": "x" } });
        let fewer = without_others(list.to_string().as_bytes(), &allowed).unwrap();
        assert_eq!(fewer, json!({ "id": 1, "result": { "tools": [{ "name": "read" }], "nextCursor": "x" } }));
        assert!(without_others(b"{\"id\":1,\"result\":{}}", &allowed).is_none());
    }
}
