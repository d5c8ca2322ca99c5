//! Prepared snapshots: a checkout with its dependencies installed, frozen, that sessions start from.
//!
//! ```text
//! prepared/<repository>/<commit>-<fingerprint>-<time>/{tree/, snapshot.json}   a snapshot; whoever uses it holds `….lock` shared
//! prepared/<repository>/building/tree                                   the clean checkout of the one being made
//! prepared/<repository>/{build.lock, state.json}                        who is making one, and what came of the last try
//! ```
//! Installing runs code of strangers on a copy. Of that copy only files that the repository does not track are taken over,
//! into a checkout that the code never saw: tracked files and `.git` are always git's own. The name of each thing taken is
//! excluded from git, so that no dependency ends up in a commit.

mod gather;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use harvest_beneath::{Blocks, Folder};
use harvest_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lock::{self, Guard, Kind};
use crate::snapshot::{check_out, copy_tree, remove};
use crate::{Error, Git, Home, Mirror, Snapshot};

/// Unused snapshots kept per repository besides the newest.
const KEPT: usize = 1;
const CHECKOUT_LIMIT: Duration = Duration::from_secs(600);
const COMMIT_SHOWN: usize = 12;
/// Where whatever belongs to Harvest lies in a prepared tree.
pub const OWN_FOLDER: &str = ".harvest";

/// All prepared snapshots of a data directory.
#[derive(Debug, Clone)]
pub struct Prepared {
    root: PathBuf,
    git: Git,
}

/// What is known about one of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub commit: String,
    /// Of everything in the repository that decides which dependencies there are.
    pub fingerprint: String,
    /// Of everything else that does: how it was built, and by which version of the builder.
    pub recipe: String,
    pub built_at: Timestamp,
    pub bytes: u64,
    /// What the installation left, relative to the tree; git does not see it.
    pub extras: Vec<String>,
    /// Folders of the tree that come first on the search path.
    pub programs: Vec<String>,
    /// The builder's report.
    pub details: Value,
}

/// The right to make a snapshot of one repository. One process at a time has it.
#[derive(Debug)]
pub struct Building {
    folder: PathBuf,
    git: Git,
    _lock: Guard,
}

impl Prepared {
    pub fn new(root: PathBuf) -> Self {
        Self { root, git: Git::new(Home::Nobody).with_limit(CHECKOUT_LIMIT) }
    }

