//! Real package managers against the real registries, through the gateway as a sandbox reaches it: a loopback port that
//! leads to the session's socket, and the environment that sandboxes get. Each installs twice, the second time into an
//! empty home with every registry cut off.
//!
//! They need the network, so they are ignored unless asked for; `make test` asks when it is there. A machine whose own
//! package managers use mirrors has those as upstreams here.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use harvest_core::{Clock, Timestamp};
use harvest_gateway::egress::{Access, Network, Resolver, SystemResolver};
use harvest_gateway::registry::{self, Ecosystem, environment};
use harvest_gateway::{Gateway, Options};
use tokio::process::Command;

use crate::support::{Served, loopback, serve_with};

const LIMIT: Duration = Duration::from_secs(300);

#[derive(Debug)]
struct System;

impl Clock for System {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

#[derive(Debug)]
struct Nowhere;

#[async_trait]
impl Resolver for Nowhere {
    async fn resolve(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::ErrorKind::NotConnected.into())
    }
}

/// A gateway at a loopback port, and a home folder for its clients.
struct Inside {
    base: String,
    home: tempfile::TempDir,
    _served: Served,
}

async fn inside(cache: &Path, mirrors: &BTreeMap<Ecosystem, String>, resolver: Arc<dyn Resolver>) -> Inside {
    let registries = registry::Options {
        folder: cache.to_owned(),
        max_bytes: 1 << 30,
        mirrors: mirrors.clone(),
        file_hosts: Vec::new(),
        proxy: None,
        ca_file: None,
        clock: Arc::new(System),
    };
    // Where these tests run, the names of public registries may well lead to a mirror inside.
    let network = Network { resolver, check: |_| None };
    let gateway = Gateway::new(Options { registries: Some(registries), network, ..Options::default() }).unwrap();
    let served = serve_with(&gateway, None, Access::none());
    let base = loopback(&served).await;
    Inside { base, home: tempfile::tempdir().unwrap(), _served: served }
}

