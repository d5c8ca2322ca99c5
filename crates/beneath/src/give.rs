//! Changes the owner of a whole tree.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Uid};

use crate::folder::{Folder, Kind, Node, Status};
use crate::walk::{Visit, walk};

/// Gives a folder and everything in it to someone else. Links are given themselves. A file that has another name outside of the
/// folder stays as it is: that name may be someone else's.
pub fn give(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let around = Folder::open_trusted(path.parent().unwrap_or(Path::new("/")))?;
    let Some(top) = around.node(name)? else { return Err(io::ErrorKind::NotFound.into()) };
    let mut giving = Giving { uid, gid, shared: HashMap::new() };
    if top.status().kind != Kind::Folder {
        return top.give(uid, gid);
    }
    let folder = top.enter()?;
    walk(top.enter()?, &mut giving)?;
    giving.rest(&folder)?;
    top.give(uid, gid)
}

struct Giving {
    uid: u32,
    gid: u32,
    /// Files with several names, by number: the names that were found, and how many there are.
    shared: HashMap<(u64, u64), (Vec<PathBuf>, u64)>,
}

impl Visit for Giving {
    fn entry(&mut self, _: &Folder, _: &OsStr, node: &Node, path: &Path) -> io::Result<()> {
        let status = node.status();
        if status.links > 1 {
            let (names, _) = self.shared.entry(status.id).or_insert_with(|| (Vec::new(), status.links));
            names.push(path.to_owned());
            return Ok(());
        }
        node.give(self.uid, self.gid)
    }

    fn enter(&mut self, _: &OsStr) -> io::Result<()> {
        Ok(())
    }

    fn leave(&mut self, folder: &Folder, _: &Status, path: &Path) -> io::Result<()> {
        // The top comes last of all.
        if path.as_os_str().is_empty() {
            return Ok(());
        }
        Ok(rustix::fs::fchown(folder, Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))?)
    }

    /// A program that uses the folder meanwhile removes what it made for a moment.
    fn passes_over(&self, reason: io::ErrorKind) -> bool {
        reason == io::ErrorKind::NotFound
    }
}

impl Giving {
    /// Gives the files all of whose names were found.
    fn rest(&self, folder: &Folder) -> io::Result<()> {
        for (id, (names, links)) in &self.shared {
            let Some(name) = names.first().filter(|_| names.len() as u64 >= *links) else { continue };
            match folder.node_beneath(name) {
                Ok(Some(node)) if node.status().id == *id && node.status().links <= names.len() as u64 => {
                    node.give(self.uid, self.gid)?;
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
