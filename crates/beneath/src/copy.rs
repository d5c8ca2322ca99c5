//! Copies trees without following a link on either side.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, Timestamps};
use rustix::io::Errno;

use crate::folder::{Folder, Kind, Node, Status};
use crate::{DEEPEST, too_deep};

/// Setuid and setgid bits are not copied.
const PLAIN: u32 = 0o1777;

/// How the content of files is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocks {
    /// Shared with the source, or the copy fails.
    Shared,
    /// Shared where the file system can.
    SharedIfPossible,
    /// Written anew.
    Written,
}

/// Copies what is at `inner` of one folder to the same path of another, whose folders around it exist and where nothing is yet.
/// Modes, owners where possible, times, links and hard links among the copied files stay as they are; pipes, sockets and
/// devices are left out.
pub fn copy(from: &Folder, inner: &Path, to: &Folder, new: &Path, blocks: Blocks) -> io::Result<()> {
    let Some(node) = from.node_beneath(inner)? else { return Err(io::ErrorKind::NotFound.into()) };
    let (parent, name) = to.parent_of(new)?;
    let mut copying = Copying { to, blocks, copied: HashMap::new() };
    let (from, _) = from.parent_of(inner)?;
    copying.entry(&from, inner.file_name().unwrap_or_default(), &node, &parent, name, new, 0)
}

struct Copying<'a> {
    to: &'a Folder,
    blocks: Blocks,
    /// Copies of files that have several names: by the original's number, the copy's path and its own number.
    copied: HashMap<(u64, u64), (PathBuf, (u64, u64))>,
}

impl Copying<'_> {
    #[expect(clippy::too_many_arguments, reason = "both sides of a copy, each with its folder and name")]
    fn entry(
        &mut self,
        from: &Folder,
        name: &OsStr,
        node: &Node,
        into: &Folder,
        new: &OsStr,
        path: &Path,
        depth: usize,
    ) -> io::Result<()> {
        let status = node.status();
        match status.kind {
            Kind::Folder => self.folder(node, into, new, path, depth),
            Kind::File => self.file(from, name, status, into, new, path),
            Kind::Link => {
                rustix::fs::symlinkat(node.target()?, into.as_fd(), new)?;
                let made = into.node(new)?.ok_or(io::ErrorKind::NotFound)?;
                own(&made, status)?;
                set_times(into, new, &status.times)
            }
            Kind::Special => Ok(()),
        }
    }

    fn folder(&mut self, node: &Node, into: &Folder, new: &OsStr, path: &Path, depth: usize) -> io::Result<()> {
        if depth > DEEPEST {
            return Err(too_deep());
        }
        let (source, target) = (node.enter()?, into.make_new_folder(new)?);
        for name in source.names()? {
            let Some(inner) = source.node(&name)? else { continue };
            self.entry(&source, &name, &inner, &target, &name, &path.join(&name), depth + 1)?;
        }
        let status = node.status();
        let made = into.node(new)?.ok_or(io::ErrorKind::NotFound)?;
        own(&made, status)?;
        // Through the descriptor that was filled.
        rustix::fs::fchmod(&target, Mode::from_raw_mode(status.mode & PLAIN))?;
        Ok(rustix::fs::futimens(&target, &status.times)?)
    }

    fn file(
        &mut self,
        from: &Folder,
        name: &OsStr,
        status: &Status,
        into: &Folder,
        new: &OsStr,
        path: &Path,
    ) -> io::Result<()> {
        if status.links > 1 && self.link(status, into, new)? {
            return Ok(());
        }
        let (source, target) = (from.file(Path::new(name))?, into.make_new_file(new)?);
        self.content(&source, &target)?;
        let (uid, gid) = (rustix::fs::Uid::from_raw(status.uid), rustix::fs::Gid::from_raw(status.gid));
        allowed(rustix::fs::fchown(&target, Some(uid), Some(gid)))?;
        rustix::fs::fchmod(&target, Mode::from_raw_mode(status.mode & PLAIN))?;
        rustix::fs::futimens(&target, &status.times)?;
        if status.links > 1
            && let Some(made) = into.node(new)?
        {
            self.copied.insert(status.id, (path.to_owned(), made.status().id));
        }
        Ok(())
    }

    /// Gives the copy of a file that was copied already another name. False when there is none.
    fn link(&self, status: &Status, into: &Folder, new: &OsStr) -> io::Result<bool> {
        let Some((path, id)) = self.copied.get(&status.id) else { return Ok(false) };
        let Some(first) = self.to.node_beneath(path)?.filter(|first| first.status().id == *id) else {
            return Ok(false);
        };
        // By its entry in /proc, since linking a handle itself takes a privilege.
        rustix::fs::linkat(rustix::fs::CWD, first.alias(), into.as_fd(), new, AtFlags::SYMLINK_FOLLOW)?;
        Ok(true)
    }

    fn content(&self, mut source: &File, mut target: &File) -> io::Result<()> {
        if self.blocks != Blocks::Written {
            match rustix::fs::ioctl_ficlone(target, source) {
                Ok(()) => return Ok(()),
                Err(error) if self.blocks == Blocks::Shared => return Err(error.into()),
                Err(_) => {}
            }
        }
        io::copy(&mut source, &mut target).map(drop)
    }
}

fn own(node: &Node, status: &Status) -> io::Result<()> {
    let found = node.status();
    if (found.uid, found.gid) == (status.uid, status.gid) {
        return Ok(());
    }
    match node.give(status.uid, status.gid) {
        // Only root gives files away.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        given => given,
    }
}

fn allowed(changed: rustix::io::Result<()>) -> io::Result<()> {
    match changed {
        Err(Errno::PERM) => Ok(()),
        changed => Ok(changed?),
    }
}

fn set_times(folder: &Folder, name: &OsStr, times: &Timestamps) -> io::Result<()> {
    Ok(rustix::fs::utimensat(folder.as_fd(), name, times, AtFlags::SYMLINK_NOFOLLOW)?)
}
