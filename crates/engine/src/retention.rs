//! What may go: repositories of sessions that ended long ago, workspaces nobody knows of any more, and snapshots and mirrors
//! that no unfinished task needs. Tasks, journals and evidence stay.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use harvest_core::{Clock, SandboxId, Task, Timestamp};
use harvest_store::{Store, TaskQuery};
use serde::Serialize;

use crate::{DataFolder, Error};

const PAGE: usize = 500;

/// What to collect, and whether really.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    pub older_than: Duration,
    /// Also repositories whose branch exists nowhere else.
    pub unpublished: bool,
    pub dry_run: bool,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Collected {
    pub removed: Vec<Item>,
    /// Old enough, but their branch exists nowhere else.
    pub unpublished: usize,
    pub failed: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    pub kind: Kind,
    pub path: PathBuf,
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Session,
    Workspace,
    Snapshot,
    Mirror,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Workspace => "workspace",
            Self::Snapshot => "snapshot",
            Self::Mirror => "mirror",
        }
    }
}

impl Collected {
    pub fn bytes(&self) -> u64 {
        self.removed.iter().map(|item| item.bytes).sum()
    }
}

impl Retention {
    /// Everything that may go.
    pub async fn collect(self, data: &DataFolder, store: &Arc<dyn Store>, clock: &dyn Clock) -> Result<Collected, Error> {
        let cutoff = clock.now().saturating_sub(self.older_than).unwrap_or(Timestamp::MIN);
        let mut collected = self.workspaces(data, store).await?;
        let (mut old, mut needed) = (Vec::new(), HashSet::new());
        for task in all_tasks(store).await? {
            if !task.status.is_finished() {
                needed.insert(task.base);
            } else if task.finished_at.is_some_and(|finished| finished < cutoff) {
                old.push(task);
            }
        }
        let mut gone = HashSet::new();
        if data.sessions().is_dir() {
            for task in old {
                self.session(data, store, &task, &mut gone, &mut collected).await?;
            }
        }
        self.snapshots(data, cutoff, &needed, &mut collected).await;
        self.mirrors(data, cutoff, &needed, &gone, &mut collected).await;
        Ok(collected)
    }

    /// Only workspaces of sandboxes that no one has recorded. Their age does not matter: a sandbox is recorded before its
    /// workspace is made and forgotten after it is gone, so no one can ever want these.
    pub async fn workspaces(self, data: &DataFolder, store: &Arc<dyn Store>) -> Result<Collected, Error> {
        let mut collected = Collected::default();
        // The disk first: what is made from here on is recorded by then.
        let found = folders(&data.workspaces());
        if found.is_empty() {
            return Ok(collected);
        }
        let known: HashSet<SandboxId> = store.sandboxes().await?.into_iter().map(|record| record.id).collect();
        for path in found {
            let id = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
            if id.is_some_and(|id: SandboxId| !known.contains(&id)) {
                self.remove(Kind::Workspace, path, None, &mut collected).await;
            }
        }
        Ok(collected)
    }

    async fn session(
        self,
        data: &DataFolder,
        store: &Arc<dyn Store>,
        task: &Task,
        gone: &mut HashSet<PathBuf>,
        collected: &mut Collected,
    ) -> Result<(), Error> {
        // Read again: it may have been retried since.
        let detail = store.task(&task.id).await?;
        if !detail.task.status.is_finished() {
            return Ok(());
        }
        let only_here = task.branch.is_some() && !Path::new(&task.repository).exists();
        for session in detail.sessions {
            let path = data.sessions().join(session.id.as_str());
            if !path.is_dir() {
                continue;
            }
            if only_here && !self.unpublished {
                collected.unpublished += 1;
                continue;
            }
            gone.insert(path.clone());
            self.remove(Kind::Session, path, None, collected).await;
        }
        Ok(())
    }

