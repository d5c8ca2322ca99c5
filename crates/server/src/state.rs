//! What every request can reach.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::Method;
use harvest_core::{Clock, Code, Entropy, Role, Timestamp};
use harvest_engine::{DataFolder, Engine, Stop};
use harvest_store::{AccessToken, Error as StoreError, Store, TokenKind};
use harvest_telemetry::Exporter;
use tokio::sync::{Semaphore, watch};

use crate::api::health::Readiness;
use crate::auth::github::SignIn;
use crate::auth::{Cookie, Origins, Passes, Principal, secret};
use crate::desk::Desk;
use crate::events::{Feed, Presence, Tails};
use crate::limits::Limiter;
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::proxies::Proxies;
use crate::webhooks;

/// Cheap to clone.
pub type App = Arc<Shared>;

#[derive(Debug)]
pub struct Shared {
    pub store: Arc<dyn Store>,
    pub engine: Engine,
    pub data: DataFolder,
    pub desk: Arc<dyn Desk>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub origins: Origins,
    pub cookie: Cookie,
    /// Of browsers that left to sign in.
    pub errand: Cookie,
    /// With GitHub, where it is set up.
    pub sign_in: Option<Arc<SignIn>>,
    pub doorman: Doorman,
    pub rules: Rules,
    pub pace: Limiter,
    /// Bodies of webhooks whose sender is not known yet.
    pub intake: webhooks::Intake,
    pub proxies: Proxies,
    pub tails: Tails,
    pub feed: Feed,
    pub presence: Presence,
    pub metrics: Metrics,
    pub readiness: Readiness,
    /// Where traces go.
    pub telemetry: Exporter,
    /// Set when the process is asked to end, and still finishes what is under way.
    pub draining: Stop,
    /// Open streams, each of which ends with the token or session that it was opened with.
    pub passes: Passes,
    /// Set when the server is to end: streams say so and close.
    pub closing: Stop,
    /// One for each connection; WebSockets outlive theirs and hold another.
    pub places: Arc<Semaphore>,
}

/// Knows tokens that were shown lately, so that not every request asks the database. Whoever revokes one wakes the queue, and
/// whatever wakes the queue makes it forget: it may forget too often, and never too late.
#[derive(Debug)]
pub struct Doorman {
    store: Arc<dyn Store>,
    known: Mutex<Known>,
    /// Held while the database is asked for a token that has opened before, or was made here.
    questions: Semaphore,
    /// Held while the database is asked for any other token, so that made-up tokens neither take all of its connections nor
    /// keep those waiting whose token is known.
    unknown_questions: Semaphore,
    woken: watch::Receiver<u64>,
}

#[derive(Debug)]
struct Known {
    /// When nobody had revoked anything that we know of.
    version: u64,
    since: Instant,
    tokens: HashMap<String, AccessToken>,
    noted: HashMap<String, Timestamp>,
    /// The digests of tokens that exist. They say nothing about what a token opens, and outlive what is forgotten.
    real: HashSet<String>,
}

/// Should nobody be able to wake us, a token that was revoked elsewhere opens for so long at most.
const BELIEVED: Duration = Duration::from_secs(5);
const MOST_KNOWN: usize = 10_000;
const MOST_REAL: usize = 100_000;
/// Tokens that the database is asked for at a time; the next ones wait.
const QUESTIONS: usize = 4;
/// The same for tokens that may be made up, each in a queue of its own.
const UNKNOWN_QUESTIONS: usize = 2;
/// The time of a token's last use is kept to the minute.
const NOTE_EVERY: Duration = Duration::from_secs(60);

impl Doorman {
    pub fn new(store: Arc<dyn Store>) -> Self {
        let woken = store.watch_queue();
        let known = Known {
            version: 0,
            since: Instant::now(),
            tokens: HashMap::new(),
            noted: HashMap::new(),
            real: HashSet::new(),
        };
        let (questions, unknown_questions) = (Semaphore::new(QUESTIONS), Semaphore::new(UNKNOWN_QUESTIONS));
        Self { store, known: Mutex::new(known), questions, unknown_questions, woken }
    }

    /// Learns which tokens there are, so that none of them has to wait behind made-up ones when it is first shown.
    pub async fn learn(&self, now: Timestamp) -> Result<(), StoreError> {
        for kind in [TokenKind::Login, TokenKind::Person, TokenKind::Api, TokenKind::Personal] {
            for token in self.store.tokens(kind).await? {
                if token.revoked_at.is_none() && token.expires_at.is_none_or(|end| end > now) {
                    self.expect(token.digest);
                }
            }
        }
        Ok(())
    }

