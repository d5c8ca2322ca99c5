//! What came of a task: merging it where its repository lies, and the signed evidence.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use harvest_api_types::{Application, Envelope, EvidenceKey, Merge, TaskDetail};
use harvest_core::{Code, TaskId, TaskKind};
use harvest_engine::DeliveryRequest;

use super::record::Concerns;
use super::tasks::visible;
use crate::auth::Principal;
use crate::extract::{Body, Id};
use crate::idempotency::Key;
use crate::problem::Problem;
use crate::state::App;

/// Merge the work of a task into the current branch of its repository on the server's machine
///
/// The rules are those of `harvest task apply`: nothing is merged if the work tree has uncommitted changes or there is
/// a conflict, and work that failed or is not verified requires `force`.
#[utoipa::path(
    post, path = "/api/tasks/{id}/apply", tag = "tasks", operation_id = "task.apply", params(("id" = TaskId, Path)),
    request_body = Application,
    security(("token" = ["admin", "everywhere"]), ("cookie" = ["admin", "everywhere"])),
    responses((status = 200, body = Merge), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn apply(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<TaskId>,
    Body(application): Body<Application>,
) -> Result<(Extension<Concerns>, Json<Merge>), Problem> {
    let task = visible(&app, &principal, &id).await?.task;
    let merged = app.desk.apply(&id, application.force).await?;
    Ok((Concerns::task(&app, &task), Json(merged)))
}

/// Create a pull request for a task whose work was not pushed
///
/// For a task of a GitHub repository that ended without a pull request because it failed or was stopped. The work is
/// tested again and delivered as it is, with the usual hooks; no agent runs. If the tests fail, the pull request is a
/// draft.
#[utoipa::path(
    post, path = "/api/tasks/{id}/pull-request", tag = "tasks", operation_id = "task.pull_request",
    params(("id" = TaskId, Path), ("Idempotency-Key" = Option<String>, Header, description = "Repeating a request with the same key creates no second turn")),
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses(
        (status = 202, body = TaskDetail, description = "A worker was asked to create it"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn pull_request(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    key: Option<Extension<Key>>,
    Id(id): Id<TaskId>,
) -> Result<(StatusCode, Extension<Concerns>, Json<TaskDetail>), Problem> {
    let TaskDetail { task, sessions, .. } = visible(&app, &principal, &id).await?;
    let refuse = |detail: String| Problem::new(Code::CannotPropose, detail);
    if !task.status.is_finished() {
        let detail = format!("task {} is {}", id.short(), task.status);
        return Err(refuse(detail).help("wait until it has ended"));
    }
    let forge = app.engine.forges().open_hosted(&task.repository).await;
    let is_hosted = forge.is_some_and(|forge| forge.hosting().is_some());
    if !is_hosted {
        let detail = format!("{} is not a repository of the GitHub account", task.repository);
        return Err(refuse(detail).help("merge the work in its repository instead"));
    }
    let changed = task.commit.as_ref().is_some_and(|commit| *commit != task.base);
    let session = sessions.into_iter().next_back().filter(|_| changed && task.kind != TaskKind::PrReview);
    let Some(session) = session else {
        return Err(refuse(format!("task {} has changed nothing", id.short())).help("look at its activity"));
    };
    if let Some(pull) = app.store.pull_request_of(&session.id).await? {
        return Err(refuse(format!("task {} has a pull request: {}", id.short(), pull.url)).help("continue there"));
    }
    let asked = DeliveryRequest {
        session: session.id,
        author: principal.user.clone(),
        key: key.map(|key| key.0.for_the_store()),
        token: principal.counted_token(),
    };
    app.engine.deliver_as_is(asked).await?;
    let now = visible(&app, &principal, &id).await?;
    Ok((StatusCode::ACCEPTED, Concerns::task(&app, &task), Json(now)))
}

/// Show the signed evidence of a task: a DSSE envelope around an in-toto statement
///
/// `harvest evidence verify` verifies it with the key of `GET /api/evidence-key`.
#[utoipa::path(
    get, path = "/api/tasks/{id}/evidence", tag = "tasks", operation_id = "task.evidence", params(("id" = TaskId, Path)),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Envelope), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn evidence(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<TaskId>,
) -> Result<Json<serde_json::Value>, Problem> {
    visible(&app, &principal, &id).await?;
    Ok(Json(app.desk.signed_evidence(&id).await?))
}

/// Show the public key that this installation signs evidence with
#[utoipa::path(
    get, path = "/api/evidence-key", tag = "tasks", operation_id = "evidence.key",
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = EvidenceKey), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn evidence_key(State(app): State<App>) -> Result<Json<EvidenceKey>, Problem> {
    Ok(Json(EvidenceKey { public_key: app.desk.evidence_key()? }))
}
