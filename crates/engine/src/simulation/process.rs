//! A process of the simulation: the real pool, with hands that only pretend to work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use harvest_core::{FailureReason, Outcome, OwnerId, SessionId, TaskId, TaskStatus, Timestamp};
use harvest_store::{Claim, Lease, QueueSettings, Reclaimed, TurnCounts};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep};

use super::books::{Agent, Books, Entry, Row, STEPS, State, World, session_of, turn_of};
use crate::race::Finish;
use crate::workshop::{QueueCounts, Workshop};
use crate::{Error, Limits, Pool, Stop, Worked};

const LEASE: Duration = Duration::from_secs(6);

#[derive(Debug, Clone)]
pub(super) struct Shop {
    world: Arc<World>,
    owner: OwnerId,
    finish: Arc<Finish>,
    /// It sleeps, and so does everything it waits for.
    pub(super) frozen: Arc<AtomicBool>,
    thawed: Arc<Notify>,
    pub(super) skew_ms: Arc<AtomicI64>,
}

impl Shop {
    pub(super) fn open(world: &Arc<World>, number: usize) -> Self {
        let owner: OwnerId = {
            let mut books = world.books();
            books.made += 1;
            let owner: OwnerId = format!("{number}{:015}", books.made).parse().unwrap();
            books.owners.insert(owner.clone(), true);
            owner
        };
        let (frozen, skew_ms) = (Arc::default(), Arc::default());
        Self { world: world.clone(), owner, finish: Arc::default(), frozen, thawed: Arc::default(), skew_ms }
    }

    pub(super) fn thaw(&self) {
        self.frozen.store(false, Ordering::Relaxed);
        self.thawed.notify_waiters();
    }

    /// The kernel has let go of its lock.
    pub(super) fn is_dead(&self) {
        let mut books = self.world.books();
        if let Some(lives) = books.owners.get_mut(&self.owner) {
            *lives = false;
        }
        let has_left = books.agents.iter().any(|agent| agent.owner == self.owner);
        if !has_left && books.claimed_by(&self.owner).is_empty() {
            books.owners.remove(&self.owner);
        }
    }

