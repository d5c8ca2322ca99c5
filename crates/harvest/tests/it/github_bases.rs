//! Bases that move while sessions work: all is delivered, nothing is lost.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::github::Hub;
use crate::support::{FIX, World, git};

/// Someone else's clone of the hub's repository.
pub fn clone(world: &World, hub: &Hub) -> PathBuf {
    let path = world.path().join("other");
    let from = hub.fake.repository("ada/shop");
    git(world.path(), &["clone", "--quiet", from.to_str().unwrap(), "other"]);
    path
}

pub fn commit(path: &Path, file: &str, content: &str) -> String {
    fs::write(path.join(file), content).unwrap();
    git(path, &["add", "--all"]);
    git(path, &["commit", "--quiet", "--message", &format!("Change {file}")]);
    git(path, &["rev-parse", "HEAD"])
}

pub fn push(path: &Path, commit: &str) {
    git(path, &["push", "--quiet", "origin", &format!("{commit}:refs/heads/main")]);
}

#[test]
fn ten_sessions_at_once_on_a_moving_base_are_all_delivered() {
    let world = World::new();
    let hub = Hub::new(&world);
    let server = world.serve_with(&json!([{ "shell": FIX }, { "say": "Done." }]), &["--agents", "4"]);
    hub.tell(&server);
    let (ada, other) = (hub.person("ada"), clone(&world, &hub));
    for number in 1..=10 {
        ada.post("/issues", &json!({ "title": format!("Mend it, way {number}"), "labels": ["harvest"] })).ok();
        push(&other, &commit(&other, &format!("upstream-{number}"), "x\n"));
    }
    let heads = |exchange: &harvest_forge::fake::Exchange| {
        exchange.request.as_ref().unwrap()["head"].as_str().unwrap().to_owned()
    };
    let is_new = |call: &harvest_forge::fake::Exchange| {
        call.method == "POST" && call.path.ends_with("/pulls") && call.status == 201
    };
    let mut seen: Vec<String> = Vec::new();
    while seen.len() < 10 {
        let next = hub.exchange("another pull request", |call| is_new(call) && !seen.contains(&heads(call)));
        seen.push(heads(&next));
    }
    let repository = hub.fake.repository("ada/shop");
    for branch in &seen {
        assert_eq!(git(&repository, &["show", &format!("{branch}:src/two.sh")]), "echo two");
        assert_eq!(git(&repository, &["rev-list", "--count", &format!("main..{branch}")]), "1", "{branch}");
    }
    assert_eq!(hub.calls("POST", "/pulls"), 10);
}

