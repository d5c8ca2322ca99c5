//! The dialects of agents: how much output of each one core turns into events. The transcripts are those of agents that read
//! files and run builds: a little talk, and results of tens of kilobytes with the line ends and quotes that source code has.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Context;
use harvest_agents::{Agent, Registry};
use harvest_core::OutputStream;
use serde_json::{Value, json};

use super::statistics::median_rate;
use super::table::{Amount, Bound, Row};
use super::{Findings, Size};

/// Bytes a second.
const LEAST: f64 = 200e6;
/// Results of tools in a transcript, and how large they are, one after the other.
const RESULTS: usize = 60;
const SIZES: [usize; 5] = [2_000, 8_000, 30_000, 60_000, 100_000];

pub fn measure(size: Size) -> anyhow::Result<Findings> {
    let registry = Registry::bundled()?;
    let rounds = size.pick(15, 5);
    let mut rows = Vec::new();
    for (id, name) in [
        ("builtin", "output of the built-in agent, parsed"),
        ("claude-code", "output of Claude Code, parsed"),
        ("codex", "output of Codex, parsed"),
        ("gemini-cli", "output of Gemini CLI, parsed"),
        ("opencode", "output of OpenCode, parsed"),
        ("aider", "output of Aider, parsed"),
    ] {
        let agent = registry.get(id).with_context(|| format!("there is no agent {id}"))?;
        let lines: Vec<String> = transcript(id);
        let (ours, theirs): (Vec<f64>, Vec<f64>) =
            (0..rounds).map(|_| (rate(&lines, || parse(agent, &lines)), rate(&lines, || trees(&lines)))).unzip();
        rows.push(Row {
            name,
            ours: Amount::BytesPerSecond(median_rate(&ours)),
            theirs: (id != "aider").then(|| Amount::BytesPerSecond(median_rate(&theirs))),
            against: "the same lines as JSON trees",
            bound: Bound::BytesAtLeast(LEAST),
        });
    }
    let notes = vec![format!(
        "parsers: {RESULTS} results of {} to {} bytes beside what an agent says; one core",
        SIZES[0],
        SIZES[SIZES.len() - 1]
    )];
    Ok(Findings { rows, notes })
}

fn rate(lines: &[String], mut work: impl FnMut()) -> f64 {
    const LONG_ENOUGH: Duration = Duration::from_millis(100);
    let bytes: usize = lines.iter().map(String::len).sum();
    let (began, mut times) = (Instant::now(), 0u32);
    while began.elapsed() < LONG_ENOUGH {
        work();
        times += 1;
    }
    bytes as f64 * f64::from(times) / began.elapsed().as_secs_f64()
}

fn parse(agent: &Agent, lines: &[String]) {
    let mut parser = agent.parser();
    for line in lines {
        black_box(parser.parse(OutputStream::Stdout, line.as_bytes()));
    }
    black_box(parser.verdict(Some(0)));
}

fn trees(lines: &[String]) {
    for line in lines {
        let _ = black_box(serde_json::from_slice::<Value>(line.as_bytes()));
    }
}

/// What the agent would print.
fn transcript(id: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for number in 0..RESULTS {
        let (call, result) = (format!("call_{number}"), text(SIZES[number % SIZES.len()]));
        let command = format!("sed -n 1,400p src/module_{number}.rs");
        let said = "I will look at the next module, since the error comes from there.";
        let events = match id {
            "builtin" => vec![
                json!({"type": "message", "data": {"role": "assistant", "text": said}}),
                json!({"type": "tool.call", "data": {"id": call, "name": "bash", "input": {"command": command}}}),
                json!({"type": "tool.result", "data": {"id": call, "output": result, "is_error": false}}),
            ],
            "claude-code" => vec![
                assistant(&json!({"type": "text", "text": said})),
                assistant(&json!({"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}})),
                // It says the result twice.
                json!({"type": "user", "session_id": "s", "uuid": "u", "parent_tool_use_id": null,
                    "message": {"role": "user", "content": [{"tool_use_id": call, "type": "tool_result",
                        "content": result, "is_error": false}]},
                    "tool_use_result": {"stdout": result, "stderr": "", "interrupted": false, "isImage": false}}),
            ],
            "codex" => vec![
                json!({"type": "item.completed", "item": {"id": format!("item_{number}"), "type": "agent_message", "text": said}}),
                json!({"type": "item.started", "item": {"id": call, "type": "command_execution", "command": command,
                    "aggregated_output": "", "exit_code": null, "status": "in_progress"}}),
                json!({"type": "item.completed", "item": {"id": call, "type": "command_execution", "command": command,
                    "aggregated_output": result, "exit_code": 0, "status": "completed"}}),
            ],
            "gemini-cli" => vec![
                json!({"type": "message", "timestamp": "t", "role": "assistant", "content": said, "delta": true}),
                json!({"type": "tool_use", "timestamp": "t", "tool_name": "run_shell_command", "tool_id": call,
                    "parameters": {"command": command}}),
                json!({"type": "tool_result", "timestamp": "t", "tool_id": call, "status": "success", "output": result}),
            ],
            "opencode" => vec![
                json!({"type": "text", "timestamp": 1, "sessionID": "s", "part": {"id": "p", "type": "text", "text": said}}),
                json!({"type": "tool_use", "timestamp": 1, "sessionID": "s", "part": {"id": "p", "type": "tool",
                    "callID": call, "tool": "bash", "state": {"status": "completed", "input": {"command": command},
                        "output": result, "title": command, "metadata": {"output": result, "exit": 0}}}}),
            ],
            _ => {
                lines.push(said.to_owned());
                lines.extend(result.lines().map(str::to_owned));
                continue;
            }
        };
        lines.extend(events.iter().map(Value::to_string));
    }
    lines
}

fn assistant(block: &Value) -> Value {
    json!({"type": "assistant", "session_id": "s", "uuid": "u", "parent_tool_use_id": null, "request_id": "r",
        "message": {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [block],
            "stop_reason": null, "usage": {"input_tokens": 4, "output_tokens": 1, "service_tier": "standard"}}})
}

/// Source code of this length, roughly.
fn text(length: usize) -> String {
    const LINES: [&str; 6] = [
        "    let parsed: Request = serde_json::from_slice(&body).map_err(|error| Error::Body { source: error })?;",
        "    // The row appears only after the lock is held: a row whose lock is free belongs to the dead.",
        "    if name.is_empty() { return Err(Failure::refused(Code::BadOption, \"the name is empty\", help)); }",
        "",
        "    for (index, line) in text.lines().enumerate() {",
        "\ttotal += price.of(usage.input_tokens, \"input\") + price.of(usage.output_tokens, \"output\");",
    ];
    let mut text = String::with_capacity(length + 128);
    for line in LINES.iter().cycle() {
        if text.len() >= length {
            break;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}
