//! An agent that waits for its prompt: from giving it the prompt to the first request that reaches the model.
//!
//! The warm one runs in a sandbox and reaches the model, which is on loopback, through the gateway. It is compared with the
//! bare program, started with the same prompt and the model's own address.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use harvest_gateway::{Ask, Call, Gateway, Grant, Meter, Options, Refused, Session, Upstream, Upstreams, egress};
use harvest_sandbox::{Limits, Output, Process, ProcessSpec, Provider, Spec, Workspace, local};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::place::{self, Place};
use super::programs::{installer, output, program};
use super::statistics::median;
use super::table::{Amount, Bound, Row};
use super::{Findings, Size};

const PROMPT: &str = "Say hello.";
const MODEL: &str = "claude-sonnet-4-5";
const CLAUDE: &str = "2.1.325";
/// How long a request may take to come.
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let mut found = Findings::default();
    let builtin = builtin(place)?;
    // It starts in no time, so there is little to gain by having started it.
    found.rows.push(row(place, &builtin, size.pick(50, 5), Bound::Open).await?);
    match claude(place).await {
        Ok(claude) => found.rows.push(row(place, &claude, size.pick(10, 2), Bound::Times(1.0)).await?),
        Err(error) => found.notes.push(format!("warm: Claude Code is not compared with, it cannot be had: {error:#}")),
    }
    found
        .notes
        .push("warm: the bare program speaks to the model itself, the warm one through sandbox and gateway".to_owned());
    Ok(found)
}

/// One agent, bare and warm.
struct Agent {
    name: &'static str,
    program: PathBuf,
    /// What it is told, with the address of the model.
    arguments: fn(&str, &Path) -> Vec<String>,
    /// The same when it is to wait for its prompt.
    waiting: fn(&str, &Path) -> Vec<String>,
    prompt: String,
    environment: fn(&str) -> Vec<(&'static str, String)>,
    /// Until it waits for its prompt.
    start: Duration,
}

fn builtin(place: &Place) -> anyhow::Result<Agent> {
    let folder = harvest_sandboxed::write_to(&place.folder("warm/builtin")?)?;
    fn arguments(url: &str, workspace: &Path) -> Vec<String> {
        let workspace = workspace.display().to_string();
        ["--wire", "anthropic", "--base-url", url, "--model", MODEL, "--workspace", &workspace]
            .map(str::to_owned)
            .into()
    }
    Ok(Agent {
        name: "warm, built-in agent, prompt to first request",
        program: folder.join("harvest-builtin"),
        arguments,
        waiting: arguments,
        prompt: PROMPT.to_owned(),
        environment: |_| Vec::new(),
        start: Duration::from_millis(100),
    })
}

async fn claude(place: &Place) -> anyhow::Result<Agent> {
    let folder = match std::env::var_os("HARVEST_TOOLS") {
        Some(tools) => Path::new(&tools).join(format!("claude-code-{CLAUDE}")),
        None => place.folder("claude-code")?,
    };
    std::fs::create_dir_all(&folder)?;
    let program = folder.join("node_modules/@anthropic-ai/claude-code-linux-x64/claude");
    if !program.exists() {
        let mut npm = installer("npm");
        npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]).arg(&folder);
        npm.arg(format!("@anthropic-ai/claude-code-linux-x64@{CLAUDE}")).current_dir(&folder);
        output(&mut npm).await?;
    }
    ensure!(program.exists(), "there is no program in the package");
    let line = json!({
        "type": "user", "message": {"role": "user", "content": PROMPT}, "parent_tool_use_id": null, "session_id": "",
    });
    const COMMON: [&str; 7] =
        ["-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions", "--model", MODEL];
    Ok(Agent {
        name: "warm, Claude Code, prompt to first request",
        program,
        arguments: |_, _| COMMON.iter().copied().chain([PROMPT]).map(str::to_owned).collect(),
        waiting: |_, _| COMMON.iter().copied().chain(["--input-format", "stream-json"]).map(str::to_owned).collect(),
        prompt: format!("{line}\n"),
        environment: |url| {
            let fixed = [
                ("ANTHROPIC_AUTH_TOKEN", "dummy"),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
                ("DISABLE_TELEMETRY", "1"),
                ("DISABLE_AUTOUPDATER", "1"),
                ("IS_SANDBOX", "1"),
            ];
            let fixed = fixed.map(|(name, value)| (name, value.to_owned()));
            fixed.into_iter().chain([("ANTHROPIC_BASE_URL", url.to_owned())]).collect()
        },
        start: Duration::from_secs(4),
    })
}

async fn row(place: &Place, agent: &Agent, times: usize, bound: Bound) -> anyhow::Result<Row> {
    let mut model = Model::start().await?;
    let provider = place.sandboxes("warm/sandboxes")?;
    show(place, &agent.program)?;
    let gateway = Gateway::new(Options::default())?;
    let lower = place.folder("warm/lower")?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    // The first of each only warms up.
    for _ in 0..=times {
        theirs.push(bare(place, agent, &mut model).await?);
        ours.push(warm(agent, &provider, &gateway, &lower, &mut model).await?);
    }
    Ok(Row {
        name: agent.name,
        ours: Amount::Time(median(&ours[1..])),
        theirs: Some(Amount::Time(median(&theirs[1..]))),
        against: "the bare program, started with the prompt",
        bound,
    })
}

