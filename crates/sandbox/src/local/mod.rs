//! Sandboxes on this machine, made by bubblewrap.
//!
//! There are two layers. The outer one holds the runner, its link and its spool, and nothing but loopback for a network. Each
//! process then runs in a second one nested in it, with its own user, pid, ipc and mount namespace: it shares the workspace,
//! the home folder and loopback with the runner and sees nothing else of it.

mod confined;
mod etc;
pub(crate) mod filter;
mod group;
mod helpers;
mod launcher;
mod layers;
mod probe;
pub(crate) mod uid;
mod view;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use harvest_core::{SandboxId, WorkspaceKind};
use harvest_link::{Access, Bind, Boot, Counters, Identity, Launch, Overlay, Owner, Watch};

use self::filter::Filters;
use self::group::{Group, Groups};
use self::helpers::Mark;
use self::launcher::Launchers;
use self::uid::Uids;
use self::view::{View, inside, private};
use crate::arrival::{self, Expected, Returned};
use crate::host::{self, Tool};
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
    filters: Filters,
    groups: Groups,
    launchers: Launchers,
    /// In the command line of every helper.
    mark: Mark,
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
        let filters = filter::make(&options.state)?;
        let groups = Groups::of_this_host();
        let launchers = Launchers::new(&options.binaries.runner, &options.state, &groups)?;
        let mark = Mark::of_this_process(launchers.installation())?;
        let mut local = Self { options, tool, uids, etc, filters, groups, launchers, mark, no_overlay: None };
        local.no_overlay = probe::overlay(&local)?;
        Ok(local)
    }

    fn layout(&self, id: &SandboxId) -> Layout {
        Layout::new(&self.options.state, &self.options.runtime, id)
    }

    /// Where things are in every sandbox that has a view of its own.
    pub(crate) fn paths() -> Paths {
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
    fn lay_out(&self, layout: &Layout, spec: &Spec, group: &Group) -> Result<Launch, Error> {
        let identity = self.uids.sandbox(&spec.id);
        layout.make()?;
        folder::open_to_sandbox(&layout.gateway())?;
        for path in [layout.home(), layout.spool()] {
            self.give(&path, identity)?;
        }
        self.give_folder(&layout.sockets, identity)?;
        let launch = self.launch(layout, spec, identity, group)?;
        let own = |name: &str| PathBuf::from(format!("{}/{name}", view::PRIVATE));
        let boot = Boot {
            sandbox: spec.id.to_string(),
            link: own("link/link.sock"),
            gateway: own("link/gateway.sock"),
            spool: own("spool"),
            workspace: view::WORKSPACE.into(),
            home: view::HOME.into(),
            wrap: self.view().process(spec.limits.memory_bytes).into_vec(),
            identity: None,
            deadline_secs: spec.limits.wall.as_secs(),
            max_spool_bytes: spec.limits.output_bytes,
            open_files: None,
            filter: Some(own("filter")),
            watch: Watch {
                memory_bytes: Some(spec.limits.memory_bytes),
                processes: Some(spec.limits.processes),
                disk_bytes: Some(spec.limits.disk_bytes),
                inodes: Some(spec.limits.inodes),
                folders: match spec.workspace {
                    Workspace::Overlay { .. } => vec![own("layer/upper"), view::HOME.into()],
                    Workspace::Folder { .. } => vec![view::WORKSPACE.into(), view::HOME.into()],
                },
                counters: Counters {
                    memory: group.memory.as_ref().map(|_| own("memory")),
                    processes: group.processes.as_ref().map(|_| own("processes")),
                },
            },
        };
        layout::write_json(&layout.boot(), &boot)?;
        Ok(launch)
    }

    fn view(&self) -> View<'_> {
        View { tool: &self.tool, tools: &self.options.tools }
    }

    fn launch(&self, layout: &Layout, spec: &Spec, identity: Identity, group: &Group) -> Result<Launch, Error> {
        use Access::{ReadOnly, Writable};
        let bind = |name: String, source: &Path, owner, access| Bind { name, source: source.to_owned(), owner, access };
        let mut launch = self.view().stage();
        launch.binds.extend([
            bind(inside("etc"), &self.etc, Owner::Kept, ReadOnly),
            bind(inside(view::BIN), &self.options.binaries.folder, Owner::Kept, ReadOnly),
            bind(inside(view::HOME), &layout.home(), Owner::Kept, Writable),
            bind(private("link"), &layout.sockets, Owner::Kept, ReadOnly),
            bind(private("spool"), &layout.spool(), Owner::Kept, Writable),
            bind(private("boot.json"), &layout.boot(), Owner::Kept, ReadOnly),
            bind(private("bwrap"), &self.tool.path, Owner::Kept, ReadOnly),
            bind(private("filter"), &self.filters.process, Owner::Kept, ReadOnly),
        ]);
        for (name, counter) in [("memory", &group.memory), ("processes", &group.processes)] {
            launch.binds.extend(counter.as_ref().map(|file| bind(private(name), file, Owner::Kept, ReadOnly)));
        }
        if let Some(objects) = &spec.objects {
            launch.binds.push(bind(inside(view::OBJECTS), objects, Owner::Mapped, ReadOnly));
        }
        match &spec.workspace {
            Workspace::Overlay { lower } => {
                for name in ["upper", "work"] {
                    folder::make_private(&layout.layer().join(name))?;
                }
                self.give(&layout.layer(), identity)?;
                launch.binds.push(bind("lower".to_owned(), lower, Owner::MustBeMapped, ReadOnly));
                launch.binds.push(bind(private("layer"), &layout.layer(), Owner::Kept, Writable));
                let (name, lower, layer) = (inside(view::WORKSPACE), "lower".to_owned(), private("layer"));
                launch.overlay = Some(Overlay { name, lower, layer });
            }
            Workspace::Folder { path } => {
                self.give(path, identity)?;
                launch.binds.push(bind(inside(view::WORKSPACE), path, Owner::Kept, Writable));
            }
        }
        let mut arguments = self.view().sandbox();
        arguments.add(&["--info-fd", "{info}", "--", &format!("{}/harvest-runner", view::BIN)]);
        // The id at the end is how `destroy` recognises a sandbox whose pid was never written down.
        arguments.add(&["run", &format!("{}/boot.json", view::PRIVATE), spec.id.as_str()]);
        let limits = &spec.limits;
        // The group counts the same processes and tells when it refused one, so it should be the first to.
        let beyond = if group.processes.is_some() { 256 } else { 0 };
        Ok(Launch {
            identity: self.uids.change_to(identity),
            join: group.join.clone(),
            open_files: Some(limits.open_files),
            processes: Some(limits.processes + beyond),
            // One file alone cannot go beyond the limit even for a moment; the runner's own spool has to fit as well.
            file_bytes: Some(limits.disk_bytes.max(limits.output_bytes)),
            cores: limits.cpu_millis.filter(|_| self.groups.cpu().is_none()).map(|millis| millis.div_ceil(1000)),
            info: Some(layout.info()),
            filter: Some(self.filters.runner.clone()),
            argv: arguments.into_vec(),
            ..launch
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

    /// Launches one order, as this process, and not a sandbox's.
    fn launch_now(&self, order: &Launch) -> std::process::Command {
        let mut command = host::command(&self.options.binaries.runner);
        // Strings and numbers only: nothing here can fail to be written as JSON but a path that is no UTF-8, and an empty
        // order is refused by the launcher.
        command.args(["launch", "--inline"]).arg(serde_json::to_string(order).unwrap_or_default());
        command
    }

    async fn start(&self, spec: Spec, began: Instant) -> Result<Sandbox, Error> {
        let layout = self.layout(&spec.id);
        let workspace = match spec.workspace {
            Workspace::Overlay { .. } => WorkspaceKind::Overlay,
            Workspace::Folder { .. } => WorkspaceKind::Copy,
        };
        let launcher = self.launchers.take()?;
        let group = self.groups.limit(&launcher.name, &spec.limits)?;
        let launch = self.lay_out(&layout, &spec, &group)?;
        let facts = Remembered {
            provider: NAME.to_owned(),
            workspace,
            folder: view::WORKSPACE.into(),
            runner: Some(launcher.process),
            groups: launcher.groups(),
            lower: match &spec.workspace {
                Workspace::Overlay { lower } => Some(lower.clone()),
                Workspace::Folder { .. } => None,
            },
        };
        // Before the launcher lets go of its groups: what is not written down is not found again.
        layout.remember(&facts)?;
        let listener = folder::listen(&layout.link())?;
        let runner = launcher.process;
        launcher.launch(&launch, &layout.log()).await?;
        self.expect(&spec.id, workspace, began, &layout.log()).arrive(listener, runner).await
    }

    fn expect<'a>(&self, id: &'a SandboxId, workspace: WorkspaceKind, began: Instant, log: &'a Path) -> Expected<'a> {
        let peer_uid = self.uids.sandbox(id).uid;
        Expected { id, provider: NAME, paths: Self::paths(), workspace, peer_uid, began, log }
    }
}

#[async_trait]
impl Provider for Local {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        let hard_if = |is_hard: bool| if is_hard { Strength::Hard } else { Strength::Soft };
        let limits = Enforcement {
            cpu: hard_if(self.groups.cpu().is_some()),
            memory: hard_if(self.groups.memory().is_some()),
            processes: Strength::Hard,
            disk: Strength::Soft,
            inodes: Strength::Soft,
        };
        Capabilities { overlay: self.no_overlay.is_none(), isolated: true, limits }
    }

    fn gateway_socket(&self, id: &SandboxId) -> PathBuf {
        self.layout(id).gateway()
    }

    async fn prepare(&self, id: &SandboxId) -> Result<(), Error> {
        self.launchers.fill().await;
        self.layout(id).make()
    }

    async fn create(&self, spec: Spec) -> Result<Sandbox, Error> {
        let began = Instant::now();
        if matches!(spec.workspace, Workspace::Overlay { .. }) && self.no_overlay.is_some() {
            return Err(Error::OverlayUnsupported);
        }
        let id = spec.id.clone();
        let created = arrival::or_removed(self, &id, self.start(spec, began)).await;
        self.launchers.refill();
        created
    }

    fn is_alive(&self, id: &SandboxId) -> bool {
        self.layout(id).runner().is_some()
    }

    fn stands_on(&self, id: &SandboxId) -> Option<PathBuf> {
        self.layout(id).recall()?.lower
    }

    fn age(&self, id: &SandboxId) -> Option<Duration> {
        self.layout(id).runner()?.age()
    }

    async fn attach(&self, id: &SandboxId) -> Result<Sandbox, Error> {
        let began = Instant::now();
        let layout = self.layout(id);
        let Returned { facts, runner, listener } = Returned::find(id, &layout)?;
        self.expect(id, facts.workspace, began, &layout.log()).arrive(listener, runner).await
    }

    async fn destroy(&self, id: &SandboxId) -> Result<(), Error> {
        let layout = self.layout(id);
        if !layout.exists() {
            return Ok(());
        }
        let facts = layout.recall();
        let runner = facts.as_ref().and_then(|facts| facts.runner);
        let gone = match (layout.init(id), runner) {
            (Some(init), Some(runner)) => {
                // Its init takes everything along, so it goes first.
                pid::kill_all(|| [init, runner].into_iter().filter(|process| process.open().is_some()).collect()).await
            }
            // It did not get as far as having an init, or has lost it.
            _ => {
                let launcher = || runner.filter(|process| process.open().is_some());
                let others = || pid::find(|cmdline, _| pid::is_runner_of(cmdline, id.as_str()));
                pid::kill_all(|| launcher().into_iter().chain(others()).collect()).await
            }
        };
        if !gone {
            return Err(Error::failed(format!("the processes of sandbox {id} would not end")));
        }
        let groups = facts.map(|facts| facts.groups).unwrap_or_default();
        let removing = tokio::task::spawn_blocking(move || {
            // The groups first: they are written down among the files.
            group::remove(&groups)?;
            layout.remove()
        });
        removing.await.map_err(|error| Error::failed(error.to_string()))?
    }

    async fn list(&self) -> Result<Vec<SandboxId>, Error> {
        layout::list(&[&self.options.state, &self.options.runtime])
    }

    async fn tidy(&self) -> Result<(), Error> {
        helpers::end_orphans(self.launchers.installation()).await?;
        let launchers = self.launchers.clone();
        let tidying = tokio::task::spawn_blocking(move || launchers.tidy());
        tidying.await.map_err(|error| Error::failed(error.to_string()))?
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
