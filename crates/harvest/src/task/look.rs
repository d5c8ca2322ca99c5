//! list, show, logs, diff: nothing here changes anything.

use std::collections::BTreeMap;

use harvest_api_types::TaskPullRequest;
use harvest_core::{
    Attempt, Code, Event, EventBody, Evidence, FailureReason, Overlap, Session, Task, TaskId, TaskStatus, TestVerdict,
    Timestamp, TurnStatus,
};
use harvest_engine::NewestWork;
use harvest_store::{ListedPage, TaskDetail, TaskQuery};
use serde_json::json;

use super::interruption::{self, Ends, Interruption, Interruptions};
use super::proposal::{self, Proposal, Review};
use super::warnings;
use crate::cli::{Global, LISTED};
use crate::failure::{Exit, Failure};
use crate::follow::{Follow, ends, tell_idle_here};
use crate::installation::Installation;
use crate::output;
use crate::view::{
    Activity, Cell, Style, Table, age, clean, elapsed, evidence_details, evidence_line, local, logged_end, paint_diff,
};

const TITLE: usize = 44;
const NEXT_ATTEMPT: &str = "its next attempt";

/// The statuses of the tasks that others wait for.
pub type Statuses = BTreeMap<TaskId, TaskStatus>;

pub async fn list(
    global: &Global,
    installation: &Installation,
    style: Style,
    query: TaskQuery,
    asked: &Listing,
) -> Result<Exit, Failure> {
    let page = installation.store.list(query).await?;
    list_page(global, style, &page, installation.clock.now(), asked);
    Ok(Exit::Done)
}

/// The options of a list, to be typed again for its next page.
#[derive(Debug, Default)]
pub struct Listing {
    options: String,
    is_filtered: bool,
}

