//! `harvest interrupt` over HTTP.

use harvest_api_types::{AskInterrupt, Page, TaskDetail};
use harvest_core::{Code, ListedTask, Task, TaskStatus};
use serde_json::Value;

use super::Remote;
use crate::cli::Interrupt;
use crate::failure::Failure;
use crate::interrupt::Asked;

const PAGE: usize = 500;

/// Asks whoever works on them to pause; those that nobody works on any more are left out of all, and refused by name.
pub async fn interrupt(remote: &Remote, options: &Interrupt) -> Result<Vec<Asked>, Failure> {
    let body = AskInterrupt { reason: options.reason.clone() };
    let Some(prefix) = &options.id else {
        let mut asked = Vec::new();
        for task in at_work(remote).await? {
            match ask(remote, &format!("/api/tasks/{}/interrupt", task.id), &body).await {
                Ok(now) => asked.push(now),
                Err(failure) if failure.code == Code::NotAtWork => {}
                Err(failure) => return Err(failure),
            }
        }
        return Ok(asked);
    };
    let path = match remote.find("/api/tasks", prefix).await? {
        Some(task) => format!("/api/tasks/{task}/interrupt"),
        None => match remote.find("/api/sessions", prefix).await? {
            Some(session) => format!("/api/sessions/{session}/interrupt"),
            None => {
                let message = format!("no task's or session's id begins with `{}`", crate::view::clean(prefix));
                return Err(Failure::refused(Code::UnknownTask, message, "see `harvest task list`"));
            }
        },
    };
    Ok(vec![ask(remote, &path, &body).await?])
}

async fn ask(remote: &Remote, path: &str, body: &AskInterrupt) -> Result<Asked, Failure> {
    let document: Value = remote.post(path, body).await?;
    let TaskDetail { task, .. } = super::parse(&document)?;
    Ok(Asked { id: task.id, status: task.status, document })
}

async fn at_work(remote: &Remote) -> Result<Vec<Task>, Failure> {
    let mut tasks = Vec::new();
    for status in [TaskStatus::Provisioning, TaskStatus::Running] {
        let mut cursor = String::new();
        loop {
            let page: Page<ListedTask> =
                remote.get(&format!("/api/tasks?status={status}&limit={PAGE}{cursor}")).await?;
            tasks.extend(page.items.into_iter().map(|listed| listed.task));
            match page.next_cursor {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
    }
    Ok(tasks)
}