    async fn snapshots(self, data: &DataFolder, cutoff: Timestamp, needed: &HashSet<String>, collected: &mut Collected) {
        for repository in folders(&data.snapshots()) {
            for path in folders(&repository) {
                let commit = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let lock = path.with_extension("lock");
                if !needed.contains(commit) && is_older(&path, cutoff) && is_older(&lock, cutoff) {
                    self.remove(Kind::Snapshot, path, Some(lock), collected).await;
                }
            }
        }
    }

    /// Sessions stand on the objects of their mirror, so a mirror stays while one of them does.
    async fn mirrors(
        self,
        data: &DataFolder,
        cutoff: Timestamp,
        needed: &HashSet<String>,
        gone: &HashSet<PathBuf>,
        collected: &mut Collected,
    ) {
        let staying = folders(&data.sessions()).into_iter().filter(|session| !gone.contains(session));
        let used: HashSet<PathBuf> = staying.filter_map(|session| mirror_of(&session.join("repository.git"))).collect();
        for path in folders(&data.mirrors()) {
            let is_needed = needed.iter().any(|commit| has_base(&path, commit));
            let fetched = is_older(&path, cutoff) && is_older(&path.join("refs/bases"), cutoff);
            if !is_needed && fetched && !used.contains(&path) {
                let lock = path.with_extension("lock");
                self.remove(Kind::Mirror, path, Some(lock), collected).await;
            }
        }
    }

    /// With the lock that everyone who uses the folder holds, if there is one.
    async fn remove(self, kind: Kind, path: PathBuf, lock: Option<PathBuf>, collected: &mut Collected) {
        let shown = path.display().to_string();
        let removing = tokio::task::spawn_blocking(move || -> std::io::Result<Option<Item>> {
            let _held = match lock.as_deref().map(try_lock) {
                Some(None) => return Ok(None),
                Some(held) => held,
                None => None,
            };
            let bytes = size(&path);
            if !self.dry_run {
                std::fs::remove_dir_all(&path)?;
            }
            Ok(Some(Item { kind, path, bytes }))
        });
        match removing.await.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(item) => collected.removed.extend(item),
            Err(error) => collected.failed.push(format!("{shown}: {error}")),
        }
    }
}

async fn all_tasks(store: &Arc<dyn Store>) -> Result<Vec<Task>, Error> {
    let mut query = TaskQuery { limit: PAGE, ..TaskQuery::default() };
    let mut tasks = Vec::new();
    loop {
        let page = store.tasks(query.clone()).await?;
        tasks.extend(page.items);
        match page.next_cursor {
            Some(cursor) => query.cursor = Some(cursor),
            None => return Ok(tasks),
        }
    }
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<PathBuf> =
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// What is not there is as old as can be.
fn is_older(path: &Path, cutoff: Timestamp) -> bool {
    let Ok(modified) = std::fs::metadata(path).and_then(|metadata| metadata.modified()) else { return true };
    Timestamp::try_from(modified).is_ok_and(|modified| modified < cutoff)
}

fn try_lock(path: &Path) -> Option<File> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).ok()?;
    file.try_lock().ok()?;
    Some(file)
}

fn mirror_of(repository: &Path) -> Option<PathBuf> {
    let objects = std::fs::read_to_string(repository.join("objects/info/alternates")).ok()?;
    Path::new(objects.trim_end_matches('\n')).parent().map(Path::to_owned)
}

fn has_base(mirror: &Path, commit: &str) -> bool {
    mirror.join("refs/bases").join(commit).exists()
        || std::fs::read_to_string(mirror.join("packed-refs")).is_ok_and(|refs| refs.contains(&format!("refs/bases/{commit}")))
}

/// What removing it gives back.
fn size(path: &Path) -> u64 {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return 0 };
    let own = metadata.blocks() * 512;
    if !metadata.is_dir() {
        return own;
    }
    let below = std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    own + below.map(|entry| size(&entry.path())).sum::<u64>()
}
