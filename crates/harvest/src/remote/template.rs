//! `harvest template …` over HTTP.

use std::collections::BTreeMap;

use harvest_core::{Clock, Code};
use harvest_outbound::escape;
use serde_json::{Value, json};

use super::Remote;
use super::task::ask_body;
use crate::ask;
use crate::cli::{Global, Template, TemplateUse};
use crate::failure::{Exit, Failure};
use crate::installation::SystemClock;
use crate::output;
use crate::saved::SavedRequest;
use crate::template::{show_list, show_new, show_removed};
use crate::view::Style;

pub async fn template(global: &Global, style: Style, remote: &Remote, command: Template) -> Result<Exit, Failure> {
    match command {
        Template::Add(options) => {
            let prompt = ask::read_prompt(&options.ask.prompt)?;
            let task = ask_body(&prompt, options.ask.options, options.standing)?;
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

/// The server takes the values of the parameters and nothing else.
async fn use_template(global: &Global, style: Style, remote: &Remote, options: TemplateUse) -> Result<(), Failure> {
    let given = SavedRequest::new(&options.options, &options.queue.standing);
    let queue = options.queue;
    if given != SavedRequest::default() || !queue.after.is_empty() || queue.source_url.is_some() {
        let message = "options other than --set and --idempotency-key are only for work on this machine, and HARVEST_URL \
                       names a server";
        return Err(Failure::refused(Code::BadOption, message, "leave them out, or unset HARVEST_URL"));
    }
    let values: BTreeMap<String, String> = options.values.into_iter().collect();
    let path = format!("/api/templates/{}/tasks", escape(&options.name));
    let task: Value = remote.post_once(&path, &json!({ "values": values }), queue.idempotency_key).await?;
    let _ = if global.json {
        output::json(&task)
    } else {
        let id = task["id"].as_str().unwrap_or_default();
        let id = style.bold(id.get(..8).unwrap_or(id));
        output::line(&format!("{} task {id} is queued at {}", style.ok(), remote.url()))
    };
    Ok(())
}
