//! Where the parts of a sandbox lie on the host, and what is remembered about it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use harvest_core::{SandboxId, WorkspaceKind};
use serde::{Deserialize, Serialize};

use crate::pid::Identity;
use crate::{Error, folder, pid};

/// The paths of one sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Everything but the sockets.
    pub state: PathBuf,
    /// The sockets, in a folder with a short path.
    pub sockets: PathBuf,
}

/// What a later process has to know about a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Remembered {
    pub provider: String,
    pub workspace: WorkspaceKind,
    /// Of the workspace, as the runner sees it.
    pub folder: PathBuf,
    /// The process to watch: the outer bubblewrap, or the runner itself.
    pub runner: Option<Identity>,
    /// Its control groups.
    #[serde(default)]
    pub groups: Vec<PathBuf>,
    /// What its workspace is a layer over.
    #[serde(default)]
    pub lower: Option<PathBuf>,
}

impl Layout {
    pub fn new(state: &Path, runtime: &Path, id: &SandboxId) -> Self {
        Self { state: state.join(id.as_str()), sockets: runtime.join(id.as_str()) }
    }

    pub fn link(&self) -> PathBuf {
        self.sockets.join("link.sock")
    }

    pub fn gateway(&self) -> PathBuf {
        self.sockets.join("gateway.sock")
    }

    pub fn home(&self) -> PathBuf {
        self.state.join("home")
    }

    pub fn spool(&self) -> PathBuf {
        self.state.join("spool")
    }

    pub fn layer(&self) -> PathBuf {
        self.state.join("layer")
    }

    pub fn boot(&self) -> PathBuf {
        self.state.join("boot.json")
    }

    pub fn info(&self) -> PathBuf {
        self.state.join("init.json")
    }

    pub fn log(&self) -> PathBuf {
        self.state.join("runner.log")
    }

    fn memory(&self) -> PathBuf {
        self.state.join("sandbox.json")
    }

    pub fn make(&self) -> Result<(), Error> {
        [&self.state, &self.sockets, &self.home(), &self.spool()]
            .into_iter()
            .try_for_each(|path| folder::make_private(path))
    }

    pub fn remember(&self, facts: &Remembered) -> Result<(), Error> {
        write_json(&self.memory(), facts)
    }

    pub fn recall(&self) -> Option<Remembered> {
        serde_json::from_slice(&fs::read(self.memory()).ok()?).ok()
    }

    /// The process to watch, if it is alive.
    pub fn runner(&self) -> Option<Identity> {
        self.recall()?.runner.filter(|runner| runner.open().is_some())
    }

    /// The sandbox's pid 1, seen from outside: the pid that bubblewrap wrote down, if that is still who it was.
    pub fn init(&self, id: &SandboxId) -> Option<Identity> {
        #[derive(Deserialize)]
        struct Info {
            #[serde(rename = "child-pid")]
            child_pid: i32,
        }
        let info: Info = serde_json::from_slice(&fs::read(self.info()).ok()?).ok()?;
        let init = Identity::of(info.child_pid)?;
        let cmdline = fs::read(format!("/proc/{}/cmdline", init.pid)).ok()?;
        // Asked again: the command line may have been that of another with the same number.
        (pid::is_runner_of(&cmdline, id.as_str()) && init.open().is_some()).then_some(init)
    }

    /// Whether anything of it is on disk.
    pub fn exists(&self) -> bool {
        self.state.exists() || self.sockets.exists()
    }

    pub fn remove(&self) -> Result<(), Error> {
        crate::remove::remove(&self.sockets)?;
        crate::remove::remove(&self.state)
    }
}

/// Every sandbox that has left something in one of these folders.
pub(crate) fn list(folders: &[&Path]) -> Result<Vec<SandboxId>, Error> {
    let mut ids = Vec::new();
    for folder in folders {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io(*folder, error)),
        };
        for entry in entries {
            let name = entry.map_err(|error| Error::io(*folder, error))?.file_name();
            ids.extend(name.to_str().and_then(|name| name.parse::<SandboxId>().ok()));
        }
    }
    ids.sort();
    ids.dedup();
    Ok(ids)
}

/// Writes a file that is either there as a whole or not at all, readable for all who can reach it.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let bytes = serde_json::to_vec(value).map_err(|error| Error::failed(error.to_string()))?;
    write(path, &bytes)
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let temporary = path.with_extension("new");
    fs::write(&temporary, bytes)
        .and_then(|()| fs::set_permissions(&temporary, Permissions::from_mode(0o644)))
        .and_then(|()| fs::rename(&temporary, path))
        .map_err(|error| Error::io(path, error))
}
