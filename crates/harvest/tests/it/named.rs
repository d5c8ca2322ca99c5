//! Repositories, hosts and credentials that are named over the network: who may name which, and what naming one can do.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use ureq::http::Method;

use crate::serve_access::with_projects;
use crate::served::Client;
use crate::support::{World, git, init};

/// A repository whose settings run a program whenever git of the host looks at its work tree.
fn trapped(path: &Path, marker: &Path) -> PathBuf {
    fs::create_dir_all(path).unwrap();
    init(path);
    fs::write(path.join(".gitattributes"), "*.txt filter=trap\n").unwrap();
    fs::write(path.join("a.txt"), "one\n").unwrap();
    git(path, &["add", "--all"]);
    git(path, &["commit", "--quiet", "--message", "Start"]);
    let spring = format!("touch '{}'; cat", marker.display());
    git(path, &["config", "filter.trap.clean", &spring]);
    git(path, &["config", "filter.trap.required", "true"]);
    fs::write(path.join("a.txt"), "two\n").unwrap();
    path.to_owned()
}

/// Everything over the network that takes the name of a repository, but for what takes an admin of the installation.
fn doors(repository: &Value) -> Vec<(&'static str, Value)> {
    let task = json!({ "prompt": "x", "repository": repository });
    let mut race = task.clone();
    race["race"] = json!({ "number": 2 });
    vec![
        ("/api/tasks", task.clone()),
        ("/api/sessions", task.clone()),
        ("/api/tasks", race),
        ("/api/schedules", json!({ "cron": "0 3 * * *", "task": task })),
        ("/api/templates", json!({ "name": "weekly", "task": task })),
    ]
}

#[test]
fn over_the_network_only_known_repositories_are_named() {
    let world = World::new();
    with_projects(&world);
    let (marker, listener) = (world.path().join("sprung"), TcpListener::bind("127.0.0.1:0").unwrap());
    listener.set_nonblocking(true).unwrap();
    let trap = trapped(&world.path().join("trap"), &marker);
    git(&trap, &["status"]);
    fs::remove_file(&marker).expect("the trap works");
    let server = world.serve(&["--agents", "0"]);
    let people = [
        vec!["--role", "member"],
        vec!["--role", "member", "--project", "shop"],
        vec!["--role", "admin", "--project", "shop"],
    ];
    let people = people.map(|args| server.with(&world.token(&args)));
    let named = [
        json!(trap),
        json!(format!("file://{}", trap.display())),
        json!(format!("http://{}/x.git", listener.local_addr().unwrap())),
        json!("http://169.254.169.254/latest/meta-data"),
        json!(format!("{}/../trap", world.repo().display())),
    ];
    for repository in &named {
        for (path, body) in doors(repository) {
            for person in &people {
                let problem = person.post(path, &body).problem(403, "HV-0602");
                assert_eq!(problem["field"], "repository", "{path} {repository}: {problem}");
            }
        }
    }
    assert!(!marker.exists(), "the repository's own program ran on the host");
    assert!(listener.accept().is_err(), "the server was made to speak to another host");
    for person in &people {
        person.post("/api/repositories", &json!({ "source": trap })).problem(403, "HV-0602");
    }
    // What is known is accepted, by its path and by its name.
    for person in &people {
        person.post("/api/tasks", &world.ask("Mend it")).ok();
    }
    assert_eq!(world.harvest(&["repo", "add", trap.to_str().unwrap(), "--name", "added"]).finish().exit, Some(0));
    people[0].post("/api/tasks", &json!({ "prompt": "x", "repository": "added" })).ok();
    people[1].post("/api/tasks", &json!({ "prompt": "x", "repository": "added" })).problem(403, "HV-0602");
    assert!(!marker.exists(), "the filter of a known repository ran on the host");
}

