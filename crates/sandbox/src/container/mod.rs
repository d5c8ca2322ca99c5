//! Sandboxes in containers of Docker or Podman.
//!
//! The runner is the container's first process and its root, with no more capabilities than it takes to start others as someone
//! else, to end them and to look after their files. Each process runs as a uid of its own without any. What is the runner's lies
//! behind a folder that only root may enter: link, spool and orders can be seen by no one else, whoever they belong to outside.
//! There is no network but loopback, which leads to the gateway, and nothing of the host but the workspace, the home folder, the
//! objects and Harvest's own programs, the last two read-only.

mod engine;
mod find;
mod look;
mod settings;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use async_trait::async_trait;
use harvest_core::{SandboxId, WorkspaceKind};
use harvest_link::Identity;

use self::engine::{About, Engine};
pub use self::find::{engines, sockets};
use self::settings::Settings;
use crate::arrival::{self, Expected, Returned};
use crate::layout::{self, Layout, Remembered};
use crate::local::filter::{self, Filters};
use crate::local::uid::Uids;
use crate::local::{self, Local};
use crate::{
    Binaries, Capabilities, Confined, Enforcement, Error, Provider, Sandbox, Spec, Strength, Workspace, folder, pid,
};

const NAME: &str = "container";
/// Where helpers of the host have their own.
const HELPERS: &str = ".helpers";

#[derive(Debug, Clone)]
pub struct Options {
    /// Where an engine may listen; the first that answers is used. See [`sockets`].
    pub sockets: Vec<PathBuf>,
    /// Has to be there already: nothing is pulled.
    pub image: String,
    /// As the engine knows it, for example `runsc`; the engine's own choice when there is none.
    pub runtime: Option<String>,
    /// Where sandboxes keep their files; made if it is not there, closed to others.
    pub state: PathBuf,
    /// Where their sockets lie, and nothing else.
    pub runtime_folder: PathBuf,
    pub binaries: Binaries,
}

#[derive(Debug)]
pub struct Container {
    options: Options,
    engine: Engine,
    about: About,
    uids: Uids,
    filters: Filters,
    /// Runs trusted programs of the host on untrusted data.
    helpers: Local,
    /// Tells our containers from those of others.
    installation: String,
}

impl Container {
    /// Makes sure that there is an engine. Not that it has the image: what there is can be removed without.
    pub fn new(mut options: Options) -> Result<Self, Error> {
        folder::make_private(&options.state)?;
        folder::make_private(&options.runtime_folder)?;
        for path in [&mut options.state, &mut options.runtime_folder, &mut options.binaries.folder] {
            *path = std::path::absolute(&*path).map_err(|error| Error::io(path.clone(), error))?;
        }
        let (engine, about) = Engine::find(&options.sockets, None)?;
        if about.is_rootless && !about.is_podman {
            return Err(Error::failed(
                "with rootless Docker every file belongs to root, so agents could not be isolated from the runner; \
                 use rootless Podman, Docker run by root, or `--sandbox local`",
            ));
        }
        let uids = Uids::of_this_process()?;
        let filters = filter::make(&options.state)?;
        let helpers = Local::new(local::Options {
            state: options.state.join(HELPERS),
            // They have no sockets.
            runtime: options.state.join(HELPERS).join("run"),
            binaries: options.binaries.clone(),
            tools: Vec::new(),
        })?;
        let data = fs::metadata(&options.state).map_err(|error| Error::io(&options.state, error))?;
        let installation = format!("{:x}-{:x}", data.dev(), data.ino());
        Ok(Self { options, engine, about, uids, filters, helpers, installation })
    }

    fn layout(&self, id: &SandboxId) -> Layout {
        Layout::new(&self.options.state, &self.options.runtime_folder, id)
    }

    fn expect<'a>(&self, id: &'a SandboxId, peer_uid: u32, began: Instant, log: &'a Path) -> Expected<'a> {
        Expected { id, provider: NAME, paths: Local::paths(), workspace: WorkspaceKind::Copy, peer_uid, began, log }
    }

    /// Makes folders and files; what is left is to ask the engine.
    fn lay_out(&self, layout: &Layout, spec: &Spec, workspace: &Path) -> Result<Identity, Error> {
        let identity = self.uids.sandbox(&spec.id);
        folder::open_to_sandbox(&layout.gateway())?;
        if let Some(Identity { uid, gid }) = self.uids.change_to(identity) {
            for path in [workspace, &layout.home()] {
                folder::give(path, uid, gid)?;
            }
        } else {
            // Said here, where the words are ours.
            fs::metadata(workspace).map_err(|error| Error::io(workspace, error))?;
        }
        Ok(identity)
    }

