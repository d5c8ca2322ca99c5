//! Batches of tasks that are followed as one.

use axum::Json;
use axum::extract::State;
use harvest_api_types::{Convoy, Page};
use harvest_core::Code;

use super::page::PageAnswer;
use crate::extract::Id;
use crate::problem::Problem;
use crate::state::App;

/// A convoy as the API shows it.
pub fn describe_convoy(convoy: harvest_store::Convoy) -> Convoy {
    Convoy { name: convoy.name, tasks: convoy.tasks, cost_usd: convoy.cost_usd }
}

/// List convoys; a task joins one by naming it
#[utoipa::path(
    get, path = "/api/convoys", tag = "convoys", operation_id = "convoy.list",
    security(("token" = ["viewer", "everywhere"]), ("cookie" = ["viewer", "everywhere"])),
    responses((status = 200, body = Page<Convoy>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn list(State(app): State<App>) -> Result<PageAnswer<Convoy>, Problem> {
    let convoys = app.store.convoys().await?;
    Ok(PageAnswer::whole(convoys.into_iter().map(describe_convoy).collect()))
}

/// Show a convoy; `GET /api/tasks?convoy=…` lists its tasks
#[utoipa::path(
    get, path = "/api/convoys/{name}", tag = "convoys", operation_id = "convoy.get", params(("name" = String, Path, description = "The name of the convoy")),
    security(("token" = ["viewer", "everywhere"]), ("cookie" = ["viewer", "everywhere"])),
    responses((status = 200, body = Convoy), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn get(State(app): State<App>, Id(name): Id<String>) -> Result<Json<Convoy>, Problem> {
    let found = app.store.convoys().await?.into_iter().find(|convoy| convoy.name == name);
    let unknown = || Problem::new(Code::UnknownAddress, "there is no such convoy").help("see GET /api/convoys");
    found.map(|convoy| Json(describe_convoy(convoy))).ok_or_else(unknown)
}
