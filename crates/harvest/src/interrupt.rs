//! `harvest interrupt`: work pauses with all that it has, wherever it is done, until `harvest session resume`.

use std::time::Duration;

use harvest_core::{Code, Stopping, TaskId, TaskStatus};
use harvest_store::{Error, Order, Record, TaskQuery, recorded};
use serde_json::{Value, json};

use crate::audit;
use crate::cli::{Global, Interrupt};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::remote::{self, Remote};
use crate::session;
use crate::task;
use crate::view::Style;

/// An agent may take its time to end: it is asked twice, and then its work is brought out.
const PATIENCE: Duration = Duration::from_secs(120);
const PAGE: usize = 500;

pub async fn interrupt(global: &Global, environment: Environment, options: Interrupt) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    if let Some(remote) = Remote::of(global, &environment)? {
        show(global, style, options.id.as_deref(), &remote::interrupt(&remote, &options).await?);
        return Ok(Exit::Done);
    }
    let installation = Installation::open(global, environment).await?;
    let tasks = match &options.id {
        Some(id) => vec![find(&installation, id).await?],
        None => at_work(&installation).await?,
    };
    let author = installation.environment.user();
    let reason = options.reason.map(|reason| harvest_engine::redact(&reason).into_owned());
    let how = Stopping::Interrupt { author, reason };
    let mut asked = Vec::new();
    for task in tasks {
        // Each of them is a change of its own in the audit log.
        let record = Record { audit: audit::entry("interrupt".to_owned(), &installation.environment), answer: None };
        let (stopped, _) = recorded(record, installation.store.request_stop(&task, how.clone())).await;
        if stopped? {
            asked.push(task);
        } else if options.id.is_some() {
            let status = installation.store.task(&task).await?.task.status;
            let message = format!("task {} is not running: it is {status}", task.short());
            let help = "to end a waiting task: harvest task cancel; to start no more tasks: harvest queue pause";
            return Err(Failure::refused(Code::NotAtWork, message, help));
        }
    }
    wait(&installation, &asked).await?;
    let mut items = Vec::new();
    for task in &asked {
        let detail = task::document(&installation, task).await?;
        items.push(Asked { id: task.clone(), status: detail.task.status, document: json!(detail) });
    }
    show(global, style, options.id.as_deref(), &items);
    Ok(Exit::Done)
}

/// What is known of a task that was asked to pause.
pub struct Asked {
    pub id: TaskId,
    pub status: TaskStatus,
    /// As the API shows it.
    pub document: Value,
}

/// One that was named is shown as the API shows it, all of them as a list.
fn show(global: &Global, style: Style, named: Option<&str>, items: &[Asked]) {
    let _ = if global.json {
        match (named, items) {
            (Some(_), [asked]) => output::json(&asked.document),
            _ => {
                let items: Vec<&Value> = items.iter().map(|asked| &asked.document).collect();
                output::json(&json!({ "items": items, "next_cursor": null }))
            }
        }
    } else if items.is_empty() {
        output::line(&format!("{} no task is running", style.ok()))
    } else {
        items.iter().try_for_each(|asked| output::line(&told(style, &asked.id, asked.status)))
    };
}

fn told(style: Style, id: &TaskId, status: TaskStatus) -> String {
    let short = id.short();
    match status {
        TaskStatus::Interrupted => {
            format!(
                "{} task {short} is interrupted, its work kept; continue it with `harvest session resume {short}`",
                style.ok()
            )
        }
        status if status.is_finished() => format!("{} task {short} has already ended: {status}", style.stopped()),
        status => format!("{} task {short} was asked to pause and is still {status}", style.stopped()),
    }
}

async fn find(installation: &Installation, id: &str) -> Result<TaskId, Failure> {
    match installation.store.find_task(id, None).await {
        Err(Error::UnknownTask(_)) => {
            let session = session::find(installation, id).await?;
            Ok(installation.store.session(&session).await?.task_id)
        }
        found => Ok(found?),
    }
}

async fn at_work(installation: &Installation) -> Result<Vec<TaskId>, Failure> {
    let mut tasks = Vec::new();
    for status in [TaskStatus::Provisioning, TaskStatus::Running] {
        let mut cursor = None;
        loop {
            let order = Order::OldestFirst;
            let query = TaskQuery { status: Some(status), order, cursor, limit: PAGE, ..TaskQuery::default() };
            let page = installation.store.tasks(query).await?;
            tasks.extend(page.items.into_iter().map(|task| task.id));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(tasks)
}

/// Until none of them is at work, or for as long as there is patience. Whoever gives a turn back wakes the queue.
async fn wait(installation: &Installation, tasks: &[TaskId]) -> Result<(), Failure> {
    let store = &installation.store;
    let mut changed = store.watch_queue();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        changed.mark_unchanged();
        let mut is_over = true;
        for task in tasks {
            let status = store.task(task).await?.task.status;
            is_over &= !matches!(status, TaskStatus::Provisioning | TaskStatus::Running);
        }
        if is_over || !matches!(tokio::time::timeout_at(deadline, changed.changed()).await, Ok(Ok(()))) {
            return Ok(());
        }
    }
}
