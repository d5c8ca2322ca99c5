//! Works off the queue: one claimer takes batches for the idle agents of this process, each turn runs in its own sandbox.
//!
//! The claimer is woken by the store, by an agent that got free and by the clock when a retry or a lease falls due; it never
//! asks more often than every few seconds without such a reason.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use harvest_core::{Code, Cost, FailureReason, Outcome, OwnerId, TaskId, Timestamp, TurnId};
use harvest_store::{Claim, Lease};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::{Engine, Error, Stop, Worked, guard};

const SAFETY_NET: Duration = Duration::from_secs(5);
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
}

/// What happens in the pool, for whoever watches.
#[derive(Debug, Clone)]
pub enum Notice {
    Started {
        task: TaskId,
    },
    Finished(Box<Outcome>),
    /// A person has to decide on its plan.
    AwaitsApproval {
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
    },
    /// Nothing is taken for the moment, and why.
    Holding {
        why: String,
    },
}

/// What a pool did.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    pub outcomes: Vec<Outcome>,
    /// Why it ended.
    pub ended: String,
}

#[derive(Debug)]
pub struct Pool {
    engine: Engine,
    owner: OwnerId,
    limits: Limits,
    notices: mpsc::Sender<Notice>,
    running: JoinSet<(Lease, Result<Worked, Error>)>,
    held: HashMap<TurnId, (Lease, AbortHandle)>,
    warm: VecDeque<String>,
    taken: u64,
    summary: Summary,
    agents: usize,
    /// How many agents the configuration asks for; it may change while the pool works.
    sizes: watch::Receiver<Option<usize>>,
    holding: Option<String>,
}

impl Pool {
    pub fn new(engine: Engine, owner: OwnerId, limits: Limits, notices: mpsc::Sender<Notice>) -> Self {
        let agents = limits.agents.unwrap_or_else(guard::fitting_agents);
        let sizes = watch::channel(limits.agents).1;
        Self {
            engine,
            owner,
            limits,
            notices,
            running: JoinSet::new(),
            held: HashMap::new(),
            warm: VecDeque::new(),
            taken: 0,
            summary: Summary::default(),
            agents,
            sizes,
            holding: None,
        }
    }

    /// Follows `sizes` instead of a fixed number of agents.
    pub fn sized_by(mut self, sizes: watch::Receiver<Option<usize>>) -> Self {
        self.agents = sizes.borrow().unwrap_or(self.agents);
        self.sizes = sizes;
        self
    }

