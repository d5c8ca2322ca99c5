//! Idmapped mounts: what belongs to one uid on disk seems to belong to another through this mount.
//!
//! So one snapshot that belongs to root can be the lower layer of any number of sandboxes, each under its own uid, without
//! copying or changing a file.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};

use harvest_link::Identity;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, WaitOptions};
use rustix::thread::UnshareFlags;

use super::fork;

/// The user namespaces that such mounts are made with.
#[derive(Debug, Default)]
pub struct Namespaces {
    /// Made ahead, when it was not known yet what it is to map.
    spare: Option<Unmapped>,
    /// By the owner they map, uid and gid.
    mapped: Vec<((u32, u32), File)>,
    /// Processes that have done what they were for.
    leaving: Vec<Pid>,
}

impl Namespaces {
    /// Has one ready for the first mount. Where none can be made, that is told when it is needed.
    pub fn prepare(&mut self) {
        self.spare = Unmapped::new().ok();
    }

    /// Maps `owner` (uid and gid) to `identity` on a mount that is attached to nothing yet.
    pub fn apply(&mut self, tree: &OwnedFd, owner: (u32, u32), identity: Identity) -> io::Result<()> {
        let known = self.mapped.iter().position(|(mapped, _)| *mapped == owner);
        let index = match known {
            Some(index) => index,
            None => {
                let unmapped = self.spare.take().map_or_else(Unmapped::new, Ok)?;
                self.leaving.push(unmapped.child);
                self.mapped.push((owner, unmapped.map(owner, identity)?));
                self.mapped.len() - 1
            }
        };
        let (_, namespace) = self.mapped.get(index).ok_or(io::ErrorKind::NotFound)?;
        super::attributes::map(tree, u64::try_from(namespace.as_raw_fd()).map_err(io::Error::other)?)
    }
}

impl Drop for Namespaces {
    /// What we become should not find children that it has not started.
    fn drop(&mut self) {
        let spare = self.spare.take().map(|unmapped| unmapped.child);
        for child in self.leaving.drain(..).chain(spare) {
            let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
        }
    }
}

/// A user namespace that maps no one. It needs a process to be born in, which stays for as long as this does.
#[derive(Debug)]
struct Unmapped {
    child: Pid,
    _stay: OwnedFd,
}

impl Unmapped {
    fn new() -> io::Result<Self> {
        let (ready, say_ready) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (wait, stay) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let Some(child) = fork::fork()? else {
            drop(ready);
            drop(stay);
            be_born(&say_ready, &wait);
        };
        drop(say_ready);
        // Nothing comes when the child could not make its namespace.
        let born = File::from(ready).read_exact(&mut [0]);
        if born.is_err() {
            let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
        }
        born.map(|()| Self { child, _stay: stay })
    }

    fn map(self, owner: (u32, u32), identity: Identity) -> io::Result<File> {
        let pid = self.child.as_raw_nonzero();
        fs::write(format!("/proc/{pid}/uid_map"), format!("{} {} 1", owner.0, identity.uid))?;
        fs::write(format!("/proc/{pid}/gid_map"), format!("{} {} 1", owner.1, identity.gid))?;
        File::open(format!("/proc/{pid}/ns/user"))
    }
}

fn be_born(say_ready: &OwnedFd, wait: &OwnedFd) -> ! {
    if super::unshare(UnshareFlags::NEWUSER).is_ok() && rustix::io::write(say_ready, b"!").is_ok() {
        // Ends when the parent has what it came for, or is gone.
        let _ = rustix::io::read(wait, &mut [0; 1]);
    }
    fork::exit(0)
}
