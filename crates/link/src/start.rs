//! What a runner is started with: `boot.json` for the supervisor, and the order for what happens before it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What the supervisor (`harvest-runner run`) needs to know. Paths are as the runner sees them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    /// Names the sandbox in the command line and, without a pid namespace, in the environment of its processes.
    pub sandbox: String,
    pub link: PathBuf,
    pub gateway: PathBuf,
    pub spool: PathBuf,
    pub workspace: PathBuf,
    pub home: PathBuf,
    /// Put before the arguments of every process. It must end everything it started when it is killed; when it is empty the
    /// runner looks for the children itself.
    pub wrap: Vec<String>,
    /// Whom processes run as, where that is not who the runner is; `wrap` then leads to `harvest-runner attempt`.
    #[serde(default)]
    pub identity: Option<Identity>,
    pub deadline_secs: u64,
    /// A process whose output grows beyond this is killed.
    pub max_spool_bytes: u64,
    /// Limits of each process, where the launcher did not set them for the whole sandbox.
    #[serde(default)]
    pub open_files: Option<u64>,
    /// A compiled system call filter for every process; `{filter}` in `wrap` is replaced by a descriptor of it.
    #[serde(default)]
    pub filter: Option<PathBuf>,
    #[serde(default)]
    pub watch: Watch,
}

impl Boot {
    /// The folders that processes share with the runner.
    pub fn roots(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.workspace, &self.home].into_iter()
    }
}

/// What the runner itself keeps an eye on, and ends the process that goes beyond it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Watch {
    pub memory_bytes: Option<u64>,
    pub processes: Option<u64>,
    pub disk_bytes: Option<u64>,
    pub inodes: Option<u64>,
    /// What counts as disk; shown to the runner and to no process.
    pub folders: Vec<PathBuf>,
    /// Where the kernel counts how often it enforced a limit itself. Without them the runner measures.
    pub counters: Counters,
}

/// Files of a control group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Has a line `oom_kill N`.
    pub memory: Option<PathBuf>,
    /// Has a line `max N`.
    pub processes: Option<PathBuf>,
}

/// What the launcher (`harvest-runner launch`) does before it becomes `argv`.
///
/// Run by root it makes a mount namespace, run by anyone else a user namespace as well. All sources are opened first; then
/// an empty file system is put over `stage` and everything appears there under the names given. So no path of the host has
/// to be reachable for the uid the sandbox runs as, none has to be quoted for overlayfs, and bubblewrap, which reads the list
/// of all mounts again for each one it is asked for, is asked for few.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Launch {
    /// A folder that every host has and every uid may enter.
    pub stage: PathBuf,
    /// Who to become; only root can.
    pub identity: Option<Identity>,
    /// `cgroup.procs` of each control group to be in before anything is started, besides those it is in already.
    pub join: Vec<PathBuf>,
    /// Folders of the stage in which nothing is shown.
    pub folders: Vec<String>,
    /// Symbolic links of the stage, with what they lead to.
    pub links: Vec<(String, String)>,
    pub binds: Vec<Bind>,
    pub overlay: Option<Overlay>,
    /// Where pseudo terminals of its own appear.
    pub terminals: Option<String>,
    /// Shown a second time, with all that is mounted in it and with a read-only top.
    pub again: Option<Again>,
    pub open_files: Option<u64>,
    pub processes: Option<u64>,
    pub file_bytes: Option<u64>,
    /// Of each process, without what it maps from files.
    pub memory_bytes: Option<u64>,
    /// On how many cores to run, at most.
    pub cores: Option<u64>,
    /// Where bubblewrap writes the pid of the sandbox's init. `{info}` in `argv` is replaced by the descriptor.
    pub info: Option<PathBuf>,
    /// A compiled system call filter. `{filter}` in `argv` is replaced by the descriptor.
    pub filter: Option<PathBuf>,
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
}

/// `stage/<from>` also appears as `stage/<to>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Again {
    pub from: String,
    pub to: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
}

/// A host folder or file that appears as `stage/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    pub name: String,
    pub source: PathBuf,
    pub owner: Owner,
    pub access: Access,
}

/// What may be done through a bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    ReadOnly,
    Writable,
    /// The source is a device.
    Device,
}

/// Whom the files of a bind seem to belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// Whom they belong to.
    Kept,
    /// What belongs to the owner of the source seems to belong to the sandbox, where the kernel can do it.
    Mapped,
    /// The same, and it is an error when the kernel cannot.
    MustBeMapped,
}

/// `stage/<name>`: an overlay of the binds named here. `layer` holds the folders `upper` and `work`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlay {
    pub name: String,
    pub lower: String,
    pub layer: String,
}
