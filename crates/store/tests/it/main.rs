//! The suite that every store passes. Each test runs on a database of its own.

mod claims;
mod durability;
mod journal;
mod lists;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use harvest_core::{
    BranchName, Cost, Entropy, OwnerId, Prompt, SessionId, Settings, Source, TaskId, TaskKind, Timestamp, TurnId,
};
use harvest_store::{NewTask, Sqlite, Store, Submitted};

/// Different every time, without any randomness.
#[derive(Debug)]
struct Counter;

impl Entropy for Counter {
    fn bytes(&self) -> [u8; 10] {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mixed = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&mixed.to_be_bytes());
        bytes
    }
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn owner() -> OwnerId {
    OwnerId::generate(&Counter)
}

fn new_task(prompt: &str) -> NewTask {
    let session = SessionId::generate(&Counter);
    NewTask {
        owner: None,
        id: TaskId::generate(&Counter),
        turn: TurnId::generate(&Counter),
        branch: BranchName::for_session(prompt, &session),
        session,
        kind: TaskKind::Prompt,
        source: Source::Cli,
        prompt: Prompt::new(prompt).unwrap(),
        agent: "builtin".into(),
        model: Some("scripted-1".into()),
        repository: "/srv/orchard".into(),
        base: "b".repeat(40),
        settings: Settings {
            test: Some("make test".into()),
            require_tests: false,
            timeout_ms: 1_800_000,
            max_turns: 50,
            provider: Some("anthropic".into()),
            author_name: "Ada (Harvest)".into(),
            author_email: "ada@example.com".into(),
        },
        budget: Cost::from_nanos(10_000_000_000),
        requested_by: "ada".into(),
        at: now(),
    }
}

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// The same database each time, as another process would open it.
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(Sqlite::open(&self.folder.path().join("harvest.db")).unwrap())
    }
}

async fn submit(store: &Arc<dyn Store>) -> Submitted {
    store.create_task(new_task("Make the failing test pass")).await.unwrap()
}
