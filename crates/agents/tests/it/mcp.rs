//! MCP servers: the presets, and how each agent is told of them.

use std::path::Path;

use harvest_agents::mcp::{Catalogue, Found, Offer, Places};
use harvest_agents::{Invocation, Provider, Registry, Turn};
use harvest_core::{McpAddress, McpServer};

use crate::command::turn;
use crate::{agent, echo};

fn places() -> Places<'static> {
    let [home, workspace, bin] = ["/home/harvest", "/workspace", "/harvest/bin"].map(Path::new);
    Places { home, workspace, bin, gateway_port: 4711 }
}

fn preset(name: &str) -> McpServer {
    Catalogue::bundled().unwrap().get(name).unwrap().server.clone()
}

fn offers() -> Vec<Offer> {
    let filtered = McpServer { tools: Some(vec!["read_graph".into()]), ..preset("memory") };
    [filtered, preset("github")].iter().map(|server| Offer::of(server, places())).collect()
}

#[test]
fn every_preset_names_one_version_of_a_package_or_an_address() {
    let catalogue = Catalogue::bundled().unwrap();
    let names: Vec<&str> = catalogue.iter().map(|entry| entry.server.name.as_str()).collect();
    let expected = [
        "chrome-devtools",
        "context7",
        "filesystem",
        "gemini",
        "github",
        "linear",
        "memory",
        "playwright",
        "sentry",
        "serena",
    ];
    assert_eq!(names, expected);
    let is_version =
        |text: &str| text.split('.').count() == 3 && text.split('.').all(|part| part.parse::<u32>().is_ok());
    for entry in catalogue.iter() {
        assert!(entry.bundled && !entry.about.is_empty(), "{entry:?}");
        let server = &entry.server;
        match &server.at {
            McpAddress::Url { url } => assert!(url.starts_with("https://"), "{url}"),
            McpAddress::Program { command, args } => {
                let (name, version) = match command.as_str() {
                    "npx" => args[1].rsplit_once('@').unwrap(),
                    "uvx" => args[1].split_once("==").unwrap(),
                    other => panic!("{other}"),
                };
                assert!(!name.is_empty() && is_version(version), "{args:?}");
                // One that holds a key reaches what it is there for, and nothing else.
                assert_eq!(server.credential.is_some(), !server.hosts.is_empty(), "{server:?}");
            }
        }
    }
}

#[test]
fn those_with_a_key_are_reached_through_the_gateway_and_the_others_are_started() {
    let found = |name: &str| Offer::of(&preset(name), places()).at;
    for name in ["github", "linear", "sentry", "context7", "gemini"] {
        assert_eq!(found(name), Found::Url(format!("http://127.0.0.1:4711/mcp/{name}")));
    }
    let Found::Program { argv, environment } = found("memory") else { panic!("it has no key") };
    assert_eq!(argv[..2], ["npx", "-y"]);
    assert_eq!(environment, [("MEMORY_FILE_PATH".to_owned(), "/home/harvest/.harvest/memory.jsonl".to_owned())]);
    let Found::Program { argv, .. } = found("filesystem") else { panic!("it has no key") };
    assert_eq!(argv.last().unwrap(), "/workspace");
}

#[test]
fn each_agent_is_told_in_its_own_way() {
    let registry = Registry::bundled().unwrap();
    let offers = offers();
    for (id, provider) in [
        ("builtin", Provider::Anthropic),
        ("claude-code", Provider::Anthropic),
        ("claude-agent-sdk", Provider::Anthropic),
        ("codex", Provider::Openai),
        ("gemini-cli", Provider::Gemini),
        ("opencode", Provider::Openai),
    ] {
        let agent = agent(&registry, id);
        assert!(agent.takes_tools() && agent.features.mcp, "{id}");
        let Invocation { argv, files, program, .. } = agent.command(&Turn { mcp: &offers, ..turn(provider) });
        insta::assert_debug_snapshot!(format!("told_{id}"), (program, argv, files));
        let plain = agent.command(&turn(provider));
        assert_eq!(agent.command(&Turn { plan: true, mcp: &offers, ..turn(provider) }).files, plain.files, "{id}");
    }
    for agent in [agent(&registry, "aider"), echo()] {
        assert!(!agent.takes_tools() && !agent.features.mcp, "{}", agent.id);
        let with = agent.command(&Turn { mcp: &offers, ..turn(Provider::Openai) });
        assert_eq!(with, agent.command(&turn(Provider::Openai)));
    }
}

#[test]
fn a_definition_that_cannot_be_meant_is_refused_by_name() {
    let said = |text: &str| {
        let table: toml::Table = text.parse().unwrap();
        Catalogue::bundled().unwrap().with("docs", table.into()).unwrap_err().to_string()
    };
    for (text, reason) in [
        ("", "set `command"),
        ("command = 'a'\nurl = 'https://b'", "keep one of them"),
        ("url = 'https://user:key@a.test'", "put a key into `credential`"),
        ("url = 'https://a.test'\nargs = ['x']", "need a `command`"),
        ("command = 'a'\ncredential = 'k'", "`credential_as` must name the variable"),
        ("command = 'a'\ncredential = 'k'\ncredential_as = 'A-B'", "is not a variable name"),
        ("command = 'a'\ncredential_as = 'A'", "`credential` is not"),
        ("command = 'a'\nenvironment = { 'A B' = 'x' }", "is not a variable name"),
        ("preset = 'nobody'", "use one of chrome-devtools"),
        ("preset = 'sentry'\ncommand = 'mine'", "must set `hosts` itself"),
        ("preset = 'sentry'\nargs = ['-y', 'mine']", "must set `hosts` itself"),
        ("preset = 'sentry'\nenvironment = { NODE_OPTIONS = '--import=data:,' }", "must set `hosts` itself"),
        ("preset = 'sentry'\ncredential = 'mine'\ncredential_as = 'NODE_OPTIONS'", "must set `hosts` itself"),
        ("url = 'https://a.test'\ncredential = 'k'\ncredential_as = 'Host'", "is a header of HTTP itself"),
        ("preset = 'sentry'\ncommand = 'mine'\nhosts = ['a.test']", "must set `credential` itself"),
        ("preset = 'github'\nurl = 'https://a.test'", "must set `credential` itself"),
        ("command = 'a'\ncolour = 'red'", "unknown field `colour`"),
    ] {
        let said = said(text);
        assert!(said.contains("`docs`") && said.contains(reason), "{text}: {said}");
    }
    let github: toml::Table = "preset = 'github'\ntools = ['get_issue']".parse().unwrap();
    let changed = Catalogue::bundled().unwrap().with("github", github.into()).unwrap();
    let entry = changed.get("github").unwrap();
    assert_eq!(entry.server, McpServer { tools: Some(vec!["get_issue".into()]), ..preset("github") });
    assert!(!entry.bundled);
    let own = "preset = 'sentry'\nargs = ['-y', 'mine']\nhosts = []\ncredential = 'mine'";
    let own: toml::Table = own.parse().unwrap();
    let changed = Catalogue::bundled().unwrap().with("sentry", own.into()).unwrap();
    let server = &changed.get("sentry").unwrap().server;
    let credential = server.credential.as_ref().map(|credential| credential.name.as_str());
    assert_eq!((server.hosts.as_slice(), credential), ([].as_slice(), Some("mine")));
}
