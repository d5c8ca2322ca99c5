//! A place to run something for a turn: a fresh sandbox on a private copy of the snapshot, with its gateway.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use harvest_core::{
    EventBody, OutputStream, OwnerId, SandboxId, SandboxPurpose, Session, SessionId, Task, WorkspaceKind,
};
use harvest_gateway::{Credentials, Meter, NoCredentials, Serving, git};
use harvest_sandbox::{Limits, Output, Process, ProcessSpec, Sandbox, Signal, Spec, Workspace};
use harvest_store::SandboxRecord;
use harvest_vault::Redactor;
use harvest_workspace::{Mirror, SessionRepository, Snapshot, materialise, remove_strange};

use crate::confined_git::ConfinedGit;
use crate::error::Halt;
use crate::journal::Journal;
use crate::turn::Turn;
use crate::{Engine, Error, egress, failpoint, limit};

/// Where an isolated sandbox shows the mirror's objects; written into every snapshot.
pub(crate) const OBJECTS_INSIDE: &str = "/harvest/objects";
/// Where an isolated sandbox shows its workspace; what is installed for a snapshot has it in its files.
pub(crate) const WORKSPACE_INSIDE: &str = "/workspace";
/// The name of the repository at the gateway.
const REPOSITORY: &str = "repository";
const TAIL_BYTES: usize = 1024 * 1024;
/// What a sandbox may outlive its work by: to save the result, and for a server to come back.
pub(crate) const GRACE: Duration = Duration::from_secs(15 * 60);
const KILL_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) sandbox: Sandbox,
    serving: Serving,
    /// Variables for package managers and the proxy.
    network: Vec<(String, String)>,
    /// Their files, written with the first process, before anything untrusted runs: an agent that puts something else in
    /// their place must not keep later processes from starting.
    files: Mutex<Vec<harvest_sandbox::File>>,
    /// It was made ahead, and with it whatever every session on its snapshot does first.
    is_settled: bool,
    /// A worker before this one made it, and may have begun what is about to be done.
    is_taken_over: bool,
    /// Nothing leaves it but what is said there.
    only_asks: bool,
    /// Waits there for its prompt.
    agent: Mutex<Option<Process>>,
}

/// How a command in a place ended.
#[derive(Debug)]
pub(crate) struct Ran {
    /// `None` when it was killed.
    pub(crate) exit_code: Option<i32>,
    pub(crate) timed_out: bool,
    /// Its sandbox was lost, so how it would have ended is not known.
    pub(crate) is_lost: bool,
    /// The end of what it printed, both streams as they came.
    pub(crate) tail: String,
    /// The tail is everything that it printed.
    pub(crate) is_whole: bool,
    /// The folder that it ran in, as it was seen there.
    pub(crate) workspace: String,
    pub(crate) duration: Duration,
}

impl Ran {
    pub(crate) fn succeeded(&self) -> bool {
        self.exit_code == Some(0) && !self.timed_out
    }

    pub(crate) fn last_line(&self) -> &str {
        self.tail.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing")
    }
}

impl Place {
    pub(crate) fn new(
        sandbox: Sandbox,
        serving: Serving,
        network: Vec<(String, String)>,
        files: Vec<harvest_sandbox::File>,
    ) -> Self {
        let (files, agent) = (Mutex::new(files), Mutex::new(None));
        Self { sandbox, serving, network, files, is_settled: false, is_taken_over: false, only_asks: false, agent }
    }

    /// Made by a worker that is gone, with everything in it.
    pub(crate) fn taken_over(sandbox: Sandbox, serving: Serving, network: Vec<(String, String)>) -> Self {
        Self { is_settled: true, is_taken_over: true, ..Self::new(sandbox, serving, network, Vec::new()) }
    }

    /// Made ahead, with an agent that waits or without.
    pub(crate) fn warm(self, agent: Option<Process>) -> Self {
        Self { is_settled: true, agent: Mutex::new(agent), ..self }
    }

    /// For an opinion.
    pub(crate) fn only_asks(&self) -> bool {
        self.only_asks
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled
    }

    pub(crate) fn is_taken_over(&self) -> bool {
        self.is_taken_over
    }

