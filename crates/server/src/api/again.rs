//! The answer to a request that was carried out, when its server died before it could keep the answer: what was made, as it
//! is now.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use harvest_core::Code;
use serde::Serialize;
use serde_json::Value;

use super::page::PageAnswer;
use super::{comments, credentials, projects, repositories, schedules, sessions, tasks, templates};
use crate::auth::Principal;
use crate::extract::Id;
use crate::problem::Problem;
use crate::state::App;

/// `made` is what the store says the change was made to: `schedule:ID`.
pub async fn answer(app: &App, principal: &Principal, made: &str) -> Result<(StatusCode, Value), Problem> {
    let (kind, id) = made.split_once(':').unwrap_or((made, ""));
    let (shared, asker) = (State(app.clone()), Extension(principal.clone()));
    let found = match kind {
        "task" => match id.parse() {
            Ok(id) => return Ok((StatusCode::OK, json(&tasks::visible(app, principal, &id).await?)?)),
            Err(_) => None,
        },
        // A turn that delivers; what queues a prompt asks the store by its key.
        "session" => match id.parse() {
            Ok(id) => {
                let session = sessions::visible(app, principal, &id).await?;
                let task = tasks::visible(app, principal, &session.task_id).await?;
                return Ok((StatusCode::ACCEPTED, json(&task)?));
            }
            Err(_) => None,
        },
        "schedule" => pick(&schedules::list(shared, asker).await?, "id", id)?,
        "template" => pick(&templates::list(shared, asker).await?, "name", id)?,
        "repository" => pick(&repositories::list(shared, asker).await?, "name", id)?,
        "project" => pick(&projects::list(shared, asker).await, "name", id)?,
        "credential" => pick(&credentials::list(shared, asker).await?, "id", id)?,
        "comment" => match id.split_once('/').and_then(|(session, comment)| Some((session.parse().ok()?, comment))) {
            Some((session, comment)) => pick(&comments::list(shared, asker, Id(session)).await?, "id", comment)?,
            None => None,
        },
        "token" => {
            let detail =
                format!("the first request with this key created token {id}, which was shown once and is not stored");
            let help =
                format!("if it was lost, revoke it with DELETE /api/tokens/{id}, and make another with a new key");
            return Err(Problem::new(Code::KeyReused, detail).about("Idempotency-Key").help(help));
        }
        _ => None,
    };
    found.map(|found| (StatusCode::CREATED, found)).ok_or_else(|| {
        let detail = format!("the first request with this key was carried out ({made}), but its response is lost");
        Problem::new(Code::KeyReused, detail).about("Idempotency-Key").help("check the current state; use a new key")
    })
}

fn pick<T: Serialize>(page: &PageAnswer<T>, field: &str, wanted: &str) -> Result<Option<Value>, Problem> {
    for item in &page.0.items {
        let item = json(item)?;
        if item[field] == wanted {
            return Ok(Some(item));
        }
    }
    Ok(None)
}

fn json(value: &impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(value).map_err(|error| Problem::internal(&error))
}
