//! Something to look at where nothing has been asked for yet.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use harvest_api_types::Demo;
use harvest_core::Source;
use harvest_engine::Request;

use crate::auth::Principal;
use crate::idempotency::Key;
use crate::problem::Problem;
use crate::state::App;

/// Start the demo: a few tasks on a sample repository, in real sandboxes with a scripted model
#[utoipa::path(
    post, path = "/api/demo", tag = "me", operation_id = "demo.begin",
    security(("token" = ["admin", "everywhere"]), ("cookie" = ["admin", "everywhere"])),
    responses((status = 201, body = Demo), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn begin(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    key: Option<Extension<Key>>,
) -> Result<(StatusCode, Json<Demo>), Problem> {
    let mut demo = Demo { repository: String::new(), tasks: Vec::new() };
    for (index, request) in app.desk.demo().await?.into_iter().enumerate() {
        request.forge.name().clone_into(&mut demo.repository);
        let mut request = Request { source: Source::Web, requested_by: principal.user.clone(), ..request };
        request.queue.token = principal.counted_token();
        request.queue.key = key.clone().map(|key| key.0.of_several(index));
        demo.tasks.push(app.engine.submit(request).await?.task.id);
    }
    Ok((StatusCode::CREATED, Json(demo)))
}
