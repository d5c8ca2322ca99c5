//! The coding agents that this installation can drive.

use axum::extract::State;

use super::page::Page;
use crate::desk::AgentInfo;
use crate::problem::Problem;
use crate::state::App;

/// List agents: what is installed, in which version, with which keys
#[utoipa::path(
    get, path = "/api/agents", tag = "agents", operation_id = "agent.list",
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<AgentInfo>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn list(State(app): State<App>) -> Result<Page<AgentInfo>, Problem> {
    Ok(Page::whole(app.desk.agents().await?))
}
