//! What a store must do, whatever database is behind it.

mod access;
mod audit;
mod comment;
mod credential;
mod inbox;
mod ledger;
mod neighbour;
mod project;
mod queue;
mod quota;
mod race;
mod rate;
mod repository;
mod schedule;
mod session;
mod stats;
mod step;
mod task;

use std::collections::BTreeMap;

use async_trait::async_trait;
use harvest_core::{
    AttemptId, CredentialId, Event, EventBody, ListedTask, Outcome, OwnerId, Prompt, SandboxId, Session, SessionId,
    Stopping, Task, TaskId, TaskStatus, Timestamp, Turn, Waiting,
};
use tokio::sync::watch;

use crate::Error;

pub use access::{Access, AccessToken, Answer, AnswerKey, Begun, Grown, TokenKind};
pub use audit::{AuditEntry, AuditQuery, BrokenChain, NewAudit};
pub use comment::Comments;
pub use credential::{CredentialRecord, NewSecret};
pub use inbox::{Delivery, Inbox, Link, LinkEnd, LinkKind, PullRequestStat};
pub use ledger::{Balance, Bill, Charge, Reservation, Settlement, Spending};
pub(crate) use neighbour::{MOST as MOST_NEIGHBOURS, ordered};
pub use neighbour::{Neighbour, Neighbours};
pub use project::{Member, Project, Projects};
pub use queue::{
    Cap, Claim, Convoy, Ever, Lease, Owner, OwnerKind, QueueChange, QueueSettings, QueueState, Reclaimed, Rows,
    SandboxRecord, TurnCounts, WorkerAgents,
};
pub use quota::{Admission, Asker, Forgotten, Limit, QuotaExceeded, Quotas, day_of};
pub use race::Races;
pub use rate::{Rate, Rates, Taken};
pub use repository::Repository;
pub use schedule::{MissedRuns, OwnerRight, Schedule, ScheduleOwner, Template};
pub use session::{SessionPage, SessionQuery, SessionSummary};
pub use stats::{Stat, StatKey, StatQuery};
pub use step::{AttemptUpdate, End, PlanDecision, PlanVerdict, Requester, Step};
pub use task::{IdempotencyKey, ListedPage, NewTask, NewTurn, Order, Submitted, TaskDetail, TaskPage, TaskQuery};

