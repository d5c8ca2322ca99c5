//! Wakes those who wait for work, also in other processes: a small file beside the database is touched, and watched.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::inotify;
use tokio::net::unix::pipe;
use tokio::sync::watch;

#[derive(Debug)]
pub(super) struct Waker {
    file: PathBuf,
    changed: Arc<watch::Sender<u64>>,
    /// Kept open: touching happens often.
    touching: OnceLock<Option<File>>,
    listening: OnceLock<Option<tokio::task::JoinHandle<()>>>,
}

impl Waker {
    pub(super) fn new(database: &Path) -> Self {
        let changed = Arc::new(watch::channel(0).0);
        Self { file: database.with_extension("wake"), changed, touching: OnceLock::new(), listening: OnceLock::new() }
    }

    pub(super) fn wake(&self) {
        self.changed.send_modify(|count| *count += 1);
        let open = || File::options().create(true).truncate(false).write(true).open(&self.file).ok();
        if let Some(file) = self.touching.get_or_init(open) {
            // A lost touch costs other processes their next look by the clock, nothing more.
            let _ = file.write_at(b"\n", 0);
        }
    }

    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.listening.get_or_init(|| self.listen());
        self.changed.subscribe()
    }

    fn listen(&self) -> Option<tokio::task::JoinHandle<()>> {
        if !self.file.exists() {
            std::fs::write(&self.file, b"").ok()?;
        }
        let watcher = open(&self.file).ok()?;
        let changed = self.changed.clone();
        Some(tokio::spawn(async move {
            let mut buffer = [0u8; 4096];
            while watcher.readable().await.is_ok() {
                if watcher.try_read(&mut buffer).is_ok() {
                    changed.send_modify(|count| *count += 1);
                }
            }
        }))
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        if let Some(Some(listening)) = self.listening.get() {
            listening.abort();
        }
    }
}

/// An inotify descriptor reads like a pipe, and that is how the runtime waits for it.
pub(super) fn open(file: &Path) -> std::io::Result<pipe::Receiver> {
    let watcher = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&watcher, file, inotify::WatchFlags::MODIFY)?;
    pipe::Receiver::from_file_unchecked(watcher.into())
}
