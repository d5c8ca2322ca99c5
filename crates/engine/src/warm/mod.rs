//! Sandboxes made before anyone asks for them, each used once.
//!
//! A spare stands on the snapshot its task will want, with everything done that does not depend on the task: the checkout at
//! its base, processes held, and an agent that can wait for its prompt already waiting. It belongs to no session, so it has no
//! gateway: whatever runs in it reaches nothing until it is claimed. What is kept ready follows the queue, whose next tasks are
//! known, and then whoever has lately been asking.

mod claim;
mod demand;
mod key;
mod seed;
mod shelf;
mod spare;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use harvest_core::{OwnerId, SandboxPurpose, Task};
use harvest_store::TaskQuery;
use harvest_workspace::Mirror;
use tokio::time::Instant;

use crate::error::chain;
use crate::{Engine, Error, Stop, guard};
use demand::Demand;
use key::Key;
use seed::Seed;
pub(crate) use shelf::Shelf;
pub use shelf::Stats;
use spare::Spare;

/// A spare is kept this long after the task it was made for has left the queue, which then claims it.
const CLAIMING: Duration = Duration::from_secs(3);
/// A spare that nobody wanted for this long goes.
const IDLE: Duration = Duration::from_secs(10 * 60);
/// Snapshots that another process built are noticed after this long at most.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// The queue changes with every task; it is not read again for each.
const SETTLE: Duration = Duration::from_millis(20);
/// How many earlier tasks tell, at the start, what may be wanted.
const REMEMBERED: usize = 50;
const MIRRORS: usize = 64;

#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Spares at a time; `None`: as many as agents. With 0 there are none.
    pub most: Option<usize>,
    pub agents: Option<usize>,
    /// Also for those who have lately been asking, not only for tasks that wait.
    pub expect_more: bool,
}

/// Keeps spares beside a [`Pool`](crate::Pool).
#[derive(Debug)]
pub struct Warm {
    engine: Engine,
    owner: OwnerId,
    most: usize,
    expect_more: bool,
    mirrors: Mutex<HashMap<String, Mirror>>,
}

/// A spare that should be there.
struct Wanted {
    seed: Seed,
    key: Key,
    /// A task in the queue wants it. Otherwise one is expected to come.
    waits: bool,
}

impl Warm {
    pub fn new(engine: Engine, owner: OwnerId, options: Options) -> Self {
        let agents = || options.agents.unwrap_or_else(guard::fitting_agents);
        // Without isolation a sandbox is made of nothing that would take time.
        let is_worth_it = engine.options.provider.capabilities().isolated;
        let most = if is_worth_it { options.most.unwrap_or_else(agents) } else { 0 };
        Self { engine, owner, most, expect_more: options.expect_more, mirrors: Mutex::default() }
    }

    /// Until `stop`; then every spare is removed.
    pub async fn run(self, stop: Stop) {
        if self.most == 0 {
            return;
        }
        let shelf = &self.engine.warm;
        shelf.open();
        if self.expect_more {
            self.remember().await;
        }
        let mut queue = self.engine.store().watch_queue();
        while !stop.is_requested() {
            queue.mark_unchanged();
            let next = match self.round(&stop).await {
                Ok(next) => next,
                Err(error) => {
                    // Whoever finds no spare makes a sandbox and meets the same trouble, in a turn that can tell of it.
                    tracing::warn!(error = %chain(&error), "no spare sandbox could be made");
                    Instant::now() + LONGEST_SLEEP
                }
            };
            tokio::select! {
                () = stop.requested() => {}
                () = shelf.changed() => {}
                () = tokio::time::sleep_until(next) => {}
                Ok(()) = queue.changed() => tokio::time::sleep(SETTLE).await,
            }
        }
        if let Err(error) = self.drain().await {
            tracing::warn!(error = %chain(&error), "spare sandboxes are left to the next process");
        }
    }

    /// Removes what is of no use any more, makes what is wanted, and says when to look again.
    async fn round(&self, stop: &Stop) -> Result<Instant, Error> {
        let shelf = &self.engine.warm;
        // Where room is short, spares are the first to go.
        let idle = if self.has_room() { IDLE } else { Duration::ZERO };
        for spare in shelf.take_stale(idle) {
            spare.remove(&self.engine).await?;
        }
        let mut there = shelf.seeds();
        let mut missing = Vec::new();
        for Wanted { seed, key, waits } in self.wanted().await? {
            match there.iter().position(|(_, known)| *known == key) {
                Some(position) => {
                    shelf.promise(&key, waits);
                    there.swap_remove(position);
                }
                None => missing.push((seed, waits)),
            }
        }
        let mut unwanted = Vec::new();
        for (seed, key) in there {
            if shelf.is_about_to_be_claimed(&key) {
                continue;
            }
            if self.key(&self.on_newest(seed).await).await.as_ref() == Some(&key) {
                unwanted.push(key);
            } else if let Some(spare) = shelf.take(&key) {
                spare.remove(&self.engine).await?;
            }
        }
        for (seed, waits) in missing {
            if stop.is_requested() || !self.has_room() {
                break;
            }
            if shelf.seeds().len() >= self.most {
                let Some(spare) = unwanted.pop().and_then(|key| shelf.take(&key)) else {
                    return Ok(Instant::now() + CLAIMING);
                };
                spare.remove(&self.engine).await?;
            }
            let begun = Instant::now();
            let mut spare = Spare::make(&self.engine, &self.owner, seed, IDLE).await?;
            spare.promised = waits;
            shelf.put(spare, begun.elapsed());
        }
        let latest = Instant::now() + LONGEST_SLEEP;
        Ok(shelf.earliest(IDLE).map_or(latest, |earliest| earliest.min(latest)))
    }