/// Among the programs that every sandbox shows.
fn show(place: &Place, program: &Path) -> anyhow::Result<()> {
    let folder = harvest_sandboxed::write_to(&place.folder("warm/sandboxes")?.join("bin"))?;
    let shown = folder.join(program.file_name().context("the program has no name")?);
    if !shown.exists() && std::fs::hard_link(program, &shown).is_err() {
        std::fs::copy(program, &shown)?;
    }
    Ok(())
}

async fn bare(place: &Place, agent: &Agent, model: &mut Model) -> anyhow::Result<Duration> {
    let (home, workspace) = (place.folder("warm/home")?, place.folder("warm/workspace")?);
    let url = format!("http://{}", model.address);
    let mut command = program(&agent.program);
    command.args((agent.arguments)(&url, &workspace)).env("HOME", &home).current_dir(&workspace);
    command.envs((agent.environment)(&url)).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    model.forget();
    let began = Instant::now();
    let mut child = command.spawn()?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    stdin.write_all(PROMPT.as_bytes()).await?;
    drop(stdin);
    let took = model.asked().await?.duration_since(began);
    child.kill().await?;
    Ok(took)
}

async fn warm(
    agent: &Agent,
    provider: &local::Local,
    gateway: &Gateway,
    lower: &Path,
    model: &mut Model,
) -> anyhow::Result<Duration> {
    let workspace = Workspace::Overlay { lower: lower.to_owned() };
    let spec = Spec { id: place::sandbox_id(), workspace, objects: None, limits: Limits::default() };
    let sandbox = provider.create(spec).await?;
    let paths = sandbox.paths();
    let url = format!("http://127.0.0.1:{}/anthropic", sandbox.gateway_port());
    let program = paths.bin.join(agent.program.file_name().unwrap_or_default()).display().to_string();
    let environment = (agent.environment)(&url).into_iter().map(|(name, value)| (name.to_owned(), value));
    let spec = ProcessSpec {
        id: "agent".to_owned(),
        argv: std::iter::once(program).chain((agent.waiting)(&url, &paths.workspace)).collect(),
        env: environment.collect(),
        keep_stdin: true,
        ..ProcessSpec::default()
    };
    let mut process = sandbox.start(spec).await?;
    tokio::time::sleep(agent.start).await;
    // As a claim does: the gateway listens only from now on.
    let address = format!("http://{}", model.address);
    let upstream = Upstream::new("anthropic", "bench", Some(&address), &"sk-real".to_owned().into())?;
    let session = Session {
        id: sandbox.id().to_string(),
        meter: Arc::new(Free),
        credentials: Arc::new(Upstreams::new([upstream])),
        git: None,
        egress: egress::Access::none(),
        server_tools: harvest_gateway::ServerTools::default(),
    };
    model.forget();
    let began = Instant::now();
    let serving = gateway.serve(provider.listen(sandbox.id())?, session);
    if let Err(error) = process.input(agent.prompt.as_str(), true).await {
        bail!("{}: {error}; it printed: {}", agent.name, printed(&mut process).await);
    }
    let took = model.asked().await?.duration_since(began);
    provider.destroy(sandbox.id()).await?;
    serving.stop().await;
    Ok(took)
}

async fn printed(process: &mut Process) -> String {
    let mut text = String::new();
    while let Output::Line { line, .. } = process.next().await {
        text.push_str(&String::from_utf8_lossy(&line));
        text.push('\n');
    }
    text
}

#[derive(Debug)]
struct Free;

#[async_trait]
impl Meter for Free {
    async fn reserve(&self, ask: Ask) -> Result<Grant, Refused> {
        let call = "0000000000000001".parse().map_err(|_| Refused::new("no id"))?;
        Ok(Grant::new(call, ask.cost.most))
    }

    async fn settle(&self, _grant: Grant, _call: Call) {}

    async fn release(&self, _grant: Grant) {}
}

/// Tells when it was asked, and refuses.
struct Model {
    address: SocketAddr,
    requests: mpsc::Receiver<Instant>,
}

impl Model {
    async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (sender, requests) = mpsc::channel(64);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let sender = sender.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let sender = sender.clone();
                    async move {
                        if request.method() == hyper::Method::POST && request.uri().path().ends_with("/messages") {
                            let _ = sender.try_send(Instant::now());
                        }
                        let _ = request.into_body().collect().await;
                        let refusal =
                            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}});
                        let mut response = Response::new(Full::new(Bytes::from(refusal.to_string())));
                        *response.status_mut() = StatusCode::BAD_REQUEST;
                        Ok::<_, std::convert::Infallible>(response)
                    }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(Self { address, requests })
    }

    /// What was asked before does not count.
    fn forget(&mut self) {
        while self.requests.try_recv().is_ok() {}
    }

    async fn asked(&mut self) -> anyhow::Result<Instant> {
        let asked = tokio::time::timeout(PATIENCE, self.requests.recv()).await;
        asked.context("the agent asked nothing")?.context("the model is gone")
    }
}
