//! Who one is.

use axum::{Extension, Json};
use harvest_api_types::Me;

use crate::auth::Principal;
use crate::problem::Problem;

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
    Json(Me { user, role, projects, roles, csrf, version: env!("CARGO_PKG_VERSION").to_owned() })
}
