//! Goes through a tree, however deep, with a bounded number of descriptors and no recursion.
//!
//! The folders above the current one are held open near the top, where programs may move things meanwhile. Further down only
//! their numbers are known: the way back is `..`, and it must lead to the folder that the walk came from.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::folder::{Folder, Kind, Node, Status};

/// So many folders above the current one are held open.
const HELD: usize = 32;
/// Folders inside each other that are followed; a path as long as this takes a megabyte.
const DEEPEST: usize = 10_000;

/// What is done with the parts of a tree. Paths begin below the top.
pub(crate) trait Visit {
    /// A file, link or special file in a folder.
    fn entry(&mut self, folder: &Folder, name: &OsStr, node: &Node, path: &Path) -> io::Result<()>;

    /// A folder below the top, before what is in it.
    fn enter(&mut self, name: &OsStr) -> io::Result<()>;

    /// A folder after what is in it, and at last the top with an empty path.
    fn leave(&mut self, folder: &Folder, status: &Status, path: &Path) -> io::Result<()>;

    /// Whether what cannot be opened for this reason, such as that it is gone by now, is passed over.
    fn passes_over(&self, _: io::ErrorKind) -> bool {
        false
    }
}

/// A folder on the way down, with the names in it that are still to come.
struct Level {
    status: Status,
    names: std::vec::IntoIter<OsString>,
}

/// Visits everything below a folder.
pub(crate) fn walk(top: Folder, visit: &mut impl Visit) -> io::Result<()> {
    let mut path = PathBuf::new();
    let mut levels = vec![Level { status: top.status()?, names: top.names()?.into_iter() }];
    let mut at = Cursor::new(top);
    loop {
        let Some(level) = levels.last_mut() else { return Ok(()) };
        let Some(name) = level.names.next() else {
            visit.leave(at.folder(), &level.status, &path)?;
            levels.pop();
            if !levels.is_empty() {
                at.up()?;
                path.pop();
            }
            continue;
        };
        let found = match at.folder().node(&name) {
            Ok(Some(node)) if node.status().kind == Kind::Folder => open(&node).map(Some),
            Ok(Some(node)) => visit.entry(at.folder(), &name, &node, &path.join(&name)).map(|()| None),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match found {
            Ok(Some((folder, level))) => {
                if levels.len() > DEEPEST {
                    return Err(io::Error::other(format!("more than {DEEPEST} folders lie inside each other")));
                }
                visit.enter(&name)?;
                at.down(folder)?;
                path.push(&name);
                levels.push(level);
            }
            Ok(None) => {}
            Err(error) if visit.passes_over(error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
}

fn open(node: &Node) -> io::Result<(Folder, Level)> {
    let folder = node.enter()?;
    let names = folder.names()?.into_iter();
    Ok((folder, Level { status: node.status().clone(), names }))
}

/// A folder in a tree, and the way back to the top.
pub(crate) struct Cursor {
    folder: Folder,
    above: Vec<Above>,
}

enum Above {
    Held(Folder),
    /// Device and inode number.
    Known((u64, u64)),
}

impl Cursor {
    pub(crate) fn new(top: Folder) -> Self {
        Self { folder: top, above: Vec::new() }
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Goes on in a folder of the current one.
    pub(crate) fn down(&mut self, inner: Folder) -> io::Result<()> {
        let id = self.folder.status()?.id;
        let outer = std::mem::replace(&mut self.folder, inner);
        self.above.push(if self.above.len() < HELD { Above::Held(outer) } else { Above::Known(id) });
        Ok(())
    }

    /// Goes back to the folder around, and returns the one that was left. At the top it stays.
    pub(crate) fn up(&mut self) -> io::Result<Option<Folder>> {
        let outer = match self.above.pop() {
            None => return Ok(None),
            Some(Above::Held(outer)) => outer,
            Some(Above::Known(id)) => {
                let outer = self.folder.around()?;
                if outer.status()?.id != id {
                    return Err(io::Error::other("a folder was moved while it was gone through"));
                }
                outer
            }
        };
        Ok(Some(std::mem::replace(&mut self.folder, outer)))
    }
}
