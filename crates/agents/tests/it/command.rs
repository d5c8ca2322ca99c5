//! From a turn to a command.

use std::path::Path;

use harvest_agents::{Provider, Registry, Turn};

use crate::{agent, builtin, echo};

fn turn(provider: Provider) -> Turn<'static> {
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
