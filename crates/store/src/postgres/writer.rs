//! Steps that arrive at the same time share one call and one sync of the disk. One task owns the connection, takes every
//! step that is waiting, writes them together and answers each by itself.

use std::collections::HashSet;
use std::error::Error as _;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::connection::{Address, Connection};
use super::ledger;
use super::step::{Appended, Prepared, append};
use super::tell::Teller;
use crate::Error;
use crate::contract::{Lease, Step};

const QUEUE: usize = 1024;
/// Small enough that the notice of what has grown fits in one message.
const BATCH: usize = 200;
const GATHER: Duration = Duration::from_millis(2);

#[derive(Debug, Clone)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

#[derive(Debug)]
struct Job {
    step: Prepared,
    answer: oneshot::Sender<Result<u64, Error>>,
}

impl Writer {
    pub(super) fn start(address: Address, teller: Teller) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE);
        tokio::spawn(run(address, teller, queue));
        Self { jobs }
    }

    pub(super) async fn append(&self, lease: &Lease, step: &Step) -> Result<u64, Error> {
        let step = Prepared::new(lease, step)?;
        let (answer, result) = oneshot::channel();
        self.jobs.send(Job { step, answer }).await.map_err(|_| Error::Closed)?;
        result.await.map_err(|_| Error::Closed)?
    }
}

async fn run(address: Address, teller: Teller, mut queue: mpsc::Receiver<Job>) {
    let mut waiting = Vec::with_capacity(BATCH);
    let mut connection = None;
    let mut busy = false;
    while !waiting.is_empty() || queue.recv_many(&mut waiting, BATCH).await > 0 {
        // Where several write at a time, a moment's patience makes one call of what would have been two.
        if busy {
            tokio::time::sleep(GATHER).await;
        }
        while waiting.len() < BATCH
            && let Ok(job) = queue.try_recv()
        {
            waiting.push(job);
        }
        let batch = one_per_task(&mut waiting);
        busy = batch.len() > 1;
        write(&address, &teller, &mut connection, batch).await;
    }
}

/// The first step of each task; the others wait for the next call, in their order.
fn one_per_task(waiting: &mut Vec<Job>) -> Vec<Job> {
    let mut tasks = HashSet::new();
    let (batch, rest) = waiting.drain(..).partition(|job: &Job| tasks.insert(job.step.task().clone()));
    *waiting = rest;
    batch
}

async fn write(address: &Address, teller: &Teller, connection: &mut Option<Connection>, batch: Vec<Job>) {
    let db = match connected(address, connection).await {
        Ok(db) => db,
        Err(error) => return refuse(address, batch, &error),
    };
    match together(db, &batch).await {
        Ok(results) => {
            for (job, result) in batch.into_iter().zip(results) {
                answer(teller, job, result);
            }
        }
        Err(error @ Error::Unreachable { .. }) => {
            // No one knows what is still under way on it.
            *connection = None;
            refuse(address, batch, &error);
        }
        // The database choked on one of them: each by itself, so that only that one fails.
        Err(_) if batch.len() > 1 => {
            for job in batch {
                let alone = together(db, std::slice::from_ref(&job)).await;
                let result = alone.and_then(|mut results| results.pop().unwrap_or(Err(Error::Closed)));
                answer(teller, job, result);
            }
        }
        Err(error) => {
            if let Some(job) = batch.into_iter().next() {
                let _ = job.answer.send(Err(error));
            }
        }
    }
}

fn answer(teller: &Teller, job: Job, result: Result<u64, Error>) {
    if let Ok(last) = &result {
        teller.tell(job.step.news(*last));
    }
    // The asker may have gone away; its step stands all the same.
    let _ = job.answer.send(result);
}

async fn connected<'a>(address: &Address, connection: &'a mut Option<Connection>) -> Result<&'a Connection, Error> {
    if connection.as_ref().is_some_and(|open| !open.is_clean()) {
        *connection = None;
    }
    let open = match connection.take() {
        Some(open) => open,
        None => address.connect().await?,
    };
    Ok(connection.insert(open))
}

async fn together(db: &Connection, batch: &[Job]) -> Result<Vec<Result<u64, Error>>, Error> {
    let steps: Vec<&Prepared> = batch.iter().map(|job| &job.step).collect();
    let settles = steps.iter().any(|step| !step.settled().is_empty());
    for alone in [false, true] {
        let appended = if settles {
            db.begin().await?;
            db.end(append_and_settle(db, &steps, alone).await).await?
        } else {
            append(db, &steps, alone).await?
        };
        if let Appended::Done(results) = appended {
            return Ok(results);
        }
    }
    Err(Error::corrupt("an answer", "a step that is alone was asked to be alone"))
}

/// In a transaction: of the steps that are written, the calls that ended with them.
async fn append_and_settle(db: &Connection, steps: &[&Prepared], alone: bool) -> Result<Appended, Error> {
    let appended = append(db, steps, alone).await?;
    if let Appended::Done(results) = &appended {
        let written = steps.iter().zip(results).filter(|(_, result)| result.is_ok());
        let settlements: Vec<_> = written.flat_map(|(step, _)| step.settled()).collect();
        ledger::settle(db, &settlements).await?;
    }
    Ok(appended)
}

/// One failure of the connection is everyone's.
fn refuse(address: &Address, batch: Vec<Job>, error: &Error) {
    let reason = match error.source() {
        Some(cause) => cause.to_string(),
        None => error.to_string(),
    };
    for job in batch {
        let _ = job.answer.send(Err(address.unreachable(reason.clone())));
    }
}
