//! Rates of tokens, people and teams, and who is not kept from what by them.

use std::process::Command;

use serde_json::{Value, json};

use crate::cluster::{self, Cluster};
use crate::serve_limits::{settings, text};
use crate::served::{Answer, Server};
use crate::support::{PATH, World};

#[test]
fn servers_on_one_database_share_the_rate_of_writes_and_what_is_refused_counts() {
    let Some(cluster) = Cluster::private() else { return harvest_testing::skip(cluster::WITHOUT) };
    let world = World::new().on_database(cluster.url("postgres"));
    settings(&world, "[rate]\nwrites = 2\n");
    let serve = |data: &str| {
        let all = ["serve", "--listen", "127.0.0.1:0", "--json", "--agents", "0"];
        Server::started(world.harvest_at(&world.path().join(data), &all).start())
    };
    let (first, second) = (serve("first"), serve("second"));
    let token = |args: &[&str]| world.json(&[&["token", "create", "--user", "ada"], args].concat());
    let (stolen, own) = (token(&["--role", "viewer"]), token(&["--role", "admin"]));
    let write =
        |server: &Server, token: &Value| server.with(text(token, "token")).post("/api/tasks", &world.ask("Mend it"));
    let refused_by = |answer: Answer, who: &str| {
        let problem = answer.problem(429, "HV-0607");
        assert!(text(&problem, "detail").starts_with(&format!("{who}: more than 2 writes in a minute")), "{problem}");
        let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=30).contains(&wait), "{wait}");
    };
    for server in [&first, &second] {
        write(server, &stolen).problem(403, "HV-0602");
    }
    for server in [&first, &second] {
        refused_by(write(server, &stolen), "this token");
    }
    // What a token may not do takes nothing of its person's rate.
    for server in [&first, &second] {
        write(server, &own).ok();
    }
    let other = token(&["--role", "admin"]);
    refused_by(write(&second, &other), "user ada");
    // Until the rate can have filled, refusals are not asked of the database.
    let drops = || query(&cluster.url("postgres"), "SELECT drops, at_ms FROM rates WHERE key = 'user:ada'");
    let before = drops();
    assert!(before.contains('|'), "{before:?}");
    for _ in 0..8 {
        refused_by(write(&second, &other), "user ada");
    }
    assert_eq!(drops(), before);
    // And whoever has used up the rate of a person does not keep them from revoking the token.
    let revoke = format!("/api/tokens/{}", text(&stolen, "id"));
    assert_eq!(second.with(text(&other, "token")).delete(&revoke).status, 204);
}

/// The rows that a database answers with.
#[track_caller]
fn query(url: &str, ask: &str) -> String {
    let args = ["--no-align", "--tuples-only", "--dbname", url, "--command", ask];
    let output = Command::new("psql").env_clear().env("PATH", PATH).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_thief_who_uses_up_the_rates_of_a_person_keeps_nobody_from_ending_the_token() {
    let world = World::new();
    settings(&world, "[rate]\nreads = 2\nwrites = 1\n");
    let server = world.serve(&["--agents", "0"]);
    let token = |name: &str| world.json(&["token", "create", "--user", "ada", "--role", "admin", "--name", name]);
    let (stolen, own) = (token("stolen"), token("own"));
    let (thief, ada) = (server.with(text(&stolen, "token")), server.with(text(&own, "token")));
    let refused = |answer: Answer| {
        assert!(text(&answer.problem(429, "HV-0607"), "detail").starts_with("user ada: "), "{answer:?}");
    };
    for _ in 0..2 {
        thief.get("/api/tasks").ok();
    }
    refused(ada.get("/api/tasks"));
    thief.post("/api/tasks", &world.ask("Mend it")).ok();
    refused(ada.post("/api/tasks", &world.ask("Mend it")));
    assert_eq!(ada.get("/api/me").ok()["user"], json!("ada"));
    let listed = ada.get("/api/tokens").ok();
    let stolen = listed["items"].as_array().unwrap().iter().find(|token| token["name"] == "stolen").unwrap();
    assert_eq!(ada.delete(&format!("/api/tokens/{}", text(stolen, "id"))).status, 204);
    thief.get("/api/me").problem(401, "HV-0601");
}

#[test]
fn a_team_has_a_rate_too_however_many_people_it_has() {
    let world = World::new();
    settings(&world, "[rate]\nwrites = 1\n[team.fruit]\nmembers = ['a', 'b', 'c', 'd', 'e', 'f']\n");
    let server = world.serve(&["--agents", "0"]);
    // The rate goes on while tokens are made, so they are made before.
    let users = ["a", "b", "c", "d", "e", "f", "grace"];
    let tokens = users.map(|user| (user, world.token(&["--user", user])));
    let write = |user: &str| {
        let (_, token) = tokens.iter().find(|(known, _)| *known == user).unwrap();
        server.with(token).post("/api/tasks", &world.ask("Mend it"))
    };
    for user in ["a", "b", "c", "d", "e"] {
        write(user).ok();
    }
    let refused = write("f").problem(429, "HV-0607");
    assert!(text(&refused, "detail").starts_with("team fruit: more than 5 writes in a minute"), "{refused}");
    write("grace").ok();
}
