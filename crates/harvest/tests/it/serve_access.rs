//! Who may do what over the API: every operation of its document, held against everyone who could ask; and the tricks that
//! other pages and strangers try.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use ureq::http::Method;

use crate::serve::websocket;
use crate::served::{Answer, Client, Server};
use crate::support::{PATIENCE, World, init};

/// Stands in every path for something that is not there.
const NOTHING: &str = "0000000000000000";

/// Someone of each kind. `shop` is the project of the sample repository.
fn callers(server: &Server, tokens: &BTreeMap<&'static str, String>) -> Vec<(&'static str, Client)> {
    let mut callers: Vec<_> = tokens.iter().map(|(name, token)| (*name, server.with(token))).collect();
    callers.push(("none", server.anyone()));
    callers
}

fn tokens(world: &World) -> BTreeMap<&'static str, String> {
    let revoked = world.json(&["token", "create", "--role", "admin"]);
    world.json(&["token", "revoke", revoked["id"].as_str().unwrap()]);
    let expired = world.json(&["token", "create", "--role", "admin", "--expires-in-days", "1"]);
    let database = rusqlite::Connection::open(world.data().join("harvest.db")).unwrap();
    let id = expired["id"].as_str().unwrap();
    database.execute("UPDATE tokens SET expires_at = '2020-01-01T00:00:00Z' WHERE id = ?1", [id]).unwrap();
    BTreeMap::from([
        ("viewer", world.token(&["--role", "viewer"])),
        ("member", world.token(&["--role", "member"])),
        ("admin", world.token(&["--role", "admin"])),
        ("other project", world.token(&["--role", "admin", "--project", "garden"])),
        ("expired", expired["token"].as_str().unwrap().to_owned()),
        ("revoked", revoked["token"].as_str().unwrap().to_owned()),
        ("unknown", "hv_0000000000000000000000000000000000000000000000000000".to_owned()),
    ])
}

/// The sample repository belongs to the project `shop`, another one to `garden`.
pub fn with_projects(world: &World) {
    let garden = world.path().join("garden");
    std::fs::create_dir(&garden).unwrap();
    init(&garden);
    let settings = format!(
        "[project.shop]\nrepositories = [{:?}]\n\n[project.garden]\nrepositories = [{:?}]\n",
        world.repo(),
        garden
    );
    let folder = world.home().join(".config/harvest");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("harvest.toml"), settings).unwrap();
}

fn rank(role: &str) -> u8 {
    match role {
        "viewer" => 1,
        "member" => 2,
        _ => 3,
    }
}

#[test]
fn every_operation_is_open_to_whom_the_document_says_and_to_nobody_else() {
    let world = World::new();
    with_projects(&world);
    let server = world.serve(&["--agents", "0"]);
    let tokens = tokens(&world);
    let callers = callers(&server, &tokens);
    let document = server.anyone().get("/api/openapi.json").ok();
    let mut checked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let needs: Vec<String> =
                serde_json::from_value(operation["security"][0].as_object().unwrap().values().next().unwrap().clone())
                    .unwrap();
            let path = path.split('/').map(|part| if part.starts_with('{') { NOTHING } else { part });
            let path = path.collect::<Vec<_>>().join("/");
            let everywhere = needs.contains(&"everywhere".to_owned());
            for (name, client) in &callers {
                let place = format!("{method} {path} as {name}");
                let answer = ask(client, method, &path);
                let expected = match *name {
                    "none" | "expired" | "revoked" | "unknown" => Some((401, "HV-0601")),
                    "other project" if everywhere => Some((403, "HV-0602")),
                    "viewer" | "member" if rank(name) < rank(&needs[0]) => Some((403, "HV-0602")),
                    _ => None,
                };
                match expected {
                    Some((status, code)) => drop(answer.problem(status, code)),
                    None => assert!(![401, 403].contains(&answer.status) && answer.status < 500, "{place}: {answer:?}"),
                }
                checked += 1;
            }
        }
    }
    assert!(checked >= 19 * 8, "{checked}");
    assert_eq!(world.json(&["audit", "verify"])["intact"], true);
}

