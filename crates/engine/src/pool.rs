//! Works off the queue: one claimer takes batches for the idle agents of this process, each turn runs in its own sandbox.
//!
//! The claimer is woken by the store, by an agent that got free and by the clock when a retry or a lease falls due; it never
//! asks more often than every few seconds without such a reason.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use harvest_core::{Cost, FailureReason, Outcome, OwnerId, SessionId, TaskId, TaskStatus, Timestamp, TurnId};
use harvest_store::{Claim, Lease, TurnCounts};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::breaker::{Allowed, Breaker};
use crate::notices::Later;
use crate::workshop::Workshop;
use crate::{Breaking, Engine, Error, Stop, Worked, guard};

const SAFETY_NET: Duration = Duration::from_secs(5);
/// How long to wait for a database that gives trouble, at first.
const SHORTEST_TROUBLE: Duration = Duration::from_millis(200);
/// Repositories remembered as warm.
const WARM: usize = 8;

/// When to stop taking work.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// Agents side by side; `None`: as many as fit.
    pub agents: Option<usize>,
    /// End when nothing is left that could be worked on.
    pub until_empty: bool,
    pub tasks: Option<u64>,
    pub time: Option<Duration>,
    pub cost: Option<Cost>,
    /// Calls that the models' vendors take at a time: no more agents than that, unless a number is given.
    pub model_calls: Option<usize>,
    /// How long a turn may go without a heartbeat before others take it.
    pub lease: Duration,
    /// When to stop taking work because the same goes wrong again and again.
    pub breaking: Breaking,
}

/// What happens in the pool, for whoever watches.
#[derive(Debug, Clone)]
pub enum Notice {
    Started {
        task: TaskId,
    },
    /// A worker before this one was lost; its agent goes on.
    TakenOver {
        task: TaskId,
    },
    Finished(Box<Outcome>),
    /// A person has to decide on its plan.
    AwaitsApproval {
        task: TaskId,
    },
    /// It goes on when someone resumes it.
    Interrupted {
        task: TaskId,
    },
    /// It waits for the verdict of a race, and is left to the next worker.
    LetGo {
        task: TaskId,
    },
    WillRetry {
        task: TaskId,
        reason: FailureReason,
        error: String,
        due: Timestamp,
    },
    /// Someone else took the turn: this process was thought dead.
    Lost {
        task: TaskId,
    },
    Broken {
        task: TaskId,
        error: String,
    },
    Resized {
        agents: usize,
        /// By `harvest queue resize`, which goes before what the worker was started with.
        is_set: bool,
    },
    /// Nothing is taken for the moment, and why.
    Holding {
        why: String,
    },
    /// Nothing is left to take, and the pool ends when these have ended.
    WaitsForOthers {
        /// The tasks that other processes work on.
        tasks: Vec<TaskId>,
    },
    /// Nothing is left to take before a task is tried again.
    WaitsForRetry {
        due: Timestamp,
    },
}

/// What a pool did. Sums and no list: it may work for weeks.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    pub completed: u64,
    pub failed: u64,
    /// With those that were cancelled while they waited, by a person or because of what they waited for.
    pub cancelled: u64,
    /// Tasks that are left because they wait for one that did not complete.
    pub blocked: u64,
    /// Tasks that wait for a person to approve what they propose.
    pub awaiting_approval: u64,
    /// Tasks that continue when someone resumes them.
    pub interrupted: u64,
    /// What the model calls of this worker have cost while it worked.
    pub spent: Cost,
    /// Why it ended.
    pub ended: String,
}

impl Summary {
    fn count(&mut self, outcome: &Outcome) {
        match outcome.status {
            TaskStatus::Completed => self.completed += 1,
            TaskStatus::Cancelled => self.cancelled += 1,
            _ => self.failed += 1,
        }
    }
}

