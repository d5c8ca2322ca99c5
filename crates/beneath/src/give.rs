//! Changes the owner of a whole tree.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::folder::{Folder, Kind, Node};
use crate::{DEEPEST, too_deep};

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
    giving.below(&folder, Path::new(""), 0)?;
    giving.rest(&folder)?;
    top.give(uid, gid)
}

struct Giving {
    uid: u32,
    gid: u32,
    /// Files with several names, by number: the names that were found, and how many there are.
    shared: HashMap<(u64, u64), (Vec<PathBuf>, u64)>,
}

impl Giving {
    fn below(&mut self, folder: &Folder, path: &Path, depth: usize) -> io::Result<()> {
        if depth > DEEPEST {
            return Err(too_deep());
        }
        for name in folder.names()? {
            let found = folder.node(&name).and_then(|node| {
                // A program that uses the folder meanwhile removes what it made for a moment.
                let Some(node) = node else { return Ok(()) };
                self.node(&node, &path.join(&name), depth)
            });
            match found {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                found => found?,
            }
        }
        Ok(())
    }

    fn node(&mut self, node: &Node, path: &Path, depth: usize) -> io::Result<()> {
        let status = node.status();
        match status.kind {
            Kind::Folder => self.below(&node.enter()?, path, depth + 1)?,
            _ if status.links > 1 => {
                let (names, _) = self.shared.entry(status.id).or_insert_with(|| (Vec::new(), status.links));
                names.push(path.to_owned());
                return Ok(());
            }
            _ => {}
        }
        node.give(self.uid, self.gid)
    }

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
