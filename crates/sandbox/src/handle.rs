//! What callers hold: a sandbox, and the processes in it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use harvest_core::{OutputStream, SandboxId, WorkspaceKind};
use harvest_link::{Limit, ProcessSpec, Signal, ToRunner};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::actor::{self, Command, Input, Queue, Subscription};
use crate::{Error, Paths};

/// Since this version of the link runners can hold processes and give them input.
const HOLDING: u32 = 2;

/// A live sandbox. Dropping it lets go of the link and ends nothing; [`Provider::destroy`](crate::Provider::destroy) does.
#[derive(Debug, Clone)]
pub struct Sandbox {
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) wake: Arc<Notify>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub id: SandboxId,
    pub paths: Paths,
    pub gateway_port: u16,
    pub link_version: u32,
    pub provider: &'static str,
    pub workspace: WorkspaceKind,
    pub start_time: Duration,
}

impl Sandbox {
    pub fn id(&self) -> &SandboxId {
        &self.shared.id
    }

    pub fn paths(&self) -> &Paths {
        &self.shared.paths
    }

    /// The port on 127.0.0.1 inside the sandbox that leads to its gateway.
    pub fn gateway_port(&self) -> u16 {
        self.shared.gateway_port
    }

    /// The name of the provider that made it.
    pub fn provider(&self) -> &'static str {
        self.shared.provider
    }

    /// How its workspace was made, as far as the provider can tell: a folder counts as a copy.
    pub fn workspace(&self) -> WorkspaceKind {
        self.shared.workspace
    }

    /// How long it took from the call of `create` or `attach` until the runner reported.
    pub fn start_time(&self) -> Duration {
        self.shared.start_time
    }

    /// Starts a process. `PATH`, `HOME`, `USER`, `LANG` and the folder to start in have defaults.
    pub async fn start(&self, mut spec: ProcessSpec) -> Result<Process, Error> {
        let program = spec.argv.first().cloned().unwrap_or_default();
        if !spec.has_valid_id() {
            let message = format!("`{}` is not a valid process id", spec.id);
            return Err(Error::Start { program, message });
        }
        if spec.keep_stdin && self.shared.link_version < HOLDING {
            let message = "the runner in this sandbox is of a version that cannot keep its input open".to_owned();
            return Err(Error::Start { program, message });
        }
        self.fill_in(&mut spec);
        let process = spec.id.clone();
        // Refused here rather than in the actor, where it could only cost the link.
        ToRunner::Start { process: spec.clone() }.encode()?;
        let (subscription, queue) = self.subscribe(&process, 0);
        let (answer, started) = oneshot::channel();
        self.send(Command::Start { spec: Box::new(spec), subscription, answer }).await?;
        match started.await {
            Ok(Ok(pid)) => Ok(self.process(process, queue, Some(pid))),
            Ok(Err(message)) => Err(Error::Start { program, message }),
            Err(_) => Err(self.lost()),
        }
    }

    /// Whether its runner was there when it was last heard of; a sandbox that died is noticed at once.
    pub fn is_alive(&self) -> bool {
        !self.commands.is_closed()
    }

    /// Gets everything ready for a process of this id but what it is, so that its start takes hardly any time. Worth nothing
    /// where a process starts fast anyway, and never an error.
    pub async fn hold(&self, process: &str) -> Result<(), Error> {
        if self.shared.link_version < HOLDING {
            return Ok(());
        }
        self.send(Command::Send(ToRunner::Hold { process: process.to_owned() })).await
    }

    /// Takes up the output of a process that was started before, after the last offset that was dealt with.
    pub async fn resume(&self, process: &str, offset: u64) -> Result<Process, Error> {
        let (subscription, queue) = self.subscribe(process, offset);
        self.send(Command::Resume { subscription }).await?;
        Ok(self.process(process.to_owned(), queue, None))
    }

    fn subscribe(&self, process: &str, offset: u64) -> (Subscription, Queue) {
        actor::subscribe(process.to_owned(), offset, self.wake.clone())
    }

    fn process(&self, id: String, queue: Queue, pid: Option<u32>) -> Process {
        Process { id, pid, queue, commands: self.commands.clone(), sandbox: self.shared.clone() }
    }

    async fn send(&self, command: Command) -> Result<(), Error> {
        self.commands.send(command).await.map_err(|_| self.lost())
    }

    fn lost(&self) -> Error {
        Error::Lost { id: self.shared.id.clone() }
    }

    fn fill_in(&self, spec: &mut ProcessSpec) {
        let Paths { workspace, home, bin, .. } = &self.shared.paths;
        if spec.cwd.is_empty() {
            spec.cwd = workspace.display().to_string();
        }
        let path = format!("{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", bin.display());
        for (name, value) in [("PATH", path.as_str()), ("HOME", &text(home)), ("USER", "harvest"), ("LANG", "C.UTF-8")]
        {
            if !spec.env.iter().any(|(given, _)| given == name) {
                spec.env.push((name.to_owned(), value.to_owned()));
            }
        }
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A process in a sandbox, as a stream of its output. Dropping it ends nothing.
#[derive(Debug)]
pub struct Process {
    id: String,
    pid: Option<u32>,
    queue: Queue,
    commands: mpsc::Sender<Command>,
    sandbox: Arc<Shared>,
}

/// What a process did next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// One line, without its newline. Lines longer than 8 MiB come in pieces, all but the last of them `continued`.
    Line { stream: OutputStream, line: Vec<u8>, continued: bool, offset: u64 },
    /// The process and all its children are gone and this was all.
    Exited(Exit),
    /// The process and all its children were ended for going beyond a limit, or the runner does not know it.
    Failed { limit: Option<Limit>, message: String },
    /// The sandbox is gone.
    Lost,
}

