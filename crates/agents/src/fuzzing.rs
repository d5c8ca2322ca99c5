//! What must hold of every dialect whatever an agent prints. The targets in `fuzz/` look for output that breaks it; the tests
//! below try real transcripts with something changed in them.
//!
//! A function takes bytes and panics when its promise is broken: no line is an error, none is lost, and none says more than an
//! agent may say.

#![allow(clippy::panic, reason = "a broken promise is to be found")]

use harvest_core::{EventBody, MessageRole, OutputStream};
use serde::Deserialize;

use crate::dialect::{Dialect, Parser};

pub fn builtin(output: &[u8]) {
    read(Dialect::Builtin, output);
}

pub fn claude_code(output: &[u8]) {
    read(Dialect::ClaudeCode, output);
}

pub fn codex(output: &[u8]) {
    read(Dialect::Codex, output);
}

pub fn gemini_cli(output: &[u8]) {
    read(Dialect::GeminiCli, output);
}

pub fn opencode(output: &[u8]) {
    read(Dialect::Opencode, output);
}

pub fn aider(output: &[u8]) {
    read(Dialect::Aider, output);
}

pub fn text(output: &[u8]) {
    read(Dialect::Text, output);
}

/// Reads the output of a run; lines that begin with a tab are those of standard error.
fn read(dialect: Dialect, output: &[u8]) {
    let mut parser = Parser::new(dialect);
    let mut pieces = String::new();
    for line in output.split(|byte| *byte == b'\n') {
        let stream = if line.starts_with(b"\t") { OutputStream::Stderr } else { OutputStream::Stdout };
        let events = parser.parse(stream, line);
        let printed = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        if stream == OutputStream::Stderr {
            assert_eq!(events, [EventBody::Raw { stream, line: printed.into_owned() }]);
            continue;
        }
        assert!(!events.is_empty() || says_nothing(dialect, &printed), "lost: {printed}");
        for event in &events {
            match event {
                EventBody::Raw { stream: on, line } => assert_eq!((*on, line.as_str()), (stream, &*printed)),
                EventBody::MessageDelta { text } => pieces.push_str(text),
                EventBody::Message { role: MessageRole::Assistant, text } => {
                    // Where a message is put together of its pieces, it has them all.
                    if dialect == Dialect::GeminiCli && !pieces.is_empty() {
                        assert_eq!(*text, pieces);
                    }
                    pieces.clear();
                }
                EventBody::ToolCall { .. } | EventBody::ToolResult { .. } | EventBody::Warning { .. } => {}
                other => panic!("an agent may not say {other:?}"),
            }
        }
    }
    for code in [None, Some(0), Some(1)] {
        parser.verdict(code);
    }
}

/// A line that is a piece of what comes whole, or says nothing but "done" or "still here".
fn says_nothing(dialect: Dialect, line: &str) -> bool {
    // No more of it is read than that, since a piece may have anything in it.
    let Ok(Kind { kind, subtype }) = serde_json::from_str(line) else { return false };
    match dialect {
        Dialect::Builtin => kind == "agent.done",
        Dialect::ClaudeCode => kind == "stream_event" || (kind == "system" && subtype.as_deref() == Some("status")),
        _ => false,
    }
}

#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    subtype: Option<String>,
}

