//! What is being used, measured from inside: memory and processes through `/proc`, disk by looking at the files.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// So many entries are looked at before others get their turn.
const STEP: usize = 256;
/// Of files that are open but have no name any more, so many are looked for.
const MAX_DESCRIPTORS: usize = 4096;
/// Where a process has file systems in memory of its own.
const SCRATCH: [&str; 3] = ["tmp", "var/tmp", "dev/shm"];
/// Longer chains of parents than this no sane program makes; looking further costs the one who looks.
const MAX_DEPTH: usize = 4096;

/// One process, as far as limits are concerned.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pid: i32,
    parent: i32,
    /// Clock ticks since the machine started.
    started: u64,
    pub threads: u64,
    pub resident: u64,
}

impl Entry {
    /// What tells it apart from later processes with the same number.
    pub fn identity(&self) -> (i32, u64) {
        (self.pid, self.started)
    }

    /// Sends it a signal, unless its number has passed to another process since the census.
    pub fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        let handle = pidfd_open(pid, PidfdFlags::empty());
        if read(self.pid).is_none_or(|now| now.started != self.started) {
            return;
        }
        // A container may have no room for a handle, or know none. It has a pid namespace of its own, without strangers.
        match handle.and_then(|handle| pidfd_send_signal(&handle, signal)) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(_) => drop(kill_process(pid, signal)),
        }
    }
}

/// Everyone there is in this pid namespace, but for ourselves, in order of their pids.
#[derive(Debug, Default)]
pub struct Census(Vec<Entry>);

impl Census {
    pub fn take() -> Self {
        let own = std::process::id();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let mut all: Vec<Entry> = pids.filter(|pid| pid.unsigned_abs() != own).filter_map(read).collect();
        all.sort_by_key(|entry| entry.pid);
        Self(all)
    }

    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    pub fn threads(&self) -> u64 {
        self.0.iter().map(|entry| entry.threads).sum()
    }

    /// What they hold in memory, pages shared by several counted for each.
    pub fn resident(&self) -> u64 {
        self.0.iter().map(|entry| entry.resident).sum()
    }

    /// The same with shared pages shared out; slower.
    pub fn proportional(&self) -> u64 {
        self.0.iter().map(|entry| proportional(entry.pid).unwrap_or(entry.resident)).sum()
    }

    /// A process and all that came of it.
    pub fn below(&self, ancestor: Pid) -> Self {
        let ancestor = ancestor.as_raw_nonzero().get();
        let parent = |pid: i32| {
            let found = self.0.binary_search_by_key(&pid, |entry| entry.pid).ok()?;
            self.0.get(found).map(|entry| entry.parent)
        };
        let descends = |entry: &&Entry| {
            std::iter::successors(Some(entry.pid), |pid| parent(*pid)).take(MAX_DEPTH).any(|pid| pid == ancestor)
        };
        Self(self.0.iter().filter(descends).copied().collect())
    }

    /// What lies in the file systems in memory that these processes see, told by the youngest of them: the oldest is the
    /// wrapper, which sees ours.
    pub fn scratch(&self) -> u64 {
        let Some(witness) = self.0.last() else { return 0 };
        let used = |name: &&str| {
            let status = rustix::fs::statvfs(format!("/proc/{}/root/{name}", witness.pid)).ok()?;
            Some(status.f_blocks.saturating_sub(status.f_bfree) * status.f_frsize)
        };
        SCRATCH.iter().filter_map(used).sum()
    }

    /// The size of files on `devices` that these processes have open and that have no name any more.
    pub fn nameless(&self, devices: &[u64]) -> u64 {
        let folders = self.0.iter().filter_map(|entry| fs::read_dir(format!("/proc/{}/fd", entry.pid)).ok());
        let descriptors = folders.flatten().flatten().take(MAX_DESCRIPTORS);
        let files = descriptors.filter_map(|descriptor| fs::metadata(descriptor.path()).ok());
        let nameless = files.filter(|data| data.is_file() && data.nlink() == 0 && devices.contains(&data.dev()));
        nameless.map(|data| data.blocks() * 512).sum()
    }
}

