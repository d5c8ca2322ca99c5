//! A process that owns live sessions holds a lock file for as long as it lives. The kernel lets go of the lock however the
//! process ends, so whoever can take it knows that the owner is dead.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use harvest_core::{Entropy, OwnerId};
use harvest_store::{Owner, OwnerKind, Store};

use crate::{DataFolder, Error};

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
        let held = OpenOptions::new().create_new(true).write(true).open(&lock).map_err(io("make", &lock))?;
        held.try_lock().map_err(|error| io("lock", &lock)(error.into()))?;
        // The row appears only after the lock is held: a row whose lock is free belongs to the dead.
        store.register_owner(Owner { id: id.clone(), kind, pid: std::process::id(), holding: None }).await?;
        Ok(Self { id, lock, store, _held: held })
    }

    pub fn id(&self) -> &OwnerId {
        &self.id
    }

    /// The orderly end: nothing is left to recover.
    pub async fn release(self) -> Result<(), Error> {
        self.store.remove_owner(&self.id).await?;
        let _ = std::fs::remove_file(&self.lock);
        Ok(())
    }
}

pub(crate) fn lock_path(data: &DataFolder, owner: &OwnerId) -> PathBuf {
    data.owners().join(format!("{owner}.lock"))
}

/// The dead owner's lock, held so that only one process cleans up after it; `None` while the owner lives. An owner without a
/// lock here belongs to another data directory that shares the database: its leases run out by themselves.
pub(crate) fn lock_of_dead(data: &DataFolder, owner: &OwnerId) -> Option<File> {
    let file = OpenOptions::new().write(true).open(lock_path(data, owner)).ok()?;
    file.try_lock().ok()?;
    Some(file)
}
