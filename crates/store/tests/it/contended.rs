//! Several processes at one queue: every turn is handed out and finished exactly once.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use harvest_core::{TaskStatus, TurnId};
use harvest_store::Claim;

use crate::support::make::*;
use crate::support::on_both;
use crate::support::place::open;

const CHILD: &str = "HARVEST_STORE_TEST_CONTENDED";
const TURNS: usize = 2400;
const PROCESSES: usize = 3;
const WORKERS: usize = 4;

/// One of the processes below. Prints every turn that it has finished.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by another test"]
#[expect(clippy::disallowed_methods, reason = "the parent tells the child where the database is")]
async fn claims_until_nothing_is_left() {
    let Ok(address) = std::env::var(CHILD) else { return };
    let store = open(&address).await.unwrap();
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let store = store.clone();
            tokio::spawn(async move {
                let me = owner();
                let mut finished = Vec::new();
                loop {
                    let claim = Claim { until: Some(later(3600)), ..a_claim(&me, worker + 1) };
                    let leases = store.claim(claim).await.unwrap();
                    for lease in &leases {
                        fail(&store, lease).await;
                        finished.push(lease.turn.clone());
                    }
                    // What others are just taking is passed over: only an empty queue is the end.
                    if leases.is_empty() && store.queue().await.unwrap().turns.ready == 0 {
                        return finished;
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        for turn in worker.await.unwrap() {
            println!("\nfinished {turn}");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "starts this very test binary with a cleared environment")]
fn child(address: &str) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "contended::claims_until_nothing_is_left", "--include-ignored", "--nocapture"])
        .env_clear()
        .env(CHILD, address)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

on_both! {
    async fn no_turn_is_doubled_and_none_is_lost(place) {
        let store = place.open().await;
        let mut made: Vec<TurnId> = Vec::new();
        for _ in 0..4 {
            let new = (0..TURNS / 4).map(|_| new_task("x")).collect();
            made.extend(store.create_tasks(new).await.unwrap().into_iter().map(|made| made.turn));
        }
        let children: Vec<_> = (0..PROCESSES).map(|_| child(&place.address())).collect();
        let mut finished: Vec<TurnId> = Vec::new();
        for mut child in children {
            let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
            finished.extend(lines.filter_map(|line| line.strip_prefix("finished ").map(|turn| turn.parse().unwrap())));
            assert!(child.wait().unwrap().success());
        }
        finished.sort();
        made.sort();
        assert_eq!(finished, made);
        let state = store.queue().await.unwrap();
        assert_eq!((state.turns, state.tasks), (Default::default(), [(TaskStatus::Failed.to_string(), TURNS as u64)].into()));
    }
}
