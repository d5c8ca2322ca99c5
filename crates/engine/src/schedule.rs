//! Recurring tasks: beside a pool, looks which schedules are due and queues their tasks. Any number of processes may do so;
//! the store lets exactly one of them fire each run.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use harvest_core::{TaskId, Timestamp};
use harvest_store::Schedule;
use tokio::sync::mpsc;

use crate::timetable::decide;
use crate::{Engine, Error, Request};

/// A computer that slept or whose clock was set is noticed after this long at most.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// The queue changes with every task; the schedules are not read again for each.
const SETTLE: Duration = Duration::from_millis(200);

/// Makes a request of what a schedule asks for. The error is for people.
#[async_trait]
pub trait Planner: Send + Sync + std::fmt::Debug {
    async fn request(&self, schedule: &Schedule) -> Result<Request, String>;
}

/// What became of a run that was due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Run {
    Queued { schedule: String, task: TaskId },
    /// It was missed, and its schedule lets missed runs go.
    Skipped { schedule: String, due: Timestamp },
    /// No task could be made; the schedule goes on with its next run.
    Failed { schedule: String, error: String },
}

#[derive(Debug)]
pub struct Scheduler {
    engine: Engine,
    planner: Arc<dyn Planner>,
    runs: mpsc::Sender<Run>,
}

impl Scheduler {
    pub fn new(engine: Engine, planner: Arc<dyn Planner>, runs: mpsc::Sender<Run>) -> Self {
        Self { engine, planner, runs }
    }

    /// Fires schedules for as long as it is polled.
    pub async fn run(self) -> std::convert::Infallible {
        let mut changes = self.engine.store().watch_queue();
        loop {
            changes.mark_unchanged();
            let next = match self.fire_due().await {
                Ok(next) => next,
                Err(error) => {
                    // The pool meets the same database and decides whether that is the end.
                    tracing::warn!(error = %crate::error::chain(&error), "schedules could not be looked at");
                    None
                }
            };
            let sleep = next.map_or(LONGEST_SLEEP, |next| self.until(next).min(LONGEST_SLEEP));
            tokio::select! {
                () = tokio::time::sleep(sleep) => {}
                Ok(()) = changes.changed() => tokio::time::sleep(SETTLE.min(sleep)).await,
            }
        }
    }

    /// Fires everything that is due and says when the next run is. One schedule that cannot be fired stops no other.
    pub async fn fire_due(&self) -> Result<Option<Timestamp>, Error> {
        let mut earliest = None;
        for schedule in self.engine.store().schedules().await? {
            let next = self.fire(&schedule).await?;
            earliest = earliest.into_iter().chain(next).min();
        }
        Ok(earliest)
    }

    async fn fire(&self, schedule: &Schedule) -> Result<Option<Timestamp>, Error> {
        let now = self.engine.options.clock.now();
        let Some(due) = schedule.next.filter(|due| *due <= now) else { return Ok(schedule.next) };
        let id = schedule.id.clone();
        let decision = match decide(schedule, now) {
            Ok(decision) => decision,
            Err(error) => {
                // A zone that this system no longer knows: it rests until someone makes it anew.
                if self.engine.store().fire_schedule(&id, due, None, Vec::new()).await? {
                    self.tell(Run::Failed { schedule: id, error: error.to_string() }).await;
                }
                return Ok(None);
            }
        };
        let mut tasks = Vec::new();
        let mut run = Run::Skipped { schedule: id.clone(), due };
        if decision.runs > 0 {
            let planned = match self.planner.request(schedule).await {
                Ok(request) => self.engine.new_task(request).await.map_err(|error| crate::error::chain(&error)),
                Err(error) => Err(error),
            };
            run = match planned {
                Ok(task) => {
                    let queued = Run::Queued { schedule: id.clone(), task: task.id.clone() };
                    tasks.push(task);
                    queued
                }
                Err(error) => Run::Failed { schedule: id.clone(), error },
            };
        }
        if self.engine.store().fire_schedule(&id, due, decision.next, tasks).await? {
            self.tell(run).await;
        }
        Ok(decision.next)
    }

    fn until(&self, moment: Timestamp) -> Duration {
        Duration::try_from(moment.duration_since(self.engine.options.clock.now())).unwrap_or(Duration::ZERO)
    }

    async fn tell(&self, run: Run) {
        // Whoever watches may have left; schedules go on.
        let _ = self.runs.send(run).await;
    }
}
