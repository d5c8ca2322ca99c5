//! Removes a tree, whatever an untrusted program did to make that hard.
//!
//! There may be folders without permissions (overlayfs leaves one itself), links that lead elsewhere, a tree deep enough to run a
//! recursive removal out of descriptors or stack. So nothing is followed, and every folder found is first moved up to the top,
//! which takes two descriptors and no recursion at all.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Removes `path` and everything in it, however deep. A link is removed itself. Not being there is fine.
pub fn remove(path: &Path) -> io::Result<()> {
    let top = match open(CWD, path) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(rustix::fs::unlink(path)?),
        Err(error) => return Err(error.into()),
    };
    let mut moved = 0u64;
    // Each round empties the folders that the round before moved to the top. Names are read as they are needed, since the top may
    // get as many as the tree has folders.
    loop {
        let mut is_empty = true;
        for entry in Dir::read_from(&top)? {
            let entry = entry?;
            let Some(kind) = kind_of(&top, &entry)? else { continue };
            is_empty = false;
            if kind == FileType::Directory {
                moved = empty(&open(&top, entry.file_name())?, &top, moved)?;
                match rustix::fs::unlinkat(&top, entry.file_name(), AtFlags::REMOVEDIR) {
                    // Something was read past or added; the next round finds it.
                    Ok(()) | Err(Errno::NOTEMPTY) => {}
                    Err(error) => return Err(error.into()),
                }
            } else {
                rustix::fs::unlinkat(&top, entry.file_name(), AtFlags::empty())?;
            }
        }
        if is_empty {
            break;
        }
    }
    Ok(rustix::fs::rmdir(path)?)
}

/// Removes what is in a folder; the folders in it are moved to the top.
fn empty(folder: &OwnedFd, top: &OwnedFd, mut moved: u64) -> io::Result<u64> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let Some(kind) = kind_of(folder, &entry)? else { continue };
        let name = entry.file_name();
        if kind == FileType::Directory {
            // Moving a folder writes to it (its `..`), so it has to be open for us.
            drop(open(folder, name)?);
            moved = lift(folder, name, top, moved)?;
        } else {
            rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
        }
    }
    Ok(moved)
}

/// Moves a folder to the top under a name that is free there.
fn lift(folder: &OwnedFd, name: &CStr, top: &OwnedFd, mut moved: u64) -> io::Result<u64> {
    loop {
        moved += 1;
        match rustix::fs::renameat_with(folder, name, top, format!(".{moved}"), rustix::fs::RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(moved),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Opens a folder, never a link to one, and makes it one that can be emptied.
fn open<P: rustix::path::Arg + Copy>(parent: impl AsFd, name: P) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(&parent, name, flags | OFlags::PATH, Mode::empty())?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&handle)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        // A path-only descriptor cannot be changed itself; its entry in /proc leads to the same folder and nowhere else.
        rustix::fs::chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), mode | Mode::RWXU)?;
    }
    rustix::fs::openat(&handle, ".", flags | OFlags::RDONLY, Mode::empty())
}

/// `None` for the entries that every folder has.
fn kind_of(folder: &OwnedFd, entry: &DirEntry) -> io::Result<Option<FileType>> {
    let name = entry.file_name();
    if name == c"." || name == c".." {
        return Ok(None);
    }
    Ok(Some(match entry.file_type() {
        FileType::Unknown => {
            let status = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            FileType::from_raw_mode(status.st_mode)
        }
        kind => kind,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_is_hard_to_remove_goes_and_what_links_lead_to_stays() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "x").unwrap();
        let parent = tempfile::tempdir().unwrap();
        let tree = parent.path().join("tree");
        fs::create_dir_all(tree.join("layer/closed/inner")).unwrap();
        fs::create_dir_all(tree.join(".1/.2/.1")).unwrap();
        fs::write(tree.join("layer/closed/inner/file"), "x").unwrap();
        symlink(outside.path(), tree.join("link")).unwrap();
        symlink(outside.path(), tree.join("layer/link")).unwrap();
        fs::set_permissions(tree.join("layer/closed"), fs::Permissions::from_mode(0o000)).unwrap();
        remove(&tree).unwrap();
        assert!(!tree.exists());
        assert!(outside.path().join("kept").exists());
        remove(&tree).unwrap();
    }

    #[test]
    fn a_very_deep_tree_goes_too() {
        let parent = tempfile::tempdir().unwrap();
        let tree = parent.path().join("deep");
        fs::create_dir(&tree).unwrap();
        let mut folder = open(CWD, &tree).unwrap();
        for _ in 0..5000 {
            rustix::fs::mkdirat(&folder, "d", Mode::RWXU).unwrap();
            folder = open(&folder, "d").unwrap();
        }
        drop(folder);
        remove(&tree).unwrap();
        assert!(!tree.exists());
    }
}
