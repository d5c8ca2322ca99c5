//! The status comment of a task on its issue: whatever way the task goes and ends, the comment says so.

use std::fs;

use serde_json::{Value, json};

use crate::description;
use crate::github::{Hub, wait_for};
use crate::reattach::wait_until;
use crate::served::Server;
use crate::support::{FIX, World, git};

/// Serves with `config`, and tells GitHub where.
fn serve(world: &World, hub: &Hub, config: &str, replies: &Value) -> Server {
    let path = world.path().join("harvest.toml");
    fs::write(&path, config).unwrap();
    let server = world.serve_with(replies, &["--agents", "1", "--config", path.to_str().unwrap()]);
    hub.tell(&server);
    server
}

/// Opens the first issue, with the label.
fn ask(hub: &Hub) {
    hub.person("ada").post("/issues", &json!({ "title": "Make the failing test pass", "labels": ["harvest"] })).ok();
}

/// The one status comment of the first issue, as it is now.
#[track_caller]
fn comment(hub: &Hub) -> String {
    let comments = hub.person("ada").get("/issues/1/comments").ok();
    let bodies = comments.as_array().unwrap().iter().map(|one| one["body"].as_str().unwrap().to_owned());
    let ours: Vec<String> = bodies.filter(|body| body.starts_with("<!-- harvest: status of")).collect();
    assert_eq!(ours.len(), 1, "{ours:#?}");
    ours[0].clone()
}

/// The comments that a text tells people to write.
fn advertised(body: &str) -> Vec<String> {
    body.split('`').filter(|part| part.starts_with('@')).map(str::to_owned).collect()
}

/// Waits until the task has ended, and returns the comment.
#[track_caller]
fn comment_at_the_end(world: &World, hub: &Hub, says: &str) -> String {
    let ended = |task: &Value| ["failed", "cancelled", "completed"].map(Value::from).contains(&task["status"]);
    wait_until("the task ends", || world.tasks().first().is_some_and(ended));
    wait_until("the comment says how", || comment(hub).contains(says));
    comment(hub)
}

/// Prints what would call people, end a fence and start Markdown of its own, and gives up.
const GIVES_UP: &str =
    "cat > /dev/null; echo 'Ask @grace about #7.'; echo '```'; echo '![x](http://evil.test/y)'; exit 3";

#[test]
fn planning_that_fails_is_told_on_the_issue_with_its_reason_in_a_fence() {
    let world = World::new();
    let hub = Hub::new(&world);
    world.add_agent("failing", "text", GIVES_UP);
    let _server = serve(&world, &hub, "agent = \"failing\"\n", &json!([]));
    hub.person("eve").post("/issues", &json!({ "title": "Make the failing test pass" })).ok();
    hub.person("ada").post("/issues/1/labels", &json!({ "labels": ["harvest"] })).ok();
    hub.status("Working on a plan");
    let body = comment_at_the_end(&world, &hub, "**Failed**");
    assert!(!body.contains("Working on a plan"), "{body}");
    assert!(body.contains("**Failed**: the agent failed") && body.contains("exited with code 3"), "{body}");
    // Everything that the agent printed stands between the two fences.
    let parts: Vec<&str> = body.split("```").collect();
    assert_eq!(parts.len(), 3, "{body}");
    assert!(parts[1].contains("@grace") && parts[1].contains("evil.test"), "{body}");
    assert!(!parts[0].contains("grace") && parts[2].trim().is_empty(), "{body}");
    description::holds(&hub.fake.exchanges());
}

#[test]
fn work_whose_tests_fail_is_told_on_the_issue_with_the_last_lines_of_the_tests() {
    let world = World::new();
    let hub = Hub::new(&world);
    let replies = json!([{ "shell": "echo 'echo ask @grace; exit 1' >> src/one.sh" }, { "say": "Done." }]);
    let _server = serve(&world, &hub, "", &replies);
    ask(&hub);
    let body = comment_at_the_end(&world, &hub, "**Failed**: tests");
    let task = world.json(&["task", "show", world.tasks()[0]["id"].as_str().unwrap()]);
    let (error, output) = (task["error"].as_str().unwrap(), task["evidence"]["output"].as_str().unwrap());
    assert!(!output.is_empty() && body.contains(error), "{error}: {body}");
    let (_, folded) = body.split_once("<summary>Last lines of the tests</summary>\n\n```text\n").unwrap();
    assert!(folded.starts_with(output.trim_end()), "{output}: {folded}");
}

