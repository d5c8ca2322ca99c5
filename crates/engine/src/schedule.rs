//! Recurring tasks: beside a pool, looks which schedules are due and queues their tasks. Any number of processes may do so;
//! the store lets exactly one of them fire each run.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use harvest_core::{Clock, TaskId, Timestamp};
use harvest_store::{NewAudit, NewTask, Record, Schedule, Store, recorded};
use tokio::sync::mpsc;

use crate::Error;
use crate::redact;
use crate::timetable::decide;

/// A computer that slept or whose clock was set is noticed after this long at most.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// The queue changes with every task; the schedules are not read again for each.
const SETTLE: Duration = Duration::from_millis(200);

/// Makes a task of what a schedule asks for. The error is for people.
#[async_trait]
pub trait Planner: Send + Sync + std::fmt::Debug {
    async fn task(&self, schedule: &Schedule) -> Result<NewTask, String>;
}

/// What became of a run that was due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Run {
    Queued {
        schedule: String,
        task: TaskId,
    },
    /// It was missed, and its schedule lets missed runs go.
    Skipped {
        schedule: String,
        due: Timestamp,
    },
    /// No task could be made; the schedule goes on with its next run.
    Failed {
        schedule: String,
        error: String,
    },
}

#[derive(Debug)]
pub struct Scheduler {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    planner: Arc<dyn Planner>,
    runs: mpsc::Sender<Run>,
}

