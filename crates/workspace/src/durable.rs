//! What has to be on disk when the power goes: what was acknowledged.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Error;

/// Settings that have git sync whatever it writes of a history: small pushes are loose objects, which it would not by itself.
pub const SETTINGS: [(&str, &str); 2] =
    [("core.fsync", "objects,derived-metadata,reference"), ("core.fsyncMethod", "fsync")];

/// Makes sure that the names of a folder and of those around it stay, up to one that was there before.
pub fn sync_names(folder: &Path, before: &Path) -> io::Result<()> {
    for folder in folder.ancestors().take_while(|folder| folder.starts_with(before)) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// The nearest of a path's folders that is there.
pub fn nearest_existing(path: &Path) -> &Path {
    path.ancestors().find(|folder| folder.exists()).unwrap_or(path)
}

/// Writes a file, and returns when it is on disk.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Syncs files and folders that something else has written.
pub(crate) async fn sync(paths: Vec<PathBuf>) -> Result<(), Error> {
    let syncing = tokio::task::spawn_blocking(move || {
        paths.into_iter().try_for_each(|path| {
            let synced = File::open(&path).and_then(|file| file.sync_all());
            synced.map_err(Error::io("sync", path))
        })
    });
    syncing.await.unwrap_or_else(|error| Err(Error::Unexpected(error.to_string())))
}
