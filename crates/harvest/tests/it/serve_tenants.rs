//! Every operation of the API's document against what really belongs to another project, in every role there.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use ureq::http::Method;

use crate::fake_github::FakeGithub;
use crate::serve_access::with_projects;
use crate::serve_github::{Browser, signing_in};
use crate::served::Client;
use crate::support::{PATIENCE, World};

/// Stands in all that belongs to the project `shop`, and is found in no answer to others.
const MARK: &str = "pomegranate";

/// What there is of the project `shop`, by the parameters of paths.
struct Shop {
    task: String,
    session: String,
    race: String,
    comment: String,
    schedule: String,
    credential: String,
    token: String,
}

fn id(value: &Value) -> String {
    value["id"].as_str().unwrap_or_else(|| panic!("an id of {value}")).to_owned()
}

impl Shop {
    fn fill(world: &World, admin: &Client) -> Self {
        let ask = world.ask(&format!("Plant a {MARK}"));
        let mut race = ask.clone();
        race["race"] = json!({ "agents": ["builtin", "builtin"] });
        let race = admin.post("/api/tasks", &race).ok();
        let task = admin.post("/api/tasks", &ask).ok();
        let session = id(&task["sessions"][0]);
        let about = json!({ "kind": "event", "seq": 1 });
        let comment = json!({ "text": MARK, "about": about });
        let comment = admin.post(&format!("/api/sessions/{session}/comments"), &comment).ok();
        let schedule = admin.post("/api/schedules", &json!({ "cron": "0 3 * * *", "task": ask })).ok();
        admin.post("/api/templates", &json!({ "name": MARK, "task": ask })).ok();
        admin.post("/api/repositories", &json!({ "source": world.repo(), "name": MARK })).ok();
        let secret = json!({ "provider": "anthropic", "secret": "sk-ant-0123456789abcdef", "scope": "project:shop", "name": MARK });
        let credential = admin.post("/api/credentials", &secret).ok();
        let token = json!({ "name": MARK, "role": "member", "user": MARK, "projects": ["shop"] });
        let token = admin.post("/api/tokens", &token).ok();
        let member = json!({ "role": "member" });
        admin.send(Method::PUT, &format!("/api/projects/shop/members/{MARK}"), Some(&member)).ok();
        Self {
            task: id(&task),
            session,
            race: task_race(&race),
            comment: id(&comment),
            schedule: id(&schedule),
            credential: id(&credential),
            token: id(&token),
        }
    }

    /// An operation's path, about what belongs to `shop`.
    fn path(&self, path: &str) -> String {
        let own = match path.split('/').nth(2).unwrap_or_default() {
            "tasks" => &self.task,
            "sessions" => &self.session,
            "races" => &self.race,
            "comments" => &self.comment,
            "schedules" => &self.schedule,
            "credentials" => &self.credential,
            "tokens" => &self.token,
            "projects" => "shop",
            _ => MARK,
        };
        path.replace("{id}", own).replace("{name}", own).replace("{user}", MARK)
    }
}

fn task_race(task: &Value) -> String {
    task["settings"]["race"]["id"].as_str().unwrap().to_owned()
}

/// A body that its operation accepts from those who may.
fn body(world: &World, method: &str, path: &str) -> Value {
    let ask = world.ask("Weed it");
    match (method, path) {
        ("post", "/api/tasks" | "/api/sessions") => ask,
        ("post", "/api/schedules") => json!({ "cron": "0 4 * * *", "task": ask }),
        ("post", "/api/templates") => json!({ "name": "weed", "task": ask }),
        ("post", "/api/credentials") => {
            json!({ "provider": "openai", "secret": "sk-0123456789abcdef", "scope": "project:shop" })
        }
        ("post", "/api/tokens") => json!({ "name": "thief", "role": "member", "projects": ["shop"] }),
        ("post", "/api/projects") => json!({ "name": "thieves", "repositories": [world.repo()] }),
        ("post", "/api/repositories") => json!({ "source": world.repo(), "name": "stolen" }),
        ("put", "/api/credentials/{id}/secret") => json!({ "secret": "sk-ant-fedcba9876543210" }),
        ("patch", "/api/projects/{name}") => json!({ "repositories": [] }),
        ("put", "/api/projects/{name}/members/{user}") => json!({ "role": "viewer" }),
        ("put", "/api/projects/{name}/settings") => json!({ "settings": { "budget_usd": 1 } }),
        ("patch", "/api/queue") => json!({ "paused": true }),
        ("post", "/api/sessions/{id}/comments") => json!({ "text": "Hm.", "about": { "kind": "event", "seq": 1 } }),
        ("post", "/api/sessions/{id}/prompts") => json!({ "prompt": "Weed it" }),
        ("post", "/api/sessions/{id}/fork") => json!({ "at": 1, "prompt": "Weed it" }),
        ("post", "/api/templates/{name}/tasks") => json!({ "values": {} }),
        _ => json!({}),
    }
}

