//! Servers that offer tools to agents: those with a key run where the agent cannot look.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::agents::{SEARCH, global_package, package};
use crate::credentials::holding;
use crate::support::{FIX, PATH, Ran, World};

const KEY: &str = "sk-canary-0123456789-wxyz";

/// A real server: it knows how long its key is, repeats it when asked, and has a tool that nobody should call.
const SERVER: &str = r#"
import json, os, sys
key = os.environ.get("TRACKER_TOKEN", "")
tools = ["whoami", "repeat", "drop"]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = None
    if message["method"] == "ping":
        result = {}
    elif message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in tools]}
    elif message["method"] == "tools/call":
        said = {"whoami": "my key has %d characters, I am in %s" % (len(key), os.getcwd()), "repeat": "it is " + key}
        result = {"content": [{"type": "text", "text": said.get(message["params"]["name"], "dropped")}]}
    answer = {"error": {"code": -32601, "message": "there is no such method"}} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"#;

/// Asks the gateway for a tool that the agent was not told of.
const SMUGGLE: &str = r#"python3 -c '
import json, os, urllib.request
url = json.load(open(os.path.expanduser("~/.harvest/mcp.json")))["mcpServers"]["tracker"]["url"]
body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "drop"}}).encode()
request = urllib.request.Request(url, body, {"content-type": "application/json"})
print(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).read().decode())'"#;

fn configure(world: &World, more: &str) {
    let file = world.home().join(".config/harvest/harvest.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let server = format!("[mcp.tracker]\ncommand = 'python3'\nargs = ['-c', '''{SERVER}''']\n{more}");
    fs::write(file, server).unwrap();
}

fn with_key(world: &World) {
    configure(world, "credential = 'tracker'\ncredential_as = 'TRACKER_TOKEN'\ntools = ['whoami', 'repeat']\n");
    let args = ["credential", "add", "mcp", "--name", "tracker", "--from-stdin"];
    assert_eq!(world.harvest(&args).input(KEY).finish().exit, Some(0));
}

fn calls(ran: &Ran) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    ran.of_type("mcp.called").iter().map(|data| (text(&data["tool"]), text(&data["outcome"]))).collect()
}

fn replies() -> Value {
    json!([
        { "tool": { "name": "mcp__tracker__whoami", "input": {} } },
        { "expect": "my key has 25 characters", "tool": { "name": "mcp__tracker__repeat", "input": {} } },
        { "expect": "it is [redacted]", "shell": SMUGGLE },
        { "expect": "is not allowed here", "shell": SEARCH },
        { "expect": "found 0", "shell": FIX },
        { "say": "The test passes." },
    ])
}

fn assert_kept_away(world: &World, ran: &Ran) {
    let expected = [("whoami", "answered"), ("repeat", "answered"), ("drop", "refused")];
    assert_eq!(calls(ran), expected.map(|(tool, outcome)| (tool.to_owned(), outcome.to_owned())));
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("sk-canary"), "{ran:?}");
    assert_eq!(holding(world.path(), b"sk-canary"), Vec::<String>::new());
    world.assert_nothing_left();
}

/// A server that encodes its key, and one that ends with it on standard error, where what is told of it is cut within the key.
#[test]
fn a_server_that_encodes_its_key_or_dies_with_it_shows_it_to_nobody() {
    let world = World::new();
    with_key(&world);
    let file = world.home().join(".config/harvest/harvest.toml");
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace(
        r#""repeat": "it is " + key}"#,
        r#""repeat": "hex %s base64 %s percent %s" % (key.encode().hex(), __import__("base64").b64encode(key.encode()).decode(), key.replace("-", "%2D"))}
        if message["params"]["name"] == "whoami":
            print("x" * 490 + key, file=sys.stderr, flush=True)
            os._exit(3)"#,
    );
    fs::write(&file, text).unwrap();
    let replies = json!([
        { "tool": { "name": "mcp__tracker__repeat", "input": {} } },
        { "expect": "hex [redacted]", "tool": { "name": "mcp__tracker__whoami", "input": {} } },
        { "expect": "it ended with exit code 3: xxx", "shell": FIX },
        { "say": "The test passes." },
    ]);
    let ran = world.run(&replies, &["--mcp", "tracker", "--agent", "builtin"]);
    ran.assert_ended(0, "completed", None);
    let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let seen = format!("{}{}", ran.stdout, ran.stderr);
    for part in ["xsk-canary", &hex, "c2stY2FuYXJ5"] {
        assert!(!seen.contains(part), "{part}: {seen}");
    }
}

