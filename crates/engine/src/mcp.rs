//! The MCP servers of a turn: what the agent is told of them, what the gateway serves, and the sandbox of its own that a
//! program with a key gets. The key is in that sandbox and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use harvest_agents::Agent;
use harvest_agents::mcp::{Offer, Places};
use harvest_core::{
    EventBody, McpAddress, McpCredential, McpServer, OutputStream, OwnerId, SandboxId, SandboxPurpose, SessionId,
};
use harvest_gateway::egress::Policy;
use harvest_gateway::mcp::{Access, Called, Program, Recorder, Server};
use harvest_gateway::{Credentials, Echo, NoCredentials, Serving, egress as allowed};
use harvest_sandbox::{Limits, Output, Process, ProcessSpec, Sandbox, Spec, Workspace};
use harvest_store::SandboxRecord;
use harvest_vault::ExposeSecret;
use tokio::sync::mpsc;

use crate::error::{Halt, chain};
use crate::journal::Journal;
use crate::meter::NoModel;
use crate::place::{Served, Tail, millis, remove_workspace};
use crate::turn::Turn;
use crate::{Engine, Error, egress, failpoint};

/// A message longer than this is no message.
const MAX_LINE: usize = 16 << 20;
/// What is told of why a server has ended.
const MAX_COMPLAINT: usize = 500;
/// Of standard error, until it is known which line was the last.
const COMPLAINTS_KEPT: usize = 16 * 1024;
/// A server needs little.
const MEMORY_BYTES: u64 = 2 << 30;
const DISK_BYTES: u64 = 2 << 30;
const PROCESS: &str = "mcp";
const INPUT_LIMIT: Duration = Duration::from_secs(30);

impl Turn {
    /// What the agent finds in its sandbox.
    pub(crate) async fn offers(&self, agent: &Agent, sandbox: &Sandbox) -> Result<Vec<Offer>, Halt> {
        let servers = &self.task.settings.mcp;
        if servers.is_empty() || self.plan.is_wanted() {
            return Ok(Vec::new());
        }
        if !agent.takes_tools() {
            let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
            let message = format!("{} does not support MCP: it runs without {}", agent.name, names.join(", "));
            self.journal.warn(message).await?;
            return Ok(Vec::new());
        }
        let paths = sandbox.paths();
        let places = Places {
            home: &paths.home,
            workspace: &paths.workspace,
            bin: &paths.bin,
            gateway_port: sandbox.gateway_port(),
        };
        Ok(servers.iter().map(|server| Offer::of(server, places)).collect())
    }
}

impl Engine {
    /// What the gateway serves where the agent works.
    pub(crate) fn tools(
        &self,
        purpose: SandboxPurpose,
        served: Served<'_>,
        credentials: &Arc<dyn Credentials>,
    ) -> Access {
        if purpose != SandboxPurpose::Execute || served.plans {
            return Access::none();
        }
        let behind = served.task.settings.mcp.iter().filter(|server| server.is_behind_the_gateway());
        let serve = |definition: &McpServer| {
            let program: Option<Arc<dyn Program>> = match &definition.at {
                McpAddress::Url { .. } => None,
                McpAddress::Program { command, args } => Some(Arc::new(Elsewhere {
                    engine: self.clone(),
                    journal: served.journal.clone(),
                    owner: served.owner.clone(),
                    session: served.session.id.clone(),
                    path: self.options.toolchain.path.clone(),
                    command: command.clone(),
                    args: args.clone(),
                    server: definition.clone(),
                    credentials: Arc::clone(credentials),
                    wall: self.limits_of(served.task).wall,
                })),
            };
            Server { definition: definition.clone(), program }
        };
        Access { servers: behind.map(serve).collect(), recorder: Arc::new(Journaled(served.journal.clone())) }
    }
}

#[derive(Debug)]
struct Journaled(Journal);

#[async_trait]
impl Recorder for Journaled {
    async fn called(&self, call: Called) {
        let Called { server, tool, outcome, took } = call;
        let event = EventBody::McpCalled { server, tool, outcome, duration_ms: millis(took) };
        if let Err(error) = self.0.write(vec![event]).await {
            tracing::error!(%error, "a call of a tool could not be recorded");
        }
    }
}

