//! Repositories on GitHub, github.com or an enterprise's own: fetched from and pushed to with a credential that no sandbox
//! ever sees, and spoken about in issues and pull requests.

mod account;
mod address;
mod checks;
mod client;
mod comments;
mod jwt;
mod pulls;
mod setup;
mod tokens;
pub mod webhook;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harvest_core::BranchName;
use harvest_core::repository::Place;
use harvest_workspace::{Git, Home, Mirror, Private};
use reqwest::Method;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

pub use account::{Account, BadAccount};
pub use address::{Host, Repository};
pub use client::Client;
#[cfg(feature = "fake")]
pub(crate) use client::http;
pub use setup::{NewApp, page as setup_page};

use self::client::{Answer, Ask, Authority};
use self::tokens::Permissions;
use crate::hosting::{FailedCheck, Hosting, Proposal, PullRequest, Remark, Review, Standing, Thread};
use crate::remote::Remote;
use crate::{Base, Error, Forge, Part, Published};

/// One repository there.
#[derive(Debug)]
pub struct GitHub {
    client: Arc<Client>,
    repository: Repository,
    name: String,
}

impl GitHub {
    pub fn new(client: Arc<Client>, repository: Repository) -> Self {
        let name = client.host().page(&repository);
        Self { client, repository, name }
    }

    /// A git that is nobody's but has the credential for this one host.
    async fn git(&self, permissions: Permissions) -> Result<Git, Error> {
        let token = self.client.tokens.for_repository(&self.client, &self.repository, permissions).await?;
        let pair = STANDARD.encode(format!("x-access-token:{}", token.expose_secret()));
        let settings = [
            (format!("http.{}/.extraHeader", self.client.host().web()), format!("Authorization: Basic {pair}")),
            // The credential goes to this host, wherever it points.
            ("http.followRedirects".to_owned(), "false".to_owned()),
            ("credential.helper".to_owned(), String::new()),
        ];
        Ok(Git::new(Home::Account(Private::new(settings))))
    }

    /// Whether git was refused for a token that can be asked for anew; it is forgotten then.
    fn renews(&self, error: &(dyn std::error::Error + 'static), permissions: Permissions) -> bool {
        is_unauthorized(error) && self.client.tokens.forget_for(&self.repository, permissions)
    }

    async fn push(
        &self,
        from: &Path,
        branch: &BranchName,
        commit: &str,
        previous: Option<&str>,
    ) -> Result<Published, Error> {
        let git = self.git(Permissions::Push).await?.in_bare(from.to_owned());
        let url = self.client.host().clone_url(&self.repository);
        let name = branch.as_ref_name();
        let listed = git.line(from, &["ls-remote", "--quiet", &url, &name]).await;
        let listed = listed.map_err(|source| Error::Fetch { name: self.name.clone(), source })?;
        let found = listed.lines().filter_map(|line| line.split_once('\t')).find(|(_, found)| *found == name);
        match found.map(|(found, _)| found) {
            Some(found) if found == commit => return Ok(Published::Hosted),
            Some(found) if Some(found) != previous => {
                return Err(Error::BranchMoved { branch: branch.to_string(), found: found.to_owned() });
            }
            _ => {}
        }
        // Git checks the old value there as well: of two that publish at the same time one is refused.
        let lease = format!("--force-with-lease={name}:{}", found.map_or("", |(found, _)| found));
        let what = format!("{commit}:{name}");
        let args = ["push", "--quiet", "--no-verify", "--no-follow-tags", &lease, &url, &what];
        git.with_limit(PUSH_LIMIT)
            .run(from, &args)
            .await
            .map_err(|source| Error::Push { name: self.name.clone(), source })?;
        Ok(Published::Hosted)
    }

    async fn remote(&self) -> Result<Remote, Error> {
        Remote::new(&self.client.host().clone_url(&self.repository), self.git(Permissions::Fetch).await?)
    }

    fn ask(&self, method: Method, path: &str, body: Option<Value>, permissions: Permissions) -> Ask<'_> {
        let authority = Authority::Repository(&self.repository, permissions);
        Ask { method, path: format!("/repos/{}{path}", self.repository), body, authority }
    }

