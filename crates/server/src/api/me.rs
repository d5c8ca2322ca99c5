//! Who one is.

use std::collections::BTreeMap;

use axum::{Extension, Json};
use harvest_core::Role;
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::Principal;
use crate::problem::Problem;

#[derive(Debug, Serialize, ToSchema)]
pub struct Me {
    user: String,
    role: Role,
    /// The projects that the token is limited to; absent: no limit.
    projects: Option<Vec<String>>,
    /// The role in each of these projects.
    roles: Option<BTreeMap<String, Role>>,
    /// For browser sessions: the value that was sent as `X-Harvest-CSRF`, the half of the session's secret that is not
    /// in the cookie.
    csrf: Option<String>,
    version: &'static str,
}

/// Show the signed-in user and their roles
#[utoipa::path(
    get, path = "/api/me", tag = "me", operation_id = "me.get",
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Me), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn me(Extension(principal): Extension<Principal>) -> Json<Me> {
    let roles = principal.projects().cloned();
    let projects = roles.as_ref().map(|roles| roles.keys().cloned().collect());
    let (role, Principal { user, csrf, .. }) = (principal.role(), principal);
    Json(Me { user, role, projects, roles, csrf, version: env!("CARGO_PKG_VERSION") })
}
