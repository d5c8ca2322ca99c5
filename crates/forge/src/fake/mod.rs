//! A GitHub on this machine, to try everything without one: real repositories over real git, issues, pull requests, comments,
//! checks, reviews, an App with its installation, and signed webhooks. All of it but its tokens outlives a restart on the same
//! folder.
//!
//! People act through the same API: the token `token-ada` is Ada. What is not here answers 404.

mod access;
mod api;
mod checks;
mod git;
mod hooks;
mod issues;
mod pages;
mod pulls;
mod shapes;
mod world;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use harvest_core::Clock;
use harvest_workspace::{Git, Home};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use self::world::World;
use crate::Error;
use crate::github::Account;

/// The App that this GitHub knows: a key that opens nothing else.
const APP_ID: u64 = 4711;
const APP_KEY: &str = include_str!("app.pem");
const MOST_WAITING: usize = 4096;
/// All that it knows beside the repositories.
const STATE: &str = "github.json";

#[derive(Debug)]
pub struct Options {
    pub listen: SocketAddr,
    /// Where its repositories are kept.
    pub folder: PathBuf,
    /// Where webhooks go, and what they are signed with.
    pub hook: Option<Hook>,
    pub clock: Arc<dyn Clock>,
    /// Where it is said that a webhook was refused, or could not be delivered.
    pub notices: Option<mpsc::UnboundedSender<String>>,
}

#[derive(Debug, Clone)]
pub struct Hook {
    pub url: String,
    pub secret: SecretString,
    pub redelivery: Redelivery,
}

/// What becomes of a webhook when nobody listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redelivery {
    /// As at GitHub.
    Never,
    /// It is sent when the server is up, and all behind it in their order.
    UntilReached,
}

/// A running one. Ends with this.
#[derive(Debug)]
pub struct Fake {
    address: SocketAddr,
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

/// One request and its answer, to be held against GitHub's own description.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub method: String,
    /// Below the API, without the query.
    pub path: String,
    pub query: String,
    pub request: Option<Value>,
    pub status: u16,
    pub answer: Option<Value>,
}

#[derive(Debug)]
struct Shared {
    world: Mutex<World>,
    folder: PathBuf,
    web: String,
    clock: Arc<dyn Clock>,
    git: Git,
    hooks: mpsc::Sender<hooks::Event>,
    hook: Mutex<Option<Hook>>,
    notices: Option<mpsc::UnboundedSender<String>>,
    /// How many exchanges there were.
    exchanged: watch::Sender<usize>,
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down what changed.
    fn save(&self) {
        let saved = self.world().save(&self.folder.join(STATE));
        if let Err(error) = saved {
            tracing::error!(%error, "the fake GitHub cannot be saved");
        }
    }

    fn notice(&self, text: String) {
        tracing::warn!("{text}");
        if let Some(notices) = &self.notices {
            let _ = notices.send(text);
        }
    }

    fn now(&self) -> String {
        self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

impl Fake {
    pub async fn start(options: Options) -> Result<Self, Error> {
        let fail = |error: std::io::Error| Error::Unexpected { reason: error.to_string() };
        let cannot_listen = |error: std::io::Error| Error::Unexpected {
            reason: format!("cannot listen on {}: {error}", options.listen),
        };
        let listener = TcpListener::bind(options.listen).await.map_err(cannot_listen)?;
        tokio::fs::create_dir_all(&options.folder).await.map_err(fail)?;
        let world = World::load(&options.folder.join(STATE)).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let (hooks, events) = mpsc::channel(MOST_WAITING);
        let shared = Arc::new(Shared {
            world: Mutex::new(world),
            folder: options.folder,
            web: format!("http://{address}"),
            clock: options.clock,
            git: Git::new(Home::Nobody),
            hooks,
            hook: Mutex::new(options.hook),
            notices: options.notices,
            exchanged: watch::Sender::new(0),
        });
        let router = Router::new().fallback(api::answer).with_state(shared.clone());
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the fake GitHub ended");
            }
        });
        let telling = tokio::spawn(hooks::send(events, shared.clone()));
        Ok(Self { address, shared, tasks: vec![serving, telling] })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What goes into `harvest credential add github --base-url`.
    pub fn url(&self) -> &str {
        &self.shared.web
    }

    /// Makes a repository with what the repository at `from` has, or an empty one.
    pub async fn add_repository(&self, name: &str, from: Option<&Path>) -> Result<(), Error> {
        self.shared.add_repository(name, from).await
    }

    /// Whom else a repository belongs to.
    pub fn add_writer(&self, repository: &str, login: &str) {
        if let Some(repository) = self.shared.world().repositories.get_mut(repository) {
            repository.writers.insert(login.to_owned());
        }
    }

    /// Makes a repository read-only.
    pub fn archive(&self, repository: &str) {
        if let Some(repository) = self.shared.world().repositories.get_mut(repository) {
            repository.archived = true;
        }
    }

    /// Where a repository lies.
    pub fn repository(&self, name: &str) -> PathBuf {
        self.shared.folder.join(format!("{name}.git"))
    }

    /// Everything that was asked and answered so far.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.shared.world().exchanges.clone()
    }

    /// Webhooks go there from now on.
    pub fn send_hooks_to(&self, hook: Hook) {
        *self.shared.hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(hook);
    }

    /// Waits for an exchange, past or to come.
    pub async fn exchange(&self, wanted: impl Fn(&Exchange) -> bool) -> Exchange {
        let mut exchanged = self.shared.exchanged.subscribe();
        loop {
            exchanged.mark_unchanged();
            if let Some(found) = self.shared.world().exchanges.iter().find(|exchange| wanted(exchange)) {
                return found.clone();
            }
            if exchanged.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Answers so many requests with this, for whoever has to live with it.
    pub fn refuse_next(&self, times: usize, status: u16, headers: &[(&str, &str)]) {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.shared.world().refusals.extend(std::iter::repeat_n((status, headers), times));
    }

    /// Answers so many requests, of the API and of git, with nothing but that it cannot now.
    pub fn fail_next(&self, times: usize) {
        self.shared.world().outage = times;
    }

    /// Does what the next such request asks for, and answers as a proxy that waited too long for it.
    pub fn lose_next_answer(&self, method: &str, path_end: &str) {
        self.shared.world().lost_answers.push((method.to_owned(), path_end.to_owned()));
    }

    /// As if all tokens had expired.
    pub fn forget_tokens(&self) {
        self.shared.world().tokens.clear();
    }

    /// How many of these are left.
    pub fn outage(&self) -> usize {
        self.shared.world().outage
    }

    /// The secret with which Harvest is the App of this GitHub.
    pub fn app(webhook_secret: Option<&str>) -> SecretString {
        let mut document = json!({ "app_id": APP_ID, "private_key": APP_KEY });
        if let Some(secret) = webhook_secret {
            document["webhook_secret"] = json!(secret);
        }
        SecretString::from(document.to_string())
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// What the App's signatures are checked with.
fn app_public_key() -> Option<Vec<u8>> {
    Account::parse(&Fake::app(None)).ok().and_then(|account| account.public_key())
}
