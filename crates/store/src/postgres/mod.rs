//! PostgreSQL, shared by any number of processes and machines.
//!
//! What touches more than one row is a function of the database, installed by the migrations: a claim of many turns, or the
//! steps of many workers, is one round trip and one sync of its disk. Written on `tokio-postgres` and not on sqlx because
//! that is all it takes: calls of functions, pipelining and notifications, at a tenth of the build time.

mod access;
mod comment;
mod connection;
mod create;
mod credential;
mod hold;
mod inbox;
mod ledger;
mod listen;
mod migrate;
mod neighbour;
mod overview;
mod pool;
mod project;
mod prompt;
mod queue;
mod quota;
mod race;
mod rate;
mod read;
mod repository;
mod settings;
mod stats;
mod step;
mod tell;
mod tls;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use harvest_core::{
    AttemptId, CredentialId, Event, EventBody, Move, Outcome, OwnerId, Prompt, SandboxId, Session, SessionId, Stopping,
    TaskId, Timestamp, Turn, Waiting,
};
use tokio::sync::watch;

use crate::Error;
use crate::contract::{
    Admission, Balance, Bill, Claim, Convoy, CredentialRecord, Lease, NewSecret, NewTask, NewTurn, Owner, PlanDecision,
    QueueChange, QueueSettings, QueueState, Reclaimed, Repository, Requester, Reservation, SandboxRecord, Schedule,
    Spending, Step, Store, Submitted, TaskDetail, TaskPage, TaskQuery, Template,
};
use crate::record::{Change, Pending, task_made};
use crate::words;
pub use connection::passwords_in;
use connection::{Address, Connection};
use listen::Listener;
use pool::{Lent, Pool};
use tell::{News, Teller};
use writer::Writer;

#[derive(Debug, Clone)]
pub struct Postgres {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pool: Pool,
    writer: Writer,
    teller: Teller,
    listener: Listener,
}

impl Postgres {
    /// Connects to the database at `url` (`postgres://…` or `key=value` pairs; Unix sockets too), making or migrating its
    /// tables.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let address = Address::parse(url)?;
        let pool = Pool::new(address.clone());
        migrate::migrate(&pool).await?;
        let teller = Teller::start(address.clone());
        let writer = Writer::start(address.clone(), teller.clone());
        let listener = Listener::start(address);
        Ok(Self { shared: Arc::new(Shared { pool, writer, teller, listener }) })
    }

    async fn lend(&self) -> Result<Lent<'_>, Error> {
        self.shared.pool.lend().await
    }

    /// Begins a change that someone asks for: its record is written in the same transaction. `made` names what is changed.
    async fn change(&self, made: String) -> Result<Changing<'_>, Error> {
        let pending = Pending::take();
        let lent = self.lend().await?;
        let db = lent.get()?;
        db.begin().await?;
        if pending.is_some() {
            // Before any other lock: whoever waits for the audit log holds nothing that a claim needs.
            access::lock_audit(db).await?;
        }
        Ok(Changing { lent, pending, made })
    }
}

/// A transaction that changes what someone asked for.
#[derive(Debug)]
struct Changing<'a> {
    lent: Lent<'a>,
    pending: Option<Pending>,
    made: String,
}

impl Changing<'_> {
    fn db(&self) -> Result<&Connection, Error> {
        self.lent.get()
    }

    /// Ends the transaction, with the record when anything was changed.
    async fn end<T: Change>(self, done: Result<T, Error>) -> Result<T, Error> {
        let db = self.lent.get()?;
        let changed = done.as_ref().is_ok_and(Change::changed);
        let record = self.pending.as_ref().filter(|_| changed).and_then(|pending| pending.for_change(&self.made));
        let done = match (done, &record) {
            (Ok(done), Some(record)) => access::write_record(db, record, &self.made).await.map(|()| done),
            (done, _) => done,
        };
        let done = db.end(done).await?;
        if let (Some(pending), Some(_)) = (self.pending, record) {
            pending.written();
        }
        Ok(done)
    }
}

#[async_trait]
impl Store for Postgres {
    async fn create_tasks(&self, new: Vec<NewTask>) -> Result<Vec<Submitted>, Error> {
        let change = self.change(task_made(&new)).await?;
        let done = create::create_tasks(change.db()?, &self.shared.teller, &new).await;
        let submitted = change.end(done).await?;
        for task in &new {
            let last = 1 + task.warnings.len() as u64;
            self.shared.teller.tell(News { session: task.session.clone(), last, wake: false });
        }
        Ok(submitted)
    }