#[test]
fn the_built_in_agent_uses_a_server_whose_key_it_cannot_find() {
    let world = World::new();
    with_key(&world);
    let ran = world.run(&replies(), &["--mcp", "tracker", "--agent", "builtin"]);
    ran.assert_ended(0, "completed", None);
    assert_kept_away(&world, &ran);
}

/// Killed when the server's sandbox was only written down: the next command finds nothing of it.
#[cfg(feature = "failpoints")]
#[test]
fn a_crash_leaves_nothing_of_a_server() {
    let world = World::new();
    with_key(&world);
    let run = world.run_with(&replies(), &["--mcp", "tracker", "--agent", "builtin"]);
    let ran = run.env("HARVEST_FAILPOINTS", "mcp::recorded=return(crash)").finish();
    assert_eq!(ran.exit, None, "{ran:?}");
    assert_eq!(world.tasks()[0]["status"], "failed");
    world.assert_nothing_left();
}

#[test]
fn without_its_key_a_server_is_done_without() {
    let world = World::new();
    configure(&world, "credential = 'tracker'\ncredential_as = 'TRACKER_TOKEN'\n");
    let ran = world.run(&json!([{ "shell": FIX }, {}]), &["--mcp", "tracker"]);
    ran.assert_ended(0, "completed", None);
    assert!(ran.stdout.contains("harvest credential add mcp --name tracker"), "{}", ran.stdout);
    world.assert_nothing_left();
}

#[test]
fn a_server_without_a_key_runs_beside_the_agent_and_offers_what_is_allowed() {
    let world = World::new();
    configure(&world, "tools = ['whoami']\n");
    let replies = json!([
        { "tool": { "name": "mcp__tracker__whoami", "input": {} } },
        { "expect": "my key has 0 characters, I am in /workspace", "shell": FIX },
        {},
    ]);
    let ran = world.run(&replies, &["--mcp", "tracker"]);
    ran.assert_ended(0, "completed", None);
    let forbidden = json!([{ "tool": { "name": "mcp__tracker__drop", "input": {} } }, {}]);
    let refused = world.run(&forbidden, &["--mcp", "tracker"]);
    refused.assert_ended(1, "failed", Some("agent"));
    assert!(refused.stdout.contains("mcp__tracker__whoami"), "the model is told what there is: {}", refused.stdout);
    world.assert_nothing_left();
}

#[test]
fn whatever_is_wrong_with_a_server_is_said_before_anything_begins() {
    let world = World::new();
    let unknown = world.run(&json!([{}]), &["--mcp", "nobody"]);
    assert!(unknown.exit == Some(2) && unknown.stderr.contains("there is no MCP server `nobody`"), "{unknown:?}");
    assert!(unknown.stderr.contains("chrome-devtools, context7"), "{unknown:?}");
    configure(&world, "url = 'https://example.com'\n");
    let both = world.run(&json!([{}]), &["--mcp", "tracker"]);
    assert!(both.exit == Some(2) && both.stderr.contains("has both a `command` and a `url`"), "{both:?}");
    configure(&world, "");
    world.write(".harvest.toml", "[mcp.evil]\ncommand = 'sh'\n");
    world.commit("Ask for more");
    let repository = world.run(&json!([{}]), &[]);
    assert!(
        repository.exit == Some(2) && repository.stderr.contains("`mcp` cannot be set by a repository"),
        "{repository:?}"
    );
    assert!(world.tasks().is_empty());
}

