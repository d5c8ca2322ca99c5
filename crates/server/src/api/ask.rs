//! What can be asked for, the same whether it is called a task or a session.

use axum::http::HeaderMap;
use harvest_core::{Code, Cost, MAX_PROMPT_BYTES, OnFailedDependency, Priority, PromptError, Workflow, budget};
use harvest_engine::{BaseChoice, Request, check_name, enter_race};
use harvest_store::Submitted;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::races::AskRace;
use super::record;
use crate::auth::Principal;
use crate::idempotency::Key;
use crate::problem::Problem;
use crate::repository_access;
use crate::state::App;

/// A task to create. Fields that are left out have the values of the settings of the repository, its project and the
/// server.
#[derive(Debug, Clone, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// What to do, in plain words.
    #[schema(min_length = 1, example = "Make the failing test pass")]
    pub prompt: String,
    /// A name from `/api/repositories`, or the path or URL of a known repository. Admins of the installation may name
    /// any other.
    #[schema(min_length = 1, example = "shop")]
    pub repository: String,
    /// The branch, tag or commit to start from; default: the repository's own branch.
    pub base: Option<String>,
    /// An id from `/api/agents`.
    pub agent: Option<String>,
    /// The model of the agent; default: the agent's own choice.
    pub model: Option<String>,
    /// The test command; default: the one found in the repository.
    pub test: Option<String>,
    /// Fail rather than deliver without a test command.
    #[serde(default)]
    pub require_tests: bool,
    /// The priority in the queue; default: `normal`.
    pub priority: Option<Priority>,
    /// Ids of tasks that have to complete first; a unique prefix is enough.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub after: Vec<String>,
    #[serde(default)]
    pub on_failed_dependency: OnFailedDependency,
    /// The convoy it belongs to.
    pub convoy: Option<String>,
    /// How often to retry automatically after a temporary failure.
    #[schema(maximum = 20)]
    pub retries: Option<u32>,
    /// The most that the task may cost, in US dollars.
    #[serde(default, deserialize_with = "budget_usd")]
    #[schema(value_type = Option<f64>, exclusive_minimum = 0, example = 2.5)]
    pub budget_usd: Option<Cost>,
    /// The time limit of the agent for a turn, in seconds.
    #[schema(minimum = 1, maximum = 604800)]
    pub timeout: Option<u64>,
    /// Make a plan first, which a person approves or rejects.
    #[serde(default)]
    pub plan: bool,
    /// An agent that reviews the plan before a person decides, as `AGENT` or `AGENT:MODEL`.
    pub plan_review: Option<String>,
    /// The steps of the work.
    pub workflow: Option<Workflow>,
    /// Hold the tested result until a person approves its delivery.
    #[serde(default)]
    pub gate: bool,
    /// Names of the MCP servers that the agent may use.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub mcp: Vec<String>,
    /// Agents that continue, in this order, when a model's quota is exhausted.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub fallback_agents: Vec<String>,
    /// The URL of the issue, thread or message that it came from.
    pub source_url: Option<String>,
    /// Run several agents in parallel, each as a task of its own; the response is the first of these tasks.
    pub race: Option<AskRace>,
}

const LONGEST_TIMEOUT: u64 = 7 * 24 * 60 * 60;
const MOST_RETRIES: u32 = 20;
const MOST_DEPENDENCIES: usize = 100;
const MOST_NAMES: usize = 100;
const LONGEST_NAME: usize = 1000;

/// A negative amount is read as none: [`Ask::check`] refuses both, and names the field also where a task is part of another body.
fn budget_usd<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cost>, D::Error> {
    let Some(dollars) = Option::<f64>::deserialize(deserializer)? else { return Ok(None) };
    match budget::of_dollars(dollars) {
        Ok(cost) => Ok(Some(cost)),
        Err(budget::BadBudget::NotPositive) => Ok(Some(Cost::ZERO)),
        Err(reason) => Err(serde::de::Error::custom(reason)),
    }
}

impl Ask {
    /// What can be told from the fields alone.
    pub fn check(&self) -> Result<(), Problem> {
        self.check_with(Some(&self.repository))
    }