#[test]
fn nothing_below_the_data_directory_is_a_repository_for_anyone() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let marker = world.path().join("sprung");
    // Where an agent of this installation could have made it.
    let trap = trapped(&world.data().join("sandboxes/local/s/home/trap"), &marker);
    let (link, pointer) = (world.path().join("link"), world.path().join("pointer"));
    symlink(&trap, &link).unwrap();
    fs::create_dir(&pointer).unwrap();
    fs::write(pointer.join(".git"), format!("gitdir: {}/.git\n", trap.display())).unwrap();
    let suffixed = world.path().join("suffixed");
    fs::create_dir(suffixed.with_extension("git")).unwrap();
    fs::copy(pointer.join(".git"), suffixed.with_extension("git").join(".git")).unwrap();
    let percent = format!("file://{}", trap.display()).replace("/trap", "/tr%61p");
    let named = [
        json!(trap),
        json!(trap.join(".git")),
        json!(link),
        json!(pointer),
        json!(format!("file://{}", trap.display())),
        json!(percent),
        json!(format!("file://localhost{}", trap.display())),
        json!(format!("file://%2F{}", trap.display())),
        json!(format!("file://{}", pointer.display())),
        json!(format!("file://{}", suffixed.display())),
    ];
    for repository in &named {
        for (path, body) in doors(repository) {
            let answer = admin.post(path, &body);
            assert!((400..500).contains(&answer.status), "{path} {repository}: {answer:?}");
        }
        let answer = admin.post("/api/repositories", &json!({ "source": repository }));
        assert!((400..500).contains(&answer.status), "{repository}: {answer:?}");
        // Nor for the owner of the machine.
        let ran = world.run(&json!([{}]), &["--repo", repository.as_str().unwrap()]);
        assert!(ran.exit == Some(2) && ran.stderr.contains("Harvest's own"), "{repository}: {ran:?}");
    }
    assert!(!marker.exists(), "a program that an agent configured ran on the host");
}

#[test]
fn what_another_host_says_does_not_come_back_in_an_error() {
    let world = World::new();
    let server = world.serve(&["--agents", "0"]);
    let admin = server.with(&world.token(&["--role", "admin"]));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        // Git asks a second time in another way.
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let said = "instance-secret-canary\n";
            let head = "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close";
            let _ = write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{said}", said.len());
        }
    });
    let body = json!({ "prompt": "x", "repository": format!("http://{address}/x.git") });
    let answer = admin.post("/api/tasks", &body);
    assert!((400..600).contains(&answer.status), "{answer:?}");
    assert!(!answer.text.contains("canary"), "{answer:?}");
    let ran = world.run(&json!([{}]), &["--repo", &format!("http://{address}/x.git")]);
    assert!(!ran.stdout.contains("canary") && !ran.stderr.contains("canary"), "{ran:?}");
    answering.join().unwrap();
}

fn put_settings(client: &Client, settings: &Value) -> crate::served::Answer {
    let path = "/api/projects/shop/settings";
    let tag = client.get(path).header("etag").unwrap().to_owned();
    client.clone().header("if-match", &tag).send(Method::PUT, path, Some(&json!({ "settings": settings })))
}

#[test]
fn only_an_admin_of_the_installation_names_hosts() {
    let world = World::new();
    with_projects(&world);
    let server = world.serve(&["--agents", "0"]);
    let everywhere = server.with(&world.token(&["--role", "admin"]));
    let local = server.with(&world.token(&["--role", "admin", "--project", "shop"]));
    let key =
        |scope: &str, url: &str| json!({ "provider": "openai", "secret": "sk-x", "scope": scope, "base_url": url });
    for url in ["http://169.254.169.254", "https://models.example.com"] {
        let problem = local.post("/api/credentials", &key("project:shop", url)).problem(403, "HV-0602");
        assert_eq!(problem["field"], "base_url", "{problem}");
    }
    local.post("/api/credentials", &json!({ "provider": "openai", "secret": "sk-x", "scope": "project:shop" })).ok();
    everywhere.post("/api/credentials", &key("team:fruit", "http://127.0.0.1:1")).ok();
    // A project's own credential has no way to an address that is not public, whoever says so.
    let problem = everywhere.post("/api/credentials", &key("project:shop", "http://127.0.0.1:1"));
    assert!(problem.problem(400, "HV-0141")["detail"].as_str().unwrap().contains("public"), "{problem:?}");
    for (name, server) in [
        ("mcp.docs.url", json!({ "docs": { "url": "https://evil.example.com/mcp", "credential": "tracker" } })),
        ("mcp.docs.hosts", json!({ "docs": { "command": "npx", "hosts": ["evil.example.com"] } })),
    ] {
        let problem = put_settings(&local, &json!({ "mcp": server })).problem(403, "HV-0602");
        assert!(problem["detail"].as_str().unwrap().contains(name), "{problem}");
        put_settings(&everywhere, &json!({ "mcp": server })).ok();
        // It stays as it is when something else changes.
        put_settings(&local, &json!({ "mcp": server, "budget_usd": 2 })).ok();
        put_settings(&everywhere, &json!({})).ok();
    }
    put_settings(&local, &json!({ "mcp": { "docs": { "command": "npx", "args": ["docs"] } } })).ok();
}
