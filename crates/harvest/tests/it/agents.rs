//! Real agents of other makers in a real sandbox, on a model that wants a real key and is played by a script: they do their
//! work, what they report as used is what the books hold, and the key is found nowhere.
//!
//! They are installed from npm and kept, so they need the network once; `make test` asks for them when it is there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use harvest_core::CallId;
use harvest_gateway::{Ask, Call, Gateway, Grant, Meter, NoCredentials, Options, Refused, Script, Session, egress};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::credentials::holding;
use crate::support::{PATH, Ran, World};

const KEY: &str = "sk-canary-0123456789-wxyz";
/// Looks for the key wherever an agent can look, without naming it.
const SEARCH: &str = "key=$(printf 'sk-can%s' ary)
    (cat /proc/[0-9]*/environ | tr '\\0' '\\n'; env; grep -rIsl \"$key\" / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr) 2>/dev/null |
    grep -c -e \"$key\" -e '^/' | sed 's/^/found /'";

/// A vendor's host on loopback: a scripted model that remembers the heads of the requests it got.
struct Vendor {
    address: String,
    seen: Arc<Mutex<String>>,
    _runtime: tokio::runtime::Runtime,
}

#[derive(Debug)]
struct Generous;

#[async_trait]
impl Meter for Generous {
    async fn reserve(&self, ask: Ask) -> Result<Grant, Refused> {
        Ok(Grant::new("0000000000000001".parse::<CallId>().unwrap(), ask.cost.most))
    }

    async fn settle(&self, _grant: Grant, _call: Call) {}

    async fn release(&self, _grant: Grant) {}
}

impl Vendor {
    fn start(world: &World, model: &str) -> Self {
        let replies = json!([
            { "say": "I will look first.", "shell": SEARCH, "tokens": { "input": 1200, "output": 40, "cache_read": 300 } },
            { "expect": "found 0", "shell": crate::support::FIX, "tokens": { "input": 1250, "output": 12 } },
            { "say": "The test passes.", "tokens": { "input": 1300, "output": 9 } },
        ]);
        let conversation = json!({ "when_prompt_contains": "failing test", "replies": replies });
        let script = json!({ "model": model, "conversations": [conversation, { "replies": [{ "say": "Yes." }] }] });
        let script = Some(Arc::new(Script::parse(&script.to_string()).unwrap()));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (socket, seen) = (world.path().join("vendor"), Arc::new(Mutex::new(String::new())));
        let recorder = Arc::clone(&seen);
        let address = runtime.block_on(async {
            let gateway = Gateway::new(Options { script, ..Options::default() }).unwrap();
            let session = Session {
                id: "vendor".into(),
                meter: Arc::new(Generous),
                credentials: Arc::new(NoCredentials),
                git: None,
                egress: egress::Access::none(),
            };
            let serving = gateway.serve(UnixListener::bind(&socket).unwrap(), session);
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = format!("http://{}", listener.local_addr().unwrap());
            tokio::spawn(async move {
                let _serving = serving;
                while let Ok((client, _)) = listener.accept().await {
                    tokio::spawn(pass_on(client, socket.clone(), Arc::clone(&recorder)));
                }
            });
            address
        });
        Self { address, seen, _runtime: runtime }
    }

    fn saw(&self, text: &str) -> bool {
        self.seen.lock().unwrap().contains(text)
    }
}

async fn pass_on(client: TcpStream, socket: PathBuf, seen: Arc<Mutex<String>>) {
    let (mut from, mut to) = client.into_split();
    let (mut answers, mut requests) = UnixStream::connect(socket).await.unwrap().into_split();
    let answering = tokio::spawn(async move { tokio::io::copy(&mut answers, &mut to).await });
    let mut piece = [0; 8192];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        seen.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..read]));
        requests.write_all(&piece[..read]).await.unwrap();
    }
    drop(requests);
    let _ = answering.await;
}

/// A package of npm, installed once with the settings of whoever runs the tests.
fn package(name: &str, package: &str) -> PathBuf {
    let tools = std::env::var_os("HARVEST_TOOLS").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let folder = Path::new(&tools).join(name);
    if !folder.join("complete").exists() {
        fs::create_dir_all(&folder).unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]).arg(&folder).arg(package);
        let output = npm.current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::write(folder.join("complete"), "").unwrap();
    }
    folder.join("node_modules")
}

struct Agent {
    id: &'static str,
    program: PathBuf,
    provider: &'static str,
    model: &'static str,
    /// How the key is shown to the vendor.
    header: String,
}

