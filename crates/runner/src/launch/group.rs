//! Joining control groups that come with an order.
//!
//! The kernel lets a process move only when no other is being started anywhere on the machine, and waiting for that takes as
//! long as all the mounts together. So a copy of the launcher waits while the launcher goes on, up to where it would start
//! something that is to be limited.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, WaitOptions};

use super::{Error, fork};

/// Under way.
#[derive(Debug)]
pub struct Joining {
    copy: Option<Pid>,
    first: PathBuf,
}

/// Moves this process into the groups whose `cgroup.procs` these are.
pub fn join(groups: &[PathBuf]) -> Result<Joining, Error> {
    let Some(first) = groups.first() else { return Ok(Joining { copy: None, first: PathBuf::new() }) };
    let failed = |source| Error::Group { path: first.clone(), source };
    let pid = std::process::id().to_string();
    let copy = fork::fork().map_err(failed)?;
    if copy.is_none() {
        let outcome = groups.iter().try_for_each(|group| fs::write(group, &pid));
        fork::exit(outcome.err().and_then(|error| error.raw_os_error()).unwrap_or(0));
    }
    Ok(Joining { copy, first: first.clone() })
}

impl Joining {
    pub fn finish(self) -> Result<(), Error> {
        let Some(copy) = self.copy else { return Ok(()) };
        let failed = |source| Error::Group { path: self.first.parent().unwrap_or(Path::new("/")).to_owned(), source };
        let ended = rustix::process::waitpid(Some(copy), WaitOptions::empty()).map_err(|error| failed(error.into()))?;
        match ended.and_then(|(_, status)| status.exit_status()) {
            Some(0) => Ok(()),
            Some(code) => Err(failed(io::Error::from_raw_os_error(code))),
            None => Err(failed(io::ErrorKind::Interrupted.into())),
        }
    }
}
