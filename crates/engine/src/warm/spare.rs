//! One sandbox that waits to be wanted.

use std::time::Duration;

use harvest_core::{OwnerId, SandboxId, SandboxPurpose, SessionId, WorkspaceKind};
use harvest_sandbox::{File, Limits, Process, ProcessSpec, Sandbox};
use harvest_store::SandboxRecord;
use harvest_workspace::{Snapshot, script};
use tokio::time::Instant;

use super::seed::Waits;
use super::{Key, Seed};
use crate::execute::{AGENT, Briefing, PREPARE};
use crate::place::{run_to_end, search_path};
use crate::{Engine, Error, egress};

const SETTLE_LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct Spare {
    pub(super) key: Key,
    pub(super) seed: Seed,
    pub(super) made: Instant,
    /// A task in the queue wanted it when that was last looked at.
    pub(super) promised: bool,
    /// When that task was first seen to have left the queue.
    pub(super) claiming: Option<Instant>,
    pub(super) sandbox: Sandbox,
    pub(super) workspace: WorkspaceKind,
    pub(super) network: Vec<(String, String)>,
    /// What is still to be written with the first process.
    pub(super) files: Vec<File>,
    /// Waits for its prompt.
    pub(super) agent: Option<Process>,
    /// Not collected while this waits.
    snapshot: Snapshot,
}

impl Spare {
    /// Recorded first, so that it is never lost sight of.
    pub(super) async fn make(engine: &Engine, owner: &OwnerId, seed: Seed, idle: Duration) -> Result<Self, Error> {
        let options = &engine.options;
        let (snapshot, _) = engine.snapshot_for(&seed.mirror, &seed.base).await?;
        let id = SandboxId::generate(options.entropy.as_ref());
        let record = SandboxRecord {
            id: id.clone(),
            owner: owner.clone(),
            session: SessionId::generate(options.entropy.as_ref()),
            purpose: SandboxPurpose::Warm,
            provider: options.provider.name().to_owned(),
        };
        options.store.record_sandbox(record).await?;
        match Self::build(engine, &id, seed, snapshot, idle).await {
            Ok(spare) => Ok(spare),
            Err(error) => {
                engine.remove_sandbox(&id).await?;
                Err(error)
            }
        }
    }

    async fn build(
        engine: &Engine,
        id: &SandboxId,
        seed: Seed,
        snapshot: Snapshot,
        idle: Duration,
    ) -> Result<Self, Error> {
        engine.options.provider.prepare(id).await?;
        let limits = Limits { wall: seed.limits.wall.saturating_add(idle), ..seed.limits };
        let (sandbox, workspace) = engine.make_sandbox(id, &seed.mirror, &snapshot, limits).await?;
        sandbox.hold(PREPARE).await?;
        let environment = engine.network_environment(&seed.policy, &sandbox);
        let network = environment.env.clone();
        let files = egress::files(environment, &sandbox);
        let key = Key::of(engine, &seed, &snapshot);
        let made = Instant::now();
        let mut spare = Self {
            key,
            seed,
            made,
            promised: false,
            claiming: None,
            sandbox,
            workspace,
            network,
            files,
            agent: None,
            snapshot,
        };
        spare.settle(engine).await?;
        spare.start_agent(engine).await?;
        Ok(spare)
    }

    /// What every session on this snapshot does first.
    async fn settle(&mut self, engine: &Engine) -> Result<(), Error> {
        let snapshot = &self.snapshot;
        if snapshot.manifest().is_none() {
            return Ok(());
        }
        let path = search_path(snapshot, &engine.options.toolchain.path);
        let spec = ProcessSpec {
            id: "settle".to_owned(),
            argv: vec!["/bin/sh".into(), "-c".into(), script::settle()],
            env: engine.environment(&self.network, &path, &[("BASE", &self.seed.base)]),
            files: std::mem::take(&mut self.files),
            ..ProcessSpec::default()
        };
        let ran = run_to_end(&self.sandbox, spec, SETTLE_LIMIT).await?;
        if ran.succeeded() {
            return Ok(());
        }
        let message = format!("the workspace could not be brought to the base: {}", ran.last_line());
        Err(harvest_sandbox::Error::Failed { detail: message }.into())
    }

    /// Up to its prompt, where it can wait for that; else all that is around it.
    async fn start_agent(&mut self, engine: &Engine) -> Result<(), Error> {
        let Some(agent) = engine.options.registry.get(&self.seed.agent) else { return Ok(()) };
        if self.seed.waits == Waits::Process {
            return Ok(self.sandbox.hold(AGENT).await?);
        }
        let path = search_path(&self.snapshot, &engine.options.toolchain.path);
        let briefing = Briefing {
            prompt: "",
            choice: &self.seed.choice,
            max_turns: self.seed.max_turns,
            resume: None,
            plan: false,
            mcp: &[],
        };
        let mut spec = engine.agent_process(agent, &briefing, &self.sandbox, &self.network, &path);
        spec.stdin.clear();
        spec.keep_stdin = true;
        spec.files.splice(0..0, std::mem::take(&mut self.files));
        self.agent = Some(self.sandbox.start(spec).await?);
        Ok(())
    }

    pub(super) fn age(&self) -> Duration {
        self.made.elapsed()
    }

    pub(super) fn is_alive(&self) -> bool {
        self.sandbox.is_alive()
    }

    pub(super) async fn remove(self, engine: &Engine) -> Result<(), Error> {
        engine.remove_sandbox(self.sandbox.id()).await
    }
}
