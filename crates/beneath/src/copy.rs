//! Copies trees without following a link on either side.
//!
//! Files with several names are found again by a second name that their copies have while the tree is copied, in a folder of
//! their own at the top of the copy: a table in memory would grow with what strangers have put into the tree.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, Timestamps};
use rustix::io::Errno;

use crate::folder::{Folder, Kind, Node, Status};
use crate::walk::{Cursor, Names, Visit, walk};

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
    let mut copying = Copying { into, blocks, seconds: None };
    if is_folder {
        let source = node.enter()?;
        copying.seconds = Some(SecondNames::new(&source, copying.into.folder())?);
        return walk(source, &mut copying);
    }
    let (from, _) = from.parent_of(inner)?;
    copying.put(&from, inner.file_name().unwrap_or_default(), &node, name)
}

struct Copying {
    /// The folder that is being filled.
    into: Cursor,
    blocks: Blocks,
    /// For a whole folder, the copies of files that have several names.
    seconds: Option<SecondNames>,
}

impl Visit for Copying {
    fn entry(&mut self, folder: &Folder, name: &OsStr, node: &Node) -> io::Result<()> {
        self.put(folder, name, node, name)
    }

    fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        let made = self.into.folder().make_new_folder(name)?;
        self.into.down(made)
    }

    fn leave(&mut self, _: &Folder, status: &Status) -> io::Result<()> {
        let left = self.into.up()?;
        if left.is_none()
            && let Some(seconds) = self.seconds.take()
        {
            seconds.remove(self.into.folder())?;
        }
        // Through the descriptor that was filled.
        let filled = left.as_ref().unwrap_or(self.into.folder());
        own_open(filled, status)?;
        rustix::fs::fchmod(filled, Mode::from_raw_mode(status.mode & PLAIN))?;
        Ok(rustix::fs::futimens(filled, &status.times)?)
    }
}

impl Copying {
    /// Copies anything but a folder into the one that is being filled.
    fn put(&mut self, from: &Folder, name: &OsStr, node: &Node, new: &OsStr) -> io::Result<()> {
        let status = node.status();
        match status.kind {
            Kind::Folder | Kind::Special => Ok(()),
            Kind::File => self.file(from, name, status, new),
            Kind::Link => {
                let into = self.into.folder();
                rustix::fs::symlinkat(node.target()?, into.as_fd(), new)?;
                let made = into.node(new)?.ok_or(io::ErrorKind::NotFound)?;
                own(&made, status)?;
                set_times(into, new, &status.times)
            }
        }
    }

    fn file(&mut self, from: &Folder, name: &OsStr, status: &Status, new: &OsStr) -> io::Result<()> {
        let into = self.into.folder();
        let seconds = self.seconds.as_ref().filter(|_| status.links > 1);
        if let Some(seconds) = seconds
            && seconds.link(status, into, new)?
        {
            return Ok(());
        }
        let (source, target) = (from.file(Path::new(name))?, into.make_new_file(new)?);
        self.content(&source, &target)?;
        own_open(&target, status)?;
        rustix::fs::fchmod(&target, Mode::from_raw_mode(status.mode & PLAIN))?;
        rustix::fs::futimens(&target, &status.times)?;
        match seconds {
            Some(seconds) => seconds.keep(status, into, new),
            None => Ok(()),
        }
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

/// A folder in which the copy of a file with several names is found by the number of its original.
struct SecondNames {
    folder: Folder,
    name: OsString,
}

impl SecondNames {
    /// Makes the folder at the top of a copy, under a name that the source does not have.
    fn new(source: &Folder, copy: &Folder) -> io::Result<Self> {
        let mut number = 0u32;
        loop {
            let name = OsString::from(format!(".harvest-second-names-{number}"));
            if source.node(&name)?.is_none() {
                return Ok(Self { folder: copy.make_new_folder(&name)?, name });
            }
            number += 1;
        }
    }

    /// Gives the copy of a file that was copied already another name. False when there is none, or it has as many as it can.
    fn link(&self, status: &Status, into: &Folder, new: &OsStr) -> io::Result<bool> {
        match rustix::fs::linkat(&self.folder, Self::number(status), into, new, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::MLINK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Remembers a copy. Where a file cannot have several names, each of its names gets a copy.
    fn keep(&self, status: &Status, into: &Folder, new: &OsStr) -> io::Result<()> {
        match rustix::fs::linkat(into, new, &self.folder, Self::number(status), AtFlags::empty()) {
            Ok(()) | Err(Errno::EXIST | Errno::MLINK | Errno::PERM | Errno::OPNOTSUPP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn remove(self, copy: &Folder) -> io::Result<()> {
        loop {
            let mut names = Names::default();
            while let Some(name) = names.next(&self.folder)? {
                self.folder.unlink(&name, Kind::File)?;
            }
            match copy.unlink(&self.name, Kind::Folder) {
                // A file system may read past names while others are removed.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                removed => return removed,
            }
        }
    }

    fn number(status: &Status) -> String {
        format!("{}-{}", status.id.0, status.id.1)
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