impl Listing {
    pub fn new(status: Option<TaskStatus>, repo: Option<&str>, convoy: Option<&str>, limit: u16) -> Self {
        let status = status.map(TaskStatus::as_str);
        let filters = [("--status", status), ("--repo", repo), ("--convoy", convoy)];
        let mut options = String::new();
        for (name, value) in filters {
            options.extend(value.map(|value| format!(" {name} {}", quoted(value))));
        }
        let is_filtered = !options.is_empty();
        if limit != LISTED {
            options.push_str(&format!(" --limit {limit}"));
        }
        Self { options, is_filtered }
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./:@=+,~".contains(letter);
    match !word.is_empty() && !word.starts_with('~') && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Of everything that the pending ones of these tasks were queued behind.
pub async fn statuses(installation: &Installation, tasks: &[Task]) -> Result<Statuses, Failure> {
    let mut known: Statuses = tasks.iter().map(|task| (task.id.clone(), task.status)).collect();
    for id in awaited(tasks) {
        if !known.contains_key(id) {
            known.insert(id.clone(), installation.store.task(id).await?.task.status);
        }
    }
    Ok(known)
}

pub fn awaited(tasks: &[Task]) -> impl Iterator<Item = &TaskId> {
    tasks.iter().filter(|task| task.status == TaskStatus::Pending).flat_map(|task| &task.after)
}

/// The tasks that a pending one still waits for.
fn unfinished<'t>(task: &'t Task, statuses: &Statuses) -> Vec<(&'t TaskId, TaskStatus)> {
    if task.status != TaskStatus::Pending {
        return Vec::new();
    }
    let status = |id: &'t TaskId| Some((id, *statuses.get(id)?));
    task.after.iter().filter_map(status).filter(|(_, status)| *status != TaskStatus::Completed).collect()
}

pub fn list_page(global: &Global, style: Style, page: &ListedPage, now: Timestamp, asked: &Listing) {
    if global.json {
        let _ = output::json(page);
        return;
    }
    if page.items.is_empty() {
        output::complain(match asked.is_filtered {
            true => "no task matches; all of them: harvest task list",
            false => "no tasks yet; give one: harvest run \"Make the failing test pass\"",
        });
    }
    for line in listed_table(style, page, now).lines() {
        if output::line(&line).is_err() {
            return;
        }
    }
    if let Some(cursor) = &page.next_cursor {
        output::complain(&format!("more: harvest task list{} --cursor {cursor}", clean(&asked.options)));
    }
}

/// The tasks of a list, with those that they wait for.
pub fn listed_table(style: Style, page: &ListedPage, now: Timestamp) -> Table {
    let tasks: Vec<Task> = page.items.iter().map(|listed| listed.task.clone()).collect();
    let waiting = page.items.iter().filter_map(|listed| listed.waiting.as_ref());
    let awaited = waiting.flat_map(|waiting| &waiting.after);
    let statuses = awaited.filter_map(|awaited| Some((awaited.id.clone(), awaited.status?))).collect();
    table(style, &tasks, &statuses, now)
}

/// Tasks as people read them, one in a row.
pub fn table(style: Style, tasks: &[Task], statuses: &Statuses, now: Timestamp) -> Table {
    let mut table = Table::new(style, &["id", "status", "title", "cost", "age", "repository", "branch"]);
    for task in tasks {
        let title: String = clean(task.prompt.title()).chars().take(TITLE).collect();
        let paint = match (task.status, task.reason) {
            (TaskStatus::Completed, _) => Style::good,
            (_, Some(reason)) if reason.is_stop() => Style::warn,
            (TaskStatus::Failed, _) => Style::bad,
            _ => Style::accent,
        };
        let branch = match (&task.branch, task.status) {
            (Some(branch), _) => branch.as_str(),
            (None, TaskStatus::Completed) => "no changes",
            (None, TaskStatus::Failed | TaskStatus::Cancelled) if task.has_undelivered_work() => "not delivered",
            (None, TaskStatus::Interrupted) => "not finished",
            (None, _) => "",
        };
        table.row([
            Cell::new(task.id.short()).painted(Style::bold),
            Cell::new(state(task, statuses)).painted(paint),
            title.into(),
            Cell::new(task.cost_usd.to_string()).right(),
            Cell::new(age(now, task.created_at)).right(),
            clean(repository_name(&task.repository)).into(),
            Cell::new(clean(branch)).painted(Style::dim),
        ]);
    }
    table
}

fn state(task: &Task, statuses: &Statuses) -> String {
    match (task.reason, unfinished(task, statuses).as_slice()) {
        (Some(FailureReason::Tests), _) if task.status == TaskStatus::Failed => {
            let why = match task.evidence.as_ref().map(Evidence::verdict) {
                Some(TestVerdict::CannotRun) => "tests could not run",
                Some(TestVerdict::Unchanged) => "tests fail as at the base",
                _ => FailureReason::Tests.as_str(),
            };
            format!("{}: {why}", task.status)
        }
        (Some(reason), _) if task.status == TaskStatus::Failed => format!("{}: {reason}", task.status),
        (_, []) if is_delivered(task) => {
            format!("{}, {}", task.status, clean(&Evidence::words_of(task.evidence.as_ref())))
        }
        (_, []) => task.status.to_string(),
        (_, [first]) => format!("waits for {}", awaited_as(*first)),
        (_, [first, rest @ ..]) => format!("waits for {} and {} more", awaited_as(*first), rest.len()),
    }
}

/// One that has ended holds up those after it until somebody does something.
fn awaited_as((id, status): (&TaskId, TaskStatus)) -> String {
    match status {
        TaskStatus::Failed | TaskStatus::Cancelled => format!("{} ({status})", id.short()),
        _ => id.short().to_owned(),
    }
}

/// Whether there is something that tests can have proved.
fn is_delivered(task: &Task) -> bool {
    task.status == TaskStatus::Completed && task.branch.is_some()
}

/// What a completed task came to, in the words of the page.
fn verdict(task: &Task) -> Option<String> {
    if !is_delivered(task) {
        return None;
    }
    let verdict = task.evidence.as_ref().map(Evidence::verdict_words);
    Some(verdict.unwrap_or_else(|| "not verified: there was no test command".to_owned()))
}

/// The last part of a path, and owner and name of a repository behind a URL.
fn repository_name(source: &str) -> &str {
    let source = source.trim_end_matches('/');
    let source = source.strip_suffix(".git").unwrap_or(source).trim_end_matches('/');
    let parts = if source.contains("://") { 2 } else { 1 };
    source.rmatch_indices('/').nth(parts - 1).map_or(source, |(place, _)| &source[place + 1..])
}

pub async fn show(global: &Global, installation: &Installation, style: Style, id: &TaskId) -> Result<Exit, Failure> {
    let server_detail = harvest_server::read_task(installation.store.as_ref(), id).await?;
    if global.json {
        let _ = output::json(&server_detail);
        return Ok(Exit::Done);
    }
    let harvest_api_types::TaskDetail { task, sessions, overlaps, pull_request } = server_detail;
    let mut detail = TaskDetail { task, sessions };
    // Where nobody named a model, people see the one that worked on it.
    if let (None, Some(session)) = (&detail.task.model, detail.sessions.first()) {
        detail.task.model = crate::evidence::last_model(installation, session).await?;
    }
    let proposal = proposal::of(installation, &detail).await?;
    let statuses = statuses(installation, std::slice::from_ref(&detail.task)).await?;
    let Interruptions { last: interruption, ends, next_try } = interruption::of(installation, &detail).await?;
    let unfinished = unfinished_work(installation, &detail).await?;
    let warnings = match detail.sessions.first() {
        Some(session) => warnings::of(installation.store.as_ref(), &session.id).await?,
        None => Vec::new(),
    };
    let beside =
        Beside { overlaps, pull_request, proposal, interruption, ends, next_try, unfinished, warnings, statuses };
    show_detail(style, &detail, &beside);
    Ok(Exit::Done)
}

/// How many files the work of a task without a result has changed so far; `None` if no work left its sandbox.
async fn unfinished_work(installation: &Installation, detail: &TaskDetail) -> Result<Option<usize>, Failure> {
    let TaskDetail { task, sessions } = detail;
    let Some(session) = sessions.first().filter(|_| !task.status.is_finished()) else { return Ok(None) };
    let (data, store) = (&installation.data, installation.store.as_ref());
    let Some(newest) = NewestWork::find(data, store, task, (&session.id, &session.branch)).await? else {
        return Ok(None);
    };
    let before = task.commit.as_ref().unwrap_or(&task.base);
    let changes = newest.repository.changes(before, &newest.commit).await?.len();
    Ok(Some(changes).filter(|changes| *changes > 0))
}

/// What is shown with a task and is not part of its record.
#[derive(Default)]
pub struct Beside {
    pub overlaps: Vec<Overlap>,
    pub pull_request: Option<TaskPullRequest>,
    pub proposal: Option<Proposal>,
    pub interruption: Option<Interruption>,
    /// Why agents were stopped, as far as the journal was read.
    pub ends: Ends,
    pub next_try: Option<Timestamp>,
    /// How many files the work has changed so far, before the task has ended.
    pub unfinished: Option<usize>,
    /// What people were warned of when it was given.
    pub warnings: Vec<String>,
    pub statuses: Statuses,
}

/// A task and, where someone has to decide, on what.
pub fn show_detail(style: Style, detail: &TaskDetail, beside: &Beside) {
    let Beside { overlaps, pull_request, proposal, warnings, .. } = beside;
    let mut text = page(style, detail, beside);
    let mut field = |name: &str, value: &str| {
        text.push_str(&format!("\n  {}  {}", style.dim(&format!("{name:<10}")), clean(value)));
    };
    if let Some(TaskPullRequest { url, number, state }) = pull_request {
        let number = number.map(|number| format!("#{number} ")).unwrap_or_default();
        field("proposed", &format!("pull request {number}({}) {} {url}", state.as_str(), style.dot()));
    }
    for warning in warnings {
        field("warning", warning);
    }
    for overlap in overlaps {
        field("overlaps", &format!("with {}: {}", overlap.with_task.short(), overlap.paths.join(", ")));
    }
    if let Some(proposal) = proposal {
        text.push_str(&waiting(style, detail.task.id.short(), proposal));
    }
    let _ = output::line(&text);
}

/// What there is to decide on.
fn waiting(style: Style, id: &str, proposal: &Proposal) -> String {
    let text = match proposal {
        Proposal::Plan { text, reviews } => {
            let review = |review: &Review| {
                format!("\n\n{}\n{}", style.bold(&format!("Review by {}", review.agent)), clean(&review.text))
            };
            let reviews: String = reviews.iter().map(review).collect();
            format!("\n\n{}\n{}{reviews}", style.bold("Its plan"), clean(text))
        }
        Proposal::Delivery { commit, files, evidence } => {
            let files: String = files.iter().map(|file| format!("\n  {}", clean(file))).collect();
            let evidence = evidence.as_ref().map_or("no test was run".to_owned(), |found| evidence_line(style, found));
            let commit = commit.get(..10).unwrap_or(commit);
            format!("\n\n{} ({commit}){files}\n  {evidence}", style.bold("What it would deliver"))
        }
    };
    let hint = format!("harvest task approve {id}   or   harvest task reject {id} --comment TEXT");
    format!("{text}\n\n{}", style.dim(&hint))
}

fn page(style: Style, TaskDetail { task, sessions }: &TaskDetail, beside: &Beside) -> String {
    let Beside { interruption, ends, next_try, unfinished, statuses, .. } = beside;
    let mut lines = vec![style.bold(&clean(task.prompt.title()))];
    let mut field =
        |name: &str, value: &str| lines.push(format!("  {}  {}", style.dim(&format!("{name:<10}")), clean(value)));
    field("id", task.id.as_str());
    field("status", task.status.as_str());
    if let Some(Interruption { author, reason }) = interruption {
        let reason = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        field("stopped", &format!("by {author}{reason}"));
    }
    if task.status == TaskStatus::Interrupted {
        field("next", &format!("harvest session resume {}", task.id.short()));
    }
    if let Some(verdict) = verdict(task) {
        field("verdict", &verdict);
    }
    if let Some(reason) = task.reason.filter(|reason| reason.as_str() != task.status.as_str()) {
        field("reason", reason.as_str());
    }
    if let Some(error) = &task.error {
        field("error", error);
    }
    field("repository", &task.repository);
    field("base", &task.base);
    if let Some(branch) = &task.branch {
        let kept = if task.status == TaskStatus::Failed { " (the work was kept but not accepted)" } else { "" };
        field("branch", &format!("{branch}{kept}"));
    } else if task.status == TaskStatus::Completed {
        field("changes", "no changes");
    } else if let Some(files) = unfinished {
        let files = if *files == 1 { "1 file".to_owned() } else { format!("{files} files") };
        field("changes", &format!("not finished: {files} so far; harvest task diff {}", task.id.short()));
    } else if task.has_undelivered_work() {
        field("branch", &format!("none: the work is kept in Harvest; harvest task diff {}", task.id.short()));
    }
    if let Some(commit) = task.commit.as_ref().filter(|_| task.branch.is_some() || task.has_undelivered_work()) {
        field("commit", commit);
    }
    let model = task.model.as_deref().unwrap_or("the worker's model");
    field("agent", &format!("{} {} {model}", task.agent, style.dot()));
    field("test", task.settings.test.as_deref().unwrap_or("none"));
    if let Some(evidence) = &task.evidence {
        field("evidence", &evidence_line(style.without_color(), evidence));
        for line in evidence_details(style.without_color(), evidence, task.error.as_deref()) {
            field("", &line);
        }
    }
    let usage = &task.usage;
    field(
        "cost",
        &format!(
            "{} of {} ({} tokens in, {} out)",
            task.cost_usd, task.budget_usd, usage.input_tokens, usage.output_tokens
        ),
    );
    if let Some(convoy) = &task.convoy {
        field("convoy", convoy);
    }
    if !task.after.is_empty() {
        let after: Vec<&str> = task.after.iter().map(TaskId::short).collect();
        field("after", &after.join(", "));
    }
    if let Some(reason) = waits_for(task, sessions, statuses) {
        let at = next_try.filter(|_| reason == NEXT_ATTEMPT).map(|at| format!(" at {}", local(at)));
        field("waits for", &format!("{reason}{}", at.unwrap_or_default()));
    }
    if task.tries > 1 || task.retries_left > 0 {
        let left = match task.retries_left {
            0 => "no retries left".to_owned(),
            1 => "1 retry left".to_owned(),
            left => format!("{left} retries left"),
        };
        field("tries", &format!("{} ({left})", task.tries));
    }
    field("created", &format!("{} by {}", local(task.created_at), task.requested_by));
    if let Some(finished) = task.finished_at {
        field("finished", &local(finished));
    }
    if let Some(millis) = worked_for(sessions) {
        field("took", &elapsed(millis));
    }
    for session in sessions {
        let attempts: Vec<(u32, &Attempt)> =
            session.turns.iter().flat_map(|turn| turn.attempts.iter().map(|attempt| (turn.number, attempt))).collect();
        for (place, (turn, attempt)) in attempts.iter().enumerate() {
            let goes_on = place + 1 < attempts.len() || !task.status.is_finished();
            // What the journal says of this attempt; else what the task has come to.
            let reason = ends.get(&attempt.id).copied();
            let reason = reason.or(if goes_on { Some(FailureReason::Interrupted) } else { task.reason });
            let ended = match (attempt.finished_at, attempt.exit_code, reason) {
                (None, _, _) => "unfinished".to_owned(),
                (Some(_), Some(code), _) => format!("exit code {code}"),
                (Some(_), None, Some(FailureReason::Interrupted)) => "interrupted".to_owned(),
                (Some(_), None, Some(reason)) if reason.is_stop() => "stopped".to_owned(),
                (Some(_), None, _) => "killed".to_owned(),
            };
            field("attempt", &format!("turn {turn} {} {} {} {ended}", style.dot(), attempt.agent, style.dot()));
        }
    }
    lines.join("\n")
}

/// What keeps a pending task from being worked on.
fn waits_for(task: &Task, sessions: &[Session], statuses: &Statuses) -> Option<String> {
    if task.status != TaskStatus::Pending {
        return None;
    }
    let unfinished = unfinished(task, statuses);
    if !unfinished.is_empty() {
        let name = |(id, status): &(&TaskId, TaskStatus)| match status {
            TaskStatus::Failed | TaskStatus::Cancelled => {
                format!("{0} ({status}; harvest task retry {0})", id.short())
            }
            status => format!("{} ({status})", id.short()),
        };
        return Some(unfinished.iter().map(name).collect::<Vec<_>>().join(", "));
    }
    let turns = sessions.iter().flat_map(|session| &session.turns);
    let reason = match turns.map(|turn| turn.status).find(|status| *status != TurnStatus::Done)? {
        TurnStatus::Ready => "a worker: harvest up",
        TurnStatus::Waiting => NEXT_ATTEMPT,
        TurnStatus::Parked => "a free slot under a cap: harvest status",
        TurnStatus::Queued => "the turns before it",
        TurnStatus::Held => "approval",
        TurnStatus::Blocked | TurnStatus::Claimed | TurnStatus::Done => return None,
    };
    Some(reason.to_owned())
}

/// How long agents worked on it. The time in the queue and the time that it waited for people do not count.
fn worked_for(sessions: &[Session]) -> Option<u64> {
    let attempts = sessions.iter().flat_map(|session| &session.turns).flat_map(|turn| &turn.attempts);
    let times = attempts.filter_map(|attempt| Some(attempt.finished_at?.duration_since(attempt.started_at)));
    let millis = times.map(|time| u64::try_from(time.as_millis()).unwrap_or(0));
    millis.reduce(u64::saturating_add)
}

pub async fn logs(
    global: &Global,
    installation: &Installation,
    style: Style,
    id: &TaskId,
    follow: bool,
) -> Result<Exit, Failure> {
    let detail = installation.store.task(id).await?;
    if follow && detail.task.status == TaskStatus::Pending {
        tell_idle_here(installation.store.as_ref()).await?;
    }
    for session in &detail.sessions {
        let mut activity = Activity::new(style);
        let mut journal = Follow::new(installation.store.clone(), session.id.clone());
        let mut ended = false;
        loop {
            let mut events = journal.now().await?;
            if events.is_empty() {
                if !follow || ended {
                    break;
                }
                events = journal.next().await?;
            }
            for event in &events {
                ended = ends(event);
                if print_logged(global, style, &mut activity, event).is_err() {
                    return Ok(Exit::Done);
                }
            }
        }
    }
    Ok(Exit::Done)
}

/// The same with how the task ended: a reader of the log has no other answer.
pub fn print_logged(
    global: &Global,
    style: Style,
    activity: &mut Activity,
    event: &Event,
) -> Result<(), output::Closed> {
    print(global, activity, event)?;
    match &event.body {
        EventBody::TaskFinished(outcome) if !global.json => {
            logged_end(style, outcome).iter().try_for_each(|line| output::line(line))
        }
        _ => Ok(()),
    }
}

pub fn print(global: &Global, activity: &mut Activity, event: &Event) -> Result<(), output::Closed> {
    if global.json {
        return output::json(event);
    }
    activity.lines(&event.body).iter().try_for_each(|line| output::line(line))
}

pub async fn diff(global: &Global, installation: &Installation, style: Style, id: &TaskId) -> Result<Exit, Failure> {
    let detail = installation.store.task(id).await?;
    let task = &detail.task;
    let mut patch = Vec::new();
    let newest = match detail.sessions.first() {
        Some(session) => {
            let of = (&session.id, &session.branch);
            NewestWork::find(&installation.data, installation.store.as_ref(), task, of).await?
        }
        None => None,
    };
    // What has left its sandbox is what people want to see now, also if it is not finished or waits to be delivered.
    let commit = newest.map(|newest| newest.commit).or_else(|| task.commit.clone());
    if let (Some(session), Some(commit)) = (detail.sessions.first(), &commit)
        && *commit != task.base
    {
        let repository = installation.data.existing_repository(&session.id).ok_or_else(|| {
            let message = format!(
                "the work of task {} is not here: it ran on another machine, or `harvest gc` removed it",
                id.short()
            );
            let branch = session.branch.as_str();
            Failure::refused(Code::NothingToApply, message, format!("look at its branch: git log -p {branch}"))
        })?;
        patch = repository.diff(&task.base, commit).await?;
    }
    let document = json!({ "base": task.base, "commit": commit, "diff": String::from_utf8_lossy(&patch) });
    show_diff(global, style, &document, &patch, task.status);
    Ok(Exit::Done)
}

pub fn show_diff(global: &Global, style: Style, document: &serde_json::Value, patch: &[u8], status: TaskStatus) {
    let is_open = !matches!(
        status,
        TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled | TaskStatus::AwaitingApproval
    );
    if is_open && !global.json {
        output::complain(&match patch.is_empty() {
            true => format!("note: the task is {status}; no changes have left its sandbox so far"),
            false => format!("note: the task is {status}; these are its changes so far"),
        });
    }
    let _ = if global.json {
        output::json(document)
    } else if patch.is_empty() {
        if !is_open {
            output::complain("note: the task has no changes");
        }
        Ok(())
    } else if style.terminal {
        // A program gets the diff as it is; a terminal gets nothing that could steer it.
        output::line(&paint_diff(style, clean(&String::from_utf8_lossy(patch)).trim_end()))
    } else {
        output::bytes(patch)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_have_short_names() {
        let names = ["/srv/shop", "/srv/shop/", "shop", "https://github.com/ada/shop.git", "https://host/shop", "/"];
        let short = ["shop", "shop", "shop", "ada/shop", "host/shop", ""];
        assert_eq!(names.map(repository_name), short);
    }
}
