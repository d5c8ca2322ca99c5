//! While the agent works, the state of its workspace is pushed out every few seconds of change: a lost sandbox costs
//! seconds, not the work.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use harvest_core::EventBody;
use harvest_workspace::{SessionRepository, script};
use tokio::time::Instant;

use crate::error::Halt;
use crate::place::Place;
use crate::turn::Turn;

const PAUSE: Duration = Duration::from_secs(3);
const LIMIT: Duration = Duration::from_secs(60);

/// The checkpoints of one attempt. At most one is being taken at a time.
pub(crate) struct Checkpoints<'t> {
    turn: &'t Turn,
    place: &'t Place,
    due: bool,
    not_before: Instant,
    last: Option<String>,
    taking: Option<BoxFuture<'t, Result<Option<String>, Halt>>>,
}

impl<'t> Checkpoints<'t> {
    pub(crate) fn new(turn: &'t Turn, place: &'t Place) -> Self {
        Self { turn, place, due: false, not_before: Instant::now(), last: None, taking: None }
    }

    /// Something may have changed.
    pub(crate) fn due(&mut self) {
        // What is changed while planning, or where someone is only asked, is thrown away.
        self.due = !self.turn.plan.is_wanted() && !self.place.only_asks();
    }

    /// Takes checkpoints as they fall due and returns after each. Never returns while none is due. May be dropped and
    /// called again.
    pub(crate) async fn taken(&mut self) -> Result<(), Halt> {
        if self.taking.is_none() {
            if !self.due {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep_until(self.not_before).await;
            self.due = false;
            self.taking = Some(self.turn.checkpoint(self.place, self.last.clone()).boxed());
        }
        self.finish().await
    }

    /// Waits for the one being taken.
    pub(crate) async fn finish(&mut self) -> Result<(), Halt> {
        let Some(taking) = self.taking.as_mut() else { return Ok(()) };
        let taken = taking.await;
        self.taking = None;
        self.not_before = Instant::now() + PAUSE;
        if let Some(commit) = taken? {
            self.last = Some(commit);
        }
        Ok(())
    }
}

impl Turn {
    /// Pushes and journals a checkpoint; `None` when nothing has changed since `last` or it did not work out, which stops
    /// nothing.
    async fn checkpoint(&self, place: &Place, last: Option<String>) -> Result<Option<String>, Halt> {
        // Never used twice in a session: a push to where another checkpoint is would be refused.
        let number = self.checkpoints.fetch_add(1, Ordering::Relaxed) + 1;
        let reference = format!("{}{number}", SessionRepository::namespace(&self.session.id));
        let remote = Self::remote(place);
        let env = [("REMOTE", remote.as_str()), ("REF", &reference), ("START", &self.start)];
        let id = format!("checkpoint-{number}");
        match self.run(place, &id, &script::checkpoint(), &env, LIMIT).await {
            Ok(ran) if ran.succeeded() => {}
            Ok(ran) => {
                tracing::debug!(tail = ran.tail, "a checkpoint failed");
                return Ok(None);
            }
            Err(error) => {
                tracing::debug!(%error, "a checkpoint failed");
                return Ok(None);
            }
        }
        // The script is not believed: what arrived in the repository counts.
        let Some(commit) = self.repository.tip(&reference).await? else { return Ok(None) };
        let before = last.as_ref().unwrap_or(&self.start);
        if self.repository.changes(before, &commit).await?.is_empty() {
            return Ok(None);
        }
        self.journal.write(vec![EventBody::CheckpointCreated { number, commit: commit.clone() }]).await?;
        self.forecast(&commit).await?;
        Ok(Some(commit))
    }
}

impl std::fmt::Debug for Checkpoints<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoints").field("due", &self.due).finish_non_exhaustive()
    }
}
