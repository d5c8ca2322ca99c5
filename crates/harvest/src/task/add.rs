//! `harvest task add` and `harvest task retry`: putting work into the queue.

use harvest_core::{Code, OnFailedDependency, Prompt, TaskId, TaskStatus};
use harvest_engine::{BaseChoice, Queueing, check_name};
use harvest_store::IdempotencyKey;

use crate::cli::{AskOptions, Global, OnFailed, QueueOptions, TaskAdd};
use crate::config::Key;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::task::warnings;
use crate::view::Style;
use crate::{ask, race};

pub async fn add(
    global: &Global,
    installation: &Installation,
    style: Style,
    options: TaskAdd,
) -> Result<Exit, Failure> {
    let prompt = ask::read_prompt(&options.ask.prompt)?;
    if options.race.race.is_some() {
        if options.queue.standing.convoy.is_some() || options.queue.idempotency_key.is_some() {
            let message = "--race cannot be used with --convoy or --idempotency-key";
            return Err(Failure::refused(Code::BadOption, message, "a race is a convoy of its own; leave them out"));
        }
        let mut queue = queueing(installation, options.queue, "").await?;
        queue.base = base_choice(&options.ask.options);
        return race::add(global, installation, style, prompt, &options.ask.options, queue, &options.race).await;
    }
    submit(global, installation, style, prompt, &options.ask.options, options.queue).await
}

/// Queues one task and says so.
pub async fn submit(
    global: &Global,
    installation: &Installation,
    style: Style,
    prompt: Prompt,
    options: &AskOptions,
    queue: QueueOptions,
) -> Result<Exit, Failure> {
    let asked = format!("{options:?} {queue:?} {prompt}");
    let mut request = ask::request_for_later(installation, prompt, options).await?;
    request.queue = queueing(installation, queue, &asked).await?;
    request.queue.base = base_choice(options);
    let engine = installation.queueing_engine()?;
    let submitted = engine.submit(request).await.map_err(|error| Failure::from(error).refusing())?;
    let task = &submitted.task;
    let _ = if global.json {
        output::json(&super::document(installation, &task.id).await?)
    } else {
        let waits = if task.after.is_empty() {
            String::new()
        } else {
            if task.after.len() == 1 {
                ", waits for another task".to_owned()
            } else {
                format!(", waits for {} others", task.after.len())
            }
        };
        output::line(&format!(
            "{} task {} is queued ({}{waits})",
            style.ok(),
            style.bold(task.id.short()),
            task.priority.as_str()
        ))
    };
    warnings::say(&warnings::of(installation.store.as_ref(), &submitted.session).await?);
    Ok(Exit::Done)
}

fn base_choice(options: &AskOptions) -> BaseChoice {
    if options.base.is_some() { BaseChoice::Named } else { BaseChoice::Dependencies }
}

/// Resolves shortened ids and settles everything about the place in the queue. `asked` is everything that is asked for under the
/// idempotency key.
pub async fn queueing(installation: &Installation, options: QueueOptions, asked: &str) -> Result<Queueing, Failure> {
    for (option, name) in [("--idempotency-key", &options.idempotency_key), ("--convoy", &options.standing.convoy)] {
        name.as_deref().map_or(Ok(()), |name| check_name(option, name))?;
    }
    let mut after = Vec::new();
    for prefix in &options.after {
        let found = installation.store.find_task(prefix, None).await.map_err(|error| {
            let failure = Failure::from(error);
            Failure {
                code: if failure.code == Code::UnknownTask { Code::UnknownDependency } else { failure.code },
                ..failure
            }
        })?;
        after.push(found);
    }
    Ok(Queueing {
        priority: options.standing.priority.unwrap_or_default(),
        after,
        base: BaseChoice::Named,
        on_failed_dependency: match options.on_failed_dependency {
            OnFailed::Hold => OnFailedDependency::Hold,
            OnFailed::Cancel => OnFailedDependency::Cancel,
        },
        convoy: options.standing.convoy,
        retries: match options.standing.retries {
            Some(retries) => retries,
            None => installation.settings()?.count(Key::Retries).unwrap_or(0),
        },
        key: options.idempotency_key.map(|key| IdempotencyKey::of(key, asked)),
        source_url: options.source_url,
        extra: None,
        kind: None,
        id: None,
        token: None,
        asked_by_stranger: false,
        claim_for: None,
        race: None,
    })
}

pub async fn retry(global: &Global, installation: &Installation, style: Style, id: &TaskId) -> Result<Exit, Failure> {
    let before = installation.store.task(id).await?.task;
    if !matches!(before.status, TaskStatus::Failed | TaskStatus::Cancelled) {
        let message =
            format!("task {} is {}: only failed and cancelled tasks can be retried", id.short(), before.status);
        return Err(Failure::refused(Code::NotRetryable, message, format!("see harvest task show {}", id.short())));
    }
    let engine = installation.queueing_engine()?;
    let retried = engine.retry(&before, &installation.environment.user(), None).await;
    retried.map_err(|error| Failure::from(error).refusing())?;
    let _ = if global.json {
        output::json(&super::document(installation, id).await?)
    } else {
        output::line(&format!("{} task {} is in the queue again; run it with `harvest up`", style.ok(), id.short()))
    };
    Ok(Exit::Done)
}
