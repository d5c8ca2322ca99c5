//! Projects: repositories that belong together, with settings and members of their own. They are made here, or stand in the
//! server's `harvest.toml`; what is set here for one of those is added to what stands there.

pub mod members;
pub mod settings;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use harvest_api_types::{AskProject, Page, Project, ProjectChange};
use harvest_core::Code;
use harvest_core::repository::Place;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::ask::location;
use super::page::PageAnswer;
use super::record::{Concerns, concerns_project};
use crate::auth::Principal;
use crate::extract::{Body, Id, check_name};
use crate::problem::Problem;
use crate::repository_access;
use crate::state::App;

const MOST_REPOSITORIES: usize = 1000;
const LONGEST_SOURCE: usize = 1000;
const LONGEST_NAME: usize = 64;

/// List projects
#[utoipa::path(
    get, path = "/api/projects", tag = "projects", operation_id = "project.list",
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<Project>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn list(State(app): State<App>, Extension(principal): Extension<Principal>) -> PageAnswer<Project> {
    PageAnswer::whole(visible(&app, &principal))
}

/// Show a project; with `If-None-Match`, it is sent only if it has changed
#[utoipa::path(
    get, path = "/api/projects/{name}", tag = "projects", operation_id = "project.get", params(("name" = String, Path, description = "The name of the project")),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Project), (status = 304, description = "Not modified"), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn get(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(name): Id<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = known(&app, &principal, &name)?;
    let tag = format!("\"{}\"", tag_of(&found));
    Ok(if_changed(&headers, tag, found))
}

