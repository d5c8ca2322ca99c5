//! Idmapped mounts: what belongs to one uid on disk seems to belong to another through this mount.
//!
//! So one snapshot that belongs to root can be the lower layer of any number of sandboxes, each under its own uid, without
//! copying or changing a file.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};

use harvest_link::Identity;
use rustix::pipe::PipeFlags;
use rustix::process::WaitOptions;
use rustix::thread::UnshareFlags;

use super::fork;

/// Maps `owner` (uid and gid) to `identity` on a mount that is attached to nothing yet.
pub fn apply(tree: &OwnedFd, owner: (u32, u32), identity: Identity) -> io::Result<()> {
    let namespace = namespace(owner, identity)?;
    super::attributes::map(tree, u64::try_from(namespace.as_raw_fd()).map_err(io::Error::other)?)
}

/// A user namespace with these two mappings. It needs a process to be born in, which is gone when this returns.
fn namespace(owner: (u32, u32), identity: Identity) -> io::Result<File> {
    let (ready, say_ready) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (wait, go_on) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let Some(child) = fork::fork()? else {
        drop(ready);
        drop(go_on);
        be_born(&say_ready, &wait);
    };
    drop(say_ready);
    drop(wait);
    let namespace = (|| {
        // Nothing comes when the child could not make its namespace.
        File::from(ready).read_exact(&mut [0])?;
        let pid = child.as_raw_nonzero();
        fs::write(format!("/proc/{pid}/uid_map"), format!("{} {} 1", owner.0, identity.uid))?;
        fs::write(format!("/proc/{pid}/gid_map"), format!("{} {} 1", owner.1, identity.gid))?;
        File::open(format!("/proc/{pid}/ns/user"))
    })();
    drop(go_on);
    let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
    namespace
}

fn be_born(say_ready: &OwnedFd, wait: &OwnedFd) -> ! {
    if super::unshare(UnshareFlags::NEWUSER).is_ok() && rustix::io::write(say_ready, b"!").is_ok() {
        // Ends when the parent has what it came for, or is gone.
        let _ = rustix::io::read(wait, &mut [0; 1]);
    }
    fork::exit(0)
}
