//! One thread owns the only writing connection. It takes every job that is waiting, runs them in one transaction, each in a
//! savepoint of its own, commits once, and only then answers: many writers share one sync of the disk.

use std::thread;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::Error;

const QUEUE: usize = 1024;
const BATCH: usize = 256;

/// Runs inside the batch's transaction, or is told that there is none.
type Job = Box<dyn FnOnce(Result<&mut Connection, Error>) -> Answer + Send>;
/// Told whether the batch reached the disk.
type Answer = Box<dyn FnOnce(Result<(), Error>) + Send>;

#[derive(Debug, Clone)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    pub(super) fn spawn(connection: Connection) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        thread::Builder::new().name("store-writer".into()).spawn(move || run(connection, queue))?;
        Ok(Self { jobs })
    }

    /// Runs `write` and returns once its effects are on disk. When it fails, nothing of it remains.
    pub(super) async fn write<T, F>(&self, write: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    {
        let (answer, result) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let done = connection.and_then(|connection| in_savepoint(connection, write));
            Box::new(move |committed| {
                // The asker may have gone away; its write stands all the same.
                let _ = answer.send(committed.and(done));
            })
        });
        self.jobs.send(job).await.map_err(|_| Error::Closed)?;
        result.await.map_err(|_| Error::Closed)?
    }
}

fn in_savepoint<T>(
    connection: &mut Connection,
    write: impl FnOnce(&Connection) -> Result<T, Error>,
) -> Result<T, Error> {
    let savepoint = connection.savepoint()?;
    let done = write(&savepoint)?;
    savepoint.commit()?;
    Ok(done)
}

fn run(mut connection: Connection, mut queue: mpsc::Receiver<Job>) {
    let mut batch = Vec::with_capacity(BATCH);
    while let Some(first) = queue.blocking_recv() {
        batch.push(first);
        while batch.len() < BATCH
            && let Ok(job) = queue.try_recv()
        {
            batch.push(job);
        }
        commit(&mut connection, &mut batch);
    }
}

fn commit(connection: &mut Connection, batch: &mut Vec<Job>) {
    let begun = connection.execute_batch("BEGIN IMMEDIATE");
    let answers: Vec<Answer> = batch
        .drain(..)
        .map(|job| match &begun {
            Ok(()) => job(Ok(connection)),
            Err(error) => job(Err(copy(error).into())),
        })
        .collect();
    let committed = if begun.is_ok() { connection.execute_batch("COMMIT") } else { Ok(()) };
    if committed.is_err() && !connection.is_autocommit() {
        // Nothing more can be done for this batch: every asker is told that its write did not happen.
        let _ = connection.execute_batch("ROLLBACK");
    }
    for answer in answers {
        answer(committed.as_ref().copied().map_err(|error| copy(error).into()));
    }
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
