//! The sandbox that a snapshot is built in or a test command is tried in: on a private copy, with a gateway that has no model
//! and no repository.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use harvest_core::{EgressVerdict, OwnerId, SandboxId, SandboxPurpose, SessionId};
use harvest_gateway::egress::{Access, Policy, Record, Recorder};
use harvest_gateway::registry::Trouble;
use harvest_gateway::{NoCredentials, Serving};
use harvest_sandbox::{File, Limits, Output, Process, ProcessSpec, Sandbox, Signal, Spec, Workspace};
use harvest_store::SandboxRecord;
use harvest_vault::{Redactor, StreamRedactor};
use harvest_workspace::{Mirror, OWN_FOLDER, Snapshot};
use tokio::sync::watch;

use super::PROGRAMS;
use crate::meter::NoModel;
use crate::place::{Ran, Tail, WORKSPACE_INSIDE, remove_workspace, search_path};
use crate::{Engine, Error, Stop, egress};

const TAIL_BYTES: usize = 64 * 1024;
const KILL_LIMIT: Duration = Duration::from_secs(10);
const LINE_SHOWN: usize = 400;
/// Nothing may ask, nothing may nag, and what Go downloads can be removed again.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("CI", "true"),
    ("GOFLAGS", "-modcacherw"),
    ("NPM_CONFIG_UPDATE_NOTIFIER", "false"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("COREPACK_ENABLE_DOWNLOAD_PROMPT", "0"),
];

/// A sandbox that is recorded, and may not have been made yet. It has to be left, whatever happens in between.
#[derive(Debug)]
pub(crate) struct Workshop {
    engine: Engine,
    id: SandboxId,
    open: Option<(Sandbox, Serving)>,
    /// Variables for package managers and the proxy.
    network: Vec<(String, String)>,
    /// Their files, for the first process.
    files: Vec<File>,
    network_log: Arc<NetworkLog>,
    started: u32,
    /// The search path of what runs in it.
    path: String,
}

/// What the installation could not reach.
#[derive(Debug, Default)]
struct NetworkLog {
    /// Hosts that it was not let through to; the gateway bounds how many it tells apart.
    refused: Mutex<BTreeSet<String>>,
    /// The first registry that could not be used by the command under way.
    trouble: watch::Sender<Option<Trouble>>,
}

#[async_trait]
impl Recorder for NetworkLog {
    async fn record(&self, record: Record) {
        if record.verdict == EgressVerdict::Refused {
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(record.host);
        }
    }

    async fn registry_failed(&self, trouble: Trouble) {
        self.trouble.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(trouble);
            is_first
        });
    }
}

/// How a command in a workshop ended.
pub(crate) struct Outcome {
    pub(crate) ran: Ran,
    /// The registry for whose sake it was ended: its package manager would have gone on trying for minutes.
    pub(crate) trouble: Option<Trouble>,
}

impl Workshop {
    /// Recorded first, so that it is never lost sight of; neither is its folder.
    pub(crate) async fn record(engine: &Engine, owner: &OwnerId) -> Result<Self, Error> {
        let options = &engine.options;
        let id = SandboxId::generate(options.entropy.as_ref());
        let record = SandboxRecord {
            id: id.clone(),
            owner: owner.clone(),
            session: SessionId::generate(options.entropy.as_ref()),
            purpose: SandboxPurpose::Prepare,
            provider: options.provider.name().to_owned(),
        };
        options.store.record_sandbox(record).await?;
        // Not those of a virtual environment, which would be made of itself.
        let installed = PROGRAMS.iter().filter(|folder| folder.starts_with(OWN_FOLDER));
        let installed: String = installed.map(|folder| format!("{WORKSPACE_INSIDE}/{folder}:")).collect();
        Ok(Self {
            engine: engine.clone(),
            id,
            open: None,
            network: Vec::new(),
            files: Vec::new(),
            network_log: Arc::default(),
            started: 0,
            path: format!("{installed}{}", options.toolchain.path),
        })
    }

    /// The copy it works on.
    pub(super) fn folder(&self) -> PathBuf {
        self.engine.options.data.workspace(&self.id)
    }