#[async_trait]
pub trait Store:
    Access + Comments + Inbox + Neighbours + Projects + Quotas + Races + Rates + Send + Sync + std::fmt::Debug
{
    /// Records tasks, each with its session, first turn and `task.created` event: all of them or none. They may wait for
    /// each other in any order. Refused when a quota leaves no room for all of them. With an idempotency key that is known already the task of that key is returned, or the
    /// whole request refused when it asks for something else.
    async fn create_tasks(&self, new: Vec<NewTask>) -> Result<Vec<Submitted>, Error>;

    /// Records another prompt for a session, with its `turn.queued` event. It is worked on when all before it are done: at
    /// once when the task has ended, which is pending again then; else in the transaction that ends the turn before it.
    /// Prompts that come together are put in an order here. A cancelled task begins again as well, with the prompts that
    /// were queued when it was cancelled first. With a key that is known already the turn of that key is returned.
    async fn prompt(&self, new: NewTurn) -> Result<Turn, Error>;

    /// Takes ready turns, the best first. Of any number of claimers exactly one gets each.
    async fn claim(&self, claim: Claim) -> Result<Vec<Lease>, Error>;

    /// Extends every lease that `owner` still has and returns them; what is missing has been lost.
    async fn heartbeat(&self, owner: &OwnerId, until: Timestamp) -> Result<Vec<Lease>, Error>;

    /// Gives back turns whose lease has run out, and hands out those whose next try is due. Who was asked to stop one still
    /// is, whoever that is then.
    async fn reclaim(&self, now: Timestamp) -> Result<Reclaimed, Error>;

    /// Gives back every turn of an owner that is known to be dead. Whoever takes one next is asked to stop it if the owner was.
    async fn release(&self, dead: &OwnerId, at: Timestamp) -> Result<Vec<Lease>, Error>;

    /// Takes over the turns of a dead owner, all or those of some sessions; the old leases are void from here on. Whoever
    /// was asked to stop one still is.
    async fn take_over(&self, dead: &OwnerId, heir: &OwnerId, only: Option<&[SessionId]>) -> Result<Vec<Lease>, Error>;

    /// The turns that an owner has claimed.
    async fn turns_of(&self, owner: &OwnerId) -> Result<Vec<Lease>, Error>;

    /// Whether whoever had this lease gave the turn back by itself: it has ended, or waits for a person or its next try, and
    /// nobody has claimed it since.
    async fn was_given_back(&self, lease: &Lease) -> Result<bool, Error>;

    /// How much of an attempt's output is in the journal.
    async fn journaled(&self, attempt: &AttemptId) -> Result<u64, Error>;

    /// One step of a claimed turn: fence check, events, spool offset and state change in one transaction. Returns the number
    /// of the last event.
    async fn append(&self, lease: &Lease, step: Step) -> Result<u64, Error>;

    /// Gives a turn back that could not be worked on, until `due`. It costs none of the task's retries.
    async fn put_off(&self, lease: &Lease, due: Timestamp, at: Timestamp, events: Vec<EventBody>)
    -> Result<u64, Error>;

    /// Gives a turn back until a person has decided: no one holds it, and its task awaits approval. It is cancelled instead
    /// when someone has asked for that meanwhile.
    async fn ask_approval(&self, lease: &Lease, at: Timestamp, events: Vec<EventBody>) -> Result<u64, Error>;

    /// Gives an interrupted turn back until someone resumes it: no one holds it, and its task is interrupted. It is cancelled
    /// instead when someone has asked for that meanwhile.
    async fn interrupt(&self, lease: &Lease, at: Timestamp, events: Vec<EventBody>) -> Result<u64, Error>;

    /// The turn of an interrupted task is in the queue again. `prompt` is what its agent is told.
    async fn resume(&self, task: &TaskId, by: Requester, prompt: Option<Prompt>, at: Timestamp) -> Result<(), Error>;

    /// A person has decided on the plan of a task that awaits approval: its turn is in the queue again, or the task is
    /// cancelled.
    async fn decide(&self, task: &TaskId, decision: PlanDecision, at: Timestamp) -> Result<(), Error>;

    /// Lets the first turn of a task begin with another commit than it was queued with.
    async fn set_base(&self, lease: &Lease, base: &str) -> Result<(), Error>;

    /// Sets money aside for a call of a claimed turn. Returns what everyone but its owner has spent and set aside of its
    /// accounts, as of a moment when this is written.
    async fn reserve(&self, lease: &Lease, reservation: Reservation) -> Result<Vec<Balance>, Error>;

    /// What everyone but `asker` has spent and set aside.
    async fn balances(&self, bill: &Bill, asker: &OwnerId) -> Result<Vec<Balance>, Error>;

    /// The calls of a task that were never settled. Of a task that is being worked on these are the ones under way.
    async fn unsettled(&self, task: &TaskId) -> Result<Vec<Reservation>, Error>;

    /// What each account has spent on a day (`2026-01-31`).
    async fn spending(&self, day: &str) -> Result<Vec<Spending>, Error>;

    /// Cancels a task that no one works on. A follow-up that nobody has begun is withdrawn, and the result that the task had
    /// before holds again. Work of the turn that the journal knows is the commit of the outcome, and nobody delivers it: that is
    /// for whoever has it ([`Store::claim_to_stop`]). `None` when it is being worked on or has ended.
    async fn cancel_waiting(&self, task: &TaskId, at: Timestamp) -> Result<Option<Outcome>, Error>;

    /// The newest commit of what the unfinished turn of a session has done, as its journal tells it.
    async fn newest_work(&self, session: &SessionId) -> Result<Option<String>, Error>;

    /// Claims the turn of a task that no one works on, whatever it waits for, to end the task: the wish to stop is recorded with
    /// the claim, so that the next owner after a crash ends it too. The turn takes no place under a cap that it does not have.
    /// `None` for a turn that has not begun, or that is withdrawn when it is cancelled, and for a task that awaits approval.
    async fn claim_to_stop(&self, task: &TaskId, how: Stopping, claim: Claim) -> Result<Option<Lease>, Error>;

    /// Asks whoever works on the task to stop, wherever that is, and whoever goes on with the same turn. False when no one
    /// works on it. The weightiest word counts, and of the same weight the last.
    async fn request_stop(&self, task: &TaskId, how: Stopping) -> Result<bool, Error>;

    /// The turns that `owner` works on and is asked to stop. Whoever waits for the queue is woken when there is a new one.
    async fn stops(&self, owner: &OwnerId) -> Result<Vec<(Lease, Stopping)>, Error>;

    /// Queues a failed or cancelled task once more, unless a quota leaves no room for it. Its turn acts for the person of the
    /// admission, and spends with their token.
    async fn retry(&self, task: &TaskId, admission: Admission, at: Timestamp) -> Result<(), Error>;

    /// The journal of a session behind `after`, at most `limit` events, in order.
    async fn events(&self, session: &SessionId, after: u64, limit: usize) -> Result<Vec<Event>, Error>;

    /// Wakes up whenever the session's journal has grown.
    fn watch(&self, session: &SessionId) -> watch::Receiver<u64>;

    /// Wakes up whenever there may be work to claim or the queue's settings have changed, whichever process caused it.
    fn watch_queue(&self) -> watch::Receiver<u64>;

    async fn tasks(&self, query: TaskQuery) -> Result<TaskPage, Error>;

    /// What the pending ones of these tasks wait for. Only tasks of these repositories have their status told.
    async fn waiting(&self, tasks: Vec<TaskId>, among: Option<Vec<String>>)
    -> Result<BTreeMap<TaskId, Waiting>, Error>;

    /// Tasks with what they wait for.
    async fn list(&self, query: TaskQuery) -> Result<ListedPage, Error> {
        let among = query.among.clone();
        let TaskPage { items, next_cursor } = self.tasks(query).await?;
        let is_pending = |task: &&Task| task.status == TaskStatus::Pending;
        let pending: Vec<TaskId> = items.iter().filter(is_pending).map(|task| task.id.clone()).collect();
        let mut waiting = if pending.is_empty() { BTreeMap::new() } else { self.waiting(pending, among).await? };
        let listed = |task: Task| ListedTask { waiting: waiting.remove(&task.id), task };
        Ok(ListedPage { items: items.into_iter().map(listed).collect(), next_cursor })
    }

    async fn task(&self, id: &TaskId) -> Result<TaskDetail, Error>;

    /// The one task whose id begins with `prefix`. With `among`, tasks of other repositories do not exist.
    async fn find_task(&self, prefix: &str, among: Option<Vec<String>>) -> Result<TaskId, Error>;

    async fn session(&self, id: &SessionId) -> Result<Session, Error>;

    /// The one session whose id begins with `prefix`. With `among`, those of other repositories do not exist.
    async fn find_session(&self, prefix: &str, among: Option<Vec<String>>) -> Result<SessionId, Error>;

    async fn register_owner(&self, owner: Owner) -> Result<(), Error>;
    async fn owners(&self) -> Result<Vec<Owner>, Error>;
    /// Says why an owner takes no work for the moment, or that it does again.
    async fn set_holding(&self, owner: &OwnerId, why: Option<&str>) -> Result<(), Error>;
    async fn remove_owner(&self, owner: &OwnerId) -> Result<(), Error>;

    /// Recorded before a sandbox is made and forgotten after it is gone, so that none is ever lost sight of. Recorded
    /// again, it has another session and purpose, since it was made ahead, or another owner, who has taken it over.
    async fn record_sandbox(&self, record: SandboxRecord) -> Result<(), Error>;
    async fn forget_sandbox(&self, id: &SandboxId) -> Result<(), Error>;
    async fn sandboxes(&self) -> Result<Vec<SandboxRecord>, Error>;

    async fn queue(&self) -> Result<QueueState, Error>;
    /// The tasks of the next turns to be claimed, in that order, but for a claimer's own preferences.
    async fn upcoming(&self, most: usize) -> Result<Vec<TaskId>, Error>;
    async fn queue_settings(&self) -> Result<QueueSettings, Error>;
    async fn change_queue(&self, change: QueueChange) -> Result<(), Error>;
    /// Sets the size of a cap, or lifts it with `None`.
    async fn set_cap(&self, name: &str, size: Option<u32>) -> Result<(), Error>;
    async fn convoys(&self) -> Result<Vec<Convoy>, Error>;

    /// Saved again, a schedule has another owner; nothing else of it changes.
    async fn save_schedule(&self, schedule: Schedule) -> Result<(), Error>;
    async fn schedules(&self) -> Result<Vec<Schedule>, Error>;
    async fn remove_schedule(&self, id: &str) -> Result<bool, Error>;
    /// Moves a schedule on from `due` to `next`; false when someone else already did. The tasks come with it or not at all.
    /// `problem`: why the run made none, told in the schedule until the next run.
    async fn fire_schedule(
        &self,
        id: &str,
        due: Timestamp,
        next: Option<Timestamp>,
        tasks: Vec<NewTask>,
        problem: Option<&str>,
    ) -> Result<bool, Error>;

    async fn save_template(&self, template: Template) -> Result<(), Error>;
    async fn templates(&self) -> Result<Vec<Template>, Error>;
    async fn remove_template(&self, name: &str) -> Result<bool, Error>;

    /// Takes the right to exchange a person's token for a new one, until a time: of any number who try, one gets it. False
    /// when another holder has it.
    async fn begin_refresh(&self, person: &str, holder: &str, at: Timestamp, until: Timestamp) -> Result<bool, Error>;

    /// Gives that right back.
    async fn end_refresh(&self, person: &str, holder: &str) -> Result<(), Error>;

    /// Refused when there is one of that name for the same provider and scope.
    async fn add_credential(&self, record: CredentialRecord) -> Result<(), Error>;
    async fn credentials(&self) -> Result<Vec<CredentialRecord>, Error>;
    /// The same secret under another seal; false when it is no longer the one sealed as `from`.
    async fn reseal_credential(&self, id: &CredentialId, from: &str, to: &str) -> Result<bool, Error>;
    async fn replace_credential(&self, id: &CredentialId, new: NewSecret) -> Result<bool, Error>;
    async fn credential_used(&self, id: &CredentialId, at: Timestamp) -> Result<(), Error>;
    async fn remove_credential(&self, id: &CredentialId) -> Result<bool, Error>;

    /// Replaces the one of the same name.
    async fn save_repository(&self, repository: Repository) -> Result<(), Error>;
    async fn repositories(&self) -> Result<Vec<Repository>, Error>;
    async fn remove_repository(&self, name: &str) -> Result<bool, Error>;
}
