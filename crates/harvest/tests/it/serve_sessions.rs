//! The end of sessions over the API, and how much each may have under way and spend.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::serve_access::with_projects;
use crate::served::{Client, Server};
use crate::support::{FIX, World, init};

fn settings(world: &World, text: &str) {
    let folder = world.home().join(".config/harvest");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("harvest.toml"), text).unwrap();
}

fn client(world: &World, server: &Server, args: &[&str]) -> Client {
    server.with(&world.token(args))
}

#[test]
fn nothing_is_left_of_a_session_that_was_deleted() {
    let world = World::new();
    with_projects(&world);
    let server =
        world.serve_with(&json!([{ "say": "I see.", "shell": FIX }, { "say": "Quincunx." }]), &["--agents", "1"]);
    let member = client(&world, &server, &["--role", "member", "--user", "ada"]);
    let keyed = member.clone().header("idempotency-key", "once");
    let task = keyed.post("/api/tasks", &world.ask("Mend it, by the antimacassar")).ok();
    let session = task["sessions"][0]["id"].as_str().unwrap();
    let path = format!("/api/sessions/{session}");
    let stays =
        member.post("/api/tasks", &json!({ "prompt": "Stay", "repository": world.repo(), "after": [task["id"]] })).ok();
    member.journal(session, 0);
    member.journal(stays["sessions"][0]["id"].as_str().unwrap(), 0);
    let repository = world.data().join("sessions").join(session);
    assert!(repository.is_dir());
    let other = client(&world, &server, &["--role", "member", "--user", "bob"]);
    other.delete(&path).problem(403, "HV-0602");
    let before = member.get("/api/stats").ok();
    assert_eq!(member.delete(&path).status, 204);
    member.delete(&path).problem(404, "HV-0154");
    member.get(&format!("/api/tasks/{}", task["id"].as_str().unwrap())).problem(404, "HV-0151");
    assert_eq!(member.get("/api/stats").ok(), before, "what it cost is still known");
    assert!(!repository.exists());
    let branch = format!("harvest/{}", "");
    let delivered = crate::support::git(&world.repo(), &["branch", "--list", &format!("{branch}*")]);
    assert!(delivered.contains("harvest/"), "what was delivered stays: {delivered}");
    server.running.signal(Signal::TERM);
    assert_eq!(server.running.finish().exit, Some(0));
    // Whatever the log of writes still has goes where it belongs.
    let database = rusqlite::Connection::open(world.data().join("harvest.db")).unwrap();
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)).unwrap();
    drop(database);
    for word in ["antimacassar", session] {
        let left: Vec<_> = crate::credentials::holding(&world.data(), word.as_bytes());
        // The log of who did what names the task; and the other session says the same words of its own.
        assert!(left.is_empty(), "{word}: {left:?}");
    }
}

#[test]
fn what_is_under_way_or_waited_for_is_not_deleted() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let member = client(&world, &server, &[]);
    let first = member.post("/api/tasks", &world.ask("First")).ok();
    let second = json!({ "prompt": "Then", "repository": world.repo(), "after": [first["id"]] });
    let second = member.post("/api/tasks", &second).ok();
    let delete =
        |task: &Value| member.delete(&format!("/api/sessions/{}", task["sessions"][0]["id"].as_str().unwrap()));
    let cancel =
        |task: &Value| member.post(&format!("/api/tasks/{}/cancel", task["id"].as_str().unwrap()), &json!({})).ok();
    assert!(delete(&first).problem(409, "HV-0618")["detail"].as_str().unwrap().ends_with("has not ended: pending"));
    cancel(&first);
    assert!(delete(&first).problem(409, "HV-0618")["detail"].as_str().unwrap().ends_with("waits for it"));
    cancel(&second);
    assert_eq!((delete(&first).status, delete(&second).status), (204, 204));
    assert_eq!(member.get("/api/tasks").ok()["items"], json!([]));
}

#[test]
fn terminate_kills_where_cancel_asks() {
    let world = World::new();
    settings(&world, "grace = '10m'\n");
    // Asked to stop, it continues for the ten minutes that it has.
    let deaf = "trap '' INT TERM HUP; echo $((6 * 7)) ears; while :; do sleep 0.1; done";
    world.add_agent("deaf", "text", deaf);
    let server = world.serve_with(&json!([{}]), &["--agents", "1"]);
    let member = client(&world, &server, &[]);
    let mut ask = world.ask("Wait for ever");
    ask["agent"] = json!("deaf");
    let task = member.post("/api/tasks", &ask).ok();
    let (id, session) = (task["id"].as_str().unwrap(), task["sessions"][0]["id"].as_str().unwrap());
    let mut stream = member.stream(&format!("/api/sessions/{session}/events"));
    while !stream.next().unwrap().data.contains("42 ears") {}
    let stopped = member.post(&format!("/api/tasks/{id}/terminate"), &json!({}));
    assert_eq!(stopped.status, 202);
    let journal = member.journal(session, 0);
    let ended = journal.iter().find(|event| event["type"] == "agent.finished").unwrap();
    assert_eq!((&ended["data"]["exit_code"], &ended["data"]["reason"]), (&Value::Null, &json!("cancelled")), "{ended}");
    assert_eq!(journal.last().unwrap()["data"]["status"], "cancelled");
    server.running.signal(Signal::TERM);
    assert_eq!(server.running.finish().exit, Some(0));
    world.assert_nothing_left();
}

