//! Prompts with parameters, kept for later.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use harvest_api_types::{Filling, NewTemplate, Page, TaskDetail, Template};
use harvest_core::Code;

use super::ask;
use super::page::PageAnswer;
use super::schedules::may_act_on;
use super::tasks;
use crate::auth::Principal;
use crate::extract::{Body, Id};
use crate::idempotency::Key;
use crate::problem::Problem;
use crate::state::App;

/// List templates
#[utoipa::path(
    get, path = "/api/templates", tag = "templates", operation_id = "template.list",
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<Template>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn list(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
) -> Result<PageAnswer<Template>, Problem> {
    let all = app.store.templates().await?;
    let seen = all.into_iter().filter(|template| sees(&principal, template));
    Ok(PageAnswer::whole(seen.map(|template| describe(&app, template)).collect()))
}

/// Add a template, or update the one with that name
#[utoipa::path(
    post, path = "/api/templates", tag = "templates", operation_id = "template.create", request_body = NewTemplate,
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 201, body = Template), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn create(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Body(mut new): Body<NewTemplate>,
) -> Result<(StatusCode, Json<Template>), Problem> {
    let task = &mut new.task.0;
    ask::check_template(task)?;
    if !task.repository.is_empty() {
        ask::locate(task, &app, &principal).await?;
    } else if !principal.may_act_everywhere() {
        let detail = "a template without a repository takes the role member for the whole installation";
        let help = "name one of GET /api/repositories";
        return Err(Problem::new(Code::NotAllowed, detail).about("repository").help(help));
    }
    let known = app.store.templates().await?.into_iter().find(|template| template.name == new.name);
    if known.is_some_and(|template| !may_act_on(&principal, &template.options)) {
        let detail = "the name is taken by a template that you may not change";
        return Err(Problem::new(Code::NotAllowed, detail).about("name").help("choose another name"));
    }
    let kept = app.desk.add_template(&new, &principal.user).await?;
    Ok((StatusCode::CREATED, Json(describe(&app, kept))))
}

/// Remove a template; tasks created from it are kept
#[utoipa::path(
    delete, path = "/api/templates/{name}", tag = "templates", operation_id = "template.remove", params(("name" = String, Path, description = "The name of the template")),
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 204, description = "Removed"), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn remove(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(name): Id<String>,
) -> Result<StatusCode, Problem> {
    let template = find(&app, &principal, &name).await?;
    if !may_act_on(&principal, &template.options) {
        let detail = "you may use this template and not remove it";
        return Err(Problem::new(Code::NotAllowed, detail).help("ask someone who has the role member there"));
    }
    if app.store.remove_template(&name).await? { Ok(StatusCode::NO_CONTENT) } else { Err(unknown()) }
}

/// Create a task from a template
#[utoipa::path(
    post, path = "/api/templates/{name}/tasks", tag = "templates", operation_id = "template.use", request_body = Filling, params(("name" = String, Path, description = "The name of the template")),
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 201, body = TaskDetail), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn fill(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(name): Id<String>,
    key: Option<Extension<Key>>,
    Body(filling): Body<Filling>,
) -> Result<(StatusCode, HeaderMap, Json<TaskDetail>), Problem> {
    let template = find(&app, &principal, &name).await?;
    let mut options = filling.options.0;
    if !options.repository.is_empty() {
        ask::locate(&mut options, &app, &principal).await?;
    }
    let ask = app.desk.fill(&template, filling.values, &options)?;
    if ask.repository.is_empty() {
        let detail = "the template has no repository, and the request names none";
        let help = "name one with --repo, or store it in the template";
        return Err(Problem::bad("repository", detail).help(help));
    }
    let submitted = ask::submit(&app, &principal, key.map(|key| key.0), ask).await?;
    let detail = tasks::visible(&app, &principal, &submitted.task.id).await?;
    let location = ask::location(&format!("/api/tasks/{}", detail.task.id));
    Ok((StatusCode::CREATED, location, Json(detail)))
}

/// Whoever sees a template may use it; the task is held to what they may do in its repository.
fn sees(principal: &Principal, template: &harvest_store::Template) -> bool {
    match template.options["repo"].as_str() {
        Some(repository) => principal.sees_repository(repository),
        None => principal.sees_everything(),
    }
}

async fn find(app: &App, principal: &Principal, name: &str) -> Result<harvest_store::Template, Problem> {
    let all = app.store.templates().await?;
    let mut seen = all.into_iter().filter(|template| sees(principal, template));
    seen.find(|template| template.name == name).ok_or_else(unknown)
}

fn describe(app: &App, template: harvest_store::Template) -> Template {
    let parameters = app.desk.parameters(&template.prompt);
    let harvest_store::Template { name, prompt, options, created_at } = template;
    Template { name, prompt, parameters, options, created_at }
}

fn unknown() -> Problem {
    Problem::new(Code::UnknownTemplate, "there is no such template").help("see GET /api/templates")
}
