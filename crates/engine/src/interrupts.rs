//! A file `interrupts/<task id>` in the data directory stops that task, whoever works on it. The folder is watched, so the
//! owner notices at once.

use std::path::{Path, PathBuf};

use harvest_core::TaskId;
use rustix::fs::inotify;
use tokio::net::unix::pipe;

use crate::stop::Stops;
use crate::{DataFolder, Engine, Error, Stop};

/// Stops tasks of this process when someone asks for it by a file. Ends when dropped.
#[derive(Debug)]
pub struct Interrupts {
    stops: Stops,
    folder: PathBuf,
    watching: tokio::task::JoinHandle<()>,
}

impl Interrupts {
    /// Watches for the tasks that `engine` works on.
    pub fn watch(engine: &Engine) -> Result<Self, Error> {
        let folder = engine.options.data.interrupts();
        let io = |source: std::io::Error| Error::Io { action: "watch", path: folder.display().to_string(), source };
        std::fs::create_dir_all(&folder).map_err(io)?;
        let watcher = open(&folder).map_err(io)?;
        let stops = engine.stops.clone();
        let watching = tokio::spawn(follow(watcher, folder.clone(), stops.clone()));
        Ok(Self { stops, folder, watching })
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

    /// Asks whoever works on `task` to stop.
    pub fn request(data: &DataFolder, task: &TaskId) -> Result<(), Error> {
        let file = data.interrupts().join(task.as_str());
        let io = |source| Error::Io { action: "write", path: file.display().to_string(), source };
        std::fs::create_dir_all(data.interrupts()).map_err(io)?;
        std::fs::write(&file, b"").map_err(io)
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// An inotify descriptor reads like a pipe, and that is how the runtime waits for it.
fn open(folder: &Path) -> std::io::Result<pipe::Receiver> {
    let watcher = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&watcher, folder, inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO)?;
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

fn obey(folder: &Path, stops: &Stops) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let task = name.to_str().and_then(|name| name.parse::<TaskId>().ok());
        if task.is_some_and(|task| stops.request(&task)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