/// A body that no operation accepts, so that nothing happens; streams are looked at for their status alone.
fn ask(client: &Client, method: &str, path: &str) -> Answer {
    if path == "/api/events" {
        return client.head(path);
    }
    let body = json!({ "nothing": true });
    let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
    let body = (![Method::GET, Method::DELETE].contains(&method)).then_some(&body);
    client.send(method, path, body)
}

#[test]
fn what_belongs_to_another_project_is_not_there() {
    let world = World::new();
    with_projects(&world);
    let server = world.serve(&["--agents", "0"]);
    let (own, other) = (world.token(&["--project", "shop"]), world.token(&["--project", "garden", "--role", "admin"]));
    let (own, other) = (server.with(&own), server.with(&other));
    let task = own.post("/api/tasks", &world.ask("Mend it")).ok();
    let (id, session) = (task["id"].as_str().unwrap(), task["sessions"][0]["id"].as_str().unwrap());
    assert_eq!(own.get("/api/tasks").ok()["items"].as_array().unwrap().len(), 1);
    for list in ["/api/tasks", "/api/sessions", "/api/tasks?status=pending", "/api/audit"] {
        assert_eq!(other.get(list).ok()["items"], json!([]), "{list}");
    }
    let hidden = format!("/api/tasks?repository={}", world.repo().display());
    assert_eq!(other.get(&hidden).ok()["items"], json!([]));
    for path in ["", "/attempts"] {
        other.get(&format!("/api/tasks/{id}{path}")).problem(404, "HV-0151");
    }
    for path in ["", "/events", "/messages", "/files", "/diff"] {
        other.get(&format!("/api/sessions/{session}{path}")).problem(404, "HV-0154");
    }
    for action in ["cancel", "terminate", "retry"] {
        other.post(&format!("/api/tasks/{id}/{action}"), &json!({})).problem(404, "HV-0151");
    }
    other.post(&format!("/api/sessions/{session}/stop"), &json!({})).problem(404, "HV-0154");
    other.post("/api/tasks", &world.ask("Mend it")).problem(403, "HV-0602");
    // Whether something is there cannot be told from how it is refused.
    let there = other.post("/api/tasks", &json!({ "prompt": "x", "repository": "/etc" }));
    let nowhere = other.post("/api/tasks", &json!({ "prompt": "x", "repository": "/nowhere" }));
    assert_eq!((there.status, there.json()["detail"].clone()), (403, nowhere.json()["detail"].clone()));
    let mut ask = world.ask("Behind it");
    ask["repository"] = json!(world.path().join("garden"));
    ask["after"] = json!([id]);
    other.post("/api/tasks", &ask).problem(400, "HV-0171");
    assert_eq!(own.get(&format!("/api/tasks/{id}")).ok()["status"], "pending");
    assert_eq!(other.get("/api/projects").ok()["items"].as_array().unwrap().len(), 1);
    other.get("/api/projects/shop").problem(404, "HV-0612");
    let shop = own.get("/api/projects/shop");
    assert_eq!(shop.ok()["repositories"], json!([world.repo()]));
    let again = own.clone().header("if-none-match", shop.header("etag").unwrap()).get("/api/projects/shop");
    assert_eq!((again.status, again.text.as_str()), (304, ""));
    own.post(&format!("/api/tasks/{id}/cancel"), &json!({})).ok();
    assert_eq!(own.get("/api/stats").ok()["total"]["cancelled"], 1);
    assert_eq!(other.get("/api/stats?by=person").ok()["items"], json!([]));
    let audit = world.token(&["--project", "shop", "--role", "admin"]);
    let log = server.with(&audit).get("/api/audit").ok();
    let actions: Vec<&str> =
        log["items"].as_array().unwrap().iter().map(|one| one["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["task.create", "task.cancel"], "what concerns the project, and nothing else");
    own.get("/api/stats?from=yesterday").problem(400, "HV-0604");
}

#[test]
fn a_token_is_shown_once_and_kept_nowhere() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let admin = world.token(&["--role", "admin"]);
    let client = server.with(&admin);
    let made = client.post("/api/tokens", &json!({ "name": "ci", "role": "viewer", "expires_in_days": 1 })).ok();
    let token = made["token"].as_str().unwrap();
    assert!(token.starts_with("hv_") && token.len() > 50, "{token}");
    let me = server.with(token).get("/api/me").ok();
    assert_eq!((&me["role"], &me["csrf"]), (&json!("viewer"), &Value::Null));
    let listed = client.get("/api/tokens").text;
    assert!(listed.contains(made["id"].as_str().unwrap()) && !listed.contains(token));
    for file in ["harvest.db", "harvest.db-wal"] {
        let bytes = std::fs::read(world.data().join(file)).unwrap_or_default();
        for secret in [token, &admin] {
            assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "{file}");
        }
    }
    // At once, though the server has just believed in it.
    assert_eq!(client.delete(&format!("/api/tokens/{}", made["id"].as_str().unwrap())).status, 204);
    server.with(token).get("/api/me").problem(401, "HV-0601");
    client.delete(&format!("/api/tokens/{}", made["id"].as_str().unwrap())).problem(404, "HV-0611");
    let other = world.json(&["token", "create", "--role", "viewer"]);
    let other_client = server.with(other["token"].as_str().unwrap());
    assert_eq!(other_client.get("/api/me").status, 200);
    world.json(&["token", "revoke", &other["id"].as_str().unwrap()[..6]]);
    let begun = Instant::now();
    while other_client.get("/api/me").status != 401 {
        assert!(begun.elapsed() < PATIENCE, "another process revoked it");
    }
    let log = world.harvest(&["audit", "export"]).finish().stdout;
    assert!(!log.contains(token) && log.contains("\"token.revoke\"") && log.contains("\"token.create\""), "{log}");
}

