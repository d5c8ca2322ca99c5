//! From a started (or rediscovered) runner to a [`Sandbox`] handle; the same for every local provider.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harvest_core::{SandboxId, WorkspaceKind};
use tokio::net::UnixListener;
use tokio::sync::{Notify, mpsc};

use crate::actor::Actor;
use crate::connection::Connection;
use crate::handle::Shared;
use crate::layout::{Layout, Remembered};
use crate::pid::Identity;
use crate::{Error, Paths, Provider, Sandbox, folder};

/// How long a runner may take to report.
const PATIENCE: Duration = Duration::from_secs(20);

/// How much of what a runner complained about goes into the error.
const LOG_TAIL: usize = 2000;

/// What is known about a sandbox before its runner has reported.
#[derive(Debug)]
pub(crate) struct Expected<'a> {
    pub id: &'a SandboxId,
    pub provider: &'static str,
    pub paths: Paths,
    pub workspace: WorkspaceKind,
    pub peer_uid: u32,
    pub began: Instant,
    /// Where the runner's complaints are.
    pub log: &'a Path,
}

/// A sandbox that a process before this one has made.
#[derive(Debug)]
pub(crate) struct Returned {
    pub facts: Remembered,
    pub runner: Identity,
    /// Where the runner will dial.
    pub listener: UnixListener,
}

impl Returned {
    /// Finds out what is known about it and listens for its runner, if that is alive.
    pub fn find(id: &SandboxId, layout: &Layout) -> Result<Self, Error> {
        let lost = || Error::Lost { id: id.clone() };
        let facts = layout.recall().ok_or_else(lost)?;
        let runner = layout.runner().ok_or_else(lost)?;
        folder::open_to_sandbox(&layout.gateway())?;
        let listener = folder::listen(&layout.link())?;
        Ok(Self { facts, runner, listener })
    }
}

/// What comes of making a sandbox; when that fails, what there is of it is removed again.
pub(crate) async fn or_removed(
    provider: &dyn Provider,
    id: &SandboxId,
    making: impl Future<Output = Result<Sandbox, Error>>,
) -> Result<Sandbox, Error> {
    let made = making.await;
    if made.is_err()
        && let Err(error) = provider.destroy(id).await
    {
        tracing::warn!(sandbox = %id, %error, "a sandbox that failed could not be removed");
    }
    made
}

/// Starts a runner that outlives this process.
pub(crate) fn spawn(command: std::process::Command, log: &Path) -> Result<Identity, Error> {
    let file = fs::File::create(log).map_err(|error| Error::io(log, error))?;
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).kill_on_drop(false);
    let mut child = command.spawn().map_err(|error| Error::failed(format!("the runner cannot be started: {error}")))?;
    let identity = child.id().and_then(|pid| Identity::of(i32::try_from(pid).ok()?));
    // Only to reap it; that it has ended is noticed elsewhere.
    tokio::spawn(async move { child.wait().await });
    identity.ok_or_else(|| failed(log))
}

impl Expected<'_> {
    /// Waits for the runner and takes it up.
    pub async fn arrive(self, listener: UnixListener, runner: Identity) -> Result<Sandbox, Error> {
        let Some(alive) = runner.watch() else { return Err(self.gone()) };
        let (connection, hello) = tokio::select! {
            arrived = self.welcome(&listener) => arrived?,
            _ = alive.readable() => return Err(self.gone()),
        };
        let (commands, receiver) = mpsc::channel(64);
        let wake = Arc::new(Notify::new());
        let actor = Actor { listener, peer_uid: self.peer_uid, alive, commands: receiver, wake: wake.clone() };
        tokio::spawn(actor.run(connection));
        let shared = Shared {
            id: self.id.clone(),
            paths: self.paths,
            gateway_port: hello.gateway_port,
            link_version: hello.version,
            provider: self.provider,
            workspace: self.workspace,
            start_time: self.began.elapsed(),
        };
        Ok(Sandbox { shared: Arc::new(shared), commands, wake })
    }

    async fn welcome(&self, listener: &UnixListener) -> Result<(Connection, crate::connection::Hello), Error> {
        let accepted = async {
            loop {
                match Connection::accept(listener, self.peer_uid).await {
                    Ok(arrived) => return arrived,
                    Err(error) => {
                        tracing::warn!(sandbox = %self.id, %error, "a connection to the link was refused");
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }
            }
        };
        tokio::time::timeout(PATIENCE, accepted).await.map_err(|_| {
            let tail = tail(self.log);
            let detail = if tail.is_empty() { String::new() } else { format!(": {tail}") };
            Error::Silent { seconds: PATIENCE.as_secs(), detail }
        })
    }

    fn gone(&self) -> Error {
        let tail = tail(self.log);
        if tail.is_empty() { Error::Lost { id: self.id.clone() } } else { Error::failed(tail) }
    }
}

fn failed(log: &Path) -> Error {
    let tail = tail(log);
    Error::failed(if tail.is_empty() { "the runner ended at once".to_owned() } else { tail })
}

fn tail(log: &Path) -> String {
    let bytes = match fs::read(log) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return error.to_string(),
    };
    let start = bytes.len().saturating_sub(LOG_TAIL);
    String::from_utf8_lossy(bytes.get(start..).unwrap_or_default()).trim().to_owned()
}
