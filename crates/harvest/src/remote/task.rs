//! `harvest task …` over HTTP.

use std::path::Path;

use harvest_api_types::{Approval, AskRace, Diff, EventPage, Page, Rejection, TaskDetail};
use harvest_core::{Clock, Code, ListedTask, OnFailedDependency, Prompt, Task as CoreTask, Workflow};
use harvest_outbound::escape;
use harvest_store::ListedPage;
use serde::Serialize;
use serde_json::{Value, json};

use super::journal::Journal;
use super::{Remote, parse, race};
use crate::ask;
use crate::cli::{Ask, AskOptions, Global, OnFailed, QueueOptions, Standing, Task, TaskAdd};
use crate::failure::{Exit, Failure};
use crate::follow::{Following, ends};
use crate::installation::SystemClock;
use crate::output;
use crate::task::cancel::ended;
use crate::task::delete::{must_be_delivered, say_deleted};
use crate::task::look;
use crate::task::plan::read_plan;
use crate::task::warnings;
use crate::view::{Activity, Style};

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
            let TaskDetail { task, sessions, overlaps, pull_request } = parse(&answer)?;
            let awaited = statuses(remote, std::slice::from_ref(&task)).await?;
            let warnings = match sessions.first() {
                Some(session) => warnings_of(remote, session.id.as_str()).await?,
                None => Vec::new(),
            };
            let beside =
                look::Beside { overlaps, pull_request, warnings, statuses: awaited, ..look::Beside::default() };
            look::show_detail(style, &harvest_store::TaskDetail { task, sessions }, &beside);
            Ok(Exit::Done)
        }
        Task::Logs { id, follow } => logs(global, style, remote, &id, follow).await,
        Task::Diff { id } => {
            let detail = detail(remote, &id).await?;
            let Some(session) = detail.sessions.first() else { return Ok(Exit::Done) };
            let status = detail.task.status;
            let answer: Value = remote.get(&format!("/api/sessions/{}/diff", session.id)).await?;
            let Diff { diff, .. } = parse(&answer)?;
            look::show_diff(global, style, &answer, diff.as_bytes(), status);
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
            let body = Approval { plan };
            act(global, style, remote, &id, "approve", &body, "is approved and continues").await
        }
        Task::Reject { id, comment } => {
            let words = if comment.is_some() { "will be revised" } else { "is cancelled" };
            let body = Rejection { comment };
            act(global, style, remote, &id, "reject", &body, words).await
        }
        Task::Cancel { id } => {
            act(global, style, remote, &id, "cancel", &json!({}), "is stopping or has stopped").await
        }
        Task::Delete { id, force } => {
            let detail = detail(remote, &id).await?;
            if !force {
                must_be_delivered(&detail.task)?;
            }
            for session in &detail.sessions {
                remote.delete(&format!("/api/sessions/{}", session.id)).await?;
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

async fn detail(remote: &Remote, prefix: &str) -> Result<TaskDetail, Failure> {
    remote.get(&format!("/api/tasks/{}", find(remote, prefix).await?)).await
}

async fn add(global: &Global, style: Style, remote: &Remote, add: TaskAdd) -> Result<Exit, Failure> {
    let race = add.race.race.as_ref().map(|entrants| race::body(entrants, &add.race));
    let answer = submit(remote, add.ask, add.queue, race).await?;
    let TaskDetail { task, sessions, .. } = parse(&answer)?;
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
pub async fn submit(remote: &Remote, ask: Ask, queue: QueueOptions, race: Option<AskRace>) -> Result<Value, Failure> {
    let prompt = ask::read_prompt(&ask.prompt)?;
    let body = harvest_api_types::Ask {
        after: queue.after,
        on_failed_dependency: on_failed(queue.on_failed_dependency),
        source_url: queue.source_url,
        race,
        ..ask_of(prompt, ask.options, queue.standing)?
    };
    remote.post_once("/api/tasks", &body, queue.idempotency_key).await
}

pub fn on_failed(named: OnFailed) -> OnFailedDependency {
    match named {
        OnFailed::Hold => OnFailedDependency::Hold,
        OnFailed::Cancel => OnFailedDependency::Cancel,
    }
}

/// The request for a task, as the API takes it.
pub fn ask_of(prompt: Prompt, options: AskOptions, standing: Standing) -> Result<harvest_api_types::Ask, Failure> {
    if options.repo.is_none() {
        let message = "the server does not know the folder you are in: --repo is missing";
        let help = "name a repository of the server, its path there, or a URL";
        return Err(Failure::refused(Code::BadOption, message, help));
    }
    Ok(harvest_api_types::Ask { prompt: prompt.into(), ..options_of(options, standing) })
}

/// The options of a task, without its prompt. The repository is empty where none is named.
pub fn options_of(options: AskOptions, standing: Standing) -> harvest_api_types::Ask {
    let care = options.care;
    harvest_api_types::Ask {
        repository: options.repo.unwrap_or_default(),
        base: options.base,
        agent: options.agent,
        model: options.model,
        test: options.test,
        require_tests: options.require_tests,
        priority: standing.priority,
        convoy: standing.convoy,
        retries: standing.retries,
        budget_usd: options.budget_usd,
        timeout: options.timeout.map(|time| time.as_secs().max(1)),
        plan: options.plan,
        plan_review: care.review_plan,
        workflow: care.workflow.map(Workflow::from),
        gate: care.gate,
        mcp: care.mcp,
        fallback_agents: options.fallback_agent,
        ..harvest_api_types::Ask::default()
    }
}

async fn act(
    global: &Global,
    style: Style,
    remote: &Remote,
    prefix: &str,
    action: &str,
    body: &impl Serialize,
    words: &str,
) -> Result<Exit, Failure> {
    let id = find(remote, prefix).await?;
    let answer: Value = remote.post(&format!("/api/tasks/{id}/{action}"), body).await?;
    let TaskDetail { task, .. } = parse(&answer)?;
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
    let TaskDetail { task, sessions, .. } = detail(remote, prefix).await?;
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