/// Create a project
#[utoipa::path(
    post, path = "/api/projects", tag = "projects", operation_id = "project.create", request_body = AskProject,
    security(("token" = ["admin", "everywhere"]), ("cookie" = ["admin", "everywhere"])),
    responses((status = 201, body = Project), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn create(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Body(ask): Body<AskProject>,
) -> Result<(StatusCode, HeaderMap, Extension<Concerns>, Json<Project>), Problem> {
    let name = ask.name;
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "._-".contains(letter);
    let begins = name.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    if !begins || name.len() > LONGEST_NAME || !name.chars().all(plain) {
        let detail = format!("a name has at most {LONGEST_NAME} characters: a-z, 0-9, and inside of it . _ -");
        return Err(Problem::bad("name", detail));
    }
    check_name("name", &name)?;
    concerns_project(&name);
    // Whether the name is taken, and what the project gets, is said by the settings.
    app.desk.check_readable()?;
    let now = app.clock.now();
    let new = harvest_store::Project {
        repositories: located(&app, &name, ask.repositories).await?,
        name: name.clone(),
        settings: serde_json::json!({}),
        version: 1,
        created_at: now,
        updated_at: now,
    };
    let taken = app.desk.tenancy().projects.iter().any(|project| project.name == name);
    if taken || !app.store.add_project(new).await? {
        let detail = format!("there is a project `{name}` already");
        return Err(Problem::new(Code::ProjectExists, detail).about("name").help("choose another, or change that one"));
    }
    let mut headers = tell_of_change(&app).await?;
    let made = known(&app, &principal, &name)?;
    headers.extend(location(&format!("/api/projects/{name}")));
    Ok((StatusCode::CREATED, headers, concerns(&name, format!("project:{name}")), Json(made)))
}

/// Change which repositories belong to a project
#[utoipa::path(
    patch, path = "/api/projects/{name}", tag = "projects", operation_id = "project.change", request_body = ProjectChange,
    params(("name" = String, Path, description = "The name of the project")), security(("token" = ["admin", "everywhere"]), ("cookie" = ["admin", "everywhere"])),
    responses((status = 200, body = Project), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn change(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(name): Id<String>,
    Body(change): Body<ProjectChange>,
) -> Result<(HeaderMap, Extension<Concerns>, Json<Project>), Problem> {
    let kept = made_here(&app, &name).await?;
    let repositories = located(&app, &name, change.repositories).await?;
    let changed =
        harvest_store::Project { repositories, version: kept.version + 1, updated_at: app.clock.now(), ..kept };
    if !app.store.change_project(changed).await? {
        let detail = "someone else changed the project at the same moment";
        return Err(Problem::new(Code::Outdated, detail).with_status(StatusCode::CONFLICT).help("ask again"));
    }
    let headers = tell_of_change(&app).await?;
    Ok((headers, concerns(&name, format!("project:{name}")), Json(known(&app, &principal, &name)?)))
}

/// Remove a project with its settings and members; its repositories and tasks are kept
#[utoipa::path(
    delete, path = "/api/projects/{name}", tag = "projects", operation_id = "project.remove", params(("name" = String, Path, description = "The name of the project")),
    security(("token" = ["admin", "everywhere"]), ("cookie" = ["admin", "everywhere"])),
    responses((status = 204, description = "Removed"), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn remove(
    State(app): State<App>,
    Id(name): Id<String>,
) -> Result<(StatusCode, HeaderMap, Extension<Concerns>), Problem> {
    made_here(&app, &name).await?;
    app.store.remove_project(&name).await?;
    let headers = tell_of_change(&app).await?;
    Ok((StatusCode::NO_CONTENT, headers, concerns(&name, format!("project:{name}"))))
}

/// Has the engine follow a change that was made. It stands also while the settings cannot be read: what was taken away is gone at
/// once, and what was added holds as soon as they can. The answer says so in a header.
async fn tell_of_change(app: &App) -> Result<HeaderMap, Problem> {
    const WARNING: &str = "299 harvest \"the change is made, but harvest.toml cannot be read: what was added holds when it is \
                           corrected; see `harvest doctor`\"";
    let mut headers = HeaderMap::new();
    match app.desk.projects_changed().await {
        Err(refusal) if refusal.code == Code::BadConfig => {
            tracing::warn!(reason = refusal.message, "a project was changed while the settings cannot be read");
            headers.insert(header::WARNING, HeaderValue::from_static(WARNING));
        }
        told => told?,
    }
    Ok(headers)
}

/// What the log says of a change.
fn concerns(project: &str, target: String) -> Extension<Concerns> {
    Extension(Concerns::project(project, target))
}

/// The project, if they may do what they ask for in it.
fn known(app: &App, principal: &Principal, name: &str) -> Result<Project, Problem> {
    let found = visible(app, principal).into_iter().find(|project| project.name == name).ok_or_else(unknown)?;
    principal.check_project(name, unknown)?;
    concerns_project(name);
    Ok(found)
}

/// What was asked for, or that it is as it was when they last read it.
fn if_changed(headers: &HeaderMap, tag: String, found: impl Serialize) -> Response {
    let seen = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if seen == Some(tag.as_str()) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response();
    }
    ([(header::ETAG, tag)], Json(found)).into_response()
}

fn visible(app: &App, principal: &Principal) -> Vec<Project> {
    let all = app.desk.tenancy().projects.into_iter().filter(|project| principal.sees_project(&project.name));
    let shown =
        all.map(|project| Project { name: project.name, repositories: project.repositories, daily_usd: project.daily });
    let mut shown: Vec<Project> = shown.collect();
    shown.sort_by(|one, other| one.name.cmp(&other.name));
    shown
}

/// Something of it can be changed here.
async fn made_here(app: &App, name: &str) -> Result<harvest_store::Project, Problem> {
    concerns_project(name);
    let kept = app.store.projects().await?.into_iter().find(|project| project.name == name);
    kept.ok_or_else(|| match app.desk.tenancy().projects.iter().any(|project| project.name == name) {
        true => {
            let detail = "the project is defined in the server's harvest.toml only";
            Problem::new(Code::NotAllowed, detail).help("change it there; its settings and members can be set here")
        }
        false => unknown(),
    })
}

/// Names become what they stand for, and addresses get their one spelling. A repository belongs to one project, by whichever of
/// its addresses: whose settings would hold else?
async fn located(app: &App, project: &str, listed: Vec<String>) -> Result<Vec<String>, Problem> {
    if listed.len() > MOST_REPOSITORIES {
        return Err(Problem::bad("repositories", format!("a project has at most {MOST_REPOSITORIES} repositories")));
    }
    let known = app.store.repositories().await?;
    let others = app.desk.tenancy().projects;
    let mut sources: Vec<String> = Vec::new();
    for text in listed {
        let source = known.iter().find(|one| one.name == text).map_or(text, |one| one.source.clone());
        let whole = source.starts_with('/') || source.contains(':');
        if !whole || source.len() > LONGEST_SOURCE || source.contains(char::is_control) {
            let detail = format!("`{}` is not a known repository, an absolute path or a URL", source.escape_debug());
            return Err(Problem::bad("repositories", detail).help("see GET /api/repositories"));
        }
        if harvest_engine::check_address("repositories", &source).is_err() {
            let detail =
                "an address contains a user name, password, query or key; addresses are stored and visible to others";
            return Err(Problem::bad("repositories", detail).help("leave it out, and let git find it"));
        }
        let source = repository_access::address_of(app, &source).await;
        let place = Place::of(&source);
        let taken = others.iter().find(|one| one.name != project && one.lists(&place));
        if let Some(taken) = taken {
            let detail = format!("`{}` belongs to the project {}", source.escape_debug(), taken.name);
            return Err(Problem::bad("repositories", detail).help("take it out of that project first"));
        }
        if !sources.iter().any(|one| Place::of(one) == place) {
            sources.push(source);
        }
    }
    Ok(sources)
}

/// Of something as it is sent.
fn tag_of(shown: &impl Serialize) -> String {
    let digest = Sha256::digest(serde_json::to_vec(shown).unwrap_or_default());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn unknown() -> Problem {
    Problem::new(Code::UnknownProject, "there is no such project").help("see GET /api/projects")
}