#[derive(Debug)]
pub struct Pool<W = Engine> {
    workshop: W,
    owner: OwnerId,
    limits: Limits,
    notices: mpsc::Sender<Notice>,
    running: JoinSet<(Lease, Result<Worked, Error>)>,
    held: BTreeMap<TurnId, (Lease, AbortHandle)>,
    warm: VecDeque<String>,
    taken: u64,
    summary: Summary,
    /// What this process had spent before.
    spent_before: Cost,
    /// How many tasks of the queue were cancelled before; `None` until it was asked.
    cancelled_before: Option<u64>,
    agents: usize,
    /// How many agents the configuration asks for; it may change while the pool works.
    sizes: watch::Receiver<Option<usize>>,
    holding: Option<String>,
    /// It was told what the pool waits for although it has nothing to do.
    has_told_wait: bool,
    breaker: Breaker,
    /// Turns that nothing more can be done for here.
    broken: BTreeSet<TurnId>,
    /// Sessions whose turns could not go on for the database's sake.
    cut_off: Vec<SessionId>,
    /// How long to wait for the database, while it gives trouble.
    trouble: Option<Duration>,
    /// When the first of the leases would run out.
    leased_until: Timestamp,
    /// Notices that wait for the ends of turns that the store knows of already.
    later: Later<Notice>,
}

/// What a look at the queue came to.
enum Round {
    Ended,
    /// Look again at the latest after this long.
    Next(Duration),
}

impl<W: Workshop> Pool<W> {
    pub fn new(workshop: W, owner: OwnerId, limits: Limits, notices: mpsc::Sender<Notice>) -> Self {
        let agents = limits.agents.unwrap_or_else(guard::fitting_agents);
        let sizes = watch::channel(limits.agents).1;
        let breaker = Breaker::new(limits.breaking);
        let spent_before = workshop.spent();
        Self {
            workshop,
            spent_before,
            cancelled_before: None,
            owner,
            limits,
            notices,
            running: JoinSet::new(),
            held: BTreeMap::new(),
            warm: VecDeque::new(),
            taken: 0,
            summary: Summary::default(),
            agents,
            sizes,
            holding: None,
            has_told_wait: false,
            breaker,
            broken: BTreeSet::new(),
            cut_off: Vec::new(),
            trouble: None,
            leased_until: Timestamp::MAX,
            later: Later::new(),
        }
    }

    /// Follows `sizes` instead of a fixed number of agents.
    pub fn sized_by(mut self, sizes: watch::Receiver<Option<usize>>) -> Self {
        self.agents = sizes.borrow().unwrap_or(self.agents);
        self.sizes = sizes;
        self
    }

    /// Takes over the agents that a dead worker of this data directory has left at work, however many there are.
    pub async fn take_over(&mut self) -> Result<(), Error> {
        let inherited = self.workshop.inherit(&self.owner).await?;
        self.go_on_with(inherited).await
    }

    async fn go_on_with(&mut self, turns: Vec<W::Left>) -> Result<(), Error> {
        if turns.is_empty() {
            return Ok(());
        }
        let mut tasks = Vec::new();
        for turn in turns {
            let (workshop, owner, lease) = (self.workshop.clone(), self.owner.clone(), W::lease_of(&turn).clone());
            tasks.push(lease.task.clone());
            let (stop, claimed) = (workshop.stop_of(&lease), lease.clone());
            let running = self.running.spawn(async move {
                let worked = workshop.rejoin(&owner, turn, stop).await;
                (claimed, worked)
            });
            self.held.insert(lease.turn.clone(), (lease, running));
        }
        // From here on it is this process that is waited for.
        let until = self.lease_end();
        self.workshop.heartbeat(&self.owner, until).await?;
        self.leased_until = until;
        for task in tasks {
            self.notify(Notice::TakenOver { task }).await;
        }
        Ok(())
    }