    fn folder(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    /// Every snapshot of the repository, the newest first. None is held.
    pub fn manifests(&self, key: &str) -> Vec<Manifest> {
        let mut found: Vec<Manifest> = snapshots(&self.folder(key)).iter().filter_map(|path| manifest(path)).collect();
        found.sort_by(|a, b| b.built_at.cmp(&a.built_at).then_with(|| a.commit.cmp(&b.commit)));
        found
    }

    /// Takes hold of a snapshot. `None` when it has gone meanwhile.
    pub async fn open(&self, key: &str, manifest: &Manifest) -> Result<Option<Snapshot>, Error> {
        let path = self.folder(key).join(name(manifest));
        if !path.exists() {
            return Ok(None);
        }
        let in_use = lock::lock(&lock_file(&path), Kind::Shared).await?;
        let found = crate::prepared::manifest(&path);
        Ok(found.map(|manifest| Snapshot::prepared(path.join("tree"), manifest, in_use)))
    }

    /// The right to build, or `None` while someone else has it. What a builder that died left is removed.
    pub async fn begin(&self, key: &str) -> Result<Option<Building>, Error> {
        let folder = self.folder(key);
        tokio::fs::create_dir_all(&folder).await.map_err(Error::io("make", &folder))?;
        let Some(lock) = lock::try_exclusive(&folder.join("build.lock")) else { return Ok(None) };
        self.begun(folder, lock).await.map(Some)
    }

    /// The right to build, once whoever has it is done. Waiting can be given up at any time.
    pub async fn begin_when_free(&self, key: &str) -> Result<Building, Error> {
        let folder = self.folder(key);
        let lock = lock::exclusive(&folder.join("build.lock")).await?;
        self.begun(folder, lock).await
    }

    async fn begun(&self, folder: PathBuf, lock: Guard) -> Result<Building, Error> {
        let building = Building { folder, git: self.git.clone(), _lock: lock };
        remove(&building.place()).await?;
        Ok(building)
    }

    /// Whether someone is building right now.
    pub fn is_building(&self, key: &str) -> bool {
        let lock = self.folder(key).join("build.lock");
        lock.exists() && lock::try_exclusive(&lock).is_none()
    }

    /// What the builder wrote down last.
    pub fn state(&self, key: &str) -> Option<Value> {
        serde_json::from_slice(&std::fs::read(self.folder(key).join("state.json")).ok()?).ok()
    }

    /// As a whole or not at all.
    pub fn set_state(&self, key: &str, state: &Value) -> Result<(), Error> {
        let folder = self.folder(key);
        std::fs::create_dir_all(&folder).map_err(Error::io("make", &folder))?;
        write(&folder.join("state.json"), state)
    }

    /// Removes what no one uses of every repository but these. `Ok(false)` when something is still in use.
    pub async fn forget_all_but(&self, keys: &[String]) -> Result<bool, Error> {
        let mut gone = true;
        for folder in folders(&self.root) {
            let kept =
                folder.file_name().and_then(|name| name.to_str()).is_some_and(|key| keys.iter().any(|k| k == key));
            if !kept {
                gone &= tokio::task::spawn_blocking(move || forget(&folder)).await.unwrap_or(false);
            }
        }
        Ok(gone)
    }
}

impl Building {
    fn place(&self) -> PathBuf {
        self.folder.join("building")
    }

    /// A clean checkout of `commit` with a copy of it at `work`, where strangers' code may run. `objects` is where
    /// sandboxes see the mirror's objects; `sparse` are the only folders wanted, or none for all.
    pub async fn check_out(
        &self,
        mirror: &Mirror,
        commit: &str,
        objects: &Path,
        sparse: &[String],
        work: &Path,
    ) -> Result<(), Error> {
        let place = self.place();
        remove(&place).await?;
        tokio::fs::create_dir_all(&place).await.map_err(Error::io("make", &place))?;
        let tree = place.join("tree");
        check_out(&self.git, mirror, commit, objects, sparse, &tree).await?;
        if let Some(parent) = work.parent() {
            tokio::fs::create_dir_all(parent).await.map_err(Error::io("make", parent))?;
        }
        copy_tree(&tree, work, Blocks::SharedIfPossible).await
    }

    /// Puts into `work` what an earlier snapshot had installed, as far as nothing is there.
    pub async fn reuse(&self, earlier: &Snapshot, work: &Path) -> Result<(), Error> {
        let extras = earlier.manifest().map_or_else(Vec::new, |manifest| manifest.extras.clone());
        let (from, to, shown) = (earlier.path().to_owned(), work.to_owned(), work.to_owned());
        let copying = tokio::task::spawn_blocking(move || copy_extras(&from, &to, &extras));
        let copied = copying.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        copied.map_err(Error::io("copy to", shown))
    }

    /// Makes a snapshot of the clean checkout and what was added at `work`, which is used up. Nothing may run there any more.
    pub async fn freeze(&self, work: &Path, mut manifest: Manifest) -> Result<Manifest, Error> {
        let (place, target) = (self.place(), self.folder.join(name(&manifest)));
        let (tree, work, folder) = (place.join("tree"), work.to_owned(), self.folder.clone());
        let shown = work.clone();
        let gathering = tokio::task::spawn_blocking(move || {
            let owner = gather::Owner::of(&folder)?;
            let extras = gather::gather(&work, &tree, owner)?;
            gather::exclude(&tree, &extras)?;
            let bytes = Folder::open(&tree)?.disk_usage()?;
            Ok::<_, std::io::Error>((extras, bytes))
        });
        let gathered = gathering.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let (extras, bytes) = gathered.map_err(Error::io("take over", shown))?;
        manifest.programs.retain(|program| extras.iter().any(|extra| Path::new(program).starts_with(&extra.path)));
        manifest.extras = extras.into_iter().map(|extra| extra.path).collect();
        manifest.bytes = bytes;
        write(&place.join("snapshot.json"), &manifest)?;
        tokio::fs::rename(&place, &target).await.map_err(Error::io("make", &target))?;
        collect(&self.folder, KEPT + 1);
        Ok(manifest)
    }

