//! Every change that someone makes is in the audit log, by the name that the document gives its operation, and is written
//! there in the transaction of the change.

use axum::Extension;
use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use harvest_core::{Task, TaskId};
use harvest_store::{AnswerKey, NewAudit, Record, Recorded, describe, recorded};
use serde_json::json;

use crate::auth::{Principal, is_safe};
use crate::state::App;
use crate::telemetry::About;

/// What an operation was done to, for the traces.
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

    pub fn task(app: &App, task: &Task) -> Extension<Self> {
        let project = app.desk.tenancy().identity(&task.requested_by, &task.repository).project;
        Extension(Self { target: format!("task:{}", task.id), project, task: Some(task.id.clone()) })
    }
}

/// What follows is done to this task. Admins of its project find it in the log.
pub fn concerns_task(app: &App, task: &Task) {
    describe(|entry| {
        entry.project = app.desk.tenancy().identity(&task.requested_by, &task.repository).project;
        entry.target = format!("task:{}", task.id);
    });
}

/// What follows is done to something of the project that this repository belongs to.
pub fn concerns_repository(app: &App, user: &str, repository: &str) {
    describe(|entry| entry.project = app.desk.tenancy().identity(user, repository).project);
}

pub fn concerns_project(project: &str) {
    describe(|entry| entry.project = Some(project.to_owned()));
}

/// Carries a request out; the first change that it makes carries its entry, and the mark of its idempotency key.
pub async fn carry_out(app: &App, request: Request, next: Next, key: Option<AnswerKey>) -> Response {
    let known = request.extensions().get::<Principal>().cloned();
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let rule = app.rules.get(request.method(), path.as_deref().unwrap_or_default()).cloned();
    let (Some(principal), Some(rule), false) = (known, rule, is_safe(request.method())) else {
        return about(next.run(request).await);
    };
    let path = request.uri().path().to_owned();
    let audit = NewAudit {
        at: app.clock.now(),
        actor: format!("user:{}", principal.user),
        action: rule.operation,
        target: String::new(),
        project: None,
        detail: json!({ "token": principal.token }),
    };
    let record = Record { audit: audit.clone(), answer: key };
    let (response, written) = recorded(record, next.run(request)).await;
    // What changes nothing that the store keeps, say a rehearsal of an agent, has no transaction to be part of.
    if written == Recorded::Unused && response.status().is_success() {
        let concerns = response.extensions().get::<Concerns>().cloned();
        let target = concerns.as_ref().map_or(path, |concerns| concerns.target.clone());
        let entry = NewAudit { target, project: concerns.and_then(|concerns| concerns.project), ..audit };
        if let Err(error) = app.store.audit(entry).await {
            tracing::error!(%error, "an operation could not be written to the audit log");
        }
    }
    about(response)
}

fn about(mut response: Response) -> Response {
    if let Some(task) = response.extensions().get::<Concerns>().and_then(|concerns| concerns.task.clone()) {
        response.extensions_mut().insert(About(task));
    }
    response
}
