//! Goes through a tree, however deep, with a bounded number of descriptors and no recursion.
//!
//! No path is kept, and of the names in a folder only as many as fit into [`BATCH`] bytes: the walk continues reading the folder
//! where it stopped. So the memory it takes depends on the depth of the tree and on nothing else. The folders above the current one are held open near the top, where programs may move things meanwhile. Further down only
//! their numbers are known: the way back is `..`, and it must lead to the folder that the walk came from.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{RawDir, SeekFrom};

use crate::folder::{Folder, Kind, Node, Status};

/// So many folders above the current one are held open.
const HELD: usize = 32;
/// Folders inside each other that are followed.
const DEEPEST: usize = 10_000;
/// Bytes of a folder's entries that are read at once. One entry takes at most 280.
const BATCH: usize = 1024;

/// The operation on each part of a tree.
pub(crate) trait Visit {
    /// A file, link or special file in a folder.
    fn entry(&mut self, folder: &Folder, name: &OsStr, node: &Node) -> io::Result<()>;

    /// A folder below the top, before what is in it.
    fn enter(&mut self, name: &OsStr) -> io::Result<()>;

    /// A folder after what is in it, and the top at last.
    fn leave(&mut self, folder: &Folder, status: &Status) -> io::Result<()>;

    /// Whether what cannot be opened for this reason, such as that it is gone by now, is passed over.
    fn passes_over(&self, _: io::ErrorKind) -> bool {
        false
    }
}

/// A folder on the way down, with the next names in it.
struct Level {
    status: Status,
    names: Names,
}

/// Visits everything below a folder.
pub(crate) fn walk(top: Folder, visit: &mut impl Visit) -> io::Result<()> {
    let mut levels = vec![Level { status: top.status()?, names: Names::default() }];
    let mut at = Cursor::new(top);
    loop {
        let Some(level) = levels.last_mut() else { return Ok(()) };
        let Some(name) = level.names.next(at.folder())? else {
            visit.leave(at.folder(), &level.status)?;
            levels.pop();
            if !levels.is_empty() {
                at.up()?;
            }
            continue;
        };
        let found = match at.folder().node(&name) {
            Ok(Some(node)) if node.status().kind == Kind::Folder => open(&node).map(Some),
            Ok(Some(node)) => visit.entry(at.folder(), &name, &node).map(|()| None),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match found {
            Ok(Some((folder, level))) => {
                if levels.len() > DEEPEST {
                    return Err(io::Error::other(format!("folders are nested more than {DEEPEST} deep")));
                }
                visit.enter(&name)?;
                at.down(folder)?;
                levels.push(level);
            }
            Ok(None) => {}
            Err(error) if visit.passes_over(error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
}

fn open(node: &Node) -> io::Result<(Folder, Level)> {
    Ok((node.enter()?, Level { status: node.status().clone(), names: Names::default() }))
}

/// The names in a folder, read in batches. The folder itself is given to each call, since it may be closed and opened again
/// between two of them.
#[derive(Default)]
pub(crate) struct Names {
    /// The rest of the batch, last name first.
    batch: Vec<OsString>,
    /// The position in the folder behind the batch.
    position: u64,
}

impl Names {
    pub(crate) fn next(&mut self, folder: &Folder) -> io::Result<Option<OsString>> {
        if self.batch.is_empty() {
            self.fill(folder)?;
        }
        Ok(self.batch.pop())
    }

    fn fill(&mut self, folder: &Folder) -> io::Result<()> {
        // A folder that stayed open is at its position, and a seek would lose what the kernel knows of removed entries.
        if rustix::fs::tell(folder)? != self.position {
            rustix::fs::seek(folder, SeekFrom::Start(self.position))?;
        }
        let mut buffer = [MaybeUninit::uninit(); BATCH];
        let mut entries = RawDir::new(folder, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            self.position = entry.next_entry_cookie();
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                self.batch.push(OsStr::from_bytes(name).to_owned());
            }
            // The next step would read another batch; one without names is no end.
            if entries.is_buffer_empty() && !self.batch.is_empty() {
                break;
            }
        }
        self.batch.reverse();
        self.batch.shrink_to_fit();
        Ok(())
    }
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
                    return Err(io::Error::other("a folder was moved while it was being read"));
                }
                outer
            }
        };
        Ok(Some(std::mem::replace(&mut self.folder, outer)))
    }
}