    /// On its own folder.
    pub(super) async fn open(&mut self, repository: &str, objects: PathBuf, wall: Duration) -> Result<(), Error> {
        let (policy, serving) = self.serve(repository).await?;
        let spec = Spec {
            id: self.id.clone(),
            workspace: Workspace::Folder { path: self.folder() },
            objects: Some(objects),
            limits: Limits { wall, ..Limits::default() },
        };
        let sandbox = self.engine.options.provider.create(spec).await?;
        self.opened(&policy, sandbox, serving);
        Ok(())
    }

    /// On a private copy of a snapshot, with the programs that are installed there, as a session is.
    pub(crate) async fn open_on(
        &mut self,
        repository: &str,
        mirror: &Mirror,
        snapshot: &Snapshot,
        wall: Duration,
    ) -> Result<(), Error> {
        let (policy, serving) = self.serve(repository).await?;
        let limits = Limits { wall, ..Limits::default() };
        let (sandbox, _) = self.engine.make_sandbox(&self.id, mirror, snapshot, limits).await?;
        self.path = search_path(snapshot, &self.engine.options.toolchain.path);
        self.opened(&policy, sandbox, serving);
        Ok(())
    }

    async fn serve(&self, repository: &str) -> Result<(Policy, Serving), Error> {
        let options = &self.engine.options;
        options.provider.prepare(&self.id).await?;
        // The same hosts as for sessions: what they may have installed, they may be given installed.
        let policy = options.egress.now().of(repository).clone();
        let egress = Access { policy: policy.clone(), registries: true, recorder: self.network_log.clone() };
        let session = harvest_gateway::Session {
            id: self.id.to_string(),
            meter: Arc::new(NoModel),
            credentials: Arc::new(NoCredentials),
            git: None,
            egress,
            server_tools: harvest_gateway::ServerTools::none(),
        };
        let serving = options.gateway.serve(options.provider.listen(&self.id)?, session);
        Ok((policy, serving))
    }

    fn opened(&mut self, policy: &Policy, sandbox: Sandbox, serving: Serving) {
        let environment = self.engine.network_environment(policy, &sandbox);
        self.network = environment.env.clone();
        self.files = egress::files(environment, &sandbox);
        self.open = Some((sandbox, serving));
    }

    /// Runs a script to its end or its limit, or until it asks a registry that cannot be used. `None` when it was stopped.
    pub(crate) async fn run(
        &mut self,
        script: &str,
        more: &[(&str, &str)],
        limit: Duration,
        stop: &Stop,
        mut line: impl FnMut(String),
    ) -> Result<Option<Outcome>, Error> {
        let Some((sandbox, _)) = &self.open else {
            return Err(harvest_sandbox::Error::Lost { id: self.id.clone() }.into());
        };
        self.started += 1;
        let env: Vec<(&str, &str)> = ENVIRONMENT.iter().chain(more).copied().collect();
        let spec = ProcessSpec {
            id: format!("prepare-{}", self.started),
            argv: vec!["/bin/sh".into(), "-c".into(), script.to_owned()],
            env: self.engine.environment(&self.network, &self.path, &env),
            files: std::mem::take(&mut self.files),
            ..ProcessSpec::default()
        };
        let begun = Instant::now();
        self.network_log.trouble.send_replace(None);
        let mut troubles = self.network_log.trouble.subscribe();
        let mut process = sandbox.start(spec).await?;
        let mut tail = Tail::new(TAIL_BYTES);
        let mut shown = Shown::new(self.engine.options.redactor.as_ref().clone());
        let mut is_over = false;
        let ended = tokio::select! {
            code = drain(&mut process, &mut tail, &mut shown, &mut line) => {
                is_over = true;
                Some((code, false))
            }
            () = tokio::time::sleep(limit) => Some((None, true)),
            Ok(_) = troubles.wait_for(Option::is_some) => Some((None, false)),
            () = stop.requested() => None,
        };
        if !is_over {
            process.signal(Signal::Kill).await?;
            let _ = tokio::time::timeout(KILL_LIMIT, drain(&mut process, &mut tail, &mut shown, &mut line)).await;
        }
        shown.finish(&mut line);
        let is_whole = !tail.is_cut();
        let workspace = sandbox.paths().workspace.display().to_string();
        Ok(ended.map(|(exit_code, timed_out)| {
            let (tail, duration) = (tail.into_text(), begun.elapsed());
            let trouble = troubles.borrow().clone().filter(|_| exit_code != Some(0));
            Outcome { ran: Ran { exit_code, timed_out, is_lost: false, tail, is_whole, workspace, duration }, trouble }
        }))
    }

