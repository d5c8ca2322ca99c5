//! Repositories that snapshots are prepared of.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use harvest_api_types::{NamedSnapshot, NewRepository, Page, Repository, Snapshot};
use harvest_core::{Code, Role};
use harvest_engine::{DataFolder, prepare};

use super::page::PageAnswer;
use crate::auth::Principal;
use crate::extract::{Body, Id};
use crate::problem::Problem;
use crate::state::App;

/// List repositories with their snapshots
#[utoipa::path(
    get, path = "/api/repositories", tag = "repositories", operation_id = "repository.list",
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<Repository>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn list(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
) -> Result<PageAnswer<Repository>, Problem> {
    Ok(PageAnswer::whole(visible(&app, &principal).await?))
}

/// Add a repository, or update the one with that name
#[utoipa::path(
    post, path = "/api/repositories", tag = "repositories", operation_id = "repository.create", request_body = NewRepository,
    security(("token" = ["admin", "everywhere"]), ("cookie" = ["admin", "everywhere"])),
    responses((status = 201, body = Repository), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn create(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Body(new): Body<NewRepository>,
) -> Result<(StatusCode, Json<Repository>), Problem> {
    let kept = app.desk.add_repository(&new).await?;
    Ok((StatusCode::CREATED, Json(describe(&app, &principal, kept))))
}

/// Show a repository
#[utoipa::path(
    get, path = "/api/repositories/{name}", tag = "repositories", operation_id = "repository.get", params(("name" = String, Path, description = "The name of the repository")),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Repository), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn get(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(name): Id<String>,
) -> Result<Json<Repository>, Problem> {
    let found = visible(&app, &principal).await?.into_iter().find(|repository| repository.name == name);
    found.map(Json).ok_or_else(unknown)
}

/// Build the snapshot of a repository now
///
/// A worker builds it a moment later; `GET /api/repositories/{name}` shows the progress.
#[utoipa::path(
    post, path = "/api/repositories/{name}/build", tag = "repositories", operation_id = "repository.build",
    params(("name" = String, Path, description = "The name of the repository")), security(("token" = ["admin", "everywhere"]), ("cookie" = ["admin", "everywhere"])),
    responses(
        (status = 202, body = Repository, description = "A worker was asked to build it"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn build(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(name): Id<String>,
) -> Result<(StatusCode, Json<Repository>), Problem> {
    if !app.store.repository_pushed(&name, app.clock.now()).await? {
        return Err(unknown());
    }
    let found = app.store.repositories().await?.into_iter().find(|repository| repository.name == name);
    let repository = found.ok_or_else(unknown)?;
    Ok((StatusCode::ACCEPTED, Json(describe(&app, &principal, repository))))
}

/// Show the log of the running or last snapshot build of a repository
#[utoipa::path(
    get, path = "/api/repositories/{name}/build-log", tag = "repositories", operation_id = "repository.build_log",
    params(("name" = String, Path, description = "The name of the repository")), security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses(
        (status = 200, body = String, content_type = "text/plain"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn build_log(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(name): Id<String>,
) -> Result<String, Problem> {
    let all = app.store.repositories().await?.into_iter();
    let mut seen = all.filter(|repository| principal.sees_repository(&repository.source));
    let repository = seen.find(|repository| repository.name == name).ok_or_else(unknown)?;
    let data = app.data.clone();
    let read = tokio::task::spawn_blocking(move || prepare::build_log(&data, &repository)).await;
    read.map_err(|error| Problem::internal(&error))?.ok_or_else(|| {
        let detail = "there is no build log of this repository on this machine";
        Problem::new(Code::UnknownRepository, detail).help("`harvest repo build` makes its first snapshot")
    })
}

/// Remove a repository: no more snapshots are built; its tasks are kept
#[utoipa::path(
    delete, path = "/api/repositories/{name}", tag = "repositories", operation_id = "repository.remove", params(("name" = String, Path, description = "The name of the repository")),
    security(("token" = ["admin", "everywhere"]), ("cookie" = ["admin", "everywhere"])),
    responses((status = 204, description = "Removed"), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn remove(State(app): State<App>, Id(name): Id<String>) -> Result<StatusCode, Problem> {
    if app.store.remove_repository(&name).await? { Ok(StatusCode::NO_CONTENT) } else { Err(unknown()) }
}

/// List the snapshots that sessions start from
#[utoipa::path(
    get, path = "/api/snapshots", tag = "repositories", operation_id = "snapshot.list",
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<NamedSnapshot>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn snapshots(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
) -> Result<PageAnswer<NamedSnapshot>, Problem> {
    let repositories = visible(&app, &principal).await?;
    let named = |one: Repository| NamedSnapshot { repository: one.name, snapshot: one.snapshot };
    Ok(PageAnswer::whole(repositories.into_iter().map(named).collect()))
}

async fn visible(app: &App, principal: &Principal) -> Result<Vec<Repository>, Problem> {
    let all = app.store.repositories().await?;
    let seen = all.into_iter().filter(|repository| principal.sees_repository(&repository.source));
    Ok(seen.map(|repository| describe(app, principal, repository)).collect())
}

fn describe(app: &App, principal: &Principal, mut repository: harvest_store::Repository) -> Repository {
    // A command of the server's machine is the operator's business.
    if principal.role_everywhere() != Some(Role::Admin)
        && let Some(settings) = repository.settings.as_object_mut()
    {
        settings.remove("alert");
    }
    describe_repository(&app.data, repository)
}

/// A repository as the API shows it, with the state of its snapshot on this machine.
pub fn describe_repository(data: &DataFolder, repository: harvest_store::Repository) -> Repository {
    let standing = prepare::standing(data, &repository);
    let failed = standing.last.as_ref().is_some_and(|last| last.status == prepare::Status::Failed);
    let state = match (standing.building, &standing.newest, failed) {
        (true, ..) => "building",
        (false, Some(_), true) => "outdated",
        (false, Some(_), false) => "ready",
        (false, None, true) => "failed",
        (false, None, false) => "none",
    };
    let snapshot = Snapshot {
        state: state.to_owned(),
        commit: standing.newest.as_ref().map(|newest| newest.commit.clone()),
        built_at: standing.newest.as_ref().map(|newest| newest.built_at),
        bytes: standing.newest.as_ref().map(|newest| newest.bytes),
        last_build: standing.last.and_then(|last| serde_json::to_value(last).ok()),
        next_at: standing.next_at,
    };
    let harvest_store::Repository { name, source, settings, created_at, .. } = repository;
    Repository { name, source, settings, created_at, snapshot }
}

fn unknown() -> Problem {
    Problem::new(Code::UnknownRepository, "there is no such repository").help("see GET /api/repositories")
}
