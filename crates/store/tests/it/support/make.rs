//! Tasks, claims and steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use harvest_core::{
    BranchName, Cost, Entropy, EventBody, FailureReason, Move, OnFailedDependency, Outcome, OwnerId, Priority, Prompt,
    SessionId, Settings, Source, TaskId, TaskKind, TaskStatus, Timestamp, TurnId,
};
use harvest_store::{Admission, Claim, Lease, NewTask, NewTurn, Step, Store, Submitted};

/// Different every time and in every process, without any randomness.
#[derive(Debug)]
pub struct Counter;

impl Entropy for Counter {
    fn bytes(&self) -> [u8; 10] {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mixed = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&mixed.to_be_bytes());
        bytes[8..].copy_from_slice(&(std::process::id() as u16).to_be_bytes());
        bytes
    }
}

pub fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

pub fn later(seconds: i64) -> Timestamp {
    Timestamp::from_millisecond(now().as_millisecond() + seconds * 1000).unwrap()
}

pub fn owner() -> OwnerId {
    OwnerId::generate(&Counter)
}

pub fn new_task(prompt: &str) -> NewTask {
    let session = SessionId::generate(&Counter);
    NewTask {
        id: TaskId::generate(&Counter),
        turn: TurnId::generate(&Counter),
        branch: BranchName::for_session(prompt, &session),
        session,
        kind: TaskKind::Prompt,
        source: Source::Cli,
        source_url: None,
        prompt: Prompt::new(prompt).unwrap(),
        agent: "builtin".into(),
        model: Some("scripted-1".into()),
        repository: "/srv/orchard".into(),
        base: "b".repeat(40),
        settings: Settings {
            test: Some("make test".into()),
            provider: Some("anthropic".into()),
            author_name: "Ada (Harvest)".into(),
            author_email: "ada@example.com".into(),
            ..Settings::default()
        },
        budget: Cost::from_nanos(10_000_000_000),
        priority: Priority::Normal,
        after: Vec::new(),
        on_failed_dependency: OnFailedDependency::Hold,
        convoy: None,
        retries: 0,
        claim_for: None,
        caps: Vec::new(),
        extra: None,
        key: None,
        warnings: Vec::new(),
        requested_by: "ada".into(),
        admission: Admission::default(),
        at: now(),
    }
}

pub fn requester(person: &str, token: Option<harvest_core::TokenId>) -> harvest_store::Requester {
    harvest_store::Requester { person: person.into(), token, limits: Vec::new(), caps: Vec::new() }
}

pub fn new_turn(session: &SessionId, prompt: &str) -> NewTurn {
    NewTurn {
        id: TurnId::generate(&Counter),
        session: session.clone(),
        prompt: Prompt::new(prompt).unwrap(),
        author: "grace".into(),
        agent: None,
        model: None,
        delivers: false,
        caps: Vec::new(),
        key: None,
        admission: Admission::default(),
        at: now(),
    }
}

pub async fn submit(store: &Arc<dyn Store>) -> Submitted {
    create(store, new_task("Make the failing test pass")).await
}

pub async fn create(store: &Arc<dyn Store>, task: NewTask) -> Submitted {
    store.create_tasks(vec![task]).await.unwrap().pop().unwrap()
}

/// One lease for whoever asks, held until given up.
pub fn a_claim(owner: &OwnerId, most: usize) -> Claim {
    Claim { owner: owner.clone(), turn: None, most, warm: Vec::new(), at: now(), until: None }
}

pub async fn claim(store: &Arc<dyn Store>, turn: &TurnId) -> Lease {
    let claim = Claim { turn: Some(turn.clone()), ..a_claim(&owner(), 1) };
    store.claim(claim).await.unwrap().pop().expect("the turn is ready")
}

pub async fn claim_any(store: &Arc<dyn Store>, owner: &OwnerId) -> Option<Lease> {
    store.claim(a_claim(owner, 1)).await.unwrap().pop()
}

/// The tasks that are handed out, in order.
pub async fn claim_all(store: &Arc<dyn Store>) -> Vec<TaskId> {
    store.claim(a_claim(&owner(), 1000)).await.unwrap().into_iter().map(|lease| lease.task).collect()
}

pub fn warning(text: &str) -> Step {
    Step::new(now(), vec![EventBody::Warning { message: text.into() }])
}

pub fn outcome(lease: &Lease, status: TaskStatus, reason: Option<FailureReason>) -> Outcome {
    Outcome {
        task_id: lease.task.clone(),
        session_id: lease.session.clone(),
        status,
        reason,
        error: reason.map(|reason| reason.to_string()),
        branch: None,
        commit: "c".repeat(40),
        base: "b".repeat(40),
        evidence: None,
        usage: Default::default(),
        cost_usd: Default::default(),
    }
}

pub fn ending(lease: &Lease, status: TaskStatus, reason: Option<FailureReason>) -> Step {
    let outcome = outcome(lease, status, reason);
    let by = if status == TaskStatus::Completed { Move::Complete } else { Move::Fail };
    Step::new(now(), vec![EventBody::TaskFinished(outcome.clone())]).moving(by).ending(outcome)
}

pub async fn complete(store: &Arc<dyn Store>, lease: &Lease) {
    store.append(lease, Step::new(now(), Vec::new()).moving(Move::Start)).await.unwrap();
    store.append(lease, ending(lease, TaskStatus::Completed, None)).await.unwrap();
}

pub async fn fail(store: &Arc<dyn Store>, lease: &Lease) {
    store.append(lease, ending(lease, TaskStatus::Failed, Some(FailureReason::Agent))).await.unwrap();
}

/// Long enough for anything that happens at all.
pub async fn within<T>(waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await.expect("it happened in time")
}
