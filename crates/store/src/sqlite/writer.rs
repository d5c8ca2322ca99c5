//! One thread owns the only writing connection. It takes every job that is waiting, runs them in one transaction, commits
//! once, and only then answers: many writers share one sync of the disk.
//!
//! A job that fails must leave nothing behind and disturb no other. That is rare, so it is not prepared for: the whole batch
//! is rolled back and run again, this time each job in a savepoint of its own.

use std::sync::Arc;
use std::thread;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::wake::Bell;
use crate::Error;

const QUEUE: usize = 1024;
const BATCH: usize = 256;
/// Waits for the lock here, not at the first write.
const BEGIN: &str = "BEGIN IMMEDIATE";

#[derive(Debug, Clone)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Box<dyn Job>>,
}

/// One write and whoever waits for it.
trait Job: Send {
    /// May be called again after a rollback.
    fn run(&mut self, db: &Connection) -> Result<(), Failed>;

    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

/// The job keeps why.
struct Failed;

struct Write<T, F> {
    write: F,
    done: Result<T, Error>,
    asker: oneshot::Sender<Result<T, Error>>,
}

impl Writer {
    /// Rings `told` whenever something is to be seen that was not before.
    pub(super) fn spawn(connection: Connection, told: Arc<Bell>) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        thread::Builder::new().name("store-writer".into()).spawn(move || run(connection, queue, &told))?;
        Ok(Self { jobs })
    }

    /// Runs `write` and returns once its effects are on disk. When it fails, nothing of it remains.
    pub(super) async fn write<T, F>(&self, write: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, Error> + Send + 'static,
    {
        let (asker, answer) = oneshot::channel();
        let job = Write { write, done: Err(Error::Closed), asker };
        self.jobs.send(Box::new(job)).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }
}

impl<T, F> Job for Write<T, F>
where
    T: Send,
    F: Fn(&Connection) -> Result<T, Error> + Send,
{
    fn run(&mut self, db: &Connection) -> Result<(), Failed> {
        self.done = (self.write)(db);
        if self.done.is_ok() { Ok(()) } else { Err(Failed) }
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        // The asker may have gone away; its write stands all the same.
        let _ = self.asker.send(committed.and(self.done));
    }
}

fn run(mut connection: Connection, mut queue: mpsc::Receiver<Box<dyn Job>>, told: &Bell) {
    let mut batch = Vec::with_capacity(BATCH);
    while let Some(first) = queue.blocking_recv() {
        batch.push(first);
        let committed = commit(&mut connection, &mut queue, &mut batch);
        if committed.is_err() && !connection.is_autocommit() {
            // Nothing more can be done for this batch: every asker is told that its write did not happen.
            let _ = connection.execute_batch("ROLLBACK");
        }
        if committed.is_ok() {
            told.ring();
        }
        for job in batch.drain(..) {
            job.answer(committed.as_ref().copied().map_err(|error| copy(error).into()));
        }
    }
}

fn commit(
    connection: &mut Connection,
    queue: &mut mpsc::Receiver<Box<dyn Job>>,
    batch: &mut Vec<Box<dyn Job>>,
) -> rusqlite::Result<()> {
    connection.execute_batch(BEGIN)?;
    // What has come while another process held the lock belongs to this batch, and what comes while it runs.
    let (mut ran, mut well) = (0, true);
    loop {
        while batch.len() < BATCH
            && let Ok(job) = queue.try_recv()
        {
            batch.push(job);
        }
        let Some(job) = batch.get_mut(ran) else { break };
        well = well && job.run(connection).is_ok();
        ran += 1;
    }
    if well {
        return connection.execute_batch("COMMIT");
    }
    // A full disk may have ended the transaction already.
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    connection.execute_batch(BEGIN)?;
    for job in batch {
        let savepoint = connection.savepoint()?;
        if job.run(&savepoint).is_ok() {
            savepoint.commit()?;
        }
    }
    connection.execute_batch("COMMIT")
}

/// One failure of the batch is everyone's; the library's error cannot be cloned as it is.
fn copy(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(cause, message) => rusqlite::Error::SqliteFailure(*cause, message.clone()),
        other => rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR),
            Some(other.to_string()),
        ),
    }
}
