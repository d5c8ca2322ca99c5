//! Where packages come from when the usual way is blocked: builds that end at once, hosts that are tried, and settings of
//! package managers that are offered.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::first_day::at_a_terminal;
use crate::support::{FIX, World, git};

/// An address where nobody listens.
fn closed() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// Says the same to everyone.
fn answering(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut asked = [0; 4096];
                let _ = stream.read(&mut asked);
                let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            });
        }
    });
    address
}

/// A world whose repository needs a package of npm.
fn with_a_dependency() -> World {
    let world = World::new();
    world.write("package.json", r#"{"name":"shop","version":"1.0.0","dependencies":{"pear":"^1.0.0"}}"#);
    world.commit("Pears");
    world
}

fn settings(world: &World, text: &str) -> String {
    let file = world.path().join("harvest.toml");
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// Builds what the repository needs, in vain.
fn built(world: &World, config: &str) -> String {
    let added = world.harvest(&["--config", config, "repo", "add", "."]).current_dir(&world.repo()).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    let built = world.harvest(&["--config", config, "repo", "build", "repo", "--json"]).finish();
    let report: Value = serde_json::from_str(built.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((built.exit, &report["status"]), (Some(1), &json!("failed")), "{built:?}");
    world.assert_nothing_left();
    report["error"].as_str().unwrap().to_owned()
}

#[test]
fn a_build_ends_with_the_reason_when_a_registry_cannot_be_reached() {
    let world = with_a_dependency();
    let config = settings(&world, &format!("[registries]\nnpm = '{}'\n", closed()));
    let error = built(&world, &config);
    assert!(error.starts_with("`npm install"), "{error}");
    assert!(error.ends_with(" failed: npm: 127.0.0.1 cannot be reached: it does not answer"), "{error}");
}

/// A lockfile names archives, so that no metadata is asked for: what they are is looked up on their way.
#[test]
fn a_build_with_a_lockfile_ends_with_the_reason_when_a_registry_cannot_be_reached() {
    let world = with_a_dependency();
    let pear = json!({
        "version": "1.0.0",
        "resolved": "https://registry.npmjs.org/pear/-/pear-1.0.0.tgz",
        "integrity": format!("sha512-{}==", "A".repeat(86)),
    });
    let top = json!({ "name": "shop", "version": "1.0.0", "dependencies": { "pear": "^1.0.0" } });
    let lock = json!({
        "name": "shop", "version": "1.0.0", "lockfileVersion": 3, "requires": true,
        "packages": { "": top, "node_modules/pear": pear },
    });
    world.write("package-lock.json", lock.to_string());
    world.commit("Lock the pears");
    let config = settings(&world, &format!("[registries]\nnpm = '{}'\n", closed()));
    let error = built(&world, &config);
    assert!(error.starts_with("`npm ci"), "{error}");
    assert!(error.ends_with(" failed: npm: 127.0.0.1 cannot be reached: it does not answer"), "{error}");
}

#[test]
fn a_task_tells_once_that_a_registry_cannot_be_reached_with_the_way_out() {
    let world = World::new();
    let config = settings(&world, &format!("[registries]\nnpm = '{}'\n", closed()));
    // Asked for three times in the agent's sandbox, and once more in each of those that test.
    let ask = "python3 -c 'import os, urllib.request as r; r.urlopen(os.environ[\"npm_config_registry\"] + \"pear\")' 2>/dev/null";
    let test = format!("{ask}; sh test.sh");
    let replies = json!([{ "shell": format!("{FIX}; {ask}; {ask}; {ask}") }, {}]);
    let script = world.script(&replies);
    let args = ["--config", &config, "run", "Fix it", "--json", "--test", &test, "--model-script"];
    let mut run = world.harvest(&args);
    run.command.arg(script);
    let ran = run.finish();
    let outcome = ran.assert_ended(0, "completed", None);
    let warnings = ran.of_type("warning");
    let told: Vec<&str> = warnings.iter().map(|told| told["message"].as_str().unwrap()).collect();
    let told: Vec<&str> = told.into_iter().filter(|told| told.contains("registry")).collect();
    let expected = "no packages from a registry: npm: 127.0.0.1 cannot be reached: it does not answer; `harvest doctor --reach` \
                    tries all hosts; name a mirror under [registries] in harvest.toml";
    assert_eq!(told, [expected]);
    let logs = world.harvest(&["task", "logs", outcome["task_id"].as_str().unwrap()]).finish().stdout;
    assert!(logs.contains(&format!("warning: {expected}")), "{logs}");
    world.assert_nothing_left();
}

/// npm would wait a minute, and say nothing of where it asked.
#[test]
fn tests_that_ask_a_registry_that_cannot_be_reached_end_with_the_reason() {
    let world = World::new();
    let config = settings(&world, &format!("[registries]\nnpm = '{}'\n", closed()));
    let test = "test $npm_config_fetch_retry_maxtimeout -le 2000 && npx --yes vitest run";
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let args = ["--config", &config, "run", "Fix it", "--json", "--test", test, "--model-script"];
    let mut run = world.harvest(&args);
    run.command.arg(script);
    let ran = run.finish();
    let outcome = ran.assert_ended(1, "failed", Some("tests"));
    assert_eq!(outcome["evidence"]["verdict"], "cannot_run", "{outcome:#}");
    let error = outcome["error"].as_str().unwrap();
    assert!(error.contains("asks the npm registry for `vitest`, which refuses or cannot be reached"), "{error}");
    world.assert_nothing_left();
}

#[test]
fn the_doctor_tries_every_host_that_the_settings_need() {
    let world = World::new();
    let (open, shut) = (answering("404 Not Found"), closed());
    let (host, trace) = (answering("401 Unauthorized"), closed());
    let names = ["pypi", "cargo", "go", "maven", "rubygems", "packagist", "apt"];
    let mirrors: String = names.iter().map(|name| format!("{name} = '{open}'\n")).collect();
    let text = format!(
        "[registries]\nnpm = '{shut}'\nfile_hosts = ['{shut}']\n{mirrors}\n[egress]\nallow = ['host.invalid']\n\n[telemetry]\notlp = '{trace}'\n
[mcp.docs]\nurl = '{open}/mcp'\n[mcp.gone]\nurl = '{shut}/mcp'\n
[mcp.tracker]\ncommand = 'npx'\ncredential = 'tracker'\ncredential_as = 'TRACKER_KEY'\nhosts = ['tracker.invalid', '*.wide.invalid']\n
[project.shop]\nrepositories = ['orchard']\n[project.shop.mcp.stock]\nurl = '{open}/stock'\n"
    );
    let config = settings(&world, &text);
    let origin = world.path().join("origin.git");
    git(world.path(), &["clone", "--bare", "--quiet", &world.repo().display().to_string(), "origin.git"]);
    let source = format!("file://{}", origin.display());
    let added = world.harvest(&["--config", &config, "repo", "add", &source, "--name", "far"]).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    let reached = || {
        world
            .harvest(&["--config", &config, "doctor", "--reach", "--json"])
            .env("ANTHROPIC_API_KEY", "sk-ant-api03-made-up")
            .env("ANTHROPIC_BASE_URL", &host)
            .finish()
    };
    let ran = reached();
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.exit, &report["works"]), (Some(1), &json!(false)), "{ran:?}");
    let item = |name: &str| {
        let items = report["items"].as_array().unwrap();
        let item = items.iter().find(|item| item["name"] == name).unwrap_or_else(|| panic!("no {name}: {report:#}"));
        assert!(item["state"] == "ok" || item["fix"].is_string(), "no way out: {item}");
        (item["state"].as_str().unwrap().to_owned(), item["detail"].as_str().unwrap().to_owned())
    };
    for name in names {
        assert_eq!(item(name), ("ok".into(), "packages from 127.0.0.1".into()), "{name}");
    }
    assert_eq!(item("npm"), ("missing".into(), "127.0.0.1 cannot be reached: it does not answer".into()));
    assert_eq!(item("file host"), ("missing".into(), "127.0.0.1 cannot be reached: it does not answer".into()));
    assert_eq!(item("anthropic"), ("missing".into(), format!("{host} refuses the key")));
    assert_eq!(item("allowed host").0, "missing");
    let (state, detail) = item("traces");
    assert!(state == "missing" && detail.contains("cannot be reached"), "{detail}");
    assert_eq!(item("repository").0, "ok");
    let is_server = |item: &&Value| item["name"] == "MCP server";
    let servers: Vec<&Value> = report["items"].as_array().unwrap().iter().filter(is_server).collect();
    let told =
        |item: &&Value| (item["state"].as_str().unwrap().to_owned(), item["detail"].as_str().unwrap().to_owned());
    let [docs, gone, stock, tracker] = servers.iter().map(told).collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(docs, ("ok".into(), format!("docs at {open}/mcp")));
    assert_eq!(stock, ("ok".into(), format!("stock at {open}/stock")), "of a project");
    assert!(gone.0 == "missing" && gone.1.starts_with("gone: ") && gone.1.contains("cannot be reached"), "{gone:?}");
    assert!(tracker.0 == "missing" && tracker.1.starts_with("tracker: tracker.invalid: "), "{tracker:?}");
    assert!(servers[1]["fix"].as_str().unwrap().ends_with("harvest mcp show gone"), "{:?}", servers[1]);
    fs::remove_dir_all(&origin).unwrap();
    let ran = reached();
    assert!(ran.stdout.contains("git ls-remote"), "{ran:?}");
    world.assert_nothing_left();
}

/// Answers at the root, and hangs up on everyone who asks for the API.
fn without_an_api() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut asked = [0; 4096];
            let length = stream.read(&mut asked).unwrap_or_default();
            if !String::from_utf8_lossy(&asked[..length]).contains("/api/v3") {
                let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        }
    });
    address
}