    async fn get(&self, path: &str, permissions: Permissions) -> Result<Answer, Error> {
        self.client.must(&self.ask(Method::GET, path, None, permissions)).await
    }

    async fn send(&self, method: Method, path: &str, body: Value, permissions: Permissions) -> Result<Answer, Error> {
        self.client.must(&self.ask(method, path, Some(body), permissions)).await
    }
}

#[async_trait]
impl Forge for GitHub {
    fn name(&self) -> &str {
        &self.name
    }

    fn identity(&self) -> Vec<u8> {
        // GitHub does not tell capital letters from small ones.
        Place::of(&self.name).into_string().to_ascii_lowercase().into_bytes()
    }

    async fn resolve(&self, base: Option<&str>) -> Result<Base, Error> {
        match self.remote().await?.resolve(base).await {
            Err(error) if self.renews(&error, Permissions::Fetch) => self.remote().await?.resolve(base).await,
            resolved => resolved,
        }
    }

    async fn fetch(&self, mirror: &Mirror, commit: &str) -> Result<(), harvest_workspace::Error> {
        self.fetch_part(mirror, commit, Part::default()).await
    }

    async fn fetch_part(&self, mirror: &Mirror, commit: &str, part: Part) -> Result<(), harvest_workspace::Error> {
        let remote = async || {
            self.remote().await.map_err(|error| harvest_workspace::Error::Git {
                command: "fetch".to_owned(),
                message: format!("there is no credential for {}: {error}", self.name),
            })
        };
        match remote().await?.fetch_part(mirror, commit, part).await {
            Err(error) if self.renews(&error, Permissions::Fetch) => {
                remote().await?.fetch_part(mirror, commit, part).await
            }
            fetched => fetched,
        }
    }

    async fn check_writable(&self) -> Result<(), Error> {
        match tokio::time::timeout(CHECK_LIMIT, self.refuse_read_only()).await {
            Err(_) => Ok(()),
            Ok(Err(error)) if error.is_outage() => Ok(()),
            Ok(checked) => checked,
        }
    }

    async fn publish(
        &self,
        from: &Path,
        branch: &BranchName,
        commit: &str,
        previous: Option<&str>,
    ) -> Result<Published, Error> {
        match self.push(from, branch, commit, previous).await {
            Err(error) if self.renews(&error, Permissions::Push) => self.push(from, branch, commit, previous).await,
            published => published,
        }
    }

    fn hosting(&self) -> Option<&dyn Hosting> {
        Some(self)
    }
}

/// Git has no more to say about a 401 than that it would ask for a name or a password now.
fn is_unauthorized(error: &(dyn std::error::Error + 'static)) -> bool {
    const SAID: [&str; 4] =
        ["Authentication failed", "could not read Username", "could not read Password", "error: 401"];
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if SAID.iter().any(|said| text.contains(said)) {
            return true;
        }
        next = error.source();
    }
    false
}

/// Someone waits for the answer, and delivery asks again.
const CHECK_LIMIT: std::time::Duration = std::time::Duration::from_secs(5);
/// A large branch over a slow line takes its time.
const PUSH_LIMIT: std::time::Duration = std::time::Duration::from_secs(600);

#[async_trait]
impl Hosting for GitHub {
    async fn propose(&self, proposal: &Proposal, person: Option<&SecretString>) -> Result<PullRequest, Error> {
        self.propose_pull_request(proposal, person).await
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, Error> {
        self.read_pull_request(number).await
    }

    async fn tell(&self, number: u64, marker: &str, text: &str) -> Result<(), Error> {
        self.tell_once(number, marker, text).await
    }

    async fn thread(&self, number: u64) -> Result<Thread, Error> {
        self.read_thread(number).await
    }

    async fn failed_checks(&self, commit: &str) -> Result<Vec<FailedCheck>, Error> {
        self.read_failed_checks(commit).await
    }

    async fn remarks(&self, pull_request: u64, review: u64) -> Result<Vec<Remark>, Error> {
        self.read_remarks(pull_request, review).await
    }

    async fn review(&self, pull_request: u64, review: &Review) -> Result<(), Error> {
        self.give_review(pull_request, review).await
    }

    async fn standing(&self, login: &str) -> Result<Standing, Error> {
        self.read_standing(login).await
    }
}
