//! Sandboxes on this machine, made by bubblewrap.
//!
//! There are two layers. The outer one holds the runner, its link and its spool, and nothing but loopback for a network. Each
//! process then runs in a second one nested in it, with its own user, pid, ipc and mount namespace: it shares the workspace,
//! the home folder and loopback with the runner and sees nothing else of it.

mod confined;
mod etc;
mod probe;
mod uid;
mod view;

use std::path::{Path, PathBuf};
use std::time::Instant;

use async_trait::async_trait;
use harvest_core::{SandboxId, WorkspaceKind};
use harvest_link::{Bind, Boot, Identity, Launch, Overlay, Owner, Watch};

use self::uid::Uids;
use self::view::{STAGE, View};
use crate::arrival::{self, Expected};
use crate::host::{self, Fact, State, Tool};
use crate::layout::{self, Layout, Remembered};
use crate::{
    Binaries, Capabilities, Confined, Enforcement, Error, Paths, Provider, Sandbox, Spec, Strength, Workspace, folder,
    pid,
};

const NAME: &str = "local";

#[derive(Debug, Clone)]
pub struct Options {
    /// Where sandboxes keep their files; made if it is not there, closed to others.
    pub state: PathBuf,
    /// Where their sockets lie, and nothing else: best a file system in memory.
    pub runtime: PathBuf,
    pub binaries: Binaries,
    /// Read-only folders of the host, outside `/usr` and `/opt`, that appear inside under their own path: toolchains.
    pub tools: Vec<PathBuf>,
}

#[derive(Debug)]
pub struct Local {
    options: Options,
    tool: Tool,
    uids: Uids,
    /// The `/etc` of all sandboxes.
    etc: PathBuf,
    /// Why there are no overlays here, if there are none.
    no_overlay: Option<String>,
}

impl Local {
    /// Makes sure, by making one, that sandboxes can be made on this host.
    pub fn new(mut options: Options) -> Result<Self, Error> {
        let tool = Tool::find()?;
        let uids = Uids::of_this_process()?;
        folder::make_private(&options.state)?;
        folder::make_private(&options.runtime)?;
        for path in [&mut options.state, &mut options.runtime] {
            *path = std::path::absolute(&*path).map_err(|error| Error::io(path.clone(), error))?;
        }
        options.tools.retain(|path| path.is_absolute() && path.to_str().is_some() && path.exists());
        let etc = etc::make(&options.state)?;
        let mut local = Self { options, tool, uids, etc, no_overlay: None };
        local.no_overlay = probe::overlay(&local)?;
        Ok(local)
    }

    fn layout(&self, id: &SandboxId) -> Layout {
        Layout::new(&self.options.state, &self.options.runtime, id)
    }

    fn paths() -> Paths {
        Paths {
            workspace: view::WORKSPACE.into(),
            home: view::HOME.into(),
            objects: view::OBJECTS.into(),
            bin: view::BIN.into(),
        }
    }

    /// Whom the sandbox runs as and, where that is not us, whom its folders belong to.
    fn give(&self, path: &Path, identity: Identity) -> Result<(), Error> {
        match self.uids.change_to(identity) {
            Some(Identity { uid, gid }) => folder::give(path, uid, gid),
            None => Ok(()),
        }
    }

    /// Makes folders and files; what is left is to start the launcher.
    fn lay_out(&self, layout: &Layout, spec: &Spec) -> Result<Launch, Error> {
        let identity = self.uids.sandbox(&spec.id);
        layout.make()?;
        folder::open_to_sandbox(&layout.gateway())?;
        for path in [layout.home(), layout.spool()] {
            self.give(&path, identity)?;
        }
        self.give_folder(&layout.sockets, identity)?;
        let launch = self.launch(layout, spec, identity)?;
        let view = View { tool: &self.tool, tools: &self.options.tools, objects: spec.objects.is_some() };
        let boot = Boot {
            sandbox: spec.id.to_string(),
            link: format!("{}/link/link.sock", view::PRIVATE).into(),
            gateway: format!("{}/link/gateway.sock", view::PRIVATE).into(),
            spool: format!("{}/spool", view::PRIVATE).into(),
            workspace: view::WORKSPACE.into(),
            home: view::HOME.into(),
            wrap: view.process().into_vec(),
            deadline_secs: spec.limits.wall.as_secs(),
            max_spool_bytes: spec.limits.output_bytes,
            open_files: None,
            filter: None,
            watch: Watch::default(),
        };
        layout::write_json(&layout.boot(), &boot)?;
        layout::write_json(&layout.launch(), &launch)?;
        Ok(launch)
    }

