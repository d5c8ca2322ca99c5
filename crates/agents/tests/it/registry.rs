//! What the registry holds and what it refuses.

use harvest_agents::{Features, Provider, Registry};

use crate::ECHO;

#[test]
fn the_bundled_agents() {
    let registry = Registry::bundled().unwrap();
    let ids: Vec<&str> = registry.iter().map(|agent| agent.id.as_str()).collect();
    assert_eq!(ids, ["builtin", "claude-code", "codex"]);
    let builtin = registry.get("builtin").unwrap();
    assert_eq!(builtin.providers, Provider::ALL);
    assert_eq!(builtin.features, Features { streaming: true, ..Features::default() });
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
        assert!(message.starts_with("the registry of agents is not valid") && message.contains(part), "{message}");
    }
}
