//! Trying GitHub without GitHub, as `docs/github.md` describes it: `harvest dev fake-github` beside `harvest serve`.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::reattach::wait_until;
use crate::served::{Client, Server};
use crate::support::{FIX, Running, World, git};

/// A fake GitHub that runs as a program of its own, and where it listens.
struct Trial {
    running: Running,
    url: String,
}

impl Trial {
    /// From the repository's folder, with its path relative to it.
    fn start(world: &World, listen: &str, hooks: &str) -> Self {
        let args = ["dev", "fake-github", "--json", "--listen", listen, "--repository", "ada/shop=../repo"];
        let mut running = world.harvest(&args).args(&["--webhook-url", hooks, "--folder", "../hub"]).start();
        let listening = running.wait_for_type("listening");
        Self { running, url: listening["url"].as_str().unwrap().to_owned() }
    }

    fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    fn person(&self, login: &str) -> Client {
        let client = Client::at(&format!("{}/api/v3/repos/ada/shop", self.url));
        client.header("authorization", &format!("Bearer token-{login}"))
    }

    fn issue(&self, title: &str) -> u64 {
        let made = self.person("ada").post("/issues", &json!({ "title": title, "labels": ["harvest"] })).ok();
        made["number"].as_u64().unwrap()
    }

    fn comments(&self, number: u64) -> Vec<String> {
        let comments = self.person("ada").get(&format!("/issues/{number}/comments")).ok();
        comments.as_array().unwrap().iter().map(|one| one["body"].as_str().unwrap().to_owned()).collect()
    }

    fn is_done(&self, number: u64) -> bool {
        self.comments(number).iter().any(|comment| comment.contains("**Done**"))
    }

    fn stop(self) {
        self.running.signal(Signal::TERM);
        assert_eq!(self.running.finish().exit, Some(0));
    }
}

/// A port that is free now.
fn free_address() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn serve(world: &World, address: &str, script: &std::path::Path) -> Server {
    let args = ["serve", "--listen", address, "--json", "--agents", "1", "--model-script"];
    Server::started(world.harvest(&args).args(&[script]).start())
}

fn trial_script(world: &World) -> std::path::PathBuf {
    let script = world.path().join("trial.json");
    let replies = json!([{ "shell": FIX }, { "say": "Done." }]);
    let again = json!([{ "shell": format!("{FIX}; echo more >> notes.txt") }, { "say": "Done." }]);
    let conversations = json!([{ "when_prompt_contains": "Another", "replies": again }, { "replies": replies }]);
    fs::write(&script, json!({ "conversations": conversations }).to_string()).unwrap();
    script
}

#[test]
fn the_trial_works_with_relative_paths_and_survives_a_restart_of_either_side() {
    let world = World::new();
    let (address, script) = (free_address(), trial_script(&world));
    let hooks = format!("http://{address}/webhooks/github");
    let hub = Trial::start(&world, "127.0.0.1:0", &hooks);
    let credential = {
        let app = harvest_forge::fake::Fake::app(Some("harvest"));
        harvest_vault::ExposeSecret::expose_secret(&app).to_owned()
    };
    let add = ["credential", "add", "github", "--base-url", &hub.url, "--from-stdin"];
    assert_eq!(world.harvest(&add).input(&credential).finish().exit, Some(0));
    // The server is not up yet: its webhook waits.
    assert_eq!(hub.issue("Make the failing test pass"), 1);
    let server = serve(&world, &address, &script);
    wait_until("the first issue is done", || hub.is_done(1));
    // The link in the comment opens, for anyone.
    let comment = hub.comments(1).remove(0);
    let link = comment.split(' ').find(|word| word.contains("/pull/")).unwrap();
    let page = Client::at(link).get("");
    assert!(page.status == 200 && page.text.contains("Make the failing test pass"), "{page:?}");
    // The fake is started again: it knows the issue, and Harvest's tokens are void.
    let listen = hub.address().to_owned();
    hub.stop();
    let hub = Trial::start(&world, &listen, &hooks);
    assert!(hub.is_done(1));
    // Its pull request has the number between.
    let second = hub.issue("Another one");
    assert_eq!(second, 3);
    wait_until("the second issue is done", || hub.is_done(second));
    // The server is started again.
    server.running.signal(Signal::TERM);
    assert_eq!(server.running.finish().exit, Some(0));
    let third = hub.issue("Another one more");
    let server = serve(&world, &address, &script);
    wait_until("the third issue is done", || hub.is_done(third));
    let pulls = hub.person("ada").get("/pulls").ok();
    assert_eq!(pulls.as_array().unwrap().len(), 3, "{pulls:#}");
    server.running.signal(Signal::TERM);
    server.running.finish();
    hub.stop();
}

#[test]
fn an_issue_that_is_opened_with_its_label_starts_its_task_and_nothing_says_otherwise() {
    let world = World::new();
    let (address, script) = (free_address(), trial_script(&world));
    let hub = Trial::start(&world, "127.0.0.1:0", &format!("http://{address}/webhooks/github"));
    let app = harvest_forge::fake::Fake::app(Some("harvest"));
    let add = ["credential", "add", "github", "--base-url", &hub.url, "--from-stdin"];
    assert_eq!(world.harvest(&add).input(harvest_vault::ExposeSecret::expose_secret(&app)).finish().exit, Some(0));
    let server = serve(&world, &address, &script);
    let number = hub.issue("Make the failing test pass");
    // It is asked for once more, and has its task already.
    hub.person("ada").post(&format!("/issues/{number}/assignees"), &json!({ "assignees": ["harvest"] })).ok();
    wait_until("the issue is done", || hub.is_done(number));
    server.running.signal(Signal::TERM);
    let ran = server.running.finish();
    assert!(!ran.stderr.contains("started nothing"), "{}", ran.stderr);
    assert_eq!(hub.comments(number).len(), 1, "{:#?}", hub.comments(number));
    hub.stop();
}

