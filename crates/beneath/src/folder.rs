//! An opened folder, and what lies below it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Stat, Uid};
use rustix::io::Errno;

use crate::walk::{Visit, walk};

const STRICT: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);
const HANDLE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Half of what the kernel takes as one path.
const LONGEST_STEP: usize = 2048;

/// A folder that was opened. Operations on it stay below it, whatever happens to its path meanwhile.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// A file, folder or link that was found, held by a descriptor: what is done to it is done to this one and no other.
#[derive(Debug)]
pub struct Node {
    handle: OwnedFd,
    status: Status,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    Link,
    /// A pipe, a socket or a device.
    Special,
}

/// The facts about a [`Node`] at the time it was opened.
#[derive(Debug, Clone)]
pub struct Status {
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Bytes taken on disk.
    pub blocks: u64,
    /// Device and inode number.
    pub id: (u64, u64),
    /// Names that a file has.
    pub links: u64,
    pub(crate) times: rustix::fs::Timestamps,
}

impl Status {
    #[expect(clippy::unnecessary_cast, reason = "the fields differ between architectures")]
    fn of(stat: &Stat) -> Self {
        let time = |seconds, nanoseconds| rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanoseconds as _ };
        Self {
            kind: match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Folder,
                FileType::Symlink => Kind::Link,
                _ => Kind::Special,
            },
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            blocks: u64::try_from(stat.st_blocks).unwrap_or_default() * 512,
            id: (stat.st_dev as u64, stat.st_ino as u64),
            links: stat.st_nlink as u64,
            times: rustix::fs::Timestamps {
                last_access: time(stat.st_atime, stat.st_atime_nsec),
                last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
            },
        }
    }
}

