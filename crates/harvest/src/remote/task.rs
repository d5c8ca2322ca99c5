//! `harvest task …` over HTTP.

use std::path::Path;

use harvest_api_types::TaskPullRequest;
use harvest_core::{Clock, Code, Event, ListedTask, Overlap, Prompt, Session, Task as CoreTask};
use harvest_outbound::{Method, escape};
use harvest_store::{ListedPage, TaskDetail};
use serde::Deserialize;
use serde_json::{Value, json};

use super::journal::Journal;
use super::{Remote, parse, race, refusal};
use crate::ask;
use crate::cli::{Ask, AskOptions, Global, OnFailed, QueueOptions, Standing, Task, TaskAdd};
use crate::failure::{Exit, Failure};
use crate::follow::{Following, ends};
use crate::installation::SystemClock;
use crate::output;
use crate::task::cancel::ended;
use crate::task::delete::say_deleted;
use crate::task::look;
use crate::task::plan::read_plan;
use crate::task::warnings;
use crate::view::{Activity, Style};

/// The same object as the server's.
#[derive(Deserialize)]
pub struct Detail {
    #[serde(flatten)]
    pub task: CoreTask,
    pub sessions: Vec<Session>,
    #[serde(default)]
    overlaps: Vec<Overlap>,
    #[serde(default)]
    pull_request: Option<TaskPullRequest>,
}

#[derive(Deserialize)]
struct Page<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct EventPage {
    items: Vec<Event>,
    next_cursor: Option<u64>,
}

pub async fn task(global: &Global, style: Style, remote: &Remote, command: Task) -> Result<Exit, Failure> {
    match command {
        Task::Add(options) => add(global, style, remote, *options).await,
        Task::List { status, repo, convoy, limit, cursor } => {
            let asked = look::Listing::new(status, repo.as_deref(), convoy.as_deref(), limit);
            let given = [
                ("status", status.map(|status| status.to_string())),
                ("repository", repo),
                ("convoy", convoy),
                ("cursor", cursor),
                ("limit", Some(limit.to_string())),
            ];
            let given = given.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", escape(&value?))));
            let page: Page<ListedTask> =
                remote.get(&format!("/api/tasks?{}", given.collect::<Vec<_>>().join("&"))).await?;
            let page = ListedPage { items: page.items, next_cursor: page.next_cursor };
            look::list_page(global, style, &page, SystemClock.now(), &asked);
            Ok(Exit::Done)
        }
        Task::Show { id } => {
            let answer: Value = remote.get(&format!("/api/tasks/{}", find(remote, &id).await?)).await?;
            if global.json {
                let _ = output::json(&answer);
                return Ok(Exit::Done);
            }
            let Detail { task, sessions, overlaps, pull_request } = parse(&answer)?;
            let awaited = statuses(remote, std::slice::from_ref(&task)).await?;
            let warnings = match sessions.first() {
                Some(session) => warnings_of(remote, session.id.as_str()).await?,
                None => Vec::new(),
            };
            let beside =
                look::Beside { overlaps, pull_request, warnings, statuses: awaited, ..look::Beside::default() };
            look::show_detail(style, &TaskDetail { task, sessions }, &beside);
            Ok(Exit::Done)
        }
        Task::Logs { id, follow } => logs(global, style, remote, &id, follow).await,
        Task::Diff { id } => {
            let detail = detail(remote, &id).await?;
            let Some(session) = detail.sessions.first() else { return Ok(Exit::Done) };
            let diff: Value = remote.get(&format!("/api/sessions/{}/diff", session.id)).await?;
            look::show_diff(global, style, &diff, diff["diff"].as_str().unwrap_or_default().as_bytes());
            Ok(Exit::Done)
        }
        Task::Apply { .. } => {
            let message = "a server's work cannot be merged here: its branch is in its own repository";
            let help = "fetch the branch, or unset HARVEST_URL on the machine that has the repository";
            Err(Failure::refused(Code::CannotApply, message, help))
        }
        Task::Retry { id } => act(global, style, remote, &id, "retry", &json!({}), "is in the queue again").await,
        Task::Approve { id, edit } => {
            let plan = edit.as_deref().map(|path: &Path| read_plan(path)).transpose()?;
            let body = plan.map_or_else(|| json!({}), |plan| json!({ "plan": plan }));
            act(global, style, remote, &id, "approve", &body, "is approved and continues").await
        }
        Task::Reject { id, comment } => {
            let words = if comment.is_some() { "will be revised" } else { "is cancelled" };
            let body = comment.map_or_else(|| json!({}), |comment| json!({ "comment": comment }));
            act(global, style, remote, &id, "reject", &body, words).await
        }
        Task::Cancel { id } => {
            act(global, style, remote, &id, "cancel", &json!({}), "is stopping or has stopped").await
        }
        Task::Delete { id } => {
            let detail = detail(remote, &id).await?;
            for session in &detail.sessions {
                let answer =
                    remote.ask(remote.request(Method::DELETE, &format!("/api/sessions/{}", session.id))).await?;
                if !answer.is_success() {
                    return Err(refusal(&answer));
                }
            }
            let branch = detail.task.branch.as_ref().map(ToString::to_string);
            say_deleted(global, style, detail.task.id.as_str(), branch.as_deref());
            Ok(Exit::Done)
        }
        Task::Terminate { id } => {
            act(global, style, remote, &id, "terminate", &json!({}), "is being killed or has stopped").await
        }
    }
}

