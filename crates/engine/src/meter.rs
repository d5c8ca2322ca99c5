//! What the calls of a turn may cost and do cost. Every call is paid for before it goes out: its worst case is set aside in
//! memory at once, and written down while the connection is being made. When it is over it is settled: in memory before the
//! client sees the end of the answer, and in the store right behind, where what it used, what was set aside and what its
//! accounts have spent change in one transaction. So a process that dies leaves for each call either a reservation or a
//! settlement, never both and never none.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use harvest_core::budget::{Account, Purse};
use harvest_core::{CallId, Clock, Cost, Entropy, Event, EventBody, OwnerId, Task, Usage};
use harvest_gateway::{Ask, Call, Grant, Meter, Refused, Trouble};
use harvest_store::{Bill, Charge, Lease, Reservation, Settlement, Step, Store};
use harvest_vault::Redactor;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::actor::Actor;
use crate::journal::Journal;
use crate::tenancy::Tenancy;
use crate::till::{Key, Span, Taken, Till};
use crate::{day_of, failpoint};

/// How long a call waits for others to give back what it needs.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often the store is asked meanwhile, when it is other processes that have it.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How long the end of a call is kept in mind while it cannot be written down, and how often that is tried.
const SETTLING: Duration = Duration::from_secs(600);
const SETTLE_AGAIN: Duration = Duration::from_millis(200);
const LONGEST_SETTLE_AGAIN: Duration = Duration::from_secs(5);
/// Unknown models told of in one turn.
const MAX_UNPRICED: usize = 32;
/// Kinds of trouble told of one turn.
const MAX_TROUBLES: usize = 64;

/// The books of one claimed turn.
#[derive(Debug)]
pub struct TurnMeter {
    journal: Journal,
    owner: OwnerId,
    entropy: Arc<dyn Entropy>,
    till: Arc<Till>,
    task: Key,
    /// Beside the task; those without a limit are counted only.
    accounts: Vec<(Account, Option<Cost>)>,
    spent: Mutex<Spent>,
    open: Mutex<HashMap<CallId, Open>>,
    exhausted: watch::Sender<bool>,
    /// Calls that were answered in this turn.
    answers: watch::Sender<u32>,
    refused: AtomicBool,
    why: Mutex<Option<String>>,
    unpriced: Mutex<BTreeSet<String>>,
    troubles: Mutex<BTreeMap<Trouble, u64>>,
    /// Settlements on their way into the store.
    settling: TaskTracker,
}

/// What a meter needs of the world outside.
#[derive(Debug, Clone)]
pub struct World {
    pub redactor: Arc<Redactor>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) usage: Usage,
    pub(crate) cost: Cost,
}

/// A call under way.
#[derive(Debug)]
struct Open {
    begun: Instant,
    keys: Vec<Key>,
    bill: Bill,
    /// The reservation is in the store, or never will be.
    written: CancellationToken,
}

impl TurnMeter {
    /// For a task that has spent already what it says.
    pub(crate) fn new(
        journal: Journal,
        owner: OwnerId,
        entropy: Arc<dyn Entropy>,
        till: Arc<Till>,
        accounts: Vec<(Account, Option<Cost>)>,
        task: &Task,
    ) -> Self {
        let fence = journal.lease().fence;
        let key = Key { account: Account::Task(task.id.clone()), span: Span::Lease(fence) };
        till.open(key.clone(), task.budget_usd, task.cost_usd);
        let is_spent = task.cost_usd >= task.budget_usd;
        Self {
            journal,
            owner,
            entropy,
            till,
            task: key,
            accounts,
            spent: Mutex::new(Spent { usage: task.usage, cost: task.cost_usd }),
            open: Mutex::default(),
            exhausted: watch::channel(is_spent).0,
            answers: watch::channel(0).0,
            refused: AtomicBool::new(false),
            why: Mutex::new(is_spent.then(|| is_spent_message("the budget", task.cost_usd, task.budget_usd))),
            unpriced: Mutex::default(),
            troubles: Mutex::default(),
            settling: TaskTracker::new(),
        }
    }

    pub(crate) fn spent(&self) -> Spent {
        *lock(&self.spent)
    }

    /// Whether all of a budget is spent.
    pub(crate) fn is_exhausted(&self) -> bool {
        *self.exhausted.borrow()
    }

    /// Whether a call did not fit into what was left: if the agent failed, that is why.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns once all of a budget is spent.
    pub(crate) async fn exhausted(&self) {
        let _ = self.exhausted.subscribe().wait_for(|reached| *reached).await;
    }

