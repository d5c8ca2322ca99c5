//! The audit log.

use axum::Extension;
use axum::extract::State;
use harvest_api_types::{AuditEntry, AuditFilter, Page};
use harvest_store::AuditQuery;

use super::page::{self, PageAnswer};
use crate::auth::Principal;
use crate::extract::Params;
use crate::problem::Problem;
use crate::state::App;

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