/// What people were warned of when a task was given.
async fn warnings_of(remote: &Remote, session: &str) -> Result<Vec<String>, Failure> {
    let path = format!("/api/sessions/{session}/events?limit={}", warnings::FIRST_EVENTS);
    let page: EventPage = remote.get(&path).await?;
    Ok(warnings::among(page.items))
}

pub(super) async fn find(remote: &Remote, prefix: &str) -> Result<String, Failure> {
    remote.find("/api/tasks", prefix).await?.ok_or_else(|| {
        let message = format!("no task's id begins with `{}`", crate::view::clean(prefix));
        Failure::refused(Code::UnknownTask, message, "see `harvest task list`")
    })
}

/// Of everything that the pending ones of these tasks were queued behind, as far as the server shows them.
async fn statuses(remote: &Remote, tasks: &[CoreTask]) -> Result<look::Statuses, Failure> {
    let mut known: look::Statuses = tasks.iter().map(|task| (task.id.clone(), task.status)).collect();
    for id in look::awaited(tasks) {
        if !known.contains_key(id) {
            let awaited: Result<CoreTask, Failure> = remote.get(&format!("/api/tasks/{id}")).await;
            known.extend(awaited.ok().map(|task| (task.id, task.status)));
        }
    }
    Ok(known)
}

async fn detail(remote: &Remote, prefix: &str) -> Result<Detail, Failure> {
    remote.get(&format!("/api/tasks/{}", find(remote, prefix).await?)).await
}

async fn add(global: &Global, style: Style, remote: &Remote, add: TaskAdd) -> Result<Exit, Failure> {
    let race = add.race.race.as_ref().map(|entrants| race::body(entrants, &add.race));
    let answer = submit(remote, add.ask, add.queue, race).await?;
    let Detail { task, sessions, .. } = parse(&answer)?;
    if let Some(race) = task.settings.race.as_ref().filter(|_| !global.json) {
        return race::added(style, remote, race).await;
    }
    let _ = if global.json {
        output::json(&answer)
    } else {
        let priority = task.priority.as_str();
        output::line(&format!(
            "{} task {} is queued at {} ({priority})",
            style.ok(),
            style.bold(task.id.short()),
            remote.url()
        ))
    };
    if let Some(session) = sessions.first() {
        warnings::say(&warnings_of(remote, session.id.as_str()).await?);
    }
    Ok(Exit::Done)
}

/// What an option says that the API has no word for.
pub fn here_only(option: &str) -> Failure {
    let message = format!("{option} is for work on this machine, and HARVEST_URL names a server");
    Failure::refused(Code::BadOption, message, "leave it out, or unset HARVEST_URL")
}

