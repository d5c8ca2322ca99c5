//! Projects over the API: their repositories, their settings, and who belongs to them.

use serde_json::{Value, json};
use ureq::http::Method;

use crate::serve_access::with_projects;
use crate::serve_limits::settings;
use crate::served::{Answer, Client};
use crate::support::{World, init};

fn put(client: &Client, path: &str, tag: Option<&str>, body: &Value) -> Answer {
    let client = tag.map_or_else(|| client.clone(), |tag| client.clone().header("if-match", tag));
    client.send(Method::PUT, path, Some(body))
}

fn patch(client: &Client, path: &str, body: &Value) -> Answer {
    client.send(Method::PATCH, path, Some(body))
}

#[test]
fn a_project_is_made_changed_and_removed() {
    let world = World::new();
    with_projects(&world);
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let orchard = world.path().join("orchard");
    std::fs::create_dir(&orchard).unwrap();
    init(&orchard);
    let made = admin.post("/api/projects", &json!({ "name": "orchard", "repositories": [orchard] }));
    assert_eq!((made.status, made.header("location")), (201, Some("/api/projects/orchard")));
    assert_eq!(made.json(), json!({ "name": "orchard", "repositories": [orchard], "daily_usd": null }));
    admin.post("/api/projects", &json!({ "name": "orchard" })).problem(409, "HV-0615");
    admin.post("/api/projects", &json!({ "name": "shop" })).problem(409, "HV-0615");
    for (name, repository) in
        [("Orchard", "/srv/x"), ("", "/srv/x"), ("-x", "/srv/x"), ("x", "relative"), ("x", "/a\nb")]
    {
        let refused = admin.post("/api/projects", &json!({ "name": name, "repositories": [repository] }));
        refused.problem(400, "HV-0604");
    }
    let taken = admin.post("/api/projects", &json!({ "name": "thieves", "repositories": [world.repo()] }));
    let taken = taken.problem(400, "HV-0604");
    assert_eq!(
        (taken["field"].as_str(), taken["help"].as_str()),
        (Some("repositories"), Some("take it out of that project first"))
    );
    // Who is confined to it sees it, and nothing else.
    let own = server.with(&world.token(&["--role", "member", "--project", "orchard"]));
    let names = |client: &Client| {
        let all = client.get("/api/projects").ok()["items"].as_array().unwrap().clone();
        all.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&own), ["orchard"]);
    assert_eq!(names(&admin), ["garden", "orchard", "shop"]);
    own.post("/api/tasks", &world.ask("Mend it")).problem(403, "HV-0602");
    let asked = own.post("/api/tasks", &json!({ "prompt": "Mend it", "repository": orchard }));
    assert!(asked.status == 400, "it has no commit: {asked:?}");
    patch(&admin, "/api/projects/orchard", &json!({ "repositories": [] })).ok();
    own.post("/api/tasks", &json!({ "prompt": "Mend it", "repository": orchard })).problem(403, "HV-0602");
    patch(&admin, "/api/projects/shop", &json!({ "repositories": [] })).problem(403, "HV-0602");
    assert_eq!(admin.delete("/api/projects/orchard").status, 204);
    admin.delete("/api/projects/orchard").problem(404, "HV-0612");
    admin.delete("/api/projects/shop").problem(403, "HV-0602");
    let log = admin.get("/api/audit").ok();
    let actions = log["items"].as_array().unwrap().iter().filter_map(|entry| entry["action"].as_str());
    let actions: Vec<&str> = actions.filter(|action| action.starts_with("project.")).collect();
    assert_eq!(actions, ["project.create", "project.change", "project.remove"]);
}