    fn launch(&self, layout: &Layout, spec: &Spec, identity: Identity) -> Result<Launch, Error> {
        let bind = |name: &str, source: &Path, owner| Bind { name: name.to_owned(), source: source.to_owned(), owner };
        let mut binds = vec![
            bind("etc", &self.etc, Owner::Kept),
            bind("bin", &self.options.binaries.folder, Owner::Kept),
            bind("link", &layout.sockets, Owner::Kept),
            bind("spool", &layout.spool(), Owner::Kept),
            bind("home", &layout.home(), Owner::Kept),
            bind("boot", &layout.boot(), Owner::Kept),
        ];
        for (number, path) in self.options.tools.iter().enumerate() {
            // Not mapped: what only root may read there is not for agents.
            binds.push(bind(&format!("tool{number}"), path, Owner::Kept));
        }
        if let Some(objects) = &spec.objects {
            binds.push(bind("objects", objects, Owner::Mapped));
        }
        let overlay = match &spec.workspace {
            Workspace::Overlay { lower } => {
                for name in ["upper", "work"] {
                    folder::make_private(&layout.layer().join(name))?;
                }
                self.give(&layout.layer(), identity)?;
                binds.push(bind("lower", lower, Owner::MustBeMapped));
                binds.push(bind("layer", &layout.layer(), Owner::Kept));
                Some(Overlay { name: "workspace".to_owned(), lower: "lower".to_owned(), layer: "layer".to_owned() })
            }
            Workspace::Folder { path } => {
                self.give(path, identity)?;
                binds.push(bind("workspace", path, Owner::Kept));
                None
            }
        };
        let view = View { tool: &self.tool, tools: &self.options.tools, objects: spec.objects.is_some() };
        let mut arguments = view.sandbox();
        arguments.add(&["--info-fd", "{info}", "--", &format!("{}/harvest-runner", view::BIN)]);
        // The id at the end is how `destroy` recognises a sandbox whose pid was never written down.
        arguments.add(&["run", &format!("{}/boot.json", view::PRIVATE), spec.id.as_str()]);
        Ok(Launch {
            stage: STAGE.into(),
            identity: self.uids.change_to(identity),
            binds,
            overlay,
            open_files: Some(spec.limits.open_files),
            processes: Some(spec.limits.processes),
            info: Some(layout.info()),
            argv: arguments.into_vec(),
            env: Vec::new(),
        })
    }

    /// The folder alone, without what is in it: the gateway may be listening there already.
    fn give_folder(&self, path: &Path, identity: Identity) -> Result<(), Error> {
        match self.uids.change_to(identity) {
            Some(Identity { uid, gid }) => {
                std::os::unix::fs::lchown(path, Some(uid), Some(gid)).map_err(|error| Error::io(path, error))
            }
            None => Ok(()),
        }
    }

    fn launcher(&self) -> std::process::Command {
        let mut command = host::command(&self.options.binaries.runner);
        command.arg("launch");
        command
    }

    async fn start(&self, spec: Spec, began: Instant) -> Result<Sandbox, Error> {
        let layout = self.layout(&spec.id);
        let workspace = match spec.workspace {
            Workspace::Overlay { .. } => WorkspaceKind::Overlay,
            Workspace::Folder { .. } => WorkspaceKind::Copy,
        };
        self.lay_out(&layout, &spec)?;
        let mut facts = Remembered {
            provider: NAME.to_owned(),
            workspace,
            folder: view::WORKSPACE.into(),
            runner: None,
            init: None,
        };
        layout.remember(&facts)?;
        let listener = folder::listen(&layout.link())?;
        let mut command = self.launcher();
        command.arg(layout.launch()).arg(spec.id.as_str());
        let runner = arrival::spawn(command, &layout.log())?;
        facts.runner = Some(runner);
        layout.remember(&facts)?;
        let sandbox = self.expect(&spec.id, workspace, began, &layout.log()).arrive(listener, runner).await?;
        facts.init = layout.init();
        layout.remember(&facts)?;
        Ok(sandbox)
    }

