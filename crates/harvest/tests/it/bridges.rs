//! Agents that do not simply print: one that speaks the Agent Client Protocol and one that insists on a terminal, each added by
//! a file alone, each in a real sandbox.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agents::{add_agent, global_package, package, program};
use crate::support::{FIX, Harvest, PATH, World};

/// A program that is an ACP agent when it is asked to be.
#[derive(Clone, Copy)]
struct Acp {
    id: &'static str,
    /// Of one that does not come with Harvest.
    definition: &'static str,
    model: &'static str,
    program: fn() -> PathBuf,
}

const GEMINI_CLI: Acp = Acp {
    id: "mine",
    definition: r#"
[[agent]]
id = "mine"
name = "Gemini CLI over ACP"
providers = ["gemini"]
dialect = "acp"
prompt = "stdin"
command = "gemini"
arguments = ["--acp", "--yolo", "--skip-trust", "--model", "{model}"]
install_hint = "npm install --global @google/gemini-cli"
environment = { GEMINI_API_KEY = "placeholder", GOOGLE_GEMINI_BASE_URL = "{base_url}" }

[[agent.files]]
path = "{home}/.gemini/settings.json"
content = '''
{ "general": { "enableAutoUpdate": false }, "privacy": { "usageStatisticsEnabled": false },
  "security": { "auth": { "selectedType": "gemini-api-key" } }, "telemetry": { "enabled": false },
  "tools": { "shell": { "enableInteractiveShell": false } } }
'''
"#,
    model: "gemini-2.5-pro",
    program: || package("gemini-cli-0.61.0", "@google/gemini-cli@0.61.0").join(".bin/gemini"),
};

const OPENCODE: Acp = Acp {
    id: "mine",
    definition: r#"
[[agent]]
id = "mine"
name = "OpenCode over ACP"
providers = ["openai"]
dialect = "acp"
prompt = "stdin"
command = "opencode"
arguments = ["acp"]
install_hint = "npm install --global opencode-ai"
environment = { OPENCODE_CONFIG = "{home}/opencode.json", OPENCODE_DISABLE_AUTOUPDATE = "1", OPENCODE_DISABLE_MODELS_FETCH = "1" }

[[agent.files]]
path = "{home}/opencode.json"
content = '''
{ "autoupdate": false, "share": "disabled", "model": "harvest/{model}", "provider": { "harvest": {
    "npm": "@ai-sdk/openai-compatible", "name": "Harvest",
    "options": { "baseURL": "{base_url}/v1", "apiKey": "placeholder" },
    "models": { "{model}": { "name": "{model}", "tool_call": true } } } } }
'''
"#,
    model: "gpt-5",
    program: || package("opencode-1.18.33", "opencode-linux-x64@1.18.33").join("opencode-linux-x64/bin/opencode"),
};

const CLAUDE_AGENT_SDK: Acp = Acp {
    id: "claude-agent-sdk",
    definition: "",
    model: "claude-sonnet-4-5",
    program: || {
        let package = "@agentclientprotocol/claude-agent-acp@0.99.0";
        global_package("claude-agent-acp-0.99.0", package).join("claude-agent-acp")
    },
};

impl Acp {
    fn run_with(self, world: &World, replies: &Value) -> Harvest {
        add_agent(world, self.definition);
        let (bin, program) = (world.path().join("bin"), (self.program)());
        fs::create_dir(&bin).unwrap();
        symlink(&program, bin.join(program.file_name().unwrap())).unwrap();
        let conversations = json!([
            { "when_prompt_contains": "failing test", "replies": replies },
            { "replies": [{ "say": "Yes." }] },
        ]);
        let script = world.path().join("script.json");
        fs::write(&script, json!({ "model": self.model, "conversations": conversations }).to_string()).unwrap();
        let mut run = world.harvest(&["run", "Make the failing test pass", "--agent", self.id, "--json"]);
        run.command.arg("--model-script").arg(&script).env("PATH", format!("{}:{PATH}", bin.display()));
        run
    }
}

fn mends_the_repository(agent: Acp) {
    let world = World::new();
    let tokens = json!({ "input": 100, "output": 10 });
    let ran = agent.run_with(
        &world,
        &json!([
            { "say": "I will look first.", "shell": "cat src/two.sh", "tokens": tokens },
            { "shell": FIX, "tokens": tokens },
            { "say": "The test passes.", "tokens": tokens },
        ]),
    );
    let ran = ran.finish();
    let outcome = ran.assert_ended(0, "completed", None);
    assert!(outcome["branch"].is_string() && outcome["usage"]["input_tokens"] == 300, "{outcome:#}");
    let said: Vec<Value> = ran.of_type("message").iter().map(|data| data["text"].clone()).collect();
    assert_eq!(said, ["I will look first.", "The test passes."]);
    let (calls, results) = (ran.of_type("tool.call"), ran.of_type("tool.result"));
    assert_eq!((calls.len(), results.len()), (2, 2), "{calls:#?} {results:#?}");
    assert!(results[0]["output"].as_str().unwrap().contains("echo three"), "{results:#?}");
    assert_eq!(calls[0]["id"], results[0]["id"]);
    assert!(calls[0]["input"].to_string().contains("cat src/two.sh"), "{calls:#?}");
    let changed: Vec<Value> = ran.of_type("file.changed").iter().map(|data| data["path"].clone()).collect();
    assert_eq!(changed, ["src/two.sh"], "nothing of the agent's own is delivered");
    world.assert_nothing_left();
}

