//! `harvest repo build` on small projects whose dependencies come from their registries through the gateway's caches; a
//! session on each with the network cut off; and a second build from nothing but the cache.
//!
//! They need the network, so they are ignored unless asked for; what they fetch with are the settings of whoever runs them.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Ran, World, uid};

const PACKAGE: &str = r#"{"name":"orchard","version":"1.0.0","dependencies":{"left-pad":"1.3.0"}}"#;
const PNPM_PACKAGE: &str =
    r#"{"name":"orchard","version":"1.0.0","packageManager":"pnpm@9.15.0","dependencies":{"left-pad":"1.3.0"}}"#;
const INTEGRITY: &str =
    "sha512-XI5MPzVNApjAyhQzphX8BkmKsKUxD4LdyK24iZeQGinBN9yTQT3bFlCBy/aVx2HrNcqQGsdot8ghrjyrvMCoEA==";
const PNPM_LOCK: &str = "lockfileVersion: '9.0'

importers:

  .:
    dependencies:
      left-pad:
        specifier: 1.3.0
        version: 1.3.0

packages:

  left-pad@1.3.0:
    resolution: {integrity: INTEGRITY}

snapshots:

  left-pad@1.3.0: {}
";
const UV_PROJECT: &str = "[project]
name = 'orchard'
version = '0.1.0'
requires-python = '>=3.8'
dependencies = ['six==1.16.0']
";
const UV_LOCK: &str = r#"version = 1
requires-python = ">=3.8"

[[package]]
name = "orchard"
version = "0.1.0"
source = { virtual = "." }
dependencies = [{ name = "six" }]

[package.metadata]
requires-dist = [{ name = "six", specifier = "==1.16.0" }]

[[package]]
name = "six"
version = "1.16.0"
source = { registry = "https://pypi.org/simple" }
wheels = [
    { url = "https://files.pythonhosted.org/packages/d9/5a/e7c31adbe875f2abbb91bd84cf2dc52d792b5a01506781dbcf25c91daf11/six-1.16.0-py2.py3-none-any.whl", hash = "sha256:8abb2f1d86890a2dfb989f9a77cfcfd3e47c2a354b01111771326f8aa26e0254", size = 11053 },
]
"#;
const CARGO: &str = "[package]
name = \"orchard\"
version = \"0.1.0\"
edition = \"2021\"

[dependencies]
itoa = \"=1.0.11\"
";
const CARGO_LOCK: &str = r#"version = 4

[[package]]
name = "itoa"
version = "1.0.11"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "49f1f14873335454500d59611f1cf4a4b0f786f9ac11f4312a78e4cf2566695b"

[[package]]
name = "orchard"
version = "0.1.0"
dependencies = [
 "itoa",
]
"#;

/// The person's own home, where toolchains are.
pub fn home() -> OsString {
    std::env::var_os("HOME").unwrap()
}

/// Where the person who runs the tests has their toolchains, when not in the home.
pub fn toolchains() -> impl Iterator<Item = (&'static str, OsString)> {
    ["CARGO_HOME", "RUSTUP_HOME"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)))
}

/// A mirror like those that operators have, at a private address: fetches from the public registries with whatever settings
/// the person who runs the tests has, and has everything come from itself.
const MIRROR: &str = r#"
import http.server, json, re, urllib.parse, urllib.request

class Mirror(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        base = 'http://127.0.0.1:%d' % self.server.server_port
        link = lambda page, to: base + '/at/' + urllib.parse.urljoin(page, to).split('://', 1)[1]
        get = lambda url: urllib.request.urlopen(url, timeout=60).read()
        index, kind = 'https://index.crates.io', 'application/octet-stream'
        try:
            if self.path.startswith('/simple/'):
                page, kind = 'https://pypi.org' + self.path, 'text/html'
                body = re.sub(r'href="([^"]*)"', lambda found: 'href="%s"' % link(page, found[1]), get(page).decode()).encode()
            elif self.path == '/index/config.json':
                body = json.dumps({'dl': base + '/crates'}).encode()
            elif self.path.startswith('/index/'):
                body = get(index + self.path[len('/index'):])
            elif self.path.startswith('/crates/'):
                body = get(json.loads(get(index + '/config.json'))['dl'] + self.path[len('/crates'):])
            else:
                body = get('https://' + self.path[len('/at/'):])
        except urllib.error.HTTPError as error:
            self.send_error(error.code)
            return
        self.send_response(200)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        if self.command == 'GET':
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Mirror)
print(server.server_port, flush=True)
server.serve_forever()
"#;

pub struct Mirror(Child);

