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

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::{Git, Home};

    /// How often git asked for a sync, as it tells itself.
    async fn syncs(repository: &Path, args: &[&str], stdin: &[u8]) -> (String, usize) {
        let trace = repository.join("trace");
        let env: [(&str, &OsStr); 1] = [("GIT_TRACE2_EVENT", trace.as_os_str())];
        let printed = Git::new(Home::Nobody).run_with(repository, args, &env, stdin).await.unwrap();
        let told = std::fs::read_to_string(&trace).unwrap();
        std::fs::remove_file(&trace).unwrap();
        let syncs = told.lines().filter(|line| line.contains("\"hardware-flush\"")).count();
        (String::from_utf8_lossy(&printed).trim().to_owned(), syncs)
    }

    #[tokio::test]
    async fn git_syncs_what_it_is_told_to_keep() {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path();
        Git::new(Home::Nobody).run(repository, &["init", "--quiet", "--bare", "."]).await.unwrap();
        let (blob, of_object) = syncs(repository, &["hash-object", "-w", "--stdin"], b"content").await;
        let (_, of_reference) = syncs(repository, &["update-ref", "refs/kept", &blob], b"").await;
        assert!(of_object > 0 && of_reference > 0, "{of_object} {of_reference}");
    }

    #[test]
    fn names_are_synced_up_to_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("a/b");
        assert_eq!(nearest_existing(&new), folder.path());
        std::fs::create_dir_all(&new).unwrap();
        write(&new.join("file"), b"x").unwrap();
        sync_names(&new, folder.path()).unwrap();
        assert!(sync_names(&folder.path().join("gone"), folder.path()).is_err());
    }
}
