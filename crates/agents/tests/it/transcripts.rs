//! What real agents printed, and what is made of it. The transcripts were recorded from runs on a scripted model.

use harvest_agents::{Parser, Registry, Verdict};
use harvest_core::{EventBody, FailureReason, OutputStream};
use proptest::prelude::*;

use crate::agent;

const CLAUDE_CODE: &str = include_str!("transcripts/claude-code.jsonl");
const GEMINI_CLI: &str = include_str!("transcripts/gemini-cli.jsonl");
const GEMINI_CLI_REFUSED: &str = include_str!("transcripts/gemini-cli-refused.jsonl");
const AIDER: &str = include_str!("transcripts/aider.txt");
const AIDER_REFUSED: &str = include_str!("transcripts/aider-refused.txt");
const OPENCODE: &str = include_str!("transcripts/opencode.jsonl");
const OPENCODE_REFUSED: &str = include_str!("transcripts/opencode-refused.jsonl");

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
    assert_eq!(end(&[], turns), failed(FailureReason::Turns, message));
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

#[test]
fn gemini_cli() {
    let mut parser = parser("gemini-cli");
    insta::assert_debug_snapshot!(events(&mut parser, GEMINI_CLI));
    assert_eq!(parser.verdict(Some(0)), Verdict::Done);
}

#[test]
fn opencode() {
    let mut parser = parser("opencode");
    insta::assert_debug_snapshot!(events(&mut parser, OPENCODE));
    assert_eq!(parser.verdict(Some(0)), Verdict::Done);
}

#[test]
fn aider() {
    let mut parser = parser("aider");
    let told = events(&mut parser, AIDER);
    assert_eq!(told.len(), AIDER.lines().count(), "each line is a message");
    assert!(told.iter().any(|event| event.contains("Applied edit to src/two.sh")), "{told:#?}");
    assert_eq!(parser.verdict(Some(0)), Verdict::Done);
}

#[test]
fn a_message_of_gemini_cli_that_a_crash_cut_in_two_comes_whole() {
    let piece = |text: &str| format!(r#"{{"type":"message","role":"assistant","content":"{text}","delta":true}}"#);
    let mut first = parser("gemini-cli");
    let told = read(&mut first, &piece("One "));
    let mut second = parser("gemini-cli");
    told.iter().for_each(|event| second.recall(event));
    read(&mut second, &piece("two"));
    let end = read(&mut second, r#"{"type":"result","status":"success","stats":{}}"#);
    assert!(
        matches!(&end[..], [EventBody::Message { text, .. }, EventBody::Raw { .. }] if text == "One two"),
        "{end:?}"
    );
    // And one that never ends is told in parts.
    let mut endless = parser("gemini-cli");
    let long = piece(&"x".repeat(1000));
    let messages = (0..200).flat_map(|_| read(&mut endless, &long)).filter(|e| matches!(e, EventBody::Message { .. }));
    assert_eq!(messages.count(), 3);
}

/// The same for all: what a vendor refused is a failure whatever the exit code, also when a crash lies in between.
#[test]
fn what_a_vendor_refused_is_no_success() {
    use FailureReason::{Agent, ModelQuota};
    let limited = "litellm.RateLimitError: RateLimitError: OpenAIException - slow down\n";
    let exhausted = GEMINI_CLI_REFUSED.replace("UNAUTHENTICATED", "RESOURCE_EXHAUSTED");
    let too_many = OPENCODE_REFUSED.replace(r#""statusCode":401"#, r#""statusCode":429"#);
    for (id, transcript, reason) in [
        ("gemini-cli", GEMINI_CLI_REFUSED, Agent),
        ("gemini-cli", &exhausted, ModelQuota),
        ("opencode", OPENCODE_REFUSED, Agent),
        ("opencode", &too_many, ModelQuota),
        ("aider", AIDER_REFUSED, Agent),
        ("aider", limited, ModelQuota),
    ] {
        let (mut whole, mut after_a_crash) = (parser(id), parser(id));
        for event in transcript.lines().flat_map(|line| read(&mut whole, line)) {
            after_a_crash.recall(&event);
        }
        for parser in [whole, after_a_crash] {
            for code in [Some(0), Some(1)] {
                let verdict = parser.verdict(code);
                assert!(matches!(&verdict, Verdict::Failed { reason: why, .. } if *why == reason), "{id}: {verdict:?}");
            }
        }
    }
}

#[test]
fn an_answer_after_a_refusal_takes_it_back() {
    let mut aider = parser("aider");
    for line in ["litellm.InternalServerError: again", "Retrying in 0.2 seconds...", "Tokens: 1.2k sent, 40 received."]
    {
        read(&mut aider, line);
    }
    assert_eq!(aider.verdict(Some(0)), Verdict::Done);
    let mut opencode = parser("opencode");
    events(&mut opencode, OPENCODE_REFUSED);
    events(&mut opencode, OPENCODE);
    assert_eq!(opencode.verdict(Some(0)), Verdict::Done);
    assert!(matches!(opencode.verdict(Some(2)), Verdict::Failed { .. }));
}

proptest! {
    /// Whatever is printed, each line leaves a trace or is a piece of what comes whole, and nothing panics.
    #[test]
    fn any_line_is_understood_or_kept(line: String, cut in 0usize..2000, id in prop::sample::select(vec!["claude-code", "codex", "gemini-cli", "opencode"])) {
        let mut parser = parser(id);
        let line = line.replace(['\n', '\r'], " ");
        let kept = EventBody::Raw { stream: OutputStream::Stdout, line: line.clone() };
        prop_assert_eq!(read(&mut parser, &line), vec![kept]);
        let all: Vec<&str> = [CLAUDE_CODE, GEMINI_CLI, OPENCODE].iter().flat_map(|text| text.lines()).collect();
        let known: Vec<char> = all[cut % all.len()].chars().collect();
        let part: String = known.iter().take(cut).collect();
        read(&mut parser, &part);
    }
}
