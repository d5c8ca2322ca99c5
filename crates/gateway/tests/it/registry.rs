//! The registry caches in front of fake registries that speak the real protocols.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use base64::Engine;
use bytes::Bytes;
use harvest_core::{Clock, Timestamp};
use harvest_gateway::egress::Access;
use harvest_gateway::registry::{self, Ecosystem};
use harvest_gateway::{Gateway, Options};
use http_body_util::{BodyExt, Full};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use sha1::Digest;
use tokio::sync::{Notify, mpsc};

use crate::support::{Served, serve_with, until_cut, upstream};

#[derive(Debug, Default)]
pub struct Hand(AtomicI64);

impl Hand {
    fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + self.0.load(Ordering::Relaxed)).unwrap()
    }
}

/// A registry made of a table; what it was asked is kept. It can break down.
#[derive(Clone)]
pub struct Fake {
    pub address: String,
    pages: Arc<Mutex<HashMap<String, Page>>>,
    broken: Arc<AtomicBool>,
    asked: Arc<Mutex<mpsc::UnboundedReceiver<(Parts, Bytes)>>>,
}

#[derive(Clone, Default)]
struct Page {
    body: Vec<u8>,
    headers: Vec<(&'static str, String)>,
    status: Option<u16>,
}

impl Fake {
    pub async fn start() -> Self {
        let pages: Arc<Mutex<HashMap<String, Page>>> = Arc::default();
        let broken = Arc::new(AtomicBool::new(false));
        let (table, down) = (pages.clone(), broken.clone());
        let answer = move |head: &Parts| {
            let page = table.lock().unwrap().get(head.uri.path()).cloned();
            let Some(page) = page.filter(|_| !down.load(Ordering::Relaxed)) else {
                let status = if down.load(Ordering::Relaxed) { 503 } else { 404 };
                return Response::builder().status(status).body(Body::empty()).unwrap();
            };
            let etag = page.headers.iter().find(|(name, _)| *name == "etag").map(|(_, etag)| etag.as_str());
            let known = head.headers.get("if-none-match").and_then(|known| known.to_str().ok());
            if etag.is_some() && etag == known {
                return Response::builder().status(304).body(Body::empty()).unwrap();
            }
            let mut response = Response::builder().status(page.status.unwrap_or(200));
            for (name, value) in page.headers {
                response = response.header(name, value);
            }
            response.body(Body::from(page.body)).unwrap()
        };
        let (address, asked) = upstream(answer).await;
        Self { address, pages, broken, asked: Arc::new(Mutex::new(asked)) }
    }

    pub fn page(&self, path: &str, body: impl Into<Vec<u8>>) {
        self.put(path, Page { body: body.into(), ..Page::default() });
    }

    fn put(&self, path: &str, page: Page) {
        self.pages.lock().unwrap().insert(path.to_owned(), page);
    }

    fn break_down(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// What was asked since the last time.
    pub fn asked(&self) -> Vec<Parts> {
        let mut asked = self.asked.lock().unwrap();
        std::iter::from_fn(|| asked.try_recv().ok()).map(|(head, _)| head).collect()
    }

    fn paths(&self) -> Vec<String> {
        self.asked().iter().map(|head| head.uri.path().to_owned()).collect()
    }
}

fn gateway(folder: &Path, clock: &Arc<Hand>, mirrors: &[(Ecosystem, &str)]) -> Gateway {
    let mirrors = mirrors.iter().map(|(ecosystem, url)| (*ecosystem, (*url).to_owned())).collect();
    let registries = registry::Options {
        folder: folder.to_owned(),
        max_bytes: 1 << 30,
        mirrors,
        file_hosts: Vec::new(),
        proxy: None,
        ca_file: None,
        clock: clock.clone(),
    };
    Gateway::new(Options { registries: Some(registries), ..Options::default() }).unwrap()
}

struct World {
    fake: Fake,
    clock: Arc<Hand>,
    folder: tempfile::TempDir,
    served: Served,
    ecosystem: Ecosystem,
}

impl World {
    async fn new(ecosystem: Ecosystem) -> Self {
        let (fake, clock, folder) = (Fake::start().await, Arc::new(Hand::default()), tempfile::tempdir().unwrap());
        let served = serve_with(&gateway(folder.path(), &clock, &[(ecosystem, &fake.address)]), None, Access::none());
        Self { fake, clock, folder, served, ecosystem }
    }

