//! A process that owns live sessions holds a lock file for as long as it lives. The kernel lets go of the lock however the
//! process ends, so whoever can take it knows that the owner is dead.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use harvest_core::{Entropy, OwnerId};
use harvest_store::{Owner, OwnerKind, Store};

use crate::{DataFolder, Error};

/// For so long at most a lock may be without its name, and not held yet.
const BEING_MADE: Duration = Duration::from_secs(60);
/// What a process starts has a copy of all that it holds open, its lock too, until it runs its own program. One that is killed
/// in such a moment seems to hold its lock a little longer.
const LAST_COPY: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub struct Ownership {
    id: OwnerId,
    lock: PathBuf,
    store: Arc<dyn Store>,
    _held: File,
}

impl Ownership {
    pub async fn register(
        data: &DataFolder,
        store: Arc<dyn Store>,
        entropy: &dyn Entropy,
        kind: OwnerKind,
    ) -> Result<Self, Error> {
        let id = OwnerId::generate(entropy);
        let folder = data.owners();
        let lock = lock_path(data, &id);
        let io = |action, path: &Path| {
            let path = path.display().to_string();
            move |source| Error::Io { action, path, source }
        };
        std::fs::create_dir_all(&folder).map_err(io("make", &folder))?;
        // Under its name it is held from the first moment on.
        let unnamed = folder.join(format!(".{id}"));
        let held = OpenOptions::new().create_new(true).write(true).open(&unnamed).map_err(io("make", &unnamed))?;
        held.try_lock().map_err(|error| io("lock", &unnamed)(error.into()))?;
        std::fs::rename(&unnamed, &lock).map_err(io("make", &lock))?;
        // The row appears only after the lock is held: a row whose lock is free belongs to the dead.
        store.register_owner(Owner { id: id.clone(), kind, pid: std::process::id(), holding: None }).await?;
        Ok(Self { id, lock, store, _held: held })
    }

    pub fn id(&self) -> &OwnerId {
        &self.id
    }

    /// The orderly end: nothing is left to recover, but a sandbox that could not be removed. Whoever comes next does that.
    pub async fn release(self) -> Result<(), Error> {
        if self.store.sandboxes().await?.iter().any(|record| record.owner == self.id) {
            return Ok(());
        }
        self.store.remove_owner(&self.id).await?;
        let _ = std::fs::remove_file(&self.lock);
        Ok(())
    }
}

pub(crate) fn lock_path(data: &DataFolder, owner: &OwnerId) -> PathBuf {
    data.owners().join(format!("{owner}.lock"))
}

/// Removes the locks of the dead that nobody knows: they died before they said who they were, or just before they had left.
pub(crate) async fn remove_unknown(data: &DataFolder, store: &dyn Store) -> Result<(), Error> {
    let Ok(entries) = std::fs::read_dir(data.owners()) else { return Ok(()) };
    // Held before anyone is asked who is known: from then on, nobody becomes known under such a name.
    let free: Vec<(File, PathBuf)> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let file = OpenOptions::new().write(true).open(entry.path()).ok()?;
            file.try_lock().ok()?;
            let is_unnamed = entry.file_name().as_encoded_bytes().starts_with(b".");
            let age = entry.metadata().ok()?.modified().ok()?.elapsed().unwrap_or_default();
            (!is_unnamed || age > BEING_MADE).then(|| (file, entry.path()))
        })
        .collect();
    if free.is_empty() {
        return Ok(());
    }
    let known: HashSet<PathBuf> = store.owners().await?.iter().map(|owner| lock_path(data, &owner.id)).collect();
    for (_held, path) in free.iter().filter(|(_, path)| !known.contains(path)) {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Those of them who are dead, each with its lock, held so that only one process cleans up after it.
pub(crate) async fn dead(data: &DataFolder, owners: impl IntoIterator<Item = Owner>) -> Vec<(File, Owner)> {
    let mut dead = Vec::new();
    for owner in owners {
        if let Some(lock) = lock_of_dead(data, &owner).await {
            dead.push((lock, owner));
        }
    }
    dead
}

/// `None` while the owner lives. An owner without a lock here belongs to another data directory that shares the database: its
/// leases run out by themselves.
pub(crate) async fn lock_of_dead(data: &DataFolder, owner: &Owner) -> Option<File> {
    let file = OpenOptions::new().write(true).open(lock_path(data, &owner.id)).ok()?;
    let end = Instant::now() + LAST_COPY;
    while file.try_lock().is_err() {
        if is_running(owner.pid) || Instant::now() > end {
            return None;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Some(file)
}

/// False for a process that has ended, also while nobody has asked how.
fn is_running(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The name before it may hold anything.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, Some('Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use harvest_store::Sqlite;

    use super::*;

    #[derive(Debug, Default)]
    struct Counting(AtomicU8);

    impl Entropy for Counting {
        fn bytes(&self) -> [u8; 10] {
            [self.0.fetch_add(1, Ordering::Relaxed); 10]
        }
    }

    /// As a process does that was forked and has not begun with its own program.
    #[tokio::test]
    async fn a_copy_of_a_dead_owners_lock_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataFolder::new(folder.path().to_owned());
        let owner =
            |pid| Owner { id: OwnerId::generate(&Counting::default()), kind: OwnerKind::Run, pid, holding: None };
        let (dead, alive) = (owner(u32::MAX), owner(std::process::id()));
        std::fs::create_dir_all(data.owners()).unwrap();
        let copy = File::create(lock_path(&data, &dead.id)).unwrap();
        copy.try_lock().unwrap();
        assert!(lock_of_dead(&data, &alive).await.is_none());
        let (lock, ()) = tokio::join!(lock_of_dead(&data, &dead), async {
            tokio::task::yield_now().await;
            drop(copy);
        });
        assert!(lock.is_some());
    }

    #[tokio::test]
    async fn locks_that_nobody_knows_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataFolder::new(folder.path().to_owned());
        let store: Arc<dyn Store> = Arc::new(Sqlite::open(&data.database()).unwrap());
        let entropy = Counting::default();
        let register = || Ownership::register(&data, store.clone(), &entropy, OwnerKind::Server);
        let alive = register().await.unwrap();
        let dead = register().await.unwrap();
        let (dead_lock, _) = (dead.lock.clone(), drop(dead));
        let unknown = lock_path(&data, &OwnerId::generate(&entropy));
        let being_made = data.owners().join(".being-made");
        for path in [&unknown, &being_made] {
            std::fs::write(path, "").unwrap();
        }
        remove_unknown(&data, store.as_ref()).await.unwrap();
        assert!(alive.lock.exists() && dead_lock.exists() && being_made.exists());
        assert!(!unknown.exists());
    }
}
