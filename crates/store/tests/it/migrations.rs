//! A database of any earlier version opens, keeps what is in it and works.

use harvest_core::{Priority, TaskStatus};
use harvest_store::TaskQuery;

use crate::support::make::*;
use crate::support::on_both;
use crate::support::place::Place;

const SQLITE: &[&str] = &[
    include_str!("../../src/sqlite/migrations/0001_start.sql"),
    include_str!("../../src/sqlite/migrations/0002_queue.sql"),
    include_str!("../../src/sqlite/migrations/0003_keys.sql"),
    include_str!("../../src/sqlite/migrations/0004_credentials.sql"),
    include_str!("../../src/sqlite/migrations/0005_repositories.sql"),
    include_str!("../../src/sqlite/migrations/0006_stops.sql"),
];
const POSTGRES: &[&str] = &[
    include_str!("../../src/postgres/migrations/0001_start.sql"),
    include_str!("../../src/postgres/migrations/0002_queue.sql"),
    include_str!("../../src/postgres/migrations/0003_keys.sql"),
    include_str!("../../src/postgres/migrations/0004_credentials.sql"),
    include_str!("../../src/postgres/migrations/0005_repositories.sql"),
    include_str!("../../src/postgres/migrations/0006_stops.sql"),
];
/// As some earlier version may have made it.
const OLD_FUNCTION: &str = "CREATE FUNCTION harvest_claim() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';";

/// As the first version wrote them: one task that waits, one that has ended.
const ROWS: &str = r#"
INSERT INTO tasks (id, kind, source, status, prompt, agent, model, repository, base, settings, budget_nanos, requested_by, created_at)
  VALUES ('0000000000000001', 'prompt', 'cli', 'pending', 'Mend it', 'builtin', NULL, '/srv/orchard',
    'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
    '{"test":null,"require_tests":false,"timeout_ms":1,"max_turns":1,"provider":"anthropic","author_name":"A","author_email":"a@b"}',
    5, 'ada', '2026-01-01T00:00:00Z'),
  ('0000000000000002', 'prompt', 'cli', 'failed', 'Mend it too', 'builtin', NULL, '/srv/orchard',
    'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
    '{"test":null,"require_tests":false,"timeout_ms":1,"max_turns":1,"provider":"anthropic","author_name":"A","author_email":"a@b"}',
    5, 'ada', '2026-01-01T00:00:01Z');
INSERT INTO sessions (id, task_id, branch, last_seq, created_at)
  VALUES ('0000000000000003', '0000000000000001', 'harvest/mend-it-00000000', 1, '2026-01-01T00:00:00Z'),
  ('0000000000000004', '0000000000000002', 'harvest/mend-it-too-00000000', 0, '2026-01-01T00:00:01Z');
INSERT INTO turns (id, session_id, ordinal, author, prompt, status, rank, created_at)
  VALUES ('0000000000000005', '0000000000000003', 1, 'ada', 'Mend it', 'ready', 7, '2026-01-01T00:00:00Z'),
  ('0000000000000006', '0000000000000004', 1, 'ada', 'Mend it too', 'done', 8, '2026-01-01T00:00:01Z');
INSERT INTO events (session, seq, at, body)
  VALUES (1, 1, '2026-01-01T00:00:00Z', '{"type":"warning","data":{"message":"kept"}}');
"#;

/// A database as the given version left it.
async fn leave(place: &Place, version: usize) {
    let schemas = if place.is_sqlite() { SQLITE } else { POSTGRES };
    // The rows come first: each later version changes them itself.
    place.sql(schemas[0]).await;
    place.sql(ROWS).await;
    for schema in &schemas[1..version] {
        place.sql(schema).await;
    }
    if !place.is_sqlite() {
        place.sql(OLD_FUNCTION).await;
    }
    let mark = match place.is_sqlite() {
        true => format!("PRAGMA user_version = {version}"),
        false => format!(
            "CREATE TABLE harvest_version (version BIGINT NOT NULL); INSERT INTO harvest_version VALUES ({version})"
        ),
    };
    place.sql(&mark).await;
}

async fn works_as_before(place: &Place) {
    let store = place.open().await;
    let failed = TaskQuery { status: Some(TaskStatus::Failed), limit: 10, ..Default::default() };
    assert_eq!(store.tasks(failed).await.unwrap().items[0].id.as_str(), "0000000000000002");
    let waiting = store.task(&"0000000000000001".parse().unwrap()).await.unwrap();
    assert_eq!((waiting.task.priority, waiting.task.tries, &waiting.task.after), (Priority::Normal, 0, &Vec::new()));
    assert_eq!(store.events(&waiting.sessions[0].id, 0, 10).await.unwrap().len(), 1);
    let lease = claim_any(&store, &owner()).await.unwrap();
    assert_eq!((lease.task.as_str(), lease.fence), ("0000000000000001", 1));
    complete(&store, &lease).await;
    store.retry(&"0000000000000002".parse().unwrap(), harvest_store::Admission::default(), now()).await.unwrap();
    let lease = claim_any(&store, &owner()).await.unwrap();
    assert_eq!(lease.task.as_str(), "0000000000000002");
    submit(&store).await;
    let page = place.open().await.tasks(TaskQuery { limit: 10, ..Default::default() }).await.unwrap();
    let statuses: Vec<_> = page.items.iter().map(|task| task.status).collect();
    assert_eq!(statuses, [TaskStatus::Pending, TaskStatus::Provisioning, TaskStatus::Completed]);
}

on_both! {
    async fn the_first_version_is_upgraded(place) {
        leave(&place, 1).await;
        works_as_before(&place).await;
    }

    async fn the_second_version_is_upgraded(place) {
        leave(&place, 2).await;
        works_as_before(&place).await;
    }

    async fn the_sixth_version_is_upgraded(place) {
        leave(&place, 6).await;
        works_as_before(&place).await;
    }
}
