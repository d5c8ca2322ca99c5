//! A file `interrupts/<task id>` in the data directory stops that task, whoever works on it. The folder is watched, so the
//! owner notices at once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use harvest_core::TaskId;
use rustix::fs::inotify;
use tokio::net::unix::pipe;

use crate::{DataFolder, Error, Stop};

/// Stops tasks of this process when someone asks for it by a file. Ends when dropped.
#[derive(Debug)]
pub struct Interrupts {
    stops: Arc<Mutex<HashMap<TaskId, Stop>>>,
    folder: PathBuf,
    watching: tokio::task::JoinHandle<()>,
}

impl Interrupts {
    pub fn watch(data: &DataFolder) -> Result<Self, Error> {
        let folder = data.interrupts();
        let io = |source: std::io::Error| Error::Io { action: "watch", path: folder.display().to_string(), source };
        std::fs::create_dir_all(&folder).map_err(io)?;
        let watcher = open(&folder).map_err(io)?;
        let stops: Arc<Mutex<HashMap<TaskId, Stop>>> = Arc::default();
        let watching = tokio::spawn(follow(watcher, folder.clone(), stops.clone()));
        Ok(Self { stops, folder, watching })
    }

    /// From now on a file of this name requests `stop`.
    pub fn register(&self, task: &TaskId, stop: Stop) {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner).insert(task.clone(), stop);
        // The file may have been there before.
        obey(&self.folder, &self.stops);
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

async fn follow(watcher: pipe::Receiver, folder: PathBuf, stops: Arc<Mutex<HashMap<TaskId, Stop>>>) {
    let mut buffer = [0u8; 4096];
    while watcher.readable().await.is_ok() {
        // What is in the folder counts, not what the events say: they only wake us up.
        let _ = watcher.try_read(&mut buffer);
        obey(&folder, &stops);
    }
}

fn obey(folder: &Path, stops: &Mutex<HashMap<TaskId, Stop>>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let stops = stops.lock().unwrap_or_else(PoisonError::into_inner);
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let task = name.to_str().and_then(|name| name.parse::<TaskId>().ok());
        if let Some(stop) = task.and_then(|task| stops.get(&task)) {
            stop.request();
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
