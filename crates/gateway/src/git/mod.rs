//! The git endpoint: smart HTTP onto the session's own bare repository, where a push reaches only the session's refs.
//!
//! A push is read and judged before git sees any of it, and git is given the commands as this module wrote them down, so
//! that the two can never understand the same bytes differently.

#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod http;
mod inflate;
mod pack;
mod pkt;
mod process;
mod push;
mod refname;

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use http::{handle, no_other_repository};

/// What one session may do with its repository.
#[derive(Debug, Clone)]
pub struct Access {
    /// The path segment: the repository is at `/git/{name}` (`/git/{name}.git` works as well).
    pub name: String,
    /// The session's bare repository. Passed to git as its last argument.
    pub directory: PathBuf,
    /// The full name of the one branch that the session may push, e.g. `refs/heads/harvest/fix-1a2b3c`.
    pub branch: String,
    /// Refs below this may be pushed as well: `refs/harvest/<session>/`.
    pub namespace: String,
    pub writable: bool,
    pub command: Arc<dyn Command>,
}

/// How git is started: by the caller's rules, which clear the environment and confine the process.
pub trait Command: Send + Sync + Debug {
    /// `git <args…>` on the session's repository, with `GIT_PROTOCOL` set to `protocol` if there is one. The gateway pipes
    /// stdin, stdout and stderr, and kills the process on drop.
    fn git(&self, args: &[&str], protocol: Option<&str>) -> tokio::process::Command;
}

/// What a push may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushLimits {
    /// The pack as it is sent.
    pub pack_bytes: u64,
    /// One object of it, unpacked.
    pub object_bytes: u64,
    /// All of its objects, unpacked.
    pub unpacked_bytes: u64,
}

impl Default for PushLimits {
    fn default() -> Self {
        Self { pack_bytes: 1 << 30, object_bytes: 1 << 30, unpacked_bytes: 4 << 30 }
    }
}

impl Access {
    /// What follows the repository in a path.
    pub(crate) fn route<'p>(&self, path: &'p str) -> Option<&'p str> {
        let rest = path.strip_prefix("/git/")?.strip_prefix(self.name.as_str())?;
        rest.strip_prefix(".git").unwrap_or(rest).strip_prefix('/')
    }
}