/// How many inputs there are is a matter of patience: `PROPTEST_CASES=1000000 cargo test --release -p harvest-agents fuzzing`.
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLAUDE_CODE: &str = include_str!("../tests/it/transcripts/claude-code.jsonl");
    const CODEX: &str = include_str!("../tests/it/transcripts/codex.jsonl");
    const GEMINI_CLI: &str = include_str!("../tests/it/transcripts/gemini-cli.jsonl");
    const GEMINI_CLI_REFUSED: &str = include_str!("../tests/it/transcripts/gemini-cli-refused.jsonl");
    const OPENCODE: &str = include_str!("../tests/it/transcripts/opencode.jsonl");
    const OPENCODE_REFUSED: &str = include_str!("../tests/it/transcripts/opencode-refused.jsonl");
    const AIDER: &str = include_str!("../tests/it/transcripts/aider.txt");
    const AIDER_REFUSED: &str = include_str!("../tests/it/transcripts/aider-refused.txt");
    const BUILTIN: &str = r#"{"type":"message.delta","data":{"text":"I will"}}
{"type":"message","data":{"role":"assistant","text":"I will look."}}
{"type":"tool.call","data":{"id":"1","name":"bash","input":{"command":"ls"}}}
{"type":"tool.result","data":{"id":"1","output":"a\nb","is_error":false}}
{"type":"agent.error","data":{"kind":"model_quota","message":"later"}}
{"type":"agent.done","data":{"turns":3}}"#;

    /// One thing that is different from the recording. Positions are taken modulo what there is.
    #[derive(Debug, Clone)]
    enum Change {
        Byte {
            at: usize,
            to: u8,
        },
        Cut {
            at: usize,
            length: usize,
        },
        Repeat {
            at: usize,
            length: usize,
        },
        /// What formats are made of, in a place where nobody expects it.
        Put {
            at: usize,
            what: &'static str,
        },
    }

    const PIECES: [&str; 22] = [
        "null",
        "\"\"",
        "{}",
        "[]",
        "true",
        "-1",
        "1e999",
        "\\u0000",
        "\\ud800",
        "\\",
        "\"",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\n",
        "\t",
        "\r",
        "\"type\":",
        "\"result\"",
    ];

    fn change() -> impl Strategy<Value = Change> {
        let (at, length) = (any::<usize>(), 1usize..40);
        prop_oneof![
            (at, any::<u8>()).prop_map(|(at, to)| Change::Byte { at, to }),
            (at, length.clone()).prop_map(|(at, length)| Change::Cut { at, length }),
            (at, length).prop_map(|(at, length)| Change::Repeat { at, length }),
            (at, prop::sample::select(PIECES.to_vec())).prop_map(|(at, what)| Change::Put { at, what }),
        ]
    }

    /// Some lines of the recordings, in their order, with a few changes.
    fn output(recordings: &[&'static str]) -> impl Strategy<Value = Vec<u8>> + use<> {
        let lines: Vec<&'static str> = recordings.iter().flat_map(|text| text.lines()).collect();
        let few = 1..=lines.len().min(4);
        (prop::sample::subsequence(lines, few), prop::collection::vec(change(), 0..4)).prop_map(|(lines, changes)| {
            let mut output = lines.join("\n").into_bytes();
            for change in changes {
                let place = |at: usize| at % output.len().max(1);
                match change {
                    Change::Byte { at, to } => {
                        let at = place(at);
                        if let Some(byte) = output.get_mut(at) {
                            *byte = to;
                        }
                    }
                    Change::Cut { at, length } => {
                        let at = place(at);
                        output.drain(at..(at + length).min(output.len()));
                    }
                    Change::Repeat { at, length } => {
                        let at = place(at);
                        let again = output[at..(at + length).min(output.len())].to_vec();
                        output.splice(at..at, again);
                    }
                    Change::Put { at, what } => {
                        let at = place(at);
                        output.splice(at..at, what.bytes());
                    }
                }
            }
            output
        })
    }

    proptest! {
        #[test]
        fn of_the_built_in_agent_nothing_is_lost(output in output(&[BUILTIN])) {
            builtin(&output);
        }

        #[test]
        fn of_claude_code_nothing_is_lost(output in output(&[CLAUDE_CODE])) {
            claude_code(&output);
        }

        #[test]
        fn of_codex_nothing_is_lost(output in output(&[CODEX])) {
            codex(&output);
        }

        #[test]
        fn of_gemini_cli_nothing_is_lost(output in output(&[GEMINI_CLI, GEMINI_CLI_REFUSED])) {
            gemini_cli(&output);
        }

        #[test]
        fn of_opencode_nothing_is_lost(output in output(&[OPENCODE, OPENCODE_REFUSED])) {
            opencode(&output);
        }

        #[test]
        fn of_aider_nothing_is_lost(output in output(&[AIDER, AIDER_REFUSED])) {
            aider(&output);
        }

        #[test]
        fn of_plain_text_nothing_is_lost(output in output(&[AIDER, CLAUDE_CODE])) {
            text(&output);
        }

        /// A dialect may meet another agent's output: someone updates a program, or mistakes one for another.
        #[test]
        fn of_others_nothing_is_lost(
            output in output(&[BUILTIN, CLAUDE_CODE, CODEX, GEMINI_CLI, OPENCODE, AIDER]),
            read in prop::sample::select(vec![builtin, claude_code, codex, gemini_cli, opencode, aider, text]),
        ) {
            read(&output);
        }
    }
}
