//! A crash at the places that only some turns come to: plans, forks, interrupts, races, reviews and bases that move.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;
use serde_json::json;

use crate::github::{Hub, wait_for};
use crate::killed::journal;
use crate::reattach::wait_until;
use crate::served::Server;
use crate::session::of_type;
use crate::support::{FIX, Ran, World, git};

#[track_caller]
fn assert_crashed(ran: &Ran, place: &str) {
    assert_eq!(ran.status.signal(), Some(6), "{place}: {ran:?}");
}

/// A worker that dies around the plan: there is one plan to decide on, and it is carried out once.
#[test]
fn a_crash_while_planning_leaves_one_plan_to_decide_on() {
    for place in ["plan::before", "plan::asked"] {
        let world = World::new();
        let task = world.json(&["task", "add", "Mend it", "--plan"])["id"].as_str().unwrap().to_owned();
        let conversations = [
            ("The plan for it is approved", json!([{ "shell": format!("{FIX}; echo x >> done") }, {}])),
            ("Make a plan", json!([{ "say": "I would mend two.sh." }])),
        ];
        let script = world.conversations(&conversations);
        let crash = format!("{place}=return(crash)");
        assert_crashed(&world.worker(&script, &["--until-empty"]).env("HARVEST_FAILPOINTS", &crash).finish(), place);
        world.work_off(&conversations);
        let shown = world.json(&["task", "show", &task]);
        assert_eq!(shown["status"], "awaiting_approval", "{place}: {shown:#}");
        assert_eq!(of_type(&world.journal(&task), "plan.proposed").len(), 1, "{place}");
        world.json(&["task", "approve", &task]);
        world.work_off(&conversations);
        let shown = world.json(&["task", "show", &task]);
        assert_eq!(shown["status"], "completed", "{place}: {shown:#}");
        assert_eq!(world.show(&format!("{}:done", shown["branch"].as_str().unwrap())), "x", "{place}");
        world.assert_nothing_left();
    }
}

/// A fork that was not recorded is no session, and nothing of it stays; asked for again it is made.
#[test]
fn a_crash_while_a_fork_is_made_leaves_no_session_behind() {
    let world = World::new();
    // It is at work until its checkpoint is made.
    let replies = json!([{ "shell": format!("{FIX}; echo 1 > state") }, { "shell": "sleep 987654" }, {}]);
    let mut ran = world.run_with(&replies, &[]).start();
    let saved = ran.wait_for_type("checkpoint.created");
    ran.signal(Signal::INT);
    ran.finish().assert_ended(3, "cancelled", Some("cancelled"));
    let (session, at) = (saved["session_id"].as_str().unwrap(), saved["seq"].to_string());
    let fork = ["session", "fork", session, "--at", &at, "Look at it", "--json"];
    let crashed = world.harvest(&fork).env("HARVEST_FAILPOINTS", "fork::brought=return(crash)").finish();
    assert_crashed(&crashed, "fork::brought");
    assert_eq!(world.tasks().len(), 1, "it was not recorded");
    let made = world.json(&["session", "fork", session, "--at", &at, "Look at it"]);
    world.work_off(&[("Look at it", json!([{ "shell": "cp state seen" }, {}]))]);
    let shown = world.json(&["task", "show", made["id"].as_str().unwrap()]);
    assert_eq!(shown["status"], "completed", "{shown:#}");
    assert_eq!(world.show(&format!("{}:seen", shown["branch"].as_str().unwrap())), "1");
    // A fork that is being made right now looks the same, so it is removed when it is an hour old.
    let known = [session, shown["sessions"][0]["id"].as_str().unwrap()];
    let orphans = || {
        let kept = fs::read_dir(world.data().join("sessions")).unwrap().flatten().map(|entry| entry.path());
        kept.filter(|path| !known.iter().any(|known| path.ends_with(known))).collect::<Vec<_>>()
    };
    assert_eq!(orphans().len(), 1);
    let hours_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 60 * 60);
    fs::File::open(&orphans()[0]).unwrap().set_modified(hours_ago).unwrap();
    let collected = world.harvest(&["gc"]).finish();
    assert_eq!((collected.exit, orphans().len()), (Some(0), 0), "{collected:?}");
    world.assert_nothing_left();
}

/// An interrupt that was recorded holds, although its worker died right behind it.
#[test]
fn a_crash_right_behind_an_interrupt_leaves_it_interrupted() {
    let world = World::new();
    world.without_spares();
    let conversations = [
        ("This was interrupted", json!([{ "shell": "cat src/two.sh" }, { "expect": "echo two", "say": "Done." }])),
        ("Mend it", json!([{ "shell": FIX }, { "shell": "sleep 987654" }])),
    ];
    let script = world.conversations(&conversations);
    let task = world.add_task("Mend it");
    let running = world.worker(&script, &[]).env("HARVEST_FAILPOINTS", "interrupt::after=return(crash)").start();
    wait_until("it hangs", || of_type(&journal(&world, &task), "tool.call").len() == 2);
    let interrupt = world.harvest(&["interrupt", &task]).start();
    assert_crashed(&running.finish(), "interrupt::after");
    assert_eq!(interrupt.finish().exit, Some(0));
    let shown = world.json(&["task", "show", &task]);
    assert_eq!(shown["status"], "interrupted", "{shown:#}");
    world.assert_nothing_left();
    world.json(&["session", "resume", &task]);
    world.work_off(&conversations);
    let (shown, events) = (world.json(&["task", "show", &task]), journal(&world, &task));
    assert_eq!(shown["status"], "completed", "{shown:#}\n{events:#?}");
    assert_eq!(of_type(&events, "session.interrupted").len(), 1);
    world.assert_nothing_left();
}

