//! Projects: repositories that belong together. They are set in the server's `harvest.toml`.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use harvest_core::{Code, Cost};
use serde::Serialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::page::Page;
use crate::auth::Principal;
use crate::extract::Id;
use crate::problem::Problem;
use crate::state::App;

#[derive(Debug, Serialize, ToSchema)]
pub struct Project {
    name: String,
    repositories: Vec<String>,
    /// What its tasks may spend in a day, all together; absent: any amount.
    daily_usd: Option<Cost>,
}

/// List projects
#[utoipa::path(
    get, path = "/api/projects", tag = "projects", operation_id = "project.list",
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<Project>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn list(State(app): State<App>, Extension(principal): Extension<Principal>) -> Json<Page<Project>> {
    Json(Page::whole(visible(&app, &principal)))
}

/// One project; with `If-None-Match` it is sent only when it has changed
#[utoipa::path(
    get, path = "/api/projects/{name}", tag = "projects", operation_id = "project.get", params(("name" = String, Path)),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Project), (status = 304, description = "It is as it was"), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn get(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(name): Id<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let unknown = || Problem::new(Code::UnknownProject, "there is no such project").help("see GET /api/projects");
    let found = visible(&app, &principal).into_iter().find(|project| project.name == name).ok_or_else(unknown)?;
    let digest = Sha256::digest(serde_json::to_vec(&found).unwrap_or_default());
    let tag: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{tag}\"");
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if known == Some(tag.as_str()) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    Ok(([(header::ETAG, tag)], Json(found)).into_response())
}

fn visible(app: &App, principal: &Principal) -> Vec<Project> {
    let all = app.desk.tenancy().projects.into_iter().filter(|project| principal.sees_project(&project.name));
    let shown =
        all.map(|project| Project { name: project.name, repositories: project.repositories, daily_usd: project.daily });
    shown.collect()
}
