//! Every change that someone made is in the audit log, by the name that the document gives its operation.

use axum::Extension;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use harvest_core::{Task, TaskId};
use harvest_store::NewAudit;
use serde_json::json;

use crate::auth::{Principal, is_safe};
use crate::idempotency;
use crate::state::App;
use crate::telemetry::About;

/// Set by whoever knows better than the path what was done to what.
#[derive(Debug, Clone)]
pub struct Concerns {
    target: String,
    project: Option<String>,
    task: Option<TaskId>,
}

impl Concerns {
    pub fn project(project: &str, target: String) -> Self {
        Self { target, project: Some(project.to_owned()), task: None }
    }

    /// Admins of its project find it in the log.
    pub fn task(app: &App, task: &Task) -> Extension<Self> {
        let project = app.desk.tenancy().identity(&task.requested_by, &task.repository).project;
        Extension(Self { target: format!("task:{}", task.id), project, task: Some(task.id.clone()) })
    }
}

pub async fn record(State(app): State<App>, request: Request, next: Next) -> Response {
    let known = request.extensions().get::<Principal>().cloned();
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let rule = app.rules.get(request.method(), path.as_deref().unwrap_or_default()).cloned();
    let (safe, target) = (is_safe(request.method()), request.uri().path().to_owned());
    let mut response = next.run(request).await;
    if let Some(task) = response.extensions().get::<Concerns>().and_then(|concerns| concerns.task.clone()) {
        response.extensions_mut().insert(About(task));
    }
    // An answer that was given before stands for nothing new.
    let changed = response.status().is_success() && !safe && !response.headers().contains_key(idempotency::REPLAYED);
    if let (Some(principal), Some(rule), true) = (known, rule, changed) {
        let concerns = response.extensions().get::<Concerns>();
        let entry = NewAudit {
            at: app.clock.now(),
            actor: format!("user:{}", principal.user),
            action: rule.operation,
            target: concerns.map_or(target, |concerns| concerns.target.clone()),
            project: concerns.and_then(|concerns| concerns.project.clone()),
            detail: json!({ "token": principal.token, "status": response.status().as_u16() }),
        };
        if let Err(error) = app.store.audit(entry).await {
            // The change is made and cannot be taken back; that it is missing here must not go unnoticed.
            tracing::error!(%error, "a change could not be written to the audit log");
        }
    }
    response
}
