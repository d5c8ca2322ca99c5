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

/// The least time between two checkpoints.
const PAUSE: Duration = Duration::from_secs(3);
/// The time after which the workspace is looked at although the agent has told of no change: agents that print lines or draw
/// a terminal tell of none, and a long tool call tells only at its end.
const LOOK: Duration = Duration::from_secs(5);
/// The pause doubles up to this while nothing changes and the agent is silent: most of them wait for a model.
const LONGEST_LOOK: Duration = Duration::from_secs(15);
/// Looking takes at most one part in so many of the time: a large workspace is looked at less often.
const SHARE: u32 = 20;
const LIMIT: Duration = Duration::from_secs(60);

/// The checkpoints of one attempt. At most one is being taken at a time.
pub(crate) struct Checkpoints<'t> {
    turn: &'t Turn,
    place: &'t Place,
    due: bool,
    not_before: Instant,
    /// When a checkpoint falls due by itself; `None` where none is wanted.
    look_at: Option<Instant>,
    look_pause: Duration,
    began: Instant,
    last: Option<String>,
    taking: Option<BoxFuture<'t, Result<Option<String>, Halt>>>,
}

impl<'t> Checkpoints<'t> {
    pub(crate) fn new(turn: &'t Turn, place: &'t Place) -> Self {
        let now = Instant::now();
        // What is changed while planning, or where someone is only asked, is thrown away.
        let wanted = !turn.plan.is_wanted() && !place.only_asks();
        let look_at = wanted.then(|| now + LOOK);
        Self {
            turn,
            place,
            due: false,
            not_before: now,
            look_at,
            look_pause: LOOK,
            began: now,
            last: None,
            taking: None,
        }
    }

    /// Something may have changed.
    pub(crate) fn due(&mut self) {
        self.due = self.look_at.is_some();
    }

    /// The agent has printed something, so that it is at work.
    pub(crate) fn heard(&mut self) {
        if self.look_pause > LOOK {
            self.look_pause = LOOK;
            self.look_at = self.look_at.map(|look_at| look_at.min(Instant::now() + LOOK));
        }
    }

    /// Takes checkpoints as they fall due, because of what the agent told or of the time, and returns after each. May be
    /// dropped and called again.
    pub(crate) async fn taken(&mut self) -> Result<(), Halt> {
        if self.taking.is_none() {
            match self.look_at {
                None => std::future::pending().await,
                Some(_) if self.due => tokio::time::sleep_until(self.not_before).await,
                Some(look_at) => tokio::time::sleep_until(look_at).await,
            }
            self.due = false;
            self.began = Instant::now();
            self.taking = Some(self.turn.checkpoint(self.place, self.last.clone()).boxed());
        }
        self.finish().await
    }

    /// Waits for the one being taken.
    pub(crate) async fn finish(&mut self) -> Result<(), Halt> {
        let Some(taking) = self.taking.as_mut() else { return Ok(()) };
        let taken = taking.await;
        self.taking = None;
        let now = Instant::now();
        self.not_before = now + PAUSE;
        let taken = taken?;
        self.look_pause = if taken.is_some() { LOOK } else { LONGEST_LOOK.min(self.look_pause * 2) };
        self.look_at = self.look_at.map(|_| now + self.look_pause.max((now - self.began) * SHARE));
        if taken.is_some() {
            self.last = taken;
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
        let env = [
            ("REMOTE", remote.as_str()),
            ("REF", &reference),
            ("START", &self.start),
            ("LAST", last.as_deref().unwrap_or_default()),
        ];
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
