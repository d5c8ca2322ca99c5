//! Launchers that are started before it is known what for.
//!
//! Starting a program and moving it into control groups of its own can take the kernel longer than everything else about a
//! sandbox, and depends on nothing about it. So one launcher is kept that has done so. It holds nothing of any session and
//! waits for its order on its standard input; when that is closed it ends, so at the latest with this process. What it has
//! on the host is written down in a file that is locked for as long as this process lives: whoever can lock it may tidy up.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use harvest_link::Launch;
use rustix::process::Signal;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};

use super::group::{self, Groups};
use crate::pid::Identity;
use crate::{Error, folder, host};

/// Below the folder with the state of all sandboxes.
const FOLDER: &str = ".launchers";
const LOG: &str = "log";
/// More than the first process in a new sandbox takes to start.
const MOMENT: Duration = Duration::from_millis(30);

/// Tells launchers of one process apart.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Where launchers come from.
#[derive(Debug, Clone)]
pub(super) struct Launchers {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    program: PathBuf,
    folder: PathBuf,
    /// Tells our groups from those of other installations on this host.
    installation: String,
    groups: Groups,
    spare: Mutex<Spare>,
}

/// The one that is kept.
#[derive(Debug)]
enum Spare {
    None,
    Started,
    Ready(Box<Launcher>),
}

/// A launcher without an order. Dropped, it ends, and its groups go with it.
#[derive(Debug)]
pub(super) struct Launcher {
    /// That of its groups.
    pub name: String,
    pub process: Identity,
    note: Note,
    child: Child,
    order: ChildStdin,
}

impl Launchers {
    pub fn new(program: &Path, state: &Path, groups: &Groups) -> Result<Self, Error> {
        let folder = state.join(FOLDER);
        folder::make_private(&folder)?;
        let data = fs::metadata(state).map_err(|error| Error::io(state, error))?;
        Ok(Self {
            inner: Arc::new(Inner {
                program: program.to_owned(),
                folder,
                installation: format!("{:x}-{:x}", data.dev(), data.ino()),
                groups: groups.clone(),
                spare: Mutex::new(Spare::None),
            }),
        })
    }

    /// Tells what this installation has on the host from what others have.
    pub fn installation(&self) -> &str {
        &self.inner.installation
    }

    /// The spare one, or a new one when there is none.
    pub fn take(&self) -> Result<Launcher, Error> {
        match self.inner.take_spare() {
            Some(launcher) => Ok(launcher),
            None => self.inner.make(),
        }
    }

    /// Sees to it that there is a spare one. It may still be joining its groups.
    pub async fn fill(&self) {
        if !self.inner.begin() {
            return;
        }
        let inner = self.inner.clone();
        // Not this thread: making groups takes a millisecond.
        let _ = tokio::task::spawn_blocking(move || inner.finish()).await;
    }

    /// The same in a moment, in the background. The kernel lets no process start while one changes its groups, and whoever
    /// has just got a sandbox is about to start one.
    pub fn refill(&self) {
        let launchers = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(MOMENT).await;
            launchers.fill().await;
        });
    }

    /// Removes what processes that were killed have left. Those of living ones stay.
    pub fn tidy(&self) -> Result<(), Error> {
        let failed = |error| Error::io(&self.inner.folder, error);
        for entry in fs::read_dir(&self.inner.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_none() {
                tidy_one(&path)?;
            }
        }
        Ok(())
    }
}

impl Inner {
    fn lock(&self) -> std::sync::MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False when there is a spare one already, or is about to be.
    fn begin(&self) -> bool {
        let mut spare = self.lock();
        let is_needed = matches!(*spare, Spare::None);
        if is_needed {
            *spare = Spare::Started;
        }
        is_needed
    }

    fn finish(&self) {
        let made = self.make();
        if let Err(error) = &made {
            // Whoever needs one will try again, and fail with the reason.
            tracing::debug!(%error, "no launcher could be started ahead");
        }
        *self.lock() = made.map_or(Spare::None, |launcher| Spare::Ready(Box::new(launcher)));
    }

    fn take_spare(&self) -> Option<Launcher> {
        let mut spare = self.lock();
        match std::mem::replace(&mut *spare, Spare::None) {
            // Somebody may have killed it.
            Spare::Ready(launcher) => Some(*launcher).filter(|launcher| launcher.process.open().is_some()),
            Spare::Started => {
                *spare = Spare::Started;
                None
            }
            Spare::None => None,
        }
    }

