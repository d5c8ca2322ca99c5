//! What stops a task from outside: a word in the store, whichever machine works on it, or a file `interrupts/<task id>` in
//! the data directory, which interrupts it and may say why. Both are watched, so the owner notices at once.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use harvest_core::{OwnerId, Stopping, TaskId};
use harvest_store::Store;
use rustix::fs::inotify;
use tokio::net::unix::pipe;

use crate::stop::Stops;
use crate::{Engine, Error, Stop};

/// Who interrupts by a file: whoever may write to the data directory.
const AUTHOR: &str = "operator";
const LONGEST_REASON: u64 = 1000;

/// Stops tasks of this process when someone asks for it by a file. Ends when dropped.
#[derive(Debug)]
pub struct Interrupts {
    stops: Stops,
    folder: PathBuf,
    watching: [tokio::task::JoinHandle<()>; 2],
}

impl Interrupts {
    /// Watches for the tasks that `engine` works on.
    pub fn watch(engine: &Engine, owner: &OwnerId) -> Result<Self, Error> {
        let folder = engine.options.data.interrupts();
        let io = |source: std::io::Error| Error::Io { action: "watch", path: folder.display().to_string(), source };
        std::fs::create_dir_all(&folder).map_err(io)?;
        let watcher = open(&folder).map_err(io)?;
        let stops = engine.stops.clone();
        let watching = tokio::spawn(follow(watcher, folder.clone(), stops.clone()));
        let asked = tokio::spawn(follow_store(engine.store().clone(), owner.clone(), stops.clone()));
        Ok(Self { stops, folder, watching: [watching, asked] })
    }

    /// From now on a file of this name requests `stop`.
    pub fn register(&self, task: &TaskId, stop: Stop) {
        self.stops.insert(task, stop);
        // The file may have been there before.
        obey(&self.folder, &self.stops);
    }

    /// The flag of a task that is about to be worked on. From now on a file of its name sets it.
    pub fn stop_of(&self, task: &TaskId) -> Stop {
        let stop = self.stops.of(task);
        // The file may have been there before.
        obey(&self.folder, &self.stops);
        stop
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.watching.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// An inotify descriptor reads like a pipe, and that is how the runtime waits for it.
fn open(folder: &Path) -> std::io::Result<pipe::Receiver> {
    let watcher = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
    // When it is whole, not when it begins to be there: it may say why.
    inotify::add_watch(&watcher, folder, inotify::WatchFlags::CLOSE_WRITE | inotify::WatchFlags::MOVED_TO)?;
    pipe::Receiver::from_file_unchecked(watcher.into())
}

async fn follow(watcher: pipe::Receiver, folder: PathBuf, stops: Stops) {
    let mut buffer = [0u8; 4096];
    while watcher.readable().await.is_ok() {
        // What is in the folder counts, not what the events say: they only wake us up.
        let _ = watcher.try_read(&mut buffer);
        obey(&folder, &stops);
    }
}

/// The queue's waker tells of these, too.
async fn follow_store(store: Arc<dyn Store>, owner: OwnerId, stops: Stops) {
    let mut changed = store.watch_queue();
    while changed.changed().await.is_ok() {
        // A database that cannot be asked now wakes everyone when it can be again.
        for (task, how) in store.stops(&owner).await.unwrap_or_default() {
            stops.request(&task, how);
        }
    }
}

fn obey(folder: &Path, stops: &Stops) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let task = name.to_str().and_then(|name| name.parse::<TaskId>().ok());
        if task.is_some_and(|task| stops.request(&task, interrupt(&entry.path()))) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// What a file says.
fn interrupt(path: &Path) -> Stopping {
    let mut text = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        let _ = file.take(LONGEST_REASON).read_to_end(&mut text);
    }
    let reason = String::from_utf8_lossy(&text).trim().to_owned();
    Stopping::Interrupt { author: AUTHOR.to_owned(), reason: Some(reason).filter(|reason| !reason.is_empty()) }
}
