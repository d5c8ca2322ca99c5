//! The git endpoint: smart HTTP onto the session's own bare repository, where a push reaches only the session's refs.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

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
    /// `git <args…>` on the session's repository. The gateway pipes stdin, stdout and stderr, kills the process on drop,
    /// and sets `GIT_PROTOCOL` on the returned command: confinement must let that one variable through.
    fn git(&self, args: &[&str]) -> tokio::process::Command;
}

impl Access {
    pub(crate) fn route<'p>(&self, _path: &'p str) -> Option<&'p str> {
        None
    }
}

pub(crate) async fn handle(
    _access: &Access,
    _rest: &str,
    _request: hyper::Request<hyper::body::Incoming>,
) -> hyper::Response<crate::answer::Body> {
    crate::answer::text(hyper::StatusCode::NOT_FOUND, "not yet")
}
