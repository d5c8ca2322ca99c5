//! Real agents of other makers in a real sandbox, on a model that wants a real key and is played by a script: they do their
//! work, what they report as used is what the books hold, and the key is found nowhere.
//!
//! They are installed from npm and kept, so they need the network once; `make test` asks for them when it is there.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use harvest_core::CallId;
use harvest_gateway::{Ask, Call, Gateway, Grant, Meter, NoCredentials, Options, Refused, Script, Session, egress};
use harvest_testing::Filling;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::credentials::holding;
use crate::support::{PATH, Ran, World};

const KEY: &str = "sk-canary-0123456789-wxyz";
/// Looks for the key wherever an agent can look, without naming it.
pub const SEARCH: &str = "printf 'sk-can%s\\n' ary | { read -r key
    (cat /proc/[0-9]*/environ | tr '\\0' '\\n'; env; grep -rIsl \"$key\" / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr) 2>/dev/null |
    grep -c -e \"$key\" -e '^/' | sed 's/^/found /'; }";

/// A vendor's host on loopback: a scripted model that remembers the heads of the requests it got.
pub struct Vendor {
    pub address: String,
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
    fn start(world: &World, agent: &Agent) -> Self {
        let model = agent.model;
        let replies = json!([
            { "say": "I will look first.", "shell": SEARCH, "tokens": { "input": 1200, "output": 40, "cache_read": 300 } },
            { "expect": "found 0", "shell": crate::support::FIX, "tokens": { "input": 1250, "output": 12 } },
            { "say": "The test passes.", "tokens": { "input": 1300, "output": 9 } },
        ]);
        let conversation = json!({ "when_prompt_contains": "failing test", "replies": replies });
        let edit =
            "Here it is.\n\nsrc/two.sh\n```\n<<<<<<< SEARCH\necho three\n=======\necho two\n>>>>>>> REPLACE\n```\n";
        let replies = json!([{ "say": edit, "tokens": { "input": 1200, "output": 40 } }]);
        let others = if agent.has_shell {
            json!({ "replies": [{ "say": "Yes." }] })
        } else {
            json!({ "without_tools": true, "replies": replies })
        };
        Self::playing(world, &json!({ "model": model, "conversations": [conversation, others] }))
    }

    /// One that plays this script.
    pub fn playing(world: &World, script: &Value) -> Self {
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
                server_tools: harvest_gateway::ServerTools::none(),
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

/// A folder with something that is installed once, with the settings of whoever runs the tests.
pub fn installed(name: &str, install: impl Fn(&Path)) -> PathBuf {
    let tools = std::env::var_os("HARVEST_TOOLS").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let folder = Path::new(&tools).join(name);
    if let Some(filling) = Filling::of(&folder).unwrap() {
        install(&folder);
        filling.complete().unwrap();
    }
    folder
}

pub fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A package of npm.
pub fn package(name: &str, package: &str) -> PathBuf {
    let folder = installed(name, |folder| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]).arg(folder).arg(package);
        succeeds(npm.current_dir(folder));
    });
    folder.join("node_modules")
}

/// A package of npm with everything it needs in its own folder, as it is for those who install it for all their work.
pub fn global_package(name: &str, package: &str) -> PathBuf {
    let folder = installed(name, |folder| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--global", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]);
        succeeds(npm.arg(folder).arg(package).current_dir(folder));
    });
    folder.join("bin")
}

