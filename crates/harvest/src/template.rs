//! `harvest template …`: prompts with parameters. Every parameter must be given and every given one must be known.

use std::collections::BTreeSet;

use harvest_core::{Code, Prompt, Timestamp};
use harvest_engine::check_name;
use harvest_store::Template as Stored;
use serde_json::{Value, json};

use crate::ask;
use crate::cli::{Global, Template, TemplateAdd, TemplateUse};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::prompt_template::{parameters, render};
use crate::remote::{self, Remote};
use crate::saved::SavedRequest;
use crate::task;
use crate::view::{Cell, Style, Table, age_of, clean};

pub async fn template(global: &Global, environment: Environment, command: Template) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    if let Some(remote) = Remote::of(global, &environment)? {
        return remote::template(global, style, &remote, command).await;
    }
    let installation = Installation::open(global, environment).await?;
    match command {
        Template::Add(options) => add(global, &installation, style, *options).await,
        Template::List => list(global, &installation, style).await,
        Template::Use(options) => make(global, &installation, style, *options).await,
        Template::Remove { name } => remove(global, &installation, style, &name).await,
    }
}

async fn add(
    global: &Global,
    installation: &Installation,
    style: Style,
    options: TemplateAdd,
) -> Result<Exit, Failure> {
    let prompt = ask::read_prompt(&options.ask.prompt)?;
    let saved = SavedRequest::new(&options.ask.options, &options.standing);
    let stored = keep(installation, installation.environment.user(), options.name, saved, prompt).await?;
    show_new(global, style, &describe(&stored, &parameters(&stored.prompt)?));
    Ok(Exit::Done)
}

pub fn show_new(global: &Global, style: Style, template: &Value) {
    let _ = if global.json {
        output::json(template)
    } else {
        let list = parameters_of(template);
        let list = if list.is_empty() { "none".to_owned() } else { list };
        let name = style.bold(&clean(template["name"].as_str().unwrap_or_default()));
        output::line(&format!("{} template {name} saved; parameters: {list}", style.ok()))
    };
}

fn parameters_of(template: &Value) -> String {
    let names = template["parameters"].as_array().into_iter().flatten().filter_map(Value::as_str);
    clean(&names.collect::<Vec<_>>().join(", "))
}

/// Checks a template as far as it can be before it is used, and keeps it.
pub async fn keep(
    installation: &Installation,
    person: String,
    name: String,
    mut saved: SavedRequest,
    prompt: Prompt,
) -> Result<Stored, Failure> {
    check_name("name", &name)?;
    let prompt = ask::without_secrets(prompt)?;
    parameters(prompt.as_str())?;
    if saved.repo.is_some() {
        // Checked as if it were used now; what it stands for may be named from another folder later.
        let request = saved.request_of(installation, person, prompt.clone()).await?;
        saved.repo = Some(request.forge.name().to_owned());
    } else {
        ask::check_agent(installation, &saved.options())?;
    }
    let options = saved.to_json()?;
    let stored = Stored { name, prompt: prompt.into(), options, created_at: installation.clock.now() };
    installation.store.save_template(stored.clone()).await?;
    Ok(stored)
}

fn describe(stored: &Stored, parameters: &BTreeSet<String>) -> Value {
    json!(harvest_api_types::Template {
        name: stored.name.clone(),
        prompt: stored.prompt.clone(),
        parameters: parameters.iter().cloned().collect(),
        options: stored.options.clone(),
        created_at: stored.created_at,
    })
}

async fn list(global: &Global, installation: &Installation, style: Style) -> Result<Exit, Failure> {
    let templates = installation.store.templates().await?;
    let described = templates.iter().map(|stored| describe(stored, &parameters(&stored.prompt).unwrap_or_default()));
    show_list(global, style, &described.collect::<Vec<_>>(), installation.clock.now());
    Ok(Exit::Done)
}

pub fn show_list(global: &Global, style: Style, templates: &[Value], now: Timestamp) {
    if global.json {
        let _ = output::json(&json!({ "items": templates, "next_cursor": null }));
        return;
    }
    if templates.is_empty() {
        output::complain("no templates yet; add one: harvest template add upgrade \"Upgrade {{ package }}\"");
    }
    let mut table = Table::new(style, &["name", "prompt", "age", "repository", "parameters"]);
    for template in templates {
        let prompt = template["prompt"].as_str().unwrap_or_default();
        let title = clean(prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or_default());
        let saved = SavedRequest::read(&template["options"]).unwrap_or_default();
        table.row([
            Cell::new(clean(template["name"].as_str().unwrap_or_default())).painted(Style::bold),
            title.into(),
            Cell::new(age_of(template, now)).right(),
            clean(saved.repo.as_deref().unwrap_or_default()).into(),
            Cell::new(parameters_of(template)).painted(Style::dim),
        ]);
    }
    let _ = table.lines().iter().try_for_each(|line| output::line(line));
}

async fn make(
    global: &Global,
    installation: &Installation,
    style: Style,
    options: TemplateUse,
) -> Result<Exit, Failure> {
    let stored = find(installation, &options.name).await?;
    let prompt = render(&stored.name, &stored.prompt, &options.values)?;
    let prompt = Prompt::new(prompt).map_err(|error| {
        let message = format!("the prompt made from template `{}` cannot be used: {error}", stored.name);
        Failure::refused(Code::BadPrompt, message, "give other values with --set")
    })?;
    let saved = SavedRequest::read(&stored.options)?;
    let merged = saved.overridden_by(SavedRequest::new(&options.options, &options.queue.standing));
    let mut queue = options.queue;
    queue.standing = merged.standing();
    task::submit(global, installation, style, prompt, &merged.options(), queue).await
}

pub async fn find(installation: &Installation, name: &str) -> Result<Stored, Failure> {
    let templates = installation.store.templates().await?;
    let names: Vec<String> = templates.iter().map(|stored| stored.name.clone()).collect();
    templates.into_iter().find(|stored| stored.name == name).ok_or_else(|| {
        let known = if names.is_empty() {
            "there are none yet".to_owned()
        } else {
            format!("use one of: {}", names.join(", "))
        };
        Failure::refused(Code::UnknownTemplate, format!("there is no template `{}`", clean(name)), known)
    })
}

async fn remove(global: &Global, installation: &Installation, style: Style, name: &str) -> Result<Exit, Failure> {
    let stored = find(installation, name).await?;
    installation.store.remove_template(&stored.name).await?;
    show_removed(global, style, &stored.name);
    Ok(Exit::Done)
}

pub fn show_removed(global: &Global, style: Style, name: &str) {
    let _ = if global.json {
        output::json(&json!({ "name": name, "removed": true }))
    } else {
        output::line(&format!("{} template {} is removed; tasks made from it stay", style.ok(), clean(name)))
    };
}