fn read(pid: i32) -> Option<Entry> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so count from its end: state is field 3, the parent 4, threads 20, start time 22, pages 24.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let parent = fields.get(1)?.parse().ok()?;
    let resident = number(24)? * rustix::param::page_size() as u64;
    Some(Entry { pid, parent, started: number(22)?, threads: number(20)?, resident })
}

fn proportional(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// What folders hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Disk {
    pub bytes: u64,
    pub inodes: u64,
}

/// Looks at everything in `folders`, now and then letting others have their turn, and stops early at `enough`.
pub async fn disk(folders: &[PathBuf], enough: Disk) -> Disk {
    let mut total = Disk::default();
    let mut open: Vec<PathBuf> = folders.to_vec();
    let mut looked = 0;
    while let Some(folder) = open.pop() {
        let Ok(entries) = entries(&folder) else { continue };
        for path in entries {
            let Ok(data) = fs::symlink_metadata(&path) else { continue };
            // What hides a file of the layer below takes no space.
            if data.file_type().is_char_device() {
                continue;
            }
            total.bytes += data.blocks() * 512;
            total.inodes += 1;
            if data.is_dir() {
                open.push(path);
            }
            looked += 1;
            if looked % STEP == 0 {
                tokio::task::yield_now().await;
            }
        }
        if total.bytes > enough.bytes || total.inodes > enough.inodes {
            break;
        }
    }
    total
}

/// What is in a folder, also when its owner closed it to everyone.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let list = || Ok(fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect());
    let closed = Mode::from_raw_mode(rustix::fs::lstat(folder)?.st_mode);
    if closed.contains(Mode::RUSR | Mode::XUSR) {
        return list();
    }
    let handle = rustix::fs::openat(
        CWD,
        folder,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    if change(&handle, closed | Mode::RUSR | Mode::XUSR) == Err(Errno::PERM) {
        // Not ours: then we are someone who may look anywhere.
        return list();
    }
    let listed = list();
    change(&handle, closed)?;
    listed
}

/// A path-only descriptor cannot be changed itself; its entry in /proc leads to the same folder and nowhere else.
fn change(folder: &OwnedFd, mode: Mode) -> rustix::io::Result<()> {
    rustix::fs::chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::process::Stdio;

    #[tokio::test]
    async fn closed_folders_are_counted_and_stay_closed() {
        let top = tempfile::tempdir().unwrap();
        let hidden = top.path().join("hidden");
        fs::create_dir(&hidden).unwrap();
        fs::write(hidden.join("file"), vec![1; 100_000]).unwrap();
        fs::set_permissions(&hidden, fs::Permissions::from_mode(0o300)).unwrap();
        let all = Disk { bytes: u64::MAX, inodes: u64::MAX };
        let found = disk(&[top.path().to_owned()], all).await;
        assert_eq!(found.inodes, 2);
        assert!((100_000..200_000).contains(&found.bytes), "{found:?}");
        assert_eq!(fs::metadata(&hidden).unwrap().permissions().mode() & 0o777, 0o300);
        fs::set_permissions(&hidden, fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn a_census_knows_families_and_sizes() {
        let mut child = crate::command::command("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Once it answers it is what it will be: until then it may still be on its way into the new program.
        child.stdin.as_mut().unwrap().write_all(b"?").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let census = Census::take();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let family = census.below(pid);
        assert_eq!((family.0.len(), family.threads()), (1, 1));
        assert!(family.resident() > 0 && family.proportional() > 0);
        assert!(family.proportional() <= family.resident());
        // One that started at another time is another process, which is left alone.
        Entry { started: family.0[0].started + 1, ..family.0[0] }.signal(Signal::KILL);
        child.stdin.as_mut().unwrap().write_all(b"?").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        family.0[0].signal(Signal::KILL);
        assert!(!child.wait().unwrap().success());
    }
}
