//! What may go: repositories of sessions that ended long ago, workspaces nobody knows of any more, and snapshots and mirrors
//! that no unfinished task needs. Tasks, journals and evidence stay.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use harvest_beneath::Folder;
use harvest_core::{Clock, Event, EventBody, SandboxId, SessionId, Task, Timestamp};
use harvest_store::{Store, TaskQuery};
use harvest_workspace::mirror_of;
use serde::Serialize;

use crate::journal::events_up_to;
use crate::{DataFolder, Error, prepare};

const PAGE: usize = 500;
/// What is younger may belong to something that is being made.
const BEING_MADE: Duration = Duration::from_secs(60 * 60);

/// What to collect, and whether really.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    pub older_than: Duration,
    /// Beyond this much in the data directory younger ones go as well, the oldest first, but nothing that exists nowhere else.
    pub most_bytes: Option<u64>,
    /// Also repositories whose work exists nowhere else.
    pub unpublished: bool,
    pub dry_run: bool,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Collected {
    pub removed: Vec<Item>,
    /// Old enough, or too large, but their work exists nowhere else.
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
    pub async fn collect(
        self,
        data: &DataFolder,
        store: &Arc<dyn Store>,
        clock: &dyn Clock,
    ) -> Result<Collected, Error> {
        let cutoff = clock.now().saturating_sub(self.older_than).unwrap_or(Timestamp::MIN);
        let held = if self.most_bytes.is_some() { holds(data).await } else { 0 };
        let mut collected = self.workspaces(data, store).await?;
        let (mut old, mut young, mut needed) = (Vec::new(), Vec::new(), HashSet::new());
        for task in all_tasks(store).await? {
            if !task.status.is_finished() {
                needed.insert(task.base);
            } else if task.finished_at.is_some_and(|finished| finished < cutoff) {
                old.push(task);
            } else {
                young.push(task);
            }
        }
        let mut gone = HashSet::new();
        if data.sessions().is_dir() {
            for task in old {
                self.session(data, store, &task, &mut gone, &mut collected).await?;
            }
        }
        self.orphans(data, store, clock, &mut gone, &mut collected).await?;
        self.snapshots(data, cutoff, &needed, &mut collected).await;
        self.prepared(data, store, &mut collected).await?;
        self.mirrors(data, cutoff, &needed, &gone, &mut collected).await;
        let too_much =
            |collected: &Collected| self.most_bytes.is_some_and(|most| held.saturating_sub(collected.bytes()) > most);
        young.sort_by_key(|task| task.finished_at);
        for task in young {
            if !too_much(&collected) {
                break;
            }
            self.session(data, store, &task, &mut gone, &mut collected).await?;
        }
        // What can be made again goes last: it is what makes the next start fast.
        if too_much(&collected) {
            self.snapshots(data, Timestamp::MAX, &needed, &mut collected).await;
        }
        if too_much(&collected) {
            self.mirrors(data, Timestamp::MAX, &needed, &gone, &mut collected).await;
        }
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
        for session in detail.sessions {
            let path = data.sessions().join(session.id.as_str());
            if !path.is_dir() {
                continue;
            }
            let is_published =
                is_published(&task.repository, &events_up_to(store.as_ref(), &session.id, u64::MAX).await?);
            if !self.unpublished && !is_published {
                collected.unpublished += 1;
                continue;
            }
            if !is_published && !self.dry_run {
                // Before it goes: who asks this session for more is told so.
                let marker = data.removed_work(&session.id);
                std::fs::write(&marker, "").map_err(|source| Error::Io {
                    action: "write",
                    path: marker.display().to_string(),
                    source,
                })?;
            }
            gone.insert(path.clone());
            self.remove(Kind::Session, path, None, collected).await;
        }
        Ok(())
    }

    /// Repositories of sessions that were forgotten: here, by a process that died over it, or from another machine.
    async fn orphans(
        self,
        data: &DataFolder,
        store: &Arc<dyn Store>,
        clock: &dyn Clock,
        gone: &mut HashSet<PathBuf>,
        collected: &mut Collected,
    ) -> Result<(), Error> {
        // A session is recorded before its repository is made, but for a fork.
        let cutoff = clock.now().saturating_sub(BEING_MADE).unwrap_or(Timestamp::MIN);
        for path in folders(&data.sessions()) {
            let id = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse::<SessionId>().ok());
            let Some(id) = id.filter(|_| is_older(&path, cutoff) && !gone.contains(&path)) else { continue };
            match store.session(&id).await {
                Err(harvest_store::Error::UnknownSession(_)) => {
                    gone.insert(path.clone());
                    self.remove(Kind::Session, path, None, collected).await;
                }
                known => drop(known?),
            }
        }
        Ok(())
    }

    async fn snapshots(
        self,
        data: &DataFolder,
        cutoff: Timestamp,
        needed: &HashSet<String>,
        collected: &mut Collected,
    ) {
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

    /// Those of repositories that are known are the builder's business; the others are nobody's.
    async fn prepared(self, data: &DataFolder, store: &Arc<dyn Store>, collected: &mut Collected) -> Result<(), Error> {
        let known: HashSet<String> =
            store.repositories().await?.iter().map(|repository| prepare::Settings::of(repository).key).collect();
        for repository in folders(&data.prepared()) {
            if repository.file_name().and_then(|name| name.to_str()).is_some_and(|key| known.contains(key)) {
                continue;
            }
            for path in folders(&repository) {
                let lock = path.with_extension("lock");
                self.remove(Kind::Snapshot, path, Some(lock), collected).await;
            }
            if !self.dry_run && folders(&repository).is_empty() {
                let _ = std::fs::remove_dir_all(&repository);
            }
        }
        Ok(())
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
        let mirrors = data.mirrors();
        let used = staying.filter_map(|session| mirror_of(&session.join("repository.git"), &mirrors));
        let used: HashSet<PathBuf> = used.collect();
        for path in folders(&data.mirrors()) {
            let is_needed = needed.iter().any(|commit| has_base(&path, commit));
            let fetched = is_older(&path, cutoff) && is_older(&path.join("refs/bases"), cutoff);
            // So do prepared snapshots.
            let prepared = path.file_stem().is_some_and(|key| data.prepared().join(key).exists());
            if !is_needed && fetched && !prepared && !used.contains(&path) {
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
                harvest_beneath::remove(&path)?;
            }
            Ok(Some(Item { kind, path, bytes }))
        });
        match removing.await.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(item) => collected.removed.extend(item),
            Err(error) => collected.failed.push(format!("{shown}: {error}")),
        }
    }
}

