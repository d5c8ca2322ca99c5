//! How many turns are claimed and finished a second, and whether any is handed out twice.
//!
//! ```text
//! claims --store sqlite:PATH|postgres:URL [--turns 100000] [--processes 4] [--workers 64] [--queued 0]
//! ```
//! Makes the turns, then starts the processes. Each has one claimer that takes batches for its idle workers, as the engine
//! does; a worker finishes its turn with one step. `--queued` makes that many more turns which stay in the queue, so that the
//! cost can be compared for short and long queues. The database should be new.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use harvest_core::{
    BranchName, Cost, Entropy, EventBody, FailureReason, Move, OnFailedDependency, Outcome, OwnerId, Priority, Prompt,
    SessionId, Settings, Source, TaskId, TaskKind, TaskStatus, Timestamp, TurnId,
};
use harvest_store::{Claim, Lease, NewTask, Postgres, Sqlite, Step, Store};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const BATCH: usize = 5_000;
/// An empty answer may only mean that others are taking the rest.
const EMPTY_ANSWERS: usize = 10;

struct Options {
    store: String,
    turns: usize,
    queued: usize,
    processes: usize,
    workers: usize,
    /// One of the processes that work: the number it was given.
    process: Option<u64>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = options(std::env::args().skip(1))?;
    match options.process {
        Some(process) => work(&options, process).await,
        None => measure(&options).await,
    }
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options> {
    let mut options =
        Options { store: String::new(), turns: 100_000, queued: 0, processes: 4, workers: 64, process: None };
    while let Some(name) = words.next() {
        let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--store" => options.store = value,
            "--turns" => options.turns = value.parse()?,
            "--queued" => options.queued = value.parse()?,
            "--processes" => options.processes = value.parse()?,
            "--workers" => options.workers = value.parse()?,
            "--process" => options.process = Some(value.parse()?),
            _ => return Err(format!("there is no option {name}").into()),
        }
    }
    if options.store.is_empty() {
        return Err("--store sqlite:PATH or --store postgres:URL is missing".into());
    }
    Ok(options)
}

async fn open(store: &str) -> Result<Arc<dyn Store>> {
    match store.split_once(':') {
        Some(("sqlite", path)) => Ok(Arc::new(Sqlite::open(path.as_ref())?)),
        Some(("postgres", url)) => Ok(Arc::new(Postgres::connect(url).await?)),
        _ => Err(format!("{store} is neither sqlite:PATH nor postgres:URL").into()),
    }
}

async fn measure(options: &Options) -> Result<()> {
    let store = open(&options.store).await?;
    let ids = Ids { process: u64::MAX, next: AtomicU64::new(0) };
    let begun = Instant::now();
    let total = options.turns + options.queued;
    for first in (0..total).step_by(BATCH) {
        let new = (first..total.min(first + BATCH)).map(|_| new_task(&ids)).collect::<Result<Vec<_>>>()?;
        store.create_tasks(new).await?;
    }
    let made = begun.elapsed();
    let mut children = (0..options.processes).map(|number| start(options, number)).collect::<Result<Vec<_>>>()?;
    let begun = Instant::now();
    for (child, _) in &mut children {
        child.stdin.as_mut().ok_or("no input")?.write_all(b"go\n")?;
    }
    let mut claimed: HashMap<String, u32> = HashMap::new();
    let mut took = Duration::ZERO;
    for (child, lines) in &mut children {
        for line in lines.by_ref() {
            let line = line?;
            if line == "done" {
                took = took.max(begun.elapsed());
            } else {
                *claimed.entry(line).or_default() += 1;
            }
        }
        child.wait()?;
    }
    let doubled = claimed.values().filter(|times| **times > 1).count();
    let rate = claimed.len() as f64 / took.as_secs_f64();
    println!(
        "{:.0} claims and finishes a second: {} turns in {:.2} s, {} processes, {} workers, {} more queued; {doubled} doubled; made at {:.0}/s",
        rate,
        claimed.len(),
        took.as_secs_f64(),
        options.processes,
        options.workers,
        options.queued,
        total as f64 / made.as_secs_f64(),
    );
    if doubled > 0 || claimed.len() != options.turns {
        return Err(format!("{} of {} turns, {doubled} doubled", claimed.len(), options.turns).into());
    }
    Ok(())
}

type Lines = std::io::Lines<BufReader<std::process::ChildStdout>>;

