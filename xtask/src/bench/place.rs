//! Where the measuring happens: a temporary folder on a real disk, ids, sessions in a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use harvest_core::{
    BranchName, Clock, Cost, Entropy, OnFailedDependency, OwnerId, Priority, Prompt, SandboxId, SessionId, Settings,
    Source, TaskId, TaskKind, Timestamp, TurnId,
};
use harvest_engine::meter::{TurnMeter, World};
use harvest_sandbox::{Binaries, local};
use harvest_store::{Lease, NewTask, Sqlite, Store};
use harvest_vault::Redactor;

/// A million dollars: more than anything here spends.
pub const BUDGET: Cost = Cost::from_nanos(1_000_000_000_000_000);

#[derive(Debug)]
pub struct Place {
    folder: tempfile::TempDir,
}

#[derive(Debug)]
struct Random;

impl Entropy for Random {
    fn bytes(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        // Ids that repeat are refused by whoever is given them.
        let _ = getrandom::fill(&mut bytes);
        bytes
    }
}

#[derive(Debug)]
struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

impl Place {
    pub fn new() -> anyhow::Result<Self> {
        // In many installations /tmp is memory, where neither syncing nor reading costs anything.
        let builder = || tempfile::Builder::new().prefix("harvest-bench-").to_owned();
        let folder = builder().tempdir_in("/var/tmp").or_else(|_| builder().tempdir())?;
        Ok(Self { folder })
    }

    /// A folder in it, made if it is not there.
    pub fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }

    /// What the figures depend on. Looks on for a second.
    pub async fn machine(&self) -> String {
        let ticks = || std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let before = ticks();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let busy = busy_share(&before, &ticks()) * 100.0;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let disk = file_system(&mounts, self.folder.path()).unwrap_or("an unknown file system");
        format!("{cores} cores, {busy:.0} % busy with other things, {disk}")
    }

    pub fn sandboxes(&self, name: &str) -> anyhow::Result<local::Local> {
        let folder = self.folder(name)?;
        let binaries = harvest_sandboxed::write_to(&folder.join("bin"))?;
        let options = local::Options {
            state: folder.join("state"),
            runtime: folder.join("run"),
            binaries: Binaries::in_folder(binaries),
            tools: Vec::new(),
        };
        local::Local::new(options).context("no sandbox can be made here")
    }

    pub fn store(&self, name: &str) -> anyhow::Result<Sqlite> {
        Sqlite::open(&self.folder(name)?.join("harvest.db")).context("the store cannot be opened")
    }
}

pub fn sandbox_id() -> SandboxId {
    SandboxId::generate(&Random)
}

/// A session that someone has begun to work on.
pub async fn claimed_session(store: &Sqlite) -> anyhow::Result<Lease> {
    claimed_by(store, OwnerId::generate(&Random)).await
}

/// The books of such a session as the engine keeps them, and its task.
pub async fn claimed_meter(store: &Sqlite) -> anyhow::Result<(TurnMeter, TaskId)> {
    let owner = OwnerId::generate(&Random);
    let lease = claimed_by(store, owner.clone()).await?;
    let id = lease.task.clone();
    let task = store.task(&id).await?.task;
    let world =
        World { redactor: Arc::new(Redactor::new([])?), clock: Arc::new(SystemClock), entropy: Arc::new(Random) };
    Ok((TurnMeter::alone(Arc::new(store.clone()), owner, lease, &task, &world), id))
}

async fn claimed_by(store: &Sqlite, owner: OwnerId) -> anyhow::Result<Lease> {
    let new = NewTask { claim_for: Some(owner), ..new_task()? };
    let submitted = store.create_tasks(vec![new]).await?;
    submitted.into_iter().find_map(|one| one.lease).context("the turn was not claimed as it was made")
}

/// A task that waits for someone to work on it.
pub fn new_task() -> anyhow::Result<NewTask> {
    let session = SessionId::generate(&Random);
    Ok(NewTask {
        id: TaskId::generate(&Random),
        branch: BranchName::for_session("measure", &session),
        session,
        turn: TurnId::generate(&Random),
        kind: TaskKind::Prompt,
        source: Source::Cli,
        source_url: None,
        prompt: Prompt::new("Measure it.")?,
        agent: "builtin".to_owned(),
        model: None,
        repository: "/nowhere".to_owned(),
        base: "0".repeat(40),
        settings: Settings { provider: Some("anthropic".to_owned()), ..Settings::default() },
        budget: BUDGET,
        priority: Priority::Normal,
        after: Vec::new(),
        on_failed_dependency: OnFailedDependency::Hold,
        convoy: None,
        retries: 0,
        claim_for: None,
        caps: Vec::new(),
        admission: harvest_store::Admission::default(),
        extra: None,
        key: None,
        warnings: Vec::new(),
        requested_by: "bench".to_owned(),
        at: Timestamp::now(),
    })
}

/// How much of its time the processor spent on something between two looks at `/proc/stat`.
fn busy_share(before: &str, after: &str) -> f64 {
    let times = |stat: &str| -> (f64, f64) {
        let all: Vec<f64> =
            stat.lines().next().unwrap_or_default().split(' ').filter_map(|time| time.parse().ok()).collect();
        // Idle, and idle while waiting for a disk.
        (all.iter().sum(), all.iter().skip(3).take(2).sum())
    };
    let ((all, idle), (all_after, idle_after)) = (times(before), times(after));
    if all_after > all { 1.0 - (idle_after - idle) / (all_after - all) } else { 0.0 }
}

/// The type of the file system that `path` lies on.
fn file_system<'a>(mountinfo: &'a str, path: &Path) -> Option<&'a str> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        Some((Path::new(place.split(' ').nth(4)?), kind.split(' ').next()?))
    });
    // Of mounts at the same place the last one is on top.
    mounts.filter(|(at, _)| path.starts_with(at)).max_by_key(|(at, _)| at.components().count()).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_are_not_busy() {
        let share = busy_share("cpu  10 0 10 100 20 0 0\ncpu0 1", "cpu  25 0 20 150 45 0 0\ncpu0 1");
        assert_eq!(share, 0.25);
        assert_eq!(busy_share("", ""), 0.0);
    }

    #[test]
    fn the_file_system_is_that_of_the_deepest_mount() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/x rw\n2 1 0:5 / /tmp rw shared:1 - tmpfs tmpfs rw\n";
        assert_eq!(file_system(mounts, Path::new("/var/tmp/x")), Some("ext4"));
        assert_eq!(file_system(mounts, Path::new("/tmp/x")), Some("tmpfs"));
        assert_eq!(file_system("", Path::new("/tmp/x")), None);
    }
}