    /// Works until `drain` is requested or a limit is reached, then waits for what is under way.
    pub async fn run(mut self, drain: Stop) -> Result<Summary, Error> {
        let store = self.engine.store().clone();
        let begun = Instant::now();
        let beat = (self.limits.lease / 3).max(Duration::from_millis(100));
        let mut next_beat = Instant::now() + beat;
        let mut queue = store.watch_queue();
        loop {
            queue.mark_unchanged();
            self.resize().await?;
            let reclaimed = store.reclaim(self.now()).await?;
            let ended = self.end(begun, &drain);
            if ended.is_none() {
                self.claim().await?;
            }
            if self.running.is_empty() {
                if let Some(why) = ended {
                    self.summary.ended = why;
                    return Ok(self.summary);
                }
                if self.limits.until_empty && self.holding.is_none() && self.is_empty().await? {
                    self.summary.ended = "the queue is empty".to_owned();
                    return Ok(self.summary);
                }
            }
            let due = reclaimed.next_due.map(|due| self.until(due)).unwrap_or(SAFETY_NET).min(SAFETY_NET);
            tokio::select! {
                Some(joined) = self.running.join_next() => {
                    self.settle(joined).await?;
                    // Agents get free in groups: one claim for all of them.
                    while let Some(joined) = self.running.try_join_next() {
                        self.settle(joined).await?;
                    }
                }
                _ = queue.changed() => {}
                Ok(()) = self.sizes.changed() => {}
                () = drain.requested(), if !drain.is_requested() => {}
                () = tokio::time::sleep_until(next_beat) => {
                    next_beat = Instant::now() + beat;
                    self.heartbeat().await?;
                }
                () = tokio::time::sleep(due) => {}
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.engine.options.clock.now()
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
            return Some(format!("{} tasks were taken", self.taken));
        }
        if self.limits.time.is_some_and(|most| begun.elapsed() >= most) {
            return Some("the time is up".to_owned());
        }
        let spent: Cost = self.summary.outcomes.iter().map(|outcome| outcome.cost_usd).sum();
        if self.limits.cost.is_some_and(|most| spent >= most) {
            return Some(format!("{spent} are spent"));
        }
        None
    }

    async fn resize(&mut self) -> Result<(), Error> {
        let settings = self.engine.store().queue_settings().await?;
        let configured = settings.agents.map(|agents| agents as usize).or(*self.sizes.borrow_and_update());
        let fitting = || guard::fitting_agents().min(self.limits.model_calls.unwrap_or(usize::MAX));
        let agents = configured.unwrap_or_else(fitting);
        self.engine.vitals().sized(agents);
        if agents != self.agents {
            self.agents = agents;
            self.notify(Notice::Resized { agents }).await;
        }
        let why = if settings.paused { Some("the queue is paused".to_owned()) } else { None };
        self.hold(
            why.or_else(|| {
                guard::refuse(self.engine.options.data.path()).map(|why| format!("{why} ({})", Code::Guard))
            }),
        )
        .await;
        Ok(())
    }

    async fn hold(&mut self, why: Option<String>) {
        if why != self.holding {
            if let Some(why) = &why {
                self.notify(Notice::Holding { why: why.clone() }).await;
            }
            self.holding = why;
        }
    }

    async fn claim(&mut self) -> Result<(), Error> {
        let mut idle = self.agents.saturating_sub(self.running.len());
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
        for lease in self.engine.store().claim(claim).await? {
            self.start(lease).await;
        }
        Ok(())
    }

    async fn start(&mut self, lease: Lease) {
        self.taken += 1;
        self.notify(Notice::Started { task: lease.task.clone() }).await;
        let (engine, owner, claimed) = (self.engine.clone(), self.owner.clone(), lease.clone());
        let stop = engine.stop_of(&lease.task);
        let running = self.running.spawn(async move {
            let worked = engine.work(&owner, claimed.clone(), stop).await;
            (claimed, worked)
        });
        self.held.insert(lease.turn.clone(), (lease, running));
    }

    async fn settle(
        &mut self,
        joined: Result<(Lease, Result<Worked, Error>), tokio::task::JoinError>,
    ) -> Result<(), Error> {
        // A cancelled one was lost, and is seen to where that was noticed.
        let Ok((lease, worked)) = joined else { return Ok(()) };
        self.held.remove(&lease.turn);
        self.engine.forget_stop(&lease.task);
        match worked {
            Ok(Worked::Finished(outcome)) => {
                self.remember(&lease.task).await;
                self.summary.outcomes.push(outcome.as_ref().clone());
                self.notify(Notice::Finished(outcome)).await;
            }
            Ok(Worked::AwaitsApproval) => self.notify(Notice::AwaitsApproval { task: lease.task }).await,
            Ok(Worked::WillRetry { reason, error, due }) => {
                self.notify(Notice::WillRetry { task: lease.task, reason, error, due }).await;
            }
            Err(Error::Store(harvest_store::Error::StaleLease { .. })) => {
                self.engine.clear_session(&self.owner, &lease.session).await?;
                self.notify(Notice::Lost { task: lease.task }).await;
            }
            Err(error) => {
                let text = crate::error::chain(&error);
                self.engine.clear_session(&self.owner, &lease.session).await?;
                self.notify(Notice::Broken { task: lease.task, error: text }).await;
            }
        }
        Ok(())
    }

    async fn remember(&mut self, task: &TaskId) {
        let Ok(detail) = self.engine.store().task(task).await else { return };
        let repository = detail.task.repository;
        self.warm.retain(|known| *known != repository);
        self.warm.push_front(repository);
        self.warm.truncate(WARM);
    }

    /// Keeps what is ours and lets go of what someone else has taken.
    async fn heartbeat(&mut self) -> Result<(), Error> {
        let ours = self.engine.store().heartbeat(&self.owner, self.lease_end()).await?;
        let lost: Vec<TurnId> = self
            .held
            .iter()
            .filter(|(turn, (lease, _))| !ours.iter().any(|kept| kept.turn == **turn && kept.fence == lease.fence))
            .map(|(turn, _)| turn.clone())
            .collect();
        for turn in lost {
            let Some((lease, running)) = self.held.remove(&turn) else { continue };
            if running.is_finished() {
                continue;
            }
            running.abort();
            self.engine.clear_session(&self.owner, &lease.session).await?;
            self.notify(Notice::Lost { task: lease.task }).await;
        }
        Ok(())
    }

    /// Nothing is left that could be worked on, here or elsewhere. What waits for a failed task waits for a person.
    async fn is_empty(&self) -> Result<bool, Error> {
        let turns = self.engine.store().queue().await?.turns;
        Ok(turns.ready + turns.waiting + turns.parked + turns.claimed == 0)
    }

    async fn notify(&self, notice: Notice) {
        // Whoever watches may have left; the work goes on.
        let _ = self.notices.send(notice).await;
    }
}