#[test]
fn the_doctor_tries_the_api_of_github_besides_its_pages() {
    let world = World::new();
    let (hub, mirror) = (without_an_api(), answering("404 Not Found"));
    let names = ["npm", "pypi", "cargo", "go", "maven", "rubygems", "packagist", "apt"];
    let mirrors: String = names.iter().map(|name| format!("{name} = '{mirror}'\n")).collect();
    let text = format!("[registries]\n{mirrors}\n[sign_in]\nclient_id = 'Iv1.0123456789abcdef'\nurl = '{hub}'\n");
    let config = settings(&world, &text);
    let app = harvest_forge::fake::Fake::app(None);
    let add = ["credential", "add", "github", "--base-url", &hub, "--from-stdin"];
    let added = world.harvest(&add).input(harvest_vault::ExposeSecret::expose_secret(&app)).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    let ran = world.harvest(&["--config", &config, "doctor", "--reach", "--json"]).finish();
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ran.exit, Some(1), "{report:#}");
    let state = |name: &str| {
        let item = report["items"].as_array().unwrap().iter().find(|item| item["name"] == name);
        item.unwrap_or_else(|| panic!("no {name}: {report:#}"))["state"].clone()
    };
    let states = ["GitHub", "GitHub API", "sign-in", "sign-in API"].map(state);
    assert_eq!(states, ["ok", "missing", "ok", "missing"]);
}