    /// Works until `drain` is requested or a limit is reached, then waits for what is under way.
    pub async fn run(mut self, drain: Stop) -> Result<Summary, Error> {
        let begun = Instant::now();
        let beat = (self.limits.lease / 3).max(Duration::from_millis(100));
        let mut next_beat = Instant::now() + beat;
        let mut queue = self.workshop.watch_queue();
        loop {
            queue.mark_unchanged();
            let round = self.round(begun, &drain).await;
            let due = match self.or_wait(round).await? {
                Some(Round::Ended) => {
                    self.count_the_rest().await;
                    return Ok(self.summary);
                }
                Some(Round::Next(due)) => due,
                None => self.trouble.unwrap_or(SAFETY_NET),
            };
            let finish = self.workshop.finish().clone();
            // In this order: whatever else goes on, the leases are kept.
            let met = tokio::select! {
                biased;
                () = tokio::time::sleep_until(next_beat) => {
                    next_beat = Instant::now() + beat;
                    self.beat(&drain).await
                }
                Some(joined) = self.running.join_next() => self.settle_all(joined).await,
                // While there is trouble only the clock helps.
                _ = queue.changed(), if self.trouble.is_none() => Ok(()),
                Ok(()) = self.sizes.changed() => Ok(()),
                () = finish.changed() => Ok(()),
                () = drain.requested(), if !drain.is_requested() => Ok(()),
                () = tokio::time::sleep(due) => Ok(()),
            };
            self.or_wait(met).await?;
        }
    }

    /// Counts what ended, or is left, without this pool having worked on it. The work is done: a database that is away now is
    /// not waited for.
    async fn count_the_rest(&mut self) {
        let Ok(counts) = self.workshop.counts().await else { return };
        self.summary.blocked = counts.turns.blocked;
        if let Some(before) = self.cancelled_before {
            self.summary.cancelled = self.summary.cancelled.max(counts.cancelled.saturating_sub(before));
        }
    }

    /// Looks at the queue and takes what there is to take.
    async fn round(&mut self, begun: Instant, drain: &Stop) -> Result<Round, Error> {
        if self.trouble.is_some() || self.now() >= self.leased_until {
            // First of all: nobody beat while the database was away, this process slept or the clock jumped, and a look at leases
            // would find its own.
            self.heartbeat().await?;
        }
        if !self.cut_off.is_empty() {
            let turns = self.workshop.retake(&self.owner, &self.cut_off).await?;
            self.cut_off.clear();
            self.go_on_with(turns).await?;
        }
        if self.cancelled_before.is_none() {
            self.cancelled_before = Some(self.workshop.counts().await?.cancelled);
        }
        self.resize().await?;
        self.summary.spent = self.workshop.spent() - self.spent_before;
        let reclaimed = self.workshop.reclaim().await?;
        let ended = self.end(begun, drain);
        if ended.is_none() {
            self.claim().await?;
        }
        // Nobody here could bring about the verdict that those are waiting for.
        let finish = self.workshop.finish();
        finish.leave(ended.is_some() && !self.running.is_empty() && finish.waiting() >= self.running.len());
        if self.running.is_empty() {
            if let Some(why) = ended {
                self.summary.ended = why;
                return Ok(Round::Ended);
            }
            if self.limits.until_empty {
                let turns = self.workshop.counts().await?.turns;
                if is_empty(&turns) {
                    self.summary.ended = "the queue is empty".to_owned();
                    return Ok(Round::Ended);
                }
                self.tell_wait(&turns, reclaimed.next_due).await?;
            }
        }
        self.trouble = None;
        let mut due = reclaimed.next_due.map(|due| self.until(due)).unwrap_or(SAFETY_NET).min(SAFETY_NET);
        if let Allowed::Nothing { until: Some(until), .. } = self.breaker.allows(Instant::now()) {
            due = due.min(until.saturating_duration_since(Instant::now()));
        }
        Ok(Round::Next(due))
    }

