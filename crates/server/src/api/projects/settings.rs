//! What a project sets for its tasks. Whoever changes it says which version they saw, so that nobody undoes what they never
//! read.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use axum::{Extension, Json};
use harvest_api_types::{AskSettings, ProjectSettings, SettingInForce};
use harvest_core::{Code, Role};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{concerns, if_changed, known, tag_of, tell_of_change};
use crate::api::record::Concerns;
use crate::auth::Principal;
use crate::desk::Reach;
use crate::extract::{Body, Id};
use crate::problem::Problem;
use crate::state::App;

/// A setting as the desk tells it.
#[derive(Deserialize)]
struct Setting {
    key: String,
    value: Option<Value>,
    origin: String,
    from: String,
}

/// Show the settings of a project and the values in force; the `ETag` is their version
#[utoipa::path(
    get, path = "/api/projects/{name}/settings", tag = "projects", operation_id = "project.settings", params(("name" = String, Path, description = "The name of the project")),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = ProjectSettings), (status = 304, description = "Not modified"), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn get(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(name): Id<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    known(&app, &principal, &name)?;
    let (_, settings, version) = kept(&app, &name).await?;
    let shown = describe(&app, &principal, &name, settings);
    // What holds changes with the server's own file as well.
    let tag = format!("\"{version}-{}\"", tag_of(&shown));
    Ok(if_changed(&headers, tag, shown))
}

/// Replace the settings of a project; `If-Match` is the version that they are based on
#[utoipa::path(
    put, path = "/api/projects/{name}/settings", tag = "projects", operation_id = "project.settings.put",
    params(("name" = String, Path, description = "The name of the project"), ("If-Match" = Option<String>, Header, description = "The `ETag` of GET; without it, the response is 428")),
    request_body = AskSettings, security(("token" = ["admin"]), ("cookie" = ["admin"])),
    responses((status = 200, body = ProjectSettings), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn put(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(name): Id<String>,
    headers: HeaderMap,
    Body(ask): Body<AskSettings>,
) -> Result<(HeaderMap, Extension<Concerns>, Json<ProjectSettings>), Problem> {
    known(&app, &principal, &name)?;
    let Some(seen) = headers.get(header::IF_MATCH).and_then(|value| value.to_str().ok()) else {
        let detail = "the request does not say which version of the settings it changes";
        let problem = Problem::new(Code::Outdated, detail).about("If-Match");
        return Err(problem.with_status(StatusCode::PRECONDITION_REQUIRED).help("send the ETag of GET as If-Match"));
    };
    let outdated = || {
        let help = "read them again, and send the ETag of that answer";
        Problem::new(Code::Outdated, "someone changed the settings meanwhile").about("If-Match").help(help)
    };
    let (project, before, version) = kept(&app, &name).await?;
    let seen = seen.trim().trim_start_matches("W/").trim_matches('"').split('-').next().unwrap_or_default();
    if seen.parse() != Ok(version) {
        return Err(outdated());
    }
    let reach = match principal.role_everywhere() {
        Some(Role::Admin) => Reach::Installation,
        _ => Reach::Project,
    };
    let settings = Value::Object(ask.settings);
    let text = settings.to_string();
    if harvest_engine::redact(&text) != text {
        let problem =
            Problem::bad("settings", "a setting contains a key; settings are visible to everyone in the project");
        return Err(problem.help("store it with `harvest credential add` or POST /api/credentials"));
    }
    app.desk
        .check_settings(&name, &Value::Object(before), &settings, reach)
        .map_err(|refusal| Problem::from(refusal).about("settings"))?;
    let now = app.clock.now();
    let changed = match project {
        Some(project) => {
            let changed = harvest_store::Project { settings, version: version + 1, updated_at: now, ..project };
            app.store.change_project(changed).await?
        }
        // One of harvest.toml, for which nothing was set here so far.
        None => {
            let new = harvest_store::Project {
                name: name.clone(),
                repositories: Vec::new(),
                settings,
                version: version + 1,
                created_at: now,
                updated_at: now,
            };
            app.store.add_project(new).await?
        }
    };
    if !changed {
        return Err(outdated());
    }
    let mut headers = tell_of_change(&app).await?;
    let (_, settings, version) = kept(&app, &name).await?;
    let shown = describe(&app, &principal, &name, settings);
    if let Ok(tag) = format!("\"{version}-{}\"", tag_of(&shown)).parse() {
        headers.insert(header::ETAG, tag);
    }
    Ok((headers, concerns(&name, format!("project:{name}")), Json(shown)))
}

/// What is kept of a project, its settings and their version. Of one that only `harvest.toml` has, nothing yet.
async fn kept(app: &App, name: &str) -> Result<(Option<harvest_store::Project>, Map<String, Value>, u64), Problem> {
    let project = app.store.projects().await?.into_iter().find(|project| project.name == name);
    let settings = project.as_ref().and_then(|project| project.settings.as_object().cloned()).unwrap_or_default();
    let version = project.as_ref().map_or(0, |project| project.version);
    Ok((project, settings, version))
}

/// Whoever has some projects alone sees what those set and what is the same everywhere. What the installation's own file says
/// is for those who see all of it: where it lies, its limits, its hosts.
fn describe(app: &App, principal: &Principal, name: &str, settings: Map<String, Value>) -> ProjectSettings {
    let all = app.desk.settings_of(name).unwrap_or_default();
    let known = all.into_iter().filter_map(|setting| serde_json::from_value::<Setting>(setting).ok());
    let known = known.map(|Setting { key, value, origin, from }| SettingInForce { key, value, origin, source: from });
    let in_force = match principal.sees_everything() {
        true => known.collect(),
        false => known
            .filter(|setting| setting.origin != "file")
            .map(|setting| match setting.origin.as_str() {
                "project" => SettingInForce { source: format!("project {name}"), ..setting },
                _ => setting,
            })
            .collect(),
    };
    ProjectSettings { settings, in_force }
}
