//! What was acknowledged is there after the process is gone, and a newer database is left alone.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use harvest_core::EventBody;
use harvest_store::{Error, Sqlite, Step};

use crate::{Place, now, owner, submit};

const CHILD: &str = "HARVEST_STORE_TEST_DATABASE";

/// Not a test of its own: the body of the process that gets killed below. Prints each number after it was acknowledged.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the parent tells the child where the database is")]
async fn writes_until_killed() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let store: std::sync::Arc<dyn harvest_store::Store> = std::sync::Arc::new(Sqlite::open(path.as_ref()).unwrap());
    let submitted = submit(&store).await;
    println!("session {}", submitted.session);
    let lease = store.claim(&owner(), Some(&submitted.turn), now()).await.unwrap().unwrap();
    for _ in 0.. {
        let event = EventBody::MessageDelta { text: "x".repeat(500) };
        let seq = store.append(&lease, Step::new(now(), vec![event])).await.unwrap();
        println!("written {seq}");
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "starts this very test binary with a cleared environment")]
async fn acknowledged_events_survive_kill_9() {
    let place = Place::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "durability::writes_until_killed", "--nocapture"])
        .env_clear()
        .env(CHILD, place.folder.path().join("harvest.db"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut session, mut acknowledged) = (None, 0u64);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        // The test harness prints its own words in front of the first line.
        if let Some((_, id)) = line.split_once("session ") {
            session = Some(id.parse().unwrap());
        } else if let Some(seq) = line.strip_prefix("written ") {
            acknowledged = seq.parse().unwrap();
        }
        if acknowledged >= 40 {
            child.kill().unwrap();
            break;
        }
    }
    child.wait().unwrap();
    let journal = place.open().events(&session.unwrap(), 0, 100_000).await.unwrap();
    assert!(journal.len() as u64 >= acknowledged, "{} of {acknowledged} are left", journal.len());
    assert!(journal.iter().zip(1..).all(|(event, seq)| event.seq == seq));
}

#[tokio::test]
async fn reopening_finds_everything() {
    let place = Place::new();
    let submitted = submit(&place.open()).await;
    let detail = place.open().task(&submitted.task.id).await.unwrap();
    assert_eq!(detail.task, submitted.task);
}

#[test]
fn a_newer_database_is_refused_and_untouched() {
    let place = Place::new();
    drop(place.open());
    let path = place.folder.path().join("harvest.db");
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.pragma_update(None, "user_version", 999).unwrap();
    drop(raw);
    assert!(matches!(Sqlite::open(&path), Err(Error::TooNew { found: 999, .. })));
}

#[test]
fn what_is_no_database_is_refused() {
    let place = Place::new();
    let path = place.folder.path().join("harvest.db");
    std::fs::write(&path, "this is not a database, but it is long enough to be taken for one".repeat(20)).unwrap();
    assert!(matches!(Sqlite::open(&path), Err(Error::Sqlite(_))));
}
