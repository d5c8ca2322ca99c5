//! Advisory locks between processes that share a data directory. The kernel releases them, whatever way a process ends.

use std::fs::{File, OpenOptions};
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

/// The exclusive lock, if no one holds any.
pub(crate) fn try_exclusive(path: &Path) -> Option<Guard> {
    let file = open(path).ok()?;
    file.try_lock().ok()?;
    Some(Guard { _file: file })
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(path)
}
