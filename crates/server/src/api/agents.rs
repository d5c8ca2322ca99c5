//! The coding agents that this installation can drive.

use axum::Json;
use axum::extract::State;
use harvest_api_types::{AgentCheck, AgentInfo, Page};

use super::page::PageAnswer;
use crate::extract::Id;
use crate::problem::Problem;
use crate::state::App;

/// List agents with their versions and available keys
#[utoipa::path(
    get, path = "/api/agents", tag = "agents", operation_id = "agent.list",
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<AgentInfo>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn list(State(app): State<App>) -> Result<PageAnswer<AgentInfo>, Problem> {
    Ok(PageAnswer::whole(app.desk.agents().await?))
}

/// Test an agent in a real sandbox against a scripted model; the response is sent when the test ends
#[utoipa::path(
    post, path = "/api/agents/{id}/check", tag = "agents", operation_id = "agent.check", params(("id" = String, Path, description = "An id from `/api/agents`")),
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 200, body = AgentCheck), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn check(State(app): State<App>, Id(id): Id<String>) -> Result<Json<AgentCheck>, Problem> {
    Ok(Json(app.desk.check_agent(&id).await?))
}
