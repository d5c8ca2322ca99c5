//! Packages for sandboxes: read-only caches in front of the registries.
//!
//! Only GET and HEAD exist, so nothing can be published through them, and nothing of a client's request goes out but the
//! name of what it wants. Addresses in metadata are rewritten so that downloads come here too. A file is fetched from
//! where its registry's metadata says, and is kept only when it has the digest that was announced; what is served from the
//! cache therefore never depends on who asked first.

mod announced;
mod artefact;
mod cache;
mod cargo;
mod digest;
mod document;
mod ecosystem;
mod environment;
mod npm;
mod packagist;
mod plain;
mod pypi;
mod upstream;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use harvest_core::Clock;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HOST, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH,
    USER_AGENT,
};
use hyper::{Method, Request, Response, StatusCode};
use reqwest::Url;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

pub use ecosystem::Ecosystem;
pub use environment::{Environment, environment};

use self::announced::{Announced, Files, Index};
use self::artefact::{Downloads, Proof};
use self::cache::Cache;
use self::digest::{Digest, sha256_hex};
use self::document::{Age, Document, Documents};
use self::upstream::{Clients, Problem, Upstream};
use crate::answer::{self, Body};
use crate::{Error, egress};

const PREFIX: &str = "/registry/";

/// What the registries of a gateway are made of.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where fetched things are kept; shared by all processes that name it.
    pub folder: PathBuf,
    pub max_bytes: u64,
    /// An operator's own mirrors in place of the public registries. They may have private addresses.
    pub mirrors: BTreeMap<Ecosystem, String>,
    /// Hosts besides the mirrors' own that serve their files: `files.example.com`, or with `http://` and a port. They may have
    /// private addresses as well.
    pub file_hosts: Vec<String>,
    /// The HTTP proxy by which public registries are reached; mirrors are reached directly. Who names one trusts it to know which
    /// addresses are inside.
    pub proxy: Option<String>,
    /// A PEM file with certificates to trust beside the machine's.
    pub ca_file: Option<PathBuf>,
    pub clock: Arc<dyn Clock>,
}

impl Options {
    /// The size of the cache unless something else is said.
    pub const MAX_BYTES: u64 = 10 << 30;
}

/// Whether a host of a registry can be reached from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// `None`: it is one of the `file_hosts`.
    pub ecosystem: Option<Ecosystem>,
    pub host: String,
    /// It is an operator's own.
    pub is_own: bool,
    /// Why not.
    pub trouble: Option<String>,
}

/// Tries all hosts of all registries.
pub async fn reach(options: &Options, network: &egress::Network) -> Result<Vec<Reach>, Error> {
    let clients = clients(options, network)?;
    let upstreams = upstreams(options, &clients)?;
    let files = file_hosts(options)?;
    let files: Vec<Upstream> = files.iter().map(|host| Upstream::of_files(host, &clients)).collect();
    let registries = upstreams.iter().map(|(ecosystem, upstream)| (Some(*ecosystem), upstream.as_ref()));
    let all = registries.chain(files.iter().map(|upstream| (None, upstream)));
    let tries = all.map(|(ecosystem, upstream)| upstream.reach(ecosystem));
    Ok(futures_util::future::join_all(tries).await.concat())
}

/// Why a text cannot be one of the `file_hosts`.
pub fn check_file_host(text: &str) -> Result<(), String> {
    match upstream::file_host(text) {
        Ok(_) => Ok(()),
        Err(Error::BadUpstream { reason, .. }) => Err(reason),
        Err(error) => Err(error.to_string()),
    }
}

fn file_hosts(options: &Options) -> Result<Arc<[Url]>, Error> {
    options.file_hosts.iter().map(|host| upstream::file_host(host)).collect()
}

fn clients(options: &Options, network: &egress::Network) -> Result<Arc<Clients>, Error> {
    Ok(Arc::new(Clients::new(network.clone(), options.proxy.as_deref(), options.ca_file.as_deref())?))
}

fn upstreams(options: &Options, clients: &Arc<Clients>) -> Result<BTreeMap<Ecosystem, Arc<Upstream>>, Error> {
    let file_hosts = file_hosts(options)?;
    let upstream = |ecosystem: Ecosystem| {
        let mirror = options.mirrors.get(&ecosystem).map(String::as_str);
        Ok((ecosystem, Arc::new(Upstream::new(ecosystem, mirror, &file_hosts, clients)?)))
    };
    Ecosystem::ALL.into_iter().map(upstream).collect()
}

/// A registry that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    pub ecosystem: Ecosystem,
    /// Names the host, what is wrong, and the way out where there is one.
    pub reason: String,
    /// Trying again does not help before someone has changed something.
    pub is_lasting: bool,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.ecosystem, self.reason)
    }
}