#[test]
fn tasks_under_way_are_counted_for_token_person_team_and_project() {
    let world = World::new();
    let garden = world.path().join("garden");
    std::fs::create_dir(&garden).unwrap();
    init(&garden);
    settings(
        &world,
        &format!(
            "[quota]\ntoken_sessions = 2\nuser_sessions = 3\nteam_sessions = 4\nproject_sessions = 6\n\
             [team.fruit]\nmembers = ['ada', 'bob']\n[project.shop]\nrepositories = [{:?}]\n",
            world.repo()
        ),
    );
    let server = world.serve(&["--agents", "0"]);
    let of = |user: &str| client(&world, &server, &["--user", user]);
    let ask = |client: &Client| client.post("/api/tasks", &world.ask("Mend it"));
    let refused = |client: &Client, said: &str| {
        let answer = ask(client);
        let problem = answer.problem(429, "HV-0617");
        assert!(problem["detail"].as_str().unwrap().starts_with(said), "{problem}");
        assert_eq!(answer.header("retry-after"), Some("30"));
    };
    let (one, two) = (of("ada"), of("ada"));
    let first = ask(&one).ok();
    ask(&one).ok();
    refused(&one, "this token has reached the limit for unfinished tasks: 2 of 2");
    ask(&two).ok();
    refused(&two, "user ada has reached the limit for unfinished tasks: 3 of 3");
    let bob = of("bob");
    ask(&bob).ok();
    refused(&bob, "team fruit has reached the limit for unfinished tasks: 4 of 4");
    ask(&of("cyd")).ok();
    ask(&of("dan")).ok();
    refused(&of("eve"), "project shop has reached the limit for unfinished tasks: 6 of 6");
    // A refusal is no answer to remember, and what has ended counts no more.
    let keyed = one.clone().header("idempotency-key", "again");
    keyed.post("/api/tasks", &world.ask("Mend it")).problem(429, "HV-0617");
    one.post(&format!("/api/tasks/{}/cancel", first["id"].as_str().unwrap()), &json!({})).ok();
    assert_eq!(keyed.post("/api/tasks", &world.ask("Mend it")).status, 201);
    refused(&one, "this token has reached");
}

#[test]
fn what_was_spent_today_is_counted_too_and_rates_can_be_set() {
    let world = World::new();
    settings(&world, "[quota]\ntoken_daily_usd = 0.11\n[rate]\nwrites = 4\n");
    let server =
        world.serve_with(&json!([{ "say": "Done.", "tokens": { "input": 100, "output": 10 } }]), &["--agents", "1"]);
    let one = client(&world, &server, &[]);
    let spent = one.worked_off(&world.ask("Mend it"));
    assert!(spent["cost_usd"].as_f64().unwrap() >= 0.11, "{spent}");
    let refused = one.post("/api/tasks", &world.ask("Mend it"));
    assert!(
        refused.problem(429, "HV-0617")["detail"]
            .as_str()
            .unwrap()
            .starts_with("this token has reached the limit for spending per day: $")
    );
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=86_401).contains(&wait), "{wait}");
    for _ in 0..2 {
        one.post("/api/tasks", &world.ask("Mend it")).problem(429, "HV-0617");
    }
    one.post("/api/tasks", &world.ask("Mend it")).problem(429, "HV-0607");
    // Another token of the same person has no rate of its own.
    let refused = client(&world, &server, &[]).post("/api/tasks", &world.ask("Mend it")).problem(429, "HV-0607");
    assert!(refused["detail"].as_str().unwrap().starts_with("user "), "{refused}");
    assert_eq!(client(&world, &server, &["--user", "grace"]).post("/api/tasks", &world.ask("Mend it")).status, 201);
}

#[test]
fn a_fork_is_refused_while_the_settings_that_bound_its_budget_cannot_be_read() {
    let world = World::new();
    settings(&world, "budget_usd = 1\n");
    let server = world.serve_with(&json!([{ "say": "I see.", "shell": FIX }, { "say": "Done." }]), &["--agents", "1"]);
    let ada = client(&world, &server, &["--user", "ada"]);
    let task = ada.worked_off(&world.ask("Mend it"));
    let session = task["sessions"][0]["id"].as_str().unwrap();
    let at = ada.get(&format!("/api/sessions/{session}")).ok()["last_seq"].clone();
    let fork = || ada.post(&format!("/api/sessions/{session}/fork"), &json!({ "at": at, "prompt": "Another way" }));
    settings(&world, "budget_usd = oops\n");
    let refused = fork();
    assert!(refused.status >= 400, "{refused:?}");
    assert_eq!(refused.json()["code"], json!("HV-0311"), "{refused:?}");
    settings(&world, "budget_usd = 1\n");
    assert_eq!(fork().status, 201);
}
