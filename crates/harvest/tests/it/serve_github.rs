//! Signing in with GitHub, against something that keeps GitHub's rules.

use std::time::Instant;

use serde_json::{Value, json};
use ureq::http::Method;

use crate::cluster::{self, Cluster};
use crate::fake_github::{CLIENT_ID, CLIENT_SECRET, FakeGithub, form};
use crate::serve_access::with_projects;
use crate::serve_limits::{LOOKED_AT, WOKEN, database, eventually, streams};
use crate::served::{Answer, Client, Server};
use crate::support::{PATIENCE, World};

const FRUIT: &str = "/user/memberships/orgs/fruit";

fn world(github: &FakeGithub, more: &str) -> World {
    signing_in(World::new(), github, more)
}

pub fn signing_in(world: World, github: &FakeGithub, more: &str) -> World {
    with_projects(&world);
    let file = world.home().join(".config/harvest/harvest.toml");
    let mut text = std::fs::read_to_string(&file).unwrap();
    text.push_str(&format!("[sign_in]\nclient_id = {CLIENT_ID:?}\nurl = {:?}\n{more}\n", github.url));
    std::fs::write(&file, text).unwrap();
    let kept = world.harvest(&["credential", "add", "github-sign-in", "--from-stdin", "--json"]);
    assert_eq!(kept.input(CLIENT_SECRET).finish().exit, Some(0));
    world
}

/// A browser that keeps its cookies.
pub struct Browser {
    url: String,
    cookies: Vec<(String, String)>,
    /// What the page keeps beside the cookie.
    proof: String,
}

impl Browser {
    pub fn new(server: &Server) -> Self {
        Self { url: server.url.clone(), cookies: Vec::new(), proof: String::new() }
    }

    pub fn client(&self) -> Client {
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Client::at(&self.url).header("cookie", &cookies.join("; ")).header("x-harvest-csrf", &self.proof)
    }

    fn get(&mut self, path: &str) -> Answer {
        let answer = self.client().get(path);
        if let Some((_, proof)) = answer.header("location").and_then(|place| place.split_once("/#proof=")) {
            self.proof = proof.to_owned();
        }
        for (name, value) in &answer.headers {
            if name == "set-cookie" {
                let (pair, attributes) = value.split_once("; ").unwrap();
                assert!(attributes.contains("HttpOnly") && attributes.contains("SameSite=Lax"), "{value}");
                let (name, value) = pair.split_once('=').unwrap();
                self.cookies.retain(|(known, _)| known != name);
                if !value.is_empty() {
                    self.cookies.push((name.to_owned(), value.to_owned()));
                }
            }
        }
        answer
    }

    /// To GitHub, and with what it says to the place it names.
    fn leave_for(&mut self, github: &FakeGithub) -> String {
        let left = self.get("/auth/github");
        assert_eq!(left.status, 303, "{left:?}");
        let target = left.header("location").unwrap().strip_prefix(&github.url).unwrap().to_owned();
        let back = Client::at(&github.url).get(&target);
        back.header("location").unwrap().strip_prefix(&self.url).unwrap().to_owned()
    }

    pub fn sign_in(&mut self, github: &FakeGithub) -> Answer {
        let back = self.leave_for(github);
        self.get(&back)
    }

    fn me(&self) -> Answer {
        self.client().get("/api/me")
    }
}

