//! Git over HTTP, by `git http-backend` on real bare repositories.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use harvest_workspace::{Git, Home};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::access::Caller;
use super::world::Repository;
use super::{Shared, shapes};
use crate::Error;

const LIMIT: Duration = Duration::from_secs(600);

impl Shared {
    pub(super) async fn add_repository(&self, full: &str, from: Option<&Path>) -> Result<(), Error> {
        let parsed = crate::github::Repository::parse(full);
        let parsed = parsed.ok_or_else(|| Error::Unexpected { reason: format!("`{full}` is not OWNER/NAME") })?;
        let path = self.folder.join(format!("{full}.git"));
        let fail = |error: std::io::Error| Error::Unexpected { reason: error.to_string() };
        if !path.join("HEAD").exists() {
            let owner = self.folder.join(&parsed.owner);
            let unfinished = owner.join(format!(".{}.new", parsed.name));
            let made = self.make_repository(&unfinished, from).await;
            if let Err(error) = made {
                let _ = tokio::fs::remove_dir_all(&unfinished).await;
                // Only while nothing else is in it.
                let _ = tokio::fs::remove_dir(&owner).await;
                return Err(error);
            }
            tokio::fs::rename(&unfinished, &path).await.map_err(fail)?;
        }
        let branch = self.git.line(&path, &["symbolic-ref", "--short", "HEAD"]).await?;
        let created = self.now();
        if let Some(known) = self.world().repositories.get_mut(full) {
            known.branch = branch;
            return Ok(());
        }
        let id = self.world().next_id();
        let repository = Repository {
            id,
            owner: parsed.owner,
            name: parsed.name,
            branch,
            created,
            writers: Default::default(),
            archived: false,
            threads: Default::default(),
            comments: Vec::new(),
            checks: Vec::new(),
            reviews: Vec::new(),
        };
        self.world().repositories.insert(full.to_owned(), repository);
        self.save();
        Ok(())
    }

    /// A bare repository with the branches of the one at `from`.
    async fn make_repository(&self, path: &Path, from: Option<&Path>) -> Result<(), Error> {
        let fail = |error: std::io::Error| Error::Unexpected { reason: error.to_string() };
        let _ = tokio::fs::remove_dir_all(path).await;
        tokio::fs::create_dir_all(path).await.map_err(fail)?;
        self.git.run(path, &["init", "--quiet", "--bare", "--initial-branch=main"]).await?;
        if let Some(from) = from {
            // Git runs in the new repository, which is not where a relative path begins.
            let from = std::path::absolute(from).map_err(fail)?;
            let (from, git) = (from.to_string_lossy().into_owned(), Git::new(Home::Nobody));
            let all = ["fetch", "--quiet", "--no-write-fetch-head", &from, "+refs/heads/*:refs/heads/*"];
            git.with_limit(LIMIT).run(path, &all).await?;
            let head = self.git.line(Path::new(&from), &["symbolic-ref", "HEAD"]).await?;
            self.git.run(path, &["symbolic-ref", "HEAD", &head]).await?;
        }
        // Only who is let in gets this far; and pull requests come with shallow and partial clones.
        for setting in ["http.receivepack", "uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"] {
            self.git.run(path, &["config", setting, "true"]).await?;
        }
        Ok(())
    }

    /// The commit that a branch is at.
    pub(super) async fn tip(&self, repository: &str, branch: &str) -> Option<String> {
        let path = self.folder.join(format!("{repository}.git"));
        let name = format!("refs/heads/{branch}^{{commit}}");
        self.git.line(&path, &["rev-parse", "--verify", "--quiet", "--end-of-options", &name]).await.ok()
    }

    async fn branches(&self, repository: &str) -> BTreeMap<String, String> {
        let path = self.folder.join(format!("{repository}.git"));
        let args = ["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads"];
        let listed = self.git.line(&path, &args).await.unwrap_or_default();
        let pairs = listed.lines().filter_map(|line| line.split_once(' '));
        pairs.map(|(commit, name)| (name.to_owned(), commit.to_owned())).collect()
    }

    async fn tell_pushes(&self, repository: &str, by: &str, before: BTreeMap<String, String>) {
        for (name, after) in self.branches(repository).await {
            let old = before.get(&name);
            if old != Some(&after) {
                self.tell_push(repository, by, &name, old.map(String::as_str), &after);
            }
        }
    }