    async fn start(&self, spec: Spec, workspace: &Path, began: Instant) -> Result<Sandbox, Error> {
        let layout = self.layout(&spec.id);
        layout.make()?;
        let mut facts = Remembered {
            provider: NAME.to_owned(),
            workspace: WorkspaceKind::Copy,
            folder: Local::paths().workspace,
            runner: None,
            groups: Vec::new(),
            lower: None,
        };
        layout.remember(&facts)?;
        let identity = self.lay_out(&layout, &spec, workspace)?;
        let settings = Settings {
            spec: &spec,
            workspace,
            layout: &layout,
            options: &self.options,
            about: &self.about,
            installation: &self.installation,
            filter: &self.filters.process,
            identity,
            own_uid: self.uids.change_to(identity).is_some(),
        };
        layout::write_json(&layout.boot(), &settings.boot())?;
        settings.write_names()?;
        let body = settings.container()?;
        let listener = folder::listen(&layout.link())?;
        self.engine.create(&spec.id, body).await?;
        let outcome = async {
            let pid = self.engine.start(&spec.id).await?;
            let runner = pid.and_then(pid::Identity::of).ok_or_else(|| Error::Lost { id: spec.id.clone() })?;
            facts.runner = Some(runner);
            layout.remember(&facts)?;
            let peer_uid = uid_of(runner)?;
            self.expect(&spec.id, peer_uid, began, &layout.log()).arrive(listener, runner).await
        };
        match outcome.await {
            Err(Error::Lost { .. } | Error::Silent { .. }) => Err(self.engine.complaint(&spec.id).await),
            outcome => outcome,
        }
    }
}

/// Makes sure that the first engine that answers has this image.
pub fn check_image(sockets: &[PathBuf], image: &str) -> Result<(), Error> {
    Engine::find(sockets, Some(image)).map(|_| ())
}

/// Whom the runner is outside, where its connections come from.
fn uid_of(runner: pid::Identity) -> Result<u32, Error> {
    let path = format!("/proc/{}", runner.pid);
    Ok(fs::metadata(&path).map_err(|error| Error::io(path, error))?.uid())
}

#[async_trait]
impl Provider for Container {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        let hard_if = |is_hard: bool| if is_hard { Strength::Hard } else { Strength::Soft };
        let limits = Enforcement {
            cpu: if self.about.limits_cpu { Strength::Hard } else { Strength::Absent },
            memory: hard_if(self.about.limits_memory),
            processes: hard_if(self.about.limits_processes),
            disk: Strength::Soft,
            inodes: Strength::Soft,
        };
        Capabilities { overlay: false, isolated: true, limits }
    }

    fn gateway_socket(&self, id: &SandboxId) -> PathBuf {
        self.layout(id).gateway()
    }

    async fn prepare(&self, id: &SandboxId) -> Result<(), Error> {
        self.layout(id).make()
    }

    async fn create(&self, spec: Spec) -> Result<Sandbox, Error> {
        let began = Instant::now();
        let Workspace::Folder { path } = spec.workspace.clone() else { return Err(Error::OverlayUnsupported) };
        let id = spec.id.clone();
        arrival::or_removed(self, &id, self.start(spec, &path, began)).await
    }

    fn is_alive(&self, id: &SandboxId) -> bool {
        self.layout(id).runner().is_some()
    }

    async fn attach(&self, id: &SandboxId) -> Result<Sandbox, Error> {
        let began = Instant::now();
        let layout = self.layout(id);
        let Returned { runner, listener, .. } = Returned::find(id, &layout)?;
        let peer_uid = uid_of(runner).map_err(|_| Error::Lost { id: id.clone() })?;
        self.expect(id, peer_uid, began, &layout.log()).arrive(listener, runner).await
    }

    async fn destroy(&self, id: &SandboxId) -> Result<(), Error> {
        // Whatever is on disk: the folders may be gone while the container is not.
        self.engine.remove(id).await?;
        let layout = self.layout(id);
        tokio::task::spawn_blocking(move || layout.remove()).await.map_err(|error| Error::failed(error.to_string()))?
    }

    async fn list(&self) -> Result<Vec<SandboxId>, Error> {
        let mut ids = layout::list(&[&self.options.state, &self.options.runtime_folder])?;
        ids.extend(self.engine.list(&self.installation).await?);
        ids.sort();
        ids.dedup();
        Ok(ids)
    }

    fn confined(&self, helper: Confined) -> tokio::process::Command {
        self.helpers.confined(helper)
    }

    async fn adopt(&self, path: &Path) -> Result<(), Error> {
        self.helpers.adopt(path).await
    }
}
