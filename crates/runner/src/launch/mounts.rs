//! The stage: an empty file system over a folder of the host, in which everything the sandbox is to see appears under a short
//! name. It exists in the launcher's mount namespace alone and goes with it.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use harvest_link::{Again, Bind, Launch, Overlay, Owner};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags};

use super::idmap::Namespaces;
use super::{Error, attributes};

const CLONE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::OPEN_TREE_CLOEXEC);

pub fn make(order: &Launch, mut namespaces: Namespaces) -> Result<(), Error> {
    // All of them before the stage covers anything.
    let mut opened = Vec::new();
    for bind in &order.binds {
        let tree = open(bind, order, &mut namespaces).map_err(failed("opening", &bind.source))?;
        opened.push((bind, tree));
    }
    let quiet = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("harvest", &order.stage, "tmpfs", quiet, c"mode=0755,size=1m,nr_inodes=4096")
        .map_err(|error| failed("the stage", &order.stage)(error.into()))?;
    for name in &order.folders {
        let path = order.stage.join(name);
        fs::create_dir_all(&path).map_err(failed("making", &path))?;
    }
    for (name, target) in &order.links {
        let path = order.stage.join(name);
        std::os::unix::fs::symlink(target, &path).map_err(failed("linking", &path))?;
    }
    for (bind, tree) in opened {
        place(&tree, &order.stage.join(&bind.name)).map_err(failed("showing", &bind.source))?;
    }
    if let Some(overlay) = &order.overlay {
        let target = order.stage.join(&overlay.name);
        mount_overlay(order, overlay, &target).map_err(failed("an overlay on", &target))?;
    }
    if let Some(name) = &order.terminals {
        let target = order.stage.join(name);
        mount_terminals(&target).map_err(failed("terminals at", &target))?;
    }
    if let Some(Again { from, to }) = &order.again {
        let (source, target) = (order.stage.join(from), order.stage.join(to));
        show_again(&source, &target).map_err(failed("showing again", &source))?;
    }
    Ok(())
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Mount { what, path, source }
}

/// A copy of the mount at the source, attached to nothing.
fn open(bind: &Bind, order: &Launch, namespaces: &mut Namespaces) -> io::Result<OwnedFd> {
    let whole = CLONE | OpenTreeFlags::AT_RECURSIVE;
    let tree = match (order.identity, bind.owner) {
        (Some(identity), Owner::Mapped | Owner::MustBeMapped) => {
            let status = rustix::fs::stat(&bind.source)?;
            if status.st_uid == identity.uid && status.st_gid == identity.gid {
                rustix::mount::open_tree(CWD, &bind.source, whole)?
            } else {
                let tree = rustix::mount::open_tree(CWD, &bind.source, CLONE)?;
                match namespaces.apply(&tree, (status.st_uid, status.st_gid), identity) {
                    Ok(()) => tree,
                    Err(_) if bind.owner == Owner::Mapped => rustix::mount::open_tree(CWD, &bind.source, whole)?,
                    Err(error) => return Err(error),
                }
            }
        }
        _ => rustix::mount::open_tree(CWD, &bind.source, whole)?,
    };
    attributes::restrict(&tree, bind.access)?;
    Ok(tree)
}

fn place(tree: &OwnedFd, target: &Path) -> io::Result<()> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(tree)?.st_mode);
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    if kind == FileType::Directory {
        fs::create_dir_all(target)?;
    } else {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        drop(rustix::fs::open(target, flags, Mode::from_raw_mode(0o644))?);
    }
    attach(tree, target)
}

fn attach(tree: &OwnedFd, target: &Path) -> io::Result<()> {
    Ok(rustix::mount::move_mount(tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

fn mount_overlay(order: &Launch, overlay: &Overlay, target: &Path) -> io::Result<()> {
    fs::create_dir_all(target)?;
    let stage = order.stage.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    let Overlay { lower, layer, .. } = overlay;
    // Short names of our own, so there is nothing to quote. userxattr: what the layer notes about itself has to be writable
    // without privileges, and must not be taken for what a privileged overlay notes.
    let options =
        format!("lowerdir={stage}/{lower},upperdir={stage}/{layer}/upper,workdir={stage}/{layer}/work,userxattr");
    let options = std::ffi::CString::new(options)?;
    Ok(rustix::mount::mount("overlay", target, "overlay", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?)
}

fn mount_terminals(target: &Path) -> io::Result<()> {
    fs::create_dir_all(target)?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    Ok(rustix::mount::mount("devpts", target, "devpts", flags, c"newinstance,ptmxmode=0666,mode=620")?)
}

fn show_again(source: &Path, target: &Path) -> io::Result<()> {
    fs::create_dir_all(target)?;
    let tree = rustix::mount::open_tree(CWD, source, CLONE | OpenTreeFlags::AT_RECURSIVE)?;
    attributes::close_top(&tree)?;
    attach(&tree, target)
}