fn is_told_to_stop(agent: Acp) {
    let world = World::new();
    let replies = json!([{ "shell": FIX }, { "stall": "10m", "say": "Late." }]);
    let mut running = agent.run_with(&world, &replies).start();
    running.wait_for_type("tool.result");
    running.signal(Signal::INT);
    let ran = running.finish();
    let outcome = ran.assert_ended(3, "cancelled", Some("cancelled"));
    assert!(ran.stdout.contains("the agent was interrupted"), "{}", ran.stdout);
    let branch = outcome["branch"].as_str().unwrap_or_else(|| panic!("no branch: {outcome:#}"));
    assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two");
    world.assert_nothing_left();
}

fn tells_that_the_model_refuses(agent: Acp) {
    let world = World::new();
    let ran = agent.run_with(&world, &json!([{ "shell": FIX }, { "expect": "words that nobody says" }])).finish();
    let outcome = ran.assert_ended(1, "failed", Some("agent"));
    assert!(outcome["branch"].is_string(), "{outcome:#}");
    world.assert_nothing_left();
}

#[test]
#[ignore = "needs the network"]
fn gemini_cli_mends_the_repository_over_acp() {
    mends_the_repository(GEMINI_CLI);
}

#[test]
#[ignore = "needs the network"]
fn gemini_cli_is_told_to_stop_over_acp() {
    is_told_to_stop(GEMINI_CLI);
}

#[test]
#[ignore = "needs the network"]
fn gemini_cli_tells_over_acp_that_the_model_refuses() {
    tells_that_the_model_refuses(GEMINI_CLI);
}

#[test]
#[ignore = "needs the network"]
fn opencode_mends_the_repository_over_acp() {
    mends_the_repository(OPENCODE);
}

#[test]
#[ignore = "needs the network"]
fn opencode_is_told_to_stop_over_acp() {
    is_told_to_stop(OPENCODE);
}

#[test]
#[ignore = "needs the network"]
fn the_claude_agent_sdk_mends_the_repository() {
    mends_the_repository(CLAUDE_AGENT_SDK);
}

#[test]
#[ignore = "needs the network"]
fn the_claude_agent_sdk_is_told_to_stop() {
    is_told_to_stop(CLAUDE_AGENT_SDK);
}

/// It has colours, writes over its own lines, asks for the prompt and refuses to work without a terminal.
const TERMINAL_AGENT: &str = r#"#!/bin/sh
[ -t 0 ] && [ -t 1 ] && [ -t 2 ] || { echo 'I work on a terminal only' >&2; exit 7; }
trap 'printf "\033[31minterrupted\033[0m\n"; exit 130' INT
printf '\033]0;My agent\007\033[1mWhat shall I do?\033[0m\n'
read -r prompt
printf '10 %%\r100 %%\n\033[32mI was asked: %s\033[0m\n' "$prompt"
printf 'echo two\n' > src/two.sh
case "$prompt" in *wait*) sleep 987654 & wait;; esac
"#;

fn terminal_agent(terminal: bool) -> (World, tempfile::TempDir) {
    let world = World::new();
    let folder = program("mine", TERMINAL_AGENT);
    let definition = format!(
        "[[agent]]\nid = 'mine'\nname = 'On a terminal'\nproviders = ['openai']\ndialect = 'text'\nprompt = 'stdin'\n\
         terminal = {terminal}\ncommand = '{}'\ninstall_hint = 'write it'\n",
        folder.path().join("mine").display()
    );
    add_agent(&world, &definition);
    (world, folder)
}

#[test]
fn a_program_that_insists_on_a_terminal_gets_one() {
    let (world, _folder) = terminal_agent(false);
    let refused = world.run(&json!([{}]), &["--agent", "mine"]);
    refused.assert_ended(1, "failed", Some("agent"));
    assert!(refused.stdout.contains("I work on a terminal only"), "{}", refused.stdout);

    let (world, _folder) = terminal_agent(true);
    let ran = world.run(&json!([{}]), &["--agent", "mine"]);
    ran.assert_ended(0, "completed", None);
    let said: Vec<Value> = ran.of_type("message").iter().map(|data| data["text"].clone()).collect();
    assert_eq!(said, ["What shall I do?", "100 %", "I was asked: Make the failing test pass"]);
    world.assert_nothing_left();
}

#[test]
fn a_program_on_a_terminal_is_interrupted_as_if_by_a_key() {
    let (world, _folder) = terminal_agent(true);
    let script = world.script(&json!([{}])).display().to_string();
    let mut running =
        world.harvest(&["run", "wait for me", "--agent", "mine", "--json", "--model-script", &script]).start();
    running
        .wait_for("its echo", |event| event["data"]["text"].as_str().is_some_and(|text| text.contains("wait for me")));
    running.signal(Signal::INT);
    let ran = running.finish();
    ran.assert_ended(3, "cancelled", Some("cancelled"));
    assert_eq!(ran.of_type("message").last().unwrap()["text"], "interrupted");
    world.assert_nothing_left();
}