    /// The hosts it was not let through to so far.
    pub(super) fn refused(&self) -> Vec<String> {
        self.network_log.refused.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Ends everything in it. Its folder stays.
    pub(super) async fn close(&mut self) -> Result<(), Error> {
        if let Some((_, serving)) = self.open.take() {
            serving.stop().await;
        }
        Ok(self.engine.options.provider.destroy(&self.id).await?)
    }

    /// Removes every trace of it.
    pub(crate) async fn leave(mut self) -> Result<(), Error> {
        self.close().await?;
        remove_workspace(&self.folder()).await?;
        Ok(self.engine.options.store.forget_sandbox(&self.id).await?)
    }
}

/// Turns what is printed into lines without secrets, each cut to what is shown of it.
struct Shown {
    redactor: StreamRedactor,
    /// The beginning of the line that has not ended.
    line: String,
}

impl Shown {
    fn new(redactor: Redactor) -> Self {
        Self { redactor: StreamRedactor::new(redactor), line: String::new() }
    }

    fn push(&mut self, piece: &[u8], ends: bool, show: &mut impl FnMut(String)) {
        let mut clean = self.redactor.push(&String::from_utf8_lossy(piece));
        if ends {
            clean.push_str(&self.redactor.push("\n"));
        }
        self.take(&clean, show);
    }

    fn finish(&mut self, show: &mut impl FnMut(String)) {
        let rest = self.redactor.finish();
        self.take(&rest, show);
        if !self.line.is_empty() {
            show(std::mem::take(&mut self.line));
        }
    }

    fn take(&mut self, clean: &str, show: &mut impl FnMut(String)) {
        for part in clean.split_inclusive('\n') {
            let text = part.strip_suffix('\n').unwrap_or(part);
            let room = LINE_SHOWN.saturating_sub(self.line.len());
            self.line.push_str(text.get(..text.floor_char_boundary(room)).unwrap_or_default());
            if part.ends_with('\n') {
                show(std::mem::take(&mut self.line));
            }
        }
    }
}

async fn drain(
    process: &mut Process,
    tail: &mut Tail,
    shown: &mut Shown,
    show: &mut impl FnMut(String),
) -> Option<i32> {
    loop {
        match process.next().await {
            Output::Line { line, continued, offset, .. } => {
                tail.push(&line, !continued);
                shown.push(&line, !continued, show);
                // A lost acknowledgement costs only space in the spool.
                let _ = process.acknowledge(offset).await;
            }
            Output::Exited(exit) => return exit.code,
            Output::Failed { message, .. } => {
                tail.push(message.as_bytes(), true);
                return None;
            }
            Output::Lost => {
                tail.push(b"the sandbox was lost", true);
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that is shown of `text` when it comes in pieces of `size` bytes.
    fn shown(redactor: &Redactor, text: &str, size: usize) -> Vec<String> {
        let (mut shown, mut lines) = (Shown::new(redactor.clone()), Vec::new());
        for line in text.lines() {
            let pieces: Vec<&[u8]> = line.as_bytes().chunks(size).collect();
            for (number, piece) in pieces.iter().enumerate() {
                shown.push(piece, number + 1 == pieces.len(), &mut |line| lines.push(line));
            }
        }
        shown.finish(&mut |line| lines.push(line));
        lines
    }

    #[test]
    fn a_line_of_a_build_is_redacted_before_it_is_cut() {
        const KEY: &str = "canary of a build 0123456789";
        let redactor = Redactor::new([KEY.to_owned().into()]).unwrap();
        for before in [0, 10, LINE_SHOWN - 12, LINE_SHOWN - 3, LINE_SHOWN] {
            for size in [7, 100, 10_000] {
                let text = format!("begin\n{}{KEY} and more\nend\n", "x".repeat(before));
                let lines = shown(&redactor, &text, size);
                assert_eq!((lines.len(), lines[0].as_str(), lines[2].as_str()), (3, "begin", "end"), "{lines:?}");
                assert!(lines[1].len() <= LINE_SHOWN && !lines[1].contains("canary"), "{before} {size}: {lines:?}");
            }
        }
    }
}