/// All that can be changed of `shop`, as the database has it.
fn everything(world: &World) -> BTreeMap<&'static str, Vec<String>> {
    let database = rusqlite::Connection::open(world.data().join("harvest.db")).unwrap();
    database.busy_timeout(PATIENCE).unwrap();
    let columns = [
        ("tasks", "id || status"),
        ("sessions", "id"),
        ("turns", "id"),
        ("comments", "id"),
        ("schedules", "id"),
        ("templates", "name"),
        ("repositories", "name"),
        ("projects", "name || repositories || settings || version"),
        ("members", "project || user || role"),
        ("credentials", "id || hex(sealed)"),
        ("tokens", "id || coalesce(revoked_at, '')"),
        ("stops", "*"),
    ];
    let read = |(table, column): (&'static str, &str)| {
        let column = if column == "*" { "count(*)" } else { column };
        let mut asked = database.prepare(&format!("SELECT CAST({column} AS TEXT) FROM {table} ORDER BY 1")).unwrap();
        let rows = asked.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        (table, rows)
    };
    columns.into_iter().map(read).collect()
}

#[test]
fn row_26_no_operation_reaches_what_belongs_to_another_project_in_any_role() {
    let world = World::new();
    with_projects(&world);
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&[]));
    let shop = Shop::fill(&world, &admin);
    let roles = ["viewer", "member", "admin"];
    let strangers = roles.map(|role| (role, server.with(&world.token(&["--project", "garden", "--role", role]))));
    let document = admin.get("/api/openapi.json").ok();
    let before = everything(&world);
    let (mut named, mut lists) = (0, 0);
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            // Streams do not end, agents belong to nobody, and signing out is about oneself.
            if matches!(path.as_str(), "/api/events" | "/api/agents/{id}/check" | "/api/logout") {
                continue;
            }
            let about = shop.path(path);
            let verb = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let sent = body(&world, method, path);
            let sent = (![Method::GET, Method::DELETE].contains(&verb)).then_some(&sent);
            for (role, client) in &strangers {
                let client = client.clone().header("if-match", "\"0-0\"");
                let answer = client.send(verb.clone(), &about, sent);
                let place = format!("{method} {about} as {role} of garden: {answer:?}");
                if path.contains('{') || verb != Method::GET {
                    assert!([403, 404].contains(&answer.status), "{place}");
                    named += 1;
                } else {
                    assert!([200, 403].contains(&answer.status), "{place}");
                    lists += 1;
                }
                // An answer may repeat what was asked for, and nothing else of the project.
                for own in [MARK, &shop.task, &shop.session, &shop.schedule, &shop.credential, &shop.token] {
                    assert!(about.contains(own) || !answer.text.contains(own), "{place}");
                }
            }
        }
    }
    assert!(named > 100 && lists > 30, "{named} operations on one thing and {lists} lists were tried");
    assert_eq!(everything(&world), before);
    // Those of the project find all of it, so the requests were not refused for something else.
    let own = server.with(&world.token(&["--project", "shop", "--role", "viewer"]));
    for path in
        ["/api/tasks/{id}", "/api/sessions/{id}", "/api/races/{id}", "/api/projects/{name}", "/api/repositories/{name}"]
    {
        own.get(&shop.path(path)).ok();
    }
    for list in ["/api/tasks", "/api/schedules", "/api/templates", "/api/repositories"] {
        assert!(own.get(list).text.contains(MARK), "{list}");
    }
}

#[test]
fn row_26_someone_with_two_roles_has_each_of_them_in_its_project_alone() {
    let github = FakeGithub::start();
    github.member("/user/memberships/orgs/fruit", "active");
    let world = signing_in(World::new(), &github, "organizations = ['fruit']");
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&[]));
    let ada = format!("ada@{}", github.url.strip_prefix("http://").unwrap());
    for (project, role) in [("shop", "viewer"), ("garden", "admin")] {
        let path = format!("/api/projects/{project}/members/{ada}");
        admin.send(Method::PUT, &path, Some(&json!({ "role": role }))).ok();
    }
    let shop = Shop::fill(&world, &admin);
    let mut browser = Browser::new(&server);
    browser.sign_in(&github);
    let own = browser.client().header("if-match", "\"0-0\"");
    assert_eq!(own.get("/api/me").ok()["roles"], json!({ "garden": "admin", "shop": "viewer" }));
    let document = admin.get("/api/openapi.json").ok();
    let before = everything(&world);
    let mut refused = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let needs = operation["security"][0].as_object().unwrap().values().next().unwrap();
            // Agents belong to nobody, and signing out is about oneself.
            let is_about_oneself = matches!(path.as_str(), "/api/agents/{id}/check" | "/api/logout");
            if method == "get" || needs[0] == "viewer" || is_about_oneself {
                continue;
            }
            let verb = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let sent = body(&world, method, path);
            let answer = own.send(verb.clone(), &shop.path(path), (verb != Method::DELETE).then_some(&sent));
            assert!([403, 404].contains(&answer.status), "{method} {}: {answer:?}", shop.path(path));
            refused += 1;
        }
    }
    assert!(refused > 30, "{refused} operations were tried");
    assert_eq!(everything(&world), before);
    // In the other project they are an admin.
    let member = json!({ "role": "viewer" });
    own.send(Method::PUT, "/api/projects/garden/members/eve", Some(&member)).ok();
}
