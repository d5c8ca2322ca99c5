//! SQLite on one machine: write-ahead log, `synchronous=FULL`, one writer thread, a few readers.

mod migrate;
mod read;
mod write;
mod writer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use harvest_core::{Event, Outcome, OwnerId, SandboxId, SessionId, TaskId, Timestamp, TurnId};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::watch;

use crate::contract::{
    Lease, NewTask, Owner, SandboxRecord, Step, Store, Submitted, TaskDetail, TaskPage, TaskQuery,
};
use crate::Error;
use writer::Writer;

/// How long a writer waits for another process that is committing.
const BUSY: Duration = Duration::from_secs(30);
const IDLE_READERS: usize = 4;

#[derive(Debug, Clone)]
pub struct Sqlite {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    writer: Writer,
    readers: Mutex<Vec<Connection>>,
    tails: Mutex<HashMap<SessionId, watch::Sender<u64>>>,
}

impl Sqlite {
    /// Opens the database at `path`, making or migrating it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.set_prepared_statement_cache_capacity(64);
        migrate::migrate(&mut connection)?;
        let writer = Writer::spawn(connection).map_err(|error| Error::corrupt("the writer thread", error))?;
        let shared = Shared { path: path.to_owned(), writer, readers: Mutex::default(), tails: Mutex::default() };
        Ok(Self { shared: Arc::new(shared) })
    }

    async fn read<T, F>(&self, read: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    {
        let shared = self.shared.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let connection = shared.reader()?;
            let result = read(&connection);
            shared.give_back(connection);
            result
        });
        reading.await.map_err(|_| Error::Closed)?
    }

    fn announce(&self, session: &SessionId, last: u64) {
        let mut tails = self.shared.tails.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tail) = tails.get(session) {
            if tail.is_closed() {
                tails.remove(session);
            } else {
                tail.send_if_modified(|seq| std::mem::replace(seq, last.max(*seq)) < last);
            }
        }
    }
}

impl Shared {
    fn reader(&self) -> Result<Connection, Error> {
        if let Some(connection) = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(connection);
        }
        let connection = Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.busy_timeout(BUSY)?;
        Ok(connection)
    }

    fn give_back(&self, connection: Connection) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < IDLE_READERS {
            readers.push(connection);
        }
    }
}

#[async_trait]
impl Store for Sqlite {
    async fn create_task(&self, new: NewTask) -> Result<Submitted, Error> {
        self.shared.writer.write(move |db| write::create_task(db, &new)).await
    }

    async fn claim(&self, owner: &OwnerId, turn: Option<&TurnId>, at: Timestamp) -> Result<Option<Lease>, Error> {
        let (owner, turn) = (owner.clone(), turn.cloned());
        let claimed = self.shared.writer.write(move |db| write::claim(db, &owner, turn.as_ref(), at)).await?;
        if let Some((lease, last)) = &claimed {
            self.announce(&lease.session, *last);
        }
        Ok(claimed.map(|(lease, _)| lease))
    }

    async fn take_over(&self, dead: &OwnerId, heir: &OwnerId) -> Result<Vec<Lease>, Error> {
        let (dead, heir) = (dead.clone(), heir.clone());
        self.shared.writer.write(move |db| write::take_over(db, &dead, &heir)).await
    }

    async fn append(&self, lease: &Lease, step: Step) -> Result<u64, Error> {
        let owned = lease.clone();
        let last = self.shared.writer.write(move |db| write::append(db, &owned, &step)).await?;
        self.announce(&lease.session, last);
        Ok(last)
    }

    async fn cancel_waiting(&self, task: &TaskId, at: Timestamp) -> Result<Option<Outcome>, Error> {
        let task = task.clone();
        let cancelled = self.shared.writer.write(move |db| write::cancel_waiting(db, &task, at)).await?;
        if let Some((outcome, last)) = &cancelled {
            self.announce(&outcome.session_id, *last);
        }
        Ok(cancelled.map(|(outcome, _)| outcome))
    }

    async fn events(&self, session: &SessionId, after: u64, limit: usize) -> Result<Vec<Event>, Error> {
        let session = session.clone();
        self.read(move |db| read::events(db, &session, after, limit)).await
    }

    fn watch(&self, session: &SessionId) -> watch::Receiver<u64> {
        let mut tails = self.shared.tails.lock().unwrap_or_else(PoisonError::into_inner);
        tails.entry(session.clone()).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    async fn tasks(&self, query: TaskQuery) -> Result<TaskPage, Error> {
        self.read(move |db| read::tasks(db, &query)).await
    }

    async fn task(&self, id: &TaskId) -> Result<TaskDetail, Error> {
        let id = id.clone();
        self.read(move |db| read::task_detail(db, &id)).await
    }

    async fn find_task(&self, prefix: &str) -> Result<TaskId, Error> {
        let prefix = prefix.to_owned();
        self.read(move |db| read::find_task(db, &prefix)).await
    }

    async fn register_owner(&self, owner: Owner) -> Result<(), Error> {
        self.shared.writer.write(move |db| write::register_owner(db, &owner)).await
    }

    async fn owners(&self) -> Result<Vec<Owner>, Error> {
        self.read(read::owners).await
    }

    async fn remove_owner(&self, owner: &OwnerId) -> Result<(), Error> {
        let owner = owner.clone();
        self.shared.writer.write(move |db| write::remove_owner(db, &owner)).await
    }

    async fn record_sandbox(&self, record: SandboxRecord) -> Result<(), Error> {
        self.shared.writer.write(move |db| write::record_sandbox(db, &record)).await
    }

    async fn forget_sandbox(&self, id: &SandboxId) -> Result<(), Error> {
        let id = id.clone();
        self.shared.writer.write(move |db| write::forget_sandbox(db, &id)).await
    }

    async fn sandboxes(&self) -> Result<Vec<SandboxRecord>, Error> {
        self.read(read::sandboxes).await
    }
}