    fn make(&self) -> Result<Launcher, Error> {
        let own = i32::try_from(std::process::id()).ok().and_then(Identity::of);
        let Identity { pid, started } = own.ok_or_else(|| Error::failed("this process is not in /proc"))?;
        let name = format!("{}-{pid}-{started}-{}", self.installation, COUNT.fetch_add(1, Ordering::Relaxed));
        let mut note = Note::write(self.folder.join(&name), self.groups.folders(&name))?;
        let join = self.groups.make(&name)?;
        let mut command = host::command(&self.program);
        command.args(["launch", "--when-told"]).args(join).current_dir("/");
        let log = File::create(note.log()).map_err(|error| Error::io(note.log(), error))?;
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).kill_on_drop(false);
        let mut child =
            command.spawn().map_err(|error| Error::failed(format!("the launcher cannot be started: {error}")))?;
        let process = child.id().and_then(|pid| Identity::of(i32::try_from(pid).ok()?));
        note.process = process;
        let (Some(process), Some(order)) = (process, child.stdin.take()) else {
            return Err(Error::failed("the launcher ended at once"));
        };
        Ok(Launcher { name, process, note, child, order })
    }
}

impl Launcher {
    /// All that its groups may be at.
    pub fn groups(&self) -> Vec<PathBuf> {
        self.note.groups.clone()
    }

    /// Gives it its order. From here on it outlives this process, so everything about it has to be written down elsewhere
    /// already. `log` is where its complaints are from now on.
    pub async fn launch(self, order: &Launch, log: &Path) -> Result<(), Error> {
        let Self { note, mut child, order: mut pipe, .. } = self;
        let text = serde_json::to_vec(order).map_err(|error| Error::failed(error.to_string()))?;
        fs::rename(note.log(), log).map_err(|error| Error::io(log, error))?;
        note.hand_over();
        let told = async {
            pipe.write_all(&text).await?;
            pipe.shutdown().await
        };
        let told = told.await;
        drop(pipe);
        // Only to reap it; that it has ended is noticed elsewhere.
        tokio::spawn(async move { child.wait().await });
        told.map_err(|error| Error::failed(format!("the launcher takes no order: {error}")))
    }
}

/// What a launcher has on the host, written down before it is made and removed after it is gone.
#[derive(Debug)]
struct Note {
    path: PathBuf,
    /// Held while this process lives.
    _lock: File,
    groups: Vec<PathBuf>,
    process: Option<Identity>,
}

impl Note {
    fn write(path: PathBuf, groups: Vec<PathBuf>) -> Result<Self, Error> {
        let failed = |error| Error::io(&path, error);
        let bytes = serde_json::to_vec(&groups).map_err(|error| Error::failed(error.to_string()))?;
        let mut file = loop {
            let file = File::create_new(&path).map_err(failed)?;
            file.lock().map_err(failed)?;
            // Someone who tidied up may have locked it first, and then has removed it.
            if file.metadata().map_err(failed)?.nlink() > 0 {
                break file;
            }
        };
        file.write_all(&bytes).map_err(failed)?;
        Ok(Self { path, _lock: file, groups, process: None })
    }

    fn log(&self) -> PathBuf {
        self.path.with_extension(LOG)
    }

    /// Process and groups are somebody else's now.
    fn hand_over(mut self) {
        self.groups.clear();
        self.process = None;
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        if let Some(handle) = self.process.and_then(Identity::open) {
            let _ = rustix::process::pidfd_send_signal(handle, Signal::KILL);
        }
        match group::remove(&self.groups) {
            Ok(()) => forget(&self.path),
            Err(error) => tracing::warn!(%error, "the groups of a launcher are left for another process to remove"),
        }
    }
}

/// Removes one launcher's groups and what was written down about it, unless its process lives.
fn tidy_one(path: &Path) -> Result<(), Error> {
    let failed = |error| Error::io(path, error);
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(failed)?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
        Ok(()) => {}
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(failed)?;
    // Killed while writing, it has made nothing yet.
    let groups: Vec<PathBuf> = serde_json::from_slice(&text).unwrap_or_default();
    group::remove(&groups)?;
    forget(path);
    Ok(())
}

fn forget(path: &Path) {
    let _ = fs::remove_file(path.with_extension(LOG));
    let _ = fs::remove_file(path);
}