    async fn prompt(&self, new: NewTurn) -> Result<Turn, Error> {
        let change = self.change(format!("session:{}", new.session)).await?;
        let done = prompt::prompt(change.db()?, &new).await;
        Ok(change.end(done).await?.turn)
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Lease>, Error> {
        queue::claim(self.lend().await?.get()?, &self.shared.teller, &claim).await
    }

    async fn heartbeat(&self, owner: &OwnerId, until: Timestamp) -> Result<Vec<Lease>, Error> {
        queue::heartbeat(self.lend().await?.get()?, owner, until).await
    }

    async fn reclaim(&self, now: Timestamp) -> Result<Reclaimed, Error> {
        queue::reclaim(self.lend().await?.get()?, now).await
    }

    async fn release(&self, dead: &OwnerId, at: Timestamp) -> Result<Vec<Lease>, Error> {
        queue::release(self.lend().await?.get()?, dead, at).await
    }

    async fn take_over(&self, dead: &OwnerId, heir: &OwnerId, only: Option<&[SessionId]>) -> Result<Vec<Lease>, Error> {
        queue::take_over(self.lend().await?.get()?, dead, heir, only).await
    }

    async fn turns_of(&self, owner: &OwnerId) -> Result<Vec<Lease>, Error> {
        queue::turns_of(self.lend().await?.get()?, owner).await
    }

    async fn was_given_back(&self, lease: &Lease) -> Result<bool, Error> {
        queue::was_given_back(self.lend().await?.get()?, lease).await
    }

    async fn journaled(&self, attempt: &AttemptId) -> Result<u64, Error> {
        read::journaled(self.lend().await?.get()?, attempt).await
    }

    async fn append(&self, lease: &Lease, step: Step) -> Result<u64, Error> {
        self.shared.writer.append(lease, &step).await
    }

    async fn put_off(
        &self,
        lease: &Lease,
        due: Timestamp,
        at: Timestamp,
        events: Vec<EventBody>,
    ) -> Result<u64, Error> {
        hold::put_off(self.lend().await?.get()?, lease, due, at, &events).await
    }

    async fn ask_approval(&self, lease: &Lease, at: Timestamp, events: Vec<EventBody>) -> Result<u64, Error> {
        hold::hold(self.lend().await?.get()?, lease, Move::AskApproval, at, &events).await
    }

    async fn interrupt(&self, lease: &Lease, at: Timestamp, events: Vec<EventBody>) -> Result<u64, Error> {
        hold::hold(self.lend().await?.get()?, lease, Move::Interrupt, at, &events).await
    }

    async fn resume(&self, task: &TaskId, by: Requester, prompt: Option<Prompt>, at: Timestamp) -> Result<(), Error> {
        let change = self.change(format!("task:{task}")).await?;
        let done = hold::resume(change.db()?, task, &by, prompt.as_ref(), at).await;
        change.end(done).await
    }

    async fn decide(&self, task: &TaskId, decision: PlanDecision, at: Timestamp) -> Result<(), Error> {
        let change = self.change(format!("task:{task}")).await?;
        let done = hold::decide(change.db()?, task, &decision, at).await;
        change.end(done).await
    }

    async fn set_base(&self, lease: &Lease, base: &str) -> Result<(), Error> {
        let lent = self.lend().await?;
        let sql = "UPDATE tasks SET base = $4 WHERE id = $3 AND EXISTS (
                       SELECT 1 FROM turns WHERE number = $1 AND fence = $2 AND status = 'claimed')";
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&lease.rows.turn, &(lease.fence as i64), &lease.task.as_str(), &base];
        match lent.get()?.execute(sql, &values).await? {
            0 => Err(Error::StaleLease { turn: lease.turn.to_string(), held: lease.fence }),
            _ => Ok(()),
        }
    }

    async fn reserve(&self, lease: &Lease, reservation: Reservation) -> Result<Vec<Balance>, Error> {
        ledger::reserve(self.lend().await?.get()?, lease, &reservation).await
    }

    async fn balances(&self, bill: &Bill, asker: &OwnerId) -> Result<Vec<Balance>, Error> {
        ledger::balances(self.lend().await?.get()?, bill, asker).await
    }

    async fn unsettled(&self, task: &TaskId) -> Result<Vec<Reservation>, Error> {
        ledger::unsettled(self.lend().await?.get()?, task).await
    }

    async fn spending(&self, day: &str) -> Result<Vec<Spending>, Error> {
        ledger::spending(self.lend().await?.get()?, day).await
    }

    async fn cancel_waiting(&self, task: &TaskId, at: Timestamp) -> Result<Option<Outcome>, Error> {
        let change = self.change(format!("task:{task}")).await?;
        let done = queue::cancel(change.db()?, task, at, words::UNSTARTED).await;
        change.end(done).await
    }

    async fn newest_work(&self, session: &SessionId) -> Result<Option<String>, Error> {
        queue::newest_work(self.lend().await?.get()?, session).await
    }

    async fn claim_to_stop(&self, task: &TaskId, how: Stopping, claim: Claim) -> Result<Option<Lease>, Error> {
        let change = self.change(format!("task:{task}")).await?;
        let done = queue::claim_to_stop(change.db()?, task, &how, &claim).await;
        change.end(done).await
    }

    async fn request_stop(&self, task: &TaskId, how: Stopping) -> Result<bool, Error> {
        let change = self.change(format!("task:{task}")).await?;
        let done = queue::request_stop(change.db()?, task, &how).await;
        change.end(done).await
    }

    async fn stops(&self, owner: &OwnerId) -> Result<Vec<(Lease, Stopping)>, Error> {
        queue::stops(self.lend().await?.get()?, owner).await
    }

    async fn retry(&self, task: &TaskId, admission: Admission, at: Timestamp) -> Result<(), Error> {
        let change = self.change(format!("task:{task}")).await?;
        let done = queue::retry(change.db()?, task, &admission, at).await;
        change.end(done).await
    }

    async fn events(&self, session: &SessionId, after: u64, limit: usize) -> Result<Vec<Event>, Error> {
        read::events(self.lend().await?.get()?, session, after, limit).await
    }

    fn watch(&self, session: &SessionId) -> watch::Receiver<u64> {
        self.shared.listener.watch(session)
    }

    fn watch_queue(&self) -> watch::Receiver<u64> {
        self.shared.listener.watch_queue()
    }

    async fn tasks(&self, query: TaskQuery) -> Result<TaskPage, Error> {
        read::tasks(self.lend().await?.get()?, &query).await
    }

    async fn waiting(
        &self,
        tasks: Vec<TaskId>,
        among: Option<Vec<String>>,
    ) -> Result<BTreeMap<TaskId, Waiting>, Error> {
        read::waiting(self.lend().await?.get()?, &tasks, among.as_deref()).await
    }

    async fn task(&self, id: &TaskId) -> Result<TaskDetail, Error> {
        read::task_detail(self.lend().await?.get()?, id).await
    }

    async fn find_task(&self, prefix: &str, among: Option<Vec<String>>) -> Result<TaskId, Error> {
        read::find_task(self.lend().await?.get()?, prefix, among.as_deref()).await
    }

    async fn session(&self, id: &SessionId) -> Result<Session, Error> {
        read::session(self.lend().await?.get()?, id).await
    }

    async fn find_session(&self, prefix: &str, among: Option<Vec<String>>) -> Result<SessionId, Error> {
        read::find_session(self.lend().await?.get()?, prefix, among.as_deref()).await
    }

    async fn register_owner(&self, owner: Owner) -> Result<(), Error> {
        settings::register_owner(self.lend().await?.get()?, &owner).await
    }

    async fn owners(&self) -> Result<Vec<Owner>, Error> {
        overview::owners(self.lend().await?.get()?).await
    }

    async fn set_holding(&self, owner: &OwnerId, why: Option<&str>) -> Result<(), Error> {
        settings::set_holding(self.lend().await?.get()?, owner, why).await
    }

    async fn remove_owner(&self, owner: &OwnerId) -> Result<(), Error> {
        settings::remove_owner(self.lend().await?.get()?, owner).await
    }

    async fn record_sandbox(&self, record: SandboxRecord) -> Result<(), Error> {
        settings::record_sandbox(self.lend().await?.get()?, &record).await
    }

    async fn forget_sandbox(&self, id: &SandboxId) -> Result<(), Error> {
        settings::forget_sandbox(self.lend().await?.get()?, id).await
    }

    async fn sandboxes(&self) -> Result<Vec<SandboxRecord>, Error> {
        overview::sandboxes(self.lend().await?.get()?).await
    }

    async fn queue(&self) -> Result<QueueState, Error> {
        overview::queue(self.lend().await?.get()?).await
    }

    async fn upcoming(&self, most: usize) -> Result<Vec<TaskId>, Error> {
        overview::upcoming(self.lend().await?.get()?, most).await
    }

    async fn queue_settings(&self) -> Result<QueueSettings, Error> {
        overview::queue_settings(self.lend().await?.get()?).await
    }

    async fn change_queue(&self, asked: QueueChange) -> Result<(), Error> {
        let change = self.change("queue".to_owned()).await?;
        let done = settings::change_queue(change.db()?, asked).await;
        change.end(done).await
    }

    async fn set_cap(&self, name: &str, size: Option<u32>) -> Result<(), Error> {
        let change = self.change(format!("cap:{name}")).await?;
        let done = settings::set_cap(change.db()?, name, size).await;
        change.end(done).await
    }

    async fn convoys(&self) -> Result<Vec<Convoy>, Error> {
        overview::convoys(self.lend().await?.get()?).await
    }

    async fn save_schedule(&self, schedule: Schedule) -> Result<(), Error> {
        let change = self.change(format!("schedule:{}", schedule.id)).await?;
        let done = settings::save_schedule(change.db()?, &schedule).await;
        change.end(done).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, Error> {
        overview::schedules(self.lend().await?.get()?).await
    }

    async fn remove_schedule(&self, id: &str) -> Result<bool, Error> {
        let change = self.change(format!("schedule:{id}")).await?;
        let done = settings::remove_schedule(change.db()?, id).await;
        change.end(done).await
    }

    async fn fire_schedule(
        &self,
        id: &str,
        due: Timestamp,
        next: Option<Timestamp>,
        tasks: Vec<NewTask>,
        problem: Option<&str>,
    ) -> Result<bool, Error> {
        let change = self.change(format!("schedule:{id}")).await?;
        let teller = &self.shared.teller;
        let done = settings::fire_schedule(change.db()?, teller, id, due, next, &tasks, problem).await;
        change.end(done).await
    }

    async fn save_template(&self, template: Template) -> Result<(), Error> {
        let change = self.change(format!("template:{}", template.name)).await?;
        let done = settings::save_template(change.db()?, &template).await;
        change.end(done).await
    }

    async fn templates(&self) -> Result<Vec<Template>, Error> {
        overview::templates(self.lend().await?.get()?).await
    }

    async fn remove_template(&self, name: &str) -> Result<bool, Error> {
        let change = self.change(format!("template:{name}")).await?;
        let done = settings::remove_template(change.db()?, name).await;
        change.end(done).await
    }

    async fn begin_refresh(&self, person: &str, holder: &str, at: Timestamp, until: Timestamp) -> Result<bool, Error> {
        credential::begin_refresh(self.lend().await?.get()?, person, holder, at, until).await
    }

    async fn end_refresh(&self, person: &str, holder: &str) -> Result<(), Error> {
        credential::end_refresh(self.lend().await?.get()?, person, holder).await
    }

    async fn add_credential(&self, record: CredentialRecord) -> Result<(), Error> {
        let change = self.change(format!("credential:{}", record.credential.id)).await?;
        let done = credential::add(change.db()?, &record).await;
        change.end(done).await
    }

    async fn credentials(&self) -> Result<Vec<CredentialRecord>, Error> {
        credential::all(self.lend().await?.get()?).await
    }

    async fn reseal_credential(&self, id: &CredentialId, from: &str, to: &str) -> Result<bool, Error> {
        credential::reseal(self.lend().await?.get()?, id, from, to).await
    }

    async fn replace_credential(&self, id: &CredentialId, new: NewSecret) -> Result<bool, Error> {
        let change = self.change(format!("credential:{id}")).await?;
        let done = credential::replace(change.db()?, id, &new).await;
        change.end(done).await
    }

    async fn credential_used(&self, id: &CredentialId, at: Timestamp) -> Result<(), Error> {
        credential::used(self.lend().await?.get()?, id, at).await
    }

    async fn remove_credential(&self, id: &CredentialId) -> Result<bool, Error> {
        let change = self.change(format!("credential:{id}")).await?;
        let done = credential::remove(change.db()?, id).await;
        change.end(done).await
    }

    async fn save_repository(&self, saved: Repository) -> Result<(), Error> {
        let change = self.change(format!("repository:{}", saved.name)).await?;
        let done = repository::save_repository(change.db()?, &saved).await;
        change.end(done).await
    }

    async fn repositories(&self) -> Result<Vec<Repository>, Error> {
        repository::repositories(self.lend().await?.get()?).await
    }

    async fn remove_repository(&self, name: &str) -> Result<bool, Error> {
        let change = self.change(format!("repository:{name}")).await?;
        let done = repository::remove_repository(change.db()?, name).await;
        change.end(done).await
    }
}
