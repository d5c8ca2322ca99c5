//! What git locks with: a file beside the one it is about to replace. Of a git that is killed the file stays, and whatever it
//! stands for is locked for ever. What a push had brought until then stays as well, in a folder of its own.
//!
//! Git wrote these folders for agents, so they are gone through by descriptor and no link in them is followed.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use harvest_beneath::{Folder, Kind};

use crate::Error;

/// For so long one that was killed with its worker may take to be gone.
const DYING: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// Removes the locks and unfinished pushes of a bare repository, once no git is at work in it. Those of one that stays at work are left.
pub(crate) async fn remove(repository: &Path) -> Result<(), Error> {
    let failed = |error| Error::Io { action: "look for locks in", path: repository.to_owned(), source: error };
    if in_background(repository, Locks::Count).await.map_err(failed)? == 0 {
        return Ok(());
    }
    let end = Instant::now() + DYING;
    while is_at_work(repository) {
        if Instant::now() > end {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    let failed = |error| Error::Io { action: "remove the locks in", path: repository.to_owned(), source: error };
    in_background(repository, Locks::Remove).await.map_err(failed).map(drop)
}

/// The operation on each lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Locks {
    Count,
    Remove,
}

/// Returns how many locks there are.
async fn in_background(repository: &Path, locks: Locks) -> io::Result<usize> {
    let repository = repository.to_owned();
    let finding = tokio::task::spawn_blocking(move || locks.find(&repository));
    finding.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

impl Locks {
    fn find(self, repository: &Path) -> io::Result<usize> {
        let path = repository;
        let Some(repository) = there(Folder::open(path))? else { return Ok(0) };
        let mut found = 0;
        if let Some(objects) = there(repository.folder(Path::new("objects")))? {
            for name in objects.names()? {
                if is_push(&name) && objects.node(&name)?.is_some_and(|node| node.status().kind == Kind::Folder) {
                    found += 1;
                    if self == Self::Remove {
                        harvest_beneath::remove(&path.join("objects").join(&name))?;
                    }
                }
            }
        }
        // No name of a branch ends like this.
        for folder in ["", "objects/info"] {
            let Some(folder) = there(repository.folder(Path::new(folder)))? else { continue };
            for name in folder.names()? {
                if is_lock(&name) && folder.node(&name)?.is_some_and(|node| node.status().kind == Kind::File) {
                    found += self.meet(&folder, &name)?;
                }
            }
        }
        if let Some(refs) = there(repository.folder(Path::new("refs")))? {
            refs.each_file(|folder, name| {
                if is_lock(name) {
                    found += self.meet(folder, name)?;
                }
                Ok(())
            })?;
        }
        Ok(found)
    }

    fn meet(self, folder: &Folder, name: &OsStr) -> io::Result<usize> {
        if self == Self::Remove {
            there(folder.unlink(name, Kind::File))?;
        }
        Ok(1)
    }
}

fn is_lock(name: &OsStr) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "lock")
}

/// The folder in which git keeps what it receives until it has received all of it.
fn is_push(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"tmp_objdir-incoming-")
}

fn there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Whether some process is in the repository, or was given its path. Git on the host is started in it; the gateway's is told
/// to show it.
fn is_at_work(repository: &Path) -> bool {
    let name = repository.as_os_str().as_encoded_bytes();
    let own = std::process::id();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| *pid != own);
    pids.any(|pid| {
        let is_inside = fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|folder| folder.starts_with(repository));
        let cmdline = || fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        is_inside || names(&cmdline(), name)
    })
}

/// Whether a command line names the path itself. What lies below a mirror is shown to others for reading.
fn names(cmdline: &[u8], path: &[u8]) -> bool {
    let mut found = (0..cmdline.len()).filter(|start| cmdline[*start..].starts_with(path));
    found.any(|start| cmdline.get(start + path.len()) != Some(&b'/'))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    const LOCKS: [&str; 4] = ["packed-refs.lock", "config.lock", "refs/heads/harvest/mend.lock", "objects/info/x.lock"];

    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in LOCKS.iter().chain(&["refs/heads/harvest/mend", "config", "objects/ab/x.lock"]) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        folder
    }

    #[tokio::test]
    async fn what_a_killed_push_has_brought_is_removed() {
        let folder = repository();
        let pack = folder.path().join("objects/tmp_objdir-incoming-x1/pack/tmp_pack_y");
        fs::create_dir_all(pack.parent().unwrap()).unwrap();
        fs::write(&pack, "PACK").unwrap();
        remove(folder.path()).await.unwrap();
        let mut objects: Vec<_> =
            fs::read_dir(folder.path().join("objects")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        objects.sort();
        assert_eq!(objects, ["ab", "info"]);
    }

    fn left(folder: &Path) -> Vec<&'static str> {
        LOCKS.into_iter().filter(|name| folder.join(name).exists()).collect()
    }

    #[tokio::test]
    async fn locks_of_the_dead_are_removed_and_nothing_else() {
        let folder = repository();
        remove(folder.path()).await.unwrap();
        assert_eq!(left(folder.path()), [""; 0]);
        for name in ["refs/heads/harvest/mend", "config", "objects/ab/x.lock"] {
            assert!(folder.path().join(name).exists(), "{name}");
        }
        // Where there is nothing there is nothing to remove.
        remove(&folder.path().join("gone")).await.unwrap();
    }

    #[tokio::test]
    async fn a_link_in_a_repository_leads_to_no_lock_elsewhere() {
        for link in ["refs", "refs/heads", "objects/info", "objects"] {
            let (folder, host) = (repository(), tempfile::tempdir().unwrap());
            for name in ["kept.lock", "info/kept.lock", "heads/kept.lock"] {
                fs::create_dir_all(host.path().join(name).parent().unwrap()).unwrap();
                fs::write(host.path().join(name), "").unwrap();
            }
            fs::remove_dir_all(folder.path().join(link)).unwrap();
            std::os::unix::fs::symlink(host.path(), folder.path().join(link)).unwrap();
            // A link in place of one of git's own folders is refused; one further down is passed over.
            let removed = remove(folder.path()).await;
            assert_eq!(removed.is_ok(), link == "refs/heads", "{link}: {removed:?}");
            for name in ["kept.lock", "info/kept.lock", "heads/kept.lock"] {
                assert!(host.path().join(name).exists(), "{link}: {name}");
            }
        }
    }

    #[test]
    fn who_reads_what_lies_below_is_not_at_work_there() {
        assert!(names(b"bwrap\0--bind\0/tmp/x\0/data/m.git\0--\0git\0", b"/data/m.git"));
        assert!(names(br#"{"args":["/data/m.git/objects","/data/m.git"]}"#, b"/data/m.git"));
        assert!(!names(b"bwrap\0--ro-bind\0/tmp/x\0/data/m.git/objects\0", b"/data/m.git"));
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a program of the test's own, in place of git")]
    async fn those_of_a_git_at_work_are_left_until_it_ends() {
        let folder = repository();
        let mut command = tokio::process::Command::new("sh");
        command.env_clear().args(["-c", "read never"]).current_dir(folder.path()).stdin(Stdio::piped());
        let mut at_work = command.kill_on_drop(true).spawn().unwrap();
        let breaking = remove(folder.path());
        tokio::pin!(breaking);
        let early = tokio::time::timeout(Duration::from_millis(100), &mut breaking).await;
        assert!(early.is_err() && left(folder.path()).len() == LOCKS.len());
        at_work.kill().await.unwrap();
        breaking.await.unwrap();
        assert_eq!(left(folder.path()), [""; 0]);
    }
}
