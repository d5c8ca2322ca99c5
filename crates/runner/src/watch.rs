//! Limits that end a process: noticed here, whoever keeps them.
//!
//! Where the kernel keeps a limit it also counts how often it had to, and that is all to look at. Where it does not, the runner
//! measures. Either way a process that went beyond a limit is ended with all its children and with the reason, instead of being
//! left to fail in some way of its own.

use std::cell::{Cell, LazyCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use harvest_link::{Boot, Limit};

use crate::acting::acting_as;
use crate::counter::Counter;
use crate::process;
use crate::registry::{Failure, Process, Registry};
use crate::usage::{self, Census, Disk};

/// How often to look, unless looking takes long.
const PAUSE: Duration = Duration::from_millis(100);
const DISK_PAUSE: Duration = Duration::from_millis(500);
/// A twentieth of a core at most goes into looking.
const SHARE: u32 = 20;
/// After a process was ended for what it wrote, others may write so much more: to bring out or to clear up what is there.
const ROOM: Disk = Disk { bytes: 64 << 20, inodes: 10_000 };
/// Processes outside of our sight that count: the wrapper around the sandbox, and the one that is being started.
const UNSEEN: u64 = 2;

#[derive(Debug)]
pub struct Watch {
    boot: Rc<Boot>,
    /// Processes the kernel killed for lack of memory.
    killed: Option<Counter>,
    /// Processes the kernel refused to start.
    refused: Option<Counter>,
    /// The kernel killed something, and it is not known yet whose it was.
    unexplained: Cell<bool>,
    allowed: Cell<Disk>,
}

impl Watch {
    pub fn new(boot: Rc<Boot>) -> Self {
        let limits = &boot.watch;
        let killed = limits.counters.memory.as_ref().and_then(|path| Counter::open(path, "oom_kill"));
        let refused = limits.counters.processes.as_ref().and_then(|path| Counter::open(path, "max"));
        let allowed = Disk { bytes: limits.disk_bytes.unwrap_or(u64::MAX), inodes: limits.inodes.unwrap_or(u64::MAX) };
        Self { killed, refused, unexplained: Cell::new(false), allowed: Cell::new(allowed), boot }
    }

    /// Looks while something runs, for ever.
    pub async fn run(&self, registry: &Registry) {
        let limits = &self.boot.watch;
        let memory = async {
            if limits.memory_bytes.is_some() || limits.processes.is_some() {
                self.repeat(registry, PAUSE, async |running: &[Rc<Process>]| self.look(running)).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        let disk = async {
            if limits.disk_bytes.is_some() || limits.inodes.is_some() {
                self.repeat(registry, DISK_PAUSE, async |running: &[Rc<Process>]| self.look_at_disk(running).await)
                    .await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::join!(memory, disk);
    }

    async fn repeat(&self, registry: &Registry, pause: Duration, look: impl AsyncFn(&[Rc<Process>])) {
        loop {
            let running = registry.running();
            if running.is_empty() {
                registry.started.notified().await;
                continue;
            }
            let began = Instant::now();
            look(&running).await;
            tokio::time::sleep(pause.max(began.elapsed() * SHARE)).await;
        }
    }

    fn look(&self, running: &[Rc<Process>]) {
        if running.iter().any(|process| process.failure.borrow().is_some()) {
            // Until it is gone, it is the likeliest to go on as it did.
            return self.settle();
        }
        let _acting = acting_as(self.boot.identity);
        let census = LazyCell::new(Census::take);
        let too_much_memory = match (&self.killed, self.boot.watch.memory_bytes) {
            (_, None) => false,
            (Some(killed), Some(_)) => self.is_unexplained(killed, running.len() == 1),
            (None, Some(limit)) => exceeds(&census, running, limit),
        };
        if too_much_memory {
            self.end_largest(running, |process| size(&census, process), self.too_much_memory());
        }
        let too_many_processes = match (&self.refused, self.boot.watch.processes) {
            (_, None) => false,
            (Some(refused), Some(_)) => refused.take(),
            (None, Some(limit)) => census.threads() + UNSEEN >= limit,
        };
        if too_many_processes {
            let threads = |process: &Process| process.pid.get().map_or(0, |pid| census.below(pid).threads());
            self.end_largest(running, threads, self.too_many_processes());
        }
    }

    /// Whether the kernel killed something and no process that ended in the meantime explains it. What it killed may well have
    /// been the largest, so that whoever is the largest now had nothing to do with it.
    fn is_unexplained(&self, killed: &Counter, alone: bool) -> bool {
        self.unexplained.take() || {
            let now = killed.take();
            self.unexplained.set(now && !alone);
            now && alone
        }
    }

    fn end_largest(&self, running: &[Rc<Process>], size: impl Fn(&Process) -> u64, failure: Failure) {
        // The first of several that are equal: the oldest.
        let largest = running.iter().rev().max_by_key(|process| size(process));
        if let Some(process) = largest {
            process::end(&self.boot, process, failure);
        }
    }

    async fn look_at_disk(&self, running: &[Rc<Process>]) {
        let allowed = self.allowed.get();
        let mut used = usage::disk(&self.boot.watch.folders, allowed).await;
        let devices: Vec<u64> =
            self.boot.roots().filter_map(|path| Some(rustix::fs::stat(path).ok()?.st_dev)).collect();
        {
            let _acting = acting_as(self.boot.identity);
            used.bytes += Census::take().nameless(&devices);
        }
        let watch = &self.boot.watch;
        let failure = if used.bytes > allowed.bytes {
            let limit = words(watch.disk_bytes.unwrap_or_default());
            Failure::of(Limit::Disk, format!("it wrote more than {limit} to disk and was ended"))
        } else if used.inodes > allowed.inodes {
            let limit = watch.inodes.unwrap_or_default();
            Failure::of(Limit::Inodes, format!("it made more than {limit} files and folders and was ended"))
        } else {
            return;
        };
        self.allowed.set(Disk {
            bytes: allowed.bytes.max(used.bytes.saturating_add(ROOM.bytes)),
            inodes: allowed.inodes.max(used.inodes.saturating_add(ROOM.inodes)),
        });
        self.end_largest(running, |_| 0, failure);
    }

    /// What was counted so far is explained: the one who did it was ended.
    pub fn settle(&self) {
        self.unexplained.set(false);
        for counter in [&self.killed, &self.refused].into_iter().flatten() {
            counter.take();
        }
    }

    /// Why a process has ended, when that was for a limit and no one has looked since. `alone`: nothing else is running.
    pub fn explain(&self, signal: Option<i32>, alone: bool) -> Option<Failure> {
        match signal {
            Some(libc::SIGXFSZ) => {
                let limit = words(self.boot.watch.disk_bytes.unwrap_or_default());
                return Some(Failure::of(Limit::Disk, format!("it wrote a file of more than {limit} and was ended")));
            }
            Some(libc::SIGKILL) => {}
            _ if alone => {}
            _ => return None,
        }
        let killed = self.unexplained.take() | self.killed.as_ref().is_some_and(Counter::take);
        killed.then(|| self.too_much_memory())
    }

    fn too_much_memory(&self) -> Failure {
        let limit = words(self.boot.watch.memory_bytes.unwrap_or_default());
        Failure::of(Limit::Memory, format!("it used more than {limit} of memory and was ended"))
    }

    fn too_many_processes(&self) -> Failure {
        let limit = self.boot.watch.processes.unwrap_or_default();
        Failure::of(Limit::Processes, format!("it ran {limit} processes and threads at once and was ended"))
    }
}

fn size(census: &Census, process: &Process) -> u64 {
    process.pid.get().map_or(0, |pid| {
        let family = census.below(pid);
        family.resident() + family.scratch()
    })
}

/// The cheap measure first, which never tells too little.
fn exceeds(census: &Census, running: &[Rc<Process>], limit: u64) -> bool {
    let scratch: u64 = running.iter().filter_map(|process| Some(census.below(process.pid.get()?).scratch())).sum();
    census.resident() + scratch > limit && census.proportional() + scratch > limit
}

/// The way a person would have written it.
fn words(bytes: u64) -> String {
    match bytes {
        0 => "0 bytes".to_owned(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ => format!("{bytes} bytes"),
    }
}
