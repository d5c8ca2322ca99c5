//! Advisory locks between processes that share a data directory. The kernel releases them, whatever way a process ends.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::Error;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Shared,
    Exclusive,
}

/// Holds the lock until dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    _file: File,
}

/// Waits for the lock without blocking the async threads.
pub(crate) async fn lock(path: &Path, kind: Kind) -> Result<Guard, Error> {
    let path = path.to_owned();
    let reported = path.clone();
    let waiting = tokio::task::spawn_blocking(move || -> std::io::Result<Guard> {
        let file = open(&path)?;
        match kind {
            Kind::Shared => file.lock_shared()?,
            Kind::Exclusive => file.lock()?,
        }
        Ok(Guard { _file: file })
    });
    let locked = waiting.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    locked.map_err(Error::io("lock", reported))
}

/// Waits for the exclusive lock, on a thread of its own: whoever no longer waits is not held up by it, and neither is the end of
/// the process. A lock whose file was removed meanwhile is no lock.
pub(crate) async fn exclusive(path: &Path) -> Result<Guard, Error> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let (own, reported) = (path.to_owned(), path.to_owned());
    let waiting = move || {
        // If no one waits any more, the lock is released at once.
        let _ = sender.send(wait(&own));
    };
    let started = std::thread::Builder::new().name("lock".to_owned()).spawn(waiting);
    started.map_err(Error::io("lock", path))?;
    let locked = receiver.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    locked.map_err(Error::io("lock", reported))
}

fn wait(path: &Path) -> std::io::Result<Guard> {
    loop {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = open(path)?;
        file.lock()?;
        let there = std::fs::metadata(path).ok().map(|there| (there.dev(), there.ino()));
        let held = file.metadata()?;
        if there == Some((held.dev(), held.ino())) {
            return Ok(Guard { _file: file });
        }
    }
}

/// The exclusive lock, if no one holds any.
pub(crate) fn try_exclusive(path: &Path) -> Option<Guard> {
    let file = open(path).ok()?;
    file.try_lock().ok()?;
    Some(Guard { _file: file })
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(path)
}
