//! Keeps snapshots fresh beside a pool: builds what is due, one repository at a time.

use std::time::Duration;

use harvest_core::{OwnerId, Timestamp};
use harvest_store::Repository;
use tokio::sync::mpsc;

use super::{Attempts, Progress, Report, Settings, Status};
use crate::{Engine, Error, Stop};

/// A computer that slept or whose clock was set is noticed after this long at most, and so is a build by another process.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// The queue changes with every task; the repositories are not read again for each.
const SETTLE: Duration = Duration::from_millis(200);
const PROGRESS: usize = 64;

#[derive(Debug)]
pub struct Keeper {
    engine: Engine,
    owner: OwnerId,
    attempts: Attempts,
    reports: mpsc::Sender<Report>,
}

impl Keeper {
    /// What each build came to is sent to `reports`.
    pub fn new(engine: Engine, owner: OwnerId, attempts: Attempts, reports: mpsc::Sender<Report>) -> Self {
        Self { engine, owner, attempts, reports }
    }

    /// Until `stop`. A build that is under way is given up then, and nothing of it is left.
    pub async fn run(self, stop: Stop) {
        let mut changes = self.engine.store().watch_queue();
        while !stop.is_requested() {
            changes.mark_unchanged();
            let sleep = match self.build_due(&stop).await {
                Ok(next) => next.map_or(LONGEST_SLEEP, |next| self.until(next).min(LONGEST_SLEEP)),
                Err(error) => {
                    // The pool meets the same database and decides whether that is the end.
                    tracing::warn!(error = %crate::error::chain(&error), "repositories could not be looked at");
                    LONGEST_SLEEP
                }
            };
            tokio::select! {
                () = stop.requested() => {}
                () = tokio::time::sleep(sleep) => {}
                Ok(()) = changes.changed() => tokio::time::sleep(SETTLE.min(sleep)).await,
            }
        }
    }

    /// Builds everything that is due and says when the next one is.
    pub async fn build_due(&self, stop: &Stop) -> Result<Option<Timestamp>, Error> {
        super::forget_unknown(&self.engine.options.data, self.engine.store()).await?;
        let mut earliest: Option<Timestamp> = None;
        for repository in self.engine.store().repositories().await? {
            if stop.is_requested() {
                return Ok(None);
            }
            let due = self.due(&repository);
            if due.is_none_or(|due| due <= self.engine.options.clock.now()) {
                self.build(&repository, stop).await?;
            }
            earliest = earliest.into_iter().chain(self.due(&repository)).min();
        }
        Ok(earliest)
    }

    async fn build(&self, repository: &Repository, stop: &Stop) -> Result<(), Error> {
        let (progress, mut ignored) = mpsc::channel::<Progress>(PROGRESS);
        let building = self.engine.prepare_snapshot(&self.owner, repository, self.attempts, progress, stop);
        let (report, ()) = tokio::join!(building, async { while ignored.recv().await.is_some() {} });
        let report = report?;
        self.engine.reconsider_spares();
        if !matches!(report.status, Status::Busy | Status::Unchanged | Status::Stopped) {
            // Whoever watches may have left.
            let _ = self.reports.send(report).await;
        }
        Ok(())
    }

    /// `None` when it was never built. One that was pushed to since is due, and one that is to be built more often now need not
    /// wait for the old time.
    fn due(&self, repository: &Repository) -> Option<Timestamp> {
        let standing = super::standing(&self.engine.options.data, repository);
        let last = standing.last?.at;
        if let Some(pushed) = repository.pushed_at.filter(|pushed| *pushed >= last) {
            return Some(pushed);
        }
        let latest = last.saturating_add(Settings::of(repository).every().mul_f64(1.0 + super::build::JITTER)).ok();
        standing.next_at.into_iter().chain(latest).min()
    }

    fn until(&self, moment: Timestamp) -> Duration {
        let now = self.engine.options.clock.now();
        // Busy elsewhere: due, but not to be asked for without end.
        Duration::try_from(moment.duration_since(now)).unwrap_or(LONGEST_SLEEP)
    }
}