impl Folder {
    /// Opens a folder by a path of Harvest's own whose last part is untrusted: it must not be a link.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::openat(CWD, path, FOLDER, Mode::empty())?))
    }

    /// Opens a folder of Harvest's own, where an operator may have put a link to another disk.
    pub fn open_trusted(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(Self(rustix::fs::openat(CWD, path, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty())?))
    }

    /// Opens a folder below this one.
    pub fn folder(&self, inner: &Path) -> io::Result<Self> {
        if inner.as_os_str().len() <= LONGEST_STEP {
            return Ok(Self(self.beneath(inner, FOLDER, Mode::empty())?));
        }
        // The kernel takes paths up to a length; a longer one is gone in steps.
        let (mut reached, mut step) = (self.folder(Path::new(""))?, PathBuf::new());
        for part in inner.components() {
            if step.as_os_str().len() + part.as_os_str().len() >= LONGEST_STEP {
                reached = Self(reached.beneath(&step, FOLDER, Mode::empty())?);
                step.clear();
            }
            step.push(part);
        }
        Ok(Self(reached.beneath(&step, FOLDER, Mode::empty())?))
    }

    /// The folder around this one, wherever that is by now.
    pub(crate) fn around(&self) -> io::Result<Self> {
        Ok(Self(rustix::fs::openat(&self.0, "..", FOLDER, Mode::empty())?))
    }

    pub(crate) fn status(&self) -> io::Result<Status> {
        Ok(Status::of(&rustix::fs::fstat(&self.0)?))
    }

    /// Opens whatever has this name here; `None` when nothing has.
    pub fn node(&self, name: &OsStr) -> io::Result<Option<Node>> {
        self.handle(single(name)?)
    }

    /// Opens whatever is at a path below; `None` when nothing is. The last part may be a link, which is opened itself.
    pub fn node_beneath(&self, inner: &Path) -> io::Result<Option<Node>> {
        let (parent, name) = self.parent_of(inner)?;
        parent.handle(name)
    }

    fn handle(&self, name: &OsStr) -> io::Result<Option<Node>> {
        let handle = match rustix::fs::openat(&self.0, name, HANDLE, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            handle => handle?,
        };
        let status = Status::of(&rustix::fs::fstat(&handle)?);
        Ok(Some(Node { handle, status }))
    }

    /// The folder around a path below this one, and the path's last part.
    pub fn parent_of<'a>(&self, inner: &'a Path) -> io::Result<(Self, &'a OsStr)> {
        let name = inner.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = inner.parent().unwrap_or(Path::new(""));
        Ok((self.folder(parent)?, single(name)?))
    }

    /// Makes a folder that only its owner can enter, unless there is one. A link in its place is refused.
    pub fn make_folder(&self, name: &OsStr) -> io::Result<Self> {
        match rustix::fs::mkdirat(&self.0, single(name)?, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => self.folder(Path::new(name)),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a folder that must not be there yet.
    pub(crate) fn make_new_folder(&self, name: &OsStr) -> io::Result<Self> {
        rustix::fs::mkdirat(&self.0, single(name)?, Mode::RWXU)?;
        self.folder(Path::new(name))
    }

    /// The names in this folder.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Opens a regular file below for reading. A pipe or a device is refused without waiting for it.
    pub fn file(&self, inner: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        regular(self.beneath(inner, flags, Mode::empty())?)
    }

    /// The content of a regular file below, if it has no more bytes than `most`.
    pub fn read(&self, inner: &Path, most: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        self.file(inner)?.take(most.saturating_add(1)).read_to_end(&mut content)?;
        if content.len() as u64 > most {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {most} bytes")));
        }
        Ok(content)
    }

    /// Writes a regular file below, in place of one that is there.
    pub fn write(&self, inner: &Path, content: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = regular(self.beneath(inner, flags, Mode::from_raw_mode(0o644))?)?;
        file.set_len(0)?;
        file.write_all(content)
    }

    /// Makes a regular file that must not be there yet.
    pub(crate) fn make_new_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(self.beneath(Path::new(single(name)?), flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Moves what has this name here into another folder, where nothing may have the name yet. A link is moved itself.
    pub fn move_into(&self, name: &OsStr, into: &Self) -> io::Result<()> {
        let name = single(name)?;
        Ok(rustix::fs::renameat_with(&self.0, name, &into.0, name, RenameFlags::NOREPLACE)?)
    }

    /// Shows every regular file below, at any depth, with the folder it is in. Whatever is removed meanwhile is passed over.
    pub fn each_file(&self, show: impl FnMut(&Self, &OsStr) -> io::Result<()>) -> io::Result<()> {
        walk(self.folder(Path::new(""))?, &mut Files(show))
    }

    /// Removes a file, link, pipe or empty folder.
    pub fn unlink(&self, name: &OsStr, kind: Kind) -> io::Result<()> {
        let flags = if kind == Kind::Folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(rustix::fs::unlinkat(&self.0, single(name)?, flags)?)
    }

    /// Bytes that everything below takes on disk. Folders that vanish meanwhile, or that are closed to this process, count as empty.
    pub fn disk_usage(&self) -> io::Result<u64> {
        let mut usage = Usage(0);
        walk(self.folder(Path::new(""))?, &mut usage)?;
        Ok(usage.0)
    }

    fn beneath(&self, inner: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        if !inner.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let inner = if inner.as_os_str().is_empty() { Path::new(".") } else { inner };
        // A mode is allowed only where something may be made.
        let mode = if flags.contains(OFlags::CREATE) { mode } else { Mode::empty() };
        Ok(rustix::fs::openat2(&self.0, inner, flags, mode, STRICT)?)
    }
}

/// Adds up the bytes that a tree takes on disk.
struct Usage(u64);

impl Visit for Usage {
    fn entry(&mut self, _: &Folder, _: &OsStr, node: &Node) -> io::Result<()> {
        self.0 += node.status.blocks;
        Ok(())
    }

    fn enter(&mut self, _: &OsStr) -> io::Result<()> {
        Ok(())
    }

    fn leave(&mut self, _: &Folder, status: &Status) -> io::Result<()> {
        self.0 += status.blocks;
        Ok(())
    }

    fn passes_over(&self, reason: io::ErrorKind) -> bool {
        [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied].contains(&reason)
    }
}

/// Shows the regular files of a tree.
struct Files<F>(F);

impl<F: FnMut(&Folder, &OsStr) -> io::Result<()>> Visit for Files<F> {
    fn entry(&mut self, folder: &Folder, name: &OsStr, node: &Node) -> io::Result<()> {
        if node.status.kind == Kind::File { (self.0)(folder, name) } else { Ok(()) }
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

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Node {
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Opens this folder for what is in it.
    pub fn enter(&self) -> io::Result<Folder> {
        Ok(Folder(rustix::fs::openat(&self.handle, ".", FOLDER, Mode::empty())?))
    }

    /// Changes owner and group, of a link itself.
    pub fn give(&self, uid: u32, gid: u32) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        Ok(rustix::fs::chownat(&self.handle, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?)
    }

    /// Changes the permission bits of a file or folder. A link has none.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        if self.status.kind == Kind::Link {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // A handle cannot be changed itself; its entry in /proc leads to the same file and nowhere else.
        Ok(rustix::fs::chmod(self.alias(), Mode::from_raw_mode(mode))?)
    }

    pub(crate) fn alias(&self) -> String {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd())
    }

    pub(crate) fn target(&self) -> io::Result<OsString> {
        let target = rustix::fs::readlinkat(&self.handle, "", Vec::new())?;
        Ok(OsStr::from_bytes(target.to_bytes()).to_owned())
    }
}

fn regular(handle: OwnedFd) -> io::Result<File> {
    if Status::of(&rustix::fs::fstat(&handle)?).kind != Kind::File {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(handle.into())
}

/// A name that leads no further than one step down.
pub(crate) fn single(name: &OsStr) -> io::Result<&OsStr> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) if part == name => Ok(name),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}
