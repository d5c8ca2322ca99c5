//! Wakes those who wait, also in other processes: a small file beside the database is touched, and watched.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::inotify;
use tokio::net::unix::pipe;
use tokio::sync::watch;

/// A small file beside the database. Whoever rings it is heard in every process.
#[derive(Debug)]
pub(super) struct Bell {
    file: PathBuf,
    /// Kept open: it rings often.
    ringing: OnceLock<Option<File>>,
}

impl Bell {
    pub(super) fn new(database: &Path, name: &str) -> Self {
        Self { file: database.with_extension(name), ringing: OnceLock::new() }
    }

    pub(super) fn ring(&self) {
        let open = || File::options().create(true).truncate(false).write(true).open(&self.file).ok();
        if let Some(file) = self.ringing.get_or_init(open) {
            // One that is not heard costs other processes their next look by the clock, nothing more.
            let _ = file.write_at(b"\n", 0);
        }
    }

    /// Readable after every ring. An inotify descriptor reads like a pipe, and that is how the runtime waits for it.
    pub(super) fn listen(&self) -> std::io::Result<pipe::Receiver> {
        let watcher = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
        File::options().create(true).truncate(false).write(true).open(&self.file)?;
        inotify::add_watch(&watcher, &self.file, inotify::WatchFlags::MODIFY)?;
        pipe::Receiver::from_file_unchecked(watcher.into())
    }
}

#[derive(Debug)]
pub(super) struct Waker {
    bell: Bell,
    changed: Arc<watch::Sender<u64>>,
    listening: OnceLock<Option<tokio::task::JoinHandle<()>>>,
}

impl Waker {
    pub(super) fn new(database: &Path) -> Self {
        let changed = Arc::new(watch::channel(0).0);
        Self { bell: Bell::new(database, "wake"), changed, listening: OnceLock::new() }
    }

    pub(super) fn wake(&self) {
        self.changed.send_modify(|count| *count += 1);
        self.bell.ring();
    }

    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.listening.get_or_init(|| self.listen());
        self.changed.subscribe()
    }

    fn listen(&self) -> Option<tokio::task::JoinHandle<()>> {
        let rung = self.bell.listen().ok()?;
        let changed = self.changed.clone();
        Some(tokio::spawn(async move {
            let mut buffer = [0u8; 4096];
            while rung.readable().await.is_ok() {
                if rung.try_read(&mut buffer).is_ok() {
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
