//! Reviews that Harvest is asked for, pushes that it hears of, work that will not fit together, and in whose name it speaks.

use std::fs;

use harvest_forge::fake::Exchange;
use serde_json::{Value, json};

use crate::description;
use crate::github::{Hub, wait_for};
use crate::github_bases::{clone, commit};
use crate::served::Server;
use crate::support::{World, git};

const FINDINGS: &str = "The new file says too little.\n\n```json\n[{\"path\": \"src/new.sh\", \"line\": 2, \"body\": \"Ask @grace what three is.\"}, \
    {\"path\": \"src/one.sh\", \"line\": 1, \"body\": \"This could go.\"}]\n```";

/// Someone's pull request, number 1, from a branch of the repository.
pub fn proposed(world: &World, hub: &Hub, login: &str) -> String {
    let other = clone(world, hub);
    git(&other, &["switch", "--quiet", "--create", "three"]);
    let head = commit(&other, "src/new.sh", "echo one\necho three\n");
    git(&other, &["push", "--quiet", "origin", "three"]);
    let pull = json!({ "title": "Say three", "body": "It is more.", "head": "three", "base": "main" });
    hub.person(login).post("/pulls", &pull).ok();
    head
}

fn serve(world: &World, hub: &Hub, conversations: &Value) -> Server {
    let path = world.path().join("reviews.json");
    fs::write(&path, json!({ "conversations": conversations }).to_string()).unwrap();
    let server = world.serve(&["--agents", "1", "--model-script", path.to_str().unwrap()]);
    hub.tell(&server);
    server
}

fn is_review(call: &Exchange) -> bool {
    call.method == "POST" && call.path.ends_with("/pulls/1/reviews")
}

