//! Checks of commits, and their logs.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde_json::json;

use super::api::{Asked, Reply};
use super::world::Check;
use super::{Shared, shapes};

impl Shared {
    /// The log of a check: what was given as its text.
    pub(super) fn log(&self, id: u64) -> Response<Body> {
        let world = self.world();
        let check = world.repositories.values().flat_map(|repository| &repository.checks).find(|check| check.id == id);
        let mut response = Response::new(Body::from(check.and_then(|check| check.text.clone()).unwrap_or_default()));
        if check.is_none() {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        response
    }
}

impl Asked<'_> {
    pub(super) async fn add_check(&self) -> Reply {
        let (Some(name), Some(commit)) = (self.text("name"), self.text("head_sha")) else {
            return Reply::invalid("name and head_sha are needed");
        };
        let _ = self.pulls().await;
        let now = self.shared.now();
        let (shown, completed) = {
            let mut world = self.shared.world();
            let id = world.next_id();
            let Some(repository) = world.repositories.get_mut(&self.repository) else { return Reply::not_found() };
            let output = |field: &str| self.body["output"][field].as_str().map(str::to_owned);
            let conclusion = self.text("conclusion");
            let check = Check {
                id,
                name,
                commit,
                status: if conclusion.is_some() { "completed".to_owned() } else { "queued".to_owned() },
                title: output("title"),
                summary: output("summary"),
                text: output("text"),
                started: now.clone(),
                completed: conclusion.is_some().then_some(now),
                conclusion,
            };
            repository.checks.push(check.clone());
            (shapes::check(&self.shared.web, repository, &check), check.completed.is_some())
        };
        let action = if completed { "completed" } else { "created" };
        self.shared.tell("check_run", self.payload(action, json!({ "check_run": shown })));
        Reply::created(shown)
    }

    pub(super) fn checks(&self, commit: &str) -> Reply {
        let world = self.shared.world();
        let Some(repository) = world.repositories.get(&self.repository) else { return Reply::not_found() };
        let mut latest: Vec<&Check> = Vec::new();
        for check in repository.checks.iter().filter(|check| check.commit == commit) {
            latest.retain(|known| known.name != check.name);
            latest.push(check);
        }
        let shown: Vec<_> = latest.iter().map(|check| shapes::check(&self.shared.web, repository, check)).collect();
        Reply::ok(json!({ "total_count": shown.len(), "check_runs": shown }))
    }
}
