//! What stops a task from outside: a word in the store, whichever machine works on it, or a file `interrupts/<task id>` in
//! the data directory, which interrupts it and may say why. Both are watched, so the owner notices at once. A file becomes a word
//! in the store before it goes, and so outlives whoever has read it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use harvest_core::{Clock, OwnerId, Stopping, TaskId};
use harvest_store::{Lease, NewAudit, Record, Store, recorded};
use harvest_vault::Redactor;
use rustix::fs::inotify;
use tokio::net::unix::pipe;

use crate::stop::Stops;
use crate::{Engine, Error, Stop, failpoint};

/// Who interrupts by a file: whoever may write to the data directory.
const AUTHOR: &str = "operator";
const LONGEST_REASON: u64 = 1000;

/// Stops turns of this process when someone asks for it. Ends when dropped.
#[derive(Debug)]
pub struct Interrupts {
    folder: Folder,
    watching: tokio::task::JoinHandle<()>,
}

/// Where the files are, and what they become.
#[derive(Debug, Clone)]
struct Folder {
    path: PathBuf,
    store: Arc<dyn Store>,
    stops: Stops,
    redactor: Arc<Redactor>,
    clock: Arc<dyn Clock>,
}

impl Interrupts {
    /// Watches for the turns that `engine` works on.
    pub fn watch(engine: &Engine, owner: &OwnerId) -> Result<Self, Error> {
        let path = engine.options.data.interrupts();
        let io = |source: std::io::Error| Error::Io { action: "watch", path: path.display().to_string(), source };
        std::fs::create_dir_all(&path).map_err(io)?;
        let watcher = open(&path).map_err(io)?;
        let (store, stops) = (engine.store().clone(), engine.stops.clone());
        let (redactor, clock) = (engine.options.redactor.clone(), engine.options.clock.clone());
        let folder = Folder { path, store, stops, redactor, clock };
        let watching = tokio::spawn(follow(watcher, folder.clone(), owner.clone()));
        Ok(Self { folder, watching })
    }

    /// From now on whoever wants this turn stopped requests `stop`.
    pub async fn register(&self, lease: &Lease, stop: Stop) {
        self.folder.stops.insert(lease, stop);
        // The file may have been there before.
        self.folder.obey().await;
    }

    /// The flag of a turn that is about to be worked on. From now on whoever wants it stopped sets it.
    pub async fn stop_of(&self, lease: &Lease) -> Stop {
        let stop = self.folder.stops.of(lease);
        // The file may have been there before.
        self.folder.obey().await;
        stop
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
    // When it is whole, not when it begins to be there: it may say why.
    inotify::add_watch(&watcher, folder, inotify::WatchFlags::CLOSE_WRITE | inotify::WatchFlags::MOVED_TO)?;
    pipe::Receiver::from_file_unchecked(watcher.into())
}

async fn follow(watcher: pipe::Receiver, folder: Folder, owner: OwnerId) {
    let mut buffer = [0u8; 4096];
    let mut changed = folder.store.watch_queue();
    loop {
        // What is there counts, not what the events say: they only wake us up. A database that cannot be asked now wakes
        // everyone when it can be again.
        tokio::select! {
            Ok(()) = watcher.readable() => {
                let _ = watcher.try_read(&mut buffer);
            }
            () = folder.stops.added() => {}
            Ok(()) = changed.changed() => {}
            else => return,
        }
        folder.obey().await;
        for (lease, how) in folder.store.stops(&owner).await.unwrap_or_default() {
            folder.stops.request(&lease, how);
        }
    }
}

impl Folder {
    /// What files ask for is asked for in the store, from where nothing is lost; only then they go.
    async fn obey(&self) {
        let Ok(entries) = std::fs::read_dir(&self.path) else { return };
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            let task = name.to_str().and_then(|name| name.parse::<TaskId>().ok());
            let Some(task) = task.filter(|task| self.stops.knows(task)) else { continue };
            let asked = self.store.request_stop(&task, self.interrupt(&entry.path()));
            if let (Ok(true), _) = recorded(self.record(), asked).await {
                let _ = std::fs::remove_file(entry.path());
                let _ = failpoint::reach("interrupts::obeyed");
            }
        }
    }

    /// What a file says.
    fn interrupt(&self, path: &Path) -> Stopping {
        let mut text = Vec::new();
        if let Ok(file) = std::fs::File::open(path) {
            // As far as a key reaches beyond the end, so that no part of one is left.
            let _ = file.take(LONGEST_REASON + self.redactor.reach() as u64).read_to_end(&mut text);
        }
        let reason = self.redactor.redact(String::from_utf8_lossy(&text).trim()).into_owned();
        let reason = reason.chars().take(LONGEST_REASON as usize).collect::<String>();
        Stopping::Interrupt { author: AUTHOR.to_owned(), reason: Some(reason).filter(|reason| !reason.is_empty()) }
    }

    fn record(&self) -> Record {
        let audit = NewAudit {
            at: self.clock.now(),
            actor: AUTHOR.to_owned(),
            action: "interrupt".to_owned(),
            target: String::new(),
            project: None,
            detail: serde_json::json!({ "by": "file" }),
        };
        Record { audit, answer: None }
    }
}
