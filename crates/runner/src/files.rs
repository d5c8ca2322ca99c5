//! Writes the files a process is to find.
//!
//! What ran before in the same sandbox may have put links anywhere in the workspace and the home folder. The runner sees more
//! than those processes do (its own spool), so paths are resolved by the kernel under one of the two folders and never
//! outside of it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{0}` lies neither in the workspace nor in the home folder")]
    Outside(String),
    #[error("`{path}` cannot be written: {source}")]
    Io { path: String, source: io::Error },
}

pub fn write(roots: &[PathBuf], file: &harvest_link::File) -> Result<(), Error> {
    let path = Path::new(&file.path);
    let (root, inner) = roots
        .iter()
        .find_map(|root| Some((root, path.strip_prefix(root).ok()?)))
        .filter(|(_, inner)| inner.components().all(|part| matches!(part, Component::Normal(_))))
        .ok_or_else(|| Error::Outside(file.path.clone()))?;
    write_beneath(root, inner, file).map_err(|source| Error::Io { path: file.path.clone(), source })
}

fn write_beneath(root: &Path, inner: &Path, file: &harvest_link::File) -> io::Result<()> {
    let folder_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, root, folder_flags, Mode::empty())?;
    let parent = inner.parent().unwrap_or(Path::new(""));
    let mut so_far = PathBuf::new();
    for part in parent.components() {
        let above = beneath(&root, &so_far, folder_flags, Mode::empty())?;
        match rustix::fs::mkdirat(&above, part.as_os_str(), Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        so_far.push(part);
    }
    let mode = Mode::from_raw_mode(if file.executable { 0o755 } else { 0o644 });
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let handle = beneath(&root, inner, flags, mode)?;
    rustix::fs::fchmod(&handle, mode)?;
    File::from(handle).write_all(file.content.as_bytes())
}

fn beneath(root: &OwnedFd, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    // The mode is only allowed where something may be created.
    let mode = if flags.contains(OFlags::CREATE) { mode } else { Mode::empty() };
    Ok(rustix::fs::openat2(root, path, flags, mode, ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn file(path: &Path) -> harvest_link::File {
        harvest_link::File { path: path.to_str().unwrap().to_owned(), content: "new".to_owned(), executable: true }
    }

    #[test]
    fn folders_are_made_and_modes_set() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b/c.sh");
        for _ in 0..2 {
            write(&[root.path().to_owned()], &file(&path)).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn no_link_leads_outside() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = outside.path().join("secret");
        fs::write(&secret, "old").unwrap();
        symlink(&secret, root.path().join("file")).unwrap();
        symlink(outside.path(), root.path().join("folder")).unwrap();
        let roots = [root.path().to_owned()];
        for path in ["file", "folder/secret", "folder/new/file", "../x", "a/../../x"] {
            assert!(write(&roots, &file(&root.path().join(path))).is_err(), "{path}");
        }
        assert!(write(&roots, &file(Path::new("/etc/passwd"))).is_err());
        assert_eq!(fs::read_to_string(&secret).unwrap(), "old");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }
}
