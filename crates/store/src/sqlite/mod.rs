//! SQLite on one machine: write-ahead log, `synchronous=FULL`, one writer thread, a few readers.

mod access;
mod comment;
mod credential;
mod elsewhere;
pub mod file;
mod inbox;
mod ledger;
mod migrate;
mod neighbour;
mod project;
mod quota;
mod race;
mod rate;
mod read;
mod stats;
mod wake;
mod work;
mod write;
mod writer;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use harvest_core::{
    AttemptId, CredentialId, Event, EventBody, Move, Outcome, OwnerId, Prompt, SandboxId, Session, SessionId, Stopping,
    TaskId, Timestamp, Turn, Waiting,
};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::{Semaphore, broadcast, watch};

use crate::Error;
use crate::contract::{
    Admission, Balance, Bill, Claim, Convoy, CredentialRecord, Grown, Lease, NewSecret, NewTask, NewTurn, Owner,
    PlanDecision, QueueChange, QueueSettings, QueueState, Reclaimed, Repository, Requester, Reservation, SandboxRecord,
    Schedule, Spending, Step, Store, Submitted, TaskDetail, TaskPage, TaskQuery, Template,
};
use crate::record::{Change, Pending, task_made};
use crate::words;
use elsewhere::Elsewhere;
use wake::{Bell, Waker};
use write::Effects;
use writer::Writer;

/// How long a writer waits for another process that is committing.
const BUSY: Duration = Duration::from_secs(30);
/// How often it looks meanwhile. SQLite's own waiting grows to a tenth of a second, far longer than anyone writes.
const LOOK: Duration = Duration::from_micros(500);
/// Who hears of journals less often than this many grow looks for itself.
const GROWN: usize = 1024;
/// How many look at once; who comes then waits. A connection knows its statements, so that none is made for a single look.
const READERS: usize = 8;
const STATEMENTS: usize = 64;
/// Ids are random, so that every write touches pages all over its indexes: room for those of a large queue.
const CACHE_KIB: i64 = -32 * 1024;
/// The same pages are written again and again: each goes to the database itself, with two syncs of the disk, less often.
const CHECKPOINT_PAGES: u32 = 8_000;

#[derive(Debug, Clone)]
pub struct Sqlite {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    writer: Writer,
    readers: Mutex<Vec<Connection>>,
    /// One for each who may look.
    places: Arc<Semaphore>,
    tails: Mutex<HashMap<SessionId, watch::Sender<u64>>>,
    grown: broadcast::Sender<Grown>,
    waker: Waker,
    elsewhere: Elsewhere,
}

