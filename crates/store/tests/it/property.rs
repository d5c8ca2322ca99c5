//! Whatever is done in whatever order, the queue keeps its promises: the store and a simple model go through the same steps
//! and are compared after each.

use std::sync::Arc;

use harvest_core::{
    EventBody, FailureReason, Move, OnFailedDependency, OwnerId, Priority, Prompt, TaskStatus, Timestamp, TurnStatus,
};
use harvest_store::{Admission, Claim, Error, NewTask, NewTurn, PlanDecision, PlanVerdict, Requester, Step, Store};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::model::{CAPS, Expected, Held, Model, State};
use crate::support::make::*;
use crate::support::place::Place;

const OWNERS: usize = 3;

#[derive(Debug, Clone)]
enum Op {
    Add { after: Vec<prop::sample::Index>, cancel: bool, caps: [bool; CAPS.len()], priority: Priority },
    Claim { owner: usize, most: usize, seconds: Option<i64> },
    Heartbeat { owner: usize, seconds: i64 },
    Pass { seconds: i64 },
    Start { lease: prop::sample::Index },
    Finish { lease: prop::sample::Index, completed: bool },
    Hold { lease: prop::sample::Index, held: Held },
    Decide { task: prop::sample::Index, verdict: PlanVerdict },
    Resume { task: prop::sample::Index, prompted: bool },
    TryAgain { lease: prop::sample::Index, seconds: i64 },
    Cancel { task: prop::sample::Index },
    Retry { task: prop::sample::Index },
    Prompt { task: prop::sample::Index },
    SetCap { cap: usize, size: Option<u32> },
    Release { owner: usize },
    TakeOver { dead: usize, heir: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let index = any::<prop::sample::Index>;
    let owner = 0..OWNERS;
    prop_oneof![
        5 => (prop::collection::vec(index(), 0..3), any::<bool>(), any::<[bool; CAPS.len()]>(), prop::sample::select(&Priority::ALL[..]))
            .prop_map(|(after, cancel, caps, priority)| Op::Add { after, cancel, caps, priority }),
        5 => (owner.clone(), 1..4usize, prop::option::weighted(0.8, 5..40i64))
            .prop_map(|(owner, most, seconds)| Op::Claim { owner, most, seconds }),
        1 => (owner.clone(), 5..40i64).prop_map(|(owner, seconds)| Op::Heartbeat { owner, seconds }),
        2 => (1..30i64).prop_map(|seconds| Op::Pass { seconds }),
        5 => index().prop_map(|lease| Op::Start { lease }),
        5 => (index(), any::<bool>()).prop_map(|(lease, completed)| Op::Finish { lease, completed }),
        4 => (index(), prop::sample::select(&[Held::Decision, Held::Resumption][..]))
            .prop_map(|(lease, held)| Op::Hold { lease, held }),
        3 => (index(), verdict()).prop_map(|(task, verdict)| Op::Decide { task, verdict }),
        3 => (index(), any::<bool>()).prop_map(|(task, prompted)| Op::Resume { task, prompted }),
        2 => (index(), 1..30i64).prop_map(|(lease, seconds)| Op::TryAgain { lease, seconds }),
        2 => index().prop_map(|task| Op::Cancel { task }),
        2 => index().prop_map(|task| Op::Retry { task }),
        3 => index().prop_map(|task| Op::Prompt { task }),
        2 => (0..CAPS.len(), prop::option::weighted(0.8, 0..3u32)).prop_map(|(cap, size)| Op::SetCap { cap, size }),
        1 => owner.clone().prop_map(|owner| Op::Release { owner }),
        1 => (owner.clone(), owner).prop_map(|(dead, heir)| Op::TakeOver { dead, heir }),
    ]
}

fn verdict() -> impl Strategy<Value = PlanVerdict> {
    prop_oneof![
        Just(PlanVerdict::Approved { changed: None }),
        Just(PlanVerdict::Approved { changed: Some("z".into()) }),
        Just(PlanVerdict::Again { comment: "z".into() }),
        Just(PlanVerdict::Rejected),
    ]
}

struct Run {
    store: Arc<dyn Store>,
    model: Model,
    owners: [OwnerId; OWNERS],
    now: Timestamp,
    /// As they were after the last step, the best first.
    ready: Vec<usize>,
}

impl Run {
    fn after(&self, seconds: i64) -> Timestamp {
        Timestamp::from_millisecond(self.now.as_millisecond() + seconds * 1000).unwrap()
    }