/// The agent mends the sample repository, with the key in the vault. Returns what was printed.
fn mends_the_repository(agent: &Agent) -> Ran {
    let world = World::new();
    let vendor = Vendor::start(&world, agent.model);
    let bin = world.path().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(&agent.program, bin.join(agent.program.file_name().unwrap())).unwrap();
    let address = format!("{}/{}", vendor.address, agent.provider);
    let args = ["credential", "add", agent.provider, "--base-url", &address, "--from-stdin"];
    assert_eq!(world.harvest(&args).input(KEY).finish().exit, Some(0));
    let cassette = world.path().join("cassette.jsonl");
    let args = ["run", "Make the failing test pass", "--agent", agent.id, "--model", agent.model, "--json", "--record"];
    let mut run = world.harvest(&args);
    run.command.arg(&cassette).env("PATH", format!("{}:{PATH}", bin.display()));
    let ran = run.finish();
    ran.assert_ended(0, "completed", None);
    assert!(vendor.saw(&agent.header), "the vendor got the key");
    assert!(!vendor.saw("earer placeholder"), "and not what the agent sent");
    assert!(ran.stdout.contains("found 0"), "the agent looked for it: {}", ran.stdout);
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("sk-canary"));
    assert!(fs::metadata(&cassette).unwrap().len() > 1000, "the run was recorded");
    assert_eq!(holding(world.path(), b"sk-canary"), Vec::<String>::new());
    world.assert_nothing_left();
    ran
}

/// The sum of all model calls, and the cost.
fn books(ran: &Ran) -> (Value, f64) {
    let outcome = ran.events().into_iter().find(|event| event["type"] == "task.finished").unwrap()["data"].clone();
    (outcome["usage"].clone(), outcome["cost_usd"].as_f64().unwrap())
}

/// The line in which the agent itself says what it used.
fn reported(ran: &Ran, kind: &str) -> Value {
    let raw = ran.events().into_iter().filter(|event| event["type"] == "raw");
    let lines = raw.filter_map(|event| serde_json::from_str::<Value>(event["data"]["line"].as_str()?).ok());
    lines.into_iter().find(|line| line["type"] == kind).unwrap_or_else(|| panic!("no {kind}: {ran:?}"))
}

#[test]
#[ignore = "needs the network"]
fn claude_code_works_counts_as_we_do_and_never_sees_the_key() {
    let folder = package("claude-code-2.1.325", "@anthropic-ai/claude-code-linux-x64@2.1.325");
    let ran = mends_the_repository(&Agent {
        id: "claude-code",
        program: folder.join("@anthropic-ai/claude-code-linux-x64/claude"),
        provider: "anthropic",
        model: "claude-sonnet-4-5",
        header: format!("x-api-key: {KEY}"),
    });
    let (usage, cost) = books(&ran);
    let result = reported(&ran, "result");
    for (ours, theirs) in [
        ("input_tokens", "input_tokens"),
        ("output_tokens", "output_tokens"),
        ("cache_read_tokens", "cache_read_input_tokens"),
        ("cache_write_tokens", "cache_creation_input_tokens"),
    ] {
        assert_eq!(usage[ours], result["usage"][theirs], "{ours}: {result}");
    }
    assert_eq!(usage["input_tokens"], 3750);
    let theirs = result["total_cost_usd"].as_f64().unwrap();
    assert!((cost - theirs).abs() < 1e-9 && cost > 0.01, "{cost} {theirs}");
}

#[test]
#[ignore = "needs the network"]
fn codex_works_counts_as_we_do_and_never_sees_the_key() {
    let folder = package("codex-0.166.0", "@openai/codex-linux-x64@npm:@openai/codex@0.166.0-linux-x64");
    let ran = mends_the_repository(&Agent {
        id: "codex",
        program: folder.join("@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"),
        provider: "openai",
        model: "gpt-5",
        header: format!("authorization: Bearer {KEY}"),
    });
    let (usage, cost) = books(&ran);
    let theirs = reported(&ran, "turn.completed")["usage"].clone();
    let number = |value: &Value| value.as_u64().unwrap();
    // Codex counts cached tokens in.
    let input = number(&usage["input_tokens"]) + number(&usage["cache_read_tokens"]);
    assert_eq!((input, &usage["cache_read_tokens"]), (number(&theirs["input_tokens"]), &theirs["cached_input_tokens"]));
    assert_eq!(usage["output_tokens"], theirs["output_tokens"]);
    assert!(cost > 0.0, "gpt-5 has a price");
}

#[test]
fn an_agent_that_is_not_installed_is_told_before_anything_is_made() {
    let world = World::new();
    let script = world.script(&json!([{ "say": "Hello." }])).display().to_string();
    let ran =
        world.harvest(&["run", "Do it", "--agent", "codex", "--json", "--test", "true", "--model-script", &script]);
    let ran = ran.finish();
    ran.assert_ended(1, "failed", Some("agent"));
    let outcome = ran.events().into_iter().find(|event| event["type"] == "task.finished").unwrap();
    let expected = "Codex CLI is not installed on this machine: npm install --global @openai/codex";
    assert_eq!(outcome["data"]["error"], expected);
    assert!(!ran.stdout.contains("sandbox.ready"), "{}", ran.stdout);
}