/// All work of a session has left it for where people find it, or there is none.
fn is_published(repository: &str, journal: &[Event]) -> bool {
    let (mut has_work, mut is_delivered) = (false, false);
    let mut is_elsewhere = Path::new(repository).exists();
    for event in journal {
        match &event.body {
            EventBody::CheckpointCreated { .. } | EventBody::CommitCreated { .. } => {
                (has_work, is_delivered) = (true, false);
            }
            EventBody::BranchDelivered { .. } => is_delivered = true,
            // A branch of another URL is kept by Harvest alone.
            EventBody::PullRequestDelivered { .. } => is_elsewhere = true,
            _ => {}
        }
    }
    !has_work || is_delivered && is_elsewhere
}

/// What the folders that are collected from take on disk.
async fn holds(data: &DataFolder) -> u64 {
    let folders = [data.sessions(), data.workspaces(), data.snapshots(), data.mirrors()];
    let counting = tokio::task::spawn_blocking(move || folders.iter().map(|folder| size(folder)).sum());
    counting.await.unwrap_or_default()
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

fn has_base(mirror: &Path, commit: &str) -> bool {
    mirror.join("refs/bases").join(commit).exists()
        || std::fs::read_to_string(mirror.join("packed-refs"))
            .is_ok_and(|refs| refs.contains(&format!("refs/bases/{commit}")))
}

/// What removing it gives back.
fn size(path: &Path) -> u64 {
    Folder::open_trusted(path).and_then(|folder| folder.disk_usage()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use harvest_core::{
        BranchName, Cost, Entropy, OnFailedDependency, OwnerId, Priority, Prompt, SandboxPurpose, Settings, Source,
        TaskId, TaskKind, TurnId,
    };
    use harvest_store::{Claim, NewTask, SandboxRecord, Sqlite, Step};

    use super::*;
    use crate::story::journal;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[derive(Debug, Default)]
    struct Counting(AtomicU8);

    impl Entropy for Counting {
        fn bytes(&self) -> [u8; 10] {
            [self.0.fetch_add(1, Ordering::Relaxed); 10]
        }
    }

    #[derive(Debug)]
    struct At(Timestamp);

    impl Clock for At {
        fn now(&self) -> Timestamp {
            self.0
        }
    }

    struct World {
        _folder: tempfile::TempDir,
        data: DataFolder,
        store: Arc<dyn Store>,
        entropy: Counting,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let data = DataFolder::new(folder.path().join("data"));
            std::fs::create_dir(data.path()).unwrap();
            let store = Arc::new(Sqlite::open(&data.database()).unwrap());
            Self { _folder: folder, data, store, entropy: Counting::default() }
        }

        fn put(&self, name: &str, text: &str) -> PathBuf {
            let path = self.data.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        }

        /// A task with a session's repository on the mirror `m`; ended at `ended`, if at all.
        async fn task(&self, base: &str, ended: Option<&str>) -> SessionId {
            let session = SessionId::generate(&self.entropy);
            let task = NewTask {
                id: TaskId::generate(&self.entropy),
                turn: TurnId::generate(&self.entropy),
                branch: BranchName::for_session("x", &session),
                session: session.clone(),
                kind: TaskKind::Prompt,
                source: Source::Cli,
                source_url: None,
                prompt: Prompt::new("x").unwrap(),
                agent: "builtin".into(),
                model: None,
                repository: "/".into(),
                base: base.into(),
                settings: Settings::default(),
                budget: Cost::ZERO,
                priority: Priority::Normal,
                after: Vec::new(),
                on_failed_dependency: OnFailedDependency::Hold,
                convoy: None,
                retries: 0,
                caps: Vec::new(),
                extra: None,
                key: None,
                warnings: Vec::new(),
                admission: harvest_store::Admission::default(),
                requested_by: "ada".into(),
                claim_for: None,
                at: "2026-01-01T00:00:00Z".parse().unwrap(),
            };
            let id = task.id.clone();
            self.store.create_tasks(vec![task]).await.unwrap();
            if let Some(ended) = ended {
                self.store.cancel_waiting(&id, ended.parse().unwrap()).await.unwrap().unwrap();
            }
            let objects = self.data.mirrors().join("m.git/objects");
            self.put(
                &format!("sessions/{session}/repository.git/objects/info/alternates"),
                &format!("{}\n", objects.display()),
            );
            session
        }

        async fn collect(&self, retention: Retention) -> Vec<(Kind, String)> {
            // Long after everything on disk was made, as far as its age goes.
            let later = At(Timestamp::now().saturating_add(365 * DAY).unwrap());
            let collected = retention.collect(&self.data, &self.store, &later).await.unwrap();
            assert_eq!(collected.failed, Vec::<String>::new());
            assert!(collected.removed.iter().all(|item| item.path.exists() == retention.dry_run && item.bytes > 0));
            collected
                .removed
                .iter()
                .map(|item| (item.kind, item.path.file_name().unwrap().to_string_lossy().into_owned()))
                .collect()
        }
    }

    const KEEP: Retention = Retention { older_than: DAY, most_bytes: None, unpublished: false, dry_run: false };

    #[tokio::test]
    async fn what_unfinished_tasks_need_stays() {
        let world = World::new();
        world.put("mirrors/m.git/refs/bases/b1", "b1");
        world.put("snapshots/m/b1/file", "x");
        world.put("snapshots/m/b2/file", "x");
        let ended = world.task("b2", Some("2026-01-02T00:00:00Z")).await;
        let waiting = world.task("b1", None).await;
        let expected = vec![(Kind::Session, ended.to_string()), (Kind::Snapshot, "b2".to_owned())];
        assert_eq!(world.collect(Retention { dry_run: true, ..KEEP }).await, expected);
        assert_eq!(world.collect(KEEP).await, expected);
        assert_eq!(world.collect(KEEP).await, []);
        assert!(world.data.session_repository(&waiting).exists() && world.data.mirrors().join("m.git").exists());
    }

    #[tokio::test]
    async fn beyond_a_size_the_oldest_young_ones_go() {
        let world = World::new();
        world.put("mirrors/m.git/refs/bases/b1", "b1");
        let (first, second) = ("2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z");
        let newer = world.task("b1", Some(second)).await;
        let older = world.task("b1", Some(first)).await;
        for session in [&newer, &older] {
            world.put(&format!("sessions/{session}/repository.git/pack"), &"x".repeat(1 << 20));
        }
        let keep = Retention { older_than: 3650 * DAY, ..KEEP };
        assert_eq!(world.collect(keep).await, []);
        let room_for_one = Retention { most_bytes: Some(3 << 19), ..keep };
        assert_eq!(world.collect(room_for_one).await, [(Kind::Session, older.to_string())]);
        assert_eq!(world.collect(room_for_one).await, []);
        assert!(world.data.session_repository(&newer).exists());
    }

    /// Whatever its size: it exists nowhere else.
    #[tokio::test]
    async fn beyond_a_size_unpublished_work_stays() {
        let world = World::new();
        world.put("mirrors/m.git/refs/bases/b1", "b1");
        let (unpublished, published) = (world.task("b1", None).await, world.task("b1", None).await);
        let owner = OwnerId::generate(&world.entropy);
        for session in [&unpublished, &published] {
            let claim = Claim {
                owner: owner.clone(),
                turn: None,
                most: 1,
                warm: Vec::new(),
                at: "2027-01-01T00:00:00Z".parse().unwrap(),
                until: None,
            };
            let lease = world.store.claim(claim).await.unwrap().remove(0);
            assert_eq!(lease.session, *session);
            let mut events = vec![EventBody::CheckpointCreated { number: 1, commit: "c1".into() }];
            if session == &published {
                let branch = BranchName::for_session("x", session);
                events.push(EventBody::BranchDelivered { branch, commit: "c1".into() });
            }
            let at = "2027-01-01T00:00:00Z".parse().unwrap();
            world.store.append(&lease, Step::new(at, events)).await.unwrap();
            world.store.release(&owner, at).await.unwrap();
            world.store.cancel_waiting(&lease.task, at).await.unwrap().unwrap();
            world.put(&format!("sessions/{session}/repository.git/pack"), &"x".repeat(1 << 20));
        }
        let no_room = Retention { older_than: 3650 * DAY, most_bytes: Some(0), ..KEEP };
        assert_eq!(world.collect(no_room).await, [(Kind::Session, published.to_string())]);
        assert!(world.data.session_repository(&unpublished).exists());
        let all = world.collect(Retention { unpublished: true, ..no_room }).await;
        assert_eq!(all[0], (Kind::Session, unpublished.to_string()));
    }

    #[test]
    fn what_was_pushed_is_published_and_what_came_after_is_not() {
        let session = "0000000000000001".parse().unwrap();
        let work = || EventBody::CommitCreated { commit: "c1".into(), subject: "x".into() };
        let branch =
            || EventBody::BranchDelivered { branch: BranchName::for_session("x", &session), commit: "c1".into() };
        let pull = || EventBody::PullRequestDelivered { number: 1, url: "https://x/pull/1".into(), draft: false };
        let url = "https://github.com/ada/shop";
        for (repository, told, expected) in [
            (url, vec![], true),
            (url, vec![work()], false),
            (url, vec![work(), branch()], false),
            (url, vec![work(), branch(), pull()], true),
            (url, vec![work(), branch(), pull(), work()], false),
            ("/", vec![work()], false),
            ("/", vec![work(), branch()], true),
        ] {
            assert_eq!(is_published(repository, &journal(told.clone())), expected, "{repository}: {told:?}");
        }
    }

    #[tokio::test]
    async fn a_mirror_stays_while_a_session_stands_on_it() {
        let world = World::new();
        world.put("mirrors/m.git/refs/bases/b1", "b1");
        world.put("mirrors/unused.git/packed-refs", "");
        let now = Timestamp::now();
        let young = world.task("b1", Some(&now.saturating_add(364 * DAY + DAY / 2).unwrap().to_string())).await;
        assert_eq!(world.collect(KEEP).await, [(Kind::Mirror, "unused.git".to_owned())]);
        let all = world.collect(Retention { older_than: DAY / 4, ..KEEP }).await;
        assert_eq!(all, [(Kind::Session, young.to_string()), (Kind::Mirror, "m.git".to_owned())]);
    }

    #[tokio::test]
    async fn a_snapshot_in_use_stays() {
        let world = World::new();
        world.put("snapshots/m/b1/file", "x");
        let lock = File::create(world.data.snapshots().join("m/b1.lock")).unwrap();
        lock.lock_shared().unwrap();
        assert_eq!(world.collect(KEEP).await, []);
        drop(lock);
        assert_eq!(world.collect(KEEP).await, [(Kind::Snapshot, "b1".to_owned())]);
    }

    #[tokio::test]
    async fn only_workspaces_that_nobody_recorded_go() {
        let world = World::new();
        let (known, unknown) = (SandboxId::generate(&world.entropy), SandboxId::generate(&world.entropy));
        for id in [known.as_str(), unknown.as_str(), "something-else"] {
            world.put(&format!("workspaces/{id}/file"), "x");
        }
        let record = SandboxRecord {
            id: known,
            owner: OwnerId::generate(&world.entropy),
            session: SessionId::generate(&world.entropy),
            purpose: SandboxPurpose::Execute,
            provider: "none".into(),
        };
        world.store.record_sandbox(record).await.unwrap();
        assert_eq!(world.collect(KEEP).await, [(Kind::Workspace, unknown.to_string())]);
    }
}