/// A package of PyPI, in a virtual environment.
pub fn python_package(name: &str, package: &str) -> PathBuf {
    let folder = installed(name, |folder| {
        succeeds(Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")));
        succeeds(Command::new(folder.join("venv/bin/pip")).args(["install", "--quiet", package]));
    });
    folder.join("venv")
}

struct Agent {
    id: &'static str,
    program: PathBuf,
    provider: &'static str,
    model: &'static str,
    /// How the key is shown to the vendor.
    header: String,
    /// It can run what the model wants it to run.
    has_shell: bool,
}

/// The agent mends the sample repository, with the key in the vault. Returns what was printed.
fn mends_the_repository(agent: &Agent) -> Ran {
    let world = World::new();
    let vendor = Vendor::start(&world, agent);
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
    assert!(!vendor.saw("earer placeholder") && !vendor.saw("key: placeholder"), "and not what the agent sent");
    assert!(ran.stdout.contains("found 0") || !agent.has_shell, "the agent looked for it: {}", ran.stdout);
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("sk-canary"));
    assert!(fs::metadata(&cassette).unwrap().len() > 1000, "the run was recorded");
    let met = format!("{}{}{}", ran.stdout, ran.stderr, fs::read_to_string(&cassette).unwrap());
    assert!(!met.contains("HV-0412") && !met.contains("HV-0413"), "a default run meets no refusal: {met}");
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
        has_shell: true,
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
        has_shell: true,
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

/// Two turns of one session, each in a sandbox of its own: in the second the agent goes on with its own conversation, which
/// the model sees whole. After that it is stopped midway, and goes on once more.
fn remembers_its_conversation(id: &str, program: &Path) {
    let world = World::new();
    let bin = world.path().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(program, bin.join(program.file_name().unwrap())).unwrap();
    let path = format!("{}:{PATH}", bin.display());
    let script = |name: &str, replies: Value| {
        // Which conversation a request belongs to is told by its first prompt, and where it is by the answers in it.
        let conversations = json!([
            { "when_prompt_contains": "failing test", "replies": replies },
            { "replies": [{ "say": "Yes." }] },
        ]);
        let file = world.path().join(name);
        fs::write(&file, json!({ "conversations": conversations }).to_string()).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let begun = json!([{ "shell": crate::support::FIX }, { "say": "The test passes." }]);
    let more = json!([{}, {}, { "expect": "second thing", "shell": "echo 2 > second" }, { "say": "Done, too." }]);
    let stuck = json!([{}, {}, {}, {}, { "expect": "third thing", "shell": "echo 3 > third" }, { "stall": "5m" }]);
    // One that was interrupted may put an answer of its own in between.
    let half = json!({ "shell": "echo 4 > fourth" });
    let last = json!([{}, {}, {}, {}, {}, half, half, { "say": "All done." }]);
    let first = script("first", begun);
    let args = ["run", "Make the failing test pass", "--agent", id, "--json", "--model-script", &first];
    let first = world.harvest(&args).env("PATH", &path).finish().assert_ended(0, "completed", None);
    let task = first["task_id"].as_str().unwrap();
    let up = |script: &str| {
        let args = ["up", "--until-empty", "--json", "--model-script", script];
        world.harvest(&args).env("PATH", &path).start()
    };
    world.json(&["session", "prompt", task, "Now do the second thing"]);
    assert_eq!(up(&script("second", more)).finish().exit, Some(0));
    let shown = world.json(&["task", "show", task]);
    assert_eq!(shown["status"], "completed", "{shown:#}");
    assert_eq!(world.show(&format!("{}:second", shown["branch"].as_str().unwrap())), "2");
    // Stopped midway, it remembers what it did up to then.
    world.json(&["session", "prompt", task, "Now do the third thing"]);
    let stopping = up(&script("third", stuck));
    let done = |journal: &[Value]| {
        let results = journal.iter().filter(|event| event["type"] == "tool.result");
        results.count() == 3
    };
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    while !done(&world.harvest(&["task", "logs", task, "--json"]).finish().events()) {
        assert!(std::time::Instant::now() < deadline, "it never came to the third thing");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    assert_eq!(world.json(&["task", "cancel", task])["status"], "cancelled");
    assert_eq!(stopping.finish().exit, Some(0));
    world.json(&["session", "prompt", task, "Now the other half"]);
    assert_eq!(up(&script("fourth", last)).finish().exit, Some(0));
    let shown = world.json(&["task", "show", task]);
    let branch = shown["branch"].as_str().unwrap();
    assert_eq!(shown["status"], "completed", "{shown:#}");
    assert_eq!(world.show(&format!("{branch}:third")) + &world.show(&format!("{branch}:fourth")), "34");
    let journal = world.harvest(&["task", "logs", task, "--json"]).finish().events();
    let kept: Vec<&Value> = journal.iter().filter(|event| event["type"] == "conversation.kept").collect();
    assert_eq!(kept.len(), 4, "{kept:#?}");
    let forgot = journal
        .iter()
        .filter(|event| event["data"]["message"].as_str().is_some_and(|text| text.contains("could not continue")));
    assert_eq!(forgot.count(), 0);
    world.assert_nothing_left();
}

#[test]
#[ignore = "needs the network"]
fn claude_code_remembers_its_conversation() {
    let folder = package("claude-code-2.1.325", "@anthropic-ai/claude-code-linux-x64@2.1.325");
    remembers_its_conversation("claude-code", &folder.join("@anthropic-ai/claude-code-linux-x64/claude"));
}

#[test]
#[ignore = "needs the network"]
fn gemini_cli_remembers_its_conversation() {
    let program = package("gemini-cli-0.61.0", "@google/gemini-cli@0.61.0").join(".bin/gemini");
    remembers_its_conversation("gemini-cli", &program);
}

#[test]
#[ignore = "needs the network"]
fn codex_remembers_its_conversation() {
    let folder = package("codex-0.166.0", "@openai/codex-linux-x64@npm:@openai/codex@0.166.0-linux-x64");
    let program = folder.join("@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex");
    remembers_its_conversation("codex", &program);
}

#[test]
#[ignore = "needs the network"]
fn opencode_remembers_its_conversation() {
    let folder = package("opencode-1.18.33", "opencode-linux-x64@1.18.33");
    remembers_its_conversation("opencode", &folder.join("opencode-linux-x64/bin/opencode"));
}

/// The conversation in which the plan was made goes on when it is carried out.
#[test]
#[ignore = "needs the network"]
fn claude_code_plans_and_then_carries_it_out() {
    let world = World::new();
    let bin = world.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let folder = package("claude-code-2.1.325", "@anthropic-ai/claude-code-linux-x64@2.1.325");
    symlink(folder.join("@anthropic-ai/claude-code-linux-x64/claude"), bin.join("claude")).unwrap();
    let path = format!("{}:{PATH}", bin.display());
    let replies = json!([
        { "say": "I would mend two.sh." },
        { "expect": "The plan for it is approved", "shell": crate::support::FIX },
        { "say": "Done as planned." },
    ]);
    let conversations = json!([
        { "when_prompt_contains": "failing test", "replies": replies },
        { "replies": [{ "say": "Yes." }] },
    ]);
    let script = world.path().join("plan.json");
    fs::write(&script, json!({ "conversations": conversations }).to_string()).unwrap();
    let script = script.to_str().unwrap();
    let plan = || {
        let args = [
            "run",
            "Make the failing test pass",
            "--agent",
            "claude-code",
            "--plan",
            "--json",
            "--model-script",
            script,
        ];
        let ran = world.harvest(&args).env("PATH", &path).finish();
        assert_eq!(ran.exit, Some(3), "{ran:?}");
        assert_eq!(ran.of_type("plan.proposed")[0]["text"], "I would mend two.sh.");
        ran.events()[0]["data"]["task_id"].as_str().unwrap().to_owned()
    };
    let (task, rejected) = (plan(), plan());
    assert_eq!(world.json(&["task", "reject", &rejected])["status"], "cancelled");
    world.json(&["task", "approve", &task]);
    let args = ["up", "--until-empty", "--json", "--model-script", script];
    assert_eq!(world.harvest(&args).env("PATH", &path).finish().exit, Some(0));
    let shown = world.json(&["task", "show", &task]);
    assert_eq!(shown["status"], "completed", "{shown:#}");
    let commands: Vec<String> = shown["sessions"][0]["turns"][0]["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| attempt["command"].to_string())
        .collect();
    assert!(commands[0].contains("\"plan\"") && commands[1].contains("--resume"), "{commands:?}");
    world.assert_nothing_left();
}

/// Begun by one agent, whose model has no more quota midway; finished by another in the same workspace, in one journal.
#[test]
#[ignore = "needs the network"]
fn codex_finishes_what_claude_code_had_no_quota_for() {
    let world = World::new();
    let bin = world.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let claude = package("claude-code-2.1.325", "@anthropic-ai/claude-code-linux-x64@2.1.325");
    symlink(claude.join("@anthropic-ai/claude-code-linux-x64/claude"), bin.join("claude")).unwrap();
    let codex = package("codex-0.166.0", "@openai/codex-linux-x64@npm:@openai/codex@0.166.0-linux-x64");
    symlink(codex.join("@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"), bin.join("codex"))
        .unwrap();
    let begun = json!([{ "say": "I begin.", "shell": crate::support::FIX }, { "status": 402 }]);
    let goes_on = json!([{ "expect": "I begin.", "shell": "cp src/two.sh src/copy.sh" }, { "say": "Finished." }]);
    let conversations = json!([
        { "when_prompt_contains": "You have begun already", "replies": goes_on },
        { "when_prompt_contains": "failing test", "replies": begun },
        { "replies": [{ "say": "Yes." }] },
    ]);
    let script = world.path().join("quota.json");
    fs::write(&script, json!({ "conversations": conversations }).to_string()).unwrap();
    let args = ["run", "Make the failing test pass", "--agent", "claude-code", "--fallback-agent", "codex", "--json"];
    let mut run = world.harvest(&args);
    run.command.arg("--model-script").arg(&script).env("PATH", format!("{}:{PATH}", bin.display()));
    let ran = run.finish();
    let outcome = ran.assert_ended(0, "completed", None);
    let agents: Vec<Value> = ran.of_type("agent.started").iter().map(|started| started["agent"].clone()).collect();
    assert_eq!(agents, ["claude-code", "codex"]);
    assert_eq!(ran.of_type("agent.finished")[0]["reason"], "model_quota");
    assert_eq!(ran.of_type("sandbox.ready").iter().filter(|ready| ready["purpose"] == "execute").count(), 1);
    assert_eq!(world.show(&format!("{}:src/copy.sh", outcome["branch"].as_str().unwrap())), "echo two");
    crate::support::assert_gapless(&ran.events());
    world.assert_nothing_left();
}

#[test]
#[ignore = "needs the network"]
fn gemini_cli_works_counts_as_we_do_and_never_sees_the_key() {
    let ran = mends_the_repository(&Agent {
        id: "gemini-cli",
        program: package("gemini-cli-0.61.0", "@google/gemini-cli@0.61.0").join(".bin/gemini"),
        provider: "gemini",
        model: "gemini-2.5-pro",
        header: format!("x-goog-api-key: {KEY}"),
        has_shell: true,
    });
    let (usage, cost) = books(&ran);
    let theirs = reported(&ran, "result")["stats"].clone();
    assert_eq!((&usage["input_tokens"], &usage["cache_read_tokens"]), (&theirs["input"], &theirs["cached"]));
    assert_eq!(usage["output_tokens"], theirs["output_tokens"]);
    assert!(cost > 0.0, "it has a price");
}

#[test]
#[ignore = "needs the network"]
fn opencode_works_and_never_sees_the_key() {
    let folder = package("opencode-1.18.33", "opencode-linux-x64@1.18.33");
    let ran = mends_the_repository(&Agent {
        id: "opencode",
        program: folder.join("opencode-linux-x64/bin/opencode"),
        provider: "openai",
        model: "gpt-5",
        header: format!("authorization: Bearer {KEY}"),
        has_shell: true,
    });
    assert_eq!(books(&ran).0["output_tokens"], 61);
}

#[test]
#[ignore = "needs the network"]
fn aider_works_and_never_sees_the_key() {
    let ran = mends_the_repository(&Agent {
        id: "aider",
        program: python_package("aider-0.86.2", "aider-chat==0.86.2").join("bin/aider"),
        provider: "openai",
        model: "gpt-5",
        header: format!("authorization: Bearer {KEY}"),
        has_shell: false,
    });
    // It asks once more when it has been told which file to look at.
    assert_eq!(books(&ran).0["output_tokens"], 80);
    let changed = ran.of_type("file.changed");
    assert_eq!(changed.iter().map(|change| &change["path"]).collect::<Vec<_>>(), ["src/two.sh"]);
}

/// It ends with exit code 0 whatever it is told.
#[test]
#[ignore = "needs the network"]
fn aider_fails_when_the_model_refuses() {
    let world = World::new();
    let bin = python_package("aider-0.86.2", "aider-chat==0.86.2").join("bin");
    let conversation = json!({ "without_tools": true, "replies": [{ "status": 401 }] });
    let script = world.path().join("refusing.json");
    fs::write(&script, json!({ "conversations": [conversation] }).to_string()).unwrap();
    let mut run = world.harvest(&["run", "Do it", "--agent", "aider", "--json", "--model-script"]);
    run.command.arg(&script).env("PATH", format!("{}:{PATH}", bin.display()));
    let outcome = run.finish().assert_ended(1, "failed", Some("agent"));
    assert!(outcome["error"].as_str().unwrap().starts_with("litellm."), "{outcome:#}");
}

/// A program that is not below /tmp, which every sandbox has its own of.
pub fn program(name: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let file = folder.path().join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    folder
}

/// Says its version, or mends the repository and claims success as Claude Code does.
const FAKE_CLAUDE: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then
    env | grep -q KEY && echo leaked
    echo "2.9.9 (Claude Code)"
    exit
fi
printf 'echo two\n' > src/two.sh
echo '{"type":"result","subtype":"success","is_error":false,"result":"done"}'
"#;

#[test]
fn claude_code_is_the_default_where_it_can_be_used() {
    let world = World::new();
    let bin = program("claude", FAKE_CLAUDE);
    let path = format!("{}:{PATH}", bin.path().display());
    let listed = |path: &str, key: Option<&str>| {
        let mut list = world.harvest(&["agent", "list", "--json"]).env("PATH", path);
        list.command.envs(key.map(|key| ("ANTHROPIC_API_KEY", key)));
        let ran = list.finish();
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        let items = serde_json::from_str::<Value>(&ran.stdout).unwrap()["items"].as_array().unwrap().clone();
        let default = items.iter().find(|item| item["default"] == true).unwrap()["id"].clone();
        (default, items.into_iter().find(|item| item["id"] == "claude-code").unwrap())
    };
    let (default, claude) = listed(&path, Some("sk-x"));
    assert_eq!(default, "claude-code");
    assert_eq!((&claude["installed"], &claude["version"]), (&json!(true), &json!("2.9.9")), "{claude:#}");
    assert_eq!(claude["key_hint"], Value::Null);
    let program = bin.path().canonicalize().unwrap().join("claude");
    let shown = world.harvest(&["agent", "list"]).env("PATH", &path).finish();
    assert!(shown.stdout.contains(program.to_str().unwrap()), "{shown:?}");
    let (default, claude) = listed(&path, None);
    assert_eq!((default, &claude["usable_providers"]), (json!("builtin"), &json!([])));
    assert_eq!(claude["key_hint"], "harvest credential add anthropic, or set ANTHROPIC_API_KEY");
    let (default, claude) = listed(PATH, Some("sk-x"));
    assert_eq!((default, &claude["installed"]), (json!("builtin"), &json!(false)));

    let run = ["run", "Make the failing test pass", "--json"];
    let ran = world.harvest(&run).env("PATH", &path).env("ANTHROPIC_API_KEY", "sk-x").finish();
    ran.assert_ended(0, "completed", None);
    assert_eq!(ran.of_type("agent.started")[0]["agent"], "claude-code");
    let scripted = world.run_with(&json!([{ "shell": crate::support::FIX }, {}]), &[]).env("PATH", &path);
    let scripted = scripted.env("ANTHROPIC_API_KEY", "sk-x").finish();
    assert_eq!(scripted.of_type("agent.started")[0]["agent"], "builtin");
}

#[test]
fn a_rehearsal_says_what_works_and_leaves_nothing() {
    let world = World::new();
    let temporary = world.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let check = |id: &str| {
        let ran = world.harvest(&["agent", "check", id, "--json"]).env("TMPDIR", temporary.to_str().unwrap()).finish();
        let result: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        let states = result["checks"].as_array().unwrap().iter();
        let states: Vec<String> =
            states.map(|check| format!("{} {}", check["name"], check["state"]).replace('"', "")).collect();
        assert_eq!(result["works"] == true, ran.exit == Some(0), "{ran:?}");
        states.join(", ")
    };
    let all = "installed works, starts works, model works, messages works, shell works, edits works, tokens works, ends works";
    assert_eq!(check("builtin"), all);
    assert_eq!(check("codex"), "installed fails");
    let silent = program("mine", "#!/bin/sh\necho I do nothing\n");
    add_agent(&world, &script_agent(&silent.path().join("mine")));
    let some = "installed works, starts works, model fails, messages works, shell absent, edits fails, tokens fails, ends fails";
    assert_eq!(check("mine"), some);
    let unknown = world.harvest(&["agent", "check", "nobody"]).finish();
    assert!(unknown.exit == Some(2) && unknown.stderr.starts_with("error[HV-0121]"), "{unknown:?}");
    assert!(!world.data().exists() && fs::read_dir(&temporary).unwrap().next().is_none());
    world.assert_nothing_left();
}

#[test]
fn an_agent_that_is_not_installed_is_told_before_anything_is_made() {
    let world = World::new();
    let script = world.script(&json!([{ "say": "Hello." }])).display().to_string();
    let ran =
        world.harvest(&["run", "Do it", "--agent", "codex", "--json", "--test", "true", "--model-script", &script]);
    let ran = ran.finish();
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    let expected = "error[HV-0123]: Codex CLI is not installed on this machine: npm install --global @openai/codex\n";
    assert!(ran.stderr.starts_with(expected), "{}", ran.stderr);
    assert_eq!(world.tasks().len(), 0);
}

/// A file beside the settings, with an agent that is a shell script.
pub fn add_agent(world: &World, text: &str) -> PathBuf {
    let file = world.home().join(".config/harvest/agents/mine.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, text).unwrap();
    file
}

pub fn script_agent(command: &Path) -> String {
    format!(
        "[[agent]]\nid = 'mine'\nname = 'My script'\nproviders = ['openai']\ndialect = 'text'\nprompt = 'stdin'\n\
         command = '{}'\narguments = ['--model', '{{model}}']\ninstall_hint = 'write it'\n",
        command.display()
    )
}

#[test]
fn a_script_becomes_an_agent_by_a_file_alone() {
    let world = World::new();
    let text = format!("#!/bin/sh\nread -r prompt\necho \"I was asked: $prompt, with $*\"\n{}\n", crate::support::FIX);
    let folder = program("mine", &text);
    add_agent(&world, &script_agent(&folder.path().join("mine")));
    let ran = world.run(&json!([{ "say": "Nobody asks me." }]), &["--agent", "mine"]);
    let outcome = ran.assert_ended(0, "completed", None);
    assert!(outcome["branch"].is_string(), "{outcome:#}");
    let said = &ran.of_type("message")[0];
    assert_eq!(said["text"], "I was asked: Make the failing test pass, with --model scripted-1");
    world.assert_nothing_left();
}

#[test]
fn a_bad_file_of_agents_is_refused_by_name() {
    let world = World::new();
    for (text, reason) in [
        (script_agent(Path::new("{modle}")), "the agent `mine` uses `{modle}`, which does not exist"),
        (script_agent(Path::new("x")).replace("'text'", "'morse'"), "the agent `mine` is not valid: unknown variant"),
        (script_agent(Path::new("x")).replace("'mine'", "'codex'"), "the agent `codex` is built into Harvest"),
    ] {
        let file = add_agent(&world, &text);
        for args in [&["agent", "list"][..], &["run", "Do it"]] {
            let ran = world.harvest(args).finish();
            assert_eq!(ran.exit, Some(2), "{ran:?}");
            let expected = format!("error[HV-0311]: {}: {reason}", file.display());
            assert!(ran.stderr.starts_with(&expected), "{expected}\n{}", ran.stderr);
        }
    }
    assert!(!world.data().exists(), "nothing was made");
}