/// An entrant that has placed itself and dies is placed once, and the race has one winner.
#[test]
fn a_crash_of_an_entrant_in_the_race_leaves_one_winner() {
    let world = World::new();
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let added = world.json(&["task", "add", "Mend it", "--race", "builtin:one,builtin:two"]);
    let race = added["settings"]["race"]["id"].as_str().unwrap();
    let worker = || world.worker(&script, &["--until-empty", "--agents", "2"]);
    assert_crashed(&worker().env("HARVEST_FAILPOINTS", "race::placed=return(crash)").finish(), "race::placed");
    let up = worker().finish();
    assert_eq!(up.exit, Some(0), "{up:?}");
    let over = world.json(&["race", "show", race]);
    let completed = over["items"].as_array().unwrap().iter().filter(|row| row["status"] == "completed");
    assert!(over["winner"].is_string() && completed.count() == 1, "{over:#}");
    let branches = git(&world.repo(), &["branch", "--list", "harvest/*", "--format=%(refname:short)"]);
    assert_eq!(branches.lines().count(), 1, "{branches}");
    world.assert_nothing_left();
}

/// A server on the fake GitHub that dies at this place; everything it was told is in its database.
fn serve(world: &World, hub: &Hub, script: &std::path::Path, crash: Option<&str>) -> Server {
    let args = ["serve", "--listen", "127.0.0.1:0", "--json", "--agents", "1", "--model-script"];
    let mut serve = world.harvest(&args).args(&[script]);
    if let Some(place) = crash {
        serve = serve.env("HARVEST_FAILPOINTS", &format!("{place}=return(crash)"));
    }
    let server = Server::started(serve.start());
    hub.tell(&server);
    server
}

/// A review that was given and not recorded is not given again.
#[test]
fn a_crash_right_behind_a_review_leaves_exactly_one() {
    let world = World::new();
    let hub = Hub::new(&world);
    crate::github_reviews::proposed(&world, &hub, "ada");
    let script = world.path().join("reviews.json");
    fs::write(&script, json!({ "conversations": [{ "replies": [{ "say": "It says too little." }] }] }).to_string())
        .unwrap();
    let server = serve(&world, &hub, &script, Some("deliver::reviewed"));
    hub.person("ada").post("/pulls/1/requested_reviewers", &json!({ "reviewers": ["harvest"] })).ok();
    assert_crashed(&server.running.finish(), "deliver::reviewed");
    let _next = serve(&world, &hub, &script, None);
    wait_for(|| world.tasks().into_iter().next().filter(|task| task["status"] == "completed"));
    assert_eq!(hub.calls("POST", "/pulls/1/reviews"), 1);
}

/// Work is carried to a base that has moved once, whoever finishes it.
#[test]
fn a_crash_while_work_is_carried_to_a_new_base_carries_it_once() {
    let world = World::new();
    let hub = Hub::new(&world);
    let other = crate::github_bases::clone(&world, &hub);
    let conversations = json!([
        { "when_prompt_contains": "write it down", "replies": [{ "shell": "echo down > notes" }, { "say": "Noted." }] },
        { "replies": [{ "shell": FIX }, { "say": "Mended." }] },
    ]);
    let script = world.path().join("carried.json");
    fs::write(&script, json!({ "conversations": conversations }).to_string()).unwrap();
    let server = serve(&world, &hub, &script, Some("carry::done"));
    let ada = hub.person("ada");
    ada.post("/issues", &json!({ "title": "Make the failing test pass", "labels": ["harvest"] })).ok();
    hub.status("Done");
    let base = crate::github_bases::commit(&other, "upstream", "x\n");
    crate::github_bases::push(&other, &base);
    ada.post("/issues/2/comments", &json!({ "body": "@harvest write it down" })).ok();
    assert_crashed(&server.running.finish(), "carry::done");
    let next = serve(&world, &hub, &script, None);
    let noted = |call: &harvest_forge::fake::Exchange| {
        let body = call.request.as_ref().and_then(|body| body["body"].as_str());
        call.method == "PATCH" && call.path.ends_with("/pulls/2") && body.is_some_and(|body| body.contains("Noted."))
    };
    hub.exchange("the second turn", noted);
    let task = wait_for(|| world.tasks().into_iter().next().filter(|task| task["status"] == "completed"));
    assert_eq!(of_type(&journal(&world, task["id"].as_str().unwrap()), "base.moved").len(), 1);
    let repository = hub.fake.repository("ada/shop");
    let branch = git(&repository, &["for-each-ref", "--format=%(refname)", "refs/heads/harvest"]);
    assert_eq!(git(&repository, &["merge-base", "main", &branch]), base, "it stands on the newest base");
    next.running.signal(Signal::TERM);
}