/// Accepts connections and says nothing.
fn silent() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let kept: Vec<_> = listener.incoming().map_while(Result::ok).collect();
        drop(kept);
    });
    address
}

#[test]
fn the_doctor_tries_all_hosts_at_once_when_none_answers() {
    let world = World::new();
    let host = silent();
    let names = ["npm", "pypi", "cargo", "go", "maven", "rubygems", "packagist", "apt"];
    let mirrors: String = names.iter().map(|name| format!("{name} = '{host}'\n")).collect();
    let text = format!(
        "[registries]\n{mirrors}\n[sign_in]\nclient_id = 'Iv1.0123456789abcdef'\nurl = '{host}'\n
[telemetry]\notlp = '{host}'\n[mcp.docs]\nurl = '{host}/mcp'\n"
    );
    let config = settings(&world, &text);
    let origin = world.path().join("origin.git");
    git(world.path(), &["clone", "--bare", "--quiet", &world.repo().display().to_string(), "origin.git"]);
    let far = format!("file://{}", origin.display());
    let added = world.harvest(&["repo", "add", &far, "--name", "far"]).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    // As git knows it, the repository has moved to the host that says nothing.
    fs::write(world.home().join(".gitconfig"), format!("[url \"{host}/far\"]\n\tinsteadOf = {far}\n")).unwrap();
    let app = harvest_forge::fake::Fake::app(None);
    let add = ["credential", "add", "github", "--base-url", &host, "--from-stdin"];
    let added = world.harvest(&add).input(harvest_vault::ExposeSecret::expose_secret(&app)).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    let begun = Instant::now();
    let ran = world
        .harvest(&["--config", &config, "doctor", "--reach", "--json"])
        .env("ANTHROPIC_API_KEY", "sk-ant-api03-made-up")
        .env("ANTHROPIC_BASE_URL", &host)
        .finish();
    let took = begun.elapsed();
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let state = |name: &str| {
        let item = report["items"].as_array().unwrap().iter().find(|item| item["name"] == name);
        item.unwrap_or_else(|| panic!("no {name}: {report:#}"))["state"].clone()
    };
    for name in ["npm", "anthropic", "GitHub", "GitHub API", "repository", "MCP server", "traces", "sign-in"] {
        assert_eq!(state(name), "missing", "{name}: {report:#}");
    }
    // One after the other they would take three minutes.
    assert!(took < Duration::from_secs(60), "{took:?}");
    world.assert_nothing_left();
}