#[derive(Debug)]
pub(crate) struct Registries {
    upstreams: BTreeMap<Ecosystem, Arc<Upstream>>,
    documents: Documents,
    downloads: Downloads,
    index: Index,
}

/// The registry that a path belongs to, and the rest of the path.
pub(crate) fn of_path(path: &str) -> Option<(Ecosystem, &str)> {
    if let Some((name, rest)) = path.strip_prefix(PREFIX).and_then(|rest| rest.split_once('/')) {
        return Some((Ecosystem::named(name)?, rest));
    }
    // npm replaces the host of a tarball by the registry's and forgets the registry's path.
    let rest = path.strip_prefix('/').filter(|rest| rest.contains("/-/") && rest.ends_with(".tgz"))?;
    Some((Ecosystem::Npm, rest))
}

/// What a path stands for.
enum Route {
    Document { document: Document, rewrite: Rewrite },
    Made { content: Vec<u8> },
    File { url: Url, proof: Proof },
}

enum Rewrite {
    Nothing,
    Npm,
    Pypi { project: String },
    Packagist,
}

impl Registries {
    pub(crate) fn new(options: Options, network: &egress::Network) -> Result<Self, Error> {
        let upstreams = upstreams(&options, &clients(&options, network)?)?;
        let cache = Arc::new(Cache::new(options.folder, options.max_bytes, options.clock));
        let (documents, downloads) = (Documents::new(Arc::clone(&cache)), Downloads::new(cache));
        Ok(Self { upstreams, documents, downloads, index: Index::default() })
    }