    fn expect<'a>(&self, id: &'a SandboxId, workspace: WorkspaceKind, began: Instant, log: &'a Path) -> Expected<'a> {
        let peer_uid = self.uids.sandbox(id).uid;
        Expected { id, provider: NAME, paths: Self::paths(), workspace, peer_uid, began, log }
    }

    pub(crate) fn overlay_fact(&self) -> Fact {
        let name = "overlay workspaces";
        match &self.no_overlay {
            None => {
                let how = if matches!(self.uids, Uids::Own { .. }) { "" } else { ", each sandbox under its own uid" };
                Fact { name, state: State::Ok, detail: format!("mounted without copying{how}"), fix: None }
            }
            Some(reason) => Fact {
                name,
                state: State::Degraded,
                detail: format!("workspaces are copied, since {reason}"),
                fix: Some("use a kernel from 5.19 on and a data folder on ext4, xfs or btrfs".to_owned()),
            },
        }
    }
}

#[async_trait]
impl Provider for Local {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        let absent = Strength::Absent;
        let limits = Enforcement { cpu: absent, memory: absent, processes: absent, disk: absent, inodes: absent };
        Capabilities { overlay: self.no_overlay.is_none(), isolated: true, limits }
    }

    fn gateway_socket(&self, id: &SandboxId) -> PathBuf {
        self.layout(id).gateway()
    }

    async fn prepare(&self, id: &SandboxId) -> Result<(), Error> {
        self.layout(id).make()
    }

    async fn create(&self, spec: Spec) -> Result<Sandbox, Error> {
        let began = Instant::now();
        if matches!(spec.workspace, Workspace::Overlay { .. }) && self.no_overlay.is_some() {
            return Err(Error::OverlayUnsupported);
        }
        let id = spec.id.clone();
        match self.start(spec, began).await {
            Ok(sandbox) => Ok(sandbox),
            Err(error) => {
                if let Err(error) = self.destroy(&id).await {
                    tracing::warn!(sandbox = %id, %error, "a sandbox that failed could not be removed");
                }
                Err(error)
            }
        }
    }

    async fn attach(&self, id: &SandboxId) -> Result<Sandbox, Error> {
        let began = Instant::now();
        let layout = self.layout(id);
        let lost = || Error::Lost { id: id.clone() };
        let facts = layout.recall().ok_or_else(lost)?;
        let runner = facts.runner.filter(|runner| runner.open().is_some()).ok_or_else(lost)?;
        folder::open_to_sandbox(&layout.gateway())?;
        let listener = folder::listen(&layout.link())?;
        self.expect(id, facts.workspace, began, &layout.log()).arrive(listener, runner).await
    }

    async fn destroy(&self, id: &SandboxId) -> Result<(), Error> {
        let layout = self.layout(id);
        if !layout.exists() {
            return Ok(());
        }
        let gone = match layout.recall() {
            Some(Remembered { runner: Some(runner), init: Some(init), .. }) => {
                // Its init takes everything along, so it goes first.
                pid::kill_all(|| [init, runner].into_iter().filter(|process| process.open().is_some()).collect()).await
            }
            // Whoever made it did not get as far as writing everything down.
            _ => pid::kill_all(|| pid::find(|cmdline, _| pid::is_runner_of(cmdline, id.as_str()))).await,
        };
        if !gone {
            return Err(Error::failed(format!("the processes of sandbox {id} would not end")));
        }
        tokio::task::spawn_blocking(move || layout.remove()).await.map_err(|error| Error::failed(error.to_string()))?
    }

    async fn list(&self) -> Result<Vec<SandboxId>, Error> {
        layout::list(&[&self.options.state, &self.options.runtime])
    }

    fn confined(&self, helper: Confined) -> tokio::process::Command {
        confined::command(self, helper)
    }

    async fn adopt(&self, path: &Path) -> Result<(), Error> {
        let Some(Identity { uid, gid }) = self.uids.change_to(self.uids.helper()) else {
            return Ok(());
        };
        let path = path.to_owned();
        let given = tokio::task::spawn_blocking(move || folder::give(&path, uid, gid)).await;
        given.map_err(|error| Error::failed(error.to_string()))?
    }
}
