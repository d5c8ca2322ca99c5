//! Folders and sockets of sandboxes: made private, given away, and removed without ever following a link.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use tokio::net::UnixListener;

use crate::Error;

/// Makes a folder, and those above it, that only its owner can enter.
pub(crate) fn make_private(path: &Path) -> Result<(), Error> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| Error::io(path, error))
}

/// Makes a folder that everyone can read who can reach it.
pub(crate) fn make_readable(path: &Path) -> Result<(), Error> {
    make_private(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(|error| Error::io(path, error))
}

/// Listens at `path`, in place of whoever did before. The folder around it keeps everyone else out; the socket itself is open
/// to all, since the sandbox runs as another uid when the server is root.
///
/// Bound through a descriptor of the folder: the name under which it was bound can be read in the sandbox's `/proc/net/unix`,
/// and should tell nothing about the host. So the length of the path does not matter here either.
pub(crate) fn listen(path: &Path) -> Result<UnixListener, Error> {
    let failed = |error: io::Error| Error::io(path, error);
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    };
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::open(parent, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let alias = Path::new("/proc/self/fd").join(parent.as_raw_fd().to_string()).join(name);
    let listener = UnixListener::bind(alias).map_err(failed)?;
    open_to_sandbox(path)?;
    Ok(listener)
}

/// Lets the sandbox connect to a socket that someone else made.
pub(crate) fn open_to_sandbox(path: &Path) -> Result<(), Error> {
    match fs::set_permissions(path, Permissions::from_mode(0o666)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

/// Gives `path` and everything in it to someone else, without following a link.
pub(crate) fn give(path: &Path, uid: u32, gid: u32) -> Result<(), Error> {
    harvest_beneath::give(path, uid, gid).map_err(|error| Error::io(path, error))
}