    /// `slots` bounds the documents that are in memory for a session: a client that asks for many and reads none waits for
    /// itself. `recorder` is told when the registry cannot be used.
    pub(crate) async fn handle(
        &self,
        ecosystem: Ecosystem,
        path: &str,
        request: &Request<Incoming>,
        slots: &Arc<Semaphore>,
        recorder: &dyn egress::Recorder,
    ) -> Response<Body> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let message = format!("the {ecosystem} registry is read-only here: only GET and HEAD are allowed");
            return answer::text(StatusCode::METHOD_NOT_ALLOWED, message);
        }
        let Some(upstream) =
            self.upstreams.get(&ecosystem).filter(|_| is_plain(path) && request.uri().query().is_none())
        else {
            return answer::text(StatusCode::NOT_FOUND, format!("the {ecosystem} registry has no such path"));
        };
        let Some(root) = root(request.headers(), ecosystem) else {
            return answer::text(
                StatusCode::BAD_REQUEST,
                "the Host header does not say where this registry was reached",
            );
        };
        let Ok(slot) = Arc::clone(slots).acquire_owned().await else {
            return answer::text(StatusCode::SERVICE_UNAVAILABLE, "the session has ended");
        };
        let headers = request.headers();
        let answered = match self.route(ecosystem, upstream, path, headers, &root).await {
            Ok(Route::Made { content }) => Ok(send(content.into(), Some("application/json"), false, headers, slot)),
            Ok(Route::Document { document, rewrite }) => {
                let (kind, stale) = (document.content_type.clone(), document.stale);
                let content = rewritten(document, rewrite, root, headers).await;
                content.map(|content| send(content, kind.as_deref(), stale, headers, slot))
            }
            Ok(Route::File { url, proof }) => {
                drop(slot);
                self.send_file(upstream, &url, &proof, request.method()).await
            }
            Err(problem) => Err(problem),
        };
        match answered {
            Ok(response) => response,
            Err(problem) => {
                if let Some(trouble) = problem.trouble(ecosystem) {
                    recorder.registry_failed(trouble).await;
                } else if let Some(trouble) = problem.pause(ecosystem) {
                    recorder.registry_paused(trouble).await;
                }
                refuse(ecosystem, &problem)
            }
        }
    }

    async fn route(
        &self,
        ecosystem: Ecosystem,
        upstream: &Upstream,
        path: &str,
        headers: &HeaderMap,
        root: &str,
    ) -> Result<Route, Problem> {
        let none = Problem::Status(StatusCode::NOT_FOUND);
        match ecosystem {
            Ecosystem::Npm => {
                let accept = if accepts(headers, npm::SHORT) { npm::SHORT } else { npm::LONG };
                match npm::wanted(path).ok_or(none)? {
                    npm::Wanted::Package(package) => {
                        self.document(upstream, &npm::path(&package), Some(accept), Rewrite::Npm).await
                    }
                    npm::Wanted::Version { package, version } => {
                        let path = format!("{}/{version}", npm::path(&package));
                        self.document(upstream, &path, Some(npm::LONG), Rewrite::Npm).await
                    }
                    npm::Wanted::Tarball { package, file } => {
                        self.announced(ecosystem, upstream, &package, &file).await
                    }
                }
            }
            Ecosystem::Pypi => match pypi::wanted(path).ok_or(none)? {
                pypi::Wanted::Project(project) => {
                    let accept = if accepts(headers, pypi::JSON) { pypi::JSON } else { pypi::HTML };
                    self.document(upstream, &format!("{project}/"), Some(accept), Rewrite::Pypi { project }).await
                }
                pypi::Wanted::File { project, file } => self.announced(ecosystem, upstream, &project, &file).await,
                pypi::Wanted::Metadata { project, file } => {
                    let mut url = self.find(ecosystem, upstream, &project, &file).await?.url;
                    url.set_path(&format!("{}.metadata", url.path()));
                    let document = self.documents.get(upstream, &url, None, Age::Fresh).await?;
                    Ok(Route::Document { document, rewrite: Rewrite::Nothing })
                }
            },
            Ecosystem::Cargo => match cargo::wanted(path).ok_or(none)? {
                cargo::Wanted::Config => Ok(Route::Made { content: cargo::config(root) }),
                cargo::Wanted::Crate(path) => self.document(upstream, &path, None, Rewrite::Nothing).await,
                cargo::Wanted::Download { name, version, digest } => {
                    let config = upstream.below("config.json").ok_or(Problem::Malformed)?;
                    let config = self.documents.get(upstream, &config, None, Age::Any).await?;
                    let url = cargo::download(&config.content, &name, &version, &digest).ok_or(Problem::Malformed)?;
                    Ok(Route::File { url, proof: Proof::Digest(digest) })
                }
            },
            Ecosystem::Packagist => match packagist::wanted(path).ok_or(none)? {
                packagist::Wanted::Root => Ok(Route::Made { content: packagist::root(root) }),
                packagist::Wanted::Package(package) => {
                    self.document(upstream, &format!("p2/{package}.json"), None, Rewrite::Packagist).await
                }
                packagist::Wanted::Archive { package, file } => {
                    let found = self.find(ecosystem, upstream, &package, &file).await?;
                    // Most have no digest, and are named after a commit.
                    let proof = found.digest.map_or(Proof::Address, Proof::Digest);
                    Ok(Route::File { url: found.url, proof })
                }
            },
            Ecosystem::Go | Ecosystem::Maven | Ecosystem::Rubygems | Ecosystem::Apt => {
                self.plain(ecosystem, upstream, path).await
            }
        }
    }

    async fn plain(&self, ecosystem: Ecosystem, upstream: &Upstream, path: &str) -> Result<Route, Problem> {
        let url = upstream.below(path).ok_or(Problem::Status(StatusCode::NOT_FOUND))?;
        let proof = match plain::kind(ecosystem, path) {
            plain::Kind::Document => return self.document(upstream, path, None, Rewrite::Nothing).await,
            plain::Kind::Permanent => Proof::Address,
            plain::Kind::Digest(digest) => Proof::Digest(digest),
            plain::Kind::Sibling => {
                let beside = upstream.below(&format!("{path}.sha1")).ok_or(Problem::Malformed)?;
                let beside = self.documents.get(upstream, &beside, None, Age::Any).await?;
                let text = String::from_utf8_lossy(&beside.content);
                let digest = text.split_ascii_whitespace().next().and_then(Digest::sha1);
                Proof::Digest(digest.ok_or(Problem::NoDigest)?)
            }
            plain::Kind::Gem => Proof::Digest(self.gem_digest(upstream, path).await?),
        };
        Ok(Route::File { url, proof })
    }

    async fn gem_digest(&self, upstream: &Upstream, path: &str) -> Result<Digest, Problem> {
        for (name, version) in plain::gem_names(path) {
            let Some(url) = upstream.below(&format!("info/{name}")) else { continue };
            for age in [Age::Any, Age::Fresh] {
                let Ok(info) = self.documents.get(upstream, &url, None, age).await else { break };
                if let Some(digest) = plain::gem_digest(&String::from_utf8_lossy(&info.content), &version) {
                    return Ok(digest);
                }
            }
        }
        Err(Problem::NoDigest)
    }

    async fn document(
        &self,
        upstream: &Upstream,
        path: &str,
        accept: Option<&str>,
        rewrite: Rewrite,
    ) -> Result<Route, Problem> {
        let url = upstream.below(path).ok_or(Problem::Status(StatusCode::NOT_FOUND))?;
        let document = self.documents.get(upstream, &url, accept, Age::Fresh).await?;
        Ok(Route::Document { document, rewrite })
    }

    async fn announced(
        &self,
        ecosystem: Ecosystem,
        upstream: &Upstream,
        package: &str,
        file: &str,
    ) -> Result<Route, Problem> {
        let found = self.find(ecosystem, upstream, package, file).await?;
        let digest = found.digest.ok_or(Problem::NoDigest)?;
        Ok(Route::File { url: found.url, proof: Proof::Digest(digest) })
    }

    /// What the metadata of a package says about one of its files.
    async fn find(
        &self,
        ecosystem: Ecosystem,
        upstream: &Upstream,
        package: &str,
        file: &str,
    ) -> Result<Announced, Problem> {
        if let Some(found) = self.index.find(ecosystem, package, file) {
            return Ok(found);
        }
        let (path, accepts) = match ecosystem {
            Ecosystem::Npm => (npm::path(package), [Some(npm::SHORT), Some(npm::LONG)]),
            Ecosystem::Pypi => (format!("{package}/"), [Some(pypi::JSON), Some(pypi::HTML)]),
            _ => (format!("p2/{package}.json"), [None, None]),
        };
        let url = upstream.below(&path).ok_or(Problem::Malformed)?;
        // What clients have asked for is in the cache in one form or the other; the registry is asked last.
        let attempts = [(Age::Any, accepts[0]), (Age::Fresh, accepts[0]), (Age::Fresh, accepts[1])];
        let mut problem = Problem::Status(StatusCode::NOT_FOUND);
        for (age, accept) in attempts {
            let document = match self.documents.get(upstream, &url, accept, age).await {
                Ok(document) => document,
                // That the registry cannot be reached is said once; the attempts after it are told that it was tried a moment ago.
                Err(_) if problem.is_about_all() => continue,
                Err(failed) => {
                    problem = failed;
                    continue;
                }
            };
            let files = spawn_blocking(move || files(ecosystem, &document)).await.ok().flatten();
            let files = Arc::new(files.ok_or(Problem::Malformed)?);
            self.index.insert(ecosystem, package, Arc::clone(&files));
            if let Some(found) = files.get(file) {
                return Ok(found.clone());
            }
        }
        Err(problem)
    }

    async fn send_file(
        &self,
        upstream: &Arc<Upstream>,
        url: &Url,
        proof: &Proof,
        method: &Method,
    ) -> Result<Response<Body>, Problem> {
        let sending = if method == Method::HEAD {
            self.downloads.head(upstream, url, proof).await?
        } else {
            self.downloads.get(upstream, url, proof).await?
        };
        let mut response = Response::new(sending.body);
        let headers = response.headers_mut();
        set(headers, CONTENT_TYPE, sending.content_type.as_deref().unwrap_or("application/octet-stream"));
        if let Some(length) = sending.length {
            set(headers, CONTENT_LENGTH, &length.to_string());
        }
        set(headers, CACHE_CONTROL, "max-age=31536000, immutable");
        Ok(response)
    }
}

