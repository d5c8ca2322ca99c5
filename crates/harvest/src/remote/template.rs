//! `harvest template …` over HTTP.

use std::collections::BTreeMap;

use harvest_core::Clock;
use harvest_outbound::escape;
use serde_json::{Value, json};

use super::Remote;
use super::task::{add_dependencies, options_body};
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
            let mut task = options_body(options.ask.options, options.standing);
            task["prompt"] = json!(prompt);
            let body = json!({ "name": options.name, "task": task });
            show_new(global, style, &remote.post::<Value>("/api/templates", &body).await?);
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
    let mut over = options_body(options.options, queue.standing);
    add_dependencies(&mut over, queue.after, queue.on_failed_dependency);
    if let Some(url) = queue.source_url {
        over["source_url"] = url.into();
    }
    let values: BTreeMap<String, String> = options.values.into_iter().collect();
    let path = format!("/api/templates/{}/tasks", escape(&options.name));
    let task: Value =
        remote.post_once(&path, &json!({ "values": values, "options": over }), queue.idempotency_key).await?;
    let _ = if global.json {
        output::json(&task)
    } else {
        let id = task["id"].as_str().unwrap_or_default();
        let id = style.bold(id.get(..8).unwrap_or(id));
        output::line(&format!("{} task {id} is queued at {}", style.ok(), remote.url()))
    };
    Ok(())
}