#[test]
fn a_review_that_is_asked_for_is_given_with_remarks_on_lines() {
    let world = World::new();
    let hub = Hub::new(&world);
    let head = proposed(&world, &hub, "ada");
    let replies = json!([{ "replies": [{ "expect": "+echo three", "shell": "cat src/new.sh; echo mine > src/one.sh" }, { "say": FINDINGS }] }]);
    let _server = serve(&world, &hub, &replies);
    hub.person("ada").post("/pulls/1/requested_reviewers", &json!({ "reviewers": ["harvest"] })).ok();
    let given = hub.exchange("a review", is_review);
    let review = given.request.unwrap();
    assert_eq!((given.status, &review["event"], &review["commit_id"]), (200, &json!("COMMENT"), &json!(head)));
    let remarks =
        json!([{ "path": "src/new.sh", "line": 2, "side": "RIGHT", "body": "Ask @\u{200b}grace what three is." }]);
    assert_eq!(review["comments"], remarks);
    let body = review["body"].as_str().unwrap();
    assert!(body.contains("says too little") && body.contains("`src/one.sh:1`: This could go."), "{body}");
    hub.status("Reviewed");
    let task = wait_for(|| world.tasks().into_iter().next().filter(|task| task["status"] == "completed"));
    assert_eq!((&task["kind"], &task["source"]), (&json!("pr_review"), &json!("github_pr")));
    assert_eq!((&task["branch"], &task["base"], &task["evidence"]), (&Value::Null, &json!(head), &Value::Null));
    let branches = git(&hub.fake.repository("ada/shop"), &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    assert_eq!(branches, "main\nthree", "what it changed goes nowhere");
    // Checks that fail there are not ours to mend.
    let check = json!({ "name": "unit", "head_sha": head, "status": "completed", "conclusion": "failure" });
    hub.person("ada").post("/check-runs", &check).ok();
    hub.person("ada").post("/pulls/1/requested_reviewers", &json!({ "reviewers": ["harvest"] })).ok();
    let second = |call: &Exchange| {
        is_review(call) && call.answer.as_ref().unwrap()["id"] != given.answer.as_ref().unwrap()["id"]
    };
    hub.exchange("another review", second);
    let shown = world.json(&["task", "show", task["id"].as_str().unwrap()]);
    let turns = shown["sessions"][0]["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 2, "one for each time it was asked: {turns:#?}");
    description::holds(&hub.fake.exchanges());
}

#[test]
fn a_strangers_change_is_reviewed_only_when_someone_who_may_write_approves() {
    let world = World::new();
    let hub = Hub::new(&world);
    proposed(&world, &hub, "eve");
    let replies = json!([
        { "when_prompt_contains": "The plan for it is approved", "replies": [{ "say": FINDINGS }] },
        { "replies": [{ "say": "I would read it twice." }] },
    ]);
    let _server = serve(&world, &hub, &replies);
    hub.person("ada").post("/pulls/1/requested_reviewers", &json!({ "reviewers": ["harvest"] })).ok();
    let awaits = |task: &Value| task["status"] == "awaiting_approval";
    let task = wait_for(|| world.tasks().into_iter().next().filter(awaits));
    assert_eq!((&task["settings"]["plan"], &task["settings"]["trust"]), (&json!(true), &json!("stranger")));
    assert!(!hub.fake.exchanges().iter().any(is_review), "nothing was said so far");
    hub.person("ada").post("/issues/1/comments", &json!({ "body": "@harvest approve" })).ok();
    hub.exchange("a review", |call| is_review(call) && call.status == 200);
}

#[test]
fn a_strangers_new_commits_are_reviewed_only_when_someone_approves_again() {
    let world = World::new();
    let hub = Hub::new(&world);
    proposed(&world, &hub, "eve");
    let replies = json!([
        { "when_prompt_contains": "The plan for it is approved", "replies": [{ "say": FINDINGS }] },
        { "replies": [{ "say": "I would read it twice." }] },
    ]);
    let _server = serve(&world, &hub, &replies);
    let ada = hub.person("ada");
    let ask = || ada.post("/pulls/1/requested_reviewers", &json!({ "reviewers": ["harvest"] })).ok();
    let approve = || ada.post("/issues/1/comments", &json!({ "body": "@harvest approve" })).ok();
    let in_state = |state: &'static str| {
        wait_for(|| world.tasks().into_iter().next().filter(|task| task["status"] == state));
    };
    let reviews = || hub.fake.exchanges().iter().filter(|call| is_review(call) && call.status == 200).count();
    ask();
    in_state("awaiting_approval");
    approve();
    in_state("completed");
    assert_eq!(reviews(), 1);
    // What was approved is what was there then.
    let other = world.path().join("other");
    commit(&other, "src/new.sh", "echo one\necho three\necho mail me the keys\n");
    git(&other, &["push", "--quiet", "origin", "three"]);
    ask();
    in_state("awaiting_approval");
    assert_eq!(reviews(), 1, "nothing is said before it is approved");
    approve();
    in_state("completed");
    assert_eq!(reviews(), 2);
}

#[test]
fn a_push_prepares_the_snapshot_again() {
    let world = World::new();
    let hub = Hub::new(&world);
    let address = format!("{}/ada/shop", hub.fake.url());
    let added =
        world.harvest(&["repo", "add", &address, "--name", "shop", "--setup", "cat src/one.sh > ready"]).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    let _server = serve(&world, &hub, &json!([{ "replies": [{ "say": "Done." }] }]));
    let stands_at = |commit: &str| {
        let shop = world.json(&["repo", "list"])["items"][0].clone();
        (shop["snapshot"]["commit"] == commit).then_some(shop)
    };
    wait_for(|| stands_at(&world.head()));
    let other = clone(&world, &hub);
    let url = hub.fake.url().replace("http://", "http://ada:token-ada@");
    // Of another branch nothing is kept.
    let aside = commit(&other, "src/one.sh", "echo 1\n");
    git(&other, &["push", "--quiet", &format!("{url}/ada/shop.git"), "HEAD:refs/heads/aside"]);
    let newer = commit(&other, "src/one.sh", "echo uno\n");
    git(&other, &["push", "--quiet", &format!("{url}/ada/shop.git"), "HEAD:refs/heads/main"]);
    wait_for(|| stands_at(&newer));
    let prepared: Vec<String> = snapshots(&world.data().join("prepared"));
    assert!(
        prepared.iter().all(|text| text != "echo 1\n") && prepared.contains(&"echo uno\n".to_owned()),
        "{aside}: {prepared:?}"
    );
}

/// What the setup command left in each snapshot.
fn snapshots(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != ".git" {
            found.extend(snapshots(&path));
        } else if entry.file_name() == "ready" {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
    found
}

#[test]
fn tasks_that_change_the_same_places_are_told_of_each_other() {
    let world = World::new();
    let conversations = json!([
        { "when_prompt_contains": "first way", "replies": [{ "shell": "echo 'echo 2' > src/two.sh" }, { "stall": "5m" }] },
        { "when_prompt_contains": "elsewhere", "replies": [{ "shell": "echo x > notes" }, { "stall": "5m" }] },
        { "replies": [{ "shell": "echo 'echo two' > src/two.sh; echo y > other" }, { "stall": "5m" }] },
    ]);
    let path = world.path().join("overlaps.json");
    fs::write(&path, json!({ "conversations": conversations }).to_string()).unwrap();
    let server = world.serve(&["--agents", "3", "--model-script", path.to_str().unwrap()]);
    let client = server.with(&world.token(&["--role", "admin"]));
    let mut tasks = Vec::new();
    for prompt in ["Mend it the first way", "Do something elsewhere", "Mend it the second way"] {
        let task = client.post("/api/tasks", &world.ask(prompt)).ok();
        let session = task["sessions"][0]["id"].as_str().unwrap().to_owned();
        // Each begins when the one before has saved something.
        client.stream(&format!("/api/sessions/{session}/events?after=0")).until("checkpoint.created");
        tasks.push(task["id"].as_str().unwrap().to_owned());
    }
    let detail = |number: usize| client.get(&format!("/api/tasks/{}", tasks[number])).ok();
    let overlaps = |task: &Value| task["overlaps"].as_array().unwrap().clone();
    let second = wait_for(|| Some(detail(2)).filter(|task| !overlaps(task).is_empty()));
    for (task, with) in [(&second, 0), (&detail(0), 2)] {
        let found = overlaps(task);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!((&found[0]["with_task"], &found[0]["paths"]), (&json!(tasks[with]), &json!(["src/two.sh"])));
    }
    assert_eq!(overlaps(&detail(1)), Vec::<Value>::new(), "who works elsewhere meets nobody");
    let shown = world.harvest(&["task", "show", &tasks[0]]).finish();
    assert!(shown.stdout.contains("overlaps") && shown.stdout.contains("src/two.sh"), "{}", shown.stdout);
    let logs = world.harvest(&["task", "logs", &tasks[2], "--json"]).finish();
    assert!(logs.stdout.contains("will not merge: src/two.sh"), "{}", logs.stdout);
    // Nothing of one is where the other's agent could ask for it.
    let session = second["sessions"][0]["id"].as_str().unwrap();
    assert!(!world.data().join("sessions").join(session).join("forecast").exists());
    client.post(&format!("/api/tasks/{}/cancel", tasks[0]), &json!({})).ok();
    wait_for(|| Some(detail(2)).filter(|task| overlaps(task).is_empty()));
    for task in &tasks[1..] {
        client.post(&format!("/api/tasks/{task}/cancel"), &json!({})).ok();
    }
}

#[test]
fn a_pull_request_is_opened_as_the_person_who_signed_in_and_else_as_the_app() {
    // With a token that holds, with one that GitHub does not know, with one of another GitHub, and with none.
    let token = |token: &str| json!({ "access_token": token, "expires_at": null, "refresh_token": null }).to_string();
    let expired = json!({ "access_token": "token-ada", "expires_at": "2020-01-01T00:00:00Z", "refresh_token": null });
    let cases = [
        (Some(("here", token("token-ada"))), "ada"),
        (Some(("here", token("taken-back"))), "harvest[bot]"),
        (Some(("here", expired.to_string())), "harvest[bot]"),
        (Some(("elsewhere.example.com", token("token-ada"))), "harvest[bot]"),
        (None, "harvest[bot]"),
    ];
    for (kept, author) in cases {
        let world = World::new();
        let hub = Hub::new(&world);
        let here = hub.fake.url().trim_start_matches("http://").to_owned();
        if let Some((host, secret)) = &kept {
            let scope = format!("user:ada@{}", if *host == "here" { here.as_str() } else { host });
            let add = ["credential", "add", "github", "--scope", &scope, "--name", "sign-in", "--from-stdin"];
            let added = world.harvest(&add).input(secret).finish();
            assert_eq!(added.exit, Some(0), "{added:?}");
        }
        let _server = crate::github::serve(&world, &hub, &[]);
        hub.person("ada")
            .post("/issues", &json!({ "title": "Make the failing test pass", "labels": ["harvest"] }))
            .ok();
        hub.status("Done");
        let opened = hub.exchange("a pull request", |call| {
            call.method == "POST" && call.path.ends_with("/pulls") && call.status == 201
        });
        assert_eq!(opened.answer.unwrap()["user"]["login"], author, "{kept:?}");
        assert_eq!(hub.calls("POST", "/pulls"), 1);
        assert!(!format!("{:?}", world.tasks()).contains("token-ada"));
    }
}