    fn has_room(&self) -> bool {
        guard::refuse(self.engine.options.data.path()).is_none()
    }

    /// What should be there, the likeliest first.
    async fn wanted(&self) -> Result<Vec<Wanted>, Error> {
        let mut seeds = self.waiting().await?;
        let waiting = seeds.len();
        if self.expect_more {
            let expected = self.engine.warm.expected();
            for (seed, count) in expected {
                let seed = self.on_newest(seed).await;
                seeds.extend(std::iter::repeat_n(seed, count));
            }
        }
        seeds.truncate(self.most);
        let mut wanted = Vec::new();
        for (number, seed) in seeds.into_iter().enumerate() {
            wanted.extend(self.key(&seed).await.map(|key| Wanted { seed, key, waits: number < waiting }));
        }
        Ok(wanted)
    }

    /// The tasks that will be claimed next, in the order of the queue.
    async fn waiting(&self) -> Result<Vec<Seed>, Error> {
        let store = self.engine.store();
        let mut seeds = Vec::new();
        for id in store.upcoming(self.most).await? {
            // It may be gone by now.
            if let Ok(detail) = store.task(&id).await {
                seeds.extend(self.seed(&detail.task).await);
            }
        }
        Ok(seeds)
    }

    /// Who was asking before this process began.
    async fn remember(&self) {
        let query = TaskQuery { limit: REMEMBERED, ..TaskQuery::default() };
        let Ok(page) = self.engine.store().tasks(query).await else { return };
        let now = self.engine.options.clock.now();
        for task in page.items.iter().rev() {
            let Ok(age) = Duration::try_from(now.duration_since(task.created_at)) else { continue };
            if age < demand::RECENT
                && let Some(seed) = self.seed(task).await
            {
                self.engine.warm.expect(seed, age);
            }
        }
    }

    /// `None` when what it works on is not to be had; its turn will say why.
    async fn seed(&self, task: &Task) -> Option<Seed> {
        let mirror = match self.known_mirror(&task.repository) {
            Some(mirror) if mirror.has(&task.base).await => mirror,
            _ => {
                let (_, mirror) = self.engine.mirror_of(task).await.ok()?;
                let mut mirrors = self.mirrors.lock().unwrap_or_else(PoisonError::into_inner);
                if mirrors.len() >= MIRRORS {
                    mirrors.clear();
                }
                mirrors.insert(task.repository.clone(), mirror.clone());
                mirror
            }
        };
        self.engine.seed(task, &mirror)
    }

    fn known_mirror(&self, repository: &str) -> Option<Mirror> {
        self.mirrors.lock().unwrap_or_else(PoisonError::into_inner).get(repository).cloned()
    }

    /// Who asks again will most likely ask for the newest state, which is that of the newest snapshot.
    async fn on_newest(&self, mut seed: Seed) -> Seed {
        for manifest in self.engine.prepared.manifests(seed.mirror.key()) {
            if manifest.commit != seed.base && seed.mirror.is_ancestor(&seed.base, &manifest.commit).await {
                seed.base = manifest.commit;
            }
        }
        seed
    }

    /// `None` without a snapshot, as when the commit is gone: one repository's trouble is not that of the others.
    async fn key(&self, seed: &Seed) -> Option<Key> {
        match self.engine.snapshot_for(&seed.mirror, &seed.base).await {
            Ok((snapshot, _)) => Some(Key::of(&self.engine, seed, &snapshot)),
            Err(error) => {
                tracing::debug!(error = %chain(&error), "no snapshot for a spare sandbox");
                None
            }
        }
    }

    async fn drain(&self) -> Result<(), Error> {
        for spare in self.engine.warm.close() {
            spare.remove(&self.engine).await?;
        }
        // Claimed by a turn that was given up in the same moment.
        for record in self.engine.store().sandboxes().await? {
            if record.owner == self.owner && record.purpose == SandboxPurpose::Warm {
                self.engine.remove_sandbox(&record.id).await?;
            }
        }
        Ok(())
    }
}

impl Engine {
    /// How often a sandbox was there before it was asked for.
    pub fn warm_stats(&self) -> Stats {
        self.warm.stats()
    }

    /// Something was built or ended that changes what is wanted.
    pub(crate) fn reconsider_spares(&self) {
        self.warm.reconsider();
    }
}
