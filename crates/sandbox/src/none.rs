//! No sandbox at all: processes run on the host as whoever runs Harvest.
//!
//! For machines where nothing better is allowed, and only when it is asked for by name. The same runner supervises, so that
//! output, reconnection and exit behave as they do elsewhere; nothing is kept from the processes.

use std::path::{Path, PathBuf};
use std::time::Instant;

use async_trait::async_trait;
use harvest_core::{SandboxId, WorkspaceKind};
use harvest_link::{Boot, Watch};

use crate::arrival::{self, Expected, Returned};
use crate::layout::{self, Layout, Remembered};
use crate::{
    Binaries, Capabilities, Confined, Enforcement, Error, Paths, Provider, Sandbox, Spec, Strength, Workspace, folder,
    host, pid,
};

const NAME: &str = "none";
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// `sun_path` has 108 bytes, one of them for the end, and the runner dials by path.
const MAX_SOCKET_PATH: usize = 107;

#[derive(Debug, Clone)]
pub struct Options {
    pub state: PathBuf,
    /// Where the sockets lie; a short path.
    pub runtime: PathBuf,
    pub binaries: Binaries,
}

#[derive(Debug)]
pub struct Unisolated {
    options: Options,
}

impl Unisolated {
    pub fn new(mut options: Options) -> Result<Self, Error> {
        folder::make_private(&options.state)?;
        folder::make_private(&options.runtime)?;
        for path in [&mut options.state, &mut options.runtime] {
            *path = std::path::absolute(&*path).map_err(|error| Error::io(path.clone(), error))?;
        }
        Ok(Self { options })
    }

    fn layout(&self, id: &SandboxId) -> Layout {
        Layout::new(&self.options.state, &self.options.runtime, id)
    }

    async fn start(&self, spec: Spec, workspace: PathBuf, began: Instant) -> Result<Sandbox, Error> {
        let layout = self.layout(&spec.id);
        if layout.gateway().as_os_str().len() > MAX_SOCKET_PATH {
            return Err(Error::PathTooLong { path: layout.gateway() });
        }
        layout.make()?;
        let objects = layout.state.join("objects");
        if let Some(source) = &spec.objects {
            match std::os::unix::fs::symlink(source, &objects) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(Error::io(objects, error));
                }
                _ => {}
            }
        }
        let boot = Boot {
            sandbox: spec.id.to_string(),
            link: layout.link(),
            gateway: layout.gateway(),
            spool: layout.spool(),
            workspace: workspace.clone(),
            home: layout.home(),
            wrap: Vec::new(),
            identity: None,
            deadline_secs: spec.limits.wall.as_secs(),
            max_spool_bytes: spec.limits.output_bytes,
            open_files: Some(spec.limits.open_files),
            filter: None,
            watch: Watch::default(),
        };
        layout::write_json(&layout.boot(), &boot)?;
        let mut facts = Remembered {
            provider: NAME.to_owned(),
            workspace: WorkspaceKind::Copy,
            folder: workspace,
            runner: None,
            groups: Vec::new(),
            lower: None,
        };
        layout.remember(&facts)?;
        let listener = folder::listen(&layout.link())?;
        let mut command = host::command(&self.options.binaries.runner);
        command.arg("run").arg(layout.boot()).arg(spec.id.as_str());
        let runner = arrival::spawn(command, &layout.log())?;
        facts.runner = Some(runner);
        layout.remember(&facts)?;
        self.expect(&spec.id, &layout, &facts.folder, began, &layout.log()).arrive(listener, runner).await
    }

    fn expect<'a>(
        &self,
        id: &'a SandboxId,
        layout: &Layout,
        workspace: &Path,
        began: Instant,
        log: &'a Path,
    ) -> Expected<'a> {
        let paths = Paths {
            workspace: workspace.to_owned(),
            home: layout.home(),
            objects: layout.state.join("objects"),
            bin: self.options.binaries.folder.clone(),
        };
        let peer_uid = rustix::process::geteuid().as_raw();
        Expected { id, provider: NAME, paths, workspace: WorkspaceKind::Copy, peer_uid, began, log }
    }
}

#[async_trait]
impl Provider for Unisolated {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        let absent = Strength::Absent;
        let limits = Enforcement { cpu: absent, memory: absent, processes: absent, disk: absent, inodes: absent };
        Capabilities { overlay: false, isolated: false, limits }
    }

    fn gateway_socket(&self, id: &SandboxId) -> PathBuf {
        self.layout(id).gateway()
    }

    async fn prepare(&self, id: &SandboxId) -> Result<(), Error> {
        self.layout(id).make()
    }

    async fn create(&self, spec: Spec) -> Result<Sandbox, Error> {
        let began = Instant::now();
        let Workspace::Folder { path } = &spec.workspace else {
            return Err(Error::OverlayUnsupported);
        };
        let (id, path) = (spec.id.clone(), path.clone());
        arrival::or_removed(self, &id, self.start(spec, path, began)).await
    }

    fn is_alive(&self, id: &SandboxId) -> bool {
        self.layout(id).runner().is_some()
    }

    async fn attach(&self, id: &SandboxId) -> Result<Sandbox, Error> {
        let began = Instant::now();
        let layout = self.layout(id);
        let Returned { facts, runner, listener } = Returned::find(id, &layout)?;
        self.expect(id, &layout, &facts.folder, began, &layout.log()).arrive(listener, runner).await
    }

    async fn destroy(&self, id: &SandboxId) -> Result<(), Error> {
        let layout = self.layout(id);
        if !layout.exists() {
            return Ok(());
        }
        // Without a pid namespace, what a process was started with is all that tells whose it is.
        let mark = format!("HARVEST_PROCESS={id}/").into_bytes();
        let marked = |environ: &[u8]| environ.split(|byte| *byte == 0).any(|variable| variable.starts_with(&mark));
        let find = || pid::find(|cmdline, environ| pid::is_runner_of(cmdline, id.as_str()) || marked(environ));
        if !pid::kill_all(find).await {
            return Err(Error::failed(format!("the processes of sandbox {id} would not end")));
        }
        tokio::task::spawn_blocking(move || layout.remove()).await.map_err(|error| Error::failed(error.to_string()))?
    }

    async fn list(&self) -> Result<Vec<SandboxId>, Error> {
        layout::list(&[&self.options.state, &self.options.runtime])
    }

    fn confined(&self, helper: Confined) -> tokio::process::Command {
        let mut command = host::command(Path::new(&helper.program));
        command.env("PATH", PATH).args(helper.args).envs(helper.env);
        if let Some(folder) = helper.cwd.as_ref().or(helper.writable.first()) {
            command.current_dir(folder);
        }
        let mut command = tokio::process::Command::from(command);
        command.process_group(0).kill_on_drop(true);
        command
    }

    async fn adopt(&self, _path: &Path) -> Result<(), Error> {
        Ok(())
    }
}
