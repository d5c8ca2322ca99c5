//! What a pool needs of whoever does the work and keeps the books. That is the engine; in the simulation it is something that
//! fails, forgets and dies at every step.

use std::sync::Arc;

use harvest_core::{Cost, OwnerId, SessionId, TaskId, TaskStatus, Timestamp};
use harvest_store::{Claim, Lease, QueueSettings, Reclaimed, TurnCounts};
use tokio::sync::watch;

use crate::race::Finish;
use crate::reattach::Inherited;
use crate::{Engine, Error, Stop, Worked, guard};

/// How many turns are in each state, and how many tasks were cancelled.
#[derive(Debug, Clone, Default)]
pub struct QueueCounts {
    pub turns: TurnCounts,
    pub cancelled: u64,
}

pub trait Workshop: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// A turn whose agent has been left at work.
    type Left: Send + 'static;

    fn lease_of(left: &Self::Left) -> &Lease;

    fn now(&self) -> Timestamp;

    // The books.

    fn watch_queue(&self) -> watch::Receiver<u64>;
    fn claim(&self, claim: Claim) -> impl Future<Output = Result<Vec<Lease>, Error>> + Send;
    fn heartbeat(&self, owner: &OwnerId, until: Timestamp) -> impl Future<Output = Result<Vec<Lease>, Error>> + Send;
    /// The turns that `owner` works on.
    fn turns_of(&self, owner: &OwnerId) -> impl Future<Output = Result<Vec<Lease>, Error>> + Send;
    /// The tasks that other owners than this one work on.
    fn tasks_of_others(&self, _owner: &OwnerId) -> impl Future<Output = Result<Vec<TaskId>, Error>> + Send {
        async { Ok(Vec::new()) }
    }
    /// Whether the worker with this lease gave the turn back by itself.
    fn was_given_back(&self, lease: &Lease) -> impl Future<Output = Result<bool, Error>> + Send;
    fn reclaim(&self) -> impl Future<Output = Result<Reclaimed, Error>> + Send;
    fn queue_settings(&self) -> impl Future<Output = Result<QueueSettings, Error>> + Send;
    fn counts(&self) -> impl Future<Output = Result<QueueCounts, Error>> + Send;
    /// Says why no work is taken, to whoever looks.
    fn hold(&self, owner: &OwnerId, why: Option<String>) -> impl Future<Output = ()> + Send;
    /// Where a task works, for whoever prefers what is warm.
    fn repository_of(&self, task: &TaskId) -> impl Future<Output = Option<String>> + Send;

    // The work.

    fn work(&self, owner: &OwnerId, lease: Lease, stop: Stop) -> impl Future<Output = Result<Worked, Error>> + Send;
    /// Takes over what dead workers have left.
    fn inherit(&self, heir: &OwnerId) -> impl Future<Output = Result<Vec<Self::Left>, Error>> + Send;
    /// Takes up what `owner` itself could not go on with for a while.
    fn retake(
        &self,
        owner: &OwnerId,
        sessions: &[SessionId],
    ) -> impl Future<Output = Result<Vec<Self::Left>, Error>> + Send;
    fn rejoin(
        &self,
        owner: &OwnerId,
        left: Self::Left,
        stop: Stop,
    ) -> impl Future<Output = Result<Worked, Error>> + Send;
    /// Gives a turn back on which the work broke down, or ends its task.
    fn break_down(&self, lease: &Lease, error: &Error) -> impl Future<Output = Result<Worked, Error>> + Send;
    /// Ends whatever `owner` has for a session.
    fn clear_session(&self, owner: &OwnerId, session: &SessionId) -> impl Future<Output = Result<(), Error>> + Send;
    fn stop_of(&self, lease: &Lease) -> Stop;
    fn forget_stop(&self, lease: &Lease);
    /// Who waits for the verdict of a race.
    fn finish(&self) -> &Arc<Finish>;
    /// How many agents may work side by side.
    fn sized(&self, agents: usize);
    /// What the model calls of this process have cost so far.
    fn spent(&self) -> Cost;
    fn no_room(&self) -> Option<String>;
}