    /// Another process on the same cache, for another session.
    fn another(&self) -> Served {
        let mirror = [(self.ecosystem, self.fake.address.as_str())];
        serve_with(&gateway(self.folder.path(), &self.clock, &mirror), None, Access::none())
    }

    async fn get(&self, path: &str) -> (StatusCode, Bytes) {
        get(&self.served, path).await
    }
}

#[tokio::test]
async fn a_session_whose_registries_are_closed_has_none() {
    let world = World::new(Ecosystem::Npm).await;
    world.fake.page("/left-pad", json!({ "name": "left-pad", "versions": {} }).to_string());
    let mirror = [(Ecosystem::Npm, world.fake.address.as_str())];
    let closed = Access { registries: false, ..Access::none() };
    let closed = serve_with(&gateway(world.folder.path(), &world.clock, &mirror), None, closed);
    assert_eq!(get(&closed, "/registry/npm/left-pad").await.0, StatusCode::NOT_FOUND);
    assert_eq!(world.fake.paths(), Vec::<String>::new(), "nothing has left");
    assert_eq!(world.get("/registry/npm/left-pad").await.0, StatusCode::OK);
}

fn request(method: Method, path: &str) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1:4321")
        .header("authorization", "Bearer secret")
        .header("cookie", "a=b")
        .body(Full::default())
        .unwrap()
}

pub async fn get(served: &Served, path: &str) -> (StatusCode, Bytes) {
    let response = served.send(request(Method::GET, path)).await;
    let status = response.status();
    (status, response.into_body().collect().await.unwrap().to_bytes())
}

async fn ask_as(served: &Served, path: &str, headers: &[(&'static str, &str)]) -> Response<hyper::body::Incoming> {
    let mut asked = request(Method::GET, path);
    for (name, value) in headers {
        asked.headers_mut().insert(*name, value.parse().unwrap());
    }
    served.send(asked).await
}

fn sha1_hex(bytes: &[u8]) -> String {
    sha1::Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256_hex(bytes: &[u8]) -> String {
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn integrity(bytes: &[u8]) -> String {
    format!("sha512-{}", base64::engine::general_purpose::STANDARD.encode(sha2::Sha512::digest(bytes)))
}

/// A package of one version with one tarball, which announces `announced` and holds `content`.
pub fn publish(fake: &Fake, name: &str, content: &[u8], announced: &[u8]) {
    let file = format!("/{name}/-/{name}-1.0.0.tgz");
    lead_to(fake, name, &format!("{}{file}", fake.address), announced);
    fake.page(&file, content);
}

/// The metadata of such a package, whose tarball may be elsewhere.
pub fn lead_to(fake: &Fake, name: &str, tarball: &str, announced: &[u8]) {
    let version =
        json!({ "name": name, "version": "1.0.0", "dist": { "tarball": tarball, "integrity": integrity(announced) } });
    let document = json!({ "name": name, "dist-tags": { "latest": "1.0.0" }, "versions": { "1.0.0": version } });
    fake.page(&format!("/{name}"), document.to_string());
}

pub const TARBALL: &str = "/registry/npm/a/-/a-1.0.0.tgz";

#[tokio::test]
async fn npm_packages_come_through_the_cache_and_without_the_registry() {
    let world = World::new(Ecosystem::Npm).await;
    let content = vec![7; 3_000_000];
    publish(&world.fake, "a", &content, &content);
    let (_, document) = world.get("/registry/npm/a").await;
    let document: Value = serde_json::from_slice(&document).unwrap();
    let tarball = &document["versions"]["1.0.0"]["dist"]["tarball"];
    assert_eq!(*tarball, format!("http://127.0.0.1:4321{TARBALL}"));
    let agent = [("user-agent", "npm/11.0.0 node/v20")];
    let for_npm =
        ask_as(&world.served, "/registry/npm/a", &agent).await.into_body().collect().await.unwrap().to_bytes();
    let for_npm: Value = serde_json::from_slice(&for_npm).unwrap();
    assert_eq!(for_npm["versions"]["1.0.0"]["dist"]["tarball"], "https://registry.npmjs.org/a/-/a-1.0.0.tgz");
    assert_eq!(world.get(TARBALL).await, (StatusCode::OK, content.clone().into()));
    let asked = world.fake.asked();
    assert!(
        asked.iter().all(|head| !head.headers.contains_key("authorization") && !head.headers.contains_key("cookie"))
    );
    assert_eq!(asked.iter().filter(|head| head.uri.path().ends_with(".tgz")).count(), 1);

    world.fake.break_down();
    world.clock.advance(1_000_000);
    let other = world.another();
    assert_eq!(get(&other, "/registry/npm/a").await.0, StatusCode::OK);
    // Where npm looks for a tarball that its lockfile has at the public registry.
    for path in [TARBALL, "/a/-/a-1.0.0.tgz"] {
        assert_eq!(get(&other, path).await, (StatusCode::OK, content.clone().into()), "{path}");
    }
    assert!(world.fake.paths().iter().all(|path| path == "/a"), "only the document was asked about again");
    assert_eq!(get(&other, "/registry/npm/b").await.0, StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn a_file_that_is_not_what_was_announced_is_cut_and_not_kept() {
    let world = World::new(Ecosystem::Npm).await;
    let forged = vec![7; 3_000_000];
    publish(&world.fake, "a", &forged, b"something else");
    let (seen, complete) = until_cut(world.served.send(request(Method::GET, TARBALL)).await).await;
    assert!(!complete && seen.len() < forged.len(), "{} {complete}", seen.len());
    // A small one must not get out at all.
    publish(&world.fake, "b", b"small and wrong", b"something else");
    let (status, said) = world.get("/registry/npm/b/-/b-1.0.0.tgz").await;
    assert_eq!(
        (status, said),
        (StatusCode::BAD_GATEWAY, "npm: the file does not match the digest of its registry\n".into())
    );
    world.fake.asked();
    let (_, complete) = until_cut(world.another().send(request(Method::GET, TARBALL)).await).await;
    assert!(!complete);
    assert_eq!(world.fake.paths(), ["/a/-/a-1.0.0.tgz"], "it had to be fetched again");
    let left = std::fs::read_dir(world.folder.path().join("parts")).unwrap().count();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn nothing_can_be_published_and_nothing_else_be_asked_for() {
    let world = World::new(Ecosystem::Npm).await;
    for method in [Method::PUT, Method::POST, Method::DELETE, Method::PATCH, Method::OPTIONS] {
        let response = world.served.send(request(method.clone(), "/registry/npm/a")).await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{method}");
    }
    for path in [
        "/registry/npm/..",
        "/registry/npm/a/../../secret",
        "/registry/npm/%2e%2e/secret",
        "/registry/npm/a%2f..%2f..%2fsecret",
        "/registry/npm/a//b",
        "/registry/npm/-/user/token",
        "/registry/npm/a?write=true",
        "/registry/maven/../npm/a",
        "/registry/other/a",
    ] {
        assert_eq!(world.get(path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    assert!(world.fake.asked().is_empty());
    let world = World::new(Ecosystem::Go).await;
    for path in ["a//b", "a/%2e%2e/b", "a%5c..%5cb", "a%00b", "a/../../b", "..%2fb"] {
        assert_eq!(world.get(&format!("/registry/go/{path}")).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    assert!(world.fake.asked().is_empty());
}

#[tokio::test]
async fn registries_lead_only_to_their_own_hosts() {
    let world = World::new(Ecosystem::Npm).await;
    let elsewhere = Fake::start().await;
    elsewhere.page("/a", "{}");
    elsewhere.page("/a/-/a-1.0.0.tgz", "x");
    for to in [
        format!("{}/a", elsewhere.address),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        let redirect = Page { status: Some(302), headers: vec![("location", to.clone())], ..Page::default() };
        world.fake.put("/a", redirect);
        assert_eq!(world.get("/registry/npm/a").await.0, StatusCode::BAD_GATEWAY, "{to}");
    }
    let tarball = format!("{}/a/-/a-1.0.0.tgz", elsewhere.address);
    let dist = json!({ "tarball": tarball, "integrity": integrity(b"x") });
    world.fake.page("/a", json!({ "name": "a", "versions": { "1.0.0": { "dist": dist } } }).to_string());
    assert_eq!(world.get(TARBALL).await.0, StatusCode::BAD_GATEWAY);
    assert!(elsewhere.asked().is_empty());
    // Within the registry they are followed.
    world.fake.put("/b", Page { status: Some(302), headers: vec![("location", "/a".to_owned())], ..Page::default() });
    assert_eq!(world.get("/registry/npm/b").await.0, StatusCode::OK);
}

#[tokio::test]
async fn what_one_registry_said_is_not_served_for_another() {
    let world = World::new(Ecosystem::Npm).await;
    publish(&world.fake, "a", b"ours", b"ours");
    assert_eq!(world.get(TARBALL).await.1, "ours");
    let other = Fake::start().await;
    publish(&other, "a", b"theirs", b"theirs");
    let mirror = [(Ecosystem::Npm, other.address.as_str())];
    let served = serve_with(&gateway(world.folder.path(), &world.clock, &mirror), None, Access::none());
    assert_eq!(get(&served, TARBALL).await.1, "theirs");

    // Files without a digest are told apart by where they came from.
    let world = World::new(Ecosystem::Go).await;
    world.fake.page("/m/@v/v1.0.0.zip", "ours");
    assert_eq!(world.get("/registry/go/m/@v/v1.0.0.zip").await.1, "ours");
    other.page("/m/@v/v1.0.0.zip", "theirs");
    let mirror = [(Ecosystem::Go, other.address.as_str())];
    let served = serve_with(&gateway(world.folder.path(), &world.clock, &mirror), None, Access::none());
    assert_eq!(get(&served, "/registry/go/m/@v/v1.0.0.zip").await.1, "theirs");
}

#[tokio::test]
async fn documents_are_asked_about_again_and_survive_an_outage() {
    let world = World::new(Ecosystem::Cargo).await;
    let etag = |etag: &str| vec![("etag", format!("\"{etag}\""))];
    world.fake.put("/se/rd/serde", Page { body: b"one".to_vec(), headers: etag("1"), ..Page::default() });
    let path = "/registry/cargo/se/rd/serde";
    let first = world.served.send(request(Method::GET, path)).await;
    let own = first.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!(world.get(path).await.1, "one");
    assert_eq!(world.fake.asked().len(), 1, "it is fresh");
    let unchanged = ask_as(&world.served, path, &[("if-none-match", &own)]).await;
    assert_eq!(unchanged.status(), StatusCode::NOT_MODIFIED);

    world.clock.advance(600);
    assert_eq!(world.get(path).await.1, "one");
    let asked = world.fake.asked();
    assert_eq!(asked[0].headers["if-none-match"], "\"1\"");
    assert_eq!(world.get(path).await.1, "one");
    assert!(world.fake.asked().is_empty(), "what was confirmed is fresh again");

    world.fake.put("/se/rd/serde", Page { body: b"two".to_vec(), headers: etag("2"), ..Page::default() });
    world.clock.advance(600);
    assert_eq!(world.get(path).await.1, "two");

    world.clock.advance(600);
    world.fake.break_down();
    let stale = world.another().send(request(Method::GET, path)).await;
    assert!(stale.headers().contains_key("warning"));
    assert_eq!(stale.into_body().collect().await.unwrap().to_bytes(), "two");
    world.fake.broken.store(false, Ordering::Relaxed);
    world.fake.pages.lock().unwrap().clear();
    assert_eq!(world.get(path).await.0, StatusCode::NOT_FOUND, "what the registry removed is gone");
}

#[tokio::test]
async fn many_who_want_the_same_share_one_download_and_no_slow_reader_holds_it_up() {
    let (go, content) = (Arc::new(Notify::new()), vec![9; 4_000_000]);
    let (waiting, whole) = (go.clone(), content.clone());
    let digest = sha256_hex(&content);
    let answer = move |head: &Parts| {
        if head.uri.path() == "/config.json" {
            let host = head.headers["host"].to_str().unwrap();
            return Response::new(Body::from(json!({ "dl": format!("http://{host}/crates") }).to_string()));
        }
        let (waiting, whole) = (waiting.clone(), whole.clone());
        let pieces = futures_util::stream::unfold(0, move |step| {
            let (waiting, whole) = (waiting.clone(), whole.clone());
            async move {
                match step {
                    0..3 => Some((Ok::<_, std::io::Error>(whole[step * 1_000_000..][..1_000_000].to_vec()), step + 1)),
                    3 => {
                        waiting.notified().await;
                        Some((Ok(whole[3_000_000..].to_vec()), 4))
                    }
                    _ => None,
                }
            }
        });
        Response::new(Body::from_stream(pieces))
    };
    let (address, mut asked) = upstream(answer).await;
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hand::default());
    let gateway = gateway(folder.path(), &clock, &[(Ecosystem::Cargo, &address)]);
    let served = Arc::new(serve_with(&gateway, None, Access::none()));
    let path = format!("/registry/cargo/dl/serde/1.0.0/{digest}");
    // Reads one piece, before the registry has sent the last, and then nothing more.
    let mut slow = served.send(request(Method::GET, &path)).await;
    assert!(slow.body_mut().frame().await.unwrap().unwrap().is_data());
    let others: Vec<_> = (0..8)
        .map(|_| {
            let (served, path) = (served.clone(), path.clone());
            tokio::spawn(async move { get(&served, &path).await })
        })
        .collect();
    go.notify_one();
    for other in others {
        assert_eq!(other.await.unwrap(), (StatusCode::OK, content.clone().into()));
    }
    let asked: Vec<String> =
        std::iter::from_fn(|| asked.try_recv().ok()).map(|(head, _)| head.uri.path().to_owned()).collect();
    assert_eq!(asked, ["/config.json", "/crates/serde/1.0.0/download"]);
}

#[tokio::test]
async fn the_end_of_a_file_waits_for_the_verdict() {
    let end = Arc::new(Notify::new());
    let waiting = end.clone();
    let answer = move |head: &Parts| {
        if head.uri.path() == "/config.json" {
            let host = head.headers["host"].to_str().unwrap();
            return Response::new(Body::from(json!({ "dl": format!("http://{host}/crates") }).to_string()));
        }
        let waiting = waiting.clone();
        let pieces = futures_util::stream::unfold(0, move |step| {
            let waiting = waiting.clone();
            async move {
                if step == 2 {
                    waiting.notified().await;
                    return None;
                }
                Some((Ok::<_, std::io::Error>(vec![9; 1_000_000]), step + 1))
            }
        });
        Response::new(Body::from_stream(pieces))
    };
    let (address, _asked) = upstream(answer).await;
    let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(Hand::default()));
    let gateway = gateway(folder.path(), &clock, &[(Ecosystem::Cargo, &address)]);
    let served = serve_with(&gateway, None, Access::none());
    let path = format!("/registry/cargo/dl/serde/1.0.0/{}", sha256_hex(b"something else"));
    let mut response = served.send(request(Method::GET, &path)).await;
    // All bytes are here, and the registry has not said yet that they are all.
    let mut seen = 0;
    while let Ok(frame) = tokio::time::timeout(Duration::from_millis(500), response.body_mut().frame()).await {
        seen += frame.unwrap().unwrap().data_ref().unwrap().len();
    }
    assert!((1..2_000_000).contains(&seen), "{seen}");
    end.notify_one();
    assert!(!until_cut(response).await.1);
}

#[tokio::test]
async fn cargo_is_told_to_fetch_here_and_says_what_it_expects() {
    let world = World::new(Ecosystem::Cargo).await;
    world.fake.page(
        "/config.json",
        json!({ "dl": format!("{}/{{crate}}-{{version}}.crate", world.fake.address) }).to_string(),
    );
    world.fake.page("/serde-1.0.0.crate", "crate");
    let (_, config) = world.get("/registry/cargo/config.json").await;
    let config: Value = serde_json::from_slice(&config).unwrap();
    let dl = "http://127.0.0.1:4321/registry/cargo/dl/{crate}/{version}/{sha256-checksum}";
    assert_eq!(config, json!({ "dl": dl }));
    let path = |digest: &str| format!("/registry/cargo/dl/serde/1.0.0/{digest}");
    assert_eq!(world.get(&path(&sha256_hex(b"crate"))).await, (StatusCode::OK, "crate".into()));
    assert_eq!(world.get(&path(&sha256_hex(b"other"))).await.0, StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn pypi_in_both_forms() {
    let world = World::new(Ecosystem::Pypi).await;
    let (wheel, digest) = ("foo-1.0-py3-none-any.whl", sha256_hex(b"wheel"));
    let html = format!(
        "<html><a href=\"../packages/{wheel}#sha256={digest}\" data-core-metadata=\"sha256=0\">{wheel}</a></html>"
    );
    let kind = |kind: &str| vec![("content-type", kind.to_owned())];
    world.fake.put("/foo/", Page { body: html.into(), headers: kind("text/html"), ..Page::default() });
    world.fake.page(&format!("/packages/{wheel}"), "wheel");
    world.fake.page(&format!("/packages/{wheel}.metadata"), "Name: foo");
    let (_, page) = world.get("/registry/pypi/simple/Foo/").await;
    let moved = format!("http://127.0.0.1:4321/registry/pypi/files/foo/{wheel}#sha256={digest}");
    assert!(String::from_utf8_lossy(&page).contains(&moved), "{page:?}");
    assert_eq!(world.get(&format!("/registry/pypi/files/foo/{wheel}")).await, (StatusCode::OK, "wheel".into()));
    assert_eq!(world.get(&format!("/registry/pypi/files/foo/{wheel}.metadata")).await.1, "Name: foo");
    assert_eq!(world.get("/registry/pypi/files/foo/other.whl").await.0, StatusCode::NOT_FOUND);

    let file = json!({ "filename": "bar.whl", "url": format!("{}/p/bar.whl", world.fake.address), "hashes": { "sha256": digest } });
    let document = json!({ "name": "bar", "files": [file] }).to_string().into_bytes();
    let headers = kind("application/vnd.pypi.simple.v1+json");
    world.fake.put("/bar/", Page { body: document, headers, ..Page::default() });
    world.fake.page("/p/bar.whl", "wheel");
    let accept = [("accept", "application/vnd.pypi.simple.v1+json, text/html;q=0.1")];
    let response = ask_as(&world.served, "/registry/pypi/simple/bar/", &accept).await;
    let document: Value = serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(document["files"][0]["url"], "http://127.0.0.1:4321/registry/pypi/files/bar/bar.whl");
    assert_eq!(world.get("/registry/pypi/files/bar/bar.whl").await.1, "wheel");
}

#[tokio::test]
async fn files_of_maven_and_rubygems_are_verified_too() {
    let world = World::new(Ecosystem::Maven).await;
    world.fake.page("/a/1.0/a-1.0.jar", "jar");
    world.fake.page("/a/1.0/a-1.0.jar.sha1", format!("{}  a-1.0.jar\n", sha1_hex(b"jar")));
    assert_eq!(world.get("/registry/maven/a/1.0/a-1.0.jar").await, (StatusCode::OK, "jar".into()));
    world.fake.page("/a/1.0/a-1.0.pom", "pom");
    assert_eq!(world.get("/registry/maven/a/1.0/a-1.0.pom").await.0, StatusCode::NOT_FOUND, "nothing vouches for it");
    world.fake.page("/a/1.0/a-1.0.pom.sha1", sha1_hex(b"other"));
    assert_eq!(world.get("/registry/maven/a/1.0/a-1.0.pom").await.0, StatusCode::BAD_GATEWAY);

    let world = World::new(Ecosystem::Rubygems).await;
    world.fake.page("/info/a-b", format!("---\n1.0 |checksum:{}\n", sha256_hex(b"gem")));
    world.fake.page("/gems/a-b-1.0.gem", "gem");
    assert_eq!(world.get("/registry/rubygems/gems/a-b-1.0.gem").await, (StatusCode::OK, "gem".into()));
    assert_eq!(world.get("/registry/rubygems/gems/a-b-2.0.gem").await.0, StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn go_modules_and_the_checksum_database_pass_through() {
    let world = World::new(Ecosystem::Go).await;
    world.fake.page("/example.com/m/@v/v1.0.0.zip", "zip");
    world.fake.page("/sumdb/sum.golang.org/supported", "");
    assert_eq!(world.get("/registry/go/example.com/m/@v/v1.0.0.zip").await, (StatusCode::OK, "zip".into()));
    assert_eq!(world.get("/registry/go/sumdb/sum.golang.org/supported").await.0, StatusCode::OK);
    world.fake.break_down();
    assert_eq!(get(&world.another(), "/registry/go/example.com/m/@v/v1.0.0.zip").await.1, "zip");
}

#[tokio::test]
async fn head_fetches_nothing() {
    let world = World::new(Ecosystem::Npm).await;
    publish(&world.fake, "a", b"content", b"content");
    let response = world.served.send(request(Method::HEAD, TARBALL)).await;
    assert_eq!(response.status(), StatusCode::OK);
    let methods: Vec<_> =
        world.fake.asked().iter().map(|head| format!("{} {}", head.method, head.uri.path())).collect();
    assert_eq!(methods, ["GET /a", "HEAD /a/-/a-1.0.0.tgz"]);
    tokio::time::timeout(Duration::from_secs(30), world.served.serving.stop()).await.unwrap();
}
