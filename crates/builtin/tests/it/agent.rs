//! The loop: what is asked, what is done, how it ends.

use serde_json::{Value, json};

use crate::run;
use crate::server::{Server, WireName, say};

/// The last message of a request as text, whichever wire it is in.
fn last_message(request: &Value) -> String {
    let messages = request["messages"].as_array().or(request["contents"].as_array());
    messages.unwrap().last().unwrap().to_string()
}

#[test]
fn a_tool_is_called_and_its_result_goes_back() {
    for wire in WireName::ALL {
        let folder = tempfile::tempdir().unwrap();
        let command = json!({"command": "printf 'hello\\n' > greeting.txt && cat greeting.txt"});
        let server =
            Server::start(wire, vec![say("I will add it.").call("bash", &command).into(), say("All done.").into()]);
        let run = run(&server, wire, folder.path(), &[]);
        assert_eq!(run.exit_code, 0);
        assert_eq!(run.types(), ["message", "tool.call", "tool.result", "message", "agent.done"]);
        assert_eq!(run.deltas(), "I will add it.All done.");
        assert!(run.of_type("message.delta").len() > 4, "text comes in pieces");
        assert_eq!(run.of_type("message")[0], &json!({"role": "assistant", "text": "I will add it."}));
        let id = wire.call_id();
        assert_eq!(run.of_type("tool.call")[0], &json!({"id": id, "name": "bash", "input": command}));
        let result = json!({"id": id, "output": "hello\nexit code 0", "is_error": false});
        assert_eq!(run.of_type("tool.result")[0], &result);
        assert_eq!(run.of_type("agent.done")[0], &json!({"turns": 2}));
        assert!(last_message(&server.requests()[1]).contains("exit code 0"));
        assert_eq!(std::fs::read_to_string(folder.path().join("greeting.txt")).unwrap(), "hello\n");
    }
}

#[test]
fn several_calls_of_one_reply_run_in_order() {
    for wire in WireName::ALL {
        let folder = tempfile::tempdir().unwrap();
        let reply = say("")
            .call("write", &json!({"path": "a/b.txt", "content": "one\n"}))
            .call("edit", &json!({"path": "a/b.txt", "old": "one", "new": "two"}))
            .call("read", &json!({"path": "a/b.txt"}));
        let server = Server::start(wire, vec![reply.into(), say("Done.").into()]);
        let run = run(&server, wire, folder.path(), &[]);
        assert_eq!(run.exit_code, 0);
        assert_eq!(
            run.results(),
            [("Wrote a/b.txt (4 bytes).", false), ("Changed a/b.txt.", false), ("     1\ttwo\n", false)]
        );
        let pair = ["tool.call", "tool.result"];
        assert_eq!(run.types(), [&pair[..], &pair, &pair, &["message", "agent.done"]].concat());
    }
}

#[test]
fn requests_have_the_documented_shape() {
    for wire in WireName::ALL {
        let folder = tempfile::tempdir().unwrap();
        let reply = say("Look.").call("bash", &json!({"command": "true"})).call("read", &json!({"path": "none"}));
        let server = Server::start(wire, vec![reply.into(), say("Done.").into()]);
        run(&server, wire, folder.path(), &[]);
        let mut request = server.requests().remove(1);
        let name = folder.path().display().to_string();
        let text = request.to_string();
        assert!(text.contains(&name), "the model is told where it works");
        request = serde_json::from_str(&text.replace(&name, "/workspace")).unwrap();
        insta::assert_json_snapshot!(format!("request_{}", wire.as_str()), request);
    }
}

#[test]
fn calls_that_make_no_sense_are_answered() {
    // The others have arguments that cannot be broken JSON.
    for wire in [WireName::Anthropic, WireName::Openai] {
        let folder = tempfile::tempdir().unwrap();
        let reply = say("")
            .raw_call("bash", r#"{"command": "ls"#)
            .call("bash", &json!({"cmd": "ls"}))
            .call("teleport", &json!({}))
            .raw_call("read", "");
        let server = Server::start(wire, vec![reply.into(), say("Done.").into()]);
        let run = run(&server, wire, folder.path(), &[]);
        assert_eq!(run.exit_code, 0);
        let results = run.results();
        assert!(results.iter().all(|(_, is_error)| *is_error));
        assert!(results[0].0.starts_with("The input is not a JSON object"), "{}", results[0].0);
        assert_eq!(results[1].0, "The input does not fit the tool: missing field `command`.");
        assert!(results[2].0.starts_with("There is no tool `teleport`"));
        assert!(results[3].0.contains("missing field `path`"));
        assert_eq!(run.of_type("tool.call")[0]["input"], json!(r#"{"command": "ls"#));
    }
}

#[test]
fn a_blank_reply_ends_the_turn() {
    for wire in WireName::ALL {
        for text in ["", " \n"] {
            let folder = tempfile::tempdir().unwrap();
            let server = Server::start(wire, vec![say(text).into()]);
            let run = run(&server, wire, folder.path(), &[]);
            assert_eq!((run.exit_code, run.types()), (0, vec!["agent.done"]));
        }
    }
}

#[test]
fn a_reply_that_was_too_long_goes_on() {
    for wire in WireName::ALL {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(wire, vec![say("A long").too_long().into(), say(" story.").into()]);
        let run = run(&server, wire, folder.path(), &[]);
        assert_eq!((run.exit_code, run.deltas().as_str()), (0, "A long story."));
        assert!(last_message(&server.requests()[1]).contains("length limit"));
    }
}

#[test]
fn the_number_of_turns_is_limited() {
    for wire in WireName::ALL {
        let folder = tempfile::tempdir().unwrap();
        let again = say("Again.").call("bash", &json!({"command": "echo x >> log"}));
        let server = Server::start(wire, vec![again.into()]);
        let run = run(&server, wire, folder.path(), &["--max-turns", "3"]);
        assert_eq!(run.exit_code, 1);
        let error = json!({"kind": "turns", "message": "the model did not finish within 3 turns"});
        assert_eq!(run.of_type("agent.error"), [&error]);
        assert_eq!(run.types().last(), Some(&"agent.error"));
        assert_eq!(server.requests().len(), 3);
        assert_eq!(std::fs::read_to_string(folder.path().join("log")).unwrap(), "x\nx\nx\n");
    }
}

#[test]
fn rules_of_the_project_follow_the_fixed_ones() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.md");
    std::fs::write(&rules, "Write in Danish.").unwrap();
    let server = Server::start(WireName::Openai, vec![say("Ja.").into()]);
    let file = rules.to_str().unwrap();
    assert_eq!(run(&server, WireName::Openai, folder.path(), &["--system-file", file]).exit_code, 0);
    let system = server.requests()[0]["messages"][0]["content"].to_string();
    assert!(system.contains("never push") && system.contains("Write in Danish."), "{system}");

    let missing = run(&server, WireName::Openai, folder.path(), &["--system-file", "/none"]);
    assert_eq!(missing.exit_code, 1);
    assert_eq!(missing.of_type("agent.error")[0]["kind"], "internal");
}