    /// A database that is away, or has no room, comes back: nothing is given up for it.
    async fn or_wait<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, Error> {
        match result {
            Ok(done) => Ok(Some(done)),
            Err(Error::Store(error)) if error.may_pass() => {
                let patience = self.trouble.map_or(SHORTEST_TROUBLE, |patience| (patience * 2).min(SAFETY_NET));
                self.trouble = Some(patience);
                let why = format!("{} ({})", crate::error::chain(&error), error.code());
                self.hold(Some(why)).await;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn settle_all(
        &mut self,
        joined: Result<(Lease, Result<Worked, Error>), tokio::task::JoinError>,
    ) -> Result<(), Error> {
        self.settle(joined).await?;
        // Agents get free in groups: one claim for all of them.
        while let Some(joined) = self.running.try_join_next() {
            self.settle(joined).await?;
        }
        Ok(())
    }

    async fn beat(&mut self, drain: &Stop) -> Result<(), Error> {
        self.heartbeat().await?;
        if !drain.is_requested() {
            self.take_over().await?;
        }
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.workshop.now()
    }

    fn until(&self, due: Timestamp) -> Duration {
        Duration::try_from(due.duration_since(self.now())).unwrap_or(Duration::ZERO)
    }

    fn lease_end(&self) -> Timestamp {
        self.now().saturating_add(self.limits.lease).unwrap_or(Timestamp::MAX)
    }

    /// Why nothing more is taken, if so.
    fn end(&self, begun: Instant, drain: &Stop) -> Option<String> {
        if drain.is_requested() {
            return Some("asked to stop".to_owned());
        }
        if self.limits.tasks.is_some_and(|most| self.taken >= most) {
            let tasks = if self.taken == 1 {
                "1 task was taken".to_owned()
            } else {
                format!("{} tasks were taken", self.taken)
            };
            return Some(tasks);
        }
        if self.limits.time.is_some_and(|most| begun.elapsed() >= most) {
            return Some("the time is up".to_owned());
        }
        let spent = self.summary.spent;
        if self.limits.cost.is_some_and(|most| spent >= most) {
            return Some(format!("{spent} are spent"));
        }
        None
    }

    async fn resize(&mut self) -> Result<(), Error> {
        let settings = self.workshop.queue_settings().await?;
        let configured = settings.agents.map(|agents| agents as usize).or(*self.sizes.borrow_and_update());
        let fitting = || guard::fitting_agents().min(self.limits.model_calls.unwrap_or(usize::MAX));
        let agents = configured.unwrap_or_else(fitting);
        self.workshop.sized(agents);
        if agents != self.agents {
            self.agents = agents;
            self.notify(Notice::Resized { agents, is_set: settings.agents.is_some() }).await;
        }
        let paused = || settings.paused.then(|| "the queue is paused; `harvest queue resume` continues it".to_owned());
        let no_room = || self.workshop.no_room();
        let broken = || match self.breaker.allows(Instant::now()) {
            Allowed::Nothing { why, .. } => Some(why),
            Allowed::Any | Allowed::One => None,
        };
        let why = paused().or_else(no_room).or_else(broken);
        self.hold(why).await;
        Ok(())
    }

    async fn hold(&mut self, why: Option<String>) {
        if why != self.holding {
            if let Some(why) = &why {
                self.notify(Notice::Holding { why: why.clone() }).await;
            }
            self.workshop.hold(&self.owner, why.clone()).await;
            self.holding = why;
        }
    }

    async fn claim(&mut self) -> Result<(), Error> {
        let at_work = self.running.len().saturating_sub(self.workshop.finish().waiting());
        let mut idle = self.agents.saturating_sub(at_work);
        if self.breaker.allows(Instant::now()) == Allowed::One {
            idle = idle.min(1);
        }
        if let Some(most) = self.limits.tasks {
            idle = idle.min(usize::try_from(most.saturating_sub(self.taken)).unwrap_or(usize::MAX));
        }
        if idle == 0 || self.holding.is_some() {
            return Ok(());
        }
        let claim = Claim {
            owner: self.owner.clone(),
            turn: None,
            most: idle,
            warm: self.warm.iter().cloned().collect(),
            at: self.now(),
            until: Some(self.lease_end()),
        };
        let until = claim.until.unwrap_or(Timestamp::MAX);
        let leases = self.workshop.claim(claim).await?;
        let held: Vec<TurnId> = self.held.keys().cloned().collect();
        let started: Vec<TaskId> = leases.iter().map(|lease| lease.task.clone()).collect();
        for lease in leases {
            self.leased_until = self.leased_until.min(until);
            self.breaker.took();
            self.start(lease);
        }
        if !started.is_empty() && !held.is_empty() {
            self.expect_ends(held).await;
        }
        for task in started {
            self.notify(Notice::Started { task }).await;
        }
        Ok(())
    }

    /// An end in the store lets the next turn be claimed, perhaps before the task that worked on it has been joined.
    async fn expect_ends(&mut self, held: Vec<TurnId>) {
        // The work goes on without this answer; only the order of what is told may suffer.
        let Ok(working) = self.workshop.turns_of(&self.owner).await else { return };
        let has_ended = |turn: &TurnId| !working.iter().any(|lease| lease.turn == *turn);
        held.into_iter().filter(has_ended).for_each(|turn| self.later.expect_end(turn));
    }

    fn start(&mut self, lease: Lease) {
        self.taken += 1;
        let (workshop, owner, claimed) = (self.workshop.clone(), self.owner.clone(), lease.clone());
        let stop = workshop.stop_of(&lease);
        let running = self.running.spawn(async move {
            let worked = workshop.work(&owner, claimed.clone(), stop).await;
            (claimed, worked)
        });
        self.held.insert(lease.turn.clone(), (lease, running));
    }

    async fn settle(
        &mut self,
        joined: Result<(Lease, Result<Worked, Error>), tokio::task::JoinError>,
    ) -> Result<(), Error> {
        // A cancelled one was lost, and is seen to where that was noticed.
        let Ok((lease, worked)) = joined else {
            self.later.forget_ends();
            self.tell_later().await;
            return Ok(());
        };
        self.held.remove(&lease.turn);
        self.workshop.forget_stop(&lease);
        self.learn(&worked);
        // What comes of it is told before whatever waits for that.
        let after = self.later.split_at_end(&lease.turn);
        self.tell_end(lease, worked).await;
        self.later.rejoin(after);
        self.tell_later().await;
        Ok(())
    }

    /// Tells what waited, up to the next end that is not known yet.
    async fn tell_later(&mut self) {
        while let Some(notice) = self.later.pop() {
            // Whoever watches may have left; the work goes on.
            let _ = self.notices.send(notice).await;
        }
    }

    async fn tell_end(&mut self, lease: Lease, worked: Result<Worked, Error>) {
        match worked {
            Ok(Worked::Finished(outcome)) => {
                self.remember(&lease.task).await;
                self.summary.count(&outcome);
                self.notify(Notice::Finished(outcome)).await;
            }
            Ok(Worked::AwaitsApproval) => {
                self.summary.awaiting_approval += 1;
                self.notify(Notice::AwaitsApproval { task: lease.task }).await;
            }
            Ok(Worked::Interrupted) => {
                self.summary.interrupted += 1;
                self.notify(Notice::Interrupted { task: lease.task }).await;
            }
            Ok(Worked::LetGo) => self.notify(Notice::LetGo { task: lease.task }).await,
            Ok(Worked::WillRetry { reason, error, due }) => {
                self.notify(Notice::WillRetry { task: lease.task, reason, error, due }).await;
            }
            Err(Error::Store(harvest_store::Error::StaleLease { .. })) => {
                self.clear(&lease.session).await;
                self.notify(Notice::Lost { task: lease.task }).await;
            }
            Err(Error::Store(error)) if error.may_pass() => {
                let error = format!("{}; it continues when that has passed", crate::error::chain(&error));
                self.cut_off.push(lease.session);
                self.notify(Notice::Broken { task: lease.task, error }).await;
            }
            Err(error) => self.break_down(lease, &error).await,
        }
    }

    /// The work on a turn broke down: it is given back, so that it does not stay with someone who does nothing for it.
    async fn break_down(&mut self, lease: Lease, error: &Error) {
        let mut text = crate::error::chain(error);
        self.clear(&lease.session).await;
        match self.workshop.break_down(&lease, error).await {
            Ok(Worked::Finished(outcome)) => {
                self.summary.count(&outcome);
                return self.notify(Notice::Finished(outcome)).await;
            }
            Ok(_) => text = format!("{text}; trying again"),
            Err(Error::Store(harvest_store::Error::StaleLease { .. })) => {
                return self.notify(Notice::Lost { task: lease.task }).await;
            }
            Err(Error::Store(error)) if error.may_pass() => self.cut_off.push(lease.session),
            Err(error) => {
                tracing::error!(task = %lease.task, %error, "a turn could not be returned to the queue");
                self.broken.insert(lease.turn);
            }
        }
        self.notify(Notice::Broken { task: lease.task, error: text }).await;
    }

    /// A sandbox that cannot be removed now is removed by whoever tidies up after this worker; the others go on.
    async fn clear(&self, session: &SessionId) {
        if let Err(error) = self.workshop.clear_session(&self.owner, session).await {
            tracing::warn!(%session, %error, "what is left of a session could not be removed");
        }
    }

    /// What an end says about the next.
    fn learn(&mut self, worked: &Result<Worked, Error>) {
        let failure = match worked {
            Ok(Worked::Finished(outcome)) => {
                outcome.reason.map(|reason| (reason, outcome.error.clone().unwrap_or_default()))
            }
            Ok(Worked::WillRetry { reason, error, .. }) => Some((*reason, error.clone())),
            Ok(Worked::AwaitsApproval) => None,
            Ok(Worked::Interrupted) => Some((FailureReason::Interrupted, String::new())),
            Ok(Worked::LetGo) | Err(_) => return,
        };
        let failure = failure.as_ref().map(|(reason, error)| (*reason, error.as_str()));
        self.breaker.ended(Instant::now(), failure);
    }

    async fn remember(&mut self, task: &TaskId) {
        let Some(repository) = self.workshop.repository_of(task).await else { return };
        self.warm.retain(|known| *known != repository);
        self.warm.push_front(repository);
        self.warm.truncate(WARM);
    }

    /// Keeps what is ours and lets go of what someone else has taken.
    async fn heartbeat(&mut self) -> Result<(), Error> {
        let until = self.lease_end();
        let ours = self.workshop.heartbeat(&self.owner, until).await?;
        self.leased_until = until;
        // A claim whose answer was lost: it is ours, and nobody works on it.
        for lease in ours.iter().filter(|lease| !self.held.contains_key(&lease.turn)) {
            if !self.cut_off.contains(&lease.session) && !self.broken.contains(&lease.turn) {
                self.cut_off.push(lease.session.clone());
            }
        }
        let lost: Vec<TurnId> = self
            .held
            .iter()
            .filter(|(turn, (lease, _))| !ours.iter().any(|kept| kept.turn == **turn && kept.fence == lease.fence))
            .map(|(turn, _)| turn.clone())
            .collect();
        for turn in lost {
            let Some((lease, running)) = self.held.get(&turn).cloned() else { continue };
            // What came of it is in the store, and its worker about to come back with it.
            if running.is_finished() || self.workshop.was_given_back(&lease).await? {
                continue;
            }
            self.held.remove(&turn);
            running.abort();
            self.workshop.forget_stop(&lease);
            self.clear(&lease.session).await;
            self.later.forget_end(&turn);
            self.notify(Notice::Lost { task: lease.task }).await;
        }
        self.tell_later().await;
        Ok(())
    }

    /// Tells once what the pool waits for while it has nothing to do. Retries of its own were told when they were put off.
    async fn tell_wait(&mut self, turns: &TurnCounts, next_due: Option<Timestamp>) -> Result<(), Error> {
        if self.has_told_wait || turns.ready > 0 {
            return Ok(());
        }
        let tasks = if turns.claimed > 0 { self.workshop.tasks_of_others(&self.owner).await? } else { Vec::new() };
        let notice = match next_due {
            _ if !tasks.is_empty() => Notice::WaitsForOthers { tasks },
            Some(due) if self.taken == 0 => Notice::WaitsForRetry { due },
            _ => return Ok(()),
        };
        self.has_told_wait = true;
        self.notify(notice).await;
        Ok(())
    }

    async fn notify(&mut self, notice: Notice) {
        self.later.push(notice);
        self.tell_later().await;
    }
}

/// Nothing is left that could be worked on, here or elsewhere. What waits for a failed task waits for a person.
fn is_empty(turns: &TurnCounts) -> bool {
    turns.ready + turns.waiting + turns.parked + turns.claimed == 0
}