    /// A branch has moved.
    pub(super) fn tell_push(&self, repository: &str, by: &str, name: &str, before: Option<&str>, after: &str) {
        let shown = {
            let world = self.world();
            let Some(known) = world.repositories.get(repository) else { return };
            shapes::full_repository(&self.web, known)
        };
        let nothing = "0".repeat(after.len());
        let payload = json!({
            "ref": name, "before": before.unwrap_or(&nothing), "after": after, "created": before.is_none(),
            "deleted": false, "forced": false, "base_ref": null, "commits": [], "head_commit": null,
            "compare": format!("{}/{repository}/compare", self.web), "repository": shown,
            "pusher": { "name": by, "email": null }, "sender": shapes::user(&self.web, by),
        });
        self.tell("push", payload);
    }

    pub(super) async fn serve_git(
        &self,
        caller: &Caller,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Response<Body> {
        let refuse = |status, text: &'static str| {
            let mut response = Response::new(Body::from(text));
            *response.status_mut() = status;
            if status == StatusCode::UNAUTHORIZED {
                let challenge = header::HeaderValue::from_static("Basic realm=\"GitHub\"");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            response
        };
        let parts: Vec<&str> = uri.path().trim_start_matches('/').splitn(3, '/').collect();
        let [owner, name, rest] = parts[..] else { return refuse(StatusCode::NOT_FOUND, "not found") };
        let full = format!("{owner}/{}", name.strip_suffix(".git").unwrap_or(name));
        let query = uri.query().unwrap_or_default();
        let pushes = rest == "git-receive-pack" || query.contains("service=git-receive-pack");
        let needed = [("contents", if pushes { "write" } else { "read" })];
        let known = self.world().repositories.contains_key(&full);
        if matches!(caller, Caller::Nobody | Caller::App) {
            return refuse(StatusCode::UNAUTHORIZED, "authentication is needed");
        }
        if !known || !caller.may(&self.world(), &full, &needed) {
            return refuse(StatusCode::FORBIDDEN, "this account may not do that here");
        }
        let receives = rest == "git-receive-pack" && *method == Method::POST;
        let before = if receives { self.branches(&full).await } else { BTreeMap::new() };
        match self.backend(&full, rest, query, method, headers, body).await {
            Ok(response) => {
                if receives {
                    self.tell_pushes(&full, caller.login(), before).await;
                    self.save();
                }
                response
            }
            Err(error) => {
                tracing::error!(%error, "git http-backend failed");
                refuse(StatusCode::INTERNAL_SERVER_ERROR, "git failed")
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "git speaks CGI here; its environment is cleared below")]
    async fn backend(
        &self,
        full: &str,
        rest: &str,
        query: &str,
        method: &Method,
        headers: &HeaderMap,
        body: &[u8],
    ) -> std::io::Result<Response<Body>> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut child = tokio::process::Command::new("git")
            .arg("http-backend")
            .env_clear()
            .envs([
                ("PATH", "/usr/local/bin:/usr/bin:/bin"),
                ("HOME", "/nonexistent"),
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("GIT_CONFIG_COUNT", "1"),
                ("GIT_CONFIG_KEY_0", "safe.directory"),
                ("GIT_CONFIG_VALUE_0", "*"),
                ("GIT_HTTP_EXPORT_ALL", "1"),
                ("REMOTE_USER", "someone"),
                ("REMOTE_ADDR", "127.0.0.1"),
                ("REQUEST_METHOD", method.as_str()),
                ("QUERY_STRING", query),
                ("PATH_INFO", &format!("/{full}.git/{rest}")),
                ("CONTENT_TYPE", header("content-type")),
                ("CONTENT_LENGTH", &body.len().to_string()),
                ("HTTP_CONTENT_ENCODING", header("content-encoding")),
                ("GIT_PROTOCOL", header("git-protocol")),
            ])
            .env("GIT_PROJECT_ROOT", &self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let feed = child.stdin.take();
        let ended = tokio::time::timeout(LIMIT, async {
            let feeding = async {
                if let Some(mut feed) = feed {
                    let _ = feed.write_all(body).await;
                }
            };
            tokio::join!(feeding, child.wait_with_output()).1
        });
        let output = ended.await.map_err(|_| std::io::Error::other("it took too long"))??.stdout;
        let split = output.windows(4).position(|four| four == b"\r\n\r\n");
        let split = split.ok_or_else(|| std::io::Error::other("git answered without headers"))?;
        let mut response = Response::new(Body::from(output[split + 4..].to_vec()));
        for line in String::from_utf8_lossy(&output[..split]).lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("status") {
                let code = value.trim().split(' ').next().and_then(|code| code.parse::<u16>().ok()).unwrap_or(500);
                *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            } else if let (Ok(name), Ok(value)) = (header::HeaderName::try_from(name), value.trim().parse()) {
                response.headers_mut().insert(name, value);
            }
        }
        Ok(response)
    }
}