#[test]
fn servers_are_listed_shown_added_and_removed() {
    let world = World::empty();
    let names = |list: &Value| {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let known = [
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
    assert_eq!(names(&world.json(&["mcp", "list"])), known);
    assert_eq!(world.json(&["mcp", "show", "github"])["has_key"], false);
    let tools = ["mcp", "add", "github", "--preset", "github", "--tool", "get_issue"];
    world.json(&tools);
    let shown = world.json(&["mcp", "show", "github"]);
    assert_eq!((&shown["tools"], &shown["bundled"]), (&json!(["get_issue"]), &json!(false)));
    assert_eq!(shown["at"]["url"], "https://api.githubcopilot.com/mcp/");
    let args = ["mcp", "add", "docs", "--command", "npx", "--arg", "-y", "--arg", "docs-mcp@1.0.0", "--env", "A=b=c"];
    world.json(&args);
    let docs = world.json(&["mcp", "show", "docs"]);
    assert_eq!(docs["at"], json!({ "kind": "program", "command": "npx", "args": ["-y", "docs-mcp@1.0.0"] }));
    assert_eq!((&docs["environment"], &docs["runs"]), (&json!({ "A": "b=c" }), &json!("in the agent's sandbox")));
    world.json(&["mcp", "remove", "docs"]);
    world.json(&["mcp", "remove", "github"]);
    assert_eq!(names(&world.json(&["mcp", "list"])), known);
    for (args, reason) in [
        (vec!["mcp", "remove", "docs"], "there is no file"),
        (vec!["mcp", "remove", "../docs"], "there is no file"),
        (vec!["mcp", "show", "docs"], "there is no MCP server `docs`"),
        (vec!["mcp", "add", "Docs", "--url", "https://a.test"], "lower-case"),
        (vec!["mcp", "add", "docs"], "set `command"),
        (vec!["mcp", "add", "docs", "--url", "ftp://a"], "must begin with https://"),
        (vec!["mcp", "add", "docs", "--command", "npx", "--credential", "x"], "`credential_as` must name the variable"),
        (vec!["mcp", "add", "docs", "--preset", "nobody"], "uses the preset `nobody`"),
    ] {
        let ran = world.harvest(&args).finish();
        assert!(ran.exit == Some(2) && ran.stderr.contains(reason), "{args:?}: {ran:?}");
    }
    let list = world.harvest(&["mcp", "list"]).finish();
    assert!(list.stdout.contains("key  harvest credential add mcp --name sentry"), "{}", list.stdout);
}

fn runs_with_real(id: &str, program: &Path, replies: &Value) -> (World, Ran) {
    let world = World::new();
    with_key(&world);
    let bin = world.path().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(program, bin.join(program.file_name().unwrap())).unwrap();
    let conversations = json!([
        { "when_prompt_contains": "failing test", "replies": replies },
        { "replies": [{ "say": "Yes." }] },
    ]);
    let script = world.path().join("script");
    fs::write(&script, json!({ "conversations": conversations }).to_string()).unwrap();
    let args = ["run", "Make the failing test pass", "--agent", id, "--mcp", "tracker", "--json", "--model-script"];
    let mut run = world.harvest(&args);
    run.command.arg(&script).env("PATH", format!("{}:{PATH}", bin.display()));
    let ran = run.finish();
    ran.assert_ended(0, "completed", None);
    (world, ran)
}

/// The tool as each agent calls it, and what comes of it.
fn asks_a_server(id: &str, program: &Path, tool: &str) {
    let replies = json!([
        // Some begin before their servers have answered.
        { "shell": "sleep 3" },
        { "tool": { "name": tool, "input": {} } },
        { "expect": "my key has 25 characters", "shell": FIX },
        { "say": "The test passes." },
    ]);
    let (world, ran) = runs_with_real(id, program, &replies);
    assert_eq!(calls(&ran), [("whoami".to_owned(), "answered".to_owned())]);
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("sk-canary"), "{ran:?}");
    world.assert_nothing_left();
}

#[test]
#[ignore = "needs the network"]
fn codex_asks_a_server() {
    let folder = package("codex-0.166.0", "@openai/codex-linux-x64@npm:@openai/codex@0.166.0-linux-x64");
    let program = folder.join("@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex");
    asks_a_server("codex", &program, "mcp__tracker__whoami");
}

#[test]
#[ignore = "needs the network"]
fn gemini_cli_asks_a_server() {
    let program = package("gemini-cli-0.61.0", "@google/gemini-cli@0.61.0").join(".bin/gemini");
    asks_a_server("gemini-cli", &program, "mcp_tracker_whoami");
}

#[test]
#[ignore = "needs the network"]
fn the_claude_agent_sdk_asks_a_server() {
    let folder = global_package("claude-agent-acp-0.99.0", "@agentclientprotocol/claude-agent-acp@0.99.0");
    asks_a_server("claude-agent-sdk", &folder.join("claude-agent-acp"), "mcp__tracker__whoami");
}

#[test]
#[ignore = "needs the network"]
fn opencode_asks_a_server() {
    let folder = package("opencode-1.18.33", "opencode-linux-x64@1.18.33");
    asks_a_server("opencode", &folder.join("opencode-linux-x64/bin/opencode"), "tracker_whoami");
}

#[test]
#[ignore = "needs the network"]
fn claude_code_uses_a_server_whose_key_it_cannot_find() {
    let folder = package("claude-code-2.1.325", "@anthropic-ai/claude-code-linux-x64@2.1.325");
    let program = folder.join("@anthropic-ai/claude-code-linux-x64/claude");
    let (world, ran) = runs_with_real("claude-code", &program, &replies());
    assert_kept_away(&world, &ran);
}