    /// Nothing came of it.
    pub async fn abandon(&self) -> Result<(), Error> {
        remove(&self.place()).await
    }
}

/// Never twice the same, so that what a session has hold of stays what it is.
fn name(manifest: &Manifest) -> String {
    let commit = manifest.commit.get(..COMMIT_SHOWN).unwrap_or(&manifest.commit);
    format!("{commit}-{}-{}", manifest.fingerprint, manifest.built_at.as_millisecond())
}

fn lock_file(snapshot: &Path) -> PathBuf {
    snapshot.with_extension("lock")
}

fn manifest(path: &Path) -> Option<Manifest> {
    serde_json::from_slice(&std::fs::read(path.join("snapshot.json")).ok()?).ok()
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let new = path.with_extension("new");
    let bytes = serde_json::to_vec(value).map_err(|error| Error::Unexpected(error.to_string()))?;
    std::fs::write(&new, bytes).and_then(|()| std::fs::rename(&new, path)).map_err(Error::io("write", path))
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

fn snapshots(folder: &Path) -> Vec<PathBuf> {
    folders(folder).into_iter().filter(|path| path.join("snapshot.json").exists()).collect()
}

/// Copies each extra whose folder the checkout has, as a folder and not by a link, and that the checkout does not have itself.
fn copy_extras(from: &Path, to: &Path, extras: &[String]) -> std::io::Result<()> {
    let (from, to) = (Folder::open(from)?, Folder::open(to)?);
    for extra in extras.iter().map(Path::new) {
        // A commit may have made a link, or a file, of the folder that the extra was in.
        let Ok((around, name)) = to.parent_of(extra) else { continue };
        if around.node(name)?.is_none() {
            harvest_beneath::copy(&from, extra, &around, Path::new(name), Blocks::SharedIfPossible)?;
        }
    }
    Ok(())
}

/// Removes a folder that strangers' code has written to, which may have closed folders to their owner. Follows no link.
pub async fn remove_strange(path: &Path) -> std::io::Result<()> {
    let path = path.to_owned();
    let removing = tokio::task::spawn_blocking(move || harvest_beneath::remove(&path));
    removing.await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

/// Removes all but the newest that no one uses. What is in use now goes after a later build.
fn collect(folder: &Path, keep: usize) {
    let mut found: Vec<(Timestamp, PathBuf)> =
        snapshots(folder).into_iter().filter_map(|path| Some((manifest(&path)?.built_at, path))).collect();
    found.sort();
    let surplus = found.len().saturating_sub(keep);
    for (_, path) in found.into_iter().take(surplus) {
        discard(&path);
    }
}

/// Whether it is gone.
fn discard(path: &Path) -> bool {
    // The lock's file stays: someone may be waiting for it, and must not end up with a lock of something else.
    let Some(_unused) = lock::try_exclusive(&lock_file(path)) else { return false };
    // Without its description it is no snapshot any more, however far removing it gets.
    std::fs::remove_file(path.join("snapshot.json")).and_then(|()| harvest_beneath::remove(path)).is_ok()
}

fn forget(folder: &Path) -> bool {
    let Some(_building) = lock::try_exclusive(&folder.join("build.lock")) else { return false };
    let in_use = snapshots(folder).iter().filter(|path| !discard(path)).count();
    in_use == 0 && harvest_beneath::remove(folder).is_ok()
}