/// How a process ended and what it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub user: Duration,
    pub system: Duration,
    pub max_rss_kb: u64,
    pub duration: Duration,
}

impl Exit {
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }
}

impl Process {
    pub fn id(&self) -> &str {
        &self.id
    }

    /// As the runner sees it; none when the process was taken up again.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Waits for what comes next. After anything but a line it is always [`Output::Lost`]. May be cancelled and called again.
    pub async fn next(&mut self) -> Output {
        self.queue.next().await
    }

    /// Output up to this offset is recorded elsewhere and will not be asked for again.
    pub async fn acknowledge(&self, offset: u64) -> Result<(), Error> {
        self.send(ToRunner::Ack { process: self.id.clone(), offset }).await
    }

    /// Gives more to a process that was started with its input kept open, and returns when it has it to read. An error when it
    /// will never read it, or was taken up again after another server had started it. Once given up on, the rest of the
    /// input is lost, too.
    pub async fn input(&mut self, text: impl Into<String>, close: bool) -> Result<(), Error> {
        if self.pid.is_none() {
            let message = "it was taken up again, and what it was given before is not known".to_owned();
            return Err(Error::Input { process: self.id.clone(), message });
        }
        self.give(text, close).await
    }

    /// The same for a process that was taken up again, with all that it is ever given: what it has had of it already is not
    /// given twice.
    pub async fn input_again(&mut self, text: impl Into<String>, close: bool) -> Result<(), Error> {
        self.give(text, close).await
    }

    async fn give(&mut self, text: impl Into<String>, close: bool) -> Result<(), Error> {
        let refused = |message: &str| Error::Input { process: self.id.clone(), message: message.to_owned() };
        let order = Input { process: self.id.clone(), text: text.into(), close };
        order.order(0).encode()?;
        let (answer, taken) = oneshot::channel();
        let lost = |_| Error::Lost { id: self.sandbox.id.clone() };
        self.commands.send(Command::Input { input: order, answer }).await.map_err(lost)?;
        match taken.await {
            Ok(taken) => taken.map_err(|message| refused(&message)),
            Err(_) => Err(refused("it has ended")),
        }
    }

    pub async fn signal(&self, signal: Signal) -> Result<(), Error> {
        self.send(ToRunner::Signal { process: self.id.clone(), signal }).await
    }

    async fn send(&self, message: ToRunner) -> Result<(), Error> {
        let lost = |_| Error::Lost { id: self.sandbox.id.clone() };
        self.commands.send(Command::Send(message)).await.map_err(lost)
    }
}