/// What a browser has after the link was opened.
pub struct Browser {
    pub cookie: String,
    pub csrf: String,
    origin: String,
}

pub fn sign_in(server: &Server) -> Browser {
    let path = server.link.strip_prefix(&server.url).unwrap();
    let opened = server.anyone().get(path);
    assert_eq!(opened.status, 303, "{opened:?}");
    let csrf = opened.header("location").unwrap().strip_prefix("/#proof=").unwrap().to_owned();
    let cookie = opened.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let me = server.anyone().header("cookie", &cookie).header("x-harvest-csrf", &csrf).get("/api/me").ok();
    assert_eq!((&me["role"], &me["csrf"]), (&json!("admin"), &json!(csrf)));
    Browser { cookie, csrf, origin: server.url.clone() }
}

#[test]
fn the_link_opens_once_and_leaves_a_cookie() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let path = server.link.strip_prefix(&server.url).unwrap().to_owned();
    let browser = sign_in(&server);
    server.anyone().get(&path).problem(401, "HV-0601");
    server.anyone().get("/login?code=guess").problem(401, "HV-0601");
    let own = |path: &str| {
        let client = server.anyone().header("cookie", &browser.cookie).header("x-harvest-csrf", &browser.csrf);
        client.header("origin", &browser.origin).post(path, &world.ask("From the page"))
    };
    assert_eq!(own("/api/tasks").ok()["source"], "web");
    assert_eq!(own("/api/logout").status, 204);
    let gone = server.anyone().header("cookie", &browser.cookie).header("x-harvest-csrf", &browser.csrf);
    gone.get("/api/me").problem(401, "HV-0601");
    let another = world.json(&["token", "link", "--url", &server.url]);
    let path = another["link"].as_str().unwrap().strip_prefix(&server.url).unwrap().to_owned();
    assert_eq!(server.anyone().get(&path).status, 303);
}