#[test]
fn the_limits_of_a_project_hold_however_its_repository_is_written() {
    let world = World::new();
    let (link, second) = (world.path().join("link"), world.path().join("second"));
    std::os::unix::fs::symlink(world.repo(), &link).unwrap();
    std::os::unix::fs::symlink(world.repo(), &second).unwrap();
    let text = format!(
        "[quota]\nproject_sessions = 2\n[project.shop]\nrepositories = [\"{}/\"]\nbudget_usd = 2\n",
        link.display()
    );
    settings(&world, &text);
    let server = world.serve(&["--agents", "0"]);
    let member = server.with(&world.token(&["--role", "member", "--project", "shop"]));
    let admin = server.with(&world.token(&["--role", "admin"]));
    let real = world.repo().canonicalize().unwrap().display().to_string();
    let ask = |client: &Client, repository: &str| {
        client.post("/api/tasks", &json!({ "prompt": "Mend it", "repository": repository }))
    };
    let asked = ask(&member, &link.display().to_string()).ok();
    assert_eq!((&asked["repository"], asked["budget_usd"].as_f64()), (&json!(real), Some(2.0)));
    // What an admin names as a URL is another way to the same place: it has the budget of the project, and counts for it.
    let asked = ask(&admin, &format!("FILE://localhost{}/", second.display())).ok();
    assert_eq!((&asked["repository"], asked["budget_usd"].as_f64()), (&json!(format!("file://{real}")), Some(2.0)));
    let page = member.get(&format!("/api/tasks?repository={real}/")).ok();
    assert_eq!(page["items"].as_array().unwrap().len(), 1, "{page}");
    assert_eq!(member.get("/api/tasks").ok()["items"].as_array().unwrap().len(), 2);
    for (client, repository) in [
        (&member, format!("{real}/")),
        (&member, format!("file://{}", link.display())),
        (&member, second.display().to_string()),
        (&admin, format!("{real}/.git/..")),
        (&admin, format!("file://{}", second.display())),
    ] {
        let refused = ask(client, &repository).problem(429, "HV-0617");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.starts_with("project shop has reached the limit for unfinished tasks: 2 of 2"), "{refused}");
    }
    // No other project takes it under another address.
    for repository in [format!("{real}/"), second.display().to_string(), format!("file://{real}")] {
        let taken = admin.post("/api/projects", &json!({ "name": "thieves", "repositories": [repository] }));
        assert_eq!(taken.problem(400, "HV-0604")["help"], "take it out of that project first");
    }
    // Nor does an address that is no known one's get a member anywhere.
    ask(&member, &format!("{real}-of-others")).problem(403, "HV-0602");
}

#[test]
fn whoever_changes_settings_has_read_them() {
    let world = World::new();
    with_projects(&world);
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let path = "/api/projects/shop/settings";
    let first = admin.get(path);
    let tag = first.header("etag").unwrap().to_owned();
    assert_eq!(first.ok()["settings"], json!({}));
    assert_eq!(admin.clone().header("if-none-match", &tag).get(path).status, 304);
    let body = json!({ "settings": { "budget_usd": 3, "test": "make check", "egress": { "allow": ["example.com"] } } });
    assert_eq!(put(&admin, path, None, &body).problem(428, "HV-0608")["field"], "If-Match");
    put(&admin, path, Some("\"77-x\""), &body).problem(412, "HV-0608");
    let changed = put(&admin, path, Some(&tag), &body);
    assert_eq!(changed.ok()["settings"], body["settings"]);
    put(&admin, path, Some(&tag), &json!({ "settings": {} })).problem(412, "HV-0608");
    let held = |answer: Value, key: &str| {
        let all = answer["in_force"].as_array().unwrap().clone();
        all.into_iter().find(|setting| setting["key"] == key).unwrap()
    };
    let budget = held(changed.json(), "budget_usd");
    assert_eq!(
        (&budget["origin"], &budget["source"]),
        (&json!("project_settings"), &json!("settings of project shop"))
    );
    assert_eq!(held(changed.json(), "timeout")["origin"], "default");
    // The command line says the same, and a task is asked for with it.
    let shown = world.json(&["config", "show", "--repo", world.repo().to_str().unwrap()]);
    let shown = shown["items"].as_array().unwrap().iter().find(|setting| setting["key"] == "test").unwrap().clone();
    assert_eq!((&shown["value"], &shown["from"]), (&json!("make check"), &json!("settings of project shop")));
    let task = admin.post("/api/tasks", &world.ask("Mend it")).ok();
    assert_eq!(task["settings"]["test"], "make check", "{task}");
    assert_eq!(task["budget_usd"].as_f64(), Some(3.0), "{task}");
    // What cannot be a setting changes nothing.
    let tag = changed.header("etag").unwrap();
    for (settings, said) in [
        (json!({ "colour": "red" }), "`colour` is not a setting"),
        (json!({ "agents": 3 }), "`agents` cannot be set by a project"),
        (json!({ "timeout": 30 }), "it must be text"),
        (json!({ "test": null }), "null"),
    ] {
        let problem = put(&admin, path, Some(tag), &json!({ "settings": settings })).problem(400, "HV-0311");
        assert_eq!(problem["field"], "settings");
        assert!(problem["detail"].as_str().unwrap().contains(said), "{problem}");
    }
    assert_eq!(admin.get(path).header("etag"), Some(tag));
    // An admin of the project alone decides about the project alone.
    let local = server.with(&world.token(&["--role", "admin", "--project", "shop"]));
    let wider = json!({ "settings": { "egress": { "allow": ["example.com", "example.org"] } } });
    assert!(
        put(&local, path, Some(tag), &wider).problem(403, "HV-0602")["detail"]
            .as_str()
            .unwrap()
            .contains("egress.allow")
    );
    // It raises no budget above what the installation has said: there, 10 by itself.
    let dear = json!({ "settings": { "budget_usd": 10.01, "egress": { "allow": ["example.com"] } } });
    let problem = put(&local, path, Some(tag), &dear).problem(403, "HV-0602");
    assert!(problem["detail"].as_str().unwrap().contains("budget_usd"), "{problem}");
    let own = json!({ "settings": { "budget_usd": 4, "egress": { "allow": ["example.com"] } } });
    put(&local, path, Some(tag), &own).ok();
    let member = server.with(&world.token(&["--role", "member", "--project", "shop"]));
    put(&member, path, Some(tag), &own).problem(403, "HV-0602");
    let elsewhere = server.with(&world.token(&["--role", "admin", "--project", "garden"]));
    put(&elsewhere, path, Some(tag), &own).problem(404, "HV-0612");
}