    /// How often the model has answered in this turn.
    pub(crate) fn answers(&self) -> watch::Receiver<u32> {
        self.answers.subscribe()
    }

    /// So often it has answered before this process had the turn.
    pub(crate) fn answered_before(&self, answers: u32) {
        self.answers.send_modify(|known| *known = known.saturating_add(answers));
    }

    pub(crate) fn message(&self) -> String {
        lock(&self.why).clone().unwrap_or_else(|| "the budget is spent".to_owned())
    }

    /// The same without an engine around it, for whoever measures what keeping the books costs.
    pub fn alone(store: Arc<dyn Store>, owner: OwnerId, lease: Lease, task: &Task, world: &World) -> Self {
        let journal = Journal::new(store, lease, Arc::clone(&world.redactor), Arc::clone(&world.clock));
        let accounts = Tenancy::default().accounts_of(task, &Actor::requester(task));
        Self::new(journal, owner, Arc::clone(&world.entropy), Arc::default(), accounts, task)
    }

    /// Returns when every call is in the store that has ended, and tells how often each trouble came, where once was not all.
    pub async fn close(&self) {
        self.settling.close();
        self.settling.wait().await;
        let troubles = std::mem::take(&mut *lock(&self.troubles));
        let often = troubles.into_iter().filter(|(_, count)| *count > 1);
        let events: Vec<EventBody> = often.map(|(trouble, count)| event_of(trouble, count)).collect();
        if !events.is_empty()
            && let Err(error) = self.journal.write(events).await
        {
            tracing::error!(%error, "trouble with a model could not be recorded");
        }
    }

    /// Whether nothing was said about this unknown model yet.
    fn is_news(&self, model: &str) -> bool {
        let mut known = lock(&self.unpriced);
        known.len() < MAX_UNPRICED && known.insert(model.to_owned())
    }

    fn bill(&self, day: &str) -> Bill {
        let accounts = self.accounts.iter().map(|(account, _)| account.to_string()).collect();
        Bill { accounts, day: day.to_owned() }
    }

    fn limits(&self, day: &str) -> Vec<(Key, Cost)> {
        let limited = |(account, limit): &(Account, Option<Cost>)| {
            Some((Key { account: account.clone(), span: Span::Day(day.to_owned()) }, (*limit)?))
        };
        self.accounts.iter().filter_map(limited).collect()
    }

    /// Takes what the call needs, waiting for others where they have it. Says as well whether to make sure of it.
    async fn take(
        &self,
        ask: &Ask,
        bill: &Bill,
        limits: &[(Key, Cost)],
        keys: &[Key],
    ) -> Result<(Cost, bool), Refused> {
        let until = Instant::now() + PATIENCE;
        let mut look = limits.iter().any(|(key, _)| !self.till.knows(key));
        loop {
            if look {
                let balances = self.journal.balances(bill, &self.owner).await;
                let balances = balances.map_err(|error| Refused::new(format!("the ledger cannot be read: {error}")))?;
                self.till.learn(limits, &balances, Cost::ZERO);
            }
            let given_back = self.till.given_back();
            tokio::pin!(given_back);
            given_back.as_mut().enable();
            let elsewhere = match self.till.take(keys, ask.cost) {
                Taken::Granted { amount, make_sure } => return Ok((amount, make_sure)),
                Taken::Refused { account, purse } => return Err(self.refuse(&account, purse, ask.cost.least)),
                Taken::Wait { elsewhere } => elsewhere,
            };
            let next = if elsewhere { until.min(Instant::now() + ASK_AGAIN) } else { until };
            look = tokio::time::timeout_at(next, given_back).await.is_err();
            if Instant::now() >= until {
                return Err(Refused::new("concurrent calls have held the rest of the budget for too long"));
            }
        }
    }

    fn refuse(&self, account: &Account, purse: Purse, least: Cost) -> Refused {
        let name = name_of(account);
        let message = if purse.spent >= purse.limit {
            is_spent_message(&name, purse.spent, purse.limit)
        } else {
            let Purse { limit, spent, .. } = purse;
            format!("{name} of {limit} has too little left: {spent} is spent, and this request costs at least {least}")
        };
        self.refused.store(true, Ordering::Relaxed);
        *lock(&self.why) = Some(message.clone());
        Refused::new(message)
    }