#[test]
fn a_task_that_cannot_begin_is_told_on_the_issue_without_paths_of_the_server() {
    let world = World::new();
    let hub = Hub::new(&world);
    let _server = serve(&world, &hub, "", &json!([]));
    world.json(&["queue", "pause"]);
    ask(&hub);
    hub.status("Queued");
    wait_for(|| world.tasks().into_iter().next());
    fs::remove_dir_all(hub.repository()).unwrap();
    for mirrors in ["mirrors", "snapshots"] {
        let _ = fs::remove_dir_all(world.data().join(mirrors));
    }
    world.json(&["queue", "resume"]);
    let body = comment_at_the_end(&world, &hub, "**Failed**");
    assert!(body.contains("gives the reason"), "{body}");
    assert!(!body.contains(world.path().to_str().unwrap()), "{body}");
}

#[test]
fn a_task_that_is_cancelled_in_the_queue_is_told_on_the_issue() {
    let world = World::new();
    let hub = Hub::new(&world);
    let _server = serve(&world, &hub, "", &json!([]));
    world.json(&["queue", "pause"]);
    ask(&hub);
    hub.status("Queued");
    let task = wait_for(|| world.tasks().into_iter().next());
    world.json(&["task", "cancel", task["id"].as_str().unwrap()]);
    let body = comment_at_the_end(&world, &hub, "**Cancelled**");
    assert!(body.contains("**Cancelled** before it started"), "{body}");
    description::holds(&hub.fake.exchanges());
}

#[test]
fn a_plan_that_is_rejected_is_told_on_the_issue() {
    let world = World::new();
    let hub = Hub::new(&world);
    let config = "[github]\nlogin = \"till[bot]\"\n";
    let _server = serve(&world, &hub, config, &json!([{ "say": "First the tests, then the script." }]));
    hub.person("eve").post("/issues", &json!({ "title": "Make the failing test pass" })).ok();
    hub.person("ada").post("/issues/1/labels", &json!({ "labels": ["harvest"] })).ok();
    let told = hub.status("The plan waits for approval").request.unwrap();
    wait_until("it waits", || world.tasks()[0]["status"] == "awaiting_approval");
    let comments = advertised(told["body"].as_str().unwrap());
    assert_eq!(comments, ["@till approve", "@till reject"], "{told:#}");
    hub.person("ada").post("/issues/1/comments", &json!({ "body": comments[1] })).ok();
    let body = comment_at_the_end(&world, &hub, "**Cancelled**");
    assert!(!body.contains("waits for approval"), "{body}");
}

#[test]
fn a_task_that_is_interrupted_is_told_on_the_issue() {
    let world = World::new();
    let hub = Hub::new(&world);
    let _server = serve(&world, &hub, "", &json!([{ "shell": "sleep 60" }, { "say": "Done." }]));
    ask(&hub);
    hub.status("Working on it");
    let id = wait_for(|| world.tasks().into_iter().next())["id"].as_str().unwrap().to_owned();
    wait_until("its agent works", || {
        crate::killed::journal(&world, &id).iter().any(|event| event["type"] == "tool.call")
    });
    let interrupted = world.harvest(&["interrupt", &id]).finish();
    assert_eq!(interrupted.exit, Some(0), "{interrupted:?}");
    wait_until("the comment says so", || comment(&hub).contains("**Interrupted**"));
}

#[test]
fn a_task_that_changes_nothing_is_told_as_that_on_the_issue() {
    let world = World::new();
    world.write("src/two.sh", "echo two\n");
    world.commit("Leave nothing to do");
    let hub = Hub::new(&world);
    let _server = serve(&world, &hub, "", &json!([{ "say": "There is nothing to do." }]));
    ask(&hub);
    let body = comment_at_the_end(&world, &hub, "**Done**");
    assert!(body.contains("**Done**: no changes"), "{body}");
    assert_eq!(hub.calls("POST", "/pulls"), 0);
}

#[test]
fn work_that_no_test_proved_is_told_as_not_verified_on_the_issue() {
    let world = World::empty();
    crate::support::init(&world.repo());
    world.write("README", "A repository without tests\n");
    world.commit("Start");
    let hub = Hub::new(&world);
    let _server = serve(&world, &hub, "", &json!([{ "shell": "echo x > x" }, { "say": "Done." }]));
    ask(&hub);
    let body = comment_at_the_end(&world, &hub, "**Done**");
    assert!(body.contains("/pull/2 · not verified · "), "{body}");
    // The task knows its pull request, too.
    let id = world.tasks()[0]["id"].as_str().unwrap().to_owned();
    let url = format!("{}/ada/shop/pull/2", hub.fake.url());
    let pull = || world.json(&["task", "show", &id])["pull_request"].clone();
    assert_eq!(pull(), json!({ "url": url, "number": 2, "state": "open" }));
    let shown = world.harvest(&["task", "show", &id]).finish().stdout;
    assert!(shown.contains("pull request #2 (open)") && shown.contains(&url), "{shown}");
    hub.person("ada").send(ureq::http::Method::PUT, "/pulls/2/merge", Some(&json!({}))).ok();
    wait_until("the merge is known", || pull()["state"] == "merged");
}

