//! What can be asked for, the same whether it is called a task or a session.

use axum::http::HeaderMap;
use harvest_api_types::Ask;
use harvest_core::{Code, MAX_PROMPT_BYTES, PromptError, budget};
use harvest_engine::{BaseChoice, Request, check_name, enter_race};
use harvest_store::Submitted;

use super::{races, record};
use crate::auth::Principal;
use crate::idempotency::Key;
use crate::problem::Problem;
use crate::repository_access;
use crate::state::App;

const LONGEST_TIMEOUT: u64 = 7 * 24 * 60 * 60;
const MOST_RETRIES: u32 = 20;
const MOST_DEPENDENCIES: usize = 100;
const MOST_NAMES: usize = 100;
const LONGEST_NAME: usize = 1000;

/// What can be told from the fields alone.
pub fn check(ask: &Ask) -> Result<(), Problem> {
    check_with(ask, Some(&ask.repository))
}

fn check_with(ask: &Ask, repository: Option<&String>) -> Result<(), Problem> {
    if ask.prompt.trim().is_empty() {
        return Err(Problem::new(Code::BadPrompt, "the prompt is empty").about("prompt").help("describe the task"));
    }
    if ask.prompt.len() > MAX_PROMPT_BYTES {
        let detail = format!("the prompt has more than {MAX_PROMPT_BYTES} bytes");
        let help = PromptError::TooLong { bytes: ask.prompt.len() }.help();
        return Err(Problem::new(Code::BadPrompt, detail).about("prompt").help(help));
    }
    if ask.timeout.is_some_and(|seconds| !(1..=LONGEST_TIMEOUT).contains(&seconds)) {
        return Err(Problem::bad("timeout", format!("the timeout is between 1 and {LONGEST_TIMEOUT} seconds")));
    }
    if let Some(Err(reason)) = ask.budget_usd.map(budget::checked) {
        let help = "name an amount of dollars, or leave it out for the one of the settings";
        return Err(Problem::bad("budget_usd", reason.to_string()).help(help));
    }
    if ask.retries.is_some_and(|retries| retries > MOST_RETRIES) {
        return Err(Problem::bad("retries", format!("there are at most {MOST_RETRIES} retries")));
    }
    if ask.after.len() > MOST_DEPENDENCIES {
        return Err(Problem::bad("after", format!("a task can wait for at most {MOST_DEPENDENCIES} others")));
    }
    if ask.race.is_some() && ask.convoy.is_some() {
        return Err(Problem::bad("convoy", "a race has its own convoy; leave it out"));
    }
    if ask.test.as_deref().is_some_and(|test| test.trim().is_empty()) {
        return Err(Problem::bad("test", "an empty command proves nothing; leave it out to have one detected"));
    }
    for (field, several) in [("mcp", &ask.mcp), ("fallback_agents", &ask.fallback_agents)] {
        if several.len() > MOST_NAMES {
            return Err(Problem::bad(field, format!("there are at most {MOST_NAMES} of them")));
        }
    }
    let judge = ask.race.as_ref().and_then(|race| race.judge.as_ref());
    let several = ask.mcp.iter().map(|name| ("mcp", Some(name)));
    let several = several.chain(ask.fallback_agents.iter().map(|name| ("fallback_agents", Some(name))));
    let names = [
        ("repository", repository),
        ("base", ask.base.as_ref()),
        ("agent", ask.agent.as_ref()),
        ("model", ask.model.as_ref()),
        ("convoy", ask.convoy.as_ref()),
        ("source_url", ask.source_url.as_ref()),
        ("plan_review", ask.plan_review.as_ref()),
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
    for (field, name) in [("base", &ask.base), ("convoy", &ask.convoy)] {
        name.as_deref().map_or(Ok(()), |name| check_name(field, name))?;
    }
    Ok(())
}

/// What is asked for again and again is asked of one.
pub fn check_kept(ask: &Ask) -> Result<(), Problem> {
    check_no_race(ask)?;
    check(ask)
}

/// The same for a template, whose repository may be named when it is used.
pub fn check_template(ask: &Ask) -> Result<(), Problem> {
    check_no_race(ask)?;
    check_with(ask, Some(&ask.repository).filter(|name| !name.is_empty()))
}

fn check_no_race(ask: &Ask) -> Result<(), Problem> {
    match ask.race {
        Some(_) => Err(Problem::bad("race", "only a task can be a race; templates and schedules cannot")),
        None => Ok(()),
    }
}

/// The repository becomes what its name stands for, if the person may name it.
pub async fn locate(ask: &mut Ask, app: &App, principal: &Principal) -> Result<(), Problem> {
    ask.repository = repository_access::accept(app, principal, &ask.repository).await?;
    record::concerns_repository(app, &principal.user, &ask.repository);
    Ok(())
}

/// Queues what is asked for.
pub async fn submit(app: &App, principal: &Principal, key: Option<Key>, mut ask: Ask) -> Result<Submitted, Problem> {
    check(&ask)?;
    locate(&mut ask, app, principal).await?;
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
        Some(race) => races::entrants(race, &ask)?,
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
