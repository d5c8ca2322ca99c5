//! Repositories, and a GitHub of one's own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use harvest_core::{Clock, Timestamp};
use harvest_forge::fake::{Fake, Options};
use harvest_forge::github::{Account, Client, Host};
use harvest_forge::{ClosedFolders, Forge, Forges};
use harvest_workspace::{Git, Home};
use secrecy::SecretString;
use serde_json::Value;
use tempfile::TempDir;

#[derive(Debug)]
pub struct Now;

impl Clock for Now {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

pub fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(folder)
        .env_clear()
        .envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/nonexistent"), ("GIT_CONFIG_GLOBAL", "/dev/null")])
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=main"])
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A repository with one commit.
pub fn sample(folder: &Path) -> String {
    std::fs::create_dir_all(folder).unwrap();
    git(folder, &["init", "--quiet"]);
    std::fs::write(folder.join("README.md"), "# Shop\n").unwrap();
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "--quiet", "--message", "Start"]);
    git(folder, &["rev-parse", "HEAD"])
}

/// A GitHub with `ada/shop` in it.
pub struct World {
    pub folder: TempDir,
    pub fake: Fake,
    pub base: String,
}

impl World {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = sample(&folder.path().join("shop"));
        let fake = Self::start_in(&folder.path().join("hub")).await;
        fake.add_repository("ada/shop", Some(&folder.path().join("shop"))).await.unwrap();
        Self { folder, fake, base }
    }

    pub async fn start_in(folder: &Path) -> Fake {
        let listen = "127.0.0.1:0".parse().unwrap();
        let options = Options { listen, folder: folder.to_owned(), hook: None, clock: Arc::new(Now), notices: None };
        Fake::start(options).await.unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// As the App, or with a token.
    pub fn forges(&self, secret: &SecretString) -> Forges {
        let host = Host::new(Some(self.fake.url())).unwrap();
        let client = Client::new(host, Account::parse(secret).unwrap(), Arc::new(Now));
        Forges::new(Git::new(Home::Nobody), Arc::new(Some(Arc::new(client))), ClosedFolders::default())
    }

    pub async fn as_app(&self) -> Box<dyn Forge> {
        self.forges(&Fake::app(None)).open("github:ada/shop").await.unwrap()
    }

    pub async fn with_token(&self) -> Box<dyn Forge> {
        let token = SecretString::from("token-ada".to_owned());
        self.forges(&token).open(&format!("{}/ada/shop.git", self.fake.url())).await.unwrap()
    }

    /// A session's repository with one commit more.
    pub fn work(&self, name: &str, content: &str) -> (PathBuf, String) {
        let path = self.path(name);
        git(self.folder.path(), &["clone", "--quiet", "shop", name]);
        std::fs::write(path.join("README.md"), content).unwrap();
        git(&path, &["commit", "--quiet", "--all", "--message", content]);
        let commit = git(&path, &["rev-parse", "HEAD"]);
        (path.join(".git"), commit)
    }

    /// Ada does something by the API, as people's tools do.
    pub async fn ada(&self, method: &str, path: &str, body: Value) -> Value {
        person(self.fake.url(), "ada", method, path, body).await
    }

    pub fn calls(&self, method: &str, path: &str) -> usize {
        self.fake.exchanges().iter().filter(|call| call.method == method && call.path == path).count()
    }
}

pub async fn person(url: &str, login: &str, method: &str, path: &str, body: Value) -> Value {
    let (host, body) = (url.strip_prefix("http://").unwrap().to_owned(), body.to_string());
    let request = format!(
        "{method} /api/v3{path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer token-{login}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let answer = tokio::task::spawn_blocking(move || {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(host).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let answer = answer.await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 2"), "{head}\n{body}");
    serde_json::from_str(body).unwrap_or(Value::Null)
}