    /// The agent that waits here, for the first who asks.
    pub(crate) fn take_agent(&self) -> Option<Process> {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// For every process in here, beside its own.
    pub(crate) fn network(&self) -> &[(String, String)] {
        &self.network
    }

    /// Written with the next process.
    pub(crate) fn lay(&self, files: impl IntoIterator<Item = harvest_sandbox::File>) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).extend(files);
    }

    /// What is still to be written; nothing after the first time.
    pub(crate) fn take_files(&self) -> Vec<harvest_sandbox::File> {
        std::mem::take(&mut *self.files.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Turn {
    /// Makes a sandbox on the base commit. It is recorded first, so that none is ever lost sight of.
    pub(crate) async fn place(&self, purpose: SandboxPurpose, meter: Arc<dyn Meter>) -> Result<Place, Halt> {
        failpoint::reach("provision::before")?;
        if purpose == SandboxPurpose::Execute
            && let Some(place) = self.claim_spare(meter.clone()).await?
        {
            failpoint::reach("provision::after")?;
            return Ok(place);
        }
        let options = &self.engine.options;
        let begun = Instant::now();
        let making = self.engine.making.acquire().await.ok();
        let id = SandboxId::generate(options.entropy.as_ref());
        options.store.record_sandbox(self.record_of(&id, purpose)).await?;
        let made = self.make(&id, purpose, meter).await;
        drop(making);
        let (place, workspace) = match made {
            Ok(made) => made,
            Err(error) => {
                self.clear_away(&id).await?;
                return Err(error.into());
            }
        };
        let ready = EventBody::SandboxReady {
            sandbox_id: id,
            purpose,
            provider: options.provider.name().to_owned(),
            workspace,
            duration_ms: millis(begun.elapsed()),
            warm: false,
            age_ms: None,
        };
        self.journal.write(vec![ready]).await?;
        failpoint::reach("provision::after")?;
        Ok(place)
    }

    pub(crate) fn record_of(&self, id: &SandboxId, purpose: SandboxPurpose) -> SandboxRecord {
        SandboxRecord {
            id: id.clone(),
            owner: self.owner.clone(),
            session: self.lease().session.clone(),
            purpose,
            provider: self.engine.options.provider.name().to_owned(),
        }
    }

    async fn make(
        &self,
        id: &SandboxId,
        purpose: SandboxPurpose,
        meter: Arc<dyn Meter>,
    ) -> Result<(Place, WorkspaceKind), Error> {
        self.engine.options.provider.prepare(id).await?;
        let serving = self.serve(id, purpose, meter)?;
        let limits = self.engine.limits_of(&self.task);
        let (sandbox, kind) = self.engine.make_sandbox(id, &self.mirror, &self.snapshot, limits).await?;
        let environment = self.network_environment(&sandbox);
        let network = environment.env.clone();
        let files = egress::files(environment, &sandbox);
        let only_asks = purpose == SandboxPurpose::Opinion;
        Ok((Place { only_asks, ..Place::new(sandbox, serving, network, files) }, kind))
    }

    /// The gateway of a sandbox, for this session from now on.
    pub(crate) fn serve(
        &self,
        id: &SandboxId,
        purpose: SandboxPurpose,
        meter: Arc<dyn Meter>,
    ) -> Result<Serving, Error> {
        let Self { owner, task, session, actor, journal, repository, .. } = self;
        let plans = self.plan.is_wanted();
        self.engine.serve(id, purpose, meter, Served { owner, task, session, actor, journal, repository, plans })
    }

    /// Ends everything in the place and removes every trace of it.
    pub(crate) async fn leave(&self, place: Place) -> Result<(), Halt> {
        let id = place.sandbox.id().clone();
        place.serving.stop().await;
        self.clear_away(&id).await?;
        Ok(())
    }

    /// One that cannot be removed is nothing that the work came to: it stays recorded, and whoever tidies up removes it.
    pub(crate) async fn clear_away(&self, id: &SandboxId) -> Result<(), Error> {
        match self.engine.remove_sandbox(id).await {
            Err(error @ Error::Store(_)) => Err(error),
            Err(error) => {
                tracing::warn!(sandbox = %id, %error, "a sandbox could not be removed");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Where git in the sandbox finds the session's repository.
    pub(crate) fn remote(place: &Place) -> String {
        format!("http://127.0.0.1:{}/git/{REPOSITORY}", place.sandbox.gateway_port())
    }

    /// Runs a shell command to its end or its limit. It is killed with all its children when this future is dropped late
    /// by a stop, since the sandbox goes away then.
    pub(crate) async fn run(
        &self,
        place: &Place,
        id: &str,
        script: &str,
        env: &[(&str, &str)],
        limit: Duration,
    ) -> Result<Ran, Error> {
        let spec = ProcessSpec {
            id: id.to_owned(),
            argv: vec!["/bin/sh".into(), "-c".into(), script.to_owned()],
            env: self.environment(place, env),
            files: place.take_files(),
            ..ProcessSpec::default()
        };
        run_to_end(&place.sandbox, spec, limit).await
    }

    pub(crate) fn environment(&self, place: &Place, more: &[(&str, &str)]) -> Vec<(String, String)> {
        self.engine.environment(&place.network, &self.path(), more)
    }

    /// The search path: what the snapshot has installed comes first.
    pub(crate) fn path(&self) -> String {
        search_path(&self.snapshot, &self.engine.options.toolchain.path)
    }
}

/// Whom a gateway is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served<'a> {
    pub(crate) owner: &'a OwnerId,
    pub(crate) task: &'a Task,
    pub(crate) session: &'a Session,
    /// The person that the turn acts for.
    pub(crate) actor: &'a str,
    pub(crate) journal: &'a Journal,
    pub(crate) repository: &'a SessionRepository,
    /// The agent only makes a plan.
    pub(crate) plans: bool,
}

impl Engine {
    /// The gateway of a sandbox, in place of whoever served it before.
    pub(crate) fn serve(
        &self,
        id: &SandboxId,
        purpose: SandboxPurpose,
        meter: Arc<dyn Meter>,
        served: Served<'_>,
    ) -> Result<Serving, Error> {
        let options = &self.options;
        let provider = &options.provider;
        let repository = served.repository.path().to_owned();
        let objects = served.repository.mirror_objects().to_owned();
        let access = git::Access {
            name: REPOSITORY.to_owned(),
            directory: repository.clone(),
            branch: served.session.branch.as_ref_name(),
            namespace: SessionRepository::namespace(&served.session.id),
            writable: purpose == SandboxPurpose::Execute,
            command: Arc::new(ConfinedGit::new(provider.clone(), repository, objects)),
        };
        let session = harvest_gateway::Session {
            id: served.session.id.to_string(),
            meter,
            credentials: self.credentials(served, purpose),
            git: Some(access),
            egress: self.egress(served.task, served.journal, served.plans),
            server_tools: self.server_tools(served.task),
        };
        let tools = self.tools(purpose, served, &session.credentials);
        Ok(options.gateway.serve_with_tools(provider.listen(id)?, session, tools))
    }

    /// Only where an agent works. Personal ones are those of the person that the turn acts for, whose task it may not be.
    fn credentials(&self, served: Served<'_>, purpose: SandboxPurpose) -> Arc<dyn Credentials> {
        if !matches!(purpose, SandboxPurpose::Execute | SandboxPurpose::Opinion) {
            return Arc::new(NoCredentials);
        }
        self.options.keyring.of(self.options.tenancy.now().identity(served.actor, &served.task.repository))
    }

    pub(crate) fn environment(
        &self,
        network: &[(String, String)],
        path: &str,
        more: &[(&str, &str)],
    ) -> Vec<(String, String)> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut env = network.to_vec();
        env.push(("PATH".to_owned(), path.to_owned()));
        env.extend(self.options.toolchain.env.iter().cloned());
        env.extend(more.iter().map(own));
        env
    }

    /// A sandbox on a private copy of the snapshot.
    pub(crate) async fn make_sandbox(
        &self,
        id: &SandboxId,
        mirror: &Mirror,
        snapshot: &Snapshot,
        limits: Limits,
    ) -> Result<(Sandbox, WorkspaceKind), Error> {
        let provider = &self.options.provider;
        let capabilities = provider.capabilities();
        let (workspace, kind) = if capabilities.overlay {
            (Workspace::Overlay { lower: snapshot.path().to_owned() }, WorkspaceKind::Overlay)
        } else {
            let path = self.options.data.workspace(id);
            let objects = if capabilities.isolated { PathBuf::from(OBJECTS_INSIDE) } else { mirror.objects() };
            let kind = materialise(snapshot, &path, &objects).await?;
            (Workspace::Folder { path }, kind)
        };
        let spec = Spec { id: id.clone(), workspace, objects: Some(mirror.objects()), limits };
        Ok((provider.create(spec).await?, kind))
    }

    /// Ends everything in a sandbox and removes every trace of it.
    pub(crate) async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), Error> {
        let options = &self.options;
        options.provider.destroy(id).await?;
        remove_workspace(&options.data.workspace(id)).await?;
        Ok(options.store.forget_sandbox(id).await?)
    }

    /// Ends every sandbox that `owner` has for a session: nobody works there any more.
    pub(crate) async fn clear_session(&self, owner: &OwnerId, session: &SessionId) -> Result<(), Error> {
        for record in self.options.store.sandboxes().await? {
            if record.session == *session && record.owner == *owner {
                self.remove_sandbox(&record.id).await?;
            }
        }
        Ok(())
    }
}

/// Runs something to its end or its limit.
pub(crate) async fn run_to_end(sandbox: &Sandbox, spec: ProcessSpec, limit: Duration) -> Result<Ran, Error> {
    let begun = Instant::now();
    let mut process = sandbox.start(spec).await?;
    let mut tail = Tail::new(TAIL_BYTES);
    let (mut timed_out, mut is_lost) = (false, false);
    let exit_code = match tokio::time::timeout(limit, drain(&mut process, &mut tail)).await {
        Ok(Some(exit_code)) => exit_code,
        Ok(None) => {
            is_lost = true;
            None
        }
        Err(_) => {
            timed_out = true;
            process.signal(Signal::Kill).await?;
            let _ = tokio::time::timeout(KILL_LIMIT, drain(&mut process, &mut tail)).await;
            None
        }
    };
    let is_whole = !tail.is_cut();
    let (tail, workspace) = (tail.into_text(), sandbox.paths().workspace.display().to_string());
    Ok(Ran { exit_code, timed_out, is_lost, tail, is_whole, workspace, duration: begun.elapsed() })
}

/// The exit code, if it has one; `None` when the sandbox was lost.
async fn drain(process: &mut Process, tail: &mut Tail) -> Option<Option<i32>> {
    loop {
        match process.next().await {
            Output::Line { line, continued, offset, .. } => {
                tail.push(&line, !continued);
                // Nothing of this output is journaled; a lost acknowledgement costs only space in the spool.
                let _ = process.acknowledge(offset).await;
            }
            Output::Exited(exit) => return Some(exit.code),
            Output::Failed { limit, message } => {
                let message = limit.map_or_else(|| message.clone(), |limit| limit::explain(limit, &message));
                tail.push(message.as_bytes(), true);
                return Some(None);
            }
            Output::Lost => {
                tail.push(b"the sandbox was lost", true);
                return None;
            }
        }
    }
}

pub(crate) async fn remove_workspace(path: &Path) -> Result<(), Error> {
    let removed = remove_strange(path).await;
    removed.map_err(|source| Error::Io { action: "remove", path: path.display().to_string(), source })
}

pub(crate) fn search_path(snapshot: &Snapshot, toolchain: &str) -> String {
    let programs = snapshot.manifest().map_or(&[] as &[String], |manifest| &manifest.programs);
    let installed: String = programs.iter().map(|folder| format!("{WORKSPACE_INSIDE}/{folder}:")).collect();
    format!("{installed}{toolchain}")
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The last bytes of something that may be endless, without secrets. A little more than the limit is held, so that a secret which
/// the cut would take apart is recognised.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes: std::collections::VecDeque<u8>,
    limit: usize,
    held: usize,
    is_cut: bool,
}

impl Tail {
    pub(crate) fn new(limit: usize) -> Self {
        let reach = Redactor::of_process().map_or(0, |redactor| redactor.reach());
        Self { bytes: std::collections::VecDeque::new(), limit, held: limit + reach, is_cut: false }
    }

    pub(crate) fn push(&mut self, line: &[u8], ends: bool) {
        self.bytes.extend(line.iter().copied().chain(ends.then_some(b'\n')));
        self.is_cut |= self.bytes.len() > self.limit;
        let surplus = self.bytes.len().saturating_sub(self.held);
        self.bytes.drain(..surplus);
    }

    pub(crate) fn push_if(&mut self, wanted: OutputStream, stream: OutputStream, line: &[u8], ends: bool) {
        if stream == wanted {
            self.push(line, ends);
        }
    }

    /// More was printed than is kept.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(crate) fn into_text(self) -> String {
        let bytes = Vec::from(self.bytes);
        let text = String::from_utf8_lossy(&bytes);
        match Redactor::of_process() {
            Ok(redactor) => redactor.redact_tail(&text, self.limit),
            Err(error) => format!("the output is omitted because it could not be redacted: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_keeps_the_end() {
        let mut tail = Tail::new(8);
        tail.push(b"first", true);
        tail.push(b"second", true);
        assert_eq!(tail.into_text(), "\nsecond\n");
    }

    #[test]
    fn a_tail_that_begins_within_a_key_shows_no_part_of_it() {
        const KEY: &str = "canary of a tail 0123456789 without a shape";
        Redactor::of_process().unwrap().learn([&KEY.to_owned().into()]).unwrap();
        let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
        for form in [KEY, hex.as_str(), "sk-ant-api03-canary0123456789abcdefghijklmnopqr"] {
            for limit in 1..form.len() + 8 {
                let mut tail = Tail::new(limit);
                tail.push(&vec![b'x'; 100_000], true);
                tail.push(form.as_bytes(), true);
                tail.push(b"after", true);
                assert!(tail.is_cut());
                let text = tail.into_text();
                let shown = text.strip_suffix("after\n").unwrap_or_default().trim_matches(['x', '\n']);
                assert!(shown.is_empty() || shown == "[redacted]", "{limit}: {text}");
            }
        }
    }
}