impl Workshop for Engine {
    type Left = Inherited;

    fn lease_of(left: &Inherited) -> &Lease {
        &left.lease
    }

    fn now(&self) -> Timestamp {
        self.options.clock.now()
    }

    fn watch_queue(&self) -> watch::Receiver<u64> {
        self.store().watch_queue()
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Lease>, Error> {
        Ok(self.store().claim(claim).await?)
    }

    async fn heartbeat(&self, owner: &OwnerId, until: Timestamp) -> Result<Vec<Lease>, Error> {
        Ok(self.store().heartbeat(owner, until).await?)
    }

    async fn turns_of(&self, owner: &OwnerId) -> Result<Vec<Lease>, Error> {
        Ok(self.store().turns_of(owner).await?)
    }

    async fn tasks_of_others(&self, owner: &OwnerId) -> Result<Vec<TaskId>, Error> {
        let mut tasks = Vec::new();
        for other in self.store().owners().await?.into_iter().filter(|other| other.id != *owner) {
            tasks.extend(self.store().turns_of(&other.id).await?.into_iter().map(|lease| lease.task));
        }
        Ok(tasks)
    }

    async fn was_given_back(&self, lease: &Lease) -> Result<bool, Error> {
        Ok(self.store().was_given_back(lease).await?)
    }

    async fn reclaim(&self) -> Result<Reclaimed, Error> {
        Ok(self.store().reclaim(Workshop::now(self)).await?)
    }

    async fn queue_settings(&self) -> Result<QueueSettings, Error> {
        Ok(self.store().queue_settings().await?)
    }

    async fn counts(&self) -> Result<QueueCounts, Error> {
        let queue = self.store().queue().await?;
        let cancelled = queue.tasks.get(TaskStatus::Cancelled.as_str()).copied().unwrap_or(0);
        Ok(QueueCounts { turns: queue.turns, cancelled })
    }

    async fn hold(&self, owner: &OwnerId, why: Option<String>) {
        // Whoever looks from elsewhere is told where that is possible.
        if let Err(error) = self.store().set_holding(owner, why.as_deref()).await {
            tracing::debug!(%error, "that no work is taken could not be written down");
        }
        self.vitals().held(why);
    }

    async fn repository_of(&self, task: &TaskId) -> Option<String> {
        self.store().task(task).await.ok().map(|detail| detail.task.repository)
    }

    async fn work(&self, owner: &OwnerId, lease: Lease, stop: Stop) -> Result<Worked, Error> {
        Engine::work_once(self, owner, lease, stop).await
    }

    async fn inherit(&self, heir: &OwnerId) -> Result<Vec<Inherited>, Error> {
        Engine::inherit(self, heir).await
    }

    async fn retake(&self, owner: &OwnerId, sessions: &[SessionId]) -> Result<Vec<Inherited>, Error> {
        Engine::retake(self, owner, sessions).await
    }

    async fn rejoin(&self, owner: &OwnerId, left: Inherited, stop: Stop) -> Result<Worked, Error> {
        Engine::rejoin(self, owner, left, stop).await
    }

    async fn break_down(&self, lease: &Lease, error: &Error) -> Result<Worked, Error> {
        Engine::break_down(self, lease, error).await
    }

    async fn clear_session(&self, owner: &OwnerId, session: &SessionId) -> Result<(), Error> {
        Engine::clear_session(self, owner, session).await
    }

    fn stop_of(&self, lease: &Lease) -> Stop {
        Engine::stop_of(self, lease)
    }

    fn forget_stop(&self, lease: &Lease) {
        Engine::forget_stop(self, lease);
    }

    fn finish(&self) -> &Arc<Finish> {
        &self.finish
    }

    fn sized(&self, agents: usize) {
        self.vitals().sized(agents);
    }

    fn spent(&self) -> Cost {
        self.vitals().spent()
    }

    fn no_room(&self) -> Option<String> {
        guard::no_room(self.options.data.path())
    }
}
