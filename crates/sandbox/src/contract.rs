//! What every provider promises.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use harvest_core::SandboxId;
use tokio::net::UnixListener;

use crate::{Error, Sandbox};

/// A place to run processes that are not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub id: SandboxId,
    pub workspace: Workspace,
    /// The `objects` folder of a bare repository, shown read-only inside.
    pub objects: Option<PathBuf>,
    pub limits: Limits,
}

/// What the sandbox works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workspace {
    /// A private layer over a shared folder, which is never written to.
    Overlay { lower: PathBuf },
    /// A private folder, used as it is. Run by root, it is given to the sandbox's own uid.
    Folder { path: PathBuf },
}

/// What a sandbox may use. How firmly each is kept is told by [`Capabilities::limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// After this time the sandbox ends by itself, whether or not anyone is left to watch it.
    pub wall: Duration,
    /// Thousandths of a core. Whoever wants more gets it later: nothing is ended for it.
    pub cpu_millis: Option<u64>,
    /// Of all processes together, with what they keep in `/tmp`.
    pub memory_bytes: u64,
    /// Threads count, too.
    pub processes: u64,
    pub open_files: u64,
    /// What may be written to the workspace and the home folder.
    pub disk_bytes: u64,
    /// How many files and folders that may be.
    pub inodes: u64,
    /// A process that prints more than this is ended.
    pub output_bytes: u64,
}

const GIB: u64 = 1 << 30;

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(3600),
            cpu_millis: None,
            memory_bytes: 8 * GIB,
            processes: 2048,
            open_files: 4096,
            disk_bytes: 20 * GIB,
            inodes: 2_000_000,
            output_bytes: GIB,
        }
    }
}

/// How firmly a limit is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// Nothing keeps it.
    Absent,
    /// Someone looks now and then and ends what went beyond it, so it can be exceeded for a moment.
    Soft,
    /// The kernel keeps it.
    Hard,
}

impl Strength {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Soft => "soft",
            Self::Hard => "hard",
        }
    }
}

/// How firmly each limit is kept. Wall time, open files and output are hard everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enforcement {
    pub cpu: Strength,
    pub memory: Strength,
    pub processes: Strength,
    pub disk: Strength,
    pub inodes: Strength,
}

/// Where things are, as seen inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    pub workspace: PathBuf,
    pub home: PathBuf,
    pub objects: PathBuf,
    pub bin: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// [`Workspace::Overlay`] works here.
    pub overlay: bool,
    /// Processes are kept from the host.
    pub isolated: bool,
    pub limits: Enforcement,
}

/// The static programs that run inside a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    /// Shown inside as [`Paths::bin`]; holds nothing but these programs.
    pub folder: PathBuf,
    pub runner: PathBuf,
}

impl Binaries {
    /// The programs in `folder`, under their usual names.
    pub fn in_folder(folder: PathBuf) -> Self {
        let runner = folder.join("harvest-runner");
        Self { folder, runner }
    }
}

/// A trusted program of the host that is to read untrusted data. Paths are the same inside as outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confined {
    pub program: String,
    pub args: Vec<String>,
    pub read_only: Vec<PathBuf>,
    pub writable: Vec<PathBuf>,
    /// The whole environment, but for a `PATH` when there is none.
    pub env: Vec<(String, String)>,
    /// The folder to start in; the first writable one when there is none.
    pub cwd: Option<PathBuf>,
    /// What each of its processes may allocate. Only isolated providers hold it to that.
    pub memory_bytes: Option<u64>,
}

/// Makes, finds and removes sandboxes of one kind.
#[async_trait]
pub trait Provider: Send + Sync + Debug {
    fn name(&self) -> &'static str;

    fn capabilities(&self) -> Capabilities;

    /// Where the gateway of this sandbox listens. It may appear before or after `create`; the runner waits for it.
    fn gateway_socket(&self, id: &SandboxId) -> PathBuf;

    /// Listens at [`gateway_socket`](Self::gateway_socket), in place of whoever did before, so that the sandbox may connect
    /// and no one else. The folders must have been made by [`prepare`](Self::prepare) or [`create`](Self::create).
    fn listen(&self, id: &SandboxId) -> Result<UnixListener, Error> {
        crate::folder::listen(&self.gateway_socket(id))
    }

    /// Makes the folders of a sandbox, so that its gateway can listen before it is created.
    async fn prepare(&self, id: &SandboxId) -> Result<(), Error>;

    /// Returns when the runner inside has reported.
    async fn create(&self, spec: Spec) -> Result<Sandbox, Error>;

    /// Whether something still runs in a sandbox that this process, or another one before it, has made.
    fn is_alive(&self, id: &SandboxId) -> bool;

    /// The shared folder that the sandbox has its private layer over, if it has.
    fn stands_on(&self, _id: &SandboxId) -> Option<PathBuf> {
        None
    }

    /// How long a living sandbox has been there at most, whatever the clock says meanwhile; `None` where that is not known.
    fn age(&self, _id: &SandboxId) -> Option<Duration> {
        None
    }

    /// Takes up a sandbox that another process, or this one, made before.
    async fn attach(&self, id: &SandboxId) -> Result<Sandbox, Error>;

    /// Ends everything in the sandbox and removes every trace of it. Does nothing when there is none.
    async fn destroy(&self, id: &SandboxId) -> Result<(), Error>;

    /// Every sandbox that has left something on disk, alive or not.
    async fn list(&self) -> Result<Vec<SandboxId>, Error>;

    /// Removes what processes that were killed have left and that belongs to no sandbox. What living ones have stays.
    async fn tidy(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Runs a trusted program of the host on untrusted data: only these folders visible, no network, no privileges. It dies
    /// with the thread that starts it, so start it from async code, not from a thread that may end before. All of it is in a
    /// process group that has the number of the process.
    fn confined(&self, helper: Confined) -> tokio::process::Command;

    /// Gives `path` and everything in it to whom [`confined`](Self::confined) programs run as. Never follows links.
    async fn adopt(&self, path: &Path) -> Result<(), Error>;
}