#[test]
fn work_on_many_files_is_carried_across_ten_bases_and_two_conflicts() {
    const ROUNDS: usize = 10;
    const CONFLICTS: [usize; 2] = [4, 8];
    let world = World::new();
    let hub = Hub::new(&world);
    let other = clone(&world, &hub);
    let mut bases = vec![git(&other, &["rev-parse", "HEAD"])];
    for round in 1..=ROUNDS {
        bases.push(match CONFLICTS.contains(&round) {
            true => commit(&other, "src/two.sh", &format!("echo three # {round}\n")),
            false => commit(&other, &format!("upstream-{round}"), "x\n"),
        });
    }
    // The newest first: an agent is told what was said before as well.
    let mut conversations: Vec<Value> = (1..=ROUNDS)
        .rev()
        .map(|round| {
            let (from, to) = (&bases[round - 1], &bases[round]);
            // As the prompt says; of what both changed, ours is kept with the other's remark.
            let solve = format!(
                "git fetch -q origin {to} && ! git rebase -q --onto {to} {from} && printf 'echo two # {round}\\n' > src/two.sh && \
                 git add src/two.sh && GIT_EDITOR=true git rebase --continue && "
            );
            let solve = if CONFLICTS.contains(&round) { solve } else { String::new() };
            let (shell, expect) = (format!("{solve}echo {round} > notes-{round}"), if solve.is_empty() { "round" } else { "src/two.sh" });
            json!({ "when_prompt_contains": format!("round {round}."), "replies": [{ "expect": expect, "shell": shell }, { "say": format!("Noted {round}.") }] })
        })
        .collect();
    let many = format!("{FIX}; mkdir many; for i in $(seq 200); do echo $i > many/$i; done");
    conversations.push(json!({ "replies": [{ "shell": many }, { "say": "Mended." }] }));
    let script = world.path().join("rounds.json");
    fs::write(&script, json!({ "conversations": conversations }).to_string()).unwrap();
    let server = world.serve(&["--agents", "1", "--model-script", script.to_str().unwrap()]);
    hub.tell(&server);
    let ada = hub.person("ada");
    ada.post("/issues", &json!({ "title": "Make the failing test pass", "labels": ["harvest"] })).ok();
    hub.status("Done");
    for (round, base) in bases.iter().enumerate().skip(1) {
        push(&other, base);
        ada.post("/issues/2/comments", &json!({ "body": format!("@harvest write down round {round}.") })).ok();
        let says = format!("Noted {round}.");
        let told = |call: &harvest_forge::fake::Exchange| {
            call.request.as_ref().is_some_and(|body| body["body"].as_str().is_some_and(|body| body.contains(&says)))
        };
        hub.exchange(&says, |call| call.method == "PATCH" && call.path.ends_with("/pulls/2") && told(call));
    }
    let repository = hub.fake.repository("ada/shop");
    let branch = git(&repository, &["for-each-ref", "--format=%(refname)", "refs/heads/harvest"]);
    let files = git(&repository, &["ls-tree", "-r", "--name-only", &branch]);
    let count = |prefix: &str| files.lines().filter(|file| file.starts_with(prefix)).count();
    assert_eq!((count("many/"), count("notes-"), count("upstream-")), (200, ROUNDS, ROUNDS - CONFLICTS.len()));
    assert_eq!(git(&repository, &["show", &format!("{branch}:src/two.sh")]), "echo two # 8");
    assert_eq!(git(&repository, &["merge-base", "main", &branch]), bases[ROUNDS], "it stands on the newest base");
    let task = &world.tasks()[0];
    assert_eq!(task["status"], "completed", "{task:#}");
}

#[test]
fn failed_checks_of_a_commit_that_someone_else_pushed_begin_no_turn() {
    let world = World::new();
    let hub = Hub::new(&world);
    let server = world.serve_with(&json!([{ "shell": FIX }, { "say": "Done." }]), &["--agents", "1"]);
    hub.tell(&server);
    let ada = hub.person("ada");
    ada.post("/issues", &json!({ "title": "Make the failing test pass", "labels": ["harvest"] })).ok();
    hub.status("Done");
    let pull = ada.get("/pulls/2").ok();
    let branch = pull["head"]["ref"].as_str().unwrap();
    let other = clone(&world, &hub);
    git(&other, &["checkout", "--quiet", branch]);
    let theirs = commit(&other, "theirs.txt", "x\n");
    git(&other, &["push", "--quiet", "origin", &format!("{theirs}:refs/heads/{branch}")]);
    assert_eq!(ada.get("/pulls/2").ok()["head"]["sha"], json!(theirs));
    let failed = json!({ "name": "unit", "head_sha": theirs, "status": "completed", "conclusion": "failure" });
    ada.post("/check-runs", &failed).ok();
    let outcome = crate::github::wait_for(|| {
        let database = crate::serve_limits::database(&world);
        let sql = "SELECT outcome FROM deliveries WHERE event LIKE 'check%' AND outcome IS NOT NULL";
        database.query_row(sql, [], |row| row.get::<_, String>(0)).ok()
    });
    assert_eq!(outcome, "ignored: no person asked, and Harvest did not deliver the commit");
    let id = world.tasks()[0]["id"].as_str().unwrap().to_owned();
    let shown = world.json(&["task", "show", &id]);
    assert_eq!(shown["sessions"][0]["turns"].as_array().unwrap().len(), 1, "{shown:#}");
}