#[test]
fn the_status_comment_tells_that_a_tested_result_waits_for_approval() {
    let world = World::new();
    let hub = Hub::new(&world);
    let config = world.path().join("harvest.toml");
    fs::write(&config, "[deliver]\napproval = true\n").unwrap();
    let script = json!([{ "shell": FIX }, { "say": "Done." }]);
    let server = world.serve_with(&script, &["--agents", "1", "--config", config.to_str().unwrap()]);
    hub.tell(&server);
    let ada = hub.person("ada");
    ada.post("/issues", &json!({ "title": "Make the failing test pass", "labels": ["harvest"] })).ok();
    let told = hub.status("the result waits for approval");
    let body = told.request.unwrap()["body"].as_str().unwrap().to_owned();
    assert!(body.contains("(1 file changed)"), "{body}");
    assert_eq!((hub.calls("POST", "/pulls"), hub.calls("POST", "/issues/1/comments")), (0, 1), "one comment for all");
    // What the comment tells people to say is what is listened to.
    let comments = advertised(&body);
    assert_eq!(comments, ["@harvest approve", "@harvest reject"], "{body}");
    ada.post("/issues/1/comments", &json!({ "body": comments[0] })).ok();
    hub.exchange("a pull request", |call| call.method == "POST" && call.path.ends_with("/pulls") && call.status == 201);
    hub.status("Done");
    description::holds(&hub.fake.exchanges());
    // The command that people are told of exists.
    let command = body.split('`').find(|part| part.starts_with("harvest ")).unwrap();
    let ran = world.harvest(&command.split(' ').skip(1).collect::<Vec<_>>()).finish();
    assert!(ran.exit == Some(0) && ran.stdout.contains("Done."), "{command}: {ran:?}");
}

#[test]
fn what_failed_is_not_pushed_unless_policy_wants_a_draft() {
    for (policy, pulls) in [("", 0), ("[github]\ndraft_failed = true\n", 1)] {
        let world = World::new();
        let hub = Hub::new(&world);
        let config = world.path().join("harvest.toml");
        fs::write(&config, policy).unwrap();
        let broken = json!([{ "shell": "echo 'exit 1' >> src/one.sh" }, { "say": "Done." }]);
        let server = world.serve_with(&broken, &["--agents", "1", "--config", config.to_str().unwrap()]);
        hub.tell(&server);
        hub.person("ada").post("/issues", &json!({ "title": "Break it", "labels": ["harvest"] })).ok();
        hub.status("Failed");
        assert_eq!(hub.calls("POST", "/pulls"), pulls, "{policy}");
        let branches = git(&hub.repository(), &["for-each-ref", "--format=%(refname)", "refs/heads/harvest"]);
        assert_eq!(branches.is_empty(), pulls == 0, "{branches}");
        if pulls == 1 {
            let opened = hub.exchange("a draft", |call| call.method == "POST" && call.path.ends_with("/pulls"));
            assert_eq!(opened.request.unwrap()["draft"], true);
        }
    }
}

/// Why a task failed is told in its draft, without keys: neither those that the agent gives as its reason nor those it printed.
#[test]
fn a_draft_of_failed_work_shows_no_key() {
    let key = "ghp_canary0123456789abcdefghijklmnopqr";
    let gave_up = json!({ "type": "result", "subtype": "error_during_execution", "is_error": true, "errors": [format!("no access with {key}")] });
    for (dialect, last) in [("claude_code", gave_up.to_string()), ("text", format!("no access with {key}"))] {
        let world = World::new();
        let hub = Hub::new(&world);
        world.add_agent(
            "failing",
            dialect,
            &format!("cat > /dev/null; echo more >> src/one.sh; echo '{last}'; exit 1"),
        );
        let config = world.path().join("harvest.toml");
        fs::write(&config, "agent = \"failing\"\n[github]\ndraft_failed = true\n").unwrap();
        let server = world.serve_with(&json!([]), &["--agents", "1", "--config", config.to_str().unwrap()]);
        hub.tell(&server);
        hub.person("ada").post("/issues", &json!({ "title": "Break it", "labels": ["harvest"] })).ok();
        hub.status("Failed");
        let opened = hub.exchange("a draft", |call| call.method == "POST" && call.path.ends_with("/pulls"));
        let body = opened.request.unwrap()["body"].as_str().unwrap().to_owned();
        assert!(body.contains("**Not finished:**") && body.contains("no access with [redacted]"), "{dialect}: {body}");
        assert!(!body.contains("canary"), "{dialect}: {body}");
    }
}