#[test]
fn other_pages_cannot_act_for_someone_who_is_signed_in() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let browser = sign_in(&server);
    let with = |headers: &[(&str, &str)]| {
        let mut client = server.anyone().header("cookie", &browser.cookie);
        for (name, value) in headers {
            client = client.header(name, value);
        }
        client
    };
    let ask = world.ask("Forged");
    with(&[]).post("/api/tasks", &ask).problem(403, "HV-0603");
    with(&[("x-harvest-csrf", "guess")]).post("/api/tasks", &ask).problem(403, "HV-0603");
    let evil = ("origin", "http://evil.example");
    with(&[evil, ("x-harvest-csrf", &browser.csrf)]).post("/api/tasks", &ask).problem(403, "HV-0603");
    with(&[("origin", "null")]).get("/api/tasks").problem(403, "HV-0603");
    with(&[("host", "evil.example")]).get("/api/tasks").problem(403, "HV-0603");
    let forged = browser.cookie.replace('=', "=0");
    server.anyone().header("cookie", &forged).get("/api/me").problem(401, "HV-0601");
    // A cookie is no token and a token is no cookie.
    let secret = browser.cookie.split_once('=').unwrap().1;
    server.with(secret).get("/api/me").problem(401, "HV-0601");
    let own = with(&[("x-harvest-csrf", &browser.csrf), ("origin", &browser.origin)]);
    let task = own.post("/api/tasks", &ask).ok();
    let session = task["sessions"][0]["id"].as_str().unwrap();
    let path = format!("/api/sessions/{session}/events?proof={}", browser.csrf);
    let cookie = ("cookie", browser.cookie.as_str());
    assert!(websocket(&server, &path, &[cookie, ("origin", &browser.origin)]).is_ok());
    for headers in [vec![cookie, ("origin", "http://evil.example")], vec![cookie, ("origin", "null")], vec![]] {
        assert!(websocket(&server, &path, &headers).is_err(), "{headers:?}");
    }
    assert_eq!(world.tasks().len(), 1);
}

/// Browsers give the cookies of a host to all of its ports, and so to whatever else listens there.
#[test]
fn a_cookie_that_another_port_collects_opens_nothing() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let browser = sign_in(&server);
    let task = server.with(&world.token(&[])).post("/api/tasks", &world.ask("Mend it")).ok();
    let events = format!("/api/sessions/{}/events", task["sessions"][0]["id"].as_str().unwrap());
    let cookie = ("cookie", browser.cookie.as_str());
    let collected = server.anyone().header("cookie", &browser.cookie);
    for path in ["/api/me", "/api/tasks", "/api/tasks?proof=guess", &events, "/api/events", "/metrics"] {
        collected.get(path).problem(401, "HV-0601");
    }
    assert!(websocket(&server, &events, &[cookie, ("origin", &browser.origin)]).is_err());
    // The other half alone is worth nothing either, and in an address it changes nothing.
    server.anyone().header("x-harvest-csrf", &browser.csrf).get("/api/me").problem(401, "HV-0601");
    let path = format!("/api/tasks?proof={}", browser.csrf);
    collected.post(&path, &world.ask("Mend it")).problem(403, "HV-0603");
    collected.header("x-harvest-csrf", &browser.csrf).get("/api/me").ok();
}