    /// A token of this digest exists.
    pub fn expect(&self, digest: String) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.real.len() >= MOST_REAL {
            known.real.clear();
        }
        known.real.insert(digest);
    }

    pub async fn find(&self, shown: &str) -> Result<Option<AccessToken>, StoreError> {
        let digest = secret::digest(shown);
        let version = *self.woken.borrow();
        let is_real = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.version != version || known.since.elapsed() > BELIEVED {
                (known.version, known.since) = (version, Instant::now());
                known.tokens.clear();
            } else if let Some(token) = known.tokens.get(&digest) {
                return Ok(Some(token.clone()));
            }
            known.real.contains(&digest)
        };
        let questions = if is_real { &self.questions } else { &self.unknown_questions };
        let question = questions.acquire().await;
        let found = self.store.token(&digest).await;
        drop(question);
        let found = found?;
        let opens = found.as_ref().is_some_and(|token| token.revoked_at.is_none());
        if opens && !is_real {
            self.expect(digest.clone());
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !opens {
            known.real.remove(&digest);
        }
        if let Some(token) = &found {
            // Read before someone revoked it, perhaps: then it is not worth keeping.
            if known.version == version && known.tokens.len() < MOST_KNOWN {
                known.tokens.insert(digest, token.clone());
            }
        }
        Ok(found)
    }

    pub fn forget(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.tokens.clear();
    }

    /// In the background: nobody waits for it, and losing one loses nothing.
    pub fn note_use(&self, token: &AccessToken, now: Timestamp) {
        {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let recent = now.checked_sub(NOTE_EVERY).unwrap_or(now);
            if known.noted.get(token.id.as_str()).is_some_and(|last| *last > recent) {
                return;
            }
            if known.noted.len() >= MOST_KNOWN {
                known.noted.clear();
            }
            known.noted.insert(token.id.to_string(), now);
        }
        let (store, id) = (self.store.clone(), token.id.clone());
        tokio::spawn(async move {
            if let Err(error) = store.token_used(&id, now).await {
                tracing::warn!(%error, "the last use of a token could not be noted");
            }
        });
    }
}

/// Who may call what, read from the document of the API.
#[derive(Debug)]
pub struct Rules(HashMap<(Method, String), Rule>);

#[derive(Debug, Clone)]
pub struct Rule {
    pub role: Role,
    /// Only for those who are not confined to some projects.
    pub everywhere: bool,
    /// The name in the audit log.
    pub operation: String,
}

/// Beside the role, in the security requirement of an operation that concerns the whole installation.
pub const EVERYWHERE: &str = "everywhere";

impl Rules {
    pub fn of(document: &utoipa::openapi::OpenApi) -> Self {
        let mut rules = HashMap::new();
        for (path, item) in &document.paths.paths {
            let operations = [
                (Method::GET, &item.get),
                (Method::POST, &item.post),
                (Method::PUT, &item.put),
                (Method::PATCH, &item.patch),
                (Method::DELETE, &item.delete),
            ];
            for (method, operation) in operations {
                let Some(operation) = operation else { continue };
                let needs = words(operation);
                if let Some(role) = needs.iter().find_map(|word| Role::parse(word)) {
                    let everywhere = needs.iter().any(|word| word == EVERYWHERE);
                    let name = operation.operation_id.clone().unwrap_or_default();
                    rules.insert((method, path.clone()), Rule { role, everywhere, operation: name });
                }
            }
        }
        Self(rules)
    }

    pub fn get(&self, method: &Method, path: &str) -> Option<&Rule> {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        self.0.get(&(method.clone(), path.to_owned()))
    }

    /// The rule of the operation, if its role allows it. Those who are confined to projects need the role in one of them; in
    /// which, only the operation itself can tell.
    pub fn check(&self, method: &Method, path: &str, principal: &Principal) -> Result<&Rule, Problem> {
        let Some(rule) = self.get(method, path) else {
            let detail = "the description of the API does not have this operation";
            return Err(Problem::new(Code::NotAllowed, detail));
        };
        if principal.role() < rule.role {
            let detail = format!("this needs the role {}; yours is {}", rule.role, principal.role());
            return Err(Problem::new(Code::NotAllowed, detail).help("ask an admin for a token with that role"));
        }
        if rule.everywhere && principal.role_everywhere() < Some(rule.role) {
            let detail = "this concerns the whole installation, and your role is limited to some projects";
            return Err(Problem::new(Code::NotAllowed, detail).help("use a token that is not bound to projects"));
        }
        Ok(rule)
    }
}

/// What the security requirement of an operation names: its role, and whether it concerns everything.
pub fn words(operation: &utoipa::openapi::path::Operation) -> Vec<String> {
    let requirements = operation.security.iter().flatten();
    requirements
        .filter_map(|requirement| serde_json::to_value(requirement).ok())
        .filter_map(|requirement| Some(requirement.as_object()?.values().next()?.clone()))
        .flat_map(|scopes| serde_json::from_value::<Vec<String>>(scopes).unwrap_or_default())
        .collect()
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