/// Starts a process and waits until it is connected.
#[expect(clippy::disallowed_methods, reason = "starts this very program")]
fn start(options: &Options, number: usize) -> Result<(Child, Lines)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--store", &options.store])
        .args([
            "--turns",
            &(options.turns / options.processes + usize::from(number < options.turns % options.processes)).to_string(),
        ])
        .args(["--workers", &options.workers.div_ceil(options.processes).to_string()])
        .args(["--process", &number.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    match lines.next() {
        Some(Ok(ready)) if ready == "ready" => Ok((child, lines)),
        other => Err(format!("a process did not start: {other:?}").into()),
    }
}

/// One process: claims for its idle workers until its share is done.
async fn work(options: &Options, process: u64) -> Result<()> {
    let store = open(&options.store).await?;
    let owner = OwnerId::generate(&Ids { process, next: AtomicU64::new(1 << 40) });
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    let idle = Arc::new(Semaphore::new(options.workers));
    let (mut running, mut turns, mut empty) = (JoinSet::new(), Vec::new(), 0);
    while turns.len() < options.turns && empty < EMPTY_ANSWERS {
        let first = idle.clone().acquire_owned().await?;
        // Workers get free in groups: as long as more do, the claim waits for them.
        let mut free = 0;
        while idle.available_permits() > free {
            free = idle.available_permits();
            tokio::task::yield_now().await;
        }
        let most = (1 + idle.available_permits()).min(options.turns - turns.len());
        let claim =
            Claim { owner: owner.clone(), turn: None, most, warm: Vec::new(), at: at(), until: Some(Timestamp::MAX) };
        let leases = store.claim(claim).await?;
        drop(first);
        empty = if leases.is_empty() { empty + 1 } else { 0 };
        if leases.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for lease in leases {
            turns.push(lease.turn.clone());
            let (store, busy) = (store.clone(), idle.clone().acquire_owned().await?);
            running.spawn(async move {
                let done = store.append(&lease, finish(&lease)).await;
                drop(busy);
                done
            });
        }
        while let Some(done) = running.try_join_next() {
            done??;
        }
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    println!("done");
    let mut out = std::io::stdout().lock();
    turns.iter().try_for_each(|turn| writeln!(out, "{turn}"))?;
    Ok(())
}

/// The shortest end: one step from claimed to over, with the events of a real one.
fn finish(lease: &Lease) -> Step {
    let outcome = Outcome {
        task_id: lease.task.clone(),
        session_id: lease.session.clone(),
        status: TaskStatus::Failed,
        reason: Some(FailureReason::Agent),
        error: Some("measured".into()),
        branch: None,
        commit: "c".repeat(40),
        base: "b".repeat(40),
        evidence: None,
        usage: Default::default(),
        cost_usd: Cost::ZERO,
    };
    let events = vec![
        EventBody::TurnFinished { turn_id: lease.turn.clone(), reason: outcome.reason },
        EventBody::TaskFinished(outcome.clone()),
    ];
    Step::new(at(), events).moving(Move::Fail).ending(outcome)
}

#[derive(Debug)]
struct Ids {
    process: u64,
    next: AtomicU64,
}

impl Entropy for Ids {
    fn bytes(&self) -> [u8; 10] {
        let mixed = self.next.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&mixed.to_be_bytes());
        bytes[8..].copy_from_slice(&(self.process as u16).to_be_bytes());
        bytes
    }
}

fn at() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn new_task(ids: &Ids) -> Result<NewTask> {
    let session = SessionId::generate(ids);
    Ok(NewTask {
        id: TaskId::generate(ids),
        turn: TurnId::generate(ids),
        branch: BranchName::for_session("measure", &session),
        session,
        kind: TaskKind::Prompt,
        source: Source::Cli,
        source_url: None,
        prompt: Prompt::new("Update the dependencies and make the tests pass")?,
        agent: "builtin".into(),
        model: None,
        repository: "/srv/orchard".into(),
        base: "b".repeat(40),
        settings: Settings::default(),
        budget: Cost::ZERO,
        priority: Priority::Normal,
        after: Vec::new(),
        on_failed_dependency: OnFailedDependency::Hold,
        convoy: None,
        retries: 0,
        claim_for: None,
        caps: Vec::new(),
        extra: None,
        key: None,
        warnings: Vec::new(),
        requested_by: "ada".into(),
        admission: harvest_store::Admission::default(),
        at: at(),
    })
}