    async fn step(&mut self, op: Op) {
        match op {
            Op::Add { after, cancel, caps, priority } => {
                let known = &self.model.tasks;
                let mut after: Vec<_> = after
                    .iter()
                    .filter(|_| !known.is_empty())
                    .map(|index| known[index.index(known.len())].new.id.clone())
                    .collect();
                after.dedup();
                let new = NewTask {
                    after,
                    on_failed_dependency: if cancel { OnFailedDependency::Cancel } else { OnFailedDependency::Hold },
                    caps: CAPS.iter().zip(caps).filter(|(_, of)| *of).map(|(cap, _)| (*cap).to_owned()).collect(),
                    priority,
                    retries: 2,
                    at: self.now,
                    ..new_task("x")
                };
                create(&self.store, new.clone()).await;
                self.model.add(new);
            }
            Op::Claim { owner, most, seconds } => {
                let until = seconds.map(|seconds| self.after(seconds));
                let claim = Claim { until, at: self.now, ..a_claim(&self.owners[owner], most) };
                let leases = self.store.claim(claim).await.unwrap();
                let places: Vec<usize> = leases.iter().map(|lease| self.model.place(&lease.task)).collect();
                assert_eq!(places, self.ready[..most.min(self.ready.len())], "the best of what is ready");
                leases.iter().for_each(|lease| self.model.claimed(lease, owner, until));
            }
            Op::Heartbeat { owner, seconds } => {
                let until = self.after(seconds);
                let leases = self.store.heartbeat(&self.owners[owner], until).await.unwrap();
                self.expect_leases(&leases, owner);
                for place in self.model.held_by(owner) {
                    if let State::Claimed { until: end, .. } = &mut self.model.tasks[place].state {
                        *end = Some(until);
                    }
                }
            }
            Op::Pass { seconds } => {
                self.now = self.after(seconds);
                let reclaimed = self.store.reclaim(self.now).await.unwrap();
                let expected = self.model.reclaim(self.now);
                assert_eq!((reclaimed.expired, reclaimed.due), expected);
                let due = self.model.tasks.iter().filter_map(|entry| match entry.state {
                    State::Waiting { due } => Some(due),
                    _ => None,
                });
                assert_eq!(reclaimed.next_due, due.min());
            }
            Op::Start { lease } => {
                let Some((lease, place)) = self.lease(lease) else { return };
                let expected = self.model.expect(&lease, place, false);
                let started = self.store.append(&lease, Step::new(self.now, Vec::new()).moving(Move::Start)).await;
                assert_eq!(outcome(&started), expected, "{started:?}");
                if expected == Expected::Done {
                    self.model.start(place);
                }
            }
            Op::Hold { lease, held } => {
                let Some((lease, place)) = self.lease(lease) else { return };
                let expected = self.model.expect(&lease, place, true);
                let result = match held {
                    Held::Decision => self.store.ask_approval(&lease, self.now, Vec::new()).await,
                    Held::Resumption => self.store.interrupt(&lease, self.now, Vec::new()).await,
                };
                assert_eq!(outcome(&result), expected, "{result:?}");
                if expected == Expected::Done {
                    self.model.hold(place, held);
                }
            }
            Op::Decide { task, verdict } => {
                let Some(place) = self.task(task) else { return };
                let id = self.model.tasks[place].new.id.clone();
                let by = self.requester(place);
                let rejected = verdict == PlanVerdict::Rejected;
                let decided = self.store.decide(&id, PlanDecision { by, verdict }, self.now).await;
                let legal = if rejected { self.model.reject(place) } else { self.model.let_go(place, Held::Decision) };
                assert_eq!(
                    outcome(&decided),
                    if legal { Expected::Done } else { Expected::IllegalMove },
                    "{decided:?}"
                );
            }
            Op::Resume { task, prompted } => {
                let Some(place) = self.task(task) else { return };
                let id = self.model.tasks[place].new.id.clone();
                let prompt = prompted.then(|| Prompt::new("z").unwrap());
                let resumed = self.store.resume(&id, self.requester(place), prompt, self.now).await;
                let legal = self.model.let_go(place, Held::Resumption);
                assert_eq!(
                    outcome(&resumed),
                    if legal { Expected::Done } else { Expected::IllegalMove },
                    "{resumed:?}"
                );
            }
            Op::Finish { lease, completed } => {
                let Some((lease, place)) = self.lease(lease) else { return };
                let (status, reason) = if completed {
                    (TaskStatus::Completed, None)
                } else {
                    (TaskStatus::Failed, Some(FailureReason::Agent))
                };
                match self.store.append(&lease, ending(&lease, status, reason)).await {
                    Ok(_) => {
                        assert!(self.model.holds(&lease, place), "an old lease ended a task");
                        self.model.finish(place, status);
                    }
                    Err(Error::StaleLease { .. }) => assert!(!self.model.holds(&lease, place)),
                    // It was never started.
                    Err(Error::IllegalMove(_)) => {
                        assert!(completed);
                        assert_eq!(self.model.expect(&lease, place, true), Expected::IllegalMove);
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
            Op::TryAgain { lease, seconds } => {
                let Some((lease, place)) = self.lease(lease) else { return };
                let due = self.after(seconds);
                let event =
                    EventBody::TaskRetried { reason: FailureReason::Stall, error: "x".into(), tries: 1, delay_ms: 1 };
                match self.store.append(&lease, Step::new(self.now, vec![event]).retrying(due)).await {
                    Ok(_) => {
                        assert!(self.model.holds(&lease, place));
                        self.model.wait(place, due);
                    }
                    Err(Error::StaleLease { .. }) => assert!(!self.model.holds(&lease, place)),
                    Err(other) => panic!("{other:?}"),
                }
            }
            Op::Cancel { task } => {
                let Some(place) = self.task(task) else { return };
                let id = self.model.tasks[place].new.id.clone();
                let outcome = self.store.cancel_waiting(&id, self.now).await.unwrap();
                assert_eq!(outcome.is_some(), self.model.cancel(place));
            }
            Op::Retry { task } => {
                let Some(place) = self.task(task) else { return };
                let id = self.model.tasks[place].new.id.clone();
                let retried = self.store.retry(&id, Admission::default(), self.now).await;
                assert_eq!(retried.is_ok(), self.model.retry(place), "{retried:?}");
            }
            Op::Prompt { task } => {
                let Some(place) = self.task(task) else { return };
                let entry = &self.model.tasks[place];
                let new = NewTurn { at: self.now, caps: entry.new.caps.clone(), ..new_turn(&entry.new.session, "y") };
                let turn = self.store.prompt(new.clone()).await.unwrap();
                assert_eq!((turn.id, turn.number as usize), (new.id.clone(), entry.turns.len() + 1));
                self.model.prompt(place, new.id, new.at);
            }
            Op::SetCap { cap, size } => {
                self.store.set_cap(CAPS[cap], size).await.unwrap();
                self.model.caps[cap] = size;
            }
            Op::Release { owner } => {
                let lost = self.store.release(&self.owners[owner], self.now).await.unwrap();
                let held = self.model.held_by(owner);
                assert_eq!(lost.len(), held.len());
                held.into_iter().for_each(|place| self.model.tasks[place].state = State::Available);
            }
            Op::TakeOver { dead, heir } => {
                let taken = self.store.take_over(&self.owners[dead], &self.owners[heir], None).await.unwrap();
                assert_eq!(taken.len(), self.model.held_by(dead).len());
                for lease in taken {
                    self.model.taken_over(lease, heir);
                }
            }
        }
    }

    /// Someone who counts against the same caps as the task.
    fn requester(&self, place: usize) -> Requester {
        Requester { caps: self.model.tasks[place].new.caps.clone(), ..requester("lin", None) }
    }

    fn lease(&self, index: prop::sample::Index) -> Option<(harvest_store::Lease, usize)> {
        let leases = &self.model.leases;
        (!leases.is_empty()).then(|| leases[index.index(leases.len())].clone())
    }

    fn task(&self, index: prop::sample::Index) -> Option<usize> {
        let count = self.model.tasks.len();
        (count > 0).then(|| index.index(count))
    }

    fn expect_leases(&self, leases: &[harvest_store::Lease], owner: usize) {
        let mut places: Vec<usize> = leases.iter().map(|lease| self.model.place(&lease.task)).collect();
        places.sort_unstable();
        assert_eq!(places, self.model.held_by(owner));
        assert!(leases.iter().zip(places).all(|(lease, _)| self.model.holds(lease, self.model.place(&lease.task))));
    }

    /// Everything that must hold after each step.
    async fn check(&mut self) {
        let (mut ready, mut parked, mut claimed) = (Vec::new(), Vec::new(), Vec::new());
        let (mut blocked, mut waiting) = (0, 0);
        for (place, entry) in self.model.tasks.iter().enumerate() {
            let detail = self.store.task(&entry.new.id).await.unwrap();
            let turns = &detail.sessions[0].turns;
            let turn = turns[entry.current].status;
            let order: Vec<_> = turns.iter().map(|turn| &turn.id).collect();
            assert_eq!(
                order,
                entry.turns.iter().map(|(id, ..)| id).collect::<Vec<_>>(),
                "no prompt is lost or doubled"
            );
            assert!(turns[..entry.current].iter().all(|turn| turn.status == TurnStatus::Done));
            for (behind, turn) in turns.iter().enumerate().skip(entry.current + 1) {
                let withdrawn = entry.withdrawn.contains(&behind);
                assert_eq!(turn.status, if withdrawn { TurnStatus::Done } else { TurnStatus::Queued });
            }
            let expected = match &entry.state {
                State::Blocked => turn == TurnStatus::Blocked && detail.task.status == TaskStatus::Pending,
                State::Available => {
                    matches!(turn, TurnStatus::Ready | TurnStatus::Parked) && detail.task.status == TaskStatus::Pending
                }
                State::Waiting { .. } => turn == TurnStatus::Waiting && detail.task.status == TaskStatus::Pending,
                State::Claimed { is_running, .. } => {
                    let expected = if *is_running { TaskStatus::Running } else { TaskStatus::Provisioning };
                    turn == TurnStatus::Claimed && detail.task.status == expected
                }
                State::Held(held) => {
                    let expected = match held {
                        Held::Decision => TaskStatus::AwaitingApproval,
                        Held::Resumption => TaskStatus::Interrupted,
                    };
                    turn == TurnStatus::Held && detail.task.status == expected
                }
                State::Done(status) => turn == TurnStatus::Done && detail.task.status == *status,
            };
            assert!(expected, "task {place} is {turn:?} and {}, not {:?}", detail.task.status, entry.state);
            assert_eq!((detail.task.tries, detail.task.retries_left), (entry.tries, entry.retries_left));
            match turn {
                TurnStatus::Ready => ready.push(place),
                TurnStatus::Parked => parked.push(place),
                TurnStatus::Claimed => claimed.push(place),
                TurnStatus::Blocked => blocked += 1,
                TurnStatus::Waiting => waiting += 1,
                TurnStatus::Done | TurnStatus::Queued | TurnStatus::Held => {}
            }
            self.check_journal(entry).await;
        }
        let state = self.store.queue().await.unwrap();
        let counts = state.turns;
        assert_eq!(
            (counts.ready, counts.parked, counts.claimed, counts.blocked, counts.waiting),
            (ready.len() as u64, parked.len() as u64, claimed.len() as u64, blocked, waiting)
        );
        self.check_caps(&state.caps, &ready, &parked, &claimed);
        ready.sort_by_key(|place| self.order(*place));
        self.ready = ready;
    }

    /// The order in which turns are claimed.
    fn order(&self, place: usize) -> (i64, usize) {
        let entry = &self.model.tasks[place];
        let (_, at, number) = entry.turns[entry.current];
        (entry.new.priority.rank(at), number)
    }

    async fn check_journal(&self, entry: &crate::model::Entry) {
        let journal = self.store.events(&entry.new.session, 0, 10_000).await.unwrap();
        assert!(journal.iter().zip(1..).all(|(event, seq)| event.seq == seq), "a gap in the journal");
        let ends = journal.iter().filter(|event| matches!(event.body, EventBody::TaskFinished(_))).count();
        assert_eq!(ends, entry.ends, "a turn ends once");
        let queued = journal.iter().filter(|event| matches!(event.body, EventBody::TurnQueued { .. })).count();
        assert_eq!(queued, entry.turns.len() - 1, "each prompt is told once");
    }

    fn check_caps(&self, caps: &[harvest_store::Cap], ready: &[usize], parked: &[usize], claimed: &[usize]) {
        let of = |place: &usize, cap: &str| self.model.tasks[*place].new.caps.iter().any(|of| of == cap);
        let count = |places: &[usize], cap: &str| places.iter().filter(|place| of(place, cap)).count() as u32;
        let mut full = Vec::new();
        for (name, size) in CAPS.iter().zip(self.model.caps) {
            let stored = caps.iter().find(|cap| cap.name == *name);
            assert_eq!(stored.map(|cap| cap.size), size);
            let (Some(size), Some(stored)) = (size, stored) else { continue };
            assert_eq!(stored.used, count(claimed, name), "those that work under {name}");
            let used = count(ready, name) + count(claimed, name);
            assert!(used <= size || count(ready, name) == 0, "{name} is exceeded");
            if used >= size {
                full.push(*name);
            }
        }
        for place in parked {
            let is_behind = |cap: &&str| {
                ready.iter().filter(|other| of(other, cap)).all(|other| self.order(*other) < self.order(*place))
            };
            let held = full.iter().any(|cap| of(place, cap) && is_behind(cap));
            assert!(held, "task {place} is parked although it goes before one that has a place");
        }
    }
}

fn outcome<T: std::fmt::Debug>(result: &Result<T, Error>) -> Expected {
    match result {
        Ok(_) => Expected::Done,
        Err(Error::StaleLease { .. }) => Expected::StaleLease,
        Err(Error::IllegalMove(_)) => Expected::IllegalMove,
        Err(other) => panic!("{other:?}"),
    }
}

fn explore(cases: u32, length: usize, place: impl Fn() -> Place) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases, max_shrink_iters: 200, ..Config::default() });
    let strategy = prop::collection::vec(op(), 1..length);
    runner
        .run(&strategy, |ops| {
            runtime.block_on(async {
                let place = place();
                let store = match &place {
                    Place::Sqlite { .. } => place.open().await,
                    Place::Postgres { .. } => place.emptied().await,
                };
                let owners = std::array::from_fn(|_| owner());
                let mut run = Run { store, model: Model::default(), owners, now: now(), ready: Vec::new() };
                for op in ops {
                    run.step(op).await;
                    run.check().await;
                }
            });
            Ok(())
        })
        .unwrap();
}

#[test]
fn the_queue_keeps_its_promises_sqlite() {
    explore(64, 60, Place::sqlite_in_memory);
}

#[test]
fn the_queue_keeps_its_promises_postgres() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(Place::Postgres { url }) = runtime.block_on(Place::postgres()) else {
        return harvest_testing::skip(crate::support::cluster::WITHOUT);
    };
    explore(12, 50, || Place::Postgres { url: url.clone() });
}
