//! How the work of this process goes, in numbers: what monitoring asks for. Whatever is counted here was journaled before, so
//! the numbers and the journals tell the same story.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use harvest_core::{CallId, Cost, EventBody, SandboxPurpose};
use harvest_store::{End, Reservation, Step};

/// Calls that are timed at once; more are not timed.
const MOST_CALLS: usize = 10_000;

#[derive(Debug, Default)]
pub struct Vitals {
    /// By purpose, and whether it had been made before.
    sandboxes: Mutex<BTreeMap<(&'static str, bool), Histogram>>,
    /// By vendor.
    models: Mutex<BTreeMap<String, Histogram>>,
    /// By status and reason.
    ended: Mutex<BTreeMap<(String, String), u64>>,
    troubles: AtomicU64,
    cost_nanos: AtomicU64,
    /// What calls of this process came to, from when each was settled in memory.
    paid_nanos: AtomicU64,
    retries: AtomicU64,
    agents: AtomicU64,
    busy: AtomicI64,
    /// Why no work is taken, for the moment.
    holding: Mutex<Option<String>>,
    calls: Mutex<HashMap<CallId, (String, Instant)>>,
}

/// The numbers of one moment.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    pub sandboxes: BTreeMap<(&'static str, bool), Histogram>,
    pub models: BTreeMap<String, Histogram>,
    /// Tasks that ended here, by status and reason.
    pub ended: BTreeMap<(String, String), u64>,
    /// How often a model's host gave trouble.
    pub troubles: u64,
    pub cost_nanos: u64,
    pub retries: u64,
    /// Agents that may work side by side, and those that do.
    pub agents: u64,
    pub busy: u64,
}

/// How often something took how long.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// For each of [`Histogram::BOUNDS`], how many took no longer.
    pub buckets: [u64; Histogram::BOUNDS.len()],
    pub count: u64,
    pub sum: f64,
}

impl Histogram {
    /// In seconds.
    pub const BOUNDS: [f64; 16] =
        [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

    pub fn record(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        for (bucket, bound) in self.buckets.iter_mut().zip(Self::BOUNDS) {
            *bucket += u64::from(seconds <= bound);
        }
        self.count += 1;
        self.sum += seconds;
    }
}

impl Vitals {
    pub fn read(&self) -> Reading {
        Reading {
            sandboxes: lock(&self.sandboxes).clone(),
            models: lock(&self.models).clone(),
            ended: lock(&self.ended).clone(),
            troubles: self.troubles.load(Ordering::Relaxed),
            cost_nanos: self.cost_nanos.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
            agents: self.agents.load(Ordering::Relaxed),
            busy: u64::try_from(self.busy.load(Ordering::Relaxed)).unwrap_or(0),
        }
    }

    /// Why no work is taken here for the moment. The database need not know: it may be the reason.
    pub fn holding(&self) -> Option<String> {
        lock(&self.holding).clone()
    }

    pub(crate) fn held(&self, why: Option<String>) {
        *lock(&self.holding) = why;
    }

    /// A call of this process has cost so much.
    pub(crate) fn paid(&self, cost: Cost) {
        self.paid_nanos.fetch_add(cost.nanos(), Ordering::Relaxed);
    }

    /// What all calls of this process have cost. Calls of dead workers, which others charge, are not among them.
    pub(crate) fn spent(&self) -> Cost {
        Cost::from_nanos(self.paid_nanos.load(Ordering::Relaxed))
    }

    pub(crate) fn sized(&self, agents: usize) {
        self.agents.store(agents as u64, Ordering::Relaxed);
    }

    /// Counted as at work until it is dropped.
    pub(crate) fn at_work(self: &Arc<Self>) -> AtWork {
        self.busy.fetch_add(1, Ordering::Relaxed);
        AtWork(self.clone())
    }

    pub(crate) fn reserved(&self, reservation: &Reservation) {
        let mut calls = lock(&self.calls);
        if calls.len() < MOST_CALLS {
            calls.insert(reservation.call.clone(), (reservation.provider.clone(), Instant::now()));
        }
    }

    /// After it is on disk.
    pub(crate) fn wrote(&self, told: &Told) {
        for (purpose, warm, took) in &told.sandboxes {
            lock(&self.sandboxes).entry((purpose_name(*purpose), *warm)).or_default().record(*took);
        }
        for call in &told.settled {
            let begun = lock(&self.calls).remove(call);
            if let Some((provider, begun)) = begun {
                lock(&self.models).entry(provider).or_default().record(begun.elapsed());
            }
        }
        if let Some(ended) = &told.ended {
            *lock(&self.ended).entry(ended.clone()).or_default() += 1;
        }
        self.troubles.fetch_add(told.troubles, Ordering::Relaxed);
        self.retries.fetch_add(told.retries, Ordering::Relaxed);
        self.cost_nanos.fetch_add(told.cost_nanos, Ordering::Relaxed);
    }
}

/// What a step tells, noted before the step is given away.
#[derive(Debug, Default)]
pub(crate) struct Told {
    sandboxes: Vec<(SandboxPurpose, bool, Duration)>,
    settled: Vec<CallId>,
    ended: Option<(String, String)>,
    troubles: u64,
    retries: u64,
    cost_nanos: u64,
}

impl Told {
    pub(crate) fn by(step: &Step) -> Self {
        let mut told = Self::default();
        for event in &step.events {
            match event {
                EventBody::SandboxReady { purpose, duration_ms, warm, .. } => {
                    told.sandboxes.push((*purpose, *warm, Duration::from_millis(*duration_ms)));
                }
                EventBody::Usage { cost_usd, .. } => told.cost_nanos += cost_usd.nanos(),
                EventBody::ModelTrouble { .. } => told.troubles += 1,
                EventBody::TaskRetried { .. } => told.retries += 1,
                _ => {}
            }
        }
        told.settled = step.settled.iter().map(|settlement| settlement.call.clone()).collect();
        if let Some(End::Finished(outcome)) = &step.end {
            let reason = outcome.reason.map(|reason| reason.to_string()).unwrap_or_default();
            told.ended = Some((outcome.status.to_string(), reason));
        }
        told
    }
}

#[derive(Debug)]
pub(crate) struct AtWork(Arc<Vitals>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

fn purpose_name(purpose: SandboxPurpose) -> &'static str {
    match purpose {
        SandboxPurpose::Execute => "execute",
        SandboxPurpose::Baseline => "baseline",
        SandboxPurpose::Verify => "verify",
        SandboxPurpose::Prepare => "prepare",
        SandboxPurpose::Warm => "warm",
        SandboxPurpose::Mcp => "mcp",
        SandboxPurpose::Opinion => "opinion",
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