impl Scheduler {
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        planner: Arc<dyn Planner>,
        runs: mpsc::Sender<Run>,
    ) -> Self {
        Self { store, clock, planner, runs }
    }

    /// Fires schedules for as long as it is polled.
    pub async fn run(self) -> std::convert::Infallible {
        let mut changes = self.store.watch_queue();
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
        for schedule in self.store.schedules().await? {
            let next = self.fire(&schedule).await?;
            earliest = earliest.into_iter().chain(next).min();
        }
        Ok(earliest)
    }

    async fn fire(&self, schedule: &Schedule) -> Result<Option<Timestamp>, Error> {
        let now = self.clock.now();
        let Some(due) = schedule.next.filter(|due| *due <= now) else { return Ok(schedule.next) };
        let id = schedule.id.clone();
        let decision = match decide(schedule, now) {
            Ok(decision) => decision,
            Err(error) => {
                // A zone that this system no longer knows: it rests until someone makes it anew.
                let error = redact(&error.to_string()).into_owned();
                if self.store.fire_schedule(&id, due, None, Vec::new(), Some(&error)).await? {
                    self.tell(Run::Failed { schedule: id, error }).await;
                }
                return Ok(None);
            }
        };
        if decision.runs == 0 {
            if self.store.fire_schedule(&id, due, decision.next, Vec::new(), None).await? {
                self.tell(Run::Skipped { schedule: id, due }).await;
            }
            return Ok(decision.next);
        }
        let refused = match self.planner.task(schedule).await {
            Ok(task) => {
                let made = task.id.clone();
                let fired = self.store.fire_schedule(&id, due, decision.next, vec![task], None);
                match recorded(self.record(schedule), fired).await.0 {
                    Ok(true) => {
                        self.tell(Run::Queued { schedule: id, task: made }).await;
                        return Ok(decision.next);
                    }
                    Ok(false) => return Ok(decision.next),
                    // The quotas of its owner hold for what comes by the clock, too.
                    Err(error @ harvest_store::Error::Quota(_)) => error.to_string(),
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => error,
        };
        // What went wrong may repeat the request, an address or the words of a program; everyone who sees the schedule sees it.
        let refused = redact(&refused).into_owned();
        if self.store.fire_schedule(&id, due, decision.next, Vec::new(), Some(&refused)).await? {
            self.tell(Run::Failed { schedule: id, error: refused }).await;
        }
        Ok(decision.next)
    }

    /// A task that comes by the clock is in the audit log for the owner of its schedule.
    fn record(&self, schedule: &Schedule) -> Record {
        let owner = schedule.owner.as_ref().map(|owner| owner.user.as_str());
        let audit = NewAudit {
            at: self.clock.now(),
            actor: owner.map_or_else(|| "schedule".to_owned(), |owner| format!("user:{owner}")),
            action: "schedule.run".to_owned(),
            target: String::new(),
            project: None,
            detail: serde_json::json!({ "schedule": schedule.id }),
        };
        Record { audit, answer: None }
    }

    fn until(&self, moment: Timestamp) -> Duration {
        Duration::try_from(moment.duration_since(self.clock.now())).unwrap_or(Duration::ZERO)
    }

    async fn tell(&self, run: Run) {
        // Whoever watches may have left; schedules go on.
        let _ = self.runs.send(run).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU8, Ordering};

    use harvest_core::{
        BranchName, Cost, Entropy, OnFailedDependency, Priority, Prompt, SessionId, Settings, Source, TaskKind, TurnId,
    };
    use harvest_store::{Admission, Asker, AuditQuery, Limit, MissedRuns, Sqlite, TaskQuery};

    use super::*;
    use crate::Timetable;

    #[derive(Debug)]
    struct Fake(Mutex<Timestamp>);

    impl Clock for Fake {
        fn now(&self) -> Timestamp {
            *self.0.lock().unwrap()
        }
    }

    #[derive(Debug, Default)]
    struct Counting(AtomicU8);

    impl Entropy for Counting {
        fn bytes(&self) -> [u8; 10] {
            let mut bytes = [7; 10];
            bytes[0] = self.0.fetch_add(1, Ordering::Relaxed);
            bytes
        }
    }

    fn nothing() -> Limit {
        let asker = Asker::People(vec!["schedule".into()]);
        Limit { holder: "user ada".into(), asker, unfinished: Some(0), begun: None, daily: None, accounts: Vec::new() }
    }

    /// Makes a task whose prompt is the request, unless that says it cannot.
    #[derive(Debug)]
    struct Plain(Arc<Fake>, Arc<Counting>);

    #[async_trait]
    impl Planner for Plain {
        async fn task(&self, schedule: &Schedule) -> Result<NewTask, String> {
            let prompt = schedule.request.as_str().unwrap();
            if prompt == "gone" {
                return Err("the repository no longer exists".into());
            }
            if let Some(said) = prompt.strip_prefix("refused: ") {
                return Err(said.to_owned());
            }
            let session = SessionId::generate(self.1.as_ref());
            Ok(NewTask {
                id: TaskId::generate(self.1.as_ref()),
                turn: TurnId::generate(self.1.as_ref()),
                branch: BranchName::for_session(prompt, &session),
                session,
                kind: TaskKind::Prompt,
                source: Source::Schedule,
                source_url: None,
                prompt: Prompt::new(prompt).unwrap(),
                agent: "builtin".into(),
                model: None,
                repository: "/srv/shop".into(),
                base: "0".repeat(40),
                settings: Settings::default(),
                budget: Cost::ZERO,
                priority: Priority::Normal,
                after: Vec::new(),
                on_failed_dependency: OnFailedDependency::Hold,
                convoy: None,
                retries: 0,
                caps: Vec::new(),
                extra: None,
                key: None,
                warnings: Vec::new(),
                requested_by: "schedule".into(),
                admission: Admission {
                    token: None,
                    limits: (prompt == "too much").then(nothing).into_iter().collect(),
                    ..Admission::default()
                },
                claim_for: None,
                at: self.0.now(),
            })
        }
    }

    /// A store with a clock of its own and any number of processes that look at its schedules.
    struct World {
        _folder: tempfile::TempDir,
        store: Arc<dyn Store>,
        clock: Arc<Fake>,
        entropy: Arc<Counting>,
    }

    impl World {
        fn new(now: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Arc::new(Sqlite::open(&folder.path().join("harvest.db")).unwrap());
            let clock = Arc::new(Fake(Mutex::new(now.parse().unwrap())));
            Self { _folder: folder, store, clock, entropy: Arc::default() }
        }

        fn at(&self, now: &str) {
            *self.clock.0.lock().unwrap() = now.parse().unwrap();
        }

        async fn add(&self, id: &str, cron: &str, missed: MissedRuns, prompt: &str) {
            let schedule = Schedule {
                id: id.into(),
                cron: cron.into(),
                time_zone: "UTC".into(),
                missed,
                request: prompt.into(),
                next: Timetable::parse(cron, "UTC").unwrap().next_after(self.clock.now()),
                last: None,
                owner: None,
                problem: None,
                created_at: self.clock.now(),
            };
            self.store.save_schedule(schedule).await.unwrap();
        }

        fn scheduler(&self) -> (Scheduler, mpsc::Receiver<Run>) {
            let (sender, runs) = mpsc::channel(64);
            let planner = Arc::new(Plain(self.clock.clone(), self.entropy.clone()));
            (Scheduler::new(self.store.clone(), self.clock.clone(), planner, sender), runs)
        }

        async fn tasks(&self) -> usize {
            self.store.tasks(TaskQuery { limit: 100, ..TaskQuery::default() }).await.unwrap().items.len()
        }
    }

    #[tokio::test]
    async fn a_run_comes_when_it_is_due_and_only_then() {
        let world = World::new("2026-05-01T02:00:00Z");
        world.add("daily", "0 3 * * *", MissedRuns::Skip, "Update").await;
        let (scheduler, mut runs) = world.scheduler();
        assert_eq!(scheduler.fire_due().await.unwrap(), Some("2026-05-01T03:00:00Z".parse().unwrap()));
        assert_eq!(world.tasks().await, 0);
        world.at("2026-05-01T03:00:00.250Z");
        for _ in 0..3 {
            assert_eq!(scheduler.fire_due().await.unwrap(), Some("2026-05-02T03:00:00Z".parse().unwrap()));
        }
        assert_eq!(world.tasks().await, 1);
        assert!(matches!(runs.try_recv().unwrap(), Run::Queued { schedule, .. } if schedule == "daily"));
        assert!(runs.try_recv().is_err());
        let stored = world.store.schedules().await.unwrap().remove(0);
        assert_eq!(stored.last, Some("2026-05-01T03:00:00Z".parse().unwrap()));
    }

    #[tokio::test]
    async fn of_many_processes_one_fires() {
        let world = World::new("2026-05-01T02:59:30Z");
        world.add("minutely", "* * * * *", MissedRuns::RunOnce, "Update").await;
        let processes: Vec<_> = (0..8).map(|_| world.scheduler()).collect();
        for minute in 0..5 {
            world.at(&format!("2026-05-01T03:0{minute}:00Z"));
            let firing = processes.iter().map(|(scheduler, _)| scheduler.fire_due());
            for fired in futures_util::future::join_all(firing).await {
                fired.unwrap();
            }
            assert_eq!(world.tasks().await, minute + 1);
        }
    }

    #[tokio::test]
    async fn one_that_cannot_be_fired_stops_no_other_and_goes_on_itself() {
        let world = World::new("2026-05-01T02:00:00Z");
        world.add("broken", "0 3 * * *", MissedRuns::RunOnce, "gone").await;
        world.add("sound", "0 3 * * *", MissedRuns::RunOnce, "Update").await;
        let (scheduler, mut runs) = world.scheduler();
        world.at("2026-05-01T03:00:00Z");
        scheduler.fire_due().await.unwrap();
        assert_eq!(world.tasks().await, 1);
        assert_eq!(
            runs.try_recv().unwrap(),
            Run::Failed { schedule: "broken".into(), error: "the repository no longer exists".into() }
        );
        assert!(matches!(runs.try_recv().unwrap(), Run::Queued { schedule, .. } if schedule == "sound"));
        let next: Vec<_> = world.store.schedules().await.unwrap().into_iter().map(|schedule| schedule.next).collect();
        assert_eq!(next, [Some("2026-05-02T03:00:00Z".parse().unwrap()); 2]);
    }

    #[tokio::test]
    async fn why_no_task_was_made_is_kept_and_told_without_secrets() {
        const KEPT: &str = "canary0of1the2schedules3";
        const SHAPED: &str = "sk-ant-api03-canary0123456789abcdefgh";
        harvest_vault::Redactor::of_process().unwrap().learn([&KEPT.to_owned().into()]).unwrap();
        let world = World::new("2026-05-01T02:00:00Z");
        world.add("daily", "0 3 * * *", MissedRuns::RunOnce, &format!("refused: git said {KEPT} and {SHAPED}")).await;
        let (scheduler, mut runs) = world.scheduler();
        world.at("2026-05-01T03:00:00Z");
        scheduler.fire_due().await.unwrap();
        let mark = harvest_vault::MARK;
        let clean = format!("git said {mark} and {mark}");
        assert_eq!(runs.try_recv().unwrap(), Run::Failed { schedule: "daily".into(), error: clean.clone() });
        assert_eq!(world.store.schedules().await.unwrap()[0].problem, Some(clean));
    }

    #[tokio::test]
    async fn a_run_beyond_the_quota_makes_no_task_and_is_told_in_the_schedule() {
        let world = World::new("2026-05-01T02:00:00Z");
        world.add("daily", "0 3 * * *", MissedRuns::RunOnce, "too much").await;
        world.add("modest", "0 3 * * *", MissedRuns::RunOnce, "Update").await;
        let (scheduler, mut runs) = world.scheduler();
        world.at("2026-05-01T03:00:00Z");
        scheduler.fire_due().await.unwrap();
        assert_eq!(world.tasks().await, 1);
        let refused = "user ada has reached the limit for unfinished tasks: 0 of 0";
        assert_eq!(runs.try_recv().unwrap(), Run::Failed { schedule: "daily".into(), error: refused.into() });
        let stored = world.store.schedules().await.unwrap();
        assert_eq!(stored[0].problem.as_deref(), Some(refused));
        assert_eq!(stored[0].next, Some("2026-05-02T03:00:00Z".parse().unwrap()));
        // What did come is in the audit log, written with it.
        let log = world.store.audit_log(AuditQuery { limit: 10, ..AuditQuery::default() }).await.unwrap();
        assert_eq!(log.iter().map(|entry| entry.action.as_str()).collect::<Vec<_>>(), ["schedule.run"]);
    }

    #[tokio::test]
    async fn after_a_long_outage() {
        let world = World::new("2026-05-01T02:00:00Z");
        world.add("skip", "0 * * * *", MissedRuns::Skip, "Skipped").await;
        world.add("once", "0 * * * *", MissedRuns::RunOnce, "Made up for").await;
        let (scheduler, mut runs) = world.scheduler();
        world.at("2026-08-17T11:30:00Z");
        assert_eq!(scheduler.fire_due().await.unwrap(), Some("2026-08-17T12:00:00Z".parse().unwrap()));
        assert_eq!(world.tasks().await, 1);
        assert!(matches!(runs.try_recv().unwrap(), Run::Queued { schedule, .. } if schedule == "once"));
        assert_eq!(
            runs.try_recv().unwrap(),
            Run::Skipped { schedule: "skip".into(), due: "2026-05-01T03:00:00Z".parse().unwrap() }
        );
    }

    #[tokio::test]
    async fn a_removed_schedule_is_not_fired() {
        let world = World::new("2026-05-01T02:00:00Z");
        world.add("daily", "0 3 * * *", MissedRuns::RunOnce, "Update").await;
        let (scheduler, mut runs) = world.scheduler();
        world.at("2026-05-01T03:00:00Z");
        let stale = world.store.schedules().await.unwrap().remove(0);
        world.store.remove_schedule("daily").await.unwrap();
        scheduler.fire(&stale).await.unwrap();
        assert_eq!(world.tasks().await, 0);
        assert!(runs.try_recv().is_err());
    }
}