    /// As `harvest up`: takes over, clears up, works until nothing is left.
    pub(super) async fn run(self) {
        loop {
            let limits = Limits { agents: Some(2), until_empty: true, lease: LEASE, ..Limits::default() };
            // Nobody watches.
            let notices = mpsc::channel(1).0;
            let mut pool = Pool::new(self.clone(), self.owner.clone(), limits, notices);
            let begun = async {
                pool.take_over().await?;
                self.recover().await
            };
            match begun.await {
                Ok(()) => {}
                // A command that cannot begin is begun again by whoever watches over it.
                Err(_) => {
                    sleep(Duration::from_secs(1)).await;
                    continue;
                }
            }
            if pool.run(Stop::default()).await.is_ok() {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// What dead processes have left that nobody can take over is removed, and their turns are anyone's.
    pub(super) async fn recover(&self) -> Result<(), Error> {
        self.call(|books| {
            let dead: Vec<OwnerId> =
                books.owners.iter().filter(|(_, lives)| !**lives).map(|(id, _)| id.clone()).collect();
            for owner in dead {
                books.agents.retain(|agent| agent.owner != owner);
                let turns = books.claimed_by(&owner);
                books.hand_over(&turns, None);
                books.owners.remove(&owner);
            }
            Ok(())
        })
        .await?;
        self.wake();
        Ok(())
    }

    fn wake(&self) {
        self.world.wake.send_modify(|count| *count += 1);
    }

    async fn pause(&self) {
        sleep(Duration::from_millis(self.world.below(40))).await;
        while self.frozen.load(Ordering::Relaxed) {
            self.thawed.notified().await;
        }
    }

    /// Something asked of the books. The request may be lost, or the answer; either way the same error.
    async fn call<T>(&self, ask: impl FnOnce(&mut Books) -> Result<T, harvest_store::Error>) -> Result<T, Error> {
        let lost =
            || harvest_store::Error::Unreachable { place: "the simulation".into(), source: "it was lost".into() };
        self.pause().await;
        if self.world.is_away.load(Ordering::Relaxed) || self.world.bad_luck(60) {
            return Err(lost().into());
        }
        let answer = ask(&mut self.world.books());
        self.pause().await;
        if self.world.bad_luck(60) {
            return Err(lost().into());
        }
        Ok(answer?)
    }

    async fn write(&self, lease: &Lease, entry: Entry) -> Result<(), Error> {
        let now = self.now();
        self.call(|books| {
            let row = books.held(lease)?;
            row.journal.push(entry);
            match entry {
                Entry::Ended => row.state = State::Done,
                Entry::Retried => {
                    row.state = State::Waiting;
                    row.due = now.saturating_add(Duration::from_secs(5)).unwrap_or(Timestamp::MAX);
                }
                _ => {}
            }
            if row.state != State::Claimed {
                row.owner = None;
            }
            Ok(())
        })
        .await?;
        if matches!(entry, Entry::Ended | Entry::Retried) {
            self.wake();
        }
        Ok(())
    }

    /// The stages of a turn: each looks whether its outcome is written down, and does the work if not.
    async fn drive(&self, lease: Lease, agent: Option<u64>) -> Result<Worked, Error> {
        if !self.call(|books| Ok(books.held(&lease)?.has(Entry::Executed))).await? {
            if self.execute(&lease, agent).await? {
                self.write(&lease, Entry::Executed).await?;
            } else {
                self.write(&lease, Entry::Retried).await?;
                return Ok(Worked::WillRetry { reason: FailureReason::Agent, error: String::new(), due: self.now() });
            }
        }
        if self.world.bad_luck(40) {
            return Err(Error::Failpoint("simulation"));
        }
        if !self.call(|books| Ok(books.held(&lease)?.has(Entry::Delivered))).await? {
            // The fence is asked right before, and the branch moves only from where the session last left it.
            self.call(|books| books.held(&lease).map(drop)).await?;
            self.pause().await;
            {
                let mut books = self.world.books();
                if let Some(row) = books.turns.get_mut(&lease.turn)
                    && row.moved == 0
                {
                    row.moved = 1;
                }
            }
            self.write(&lease, Entry::Delivered).await?;
        }
        self.write(&lease, Entry::Ended).await?;
        Ok(Worked::Finished(Box::new(outcome(&lease))))
    }

    /// True when its agent did all that it had to.
    async fn execute(&self, lease: &Lease, agent: Option<u64>) -> Result<bool, Error> {
        let mut agent = match agent {
            Some(agent) => agent,
            None => self.make_agent(lease).await?,
        };
        loop {
            sleep(Duration::from_millis(100 + self.world.below(2000))).await;
            let is_alive = self.world.books().agents.iter().any(|known| known.number == agent);
            if !is_alive {
                agent = self.make_agent(lease).await?;
            }
            let done = self.call(|books| Ok(books.held(lease)?.steps())).await?;
            if done == STEPS {
                break;
            }
            self.write(lease, Entry::Step(done + 1)).await?;
            if self.world.bad_luck(40) {
                self.end_agent(agent);
                return Ok(false);
            }
        }
        self.end_agent(agent);
        Ok(true)
    }

    /// Recorded before it is there.
    async fn make_agent(&self, lease: &Lease) -> Result<u64, Error> {
        self.call(|books| {
            books.made += 1;
            let (number, owner) = (books.made, self.owner.clone());
            books.agents.push(Agent { number, turn: lease.turn.clone(), owner });
            Ok(number)
        })
        .await
    }

    fn end_agent(&self, agent: u64) {
        self.world.books().agents.retain(|known| known.number != agent);
    }

    /// Turns with an agent that is alive, to go on with.
    fn with_agents(books: &Books, leases: Vec<Lease>, owner: &OwnerId) -> Vec<(Lease, Option<u64>)> {
        let agent_of =
            |lease: &Lease| books.agents.iter().find(|agent| agent.turn == lease.turn && agent.owner == *owner);
        let with = |lease: Lease| {
            let agent = agent_of(&lease).map(|agent| agent.number);
            (lease, agent)
        };
        leases.into_iter().map(with).collect()
    }
}

fn outcome(lease: &Lease) -> Outcome {
    Outcome {
        task_id: lease.task.clone(),
        session_id: lease.session.clone(),
        status: TaskStatus::Completed,
        reason: None,
        error: None,
        branch: None,
        commit: String::new(),
        base: String::new(),
        evidence: None,
        usage: Default::default(),
        cost_usd: Default::default(),
    }
}

impl Workshop for Shop {
    type Left = (Lease, Option<u64>);

    fn lease_of(left: &Self::Left) -> &Lease {
        &left.0
    }

    fn now(&self) -> Timestamp {
        let real = i64::try_from((Instant::now() - self.world.begun).as_millis()).unwrap_or(i64::MAX);
        // Long enough after the beginning of time for a clock that jumps back.
        Timestamp::from_millisecond(100_000_000_000 + real + self.skew_ms.load(Ordering::Relaxed)).unwrap_or_default()
    }

    fn watch_queue(&self) -> watch::Receiver<u64> {
        self.world.wake.subscribe()
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Lease>, Error> {
        self.call(|books| {
            let ready = books.turns.iter().filter(|(_, row)| row.state == State::Ready);
            let chosen: Vec<_> = ready.map(|(turn, _)| turn.clone()).take(claim.most).collect();
            let leases = books.hand_over(&chosen, Some(&claim.owner));
            for lease in &leases {
                let row = books.held(lease)?;
                row.until = claim.until.unwrap_or(Timestamp::MAX);
                row.journal.push(Entry::Claimed);
            }
            Ok(leases)
        })
        .await
    }

    async fn heartbeat(&self, owner: &OwnerId, until: Timestamp) -> Result<Vec<Lease>, Error> {
        self.call(|books| {
            let ours = books.claimed_by(owner);
            for turn in &ours {
                if let Some(row) = books.turns.get_mut(turn) {
                    row.until = until;
                }
            }
            Ok(ours.iter().map(|turn| books.lease(turn)).collect())
        })
        .await
    }

    async fn turns_of(&self, owner: &OwnerId) -> Result<Vec<Lease>, Error> {
        self.call(|books| Ok(books.claimed_by(owner).iter().map(|turn| books.lease(turn)).collect())).await
    }

    async fn was_given_back(&self, lease: &Lease) -> Result<bool, Error> {
        self.call(|books| {
            let row = books.turns.get(&lease.turn).filter(|row| row.fence == lease.fence);
            Ok(row.is_some_and(|row| matches!(row.state, State::Done | State::Waiting)))
        })
        .await
    }

    async fn reclaim(&self) -> Result<Reclaimed, Error> {
        let now = self.now();
        let (expired, due) = self
            .call(|books| {
                let is_over = |row: &Row| row.state == State::Claimed && row.until <= now;
                let expired: Vec<_> =
                    books.turns.iter().filter(|(_, row)| is_over(row)).map(|(turn, _)| turn.clone()).collect();
                books.hand_over(&expired, None);
                let mut due = 0;
                for row in books.turns.values_mut().filter(|row| row.state == State::Waiting && row.due <= now) {
                    row.state = State::Ready;
                    due += 1;
                }
                Ok((expired.len(), due))
            })
            .await?;
        Ok(Reclaimed { expired, due, next_due: None })
    }

    async fn queue_settings(&self) -> Result<QueueSettings, Error> {
        self.call(|_| Ok(QueueSettings::default())).await
    }

    async fn counts(&self) -> Result<QueueCounts, Error> {
        self.call(|books| {
            let count = |state: State| books.turns.values().filter(|row| row.state == state).count() as u64;
            let (ready, waiting, claimed) = (count(State::Ready), count(State::Waiting), count(State::Claimed));
            let turns = TurnCounts { ready, waiting, claimed, ..TurnCounts::default() };
            Ok(QueueCounts { turns, cancelled: 0 })
        })
        .await
    }

    async fn hold(&self, _owner: &OwnerId, _why: Option<String>) {
        self.pause().await;
    }

    async fn repository_of(&self, _task: &TaskId) -> Option<String> {
        None
    }

    async fn work(&self, _owner: &OwnerId, lease: Lease, _stop: Stop) -> Result<Worked, Error> {
        self.drive(lease, None).await
    }

    async fn inherit(&self, heir: &OwnerId) -> Result<Vec<Self::Left>, Error> {
        self.call(|books| {
            let is_dead = |owner: &OwnerId| books.owners.get(owner).is_none_or(|lives| !lives);
            let left: Vec<Agent> = books.agents.iter().filter(|agent| is_dead(&agent.owner)).cloned().collect();
            let mut inherited = Vec::new();
            for agent in left {
                let is_theirs = books.claimed_by(&agent.owner).contains(&agent.turn);
                if !is_theirs {
                    // Someone else has the turn by now.
                    books.agents.retain(|known| known.number != agent.number);
                    continue;
                }
                inherited.extend(books.hand_over(std::slice::from_ref(&agent.turn), Some(heir)));
                for known in books.agents.iter_mut().filter(|known| known.number == agent.number) {
                    known.owner = heir.clone();
                }
            }
            Ok(Self::with_agents(books, inherited, heir))
        })
        .await
    }

    async fn retake(&self, owner: &OwnerId, sessions: &[SessionId]) -> Result<Vec<Self::Left>, Error> {
        self.call(|books| {
            let wanted: Vec<_> = sessions.iter().map(turn_of).collect();
            let ours: Vec<_> = books.claimed_by(owner).into_iter().filter(|turn| wanted.contains(turn)).collect();
            let leases = books.hand_over(&ours, Some(owner));
            books
                .agents
                .retain(|agent| agent.owner != *owner || !wanted.contains(&agent.turn) || ours.contains(&agent.turn));
            Ok(Self::with_agents(books, leases, owner))
        })
        .await
    }

    async fn rejoin(&self, _owner: &OwnerId, (lease, agent): Self::Left, _stop: Stop) -> Result<Worked, Error> {
        self.drive(lease, agent).await
    }

    async fn break_down(&self, lease: &Lease, _error: &Error) -> Result<Worked, Error> {
        self.call(|books| {
            books.held(lease)?;
            books.hand_over(std::slice::from_ref(&lease.turn), None);
            Ok(())
        })
        .await?;
        self.wake();
        Ok(Worked::WillRetry { reason: FailureReason::Internal, error: String::new(), due: self.now() })
    }

    async fn clear_session(&self, owner: &OwnerId, session: &SessionId) -> Result<(), Error> {
        self.call(|books| {
            books.agents.retain(|agent| agent.owner != *owner || session_of(&agent.turn) != *session);
            Ok(())
        })
        .await
    }

    fn stop_of(&self, _lease: &Lease) -> Stop {
        Stop::default()
    }

    fn forget_stop(&self, _lease: &Lease) {}

    fn finish(&self) -> &Arc<Finish> {
        &self.finish
    }

    fn sized(&self, _agents: usize) {}

    fn spent(&self) -> harvest_core::Cost {
        harvest_core::Cost::ZERO
    }

    fn no_room(&self) -> Option<String> {
        None
    }
}
