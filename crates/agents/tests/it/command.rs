//! From a turn to a command.

use std::path::Path;

use harvest_agents::{Provider, Registry, Turn};

use crate::{ECHO, agent, builtin, echo};

pub fn turn(provider: Provider) -> Turn<'static> {
    Turn {
        prompt: "Fix {model}, please.\n",
        provider,
        model: "some-{home}-model",
        gateway_port: 4711,
        home: Path::new("/home/harvest"),
        workspace: Path::new("/workspace"),
        bin: Path::new("/harvest/bin"),
        path: "/usr/bin:/bin",
        max_turns: 50,
        resume: None,
        plan: false,
        mcp: &[],
    }
}

#[test]
fn the_built_in_agent() {
    insta::assert_debug_snapshot!(builtin().command(&turn(Provider::Anthropic)));
}

#[test]
fn the_provider_decides_wire_and_address() {
    let argv = builtin().command(&turn(Provider::Openai)).argv;
    assert_eq!(argv[1..5], ["--wire", "openai", "--base-url", "http://127.0.0.1:4711/openai"]);
}

#[test]
fn an_agent_that_is_only_data() {
    insta::assert_debug_snapshot!(echo().command(&turn(Provider::Openai)));
}

#[test]
fn claude_code() {
    insta::assert_debug_snapshot!(
        agent(&Registry::bundled().unwrap(), "claude-code").command(&turn(Provider::Anthropic))
    );
}

#[test]
fn codex() {
    insta::assert_debug_snapshot!(agent(&Registry::bundled().unwrap(), "codex").command(&turn(Provider::Openai)));
}

#[test]
fn the_others() {
    let registry = Registry::bundled().unwrap();
    for (id, provider) in
        [("gemini-cli", Provider::Gemini), ("opencode", Provider::Openai), ("aider", Provider::Openai)]
    {
        insta::assert_debug_snapshot!(id, agent(&registry, id).command(&turn(provider)));
    }
}

#[test]
fn a_bridge_stands_before_the_agents_own_program() {
    let with = |from: &str, to: &str| agent(&Registry::from_toml(&ECHO.replace(from, to)).unwrap(), "echo");
    let text = "dialect = \"text\"";
    let acp = with(text, "dialect = \"acp\"").command(&turn(Provider::Openai));
    assert_eq!(acp.argv[..5], ["/harvest/bin/harvest-builtin", "acp", "--workspace", "/workspace", "--"]);
    assert_eq!(acp.argv[acp.program..acp.program + 2], ["/bin/sh", "-c"]);
    let pty = with(text, "dialect = \"text\"\nterminal = true").command(&turn(Provider::Openai));
    assert_eq!(
        (&pty.argv[..3], pty.program),
        (&["/harvest/bin/harvest-builtin", "pty", "--"].map(String::from)[..], 3)
    );
    let both = Registry::from_toml(&ECHO.replace(text, "dialect = \"acp\"\nterminal = true")).unwrap_err().to_string();
    assert_eq!(both, "the agent `echo` uses a protocol: it needs `prompt = \"stdin\"` and no `terminal`");
}

#[test]
fn who_counts_its_turns() {
    let registry = Registry::bundled().unwrap();
    let counting: Vec<&str> =
        registry.iter().filter(|agent| agent.counts_turns()).map(|agent| agent.id.as_str()).collect();
    assert_eq!(counting, ["builtin", "claude-code"]);
}

#[test]
fn going_on_and_planning_take_other_arguments() {
    let registry = Registry::bundled().unwrap();
    let claude = agent(&registry, "claude-code");
    let resumed = claude.command(&Turn { resume: Some("c-1"), ..turn(Provider::Anthropic) }).argv;
    assert_eq!(resumed[1..4], ["-p", "--resume", "c-1"]);
    let planning = claude.command(&Turn { plan: true, ..turn(Provider::Anthropic) }).argv;
    assert!(planning.windows(2).any(|pair| pair == ["--permission-mode", "plan"]), "{planning:?}");
    assert!(!planning.iter().any(|argument| argument == "--dangerously-skip-permissions"));
    let codex = agent(&registry, "codex").command(&Turn { resume: Some("t-1"), ..turn(Provider::Openai) }).argv;
    assert_eq!((codex[1..3].join(" "), codex[codex.len() - 2..].join(" ")), ("exec resume".into(), "t-1 -".into()));
    // One that has no other way does what it always does.
    assert_eq!(echo().command(&Turn { plan: true, ..turn(Provider::Openai) }), echo().command(&turn(Provider::Openai)));
}

#[test]
fn only_what_can_be_named_is_resumed() {
    let registry = Registry::bundled().unwrap();
    assert_eq!(agent(&registry, "claude-code").resumable(Some("c-1")), Some("c-1"));
    assert_eq!(agent(&registry, "claude-code").resumable(None), None);
    assert_eq!(agent(&registry, "aider").resumable(None), Some(""));
    assert_eq!(builtin().resumable(Some("c-1")), None);
}

#[test]
fn state_is_a_plain_path_below_the_home() {
    for path in ["/etc", "..", "a/../b", "a b", "$HOME", "-x", ""] {
        let text = format!(
            "[[agent]]\nid = \"x\"\nname = \"X\"\nproviders = [\"openai\"]\ndialect = \"text\"\nprompt = \"stdin\"\n\
             command = \"x\"\ninstall_hint = \"\"\nstate = [\"{path}\"]\n"
        );
        let refused = Registry::from_toml(&text).unwrap_err();
        assert!(matches!(refused, harvest_agents::Error::BadState { .. }), "{path}: {refused}");
    }
}
