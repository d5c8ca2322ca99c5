//! `harvest template …` over HTTP.

use std::collections::BTreeMap;

use harvest_api_types::{Filling, NewTemplate, TemplateOptions, TemplateTask};
use harvest_core::{Clock, Code};
use harvest_outbound::escape;
use serde_json::Value;

use super::Remote;
use super::task::{on_failed, options_of};
use crate::ask;
use crate::cli::{Global, Template, TemplateUse};
use crate::failure::{Exit, Failure};
use crate::installation::SystemClock;
use crate::output;
use crate::template::{show_list, show_new, show_removed};
use crate::view::Style;

pub async fn template(global: &Global, style: Style, remote: &Remote, command: Template) -> Result<Exit, Failure> {
    match command {
        Template::Add(options) => {
            let prompt = ask::read_prompt(&options.ask.prompt)?;
            refuse_empty("task", options.ask.options.repo.as_deref())?;
            let task = options_of(options.ask.options, options.standing);
            let task = TemplateTask(harvest_api_types::Ask { prompt: prompt.into(), ..task });
            let new = NewTemplate { name: options.name, task };
            show_new(global, style, &remote.post::<Value>("/api/templates", &new).await?);
        }
        Template::List => show_list(global, style, &remote.items::<Value>("/api/templates").await?, SystemClock.now()),
        Template::Use(options) => use_template(global, style, remote, *options).await?,
        Template::Remove { name } => {
            remote.delete(&format!("/api/templates/{}", escape(&name))).await?;
            show_removed(global, style, &name);
        }
    }
    Ok(Exit::Done)
}

async fn use_template(global: &Global, style: Style, remote: &Remote, options: TemplateUse) -> Result<(), Failure> {
    let queue = options.queue;
    refuse_empty("options", options.options.repo.as_deref())?;
    let over = TemplateOptions(harvest_api_types::Ask {
        after: queue.after,
        on_failed_dependency: on_failed(queue.on_failed_dependency),
        source_url: queue.source_url,
        ..options_of(options.options, queue.standing)
    });
    let values: BTreeMap<String, String> = options.values.into_iter().collect();
    let path = format!("/api/templates/{}/tasks", escape(&options.name));
    let filling = Filling { values, options: over };
    let task: Value = remote.post_once(&path, &filling, queue.idempotency_key).await?;
    let _ = if global.json {
        output::json(&task)
    } else {
        let id = task["id"].as_str().unwrap_or_default();
        let id = style.bold(id.get(..8).unwrap_or(id));
        output::line(&format!("{} task {id} is queued at {}", style.ok(), remote.url()))
    };
    Ok(())
}

/// A repository that is named must not be empty: in these requests, an empty one is one that is left out.
fn refuse_empty(field: &str, repository: Option<&str>) -> Result<(), Failure> {
    if repository != Some("") {
        return Ok(());
    }
    let message = format!("{field}: `repository` is empty; leave it out");
    Err(Failure::refused(Code::BadRequest, message, "compare it with /api/docs"))
}