#[test]
fn who_belongs_comes_in_and_may_what_their_projects_give_them() {
    let github = FakeGithub::start();
    let world = world(&github, "organizations = ['fruit']");
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let host = github.url.strip_prefix("http://").unwrap();
    let ada = format!("ada@{host}");
    let mut browser = Browser::new(&server);
    // Invited is not a member yet.
    github.member(FRUIT, "pending");
    browser.sign_in(&github).problem(403, "HV-0602");
    browser.me().problem(401, "HV-0601");
    github.member(FRUIT, "active");
    let entered = browser.sign_in(&github);
    assert!(entered.status == 303 && entered.header("location").unwrap().starts_with("/#proof="), "{entered:?}");
    let me = browser.me().ok();
    assert_eq!((&me["user"], &me["role"], &me["projects"]), (&json!(ada), &json!("viewer"), &json!([])));
    assert_eq!(browser.client().get("/api/tasks").ok()["items"], json!([]));
    browser.client().get("/api/queue").problem(403, "HV-0602");
    // A member of one project, a viewer of another; it holds at once.
    let task = admin.post("/api/tasks", &world.ask("Mend it")).ok();
    let cancel = format!("/api/tasks/{}/cancel", task["id"].as_str().unwrap());
    let set = |project: &str, role: &str| {
        let path = format!("/api/projects/{project}/members/{ada}");
        admin.send(Method::PUT, &path, Some(&json!({ "role": role }))).ok();
    };
    set("shop", "viewer");
    set("garden", "member");
    let own = browser.client();
    assert_eq!(browser.me().ok()["roles"], json!({ "garden": "member", "shop": "viewer" }));
    assert_eq!(own.get("/api/tasks").ok()["items"].as_array().unwrap().len(), 1);
    let said = own.post(&cancel, &json!({})).problem(403, "HV-0602");
    assert!(said["detail"].as_str().unwrap().contains("takes the role member in its project"), "{said}");
    own.post("/api/tasks", &world.ask("Mend it")).problem(403, "HV-0602");
    set("shop", "member");
    own.post(&cancel, &json!({})).ok();
    own.send(Method::PUT, "/api/projects/shop/members/eve", Some(&json!({ "role": "viewer" }))).problem(403, "HV-0602");
    assert_eq!(admin.delete(&format!("/api/projects/shop/members/{ada}")).status, 204);
    own.post(&cancel, &json!({})).problem(404, "HV-0151");
    // The token is kept, sealed, and nobody sees it.
    let kept = world.json(&["credential", "list"]);
    let kept = kept["items"].as_array().unwrap().iter().find(|one| one["provider"] == "github").unwrap().clone();
    assert_eq!((&kept["scope"], &kept["name"]), (&json!(format!("user:{ada}")), &json!("sign-in")));
    let database = std::fs::read(world.data().join("harvest.db")).unwrap();
    let written = [database, std::fs::read(world.data().join("harvest.db-wal")).unwrap_or_default()].concat();
    assert!(!written.windows(10).any(|part| part == b"ghu_access"));
    assert_eq!(own.post("/api/logout", &json!({})).status, 204);
    browser.me().problem(401, "HV-0601");
    let entry = admin.get("/api/audit?action=session.login").ok()["items"][0].clone();
    assert_eq!((&entry["actor"], &entry["detail"]["with"]), (&json!(format!("user:{ada}")), &json!("github")));
}

#[test]
fn a_member_makes_tokens_of_their_own_that_never_may_more_than_they_may() {
    let github = FakeGithub::start();
    github.member(FRUIT, "active");
    let world = world(&github, "organizations = ['fruit']");
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let ada = format!("ada@{}", github.url.strip_prefix("http://").unwrap());
    let set = |project: &str, role: &str| {
        let path = format!("/api/projects/{project}/members/{ada}");
        admin.send(Method::PUT, &path, Some(&json!({ "role": role }))).ok();
    };
    let mut browser = Browser::new(&server);
    browser.sign_in(&github);
    let own = browser.client();
    let make = |body: Value| own.post("/api/tokens", &body);
    make(json!({ "name": "ci", "role": "viewer" })).problem(403, "HV-0602");
    set("shop", "member");
    set("garden", "viewer");
    make(json!({ "name": "ci", "role": "admin" })).problem(403, "HV-0602");
    make(json!({ "name": "ci", "role": "member", "projects": ["garden"] })).problem(403, "HV-0602");
    make(json!({ "name": "ci", "role": "member", "user": "eve" })).problem(403, "HV-0602");
    let made = make(json!({ "name": "ci", "role": "member" })).ok();
    assert_eq!((&made["user"], &made["projects"]), (&json!(ada), &json!(["shop"])));
    let program = server.with(made["token"].as_str().unwrap());
    let task = program.post("/api/tasks", &world.ask("Mend it")).ok();
    // A token makes no tokens, and nobody but its person and an admin sees it.
    program.post("/api/tokens", &json!({ "name": "more", "role": "viewer" })).problem(403, "HV-0602");
    assert_eq!(own.get("/api/tokens").ok()["items"].as_array().unwrap().len(), 1);
    let other = server.with(&world.token(&["--role", "member", "--user", "eve"]));
    let seen = other.get("/api/tokens").ok();
    let users: Vec<&Value> = seen["items"].as_array().unwrap().iter().map(|token| &token["user"]).collect();
    assert_eq!(users, [&json!("eve")]);
    other.delete(&format!("/api/tokens/{}", made["id"].as_str().unwrap())).problem(404, "HV-0611");
    // When the person may less, so does the token, and what it looks at ends.
    set("shop", "viewer");
    program.post("/api/tasks", &world.ask("Mend it")).problem(403, "HV-0602");
    let session = task["sessions"][0]["id"].as_str().unwrap();
    let mut stream = program.stream(&format!("/api/sessions/{session}/events"));
    stream.until("task.created");
    std::thread::sleep(LOOKED_AT);
    let begun = Instant::now();
    assert_eq!(admin.delete(&format!("/api/projects/shop/members/{ada}")).status, 204);
    while stream.next().is_some() {}
    assert!(begun.elapsed() < WOKEN, "the stream went on for {:?}", begun.elapsed());
    program.get(&format!("/api/sessions/{session}")).problem(404, "HV-0154");
    // Whoever may less than before can still revoke what is theirs.
    set("shop", "viewer");
    assert_eq!(program.get("/api/me").status, 200);
    assert_eq!(own.delete(&format!("/api/tokens/{}", made["id"].as_str().unwrap())).status, 204);
    program.get("/api/me").problem(401, "HV-0601");
}

