//! Who belongs to a project, and what they may do in it.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use harvest_api_types::{AskMember, Member, Page};

use super::{concerns, known, tell_of_change};
use crate::api::page::PageAnswer;
use crate::api::record::Concerns;
use crate::auth::Principal;
use crate::extract::{Body, Id, check_name};
use crate::problem::Problem;
use crate::state::App;

/// List the members of a project
#[utoipa::path(
    get, path = "/api/projects/{name}/members", tag = "projects", operation_id = "project.members", params(("name" = String, Path, description = "The name of the project")),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<Member>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn list(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(name): Id<String>,
) -> Result<PageAnswer<Member>, Problem> {
    known(&app, &principal, &name)?;
    let all = app.store.members().await?.into_iter().filter(|member| member.project == name);
    Ok(PageAnswer::whole(all.map(describe).collect()))
}

/// Add a member to a project, or change their role
#[utoipa::path(
    put, path = "/api/projects/{name}/members/{user}", tag = "projects", operation_id = "project.member.set",
    params(("name" = String, Path, description = "The name of the project"), ("user" = String, Path, description = "The user name, as in GET /api/me")), request_body = AskMember,
    security(("token" = ["admin"]), ("cookie" = ["admin"])),
    responses((status = 200, body = Member), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn put(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id((name, user)): Id<(String, String)>,
    Body(ask): Body<AskMember>,
) -> Result<(HeaderMap, Extension<Concerns>, Json<Member>), Problem> {
    known(&app, &principal, &name)?;
    check_name("user", &user)?;
    let member =
        harvest_store::Member { project: name.clone(), user: user.clone(), role: ask.role, since: app.clock.now() };
    app.store.set_member(member.clone()).await?;
    let headers = tell_of_change(&app).await?;
    Ok((headers, concerns(&name, format!("member:{user}")), Json(describe(member))))
}

/// Remove a member from a project
#[utoipa::path(
    delete, path = "/api/projects/{name}/members/{user}", tag = "projects", operation_id = "project.member.remove",
    params(("name" = String, Path, description = "The name of the project"), ("user" = String, Path, description = "The user name, as in GET /api/me")), security(("token" = ["admin"]), ("cookie" = ["admin"])),
    responses((status = 204, description = "Removed"), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn remove(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id((name, user)): Id<(String, String)>,
) -> Result<(StatusCode, HeaderMap, Extension<Concerns>), Problem> {
    known(&app, &principal, &name)?;
    if !app.store.remove_member(&name, &user).await? {
        let detail = format!("`{}` is not a member of the project", user.escape_debug());
        return Err(
            Problem::new(harvest_core::Code::UnknownMember, detail).help("see GET /api/projects/{name}/members")
        );
    }
    let headers = tell_of_change(&app).await?;
    Ok((StatusCode::NO_CONTENT, headers, concerns(&name, format!("member:{user}"))))
}

fn describe(member: harvest_store::Member) -> Member {
    Member { user: member.user, role: member.role, since: member.since }
}
