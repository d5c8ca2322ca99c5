//! Launchers that are started ahead: what they have on the host goes with whoever started them, however that ends.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harvest_sandbox::{Limits, Spec, Strength, Workspace};

use crate::support::{self, PATIENCE, Place, groups, processes_with, run};

/// What the process that is to be killed finds its folder by.
const FOLDER: &str = "HARVEST_TEST_FOLDER";

fn notes(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("state/.launchers")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The launchers of this place that wait.
fn waiting(folder: &Path) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let cmdline = String::from_utf8_lossy(&cmdline).into_owned();
        cmdline.starts_with(&*folder.to_string_lossy()) && cmdline.contains("--when-told")
    })
    .collect()
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A place where a launcher waits for a second sandbox.
async fn with_a_spare() -> Place {
    let place = support::local();
    let sandbox = place.create().await;
    let folder = place.folder.path().to_owned();
    until("no launcher was started ahead", || !waiting(&folder).is_empty()).await;
    place.provider.destroy(sandbox.id()).await.unwrap();
    place
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_launcher_goes_with_its_provider() {
    let mut place = with_a_spare().await;
    let folder = place.folder.path().to_owned();
    // One of the same place that has none of its own.
    place.provider = (place.again)(&folder);
    until("a launcher outlived its provider", || waiting(&folder).is_empty()).await;
    assert_eq!((groups(&folder), notes(&folder)), (vec![], vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_launcher_that_was_killed_is_not_used() {
    let place = with_a_spare().await;
    for pid in waiting(place.folder.path()) {
        assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    }
    until("a launcher would not die", || waiting(place.folder.path()).is_empty()).await;
    let sandbox = place.create().await;
    assert_eq!(run(&sandbox, "p", "echo here").await.text(), "here");
    place.provider.destroy(sandbox.id()).await.unwrap();
    assert_eq!(place.traces(sandbox.id()), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_launcher_is_left_alone_while_its_process_lives() {
    let place = with_a_spare().await;
    let before = (waiting(place.folder.path()), groups(place.folder.path()));
    (place.again)(place.folder.path()).tidy().await.unwrap();
    assert_eq!((waiting(place.folder.path()), groups(place.folder.path())), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_process_had_ready_is_removed() {
    let place = support::local();
    let folder = place.folder.path().to_owned();
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "launchers::to_be_killed", "--include-ignored", "--nocapture"])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env(FOLDER, &folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("ready")));
    let had = !groups(&folder).is_empty();
    assert_eq!(had, place.provider.capabilities().limits.memory == Strength::Hard);
    assert!(!waiting(&folder).is_empty());
    other.kill().unwrap();
    other.wait().unwrap();
    until("a launcher outlived its process", || waiting(&folder).is_empty()).await;
    place.provider.tidy().await.unwrap();
    let sandboxes = place.provider.list().await.unwrap();
    assert_eq!(sandboxes.len(), 1);
    place.provider.destroy(&sandboxes[0]).await.unwrap();
    assert_eq!((groups(&folder), notes(&folder)), (vec![], vec![]));
    assert_eq!(processes_with(&folder.to_string_lossy()), [""; 0]);
}

/// Not a test: the process that [`what_a_killed_process_had_ready_is_removed`] kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by another test"]
async fn to_be_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let path = folder.join("work");
    std::fs::create_dir(&path).unwrap();
    let workspace = Workspace::Folder { path };
    let spec = Spec { id: support::id(), workspace, objects: None, limits: Limits::default() };
    let provider = support::local_in(folder);
    provider.create(spec).await.unwrap();
    until("no launcher was started ahead", || !waiting(folder).is_empty()).await;
    println!("ready");
    tokio::time::sleep(PATIENCE).await;
}
