//! What may be done through a mount, set while it is attached to nothing.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use harvest_link::Access;

/// For the mount and everything mounted in it.
pub fn restrict(tree: &OwnedFd, access: Access) -> io::Result<()> {
    let attributes = match access {
        Access::ReadOnly => libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        Access::Writable => libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        Access::Device => libc::MOUNT_ATTR_NOSUID,
    };
    set(tree, attributes, 0, libc::AT_RECURSIVE)
}

/// Makes the mount itself read-only, but nothing that is mounted in it.
pub fn close_top(tree: &OwnedFd) -> io::Result<()> {
    set(tree, libc::MOUNT_ATTR_RDONLY, 0, 0)
}

/// Shows who owns the files through the eyes of a user namespace.
pub fn map(tree: &OwnedFd, namespace: u64) -> io::Result<()> {
    set(tree, libc::MOUNT_ATTR_IDMAP, namespace, 0)
}

#[expect(unsafe_code, reason = "rustix has no mount_setattr")]
fn set(tree: &OwnedFd, attributes: u64, namespace: u64, flags: i32) -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: namespace };
    // SAFETY: the path is a static, terminated string; the attributes are a live local whose size is given; the kernel only
    // reads both.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
