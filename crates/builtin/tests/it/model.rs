//! What goes wrong between the agent and the model, and what the agent makes of it.

use serde_json::json;

use crate::run;
use crate::server::{Answer, Server, WireName, say};

#[test]
fn busy_models_are_asked_again() {
    for wire in WireName::ALL {
        for status in [429, 500, 502, 503, 529] {
            let folder = tempfile::tempdir().unwrap();
            let busy = Answer::Error(status, "retry-after: 0\r\n", "busy");
            let server = Server::start(wire, vec![busy.clone(), busy, say("At last.").into()]);
            let run = run(&server, wire, folder.path(), &[]);
            assert_eq!((run.exit_code, run.types()), (0, vec!["message", "agent.done"]), "{status}");
            assert_eq!(server.requests().len(), 3);
        }
    }
}

#[test]
fn an_answer_that_broke_off_is_asked_for_again() {
    for wire in WireName::ALL {
        let folder = tempfile::tempdir().unwrap();
        let reply = say("one two three four").call("bash", &json!({"command": "echo x >> log"}));
        let server = Server::start(wire, vec![Answer::Cut(reply.clone(), 4), reply.into(), say("Done.").into()]);
        let run = run(&server, wire, folder.path(), &[]);
        assert_eq!(run.exit_code, 0);
        assert_eq!(run.types(), ["message", "tool.call", "tool.result", "message", "agent.done"]);
        assert_eq!(run.deltas(), "one two three fourDone.", "nothing is said twice");
        assert_eq!(std::fs::read_to_string(folder.path().join("log")).unwrap(), "x\n");
        let requests = server.requests();
        assert_eq!((requests.len(), &requests[0]), (3, &requests[1]));
    }
}

#[test]
fn errors_inside_a_stream() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
    let server_error = json!({"error": {"type": "server_error", "message": "oops"}});
    for (wire, error) in [(WireName::Anthropic, overloaded), (WireName::Openai, server_error)] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(wire, vec![Answer::Broken(say("Hi"), 1, error), say("Hi").into()]);
        assert_eq!(run(&server, wire, folder.path(), &[]).exit_code, 0);
    }
    let refused = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}});
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(WireName::Anthropic, vec![Answer::Broken(say("Hi"), 1, refused)]);
    let run = run(&server, WireName::Anthropic, folder.path(), &[]);
    assert_eq!((run.exit_code, server.requests().len()), (1, 1));
}

#[test]
fn a_refused_request_ends_it() {
    for wire in WireName::ALL {
        for status in [400, 401, 402, 403, 404, 413] {
            let folder = tempfile::tempdir().unwrap();
            let server = Server::start(wire, vec![Answer::Error(status, "", "the budget is spent")]);
            let run = run(&server, wire, folder.path(), &[]);
            let message = format!("the model refused the request: HTTP {status}: the budget is spent");
            assert_eq!(run.exit_code, 1);
            assert_eq!(run.of_type("agent.error"), [&json!({"kind": "model", "message": message})]);
            assert_eq!(server.requests().len(), 1);
        }
    }
}

#[test]
fn patience_has_an_end() {
    let wire = WireName::Anthropic;
    let folder = tempfile::tempdir().unwrap();
    for (answer, kind, requests) in [
        (Answer::Error(429, "", "slow down"), "model_quota", 6),
        (Answer::Error(529, "", "overloaded"), "model", 6),
        (Answer::Cut(say("Hi"), 2), "model", 6),
        (Answer::Error(429, "retry-after: 86400\r\n", "come back tomorrow"), "model_quota", 1),
    ] {
        let server = Server::start(wire, vec![answer]);
        let run = run(&server, wire, folder.path(), &[]);
        assert_eq!((run.exit_code, run.types()), (1, vec!["agent.error"]));
        assert_eq!(run.of_type("agent.error")[0]["kind"], kind);
        assert_eq!(server.requests().len(), requests);
    }
}

#[test]
fn the_wait_the_vendor_asks_for_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let busy = Answer::Error(429, "retry-after: 1\r\n", "busy");
    let server = Server::start(WireName::Openai, vec![busy, say("Hi").into()]);
    let start = std::time::Instant::now();
    assert_eq!(run(&server, WireName::Openai, folder.path(), &[]).exit_code, 0);
    assert!(start.elapsed() >= std::time::Duration::from_secs(1));
}