    /// Writes down what was set aside, beside the call itself.
    fn write_reservation(&self, ask: Ask, bill: Bill, limits: Vec<(Key, Cost)>, grant: &Grant) -> CancellationToken {
        let written = CancellationToken::new();
        let done = written.clone().drop_guard();
        let (journal, till, revoked) = (self.journal.clone(), Arc::clone(&self.till), grant.revoked.clone());
        let amount = grant.amount;
        let reservation = Reservation {
            call: grant.call.clone(),
            owner: self.owner.clone(),
            bill,
            provider: ask.provider.to_owned(),
            model: ask.model,
            amount,
        };
        tokio::spawn(async move {
            match journal.reserve(reservation).await {
                Ok(balances) => {
                    if !till.learn(&limits, &balances, amount) {
                        revoked.cancel();
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "the reservation of a model call could not be stored; the call is refused");
                    revoked.cancel();
                }
            }
            let _ = failpoint::reach("meter::reserved");
            drop(done);
        });
        written
    }

    /// The end of a call: in the till at once, in the store as one step that no one waits for but the end of the turn.
    async fn end(&self, grant: Grant, call: Option<Call>) {
        let Some(open) = lock(&self.open).remove(&grant.call) else { return };
        // A reservation that is written after its settlement would stay for ever.
        open.written.cancelled().await;
        let _ = failpoint::reach("meter::answered");
        let was_answered = call.as_ref().is_some_and(|call| (200..300).contains(&call.status));
        let cost = call.as_ref().map_or(Cost::ZERO, |call| call.cost);
        let reached = self.till.give_back(&open.keys, grant.amount, cost);
        self.journal.paid(cost);
        let mut events = Vec::new();
        let mut charge = None;
        if let Some(call) = call {
            {
                let mut spent = lock(&self.spent);
                spent.usage += call.usage;
                spent.cost += call.cost;
            }
            if call.unpriced && self.is_news(&call.model) {
                let message = format!(
                    "no price is known for the model {} of {}: it is charged at the highest known price",
                    call.model, call.provider
                );
                events.push(EventBody::Warning { message });
            }
            charge = Some(Charge { owner: self.owner.clone(), bill: open.bill, usage: call.usage, cost: call.cost });
            events.push(EventBody::Usage {
                provider: call.provider,
                model: call.model,
                usage: call.usage,
                cost_usd: call.cost,
                estimated: call.estimated,
                call_id: Some(grant.call.clone()),
                duration_ms: u64::try_from(open.begun.elapsed().as_millis()).ok(),
            });
        }
        for one in &reached {
            let account = one.account.to_string();
            events.extend(one.percent.map(|percent| EventBody::BudgetReached {
                account,
                percent,
                spent_usd: one.spent,
                limit_usd: one.limit,
            }));
        }
        if was_answered {
            self.answers.send_modify(|answers| *answers = answers.saturating_add(1));
        }
        if let Some(spent) = reached.iter().find(|one| one.is_spent) {
            *lock(&self.why) = Some(is_spent_message(&name_of(&spent.account), spent.spent, spent.limit));
            self.exhausted.send_replace(true);
        }
        let call = grant.call.clone();
        let step = Step::new(self.journal.now(), events).settling(Settlement { call: grant.call, charge });
        let journal = self.journal.clone();
        self.settling.spawn(async move {
            if let Err(error) = write_settlement(&journal, &call, &step).await {
                tracing::error!(%error, "a model call could not be recorded");
            }
            let _ = failpoint::reach("meter::settled");
        });
    }
}

#[async_trait]
impl Meter for TurnMeter {
    async fn reserve(&self, ask: Ask) -> Result<Grant, Refused> {
        let day = day_of(self.journal.now());
        let (bill, limits) = (self.bill(&day), self.limits(&day));
        let keys: Vec<Key> = std::iter::once(&self.task).chain(limits.iter().map(|(key, _)| key)).cloned().collect();
        let (amount, make_sure) = self.take(&ask, &bill, &limits, &keys).await?;
        // Nothing is awaited from here on: what was taken is given back by whoever has the grant.
        let mut grant = Grant::new(CallId::generate(self.entropy.as_ref()), amount);
        let written = self.write_reservation(ask, bill.clone(), limits, &grant);
        grant.sure = make_sure.then(|| written.clone());
        lock(&self.open).insert(grant.call.clone(), Open { begun: Instant::now(), keys, bill, written });
        Ok(grant)
    }

    fn extend(&self, grant: &mut Grant, to: Cost) -> bool {
        let open = lock(&self.open);
        let Some(open) = open.get(&grant.call) else { return false };
        // A little more than is needed now, so that this is not asked for every few words.
        let most = to + Cost::from_nanos(to.nanos() / 8);
        match self.till.enlarge(&open.keys, grant.amount, to, most) {
            Some(amount) => {
                grant.amount = amount;
                true
            }
            None => {
                self.refused.store(true, Ordering::Relaxed);
                let message = "the budget was used up in the middle of an answer".to_owned();
                lock(&self.why).get_or_insert(message);
                false
            }
        }
    }

