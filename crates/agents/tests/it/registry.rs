//! What the registry holds and what it refuses.

use harvest_agents::{Features, Provider, Registry};

use crate::ECHO;

#[test]
fn the_bundled_agents() {
    let registry = Registry::bundled().unwrap();
    let ids: Vec<&str> = registry.iter().map(|agent| agent.id.as_str()).collect();
    assert_eq!(ids, ["builtin", "claude-code", "claude-agent-sdk", "codex", "gemini-cli", "opencode", "aider"]);
    let builtin = registry.get("builtin").unwrap();
    assert_eq!(builtin.providers, Provider::ALL);
    assert_eq!(builtin.features, Features { plan: true, mcp: true, streaming: true, ..Features::default() });
    assert!(builtin.providers.iter().all(|provider| builtin.default_model(*provider).is_some()));
    assert_eq!(builtin.program, None);
    assert_eq!(registry.get("claude-code").unwrap().program.as_deref(), Some("claude"));
    assert!(registry.get("nobody").is_none());
}

#[test]
fn bad_entries_are_refused_with_the_reason() {
    let error = |text: &str| Registry::from_toml(text).unwrap_err().to_string();
    let with = |old: &str, new: &str| error(&ECHO.replacen(old, new, 1));
    assert_eq!(with("{model}", "{modle}"), "the agent `echo` uses `{modle}`, which does not exist");
    assert_eq!(with("{base_url}", "{url}"), "the agent `echo` uses `{url}`, which does not exist");
    assert_eq!(with("\"echo\"", "\"Echo!\""), "the agent id `Echo!` must be lower-case letters, digits and dashes");
    assert_eq!(with("[\"openai\"]", "[]"), "the agent `echo` names no provider");
    assert_eq!(error(&format!("{ECHO}{ECHO}")), "the agent `echo` is defined twice");
    for (old, new, part) in [
        ("\"openai\"", "\"gopher\"", "unknown variant `gopher`"),
        ("dialect = \"text\"", "dialect = \"morse\"", "unknown variant `morse`"),
        ("auto_commit", "auto_pilot", "unknown field `auto_pilot`"),
        ("command = \"/bin/sh\"", "", "missing field `command`"),
    ] {
        let message = with(old, new);
        assert!(message.starts_with("the agent `echo` is not valid: ") && message.contains(part), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
    assert_eq!(with("id = \"echo\"", ""), "the agent number 1 has no `id`");
    assert!(error("[[agent]").starts_with("the registry of agents is not valid: "));
}

#[test]
fn a_file_adds_agents_and_replaces_none_silently() {
    let bundled = || Registry::bundled().unwrap();
    let count = bundled().iter().count();
    let more = bundled().with(ECHO).unwrap();
    assert_eq!(more.iter().count(), count + 1);
    assert!(!more.get("echo").unwrap().bundled && more.get("builtin").unwrap().bundled);
    assert_eq!(more.with(ECHO).unwrap_err().to_string(), "the agent `echo` is defined twice");

    let codex = ECHO.replacen("\"echo\"", "\"codex\"", 1);
    let message = "the agent `codex` is built into Harvest; to replace it, set `replace = true`";
    assert_eq!(bundled().with(&codex).unwrap_err().to_string(), message);
    let said = |text: &str| text.replacen("dialect", "replace = true\ndialect", 1);
    let replaced = bundled().with(&said(&codex)).unwrap();
    assert_eq!((replaced.iter().count(), replaced.get("codex").unwrap().name.as_str()), (count, "Echo"));
    assert_eq!(replaced.with(&said(&codex)).unwrap_err().to_string(), "the agent `codex` is defined twice");
    let message = "the agent `echo` has `replace = true`, but there is no agent of that name to replace";
    assert_eq!(bundled().with(&said(ECHO)).unwrap_err().to_string(), message);
}