#[test]
fn streams_end_at_a_demotion_on_every_server() {
    let Some(cluster) = Cluster::private() else { return harvest_testing::skip(cluster::WITHOUT) };
    let github = FakeGithub::start();
    github.member(FRUIT, "active");
    let world = signing_in(World::new().on_database(cluster.url("postgres")), &github, "organizations = ['fruit']");
    let first = world.serve(&["--agents", "0"]);
    let all = ["serve", "--listen", "127.0.0.1:0", "--json", "--agents", "0"];
    let second = world.harvest_at(&world.path().join("elsewhere"), &all);
    let key = world.data().join("master.key");
    let second = Server::started(second.env("HARVEST_MASTER_KEY_FILE", key.to_str().unwrap()).start());
    let admin = first.with(&world.token(&["--role", "admin"]));
    let task = admin.post("/api/tasks", &world.ask("Mend it")).ok();
    let session = task["sessions"][0]["id"].as_str().unwrap();
    let member = format!("/api/projects/shop/members/ada@{}", github.url.strip_prefix("http://").unwrap());
    let set = |role: &str| admin.send(Method::PUT, &member, Some(&json!({ "role": role }))).ok();
    let mut browser = Browser::new(&first);
    browser.sign_in(&github);
    set("member");
    let made = browser.client().post("/api/tokens", &json!({ "name": "ci", "role": "member" })).ok();
    let token = made["token"].as_str().unwrap();
    // The other server is told of the new member, a moment after the one that was asked.
    let begun = Instant::now();
    while second.with(token).get(&format!("/api/sessions/{session}")).status != 200 {
        assert!(begun.elapsed() < PATIENCE, "the other server does not know the member");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let ends = [&first, &second].map(|server| streams(server, token, session));
    let begun = Instant::now();
    set("viewer");
    let done = Instant::now();
    for (end, server) in ends.into_iter().zip(["the same server", "another server"]) {
        end(server, begun..done);
    }
    // As a viewer they see it again, and go on seeing it when they may more.
    let mut stream = second.with(token).stream(&format!("/api/sessions/{session}/events"));
    stream.until("task.created");
    set("member");
    admin.post(&format!("/api/tasks/{}/cancel", task["id"].as_str().unwrap()), &json!({})).ok();
    stream.until("task.finished");
}

#[test]
fn nobody_comes_back_who_did_not_leave() {
    let github = FakeGithub::start();
    github.member(FRUIT, "active");
    let world = world(&github, "organizations = ['fruit']");
    let server = world.serve(&["--agents", "0"]);
    let mut ada = Browser::new(&server);
    let back = ada.leave_for(&github);
    // Someone else's link, with their code and state: it signs nobody in.
    let mut eve = Browser::new(&server);
    eve.get(&back).problem(403, "HV-0603");
    eve.get("/auth/github");
    eve.get(&back).problem(403, "HV-0603");
    // A code without the verifier that goes with it is worth nothing.
    let stolen = form(back.split_once('?').unwrap().1)["code"].clone();
    let own = form(eve.leave_for(&github).split_once('?').unwrap().1)["state"].clone();
    let refused = eve.get(&format!("/auth/github/callback?code={stolen}&state={own}"));
    assert!(refused.problem(401, "HV-0601")["detail"].as_str().unwrap().contains("bad_verification_code"));
    eve.me().problem(401, "HV-0601");
    // Whoever turns it down comes back without a code.
    let state = form(ada.leave_for(&github).split_once('?').unwrap().1)["state"].clone();
    let denied = ada.get(&format!("/auth/github/callback?error=access_denied&state={state}"));
    denied.problem(401, "HV-0601");
    // And once more, properly; the same way back works once.
    let back = ada.leave_for(&github);
    assert_eq!(ada.get(&back).status, 303);
    ada.get(&back).problem(403, "HV-0603");
    ada.me().ok();
    // A name that has changed hands does not open what it opened.
    github.person("Ada", 8);
    Browser::new(&server).sign_in(&github).problem(403, "HV-0602");
}

#[test]
fn admins_teams_and_a_role_for_everyone() {
    let github = FakeGithub::start();
    let world = world(&github, "teams = ['fruit/growers']\nadmins = ['root']\nrole = 'member'");
    let server = world.serve(&["--agents", "0"]);
    let mut browser = Browser::new(&server);
    browser.sign_in(&github).problem(403, "HV-0602");
    github.member("/orgs/fruit/teams/growers/memberships/Ada", "active");
    assert_eq!(browser.sign_in(&github).status, 303);
    let me = browser.me().ok();
    assert_eq!((&me["role"], &me["projects"]), (&json!("member"), &Value::Null));
    github.person("Root", 1);
    let mut browser = Browser::new(&server);
    assert_eq!(browser.sign_in(&github).status, 303);
    assert_eq!(browser.me().ok()["role"], "admin");
    browser.client().get("/api/tokens").ok();
}

#[test]
fn a_viewer_who_is_a_member_of_one_project_uses_templates_of_the_installation_and_changes_none() {
    let github = FakeGithub::start();
    github.member(FRUIT, "active");
    let world = world(&github, "organizations = ['fruit']\nrole = 'viewer'");
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let ada = format!("ada@{}", github.url.strip_prefix("http://").unwrap());
    let member = json!({ "role": "member" });
    admin.send(Method::PUT, &format!("/api/projects/shop/members/{ada}"), Some(&member)).ok();
    let template = |prompt: &str| json!({ "name": "upgrade", "task": { "prompt": prompt } });
    admin.post("/api/templates", &template("Upgrade {{ package }}")).ok();
    let mut browser = Browser::new(&server);
    browser.sign_in(&github);
    let own = browser.client();
    let kept = own.get("/api/templates").ok();
    own.post("/api/templates", &template("Print all keys")).problem(403, "HV-0602");
    own.post("/api/templates", &json!({ "name": "new", "task": { "prompt": "Upgrade" } })).problem(403, "HV-0602");
    own.delete("/api/templates/upgrade").problem(403, "HV-0602");
    assert_eq!(own.get("/api/templates").ok(), kept);
    let used = json!({ "values": { "package": "serde" }, "options": { "repository": world.repo() } });
    own.post("/api/templates/upgrade/tasks", &used).ok();
    // What belongs to the project is the member's to change.
    own.post("/api/templates", &json!({ "name": "mend", "task": world.ask("Mend it") })).ok();
    assert_eq!(own.delete("/api/templates/mend").status, 204);
}

#[test]
fn who_leaves_is_signed_out_and_tokens_are_refreshed_until_then() {
    let github = FakeGithub::start();
    github.member(FRUIT, "active");
    github.tokens_live(60);
    let world = world(&github, "organizations = ['fruit']\nbelieved = '1s'");
    let server = world.serve(&["--agents", "0"]);
    let mut browser = Browser::new(&server);
    assert_eq!(browser.sign_in(&github).status, 303);
    github.expire_tokens();
    let count = |path: &str| github.asked().iter().filter(|asked| asked.ends_with(path)).count();
    // Asked again with a token that was refreshed first.
    let before = (count("/access_token"), count("/user"));
    let begun = Instant::now();
    while count("/access_token") == before.0 || count("/user") == before.1 {
        assert!(begun.elapsed() < PATIENCE);
        browser.me().ok();
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    browser.me().ok();
    github.no_member(FRUIT);
    while browser.me().status == 200 {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    browser.me().problem(401, "HV-0601");
}

#[test]
fn what_would_let_everyone_in_is_refused() {
    let github = FakeGithub::start();
    for (more, said) in [
        ("", "anyone with an account at GitHub could sign in"),
        ("teams = ['growers']", "`growers` is not a team"),
        ("role = 'king'\nadmins = ['a']", "it must be viewer, member or admin"),
    ] {
        let world = World::new();
        let folder = world.home().join(".config/harvest");
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!("[sign_in]\nclient_id = {CLIENT_ID:?}\nurl = {:?}\n{more}\n", github.url);
        if said.starts_with("it must") {
            std::fs::write(folder.join("harvest.toml"), &text).unwrap();
        } else {
            let kept = world.harvest(&["credential", "add", "github-sign-in", "--from-stdin"]);
            assert_eq!(kept.input(CLIENT_SECRET).finish().exit, Some(0));
            std::fs::write(folder.join("harvest.toml"), &text).unwrap();
        }
        let refused = world.harvest(&["serve", "--listen", "127.0.0.1:0", "--agents", "0"]).finish();
        assert_eq!(refused.exit, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(said) && refused.stderr.contains("HV-0311"), "{refused:?}");
    }
    let world = World::new();
    let folder = world.home().join(".config/harvest");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("harvest.toml"), format!("[sign_in]\nclient_id = {CLIENT_ID:?}\n")).unwrap();
    let refused = world.harvest(&["serve", "--listen", "127.0.0.1:0", "--agents", "0"]).finish();
    assert!(refused.stderr.contains("harvest credential add github-sign-in"), "{refused:?}");
    // Without any of it there is nothing to come back to.
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    server.anyone().get("/auth/github").problem(404, "HV-0605");
}

#[test]
fn the_tokens_that_someone_made_for_themselves_end_when_they_leave() {
    let github = FakeGithub::start();
    github.member(FRUIT, "active");
    let world = world(&github, "organizations = ['fruit']\nbelieved = '1s'");
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let ada = format!("ada@{}", github.url.strip_prefix("http://").unwrap());
    let member = format!("/api/projects/shop/members/{ada}");
    admin.send(Method::PUT, &member, Some(&json!({ "role": "member" }))).ok();
    let mut browser = Browser::new(&server);
    browser.sign_in(&github);
    let made = browser.client().post("/api/tokens", &json!({ "name": "ci", "role": "member" })).ok();
    let program = server.with(made["token"].as_str().unwrap());
    program.get("/api/me").ok();
    // That GitHub was asked too often says nothing about them.
    github.is_busy(true);
    let (asked, begun) = (github.asked().len(), Instant::now());
    while github.asked().len() < asked + 3 {
        assert!(begun.elapsed() < PATIENCE, "GitHub is not asked again");
        program.get("/api/me").ok();
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    program.get("/api/me").ok();
    github.is_busy(false);
    github.no_member(FRUIT);
    // Nobody but the program asks for anything any more.
    let begun = Instant::now();
    while program.get("/api/me").status == 200 {
        assert!(begun.elapsed() < PATIENCE, "the token still opens something");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    program.get("/api/me").problem(401, "HV-0601");
    // It stays revoked when they come back; they make another one.
    github.member(FRUIT, "active");
    assert_eq!(browser.sign_in(&github).status, 303);
    program.get("/api/me").problem(401, "HV-0601");
}

#[test]
fn a_schedule_of_someone_who_left_makes_no_task_and_says_why() {
    let github = FakeGithub::start();
    github.member(FRUIT, "active");
    let world = world(&github, "organizations = ['fruit']\nbelieved = '1s'");
    let server = world.serve_with(&json!([{ "say": "Done." }]), &["--agents", "1"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let ada = format!("ada@{}", github.url.strip_prefix("http://").unwrap());
    let member = format!("/api/projects/shop/members/{ada}");
    admin.send(Method::PUT, &member, Some(&json!({ "role": "member" }))).ok();
    let mut browser = Browser::new(&server);
    browser.sign_in(&github);
    let ask = json!({ "cron": "0 3 1 1 *", "time_zone": "UTC", "task": world.ask("Mend it") });
    browser.client().post("/api/schedules", &ask).ok();
    let due = |moment: i64| {
        database(&world).execute("UPDATE schedules SET next_ms = ?1", [moment]).unwrap();
        world.json(&["queue", "resume"]);
    };
    due(1_700_000_000_000);
    let ran = eventually(&admin, "/api/schedules", |page| page["items"][0]["last"].is_string());
    assert_eq!(ran["items"][0]["problem"], Value::Null, "{ran}");
    github.no_member(FRUIT);
    // What GitHub said at the first run is believed for a second.
    let mut moment = 1_700_000_001_000;
    let refused = loop {
        due(moment);
        let ran = eventually(&admin, "/api/schedules", |page| {
            let next = page["items"][0]["next"].as_str().unwrap();
            next.starts_with("20") && !next.starts_with("2023")
        });
        if ran["items"][0]["problem"].is_string() {
            break ran;
        }
        moment += 1000;
        assert!(moment < 1_700_000_200_000, "{ran}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let problem = refused["items"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("belong to none of the organizations and teams that may sign in"), "{problem}");
}

#[test]
fn someone_whose_role_holds_everywhere_makes_tokens_of_their_own() {
    let github = FakeGithub::start();
    github.member(FRUIT, "active");
    let world = world(&github, "organizations = ['fruit']\nadmins = ['root']\nrole = 'member'");
    let server = world.serve(&["--agents", "0"]);
    let mut browser = Browser::new(&server);
    browser.sign_in(&github);
    let own = browser.client();
    own.post("/api/tokens", &json!({ "name": "ci", "role": "admin" })).problem(403, "HV-0602");
    let made = own.post("/api/tokens", &json!({ "name": "ci", "role": "member" })).ok();
    assert_eq!((&made["role"], &made["projects"]), (&json!("member"), &Value::Null));
    let program = server.with(made["token"].as_str().unwrap());
    assert_eq!(program.get("/api/me").ok()["role"], "member");
    program.post("/api/tasks", &world.ask("Mend it")).ok();
    program.post("/api/tokens", &json!({ "name": "more", "role": "viewer" })).problem(403, "HV-0602");
    // Or for some projects only.
    let narrow = own.post("/api/tokens", &json!({ "name": "ci", "role": "viewer", "projects": ["garden"] })).ok();
    let narrow = server.with(narrow["token"].as_str().unwrap());
    assert_eq!(narrow.get("/api/me").ok()["roles"], json!({ "garden": "viewer" }));
    // An admin's own token is held to what the admin is, too.
    github.person("Root", 1);
    let mut browser = Browser::new(&server);
    browser.sign_in(&github);
    let made = browser.client().post("/api/tokens", &json!({ "name": "root", "role": "admin" })).ok();
    let admin = server.with(made["token"].as_str().unwrap());
    assert_eq!(admin.get("/api/me").ok()["role"], "admin");
    for more in [json!({ "name": "more", "role": "admin" }), json!({ "name": "more", "role": "viewer", "user": "eve" })]
    {
        admin.post("/api/tokens", &more).problem(403, "HV-0602");
    }
    drop(server);
    let file = world.home().join(".config/harvest/harvest.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("admins = ['root']", "").replace("role = 'member'", "role = 'viewer'")).unwrap();
    let server = world.serve(&["--agents", "0"]);
    assert_eq!(server.with(made["token"].as_str().unwrap()).get("/api/me").ok()["role"], "viewer");
}

/// A member who signed in, with a token and a schedule of their own.
struct Ada {
    name: String,
    browser: Browser,
    program: String,
}

fn ada(world: &World, github: &FakeGithub, server: &Server, admin: &Client) -> Ada {
    let name = format!("ada@{}", github.url.strip_prefix("http://").unwrap());
    let member = format!("/api/projects/shop/members/{name}");
    admin.send(Method::PUT, &member, Some(&json!({ "role": "member" }))).ok();
    let mut browser = Browser::new(server);
    browser.sign_in(github);
    let made = browser.client().post("/api/tokens", &json!({ "name": "ci", "role": "member" })).ok();
    let ask = json!({ "cron": "0 3 1 1 *", "time_zone": "UTC", "task": world.ask("Mend it") });
    browser.client().post("/api/schedules", &ask).ok();
    Ada { name, browser, program: made["token"].as_str().unwrap().to_owned() }
}

/// Runs the only schedule now, and says why it made no task.
fn run_now(world: &World, admin: &Client) -> Option<String> {
    database(world).execute("UPDATE schedules SET next_ms = ?1", [1_700_000_000_000i64]).unwrap();
    world.json(&["queue", "resume"]);
    let ran = eventually(admin, "/api/schedules", |page| {
        let next = page["items"][0]["next"].as_str().unwrap();
        !next.starts_with("2023")
    });
    ran["items"][0]["problem"].as_str().map(str::to_owned)
}

#[test]
fn where_nobody_signs_in_with_github_people_open_nothing_and_their_schedules_say_why_they_do_not_run() {
    let github = FakeGithub::start();
    github.member(FRUIT, "active");
    let world = world(&github, "organizations = ['fruit']");
    let server = world.serve(&["--agents", "1"]);
    let ada = ada(&world, &github, &server, &server.with(&world.token(&["--role", "admin"])));
    server.with(&ada.program).get("/api/me").ok();
    drop(server);
    let file = world.home().join(".config/harvest/harvest.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.split("[sign_in]").next().unwrap()).unwrap();
    github.no_member(FRUIT);
    let server = world.serve(&["--agents", "1"]);
    let refused = server.with(&ada.program).get("/api/me").problem(401, "HV-0601");
    assert!(refused["detail"].as_str().unwrap().contains("cannot tell whether you still belong"), "{refused}");
    let admin = server.with(&world.token(&["--role", "admin"]));
    let problem = run_now(&world, &admin).expect("it ran");
    assert!(problem.contains("this worker has no [sign_in]"), "{problem}");
}

#[test]
fn a_login_that_changes_hands_brings_its_new_owner_nothing_of_the_old_one() {
    let github = FakeGithub::start();
    github.member(FRUIT, "active");
    let world = world(&github, "organizations = ['fruit']\nbelieved = '1h'");
    let server = world.serve(&["--agents", "1"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let ada = ada(&world, &github, &server, &admin);
    let scope = format!("user:{}", ada.name);
    let key = ["credential", "add", "anthropic", "--from-stdin", "--scope", &scope];
    assert_eq!(world.harvest(&key).input("sk-ant-api03-of-the-old-ada-0123456789").finish().exit, Some(0));
    assert_eq!(world.harvest(&["queue", "pause"]).finish().exit, Some(0));
    let waiting = server.with(&ada.program).post("/api/tasks", &world.ask("Mend it")).ok();
    // Another account has the login now, and an admin lets it in.
    github.person("Ada", 8);
    let mut other = Browser::new(&server);
    assert_eq!(other.sign_in(&github).status, 403);
    let kept = admin.get("/api/credentials").ok();
    let is_kept = |one: &&Value| one["scope"] == json!(scope) && one["name"] == "sign-in";
    let kept = kept["items"].as_array().unwrap().iter().find(is_kept).unwrap().clone();
    admin.delete(&format!("/api/credentials/{}", kept["id"].as_str().unwrap()));
    server.with(&ada.program).get("/api/me").ok();
    assert_eq!(other.sign_in(&github).status, 303);
    other.me().ok();
    ada.browser.me().problem(401, "HV-0601");
    server.with(&ada.program).get("/api/me").problem(401, "HV-0601");
    let problem = run_now(&world, &admin).expect("it ran");
    assert!(problem.contains("the token it was created with is revoked"), "{problem}");
    let task = admin.get(&format!("/api/tasks/{}", waiting["id"].as_str().unwrap())).ok();
    assert_eq!(task["status"], "cancelled", "{task:#}");
    let kept = admin.get("/api/credentials").ok();
    let of_ada = |one: &&Value| one["scope"] == json!(scope) && one["name"] != "sign-in";
    assert_eq!(kept["items"].as_array().unwrap().iter().find(of_ada), None, "{kept:#}");
}