fn files(ecosystem: Ecosystem, document: &Document) -> Option<Files> {
    match ecosystem {
        Ecosystem::Npm => npm::files(&document.content),
        Ecosystem::Pypi => {
            pypi::files(&document.content, &document.url, pypi::is_json(document.content_type.as_deref()))
        }
        Ecosystem::Packagist => packagist::files(&document.content),
        _ => None,
    }
}

/// A document as clients of this gateway are to see it. Large ones take a while, so it is not done among the connections.
async fn rewritten(document: Document, rewrite: Rewrite, root: String, headers: &HeaderMap) -> Result<Bytes, Problem> {
    // Lockfiles that npm writes are to name the public registry, not a port of this sandbox.
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let npm_root = if agent.starts_with("npm/") { npm::CANONICAL.to_owned() } else { root.clone() };
    let work = move || {
        let content = &document.content;
        match rewrite {
            Rewrite::Nothing => Some(content.clone()),
            Rewrite::Npm => npm::rewrite(content, &npm_root).map(Bytes::from),
            Rewrite::Pypi { project } => {
                let (files, json) =
                    (format!("{root}/files/{project}"), pypi::is_json(document.content_type.as_deref()));
                pypi::rewrite(content, &document.url, json, &files).map(Bytes::from)
            }
            Rewrite::Packagist => packagist::rewrite(content, &root).map(Bytes::from),
        }
    };
    spawn_blocking(work).await.ok().flatten().ok_or(Problem::Malformed)
}

