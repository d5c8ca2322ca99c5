//! The audit log.

use axum::Extension;
use axum::extract::State;
use harvest_api_types::Page;
use harvest_core::Timestamp;
use harvest_store::AuditQuery;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::page::{self, PageAnswer};
use crate::auth::Principal;
use crate::extract::Params;
use crate::problem::Problem;
use crate::state::App;

/// An entry of the audit log. Each entry contains the digest of the previous one.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditEntry {
    number: u64,
    at: Timestamp,
    /// `user:NAME`; the token is in `detail`.
    actor: String,
    /// The operation; for API requests, its `operationId` in this document.
    action: String,
    target: String,
    project: Option<String>,
    detail: serde_json::Value,
    previous: String,
    digest: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct AuditFilter {
    /// Only entries of this actor, such as `user:ada`.
    actor: Option<String>,
    /// Only entries of this operation, such as `task.create`.
    action: Option<String>,
    /// `next_cursor` of the previous page.
    #[param(pattern = "^[0-9]{1,18}$")]
    cursor: Option<String>,
    /// The maximum number of items per page.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

/// List the audit log, oldest first
#[utoipa::path(
    get, path = "/api/audit", tag = "audit", operation_id = "audit.list", params(AuditFilter),
    security(("token" = ["admin"]), ("cookie" = ["admin"])),
    responses((status = 200, body = Page<AuditEntry>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn list(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Params(filter): Params<AuditFilter>,
) -> Result<PageAnswer<AuditEntry>, Problem> {
    let bad = |_| Problem::bad("cursor", "unknown cursor");
    let limit = page::limit(filter.limit)?;
    let query = AuditQuery {
        after: filter.cursor.map(|text| text.parse()).transpose().map_err(bad)?.unwrap_or(0),
        limit: limit + 1,
        actor: filter.actor,
        action: filter.action,
        projects: principal.projects_to_act_on(),
    };
    let mut entries = app.store.audit_log(query).await?;
    let more = entries.len() > limit;
    entries.truncate(limit);
    let next_cursor = entries.last().map(|entry| entry.number.to_string()).filter(|_| more);
    let items = entries.into_iter().map(|entry| AuditEntry {
        number: entry.number,
        at: entry.at,
        actor: entry.actor,
        action: entry.action,
        target: entry.target,
        project: entry.project,
        detail: entry.detail,
        previous: entry.previous,
        digest: entry.digest,
    });
    Ok(PageAnswer(Page { items: items.collect(), next_cursor }))
}
