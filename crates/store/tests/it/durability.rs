//! What was acknowledged is there after the process is gone, and a newer database is left alone.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};

use harvest_core::EventBody;
use harvest_store::{Error, Sqlite, Step};

use crate::support::make::*;
use crate::support::on_both;
use crate::support::place::{Place, open};

const CHILD: &str = "HARVEST_STORE_TEST_DATABASE";

/// The body of the process that gets killed below. Prints each number after it was acknowledged.
#[tokio::test]
#[ignore = "started by another test"]
#[expect(clippy::disallowed_methods, reason = "the parent tells the child where the database is")]
async fn writes_until_killed() {
    let Ok(address) = std::env::var(CHILD) else { return };
    let store = open(&address).await.unwrap();
    let submitted = submit(&store).await;
    println!("session {}", submitted.session);
    let lease = claim(&store, &submitted.turn).await;
    for _ in 0.. {
        let event = EventBody::MessageDelta { text: "x".repeat(500) };
        let seq = store.append(&lease, Step::new(now(), vec![event])).await.unwrap();
        println!("written {seq}");
    }
}

fn child(address: &str) -> std::process::Child {
    under(&[], address)
}

/// The same under a program that runs others.
#[expect(clippy::disallowed_methods, reason = "starts this very test binary with a cleared environment")]
pub fn under(wrapper: &[&str], address: &str) -> std::process::Child {
    let own = std::env::current_exe().unwrap();
    let mut all = wrapper.iter().map(std::ffi::OsStr::new).chain([own.as_os_str()]);
    Command::new(all.next().unwrap())
        .args(all)
        .args(["--exact", "durability::writes_until_killed", "--include-ignored", "--nocapture"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env(CHILD, address)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

on_both! {
    async fn acknowledged_events_survive_kill_9(place) {
        let mut child = child(&place.address());
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
        let journal = place.open().await.events(&session.unwrap(), 0, 100_000).await.unwrap();
        assert!(journal.len() as u64 >= acknowledged, "{} of {acknowledged} are left", journal.len());
        assert!(journal.iter().zip(1..).all(|(event, seq)| event.seq == seq));
    }

    async fn reopening_finds_everything(place) {
        let submitted = submit(&place.open().await).await;
        let detail = place.open().await.task(&submitted.task.id).await.unwrap();
        assert_eq!(detail.task, submitted.task);
    }

    async fn a_newer_database_is_refused_and_untouched(place) {
        drop(place.open().await);
        let newer = if place.is_sqlite() { "PRAGMA user_version = 999" } else { "UPDATE harvest_version SET version = 999" };
        place.sql(newer).await;
        let refused = place.try_open().await;
        assert!(matches!(refused, Err(Error::TooNew { found: 999, .. })), "{refused:?}");
    }

    async fn several_that_start_at_once_migrate_once(place) {
        let opening: Vec<_> = (0..6).map(|_| {
            let address = place.address();
            tokio::spawn(async move { open(&address).await.unwrap() })
        }).collect();
        for store in opening {
            submit(&store.await.unwrap()).await;
        }
        assert_eq!(place.open().await.queue().await.unwrap().turns.ready, 6);
    }
}

/// SQLite refuses to switch a new file to its log while another connection does the same, and waits for neither.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_make_a_file_at_the_same_moment_are_all_let_in() {
    const AT_ONCE: usize = 8;
    for round in 0..60 {
        let place = Place::sqlite();
        let together = Arc::new(Barrier::new(AT_ONCE));
        let opening: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let (address, together) = (place.address(), Arc::clone(&together));
                tokio::task::spawn_blocking(move || {
                    together.wait();
                    tokio::runtime::Handle::current().block_on(open(&address)).map(drop)
                })
            })
            .collect();
        for opened in opening {
            opened.await.unwrap().unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
    }
}

/// What the kernel was asked, in its order: nothing is acknowledged while a byte of the log is not on disk.
#[tokio::test]
async fn every_acknowledgement_follows_its_sync() {
    if !std::path::Path::new("/usr/bin/strace").exists() {
        return harvest_testing::skip("strace is not installed");
    }
    let place = Place::sqlite();
    let address = place.address();
    let trace = format!("{}.trace", address.strip_prefix("sqlite:").unwrap());
    let trace = trace.as_str();
    let strace = ["strace", "-f", "-y", "-qq", "-s", "32", "-e", "trace=write,pwrite64,fsync,fdatasync", "-o", trace];
    let mut child = under(&strace, &address);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let acknowledged = lines.filter(|line| line.starts_with("written ")).take(50).count();
    // Nobody reads any more, and that ends it.
    child.wait().unwrap();
    assert_eq!(acknowledged, 50);
    let (mut unsynced, mut syncing) = (HashSet::new(), HashMap::new());
    let (mut syncs, mut told) = (0, 0);
    for line in std::fs::read_to_string(trace).unwrap().lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let file = call.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(file, _)| file.to_owned());
        let is_log = file.as_ref().is_some_and(|file| file.ends_with("-wal"));
        let is_over = call.ends_with("= 0");
        if call.starts_with("pwrite64(") && is_log {
            unsynced.extend(file);
        } else if (call.starts_with("fdatasync(") || call.starts_with("fsync(")) && is_log {
            // What is written while it goes on is not part of it.
            let file = file.and_then(|file| unsynced.take(&file));
            if !is_over && let Some(file) = file {
                syncing.insert(thread, file);
            }
            syncs += 1;
        } else if call.contains("sync resumed>") && is_over {
            syncing.remove(thread);
        } else if call.contains("\"written ") {
            assert!(unsynced.is_empty() && syncing.is_empty(), "acknowledged before it was on disk: {line}");
            told += 1;
        }
    }
    println!("{told} acknowledgements, each after its sync; {syncs} syncs of the log");
    assert!(told >= 50 && syncs >= told, "{told} acknowledgements, {syncs} syncs");
}

#[tokio::test]
async fn what_is_no_database_is_refused() {
    let place = Place::sqlite();
    let address = place.address();
    let path = address.strip_prefix("sqlite:").unwrap();
    std::fs::write(path, "this is not a database, but it is long enough to be taken for one".repeat(20)).unwrap();
    let refused = Sqlite::open(path.as_ref()).unwrap_err();
    assert!(matches!(&refused, Error::Damaged { path: named, .. } if named == path), "{refused:?}");
}
