use std::path::PathBuf;

use harvest_core::Code;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("git is not installed: `{program}` cannot be started")]
    GitMissing { program: PathBuf, source: std::io::Error },
    #[error("`git {command}` failed: {message}")]
    Git { command: String, message: String },
    #[error("`git {command}` did not end within {seconds} s")]
    TimedOut { command: String, seconds: u64 },
    #[error("cannot {action} {}", .path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("git said something unexpected: {0}")]
    Unexpected(String),
}

impl Error {
    pub fn code(&self) -> Code {
        match self {
            Self::Io { source, .. } | Self::GitMissing { source, .. } if is_disk_full(source) => Code::DiskFull,
            Self::Git { message, .. } if message.contains("No space left on device") => Code::DiskFull,
            Self::Io { .. } => Code::DataDirectory,
            _ => Code::FetchFailed,
        }
    }

    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

fn is_disk_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}