#[test]
fn a_fake_github_that_cannot_start_leaves_nothing() {
    let world = World::new();
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let hub = world.path().join("hub");
    let common = ["dev", "fake-github", "--folder", "../hub", "--repository", "ada/shop=../repo"];
    for (args, says) in [
        (&["--listen", "127.0.0.1:0", "--repository", "ada/none=./missing"][..], "missing"),
        (&["--listen", "127.0.0.1:0", "--repository", "no-owner"], "OWNER/NAME"),
        (&["--listen", taken.as_str()], "cannot listen on"),
    ] {
        let ran = world.harvest(&common).args(args).finish();
        assert!(ran.exit == Some(2) && ran.stderr.contains(says), "{ran:?}");
        assert!(!hub.exists(), "{args:?} left {}", hub.display());
    }
    // In a folder that is used, what was there stays, and nothing half made is added.
    let mut first = world.harvest(&common).args(&["--listen", "127.0.0.1:0", "--json"]).start();
    first.wait_for_type("listening");
    first.signal(Signal::TERM);
    first.finish();
    let before = git(&hub.join("ada/shop.git"), &["rev-parse", "HEAD"]);
    let ran = world.harvest(&common).args(&["--listen", "127.0.0.1:0", "--repository", "ada/none=./missing"]).finish();
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    assert_eq!(git(&hub.join("ada/shop.git"), &["rev-parse", "HEAD"]), before);
    let names: Vec<String> =
        fs::read_dir(hub.join("ada")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, ["shop.git"]);
}

#[test]
fn a_webhook_that_starts_nothing_says_why_in_a_comment_and_a_line() {
    let world = World::new();
    let (address, script) = (free_address(), trial_script(&world));
    let hub = Trial::start(&world, "127.0.0.1:0", &format!("http://{address}/webhooks/github"));
    let app = harvest_forge::fake::Fake::app(Some("harvest"));
    let add = ["credential", "add", "github", "--base-url", &hub.url, "--from-stdin"];
    let added = world.harvest(&add).input(harvest_vault::ExposeSecret::expose_secret(&app)).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    // An agent that nobody has installed: a task can not even be queued.
    let config = world.home().join(".config/harvest/harvest.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "agent = \"aider\"\n").unwrap();
    let server = serve(&world, &address, &script);
    let plain = hub.person("ada").post("/issues", &json!({ "title": "Without a label" })).ok();
    let number = hub.issue("Make the failing test pass");
    let says = |number: u64, text: &str| hub.comments(number).iter().any(|comment| comment.contains(text));
    wait_until("the comment", || says(number, "**Nothing was started**: the agent is not installed (HV-0123)"));
    hub.person("ada").post(&format!("/issues/{number}/comments"), &json!({ "body": "@harvest please" })).ok();
    server.running.signal(Signal::TERM);
    let ran = server.running.finish();
    let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("started nothing")).collect();
    let labelled = format!("/ada/shop/issues/{number} by ada started nothing: Aider is not installed on this machine");
    assert!(lines.iter().any(|line| line.contains(&labelled)), "{}", ran.stderr);
    let unlabelled = format!("/ada/shop/issues/{} started nothing: it has no label `harvest`", plain["number"]);
    assert!(lines.iter().any(|line| line.contains(&unlabelled)), "{}", ran.stderr);
    // One comment, however often it is asked for, and no path of this machine in it.
    let ours: Vec<String> =
        hub.comments(number).into_iter().filter(|one| one.contains("Nothing was started")).collect();
    assert_eq!(ours.len(), 1, "{ours:#?}");
    assert!(!ours[0].contains(world.path().to_str().unwrap()), "{ours:?}");
    assert_eq!(hub.comments(plain["number"].as_u64().unwrap()), Vec::<String>::new());
    hub.stop();
}

#[test]
fn an_issue_of_the_fake_can_be_edited_closed_and_labelled_as_on_github() {
    let world = World::new();
    let (address, script) = (free_address(), trial_script(&world));
    let hub = Trial::start(&world, "127.0.0.1:0", &format!("http://{address}/webhooks/github"));
    let app = harvest_forge::fake::Fake::app(Some("harvest"));
    let add = ["credential", "add", "github", "--base-url", &hub.url, "--from-stdin"];
    assert_eq!(world.harvest(&add).input(harvest_vault::ExposeSecret::expose_secret(&app)).finish().exit, Some(0));
    let server = serve(&world, &address, &script);
    let number = hub.person("ada").post("/issues", &json!({ "title": "Make it pass" })).ok()["number"].clone();
    let edit = |body| hub.person("ada").send(ureq::http::Method::PATCH, &format!("/issues/{number}"), Some(&body));
    assert_eq!(edit(json!({ "state": "closed", "title": "Closed" })).ok()["state"], "closed");
    assert_eq!(edit(json!({ "state": "open" })).ok()["title"], "Closed");
    assert_eq!(edit(json!({ "state": "lost" })).status, 422);
    // A label that is set in this way starts the task, as every label does.
    edit(json!({ "labels": ["harvest"] })).ok();
    wait_until("the issue is done", || hub.is_done(number.as_u64().unwrap()));
    server.running.signal(Signal::TERM);
    server.running.finish();
    hub.stop();
}
