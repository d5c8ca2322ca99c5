//! The same commands against a server: `HARVEST_URL` names it, and `harvest login` keeps the token for it.

mod convoy;
mod credential;
mod evidence;
mod interrupt;
mod journal;
mod queue;
mod race;
pub mod reach;
mod repo;
mod run;
mod schedule;
mod session;
mod status;
mod task;
mod template;
mod token;

pub use convoy::convoy;
pub use credential::credential;
pub use evidence::{evidence, evidence_key};
pub use interrupt::interrupt;
pub use journal::Journal;
pub use queue::queue;
pub use race::table as race_table;
pub use repo::repo;
pub use run::run;
pub use schedule::schedule;
pub use session::session;
pub use status::status;
pub use task::task;
pub use template::template;
pub use token::token;

use std::time::Duration;

use harvest_api_types::{Page, Problem, Queue};
use harvest_core::Code;
use harvest_outbound::{Answer, Ask, Client, Method, Stream, escape};
use harvest_vault::{ExposeSecret, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cli::Global;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::{follow, login};

const PATIENCE: Duration = Duration::from_secs(60);

/// A server, and who we are to it.
#[derive(Debug)]
pub struct Remote {
    client: Client,
    url: String,
    token: SecretString,
}

impl Remote {
    /// The one that `HARVEST_URL` names, unless the command line names a place of its own.
    pub fn of(global: &Global, environment: &Environment) -> Result<Option<Self>, Failure> {
        let Some(url) = environment.text("HARVEST_URL") else { return Ok(None) };
        if global.data_dir.is_some() || global.database_url.is_some() {
            return Ok(None);
        }
        let url = login::server(url)?;
        let token = match environment.text("HARVEST_TOKEN") {
            Some(token) => SecretString::from(token.to_owned()),
            None => login::token(environment, &url)?,
        };
        Ok(Some(Self::new(url, token)))
    }

    pub fn new(url: String, token: SecretString) -> Self {
        Self { client: Client::new(PATIENCE), url, token }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        read(&self.ask(self.request(Method::GET, path)).await?)
    }

    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        read(&self.ask(self.request(Method::POST, path).json(body)).await?)
    }

    pub async fn patch<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        read(&self.ask(self.request(Method::PATCH, path).json(body)).await?)
    }

    pub async fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        read(&self.ask(self.request(Method::PUT, path).json(body)).await?)
    }

    /// Removes something; nothing comes back.
    async fn delete(&self, path: &str) -> Result<(), Failure> {
        let answer = self.ask(self.request(Method::DELETE, path)).await?;
        if answer.is_success() { Ok(()) } else { Err(refusal(&answer)) }
    }

    /// All of a list that has no pages.
    async fn items<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, Failure> {
        Ok(self.get::<Page<T>>(path).await?.items)
    }

    /// With a key that makes asking twice the same as asking once.
    async fn post_once<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        key: Option<String>,
    ) -> Result<T, Failure> {
        let request = self.request(Method::POST, path).json(body);
        let request = match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        read(&self.ask(request).await?)
    }

    /// The one whose id begins so, of `/api/tasks` or `/api/sessions`.
    async fn find(&self, list: &str, prefix: &str) -> Result<Option<String>, Failure> {
        let items: Vec<Value> = self.items(&format!("{list}?id={}", escape(prefix))).await?;
        Ok(items.first().and_then(|item| item["id"].as_str()).map(str::to_owned))
    }

    fn request(&self, method: Method, path: &str) -> Ask {
        let token = format!("Bearer {}", self.token.expose_secret());
        Ask::new(method, format!("{}{path}", self.url)).header("authorization", token)
    }

    /// Says why a follower may have to wait for long. Whoever may not look at the queue is not told.
    async fn tell_idle(&self) {
        if let Ok(queue) = self.get::<Queue>("/api/queue").await {
            follow::tell_idle(queue.workers, queue.paused);
        }
    }

    /// An answer that goes on, and its status.
    async fn stream(&self, ask: Ask) -> Result<(u16, Stream), Failure> {
        self.client.stream(ask).await.map_err(|error| self.unreachable(&error))
    }

    async fn ask(&self, ask: Ask) -> Result<Answer, Failure> {
        self.client.ask(ask).await.map_err(|error| self.unreachable(&error))
    }

    fn unreachable(&self, error: &harvest_outbound::Error) -> Failure {
        let message = format!("no answer from the server {}: {error}", self.url);
        let help = "check HARVEST_URL and that the server runs; unset it to work on this machine";
        Failure { exit: Exit::Failed, ..Failure::refused(Code::ServerUnreachable, message, help) }
    }
}

/// The answer, or the problem in the server's own words.
fn read<T: DeserializeOwned>(answer: &Answer) -> Result<T, Failure> {
    if answer.is_success() {
        return answer.json().map_err(|error| not_ours(&error.to_string()));
    }
    Err(refusal(answer))
}

/// Something in an answer that was read whole, since `--json` prints it as it is.
pub fn parse<T: DeserializeOwned>(value: &Value) -> Result<T, Failure> {
    serde_json::from_value(value.clone()).map_err(|error| not_ours(&error.to_string()))
}

/// What the server says in an answer that is no success.
fn refusal(answer: &Answer) -> Failure {
    let Ok(document) = answer.json::<Value>() else {
        return not_ours(&format!("it is not a response from Harvest (status {})", answer.status));
    };
    let problem: Option<Problem> = serde_json::from_value(document).ok();
    let code = problem.as_ref().and_then(|problem| problem.code.parse::<Code>().ok());
    let (Some(problem), Some(code)) = (problem, code) else {
        return not_ours(&format!("an unknown error code, with status {}", answer.status));
    };
    let field = problem.field.map(|field| format!("{field}: ")).unwrap_or_default();
    let message = format!("{field}{}", problem.detail);
    let exit = if answer.status >= 500 { Exit::Failed } else { Exit::Refused };
    // The server tells programs of a header; here it is the token that was given or kept.
    let help = match code {
        Code::NotSignedIn => Some("check HARVEST_TOKEN, or sign in with another token: harvest login".to_owned()),
        _ => problem.help,
    };
    Failure { code, message: crate::view::clean(&message), help, exit }
}

fn not_ours(why: &str) -> Failure {
    let help = "check HARVEST_URL: something else seems to listen there, or another version";
    Failure::refused(Code::ServerUnreachable, format!("the server's answer cannot be read: {why}"), help)
}