    async fn settle(&self, grant: Grant, call: Call) {
        self.end(grant, Some(call)).await;
    }

    async fn release(&self, grant: Grant) {
        self.end(grant, None).await;
    }

    fn note(&self, trouble: Trouble) {
        {
            let mut troubles = lock(&self.troubles);
            if let Some(count) = troubles.get_mut(&trouble) {
                *count += 1;
                return;
            }
            if troubles.len() >= MAX_TROUBLES {
                return;
            }
            troubles.insert(trouble.clone(), 1);
        }
        let journal = self.journal.clone();
        tokio::spawn(async move {
            if let Err(error) = journal.write(vec![event_of(trouble, 1)]).await {
                tracing::error!(%error, "trouble with a model could not be recorded");
            }
        });
    }
}

impl Drop for TurnMeter {
    fn drop(&mut self) {
        self.till.close(&self.task);
    }
}

/// Writes down what a call came to. Once the turn is someone else's, they have charged it.
async fn write_settlement(journal: &Journal, call: &CallId, step: &Step) -> Result<(), harvest_store::Error> {
    let is_it = |event: &Event| matches!(&event.body, EventBody::Usage { call_id: Some(known), .. } if known == call);
    let write = || journal.step(step.clone());
    let is_written = || async { journal.all().await.is_ok_and(|events| events.iter().any(is_it)) };
    until_written(write, is_written).await
}

/// Writes something once, again and again while the database is away: it may have been written, and only the answer lost.
async fn until_written<Writing, Looking>(
    write: impl Fn() -> Writing,
    is_written: impl Fn() -> Looking,
) -> Result<(), harvest_store::Error>
where
    Writing: Future<Output = Result<(), harvest_store::Error>>,
    Looking: Future<Output = bool>,
{
    let (until, mut pause) = (Instant::now() + SETTLING, SETTLE_AGAIN);
    loop {
        let error = match write().await {
            Err(error) if error.may_pass() && Instant::now() + pause < until => error,
            written => return written,
        };
        tracing::warn!(%error, "a model call is recorded later");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_SETTLE_AGAIN);
        if is_written().await {
            return Ok(());
        }
    }
}

/// Charges the calls that were under way when whoever worked on the task before died: at what was set aside for them, since
/// no one knows what they came to. Returns what the task has spent with them.
pub(crate) async fn charge_unsettled(journal: &Journal, task: &mut Task) -> Result<(), harvest_store::Error> {
    let unsettled = journal.unsettled().await?;
    if unsettled.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} model calls were in progress when their process died; each is charged in full with its reservation",
        unsettled.len()
    );
    let mut step = Step::new(journal.now(), vec![EventBody::Warning { message }]);
    for Reservation { call, owner, bill, provider, model, amount } in unsettled {
        task.cost_usd += amount;
        step.events.push(EventBody::Usage {
            provider,
            model,
            usage: Usage::default(),
            cost_usd: amount,
            estimated: true,
            call_id: Some(call.clone()),
            duration_ms: None,
        });
        let charge = Charge { owner, bill, usage: Usage::default(), cost: amount };
        step = step.settling(Settlement { call, charge: Some(charge) });
    }
    journal.step(step).await
}

fn event_of(trouble: Trouble, count: u64) -> EventBody {
    let Trouble { provider, model, credential, problem, remedy } = trouble;
    EventBody::ModelTrouble { provider: provider.to_owned(), model, credential, problem, remedy, count }
}

fn name_of(account: &Account) -> String {
    match account {
        Account::Task(_) => "the budget".to_owned(),
        Account::User(name) => format!("today's budget of {name}"),
        Account::Project(name) => format!("today's budget of the project {name}"),
        Account::Team(name) => format!("today's budget of the team {name}"),
        Account::Token(_) => "today's budget of the token that requested this".to_owned(),
    }
}

fn is_spent_message(name: &str, spent: Cost, limit: Cost) -> String {
    format!("{name} of {limit} is spent ({spent})")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For sandboxes that have no business with a model.
#[derive(Debug)]
pub(crate) struct NoModel;

#[async_trait]
impl Meter for NoModel {
    async fn reserve(&self, _ask: Ask) -> Result<Grant, Refused> {
        Err(Refused::new("this sandbox only runs tests; it has no model"))
    }

    async fn settle(&self, _grant: Grant, _call: Call) {}

    async fn release(&self, _grant: Grant) {}
}

#[cfg(test)]
mod tests;