impl Sqlite {
    /// Opens the database at `path`, making or migrating it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_file(path).map_err(|error| error.at(path))
    }

    fn open_file(path: &Path) -> Result<Self, Error> {
        let mut connection = Connection::open(path)?;
        connection.busy_handler(Some(wait))?;
        use_log(&connection)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        // What is deleted is gone, as far as it costs no more than clearing memory; see `forget_session`.
        connection.pragma_update(None, "secure_delete", "FAST")?;
        connection.pragma_update(None, "cache_size", CACHE_KIB)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        remember_statements(&connection)?;
        migrate::migrate(&mut connection)?;
        let told = Arc::new(Bell::new(path, "told"));
        let writer =
            Writer::spawn(connection, told.clone()).map_err(|error| Error::corrupt("the writer thread", error))?;
        let shared = Shared {
            path: path.to_owned(),
            writer,
            readers: Mutex::default(),
            places: Arc::new(Semaphore::new(READERS)),
            tails: Mutex::default(),
            grown: broadcast::channel(GROWN).0,
            waker: Waker::new(path),
            elsewhere: Elsewhere::new(told),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    async fn read<T, F>(&self, read: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    {
        let shared = self.shared.clone();
        let place = shared.places.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
        let reading = tokio::task::spawn_blocking(move || {
            let connection = shared.reader()?;
            let result = read(&connection).map_err(|error| error.at(&shared.path));
            shared.give_back(connection);
            drop(place);
            result
        });
        reading.await.map_err(|_| Error::Closed)?
    }

    /// Writes, and once it is on disk wakes those whom it concerns.
    async fn write<T, F>(&self, write: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Fn(&Connection, &mut Effects) -> Result<T, Error> + Send + 'static,
    {
        let write = move |db: &Connection| {
            let mut effects = Effects::default();
            write(db, &mut effects).map(|done| (done, effects))
        };
        let written = self.shared.writer.write(write).await;
        let (done, effects) = written.map_err(|error| error.at(&self.shared.path))?;
        for (session, last) in &effects.grown {
            self.announce(session, *last);
        }
        if effects.queue {
            self.shared.waker.wake();
        }
        Ok(done)
    }

    /// A change that someone asks for: writes its record in the same transaction. `made` names what is changed.
    async fn change<T, F>(&self, made: String, write: F) -> Result<T, Error>
    where
        T: Change + Send + 'static,
        F: Fn(&Connection, &mut Effects) -> Result<T, Error> + Send + 'static,
    {
        let Some(pending) = Pending::take() else { return self.write(write).await };
        let record = pending.for_change(&made);
        let recording = move |db: &Connection, effects: &mut Effects| {
            let done = write(db, effects)?;
            if let Some(record) = record.as_ref().filter(|_| done.changed()) {
                access::write_record(db, record, &made)?;
            }
            Ok(done)
        };
        let done = self.write(recording).await?;
        if done.changed() {
            pending.written();
        }
        Ok(done)
    }

    fn announce(&self, session: &SessionId, last: u64) {
        let _ = self.shared.grown.send(Grown::Session { id: session.clone(), last });
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
        // One thread at a time has it: it needs no lock of its own.
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_handler(Some(wait))?;
        remember_statements(&connection)?;
        Ok(connection)
    }

    fn give_back(&self, connection: Connection) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < READERS {
            readers.push(connection);
        }
    }
}

fn remember_statements(connection: &Connection) -> Result<(), Error> {
    // Else a statement with a limit is compiled anew whenever the limit is given.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

/// Switches a new file to a write-ahead log.
///
/// When several do so at once, each with a read lock, SQLite refuses all but one without calling the busy handler: waiting
/// would be a deadlock. Refused, a connection holds no lock, so it can try again.
fn use_log(connection: &Connection) -> Result<(), rusqlite::Error> {
    let mut looks = 0;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && wait(looks) => looks += 1,
            done => return done,
        }
    }
}

fn wait(looks: i32) -> bool {
    std::thread::sleep(LOOK);
    u128::try_from(looks).is_ok_and(|looks| looks * LOOK.as_micros() < BUSY.as_micros())
}

#[async_trait]
impl Store for Sqlite {
    async fn create_tasks(&self, new: Vec<NewTask>) -> Result<Vec<Submitted>, Error> {
        let made = task_made(&new);
        self.change(made, move |db, effects| write::create::create_tasks(db, effects, &new)).await
    }

    async fn prompt(&self, new: NewTurn) -> Result<Turn, Error> {
        let made = format!("session:{}", new.session);
        let prompted = self.change(made, move |db, effects| write::prompt::prompt(db, effects, &new)).await?;
        Ok(prompted.turn)
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Lease>, Error> {
        self.write(move |db, effects| write::claim::claim(db, effects, &claim)).await
    }

    async fn heartbeat(&self, owner: &OwnerId, until: Timestamp) -> Result<Vec<Lease>, Error> {
        let owner = owner.clone();
        self.write(move |db, _| write::claim::heartbeat(db, &owner, until)).await
    }

    async fn reclaim(&self, now: Timestamp) -> Result<Reclaimed, Error> {
        self.write(move |db, effects| write::claim::reclaim(db, effects, now)).await
    }

    async fn release(&self, dead: &OwnerId, at: Timestamp) -> Result<Vec<Lease>, Error> {
        let dead = dead.clone();
        self.write(move |db, effects| write::claim::release(db, effects, &dead, at)).await
    }

    async fn take_over(&self, dead: &OwnerId, heir: &OwnerId, only: Option<&[SessionId]>) -> Result<Vec<Lease>, Error> {
        let (dead, heir, only) = (dead.clone(), heir.clone(), only.map(<[SessionId]>::to_vec));
        self.write(move |db, _| write::claim::take_over(db, &dead, &heir, only.as_deref())).await
    }

    async fn turns_of(&self, owner: &OwnerId) -> Result<Vec<Lease>, Error> {
        let owner = owner.clone();
        self.read(move |db| write::claim::turns_of(db, &owner)).await
    }

    async fn was_given_back(&self, lease: &Lease) -> Result<bool, Error> {
        let lease = lease.clone();
        self.read(move |db| write::claim::was_given_back(db, &lease)).await
    }

    async fn journaled(&self, attempt: &AttemptId) -> Result<u64, Error> {
        let attempt = attempt.clone();
        self.read(move |db| read::journaled(db, &attempt)).await
    }

    async fn append(&self, lease: &Lease, step: Step) -> Result<u64, Error> {
        let lease = lease.clone();
        self.write(move |db, effects| write::step::append(db, effects, &lease, &step)).await
    }

    async fn put_off(
        &self,
        lease: &Lease,
        due: Timestamp,
        at: Timestamp,
        events: Vec<EventBody>,
    ) -> Result<u64, Error> {
        let lease = lease.clone();
        self.write(move |db, effects| write::hold::put_off(db, effects, &lease, due, at, &events)).await
    }

    async fn ask_approval(&self, lease: &Lease, at: Timestamp, events: Vec<EventBody>) -> Result<u64, Error> {
        let lease = lease.clone();
        self.write(move |db, effects| write::hold::hold(db, effects, &lease, at, &events, Move::AskApproval)).await
    }

    async fn interrupt(&self, lease: &Lease, at: Timestamp, events: Vec<EventBody>) -> Result<u64, Error> {
        let lease = lease.clone();
        self.write(move |db, effects| write::hold::hold(db, effects, &lease, at, &events, Move::Interrupt)).await
    }

    async fn resume(&self, task: &TaskId, by: Requester, prompt: Option<Prompt>, at: Timestamp) -> Result<(), Error> {
        let task = task.clone();
        let made = format!("task:{task}");
        self.change(made, move |db, effects| write::hold::resume(db, effects, &task, &by, prompt.as_ref(), at)).await
    }

    async fn decide(&self, task: &TaskId, decision: PlanDecision, at: Timestamp) -> Result<(), Error> {
        let task = task.clone();
        let made = format!("task:{task}");
        self.change(made, move |db, effects| write::hold::decide(db, effects, &task, &decision, at)).await
    }

    async fn set_base(&self, lease: &Lease, base: &str) -> Result<(), Error> {
        let (lease, base) = (lease.clone(), base.to_owned());
        self.write(move |db, _| {
            write::step::check_fence(db, &lease)?;
            db.execute("UPDATE tasks SET base = ?2 WHERE id = ?1", rusqlite::params![lease.task.as_str(), base])?;
            Ok(())
        })
        .await
    }

    async fn reserve(&self, lease: &Lease, reservation: Reservation) -> Result<Vec<Balance>, Error> {
        let lease = lease.clone();
        self.write(move |db, _| ledger::reserve(db, &lease, &reservation)).await
    }

    async fn balances(&self, bill: &Bill, asker: &OwnerId) -> Result<Vec<Balance>, Error> {
        let (bill, asker) = (bill.clone(), asker.clone());
        self.read(move |db| ledger::balances(db, &bill, &asker)).await
    }

    async fn unsettled(&self, task: &TaskId) -> Result<Vec<Reservation>, Error> {
        let task = task.clone();
        self.read(move |db| ledger::unsettled(db, &task)).await
    }

    async fn spending(&self, day: &str) -> Result<Vec<Spending>, Error> {
        let day = day.to_owned();
        self.read(move |db| ledger::spending(db, &day)).await
    }

    async fn cancel_waiting(&self, task: &TaskId, at: Timestamp) -> Result<Option<Outcome>, Error> {
        let task = task.clone();
        let made = format!("task:{task}");
        self.change(made, move |db, effects| write::end::cancel(db, effects, &task, at, words::UNSTARTED)).await
    }

    async fn newest_work(&self, session: &SessionId) -> Result<Option<String>, Error> {
        let session = session.clone();
        self.read(move |db| work::newest(db, work::number_of(db, &session)?)).await
    }

    async fn claim_to_stop(&self, task: &TaskId, how: Stopping, claim: Claim) -> Result<Option<Lease>, Error> {
        let task = task.clone();
        let made = format!("task:{task}");
        self.change(made, move |db, effects| write::claim::claim_to_stop(db, effects, &task, &how, &claim)).await
    }

    async fn request_stop(&self, task: &TaskId, how: Stopping) -> Result<bool, Error> {
        let task = task.clone();
        let made = format!("task:{task}");
        self.change(made, move |db, effects| write::claim::request_stop(db, effects, &task, &how)).await
    }

    async fn stops(&self, owner: &OwnerId) -> Result<Vec<(Lease, Stopping)>, Error> {
        let owner = owner.clone();
        self.read(move |db| write::claim::stops(db, &owner)).await
    }

    async fn retry(&self, task: &TaskId, admission: Admission, at: Timestamp) -> Result<(), Error> {
        let task = task.clone();
        let made = format!("task:{task}");
        self.change(made, move |db, effects| write::end::retry(db, effects, &task, &admission, at)).await
    }

    async fn events(&self, session: &SessionId, after: u64, limit: usize) -> Result<Vec<Event>, Error> {
        let session = session.clone();
        self.read(move |db| read::events(db, &session, after, limit)).await
    }

    fn watch(&self, session: &SessionId) -> watch::Receiver<u64> {
        self.shared.elsewhere.listen(&self.shared);
        let mut tails = self.shared.tails.lock().unwrap_or_else(PoisonError::into_inner);
        tails.entry(session.clone()).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    fn watch_queue(&self) -> watch::Receiver<u64> {
        self.shared.waker.watch()
    }

    async fn tasks(&self, query: TaskQuery) -> Result<TaskPage, Error> {
        self.read(move |db| read::tasks(db, &query)).await
    }

    async fn waiting(
        &self,
        tasks: Vec<TaskId>,
        among: Option<Vec<String>>,
    ) -> Result<BTreeMap<TaskId, Waiting>, Error> {
        self.read(move |db| read::waiting(db, &tasks, among.as_deref())).await
    }

    async fn task(&self, id: &TaskId) -> Result<TaskDetail, Error> {
        let id = id.clone();
        self.read(move |db| read::task_detail(db, &id)).await
    }

    async fn find_task(&self, prefix: &str, among: Option<Vec<String>>) -> Result<TaskId, Error> {
        let prefix = prefix.to_owned();
        self.read(move |db| read::find_task(db, &prefix, among.as_deref())).await
    }

    async fn session(&self, id: &SessionId) -> Result<Session, Error> {
        let id = id.clone();
        self.read(move |db| read::session(db, &id)).await
    }

    async fn find_session(&self, prefix: &str, among: Option<Vec<String>>) -> Result<SessionId, Error> {
        let prefix = prefix.to_owned();
        self.read(move |db| read::find_session(db, &prefix, among.as_deref())).await
    }

    async fn register_owner(&self, owner: Owner) -> Result<(), Error> {
        self.write(move |db, _| write::settings::register_owner(db, &owner)).await
    }

    async fn owners(&self) -> Result<Vec<Owner>, Error> {
        self.read(read::owners).await
    }

    async fn set_holding(&self, owner: &OwnerId, why: Option<&str>) -> Result<(), Error> {
        let (owner, why) = (owner.clone(), why.map(str::to_owned));
        self.write(move |db, _| write::settings::set_holding(db, &owner, why.as_deref())).await
    }

    async fn remove_owner(&self, owner: &OwnerId) -> Result<(), Error> {
        let owner = owner.clone();
        self.write(move |db, _| write::settings::remove_owner(db, &owner)).await
    }

    async fn record_sandbox(&self, record: SandboxRecord) -> Result<(), Error> {
        self.write(move |db, _| write::settings::record_sandbox(db, &record)).await
    }

    async fn forget_sandbox(&self, id: &SandboxId) -> Result<(), Error> {
        let id = id.clone();
        self.write(move |db, _| write::settings::forget_sandbox(db, &id)).await
    }

    async fn sandboxes(&self) -> Result<Vec<SandboxRecord>, Error> {
        self.read(read::sandboxes).await
    }

    async fn queue(&self) -> Result<QueueState, Error> {
        self.read(read::queue).await
    }

    async fn upcoming(&self, most: usize) -> Result<Vec<TaskId>, Error> {
        self.read(move |db| read::upcoming(db, most)).await
    }

    async fn queue_settings(&self) -> Result<QueueSettings, Error> {
        self.read(read::queue_settings).await
    }

    async fn change_queue(&self, change: QueueChange) -> Result<(), Error> {
        self.change("queue".to_owned(), move |db, effects| write::settings::change_queue(db, effects, change)).await
    }

    async fn set_cap(&self, name: &str, size: Option<u32>) -> Result<(), Error> {
        let name = name.to_owned();
        let made = format!("cap:{name}");
        self.change(made, move |db, effects| write::admit::set_cap(db, effects, &name, size)).await
    }

    async fn convoys(&self) -> Result<Vec<Convoy>, Error> {
        self.read(read::convoys).await
    }

    async fn save_schedule(&self, schedule: Schedule) -> Result<(), Error> {
        let made = format!("schedule:{}", schedule.id);
        self.change(made, move |db, effects| write::settings::save_schedule(db, effects, &schedule)).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, Error> {
        self.read(read::schedules).await
    }

    async fn remove_schedule(&self, id: &str) -> Result<bool, Error> {
        let id = id.to_owned();
        self.change(format!("schedule:{id}"), move |db, _| write::settings::remove_schedule(db, &id)).await
    }

    async fn fire_schedule(
        &self,
        id: &str,
        due: Timestamp,
        next: Option<Timestamp>,
        tasks: Vec<NewTask>,
        problem: Option<&str>,
    ) -> Result<bool, Error> {
        let id = id.to_owned();
        let made = format!("schedule:{id}");
        let problem = problem.map(str::to_owned);
        self.change(made, move |db, effects| {
            write::settings::fire_schedule(db, effects, &id, due, next, &tasks, problem.as_deref())
        })
        .await
    }

    async fn save_template(&self, template: Template) -> Result<(), Error> {
        let made = format!("template:{}", template.name);
        self.change(made, move |db, _| write::settings::save_template(db, &template)).await
    }

    async fn templates(&self) -> Result<Vec<Template>, Error> {
        self.read(read::templates).await
    }

    async fn remove_template(&self, name: &str) -> Result<bool, Error> {
        let name = name.to_owned();
        self.change(format!("template:{name}"), move |db, _| write::settings::remove_template(db, &name)).await
    }

    async fn begin_refresh(&self, person: &str, holder: &str, at: Timestamp, until: Timestamp) -> Result<bool, Error> {
        let (person, holder) = (person.to_owned(), holder.to_owned());
        self.write(move |db, _| credential::begin_refresh(db, &person, &holder, at, until)).await
    }

    async fn end_refresh(&self, person: &str, holder: &str) -> Result<(), Error> {
        let (person, holder) = (person.to_owned(), holder.to_owned());
        self.write(move |db, _| credential::end_refresh(db, &person, &holder)).await
    }

    async fn add_credential(&self, record: CredentialRecord) -> Result<(), Error> {
        let made = format!("credential:{}", record.credential.id);
        self.change(made, move |db, effects| credential::add(db, effects, &record)).await
    }

    async fn credentials(&self) -> Result<Vec<CredentialRecord>, Error> {
        self.read(credential::all).await
    }

    async fn reseal_credential(&self, id: &CredentialId, from: &str, to: &str) -> Result<bool, Error> {
        let (id, from, to) = (id.clone(), from.to_owned(), to.to_owned());
        self.write(move |db, _| credential::reseal(db, &id, &from, &to)).await
    }

    async fn replace_credential(&self, id: &CredentialId, new: NewSecret) -> Result<bool, Error> {
        let id = id.clone();
        self.change(format!("credential:{id}"), move |db, effects| credential::replace(db, effects, &id, &new)).await
    }

    async fn credential_used(&self, id: &CredentialId, at: Timestamp) -> Result<(), Error> {
        let id = id.clone();
        self.write(move |db, _| credential::used(db, &id, at)).await
    }

    async fn remove_credential(&self, id: &CredentialId) -> Result<bool, Error> {
        let id = id.clone();
        self.change(format!("credential:{id}"), move |db, effects| credential::remove(db, effects, &id)).await
    }

    async fn save_repository(&self, repository: Repository) -> Result<(), Error> {
        let made = format!("repository:{}", repository.name);
        self.change(made, move |db, effects| write::repository::save_repository(db, effects, &repository)).await
    }

    async fn repositories(&self) -> Result<Vec<Repository>, Error> {
        self.read(read::repository::repositories).await
    }

    async fn remove_repository(&self, name: &str) -> Result<bool, Error> {
        let name = name.to_owned();
        self.change(format!("repository:{name}"), move |db, _| write::repository::remove_repository(db, &name)).await
    }
}