#[test]
fn what_is_too_large_too_slow_or_malformed_is_refused_and_harms_nobody() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let token = world.token(&["--role", "member"]);
    let client = server.with(&token);
    let large = json!({ "prompt": "x".repeat(2 << 20), "repository": "/srv" });
    client.post("/api/tasks", &large).problem(413, "HV-0606");
    let host = server.host();
    let head = format!("GET /api/me HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    let many: String = (0..200).map(|number| format!("X-{number}: 1\r\n")).collect();
    assert!(server.raw(format!("{head}{many}\r\n").as_bytes()).starts_with("HTTP/1.1 431"));
    let long = format!("{head}X-Long: {}\r\n\r\n", "a".repeat(64 << 10));
    assert!(server.raw(long.as_bytes()).starts_with("HTTP/1.1 431"));
    for bytes in [
        "\0\0\0\0\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET\r\n\r\n",
        "POST /api/tasks HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ] {
        assert!(server.raw(bytes.as_bytes()).starts_with("HTTP/1.1 4"), "{bytes:?}");
    }
    for path in ["/api/../etc/passwd", "/api/tasks/%00", "/api/tasks/%2e%2e%2f", "//api/tasks", "/api/tasks/%ff"] {
        let answer = client.get(path);
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
    }
    // Someone who sends the head of a request a byte at a time is cut off; others do not notice.
    let mut slow = TcpStream::connect(host).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    slow.write_all(b"GET /api/me HTTP/1.1\r\nHost: ").unwrap();
    let begun = Instant::now();
    let _ = slow.read_to_end(&mut Vec::new());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(client.get("/api/me").status, 200);
    let answer = client.get("/api/me");
    for header in ["content-security-policy", "x-content-type-options", "x-frame-options", "referrer-policy"] {
        assert!(answer.header(header).is_some(), "{header}");
    }
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert!(answer.header("access-control-allow-origin").is_none());
    assert!(answer.header("ratelimit").is_some_and(|text| text.starts_with("\"reads\";r=")), "{answer:?}");
}

#[test]
fn an_address_that_others_reach_takes_a_name_and_a_way_in() {
    let world = World::new();
    let refused = world.harvest(&["serve", "--listen", "0.0.0.0:0", "--agents", "0"]).finish();
    assert!(refused.exit == Some(2) && refused.stderr.starts_with("error[HV-0609]"), "{refused:?}");
    let named = ["serve", "--listen", "0.0.0.0:0", "--agents", "0", "--public-url", "https://harvest.example.com"];
    let refused = world.harvest(&named).finish();
    assert!(refused.exit == Some(2) && refused.stderr.contains("--tokens-only"), "{refused:?}");
    let mut open = world.harvest(&named).args(&["--tokens-only", "--json"]).start();
    open.wait_for_type("listening");
    open.signal(Signal::TERM);
    assert_eq!(open.finish().exit, Some(0));
    let bad = ["serve", "--listen", "127.0.0.1:0", "--public-url", "harvest.example.com", "--agents", "0"];
    let refused = world.harvest(&bad).finish();
    assert!(refused.exit == Some(2) && refused.stderr.starts_with("error[HV-0141]"), "{refused:?}");
    let server = world.serve(&["--agents", "0"]);
    let other = world.path().join("other");
    let taken = world.harvest_at(&other, &["serve", "--listen", server.host(), "--agents", "0"]).finish();
    assert!(taken.exit == Some(2) && taken.stderr.starts_with("error[HV-0610]"), "{taken:?}");
}

#[test]
fn a_second_server_on_one_data_directory_is_refused_and_a_killed_one_leaves_it_free() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let second = world.harvest(&["serve", "--listen", "127.0.0.1:0", "--agents", "0"]).finish();
    assert!(second.exit == Some(2) && second.stderr.starts_with("error[HV-0306]"), "{second:?}");
    let holder = format!("another server (process {}) runs on the data directory", server.running.pid());
    assert!(second.stderr.contains(&holder), "{second:?}");
    assert!(second.stderr.contains("--data-dir") && second.stderr.contains("harvest up"), "{second:?}");
    // A worker beside it is welcome.
    let script = world.script(&serde_json::json!([{}]));
    let up = world.harvest(&["up", "--until-empty", "--model-script", script.to_str().unwrap()]).finish();
    assert_eq!(up.exit, Some(0), "{up:?}");
    server.running.signal(Signal::KILL);
    server.running.finish();
    world.serve(&["--agents", "0"]);
}