#[expect(clippy::disallowed_methods, reason = "these tests are about other people's programs")]
fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env_clear().stdin(Stdio::null()).kill_on_drop(true);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// A program as the person who runs the tests has it, to ask for its settings.
async fn setting(name: &str, args: &[&str]) -> Option<String> {
    let mut command = program(name);
    for variable in ["HOME", "PYENV_ROOT", "RUSTUP_HOME", "CARGO_HOME"] {
        command.envs(std::env::var_os(variable).map(|value| (variable, value)));
    }
    let output = command.args(args).output().await.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

async fn mirror(ecosystem: Ecosystem) -> BTreeMap<Ecosystem, String> {
    let found = match ecosystem {
        Ecosystem::Npm => setting("npm", &["config", "get", "registry"]).await,
        Ecosystem::Pypi => setting("pip", &["config", "get", "global.index-url"]).await,
        _ => None,
    };
    let own = found.map(|url| url.trim_end_matches('/').to_owned()).filter(|url| url != ecosystem.public());
    own.filter(|url| url.starts_with("http")).map(|url| (ecosystem, url)).into_iter().collect()
}

impl Inside {
    async fn run(&self, folder: &Path, name: &str, args: &[&str]) -> Output {
        let home = self.home.path();
        let environment = environment(&self.base, home);
        for (path, content) in &environment.files {
            let path = home.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let mut command = program(name);
        // Toolchains in a person's home are shown to sandboxes as well.
        for (variable, folder) in [("RUSTUP_HOME", ".rustup"), ("PYENV_ROOT", ".pyenv")] {
            let real = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(folder));
            command.env(variable, std::env::var_os(variable).map(PathBuf::from).or(real).unwrap_or_default());
        }
        let run = command.envs(environment.env).env("HOME", home).current_dir(folder).args(args).output();
        tokio::time::timeout(LIMIT, run).await.expect("it took too long").unwrap()
    }

    async fn succeed(&self, folder: &Path, name: &str, args: &[&str]) {
        let output = self.run(folder, name, args).await;
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{name} {args:?}: {}", String::from_utf8_lossy(&said));
    }
}

/// Installs twice: from the registry, and then, in another home, from the cache alone.
async fn twice(ecosystem: Ecosystem, install: impl AsyncFn(&Inside, &Path)) {
    let (cache, mirrors) = (tempfile::tempdir().unwrap(), mirror(ecosystem).await);
    for resolver in [Arc::new(SystemResolver) as Arc<dyn Resolver>, Arc::new(Nowhere)] {
        let folder = tempfile::tempdir().unwrap();
        install(&inside(cache.path(), &mirrors, resolver).await, folder.path()).await;
    }
    // Without the cache the cut is real.
    let (empty, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cut = inside(empty.path(), &mirrors, Arc::new(Nowhere)).await;
    let failing =
        tokio::spawn(async move { cut.run(folder.path(), "npm", &["view", "left-pad", "--fetch-retries=0"]).await });
    assert!(!failing.await.unwrap().status.success());
}

const PACKAGE: &str =
    r#"{ "name": "orchard", "version": "1.0.0", "dependencies": { "chalk": "4.1.2", "@types/node": "20.0.0" } }"#;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the network"]
async fn npm_installs_and_its_lockfile_names_the_public_registry() {
    twice(Ecosystem::Npm, async |inside, folder| {
        std::fs::write(folder.join("package.json"), PACKAGE).unwrap();
        inside.succeed(folder, "npm", &["install"]).await;
        assert!(folder.join("node_modules/chalk/package.json").exists());
        assert!(folder.join("node_modules/@types/node/package.json").exists());
        let lock = std::fs::read_to_string(folder.join("package-lock.json")).unwrap();
        assert!(lock.contains("\"https://registry.npmjs.org/chalk/-/chalk-4.1.2.tgz\""), "{lock}");
        assert!(!lock.contains("127.0.0.1"), "{lock}");
        // A lockfile with addresses of the public registry is installed from the gateway as well.
        std::fs::remove_dir_all(folder.join("node_modules")).unwrap();
        std::fs::remove_dir_all(inside.home.path().join(".npm")).unwrap();
        inside.succeed(folder, "npm", &["ci"]).await;
        assert!(folder.join("node_modules/chalk/package.json").exists());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the network"]
async fn pnpm_installs() {
    twice(Ecosystem::Npm, async |inside, folder| {
        std::fs::write(folder.join("package.json"), PACKAGE).unwrap();
        inside.succeed(folder, "npx", &["--yes", "pnpm@9.15.0", "install"]).await;
        assert!(folder.join("node_modules/chalk/package.json").exists());
        let lock = std::fs::read_to_string(folder.join("pnpm-lock.yaml")).unwrap();
        assert!(lock.contains("chalk@4.1.2") && !lock.contains("127.0.0.1"), "{lock}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the network"]
async fn pip_installs() {
    twice(Ecosystem::Pypi, async |inside, folder| {
        inside.succeed(folder, "python3", &["-m", "venv", "env"]).await;
        let pip = folder.join("env/bin/pip");
        inside.succeed(folder, pip.to_str().unwrap(), &["install", "requests==2.32.3", "six==1.16.0"]).await;
        inside.succeed(folder, folder.join("env/bin/python").to_str().unwrap(), &["-c", "import requests, six"]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the network"]
async fn uv_installs() {
    twice(Ecosystem::Pypi, async |inside, folder| {
        inside.succeed(folder, "python3", &["-m", "venv", "tools"]).await;
        inside.succeed(folder, folder.join("tools/bin/pip").to_str().unwrap(), &["install", "uv==0.5.9"]).await;
        let uv = folder.join("tools/bin/uv");
        let uv = uv.to_str().unwrap();
        inside.succeed(folder, uv, &["venv", "env"]).await;
        inside.succeed(folder, uv, &["pip", "install", "--python", "env/bin/python", "requests==2.32.3"]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the network"]
async fn cargo_fetches_and_builds() {
    twice(Ecosystem::Cargo, async |inside, folder| {
        let manifest = "[package]\nname = \"orchard\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\nitoa = \"=1.0.11\"\n";
        std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        std::fs::create_dir(folder.join("src")).unwrap();
        std::fs::write(folder.join("src/lib.rs"), "pub use itoa::Buffer;\n").unwrap();
        inside.succeed(folder, "cargo", &["check"]).await;
        let lock = std::fs::read_to_string(folder.join("Cargo.lock")).unwrap();
        assert!(lock.contains("registry+https://github.com/rust-lang/crates.io-index"), "{lock}");
    })
    .await;
}
