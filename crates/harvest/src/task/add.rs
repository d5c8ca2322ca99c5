//! `harvest task add` and `harvest task retry`: putting work into the queue.

use harvest_core::{Code, OnFailedDependency, TaskId, TaskStatus};
use harvest_engine::Queueing;
use harvest_store::IdempotencyKey;
use serde_json::json;

use crate::ask;
use crate::cli::{Global, OnFailed, QueueOptions, SandboxKind, TaskAdd};
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::view::Style;

pub async fn add(global: &Global, installation: &Installation, style: Style, options: TaskAdd) -> Result<Exit, Failure> {
    let prompt = ask::read_prompt(&options.ask.prompt)?;
    let digest = format!("{:?} {:?} {prompt}", options.ask.options, options.queue);
    let mut request = ask::request(&installation.environment, &installation.keys, prompt, &options.ask.options, ask::Decide::Later).await?;
    request.queue = queueing(installation, options.queue, &digest).await?;
    let engine = installation.queueing_engine()?;
    let submitted = engine.submit(request).await.map_err(|error| Failure::from(error).refusing())?;
    let task = &submitted.task;
    let _ = if global.json {
        output::json(task)
    } else {
        let waits = if task.after.is_empty() { String::new() } else { format!(", waits for {} others", task.after.len()) };
        output::line(&format!("{} task {} is queued ({}{waits})", style.ok(), style.bold(task.id.short()), task.priority.as_str()))
    };
    Ok(Exit::Done)
}

/// Resolves shortened ids and settles everything about the place in the queue.
pub async fn queueing(installation: &Installation, options: QueueOptions, digest: &str) -> Result<Queueing, Failure> {
    let mut after = Vec::new();
    for prefix in &options.after {
        let found = installation.store.find_task(prefix).await.map_err(|error| {
            let failure = Failure::from(error);
            Failure { code: if failure.code == Code::UnknownTask { Code::UnknownDependency } else { failure.code }, ..failure }
        })?;
        after.push(found);
    }
    Ok(Queueing {
        priority: options.priority,
        after,
        on_failed_dependency: match options.on_failed_dependency {
            OnFailed::Hold => OnFailedDependency::Hold,
            OnFailed::Cancel => OnFailedDependency::Cancel,
        },
        convoy: options.convoy,
        retries: options.retries,
        key: options.idempotency_key.map(|key| IdempotencyKey { key, digest: digest.to_owned() }),
        source_url: options.source_url,
        extra: None,
        id: None,
        claim_for: None,
    })
}

pub async fn retry(global: &Global, installation: &Installation, style: Style, id: &TaskId) -> Result<Exit, Failure> {
    let before = installation.store.task(id).await?.task;
    if !matches!(before.status, TaskStatus::Failed | TaskStatus::Cancelled) {
        let message = format!("task {} is {}: only failed and cancelled tasks can be tried again", id.short(), before.status);
        return Err(Failure::refused(Code::NotRetryable, message, format!("see harvest task show {}", id.short())));
    }
    installation.store.retry(id, installation.clock.now()).await?;
    let task = installation.store.task(id).await?.task;
    let _ = if global.json {
        output::json(&json!({ "task_id": id, "status": task.status }))
    } else {
        output::line(&format!("{} task {} is in the queue again; work it off with `harvest up`", style.ok(), id.short()))
    };
    Ok(Exit::Done)
}

impl Installation {
    /// An engine that only queues: it needs neither a sandbox nor a model.
    fn queueing_engine(&self) -> Result<harvest_engine::Engine, Failure> {
        let model = harvest_engine::ModelChoice { provider: harvest_agents::Provider::Anthropic, model: None };
        self.engine(self.provider(SandboxKind::None)?, None, model)
    }
}