    fn check_with(&self, repository: Option<&String>) -> Result<(), Problem> {
        if self.prompt.trim().is_empty() {
            return Err(Problem::new(Code::BadPrompt, "the prompt is empty").about("prompt").help("describe the task"));
        }
        if self.prompt.len() > MAX_PROMPT_BYTES {
            let detail = format!("the prompt has more than {MAX_PROMPT_BYTES} bytes");
            let help = PromptError::TooLong { bytes: self.prompt.len() }.help();
            return Err(Problem::new(Code::BadPrompt, detail).about("prompt").help(help));
        }
        if self.timeout.is_some_and(|seconds| !(1..=LONGEST_TIMEOUT).contains(&seconds)) {
            return Err(Problem::bad("timeout", format!("the timeout is between 1 and {LONGEST_TIMEOUT} seconds")));
        }
        if let Some(Err(reason)) = self.budget_usd.map(budget::checked) {
            let help = "name an amount of dollars, or leave it out for the one of the settings";
            return Err(Problem::bad("budget_usd", reason.to_string()).help(help));
        }
        if self.retries.is_some_and(|retries| retries > MOST_RETRIES) {
            return Err(Problem::bad("retries", format!("there are at most {MOST_RETRIES} retries")));
        }
        if self.after.len() > MOST_DEPENDENCIES {
            return Err(Problem::bad("after", format!("a task can wait for at most {MOST_DEPENDENCIES} others")));
        }
        if self.race.is_some() && self.convoy.is_some() {
            return Err(Problem::bad("convoy", "a race has its own convoy; leave it out"));
        }
        if self.test.as_deref().is_some_and(|test| test.trim().is_empty()) {
            return Err(Problem::bad("test", "an empty command proves nothing; leave it out to have one detected"));
        }
        for (field, several) in [("mcp", &self.mcp), ("fallback_agents", &self.fallback_agents)] {
            if several.len() > MOST_NAMES {
                return Err(Problem::bad(field, format!("there are at most {MOST_NAMES} of them")));
            }
        }
        let judge = self.race.as_ref().and_then(|race| race.judge.as_ref());
        let several = self.mcp.iter().map(|name| ("mcp", Some(name)));
        let several = several.chain(self.fallback_agents.iter().map(|name| ("fallback_agents", Some(name))));
        let names = [
            ("repository", repository),
            ("base", self.base.as_ref()),
            ("agent", self.agent.as_ref()),
            ("model", self.model.as_ref()),
            ("convoy", self.convoy.as_ref()),
            ("source_url", self.source_url.as_ref()),
            ("plan_review", self.plan_review.as_ref()),
            ("race", judge),
        ];
        for (field, name) in names.into_iter().chain(several) {
            let Some(name) = name else { continue };
            if name.trim().is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_control) {
                let detail = format!("it is empty, longer than {LONGEST_NAME} bytes, or has control characters");
                return Err(Problem::bad(field, detail));
            }
        }
        // Agents and servers are among those that there are; in other texts a key is replaced.
        for (field, name) in [("base", &self.base), ("convoy", &self.convoy)] {
            name.as_deref().map_or(Ok(()), |name| check_name(field, name))?;
        }
        Ok(())
    }

    /// What is asked for again and again is asked of one.
    pub fn check_kept(&self) -> Result<(), Problem> {
        self.check_no_race()?;
        self.check()
    }

    /// The same for a template, whose repository may be named when it is used.
    pub fn check_template(&self) -> Result<(), Problem> {
        self.check_no_race()?;
        self.check_with(Some(&self.repository).filter(|name| !name.is_empty()))
    }

    fn check_no_race(&self) -> Result<(), Problem> {
        match self.race {
            Some(_) => Err(Problem::bad("race", "only a task can be a race; templates and schedules cannot")),
            None => Ok(()),
        }
    }

    /// The repository becomes what its name stands for, if the person may name it.
    pub async fn locate(&mut self, app: &App, principal: &Principal) -> Result<(), Problem> {
        self.repository = repository_access::accept(app, principal, &self.repository).await?;
        record::concerns_repository(app, &principal.user, &self.repository);
        Ok(())
    }
}

/// Queues what is asked for.
pub async fn submit(app: &App, principal: &Principal, key: Option<Key>, mut ask: Ask) -> Result<Submitted, Problem> {
    ask.check()?;
    ask.locate(app, principal).await?;
    let mut after = Vec::new();
    for prefix in &ask.after {
        let unknown = || {
            let detail = format!("there is no task `{}` to wait for", prefix.escape_debug());
            Problem::new(Code::UnknownDependency, detail).about("after").help("see GET /api/tasks")
        };
        let id = app.store.find_task(prefix, principal.repositories()).await.map_err(|_| unknown())?;
        let task = app.store.task(&id).await?.task;
        if !principal.sees_repository(&task.repository) {
            return Err(unknown());
        }
        after.push(id);
    }
    let asks = match &ask.race {
        Some(race) => race.entrants(&ask)?,
        None => vec![ask.clone()],
    };
    let mut requests = Vec::with_capacity(asks.len());
    for (index, each) in asks.iter().enumerate() {
        let request: Request = app.desk.request(each, &principal.user).await?;
        principal.must_see_repository(request.forge.name())?;
        let mut request = Request { source: principal.source(), requested_by: principal.user.clone(), ..request };
        request.queue.token = principal.counted_token();
        request.queue.after.clone_from(&after);
        if each.base.is_none() {
            request.queue.base = BaseChoice::Dependencies;
        }
        request.queue.on_failed_dependency = ask.on_failed_dependency;
        request.queue.source_url.clone_from(&ask.source_url);
        request.queue.key = key.clone().map(|key| key.of_several(index));
        requests.push(request);
    }
    if let Some(race) = &ask.race {
        enter_race(app.entropy.as_ref(), &mut requests, race.judged_by, race.judge.clone());
    }
    let submitted = app.engine.submit_all(requests).await?;
    submitted.into_iter().next().ok_or_else(|| Problem::new(Code::Internal, "nothing was queued"))
}

/// Where the new thing is.
pub fn location(path: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(value) = path.parse() {
        headers.insert(axum::http::header::LOCATION, value);
    }
    headers
}