/// A server with a key, in a sandbox that has nothing of the session's.
#[derive(Debug)]
struct Elsewhere {
    engine: Engine,
    journal: Journal,
    /// Who is answerable for the sandbox, and for whom.
    owner: OwnerId,
    session: SessionId,
    path: String,
    command: String,
    args: Vec<String>,
    server: McpServer,
    credentials: Arc<dyn Credentials>,
    wall: Duration,
}

#[async_trait]
impl Program for Elsewhere {
    async fn run(&self, input: mpsc::Receiver<String>, output: mpsc::Sender<Vec<u8>>) -> String {
        let Some(McpCredential { name, sent_as }) = &self.server.credential else {
            return "it has no credential".to_owned();
        };
        let Some(secret) = self.credentials.secret(McpCredential::PROVIDER, name, self.server.named_by).await else {
            return format!("there is no credential `{name}` for it: harvest credential add mcp --name {name}");
        };
        let secret = secret.expose_secret().trim().to_owned();
        let id = SandboxId::generate(self.engine.options.entropy.as_ref());
        // Recorded first: whoever takes over after a crash removes it.
        let record = SandboxRecord {
            id: id.clone(),
            owner: self.owner.clone(),
            session: self.session.clone(),
            purpose: SandboxPurpose::Mcp,
            provider: self.engine.options.provider.name().to_owned(),
        };
        if let Err(error) = self.engine.options.store.record_sandbox(record).await {
            return chain(&error);
        }
        let opened = match failpoint::reach("mcp::recorded") {
            Ok(()) => self.open(&id).await,
            Err(error) => Err(error),
        };
        let ended = match opened {
            Ok((sandbox, serving)) => {
                let ended = self.serve(&sandbox, (sent_as, &secret), input, output).await;
                serving.stop().await;
                ended
            }
            Err(error) => Err(error),
        };
        if let Err(error) = self.close(&id).await {
            tracing::error!(error = chain(&error), "the sandbox of an MCP server could not be removed");
        }
        let reason = ended.unwrap_or_else(|error| chain(&error));
        let clean = Repeated::of(&secret).without(reason.into_bytes());
        crate::redact(&String::from_utf8_lossy(&clean)).into_owned()
    }
}

impl Elsewhere {
    async fn open(&self, id: &SandboxId) -> Result<(Sandbox, Serving), Error> {
        let options = &self.engine.options;
        options.provider.prepare(id).await?;
        let session = harvest_gateway::Session {
            id: self.session.to_string(),
            meter: Arc::new(NoModel),
            credentials: Arc::new(NoCredentials),
            git: None,
            egress: allowed::Access {
                policy: self.policy(),
                registries: true,
                recorder: egress::recorder(&self.journal),
            },
            server_tools: harvest_gateway::ServerTools::none(),
        };
        let serving = options.gateway.serve(options.provider.listen(id)?, session);
        let folder = options.data.workspace(id);
        let made = tokio::fs::create_dir_all(&folder).await;
        made.map_err(|source| Error::Io { action: "make", path: folder.display().to_string(), source })?;
        let limits = Limits { wall: self.wall, memory_bytes: MEMORY_BYTES, disk_bytes: DISK_BYTES, ..options.limits };
        let spec = Spec { id: id.clone(), workspace: Workspace::Folder { path: folder }, objects: None, limits };
        Ok((options.provider.create(spec).await?, serving))
    }

    /// A rule that cannot be read allows nothing.
    fn policy(&self) -> Policy {
        Policy::new(self.server.hosts.iter().filter_map(|rule| rule.parse().ok()))
    }

    async fn close(&self, id: &SandboxId) -> Result<(), Error> {
        let options = &self.engine.options;
        options.provider.destroy(id).await?;
        remove_workspace(&options.data.workspace(id)).await?;
        Ok(options.store.forget_sandbox(id).await?)
    }

