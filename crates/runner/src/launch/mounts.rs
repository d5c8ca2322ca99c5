//! The stage: an empty file system over a folder of the host, in which everything the sandbox is to see appears under a short
//! name. It exists in the launcher's mount namespace alone and goes with it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use harvest_link::{Bind, Launch, Overlay, Owner};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags};

use super::{Error, idmap};

pub fn make(order: &Launch) -> Result<(), Error> {
    // All of them before the stage covers anything.
    let mut opened = Vec::new();
    for bind in &order.binds {
        let tree = open(bind, order).map_err(failed("opening", &bind.source))?;
        opened.push((bind, tree));
    }
    let quiet = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("harvest", &order.stage, "tmpfs", quiet, c"mode=0755,size=1m,nr_inodes=4096")
        .map_err(|error| failed("the stage", &order.stage)(error.into()))?;
    for (bind, tree) in opened {
        let target = order.stage.join(&bind.name);
        place(&tree, &target).map_err(failed("showing", &bind.source))?;
    }
    if let Some(overlay) = &order.overlay {
        let target = order.stage.join(&overlay.name);
        mount_overlay(order, overlay, &target).map_err(failed("an overlay on", &target))?;
    }
    Ok(())
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Mount { what, path, source }
}

/// A copy of the mount at the source, attached to nothing.
fn open(bind: &Bind, order: &Launch) -> io::Result<OwnedFd> {
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let whole = clone | OpenTreeFlags::AT_RECURSIVE;
    let (Some(identity), Owner::Mapped | Owner::MustBeMapped) = (order.identity, bind.owner) else {
        return Ok(rustix::mount::open_tree(CWD, &bind.source, whole)?);
    };
    let status = rustix::fs::stat(&bind.source)?;
    if status.st_uid == identity.uid && status.st_gid == identity.gid {
        return Ok(rustix::mount::open_tree(CWD, &bind.source, whole)?);
    }
    let tree = rustix::mount::open_tree(CWD, &bind.source, clone)?;
    match idmap::apply(&tree, (status.st_uid, status.st_gid), identity) {
        Ok(()) => Ok(tree),
        Err(_) if bind.owner == Owner::Mapped => Ok(rustix::mount::open_tree(CWD, &bind.source, whole)?),
        Err(error) => Err(error),
    }
}

fn place(tree: &OwnedFd, target: &Path) -> io::Result<()> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(tree)?.st_mode);
    if kind == FileType::Directory {
        rustix::fs::mkdir(target, Mode::from_raw_mode(0o755))?;
    } else {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        drop(rustix::fs::open(target, flags, Mode::from_raw_mode(0o644))?);
    }
    Ok(rustix::mount::move_mount(tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

fn mount_overlay(order: &Launch, overlay: &Overlay, target: &Path) -> io::Result<()> {
    rustix::fs::mkdir(target, Mode::from_raw_mode(0o755))?;
    let stage = order.stage.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    let Overlay { lower, layer, .. } = overlay;
    // Short names of our own, so there is nothing to quote. userxattr: what the layer notes about itself has to be writable
    // without privileges, and must not be taken for what a privileged overlay notes.
    let options =
        format!("lowerdir={stage}/{lower},upperdir={stage}/{layer}/upper,workdir={stage}/{layer}/work,userxattr");
    let options = std::ffi::CString::new(options)?;
    Ok(rustix::mount::mount("overlay", target, "overlay", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?)
}
