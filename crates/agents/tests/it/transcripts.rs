//! What real agents printed, and what is made of it. The transcripts were recorded from runs on a scripted model.

use harvest_agents::{Parser, Registry, Verdict};
use harvest_core::{EventBody, FailureReason, OutputStream};
use proptest::prelude::*;

use crate::agent;

const CLAUDE_CODE: &str = include_str!("transcripts/claude-code.jsonl");

fn parser(id: &str) -> Parser {
    agent(&Registry::bundled().unwrap(), id).parser()
}

fn read(parser: &mut Parser, line: &str) -> Vec<EventBody> {
    parser.parse(OutputStream::Stdout, line.as_bytes())
}

/// All events, with what is raw cut short: it is kept as it came.
fn events(parser: &mut Parser, transcript: &str) -> Vec<String> {
    let shown = |event: &EventBody| match event {
        EventBody::Raw { line, .. } => format!("raw {}…", line.chars().take(40).collect::<String>()),
        event => serde_json::to_string(event).unwrap(),
    };
    transcript.lines().flat_map(|line| read(parser, line)).map(|event| shown(&event)).collect()
}

#[test]
fn claude_code() {
    let mut parser = parser("claude-code");
    insta::assert_debug_snapshot!(events(&mut parser, CLAUDE_CODE));
    assert_eq!(parser.verdict(Some(0)), Verdict::Done);
}

#[test]
fn a_run_of_claude_code_that_was_cut_is_not_done() {
    let mut parser = parser("claude-code");
    let (most, _) = CLAUDE_CODE.trim_end().rsplit_once('\n').unwrap();
    events(&mut parser, most);
    assert!(matches!(parser.verdict(None), Verdict::Failed { reason: FailureReason::Agent, .. }));
}

#[test]
fn the_ends_of_claude_code() {
    let end = |before: &[&str], line: &str| {
        let mut parser = parser("claude-code");
        before.iter().for_each(|line| drop(read(&mut parser, line)));
        assert_eq!(read(&mut parser, line).len(), 1, "the line is kept");
        parser.verdict(Some(1))
    };
    let failed = |reason, message: &str| Verdict::Failed { reason, message: message.to_owned() };
    let turns = r#"{"num_turns":2,"subtype":"error_max_turns","errors":["Reached maximum number of turns (1)"],"type":"result"}"#;
    let message = "the agent used up its turns: Reached maximum number of turns (1)";
    assert_eq!(end(&[], turns), failed(FailureReason::Agent, message));
    let refused =
        r#"{"type":"assistant","error":"rate_limit","message":{"content":[{"type":"text","text":"Limit reached"}]}}"#;
    let last = r#"{"type":"result","subtype":"success","is_error":true,"result":"Limit reached"}"#;
    let message = "the agent gave up: Limit reached";
    assert_eq!(end(&[refused], last), failed(FailureReason::ModelQuota, message));
    assert_eq!(end(&[], last), failed(FailureReason::Agent, message));
}

#[test]
fn claude_code_tells_that_it_waits_for_the_model() {
    let line = r#"{"type":"system","subtype":"api_retry","attempt":2,"max_retries":10,"error_status":529,"error":"overloaded"}"#;
    let message = "the agent asks the model again (529, overloaded): 2 of 10".to_owned();
    assert_eq!(read(&mut parser("claude-code"), line), [EventBody::Warning { message }]);
}

#[test]
fn a_call_of_codex_is_told_once_also_after_a_crash() {
    let item = |status: &str, more: &str| {
        format!(
            r#"{{"type":"item.{status}","item":{{"id":"item_1","type":"command_execution","command":"ls","aggregated_output":"a","status":"x"{more}}}}}"#
        )
    };
    let mut first = parser("codex");
    let call = read(&mut first, &item("started", r#","exit_code":null"#));
    assert!(matches!(&call[..], [EventBody::ToolCall { name, .. }] if name == "shell"), "{call:?}");
    let mut second = parser("codex");
    call.iter().for_each(|event| second.recall(event));
    for parser in [&mut first, &mut second] {
        let end = read(parser, &item("completed", r#","exit_code":0"#));
        let [EventBody::ToolResult { id, output, is_error: false }] = &end[..] else { panic!("{end:?}") };
        assert_eq!((id.as_str(), output.as_str()), ("item_1", "a"));
    }
    // One whose start was never told.
    assert_eq!(read(&mut parser("codex"), &item("completed", r#","exit_code":2"#)).len(), 2);
}

#[test]
fn the_ends_of_codex() {
    let end = |line: &str, code| {
        let mut parser = parser("codex");
        assert_eq!(read(&mut parser, line).len(), 1, "the line is kept");
        parser.verdict(Some(code))
    };
    let quota =
        r#"{"type":"turn.failed","error":{"message":"exceeded retry limit, last status: 429 Too Many Requests"}}"#;
    assert!(matches!(end(quota, 1), Verdict::Failed { reason: FailureReason::ModelQuota, .. }));
    let other = r#"{"type":"turn.failed","error":{"message":"stream disconnected"}}"#;
    assert!(matches!(end(other, 1), Verdict::Failed { reason: FailureReason::Agent, .. }));
    assert_eq!(end(r#"{"type":"turn.completed","usage":{}}"#, 0), Verdict::Done);
    // A notice that something is tried again ends nothing.
    let notice = r#"{"type":"error","message":"Reconnecting... 1/5"}"#;
    assert_eq!(end(notice, 0), Verdict::Done);
}

proptest! {
    /// Whatever is printed, each line leaves a trace or is a piece of what comes whole, and nothing panics.
    #[test]
    fn any_line_is_understood_or_kept(line: String, cut in 0usize..2000, id in prop::sample::select(vec!["claude-code", "codex"])) {
        let mut parser = parser(id);
        let line = line.replace(['\n', '\r'], " ");
        let kept = EventBody::Raw { stream: OutputStream::Stdout, line: line.clone() };
        prop_assert_eq!(read(&mut parser, &line), vec![kept]);
        let known: Vec<char> = CLAUDE_CODE.lines().nth(cut % 40).unwrap().chars().collect();
        let part: String = known.iter().take(cut).collect();
        read(&mut parser, &part);
    }
}