    async fn serve(
        &self,
        sandbox: &Sandbox,
        (variable, secret): (&str, &str),
        mut input: mpsc::Receiver<String>,
        output: mpsc::Sender<Vec<u8>>,
    ) -> Result<String, Error> {
        let paths = sandbox.paths();
        let places = Places {
            home: &paths.home,
            workspace: &paths.workspace,
            bin: &paths.bin,
            gateway_port: sandbox.gateway_port(),
        };
        let network = self.engine.network_environment(&self.policy(), sandbox);
        let mut env = self.engine.environment(&network.env, &self.path, &[]);
        env.extend(self.server.environment.iter().map(|(name, value)| (name.clone(), places.fill(value))));
        env.push((variable.to_owned(), secret.to_owned()));
        let argv = std::iter::once(self.command.clone()).chain(self.args.iter().map(|argument| places.fill(argument)));
        let spec = ProcessSpec {
            id: PROCESS.to_owned(),
            argv: argv.collect(),
            env,
            keep_stdin: true,
            files: egress::files(network, sandbox),
            ..ProcessSpec::default()
        };
        let mut process = sandbox.start(spec).await?;
        let mut lines = Lines {
            output,
            partial: Vec::new(),
            repeated: Repeated::of(secret),
            complaints: Tail::new(COMPLAINTS_KEPT),
        };
        loop {
            tokio::select! {
                line = input.recv() => match line {
                    // Its sandbox goes, and it with that.
                    None => return Ok("the session has ended".to_owned()),
                    Some(line) => {
                        let Ok(given) = tokio::time::timeout(INPUT_LIMIT, process.input(line, false)).await else {
                            return Ok("it does not read its input".to_owned());
                        };
                        given?;
                    }
                },
                next = process.next() => {
                    if let Some(end) = lines.take(&process, next).await {
                        return Ok(end);
                    }
                }
            }
        }
    }
}

/// Finds the key of a server in what the server says, in its common encodings too.
enum Repeated {
    Encoded(Echo),
    /// Too short to be looked for in other forms.
    Plain(String),
}

impl Repeated {
    fn of(secret: &str) -> Self {
        Echo::of(secret).map_or_else(|| Self::Plain(secret.to_owned()), Self::Encoded)
    }

    fn without(&self, text: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Encoded(echo) => echo.without(text.into()).to_vec(),
            Self::Plain(secret) if secret.is_empty() => text,
            Self::Plain(secret) => String::from_utf8_lossy(&text).replace(secret, "[redacted]").into_bytes(),
        }
    }
}

/// What a server prints, line by line.
struct Lines {
    output: mpsc::Sender<Vec<u8>>,
    partial: Vec<u8>,
    repeated: Repeated,
    /// The end of its standard error.
    complaints: Tail,
}

impl Lines {
    /// How it ended, when it has.
    async fn take(&mut self, process: &Process, next: Output) -> Option<String> {
        match next {
            Output::Line { stream, line, continued, offset } => {
                let _ = process.acknowledge(offset).await;
                if stream == OutputStream::Stderr {
                    self.complaints.push(&line, !continued);
                    return None;
                }
                if self.partial.len() <= MAX_LINE {
                    self.partial.extend_from_slice(&line);
                }
                if !continued {
                    let whole = std::mem::take(&mut self.partial);
                    self.pass(whole).await;
                }
                None
            }
            Output::Exited(exit) => {
                // Its last line may lack a newline.
                let last = std::mem::take(&mut self.partial);
                if !last.is_empty() {
                    self.pass(last).await;
                }
                let code =
                    exit.code.map_or("it was killed".to_owned(), |code| format!("it ended with exit code {code}"));
                let complaint = self.complaint();
                Some(if complaint.is_empty() { code } else { format!("{code}: {complaint}") })
            }
            Output::Failed { message, .. } => Some(message),
            Output::Lost => Some("its sandbox was lost".to_owned()),
        }
    }

    /// The last line that it wrote to standard error. The key is looked for before anything is cut off.
    fn complaint(&mut self) -> String {
        let all = std::mem::replace(&mut self.complaints, Tail::new(COMPLAINTS_KEPT)).into_text();
        let clean = self.repeated.without(all.into_bytes());
        let clean = String::from_utf8_lossy(&clean);
        let last = clean.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        last.chars().take(MAX_COMPLAINT).collect()
    }

    /// A server that repeats its key tells it to nobody.
    async fn pass(&self, line: Vec<u8>) {
        if line.len() > MAX_LINE {
            return;
        }
        let _ = self.output.send(self.repeated.without(line)).await;
    }
}