#[test]
fn settings_of_package_managers_are_named_and_taken_over_after_asking() {
    let world = with_a_dependency();
    let mirror = closed();
    fs::write(world.home().join(".npmrc"), format!("registry={mirror}/\n//127.0.0.1/:_authToken=abc\n")).unwrap();
    // As for npm itself, a variable goes before the file.
    let other = world.harvest(&["repo", "add", "."]).env("npm_config_registry", "https://npm.example.com").finish();
    let said = "as the variable npm_config_registry says, write under [registries] in harvest.toml: npm = \"https://npm.example.com\"";
    assert!(other.stderr.contains(said), "{other:?}");
    let added = world.harvest(&["repo", "add", "."]).current_dir(&world.repo()).finish();
    let line = format!("npm = \"{mirror}\"");
    assert!(added.stderr.contains(&line) && added.stderr.contains(".npmrc"), "{added:?}");
    let file = world.home().join(".config/harvest/harvest.toml");
    assert!(!file.exists());

    let answers = [
        ("Which model provider?", "\n"),
        ("is not shown, and Enter skips", "\n"),
        ("Install dependencies", "y\n"),
        ("Let sandboxes get packages the same way?", "y\n"),
        ("Test command that verifies results", "\n"),
        ("First task", "\n"),
    ];
    let variables = [("PIP_CONFIG_FILE", "/dev/null"), ("PIP_INDEX_URL", "https://pypi.example.com/simple")];
    let (shown, _) = at_a_terminal(&world, &variables, &["init", "--skip-test-run"], &answers);
    assert!(shown.contains(&format!("{}/.npmrc has {line}", world.home().display())), "{shown}");
    let pypi = "pypi = \"https://pypi.example.com/simple\"";
    assert!(shown.contains(&format!("the variable PIP_INDEX_URL has {pypi}")), "{shown}");
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("[registries]\n{pypi}\n{line}\n"), "{shown}");
    assert!(shown.contains("npm: 127.0.0.1 cannot be reached: it does not answer"), "{shown}");
    world.assert_nothing_left();
}