#[test]
fn while_the_settings_cannot_be_read_a_change_is_made_or_refused_and_never_both() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let shop = "/api/projects/shop";
    admin.post("/api/projects", &json!({ "name": "shop", "repositories": [world.repo()] })).ok();
    let tag = admin.get(&format!("{shop}/settings")).header("etag").unwrap().to_owned();
    let file = world.home().join(".config/harvest/harvest.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "budget_usd = oops\n").unwrap();
    let warned = |answer: &Answer| {
        assert!((200..300).contains(&answer.status), "{answer:?}");
        assert!(answer.header("warning").is_some_and(|warning| warning.contains("harvest.toml")), "{answer:?}");
    };
    // What needs the settings changes nothing.
    let orchard = json!({ "name": "orchard" });
    admin.post("/api/projects", &orchard).problem(400, "HV-0311");
    let settings = json!({ "settings": { "test": "make check" } });
    put(&admin, &format!("{shop}/settings"), Some(&tag), &settings).problem(400, "HV-0311");
    // What does not is done, and the answer says so.
    warned(&put(&admin, &format!("{shop}/members/ada"), None, &json!({ "role": "member" })));
    warned(&admin.delete(&format!("{shop}/members/ada")));
    let emptied = patch(&admin, shop, &json!({ "repositories": [] }));
    warned(&emptied);
    assert_eq!(emptied.json()["repositories"], json!([]));
    std::fs::write(&file, "").unwrap();
    let made = admin.post("/api/projects", &orchard);
    assert_eq!((made.status, made.header("warning")), (201, None), "nothing of it was made before: {made:?}");
    assert_eq!(admin.get(&format!("{shop}/settings")).ok()["settings"], json!({}));
}

#[test]
fn members_are_listed_and_removed_by_admins_of_their_project() {
    let world = World::new();
    with_projects(&world);
    let server = world.serve(&["--agents", "0"]);
    let local = server.with(&world.token(&["--role", "admin", "--project", "shop"]));
    let member = "/api/projects/shop/members/ada@github.com";
    put(&local, member, None, &json!({ "role": "viewer" })).ok();
    put(&local, member, None, &json!({ "role": "member" })).ok();
    put(&local, "/api/projects/garden/members/ada@github.com", None, &json!({ "role": "admin" }))
        .problem(404, "HV-0612");
    put(&local, member, None, &json!({ "role": "king" })).problem(400, "HV-0604");
    let viewer = server.with(&world.token(&["--role", "viewer"]));
    let listed = viewer.get("/api/projects/shop/members").ok();
    assert_eq!(
        (&listed["items"][0]["user"], &listed["items"][0]["role"]),
        (&json!("ada@github.com"), &json!("member"))
    );
    viewer.delete(member).problem(403, "HV-0602");
    assert_eq!(local.delete(member).status, 204);
    local.delete(member).problem(404, "HV-0614");
}

#[test]
fn a_setting_of_a_project_that_holds_a_key_is_refused_and_kept_nowhere() {
    let world = World::new();
    with_projects(&world);
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let path = "/api/projects/shop/settings";
    let before = admin.get(path);
    let keys = [
        format!("sk-ant-api03-{}", "A1b2C3d4".repeat(12)),
        format!("ghp_{}", "A1b2C3d4E5f6".repeat(3)),
        format!("hv_{}", "0123456789abcdef".repeat(4)),
    ];
    for key in &keys {
        let settings = json!({ "settings": { "test": format!("KEY={key} make check") } });
        let refused = put(&admin, path, before.header("etag"), &settings);
        let problem = refused.problem(400, "HV-0604");
        assert_eq!(problem["field"], "settings", "{problem}");
        assert!(
            problem["help"].as_str().unwrap().contains("credential add") && !refused.text.contains(key),
            "{problem}"
        );
        assert_eq!(crate::credentials::holding(&world.data(), key.as_bytes()), Vec::<String>::new(), "{key}");
    }
    assert_eq!(admin.get(path).json(), before.json());
}
