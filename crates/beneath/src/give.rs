//! Changes the owner of a whole tree.
//!
//! A file with several names is given only when all of them lie in the tree, so names are counted: in memory that is bounded, for
//! a part of such files at a time.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;

use rustix::fs::{Gid, Uid};

use crate::folder::{Folder, Kind, Node, Status};
use crate::walk::{Visit, walk};

/// Gives a folder and everything in it to someone else. Links are given themselves. A file that has another name outside of the
/// folder stays as it is: that name may be someone else's.
pub fn give(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    give_counting(path, uid, gid, COUNTED)
}

/// The same, with the names of so many files counted in one walk.
pub(crate) fn give_counting(path: &Path, uid: u32, gid: u32, counted: usize) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let around = Folder::open_trusted(path.parent().unwrap_or(Path::new("/")))?;
    let Some(top) = around.node(name)? else { return Err(io::ErrorKind::NotFound.into()) };
    if top.status().kind != Kind::Folder {
        return top.give(uid, gid);
    }
    let mut giving = Giving { uid, gid, depth: 0, shared: Shared::behind(None, counted) };
    walk(top.enter()?, &mut giving)?;
    let mut shared = giving.shared;
    while !shared.names.is_empty() {
        let last = shared.names.keys().next_back().copied();
        let mut giving = GivingShared { uid, gid, next: Shared::behind(last, counted), shared };
        walk(top.enter()?, &mut giving)?;
        shared = giving.next;
    }
    top.give(uid, gid)
}

/// Files with several names that one walk counts the names of. The others have their turn in another walk.
const COUNTED: usize = 65_536;

struct Giving {
    uid: u32,
    gid: u32,
    /// Folders between the top and the current one.
    depth: usize,
    shared: Shared,
}

impl Visit for Giving {
    fn entry(&mut self, _: &Folder, _: &OsStr, node: &Node) -> io::Result<()> {
        let status = node.status();
        if status.links > 1 {
            self.shared.count(status);
            return Ok(());
        }
        node.give(self.uid, self.gid)
    }

    fn enter(&mut self, _: &OsStr) -> io::Result<()> {
        self.depth += 1;
        Ok(())
    }

    fn leave(&mut self, folder: &Folder, _: &Status) -> io::Result<()> {
        // The top comes last of all.
        let Some(depth) = self.depth.checked_sub(1) else { return Ok(()) };
        self.depth = depth;
        Ok(rustix::fs::fchown(folder, Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))?)
    }

    /// A program that uses the folder meanwhile removes what it made for a moment.
    fn passes_over(&self, reason: io::ErrorKind) -> bool {
        reason == io::ErrorKind::NotFound
    }
}

/// Gives the files all of whose names an earlier walk found, and counts the names of the next ones.
struct GivingShared {
    uid: u32,
    gid: u32,
    shared: Shared,
    next: Shared,
}

impl Visit for GivingShared {
    fn entry(&mut self, _: &Folder, _: &OsStr, node: &Node) -> io::Result<()> {
        let status = node.status();
        if status.links > 1 {
            self.next.count(status);
        }
        match self.shared.names.get(&status.id) {
            Some(found) if status.links <= *found => node.give(self.uid, self.gid),
            _ => Ok(()),
        }
    }

    fn enter(&mut self, _: &OsStr) -> io::Result<()> {
        Ok(())
    }

    fn leave(&mut self, _: &Folder, _: &Status) -> io::Result<()> {
        Ok(())
    }

    fn passes_over(&self, reason: io::ErrorKind) -> bool {
        reason == io::ErrorKind::NotFound
    }
}

/// How many names of files were found, for the first `most` files behind one in the order of their numbers.
struct Shared {
    behind: Option<(u64, u64)>,
    most: usize,
    names: BTreeMap<(u64, u64), u64>,
}

impl Shared {
    fn behind(last: Option<(u64, u64)>, most: usize) -> Self {
        Self { behind: last, most, names: BTreeMap::new() }
    }

    fn count(&mut self, status: &Status) {
        if self.behind.is_some_and(|behind| status.id <= behind) {
            return;
        }
        *self.names.entry(status.id).or_default() += 1;
        if self.names.len() > self.most {
            // A file that is dropped here has a later turn, and never comes back into this one: the last number only falls.
            self.names.pop_last();
        }
    }
}