fn send(
    content: Bytes,
    content_type: Option<&str>,
    stale: bool,
    asked: &HeaderMap,
    slot: OwnedSemaphorePermit,
) -> Response<Body> {
    let etag = format!("\"{}\"", &sha256_hex(&content)[..32]);
    let known = asked.get(IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let unchanged =
        known.is_some_and(|known| known.split(',').any(|known| known.trim().trim_start_matches("W/") == etag));
    let length = content.len();
    let mut response = if unchanged { Response::new(answer::full("")) } else { Response::new(held(content, slot)) };
    let headers = response.headers_mut();
    set(headers, CONTENT_TYPE, content_type.unwrap_or("application/octet-stream"));
    set(headers, CACHE_CONTROL, "no-cache");
    set(headers, ETAG, &etag);
    if stale {
        set(headers, HeaderName::from_static("warning"), "110 - \"the registry cannot be reached\"");
    }
    if unchanged {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        set(headers, CONTENT_LENGTH, &length.to_string());
    }
    response
}

/// Keeps the slot until the content has been taken.
fn held(content: Bytes, slot: OwnedSemaphorePermit) -> Body {
    let pieces = futures_util::stream::unfold((Some(content), slot), |(content, slot)| async move {
        Some((Ok::<_, answer::BoxError>(Frame::data(content?)), (None, slot)))
    });
    StreamBody::new(pieces).boxed_unsync()
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).any(|value| value.contains(kind))
}

/// The address by which the client reached this registry.
fn root(headers: &HeaderMap, ecosystem: Ecosystem) -> Option<String> {
    let host = headers.get(HOST)?.to_str().ok()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':');
    (!host.is_empty() && host.bytes().all(plain)).then(|| format!("http://{host}{PREFIX}{ecosystem}"))
}

/// No path has what a server could take for another one: dot segments, in whatever spelling, empty ones, odd characters.
fn is_plain(path: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~@+!:$(),;='*%/".contains(&byte);
    let lower = path.to_ascii_lowercase();
    let segments = || lower.trim_end_matches('/').split('/');
    !path.is_empty()
        && path.bytes().all(allowed)
        && !lower.contains("%2e")
        && !lower.contains("%00")
        && !lower.contains("%5c")
        && segments().all(|segment| !matches!(segment, "" | "." | ".."))
        && lower.split("%2f").all(|part| !matches!(part, "" | "." | "..") && !part.ends_with("/.."))
}

fn refuse(ecosystem: Ecosystem, problem: &Problem) -> Response<Body> {
    let status = match problem {
        Problem::Status(status) if matches!(status.as_u16(), 404 | 410) => *status,
        Problem::Status(status) if matches!(status.as_u16(), 401 | 403 | 451) => StatusCode::FORBIDDEN,
        Problem::Status(StatusCode::TOO_MANY_REQUESTS) => StatusCode::SERVICE_UNAVAILABLE,
        Problem::Cache => StatusCode::INSUFFICIENT_STORAGE,
        _ => StatusCode::BAD_GATEWAY,
    };
    // Which addresses this network has inside is no business of a sandbox.
    let reason = match problem {
        Problem::NotPublic { host, .. } => format!("{host} does not resolve to a public address here"),
        Problem::MirrorLeadsElsewhere { .. } => Problem::Elsewhere.to_string(),
        problem => problem.to_string(),
    };
    answer::text(status, format!("{ecosystem}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_two_servers_could_read_differently_are_refused() {
        for path in ["left-pad", "@a%2fb", "simple/foo/", "a/@v/v1.0.0+x.zip", "github.com/!foo/bar/@v/list"] {
            assert!(is_plain(path), "{path}");
        }
        for path in [
            "",
            "/",
            "..",
            "a/..",
            "a/../b",
            "a//b",
            "./a",
            "a/%2e%2e/b",
            "a/%2E./b",
            "a\\b",
            "a%5c..%5cb",
            "a%00",
            "a b",
            "a?b",
            "..%2fa",
            "a%2f..",
            "a%2f..%2fb",
            "a\u{e9}",
        ] {
            assert!(!is_plain(path), "{path}");
        }
    }

    #[test]
    fn registries_by_path() {
        assert_eq!(of_path("/registry/npm/left-pad"), Some((Ecosystem::Npm, "left-pad")));
        assert_eq!(of_path("/left-pad/-/left-pad-1.3.0.tgz"), Some((Ecosystem::Npm, "left-pad/-/left-pad-1.3.0.tgz")));
        for path in ["/registry/npm", "/registry/docker/x", "/registry//x", "/left-pad", "/anthropic/v1/messages"] {
            assert_eq!(of_path(path), None, "{path}");
        }
    }
}