#[test]
fn the_audit_log_shows_that_it_was_changed() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let token = world.token(&["--role", "admin", "--user", "ada"]);
    for number in 0..3 {
        server.with(&token).post("/api/tasks", &world.ask(&format!("Number {number}"))).ok();
    }
    server.with(&token).post("/api/tasks", &json!({})).problem(400, "HV-0604");
    let verified = world.json(&["audit", "verify"]);
    assert_eq!(
        (&verified["entries"], &verified["intact"]),
        (&json!(4), &json!(true)),
        "what was refused changed nothing"
    );
    let export = world.harvest(&["audit", "export"]).finish().stdout;
    let last: Value = serde_json::from_str(export.lines().last().unwrap()).unwrap();
    assert_eq!((&last["actor"], &last["action"]), (&json!("user:ada"), &json!("task.create")));
    let admin = world.token(&["--role", "admin"]);
    let page = server.with(&admin).get("/api/audit?action=task.create&limit=2").ok();
    assert_eq!((page["items"].as_array().unwrap().len(), page["next_cursor"].is_string()), (2, true));
    let database = rusqlite::Connection::open(world.data().join("harvest.db")).unwrap();
    database.execute_batch("DROP TRIGGER audit_stays; UPDATE audit SET actor = 'user:eve' WHERE number = 3").unwrap();
    let broken = world.harvest(&["audit", "verify"]).finish();
    assert!(broken.exit == Some(1) && broken.stderr.starts_with("error[HV-0613]: entry 3 "), "{broken:?}");
}

#[test]
fn a_token_that_is_limited_to_projects_sees_and_revokes_itself_alone() {
    let world = World::new();
    with_projects(&world);
    let server = world.serve(&["--agents", "0"]);
    let make = |args: &[&str]| world.json(&[&["token", "create", "--user", "ada"][..], args].concat());
    let wide = make(&["--role", "member"]);
    let shop = make(&["--role", "admin", "--project", "shop"]);
    let other = make(&["--role", "viewer", "--project", "shop"]);
    let client = |made: &Value| server.with(made["token"].as_str().unwrap());
    let listed = |made: &Value| {
        let page = client(made).get("/api/tokens").ok();
        let ids = page["items"].as_array().unwrap().iter().map(|token| token["id"].as_str().unwrap().to_owned());
        ids.collect::<std::collections::BTreeSet<_>>()
    };
    let id = |made: &Value| made["id"].as_str().unwrap().to_owned();
    assert_eq!(listed(&shop), [id(&shop)].into());
    assert_eq!(listed(&wide), [&wide, &shop, &other].map(id).into());
    for untouched in [&wide, &other] {
        client(&shop).delete(&format!("/api/tokens/{}", id(untouched))).problem(404, "HV-0611");
        client(untouched).get("/api/me").ok();
    }
    assert_eq!(client(&shop).delete(&format!("/api/tokens/{}", id(&shop))).status, 204);
    client(&shop).get("/api/me").problem(401, "HV-0601");
    assert_eq!(client(&wide).delete(&format!("/api/tokens/{}", id(&other))).status, 204);
}

#[test]
fn a_token_that_was_made_with_a_token_ends_with_it_and_never_later() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let first = world.json(&["token", "create", "--role", "admin", "--expires-in-days", "2"]);
    let make = |client: &Client, days: Option<u64>| {
        let mut ask = json!({ "name": "made", "role": "admin", "user": "eve" });
        if let Some(days) = days {
            ask["expires_in_days"] = json!(days);
        }
        client.post("/api/tokens", &ask).ok()
    };
    let with = |made: &Value| server.with(made["token"].as_str().unwrap());
    let (forever, long, short) =
        (make(&with(&first), None), make(&with(&first), Some(30)), make(&with(&first), Some(1)));
    let end = |made: &Value| made["expires_at"].as_str().unwrap().to_owned();
    assert_eq!((end(&forever), end(&long)), (end(&first), end(&first)));
    assert!(end(&short) < end(&first));
    let below = make(&with(&long), None);
    assert_eq!(end(&below), end(&first));
    // One that a person made in the browser or on the command line is nobody's child.
    let other = server.with(&world.token(&["--role", "admin"]));
    assert_eq!(other.delete(&format!("/api/tokens/{}", first["id"].as_str().unwrap())).status, 204);
    for made in [&first, &forever, &long, &short, &below] {
        with(made).get("/api/me").problem(401, "HV-0601");
    }
    other.get("/api/me").ok();
}