impl Drop for Mirror {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The settings that name the mirror; for npm the person's own.
pub fn settings(world: &World) -> (Mirror, String) {
    let mut mirror = Command::new("python3").args(["-c", MIRROR]).stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    BufReader::new(mirror.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let base = format!("http://127.0.0.1:{}", port.trim());
    let asked = Command::new("npm").args(["config", "get", "registry"]).output().unwrap();
    let npm = String::from_utf8_lossy(&asked.stdout).trim().trim_end_matches('/').to_owned();
    let npm = if npm.starts_with("http") { npm } else { "https://registry.npmjs.org".to_owned() };
    let path = world.path().join("settings.toml");
    let text = format!("[registries]\nnpm = '{npm}'\npypi = '{base}/simple'\ncargo = '{base}/index'\n");
    fs::write(&path, text).unwrap();
    (Mirror(mirror), path.display().to_string())
}

/// `harvest` where there is no network but what sockets of files lead to.
fn cut_off(world: &World, args: &[&str]) -> Ran {
    let inner = world.harvest(args).command;
    let mut outer = world.harvest(&[] as &[&str]);
    outer.command = Command::new("unshare");
    outer.command.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer.command.env("HOME", home()).envs(toolchains()).current_dir(world.repo()).arg("--net");
    if uid() != 0 {
        outer.command.arg("--map-current-user");
    }
    outer.command.arg(inner.get_program()).args(inner.get_args());
    outer.finish()
}

#[track_caller]
fn report(ran: &Ran) -> Value {
    let last = ran.stdout.lines().last().unwrap_or_else(|| panic!("{ran:?}"));
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// Builds, looks with the network cut off, builds again from the cache alone, and looks again.
#[track_caller]
fn prepared(files: &[(&str, &str)], look: &str, expected: &str) {
    let world = World::empty();
    crate::support::init(&world.repo());
    for (name, text) in files {
        world.write(name, text);
    }
    world.commit("Start");
    let (_mirror, config) = settings(&world);
    let added = world.harvest(&["repo", "add", ".", "--name", "repo"]).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    let build = ["repo", "build", "repo", "--json", "--force", "--config", &config];
    let mut first = world.harvest(&build);
    first.command.env("HOME", home()).envs(toolchains());
    let first = first.finish();
    assert_eq!(report(&first)["status"], "built", "{}\n{}", first.stdout, first.stderr);
    let script = world.script(&json!([{ "shell": look }, {}])).display().to_string();
    let run = ["run", "Look", "--json", "--test", "true", "--model-script", &script, "--config", &config];
    let session = || {
        let ran = cut_off(&world, &run);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        let said = ran.tool_outputs()[0].clone();
        assert!(said.contains(expected) && said.ends_with("clean\nexit code 0"), "{said}");
    };
    session();
    let again = cut_off(&world, &build);
    let told = report(&again);
    assert_eq!((&told["status"], &told["reused"]), (&json!("built"), &json!(false)), "{}", again.stdout);
    session();
    world.assert_nothing_left();
}

const CLEAN: &str = "; [ -z \"$(git status --porcelain)\" ] && echo clean";

#[test]
#[ignore = "needs the network"]
fn npm() {
    let lock = json!({
        "name": "orchard", "version": "1.0.0", "lockfileVersion": 3, "requires": true,
        "packages": {
            "": { "name": "orchard", "version": "1.0.0", "dependencies": { "left-pad": "1.3.0" } },
            "node_modules/left-pad": {
                "version": "1.3.0",
                "resolved": "https://registry.npmjs.org/left-pad/-/left-pad-1.3.0.tgz",
                "integrity": INTEGRITY,
            },
        },
    });
    let files = [("package.json", PACKAGE), ("package-lock.json", &lock.to_string())];
    prepared(&files, &format!("node -p 'require(\"left-pad\")(\"pear\", 6)'{CLEAN}"), "  pear");
}

#[test]
#[ignore = "needs the network"]
fn pnpm() {
    let files = [("package.json", PNPM_PACKAGE), ("pnpm-lock.yaml", &PNPM_LOCK.replace("INTEGRITY", INTEGRITY))];
    let look = format!("pnpm --version; node -p 'require(\"left-pad\")(\"pear\", 6)'{CLEAN}");
    prepared(&files, &look, "9.15.0\n  pear");
}

#[test]
#[ignore = "needs the network"]
fn pip() {
    let look = format!("python3 -c 'import six; print(six.__version__)'{CLEAN}");
    prepared(&[("requirements.txt", "six==1.16.0\n")], &look, "1.16.0");
}

#[test]
#[ignore = "needs the network"]
fn uv() {
    let look = format!("python3 -c 'import six; print(six.__version__)'{CLEAN}");
    prepared(&[("pyproject.toml", UV_PROJECT), ("uv.lock", UV_LOCK)], &look, "1.16.0");
}

#[test]
#[ignore = "needs the network"]
fn cargo() {
    let test = "#[test] fn ten() { assert_eq!(itoa::Buffer::new().format(10), \"10\"); }\n";
    let files = [("Cargo.toml", CARGO), ("Cargo.lock", CARGO_LOCK), ("src/lib.rs", test), (".gitignore", "target\n")];
    prepared(&files, &format!("cargo test --offline --locked 2>&1 | grep 'test result' | head -1{CLEAN}"), "1 passed");
}
