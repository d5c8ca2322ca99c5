//! What can go wrong with a sandbox, in words that say what to do about it.

use std::io;
use std::path::PathBuf;

use harvest_core::{Code, SandboxId};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("bubblewrap (`bwrap`) was not found; install it, for example with `apt install bubblewrap`")]
    ToolMissing,
    #[error("bubblewrap {found} is too old; version {needed} or newer is needed")]
    ToolTooOld { found: String, needed: &'static str },
    #[error("this host does not allow user namespaces, which isolate a sandbox: {detail}; {fix}")]
    NamespacesForbidden { detail: String, fix: String },
    #[error(
        "no container engine answers: {detail}; start Docker or Podman, or name its socket in HARVEST_CONTAINER_SOCKET"
    )]
    EngineMissing { detail: String },
    #[error("the container engine has no image `{image}`; build it (see deploy/image) or pull it, or name another")]
    ImageMissing { image: String },
    #[error("the sandbox could not be created: {detail}")]
    Failed { detail: String },
    #[error("the sandbox did not report within {seconds} s{detail}")]
    Silent { seconds: u64, detail: String },
    #[error("the sandbox {id} is gone")]
    Lost { id: SandboxId },
    #[error("`{program}` could not be started in the sandbox: {message}")]
    Start { program: String, message: String },
    #[error("the process `{process}` cannot be given more input: {message}")]
    Input { process: String, message: String },
    #[error("this provider cannot layer a workspace over a shared folder; it needs a folder of its own")]
    OverlayUnsupported,
    #[error("the path {} is too long for a socket; choose a shorter runtime folder", path.display())]
    PathTooLong { path: PathBuf },
    #[error("the disk is full: {}", path.display())]
    DiskFull { path: PathBuf },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the link to the sandbox failed: {0}")]
    Link(#[from] harvest_link::Error),
}

impl Error {
    pub fn code(&self) -> Code {
        match self {
            Self::ToolMissing | Self::ToolTooOld { .. } => Code::SandboxToolMissing,
            Self::NamespacesForbidden { .. } => Code::NamespacesForbidden,
            Self::EngineMissing { .. } | Self::ImageMissing { .. } => Code::EngineMissing,
            Self::Lost { .. } => Code::SandboxLost,
            Self::DiskFull { .. } => Code::DiskFull,
            Self::Failed { .. }
            | Self::Silent { .. }
            | Self::Start { .. }
            | Self::Input { .. }
            | Self::OverlayUnsupported
            | Self::PathTooLong { .. }
            | Self::Io { .. }
            | Self::Link(_) => Code::SandboxFailed,
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
            _ => Self::Io { path, source },
        }
    }

    pub(crate) fn failed(detail: impl Into<String>) -> Self {
        Self::Failed { detail: detail.into() }
    }
}
