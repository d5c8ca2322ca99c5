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
use crate::walk::{Cursor, Visit, walk};

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
    let is_folder = node.status().kind == Kind::Folder;
    let into = Cursor::new(if is_folder { parent.make_new_folder(name)? } else { parent });
    let mut copying = Copying { to, new, into, blocks, copied: HashMap::new() };
    if is_folder {
        return walk(node.enter()?, &mut copying);
    }
    let (from, _) = from.parent_of(inner)?;
    copying.put(&from, inner.file_name().unwrap_or_default(), &node, name, new)
}

struct Copying<'a> {
    to: &'a Folder,
    /// Where the copy lies there.
    new: &'a Path,
    /// The folder that is being filled.
    into: Cursor,
    blocks: Blocks,
    /// Copies of files that have several names: by the original's number, the copy's path and its own number.
    copied: HashMap<(u64, u64), (PathBuf, (u64, u64))>,
}

impl Visit for Copying<'_> {
    fn entry(&mut self, folder: &Folder, name: &OsStr, node: &Node, path: &Path) -> io::Result<()> {
        self.put(folder, name, node, name, &self.new.join(path))
    }

    fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        let made = self.into.folder().make_new_folder(name)?;
        self.into.down(made)
    }

    fn leave(&mut self, _: &Folder, status: &Status, _: &Path) -> io::Result<()> {
        let left = self.into.up()?;
        // Through the descriptor that was filled.
        let filled = left.as_ref().unwrap_or(self.into.folder());
        own_open(filled, status)?;
        rustix::fs::fchmod(filled, Mode::from_raw_mode(status.mode & PLAIN))?;
        Ok(rustix::fs::futimens(filled, &status.times)?)
    }
}

impl Copying<'_> {
    /// Copies anything but a folder into the one that is being filled.
    fn put(&mut self, from: &Folder, name: &OsStr, node: &Node, new: &OsStr, path: &Path) -> io::Result<()> {
        let status = node.status();
        match status.kind {
            Kind::Folder | Kind::Special => Ok(()),
            Kind::File => self.file(from, name, status, new, path),
            Kind::Link => {
                let into = self.into.folder();
                rustix::fs::symlinkat(node.target()?, into.as_fd(), new)?;
                let made = into.node(new)?.ok_or(io::ErrorKind::NotFound)?;
                own(&made, status)?;
                set_times(into, new, &status.times)
            }
        }
    }

    fn file(&mut self, from: &Folder, name: &OsStr, status: &Status, new: &OsStr, path: &Path) -> io::Result<()> {
        let into = self.into.folder();
        if status.links > 1 && self.link(status, into, new)? {
            return Ok(());
        }
        let (source, target) = (from.file(Path::new(name))?, into.make_new_file(new)?);
        self.content(&source, &target)?;
        own_open(&target, status)?;
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

/// Gives what was opened to whom the original belongs, where that is allowed.
fn own_open(made: impl AsFd, status: &Status) -> io::Result<()> {
    let (uid, gid) = (rustix::fs::Uid::from_raw(status.uid), rustix::fs::Gid::from_raw(status.gid));
    match rustix::fs::fchown(made, Some(uid), Some(gid)) {
        Err(Errno::PERM) => Ok(()),
        changed => Ok(changed?),
    }
}

fn set_times(folder: &Folder, name: &OsStr, times: &Timestamps) -> io::Result<()> {
    Ok(rustix::fs::utimensat(folder.as_fd(), name, times, AtFlags::SYMLINK_NOFOLLOW)?)
}