/// The new task, as the server shows it.
pub async fn submit(remote: &Remote, ask: Ask, queue: QueueOptions, race: Option<Value>) -> Result<Value, Failure> {
    let prompt = ask::read_prompt(&ask.prompt)?;
    let mut body = ask_body(&prompt, ask.options, queue.standing)?;
    add_dependencies(&mut body, queue.after, queue.on_failed_dependency);
    let more = [("source_url", queue.source_url.map(Value::from)), ("race", race)];
    for (name, value) in more {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    remote.post_once("/api/tasks", &body, queue.idempotency_key).await
}

/// What a task waits for.
pub fn add_dependencies(body: &mut Value, after: Vec<String>, on_failed: OnFailed) {
    body["after"] = after.into();
    body["on_failed_dependency"] = match on_failed {
        OnFailed::Hold => "hold".into(),
        OnFailed::Cancel => "cancel".into(),
    };
}

/// What is asked for, as the API takes it.
pub fn ask_body(prompt: &Prompt, options: AskOptions, standing: Standing) -> Result<Value, Failure> {
    if options.repo.is_none() {
        let message = "the server does not know the folder you are in: --repo is missing";
        let help = "name a repository of the server, its path there, or a URL";
        return Err(Failure::refused(Code::BadOption, message, help));
    }
    let mut body = options_body(options, standing);
    body["prompt"] = json!(prompt);
    Ok(body)
}

/// The options of a task, without its prompt. Without a repository where none is named.
pub fn options_body(options: AskOptions, standing: Standing) -> Value {
    let care = options.care;
    let mut body = json!({
        "require_tests": options.require_tests,
        "plan": options.plan,
        "gate": care.gate,
        "mcp": care.mcp,
        "fallback_agents": options.fallback_agent,
    });
    let more = [
        ("repository", options.repo.map(Value::from)),
        ("base", options.base.map(Value::from)),
        ("agent", options.agent.map(Value::from)),
        ("model", options.model.map(Value::from)),
        ("test", options.test.map(Value::from)),
        ("timeout", options.timeout.map(|time| time.as_secs().max(1).into())),
        ("budget_usd", options.budget_usd.map(|cost| json!(cost))),
        ("priority", standing.priority.map(|priority| json!(priority))),
        ("convoy", standing.convoy.map(Value::from)),
        ("retries", standing.retries.map(Value::from)),
        ("plan_review", care.review_plan.map(Value::from)),
        ("workflow", care.workflow.map(|workflow| workflow.name().into())),
    ];
    for (name, value) in more {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    body
}

async fn act(
    global: &Global,
    style: Style,
    remote: &Remote,
    prefix: &str,
    action: &str,
    body: &Value,
    words: &str,
) -> Result<Exit, Failure> {
    let id = find(remote, prefix).await?;
    let answer: Value = remote.post(&format!("/api/tasks/{id}/{action}"), body).await?;
    let Detail { task, .. } = parse(&answer)?;
    let _ = if global.json {
        output::json(&answer)
    } else {
        let words = match action {
            "cancel" | "terminate" if task.status.is_finished() => ended(style, &task, false),
            _ => format!("{} task {} {words}", style.ok(), style.bold(task.id.short())),
        };
        output::line(&words)
    };
    Ok(Exit::Done)
}

async fn logs(global: &Global, style: Style, remote: &Remote, prefix: &str, follow: bool) -> Result<Exit, Failure> {
    let Detail { task, sessions, .. } = detail(remote, prefix).await?;
    if follow && task.status == harvest_core::TaskStatus::Pending {
        remote.tell_idle().await;
    }
    for session in sessions {
        let mut activity = Activity::new(style);
        if follow && !task.status.is_finished() {
            let mut journal = Journal::new(remote, &session.id.to_string());
            let mut ended = false;
            while !ended {
                for event in journal.next().await? {
                    ended = ends(&event);
                    if look::print_logged(global, style, &mut activity, &event).is_err() {
                        return Ok(Exit::Done);
                    }
                }
            }
            continue;
        }
        let mut after = 0;
        loop {
            let path = format!("/api/sessions/{}/events?after={after}&limit=1000", session.id);
            let page: EventPage = remote.get(&path).await?;
            for event in &page.items {
                if look::print_logged(global, style, &mut activity, event).is_err() {
                    return Ok(Exit::Done);
                }
            }
            match page.next_cursor {
                Some(next) => after = next,
                None => break,
            }
        }
    }
    Ok(Exit::Done)
}
