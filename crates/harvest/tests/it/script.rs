//! The scripted model from end to end: what a script says is what the built-in agent meets.

use serde_json::json;

use crate::support::{FIX, World};

#[test]
fn overload_and_cut_connections_are_tried_again_and_charged_once() {
    for control in
        [json!({ "status": 529 }), json!({ "status": 429 }), json!({ "status": 500 }), json!({ "cut_after": 2 })]
    {
        let world = World::new();
        let mut first = json!({ "say": "One two three four five.", "shell": FIX, "tokens": { "input": 100 } });
        first.as_object_mut().unwrap().extend(control.as_object().unwrap().clone());
        let ran = world.run(&json!([first, { "say": "Done.", "tokens": { "input": 10 } }]), &[]);
        let outcome = ran.assert_ended(0, "completed", None);
        assert_eq!(ran.of_type("tool.call").len(), 1, "{control}");
        let messages: Vec<_> = ran.of_type("message").iter().map(|data| data["text"].clone()).collect();
        assert_eq!(messages, ["One two three four five.", "Done."], "{control}");
        if control.get("status").is_some() {
            assert_eq!(outcome["usage"]["input_tokens"], 110, "{control}");
        }
    }
}

#[test]
fn an_unmet_expectation_fails_visibly() {
    let world = World::new();
    let ran = world.run(&json!([{ "shell": FIX }, { "expect": "pigs fly", "say": "Never." }]), &[]);
    let outcome = ran.assert_ended(1, "failed", Some("agent"));
    assert!(outcome["error"].as_str().unwrap().contains("pigs fly"), "{outcome:#}");
    assert!(ran.stderr.starts_with("error[HV-0406]") && ran.stderr.contains("pigs fly"), "{}", ran.stderr);
    assert_eq!(world.show(&format!("{}:src/two.sh", outcome["branch"].as_str().unwrap())), "echo two");
    assert!(outcome["evidence"].is_null());
}

#[test]
fn tools_by_name_lists_and_unknown_tools() {
    let world = World::new();
    let ran = world.run(
        &json!([
            { "tool": [{ "name": "read", "input": { "path": "src/two.sh" } }, { "name": "search", "input": { "pattern": "three" } }] },
            { "tool": { "name": "edit", "input": { "path": "src/two.sh", "old": "three", "new": "two" } } },
            { "shell": ["cat src/two.sh", "false"], "write": [{ "path": "a/b.txt", "content": "b\n" }, { "path": "c.txt", "content": "c\n" }] },
            { "say": "Done." },
        ]),
        &[],
    );
    let outputs = ran.tool_outputs();
    assert!(outputs[0].contains("echo three"), "{outputs:#?}");
    assert!(outputs[1].contains("src/two.sh"), "{outputs:#?}");
    let names: Vec<_> = ran.of_type("tool.call").iter().map(|data| data["name"].clone()).collect();
    assert_eq!(names.len(), 7, "{names:?}");
    let after: Vec<_> = ran.tool_outputs().into_iter().skip(3).collect();
    assert!(after.iter().any(|output| output.ends_with("exit code 1")), "{after:#?}");
    let outcome = ran.assert_ended(0, "completed", None);
    let branch = outcome["branch"].as_str().unwrap();
    assert_eq!(
        (world.show(&format!("{branch}:a/b.txt")).as_str(), world.show(&format!("{branch}:c.txt")).as_str()),
        ("b", "c")
    );
    let ran = world.run(&json!([{ "tool": { "name": "teleport", "input": {} } }]), &[]);
    let outcome = ran.assert_ended(1, "failed", Some("agent"));
    let error = outcome["error"].as_str().unwrap();
    assert!(error.contains("teleport") && error.contains("bash"), "{error}");
}

#[test]
fn conversations_are_chosen_by_the_prompt() {
    let world = World::new();
    let script = world.path().join("two.yaml");
    let text = r#"
conversations:
  - when_prompt_contains: "für Ada"
    replies: [{ shell: "touch ada" }]
  - when_prompt_contains: "grüße"
    replies: [{ shell: "touch greeting" }]
"#;
    std::fs::write(&script, text).unwrap();
    for (prompt, file) in [("Etwas für Ada", "ada"), ("viele grüße", "greeting")] {
        let ran =
            world.harvest(&["run", prompt, "--test", "true", "--json", "--model-script"]).args(&[&script]).finish();
        ran.assert_ended(0, "completed", None);
        assert_eq!(ran.of_type("file.changed")[0]["path"], file);
    }
    let ran = world
        .harvest(&["run", "anything else", "--test", "true", "--json", "--model-script"])
        .args(&[&script])
        .finish();
    ran.assert_ended(1, "failed", Some("agent"));
}

/// A model that never stops calling tools is stopped by the limit on turns.
#[test]
fn an_endless_conversation_ends() {
    let world = World::new();
    let replies: Vec<_> = (0..80).map(|number| json!({ "shell": format!("echo {number} > n") })).collect();
    let ran = world.run(&json!(replies), &["--test", "true"]);
    let outcome = ran.outcome();
    assert_eq!((ran.exit, outcome["reason"].as_str()), (Some(3), Some("turns")), "{outcome:#}");
    assert!(ran.of_type("tool.call").len() <= 50, "{}", ran.of_type("tool.call").len());
    assert!(outcome["branch"].is_string());
}
