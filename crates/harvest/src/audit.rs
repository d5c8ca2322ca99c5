//! `harvest audit …`: who did what over the API and on the command line, and whether anyone has tampered with it.

use harvest_core::{Clock, Code};
use harvest_store::{AuditEntry, AuditQuery, NewAudit};
use serde_json::json;

use crate::cli::{Audit, Global};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::{Installation, SystemClock};
use crate::output;
use crate::view::Style;

const PAGE: usize = 1000;

pub async fn audit(global: &Global, environment: Environment, command: Audit) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    let installation = Installation::open(global, environment).await?;
    let mut last: Option<AuditEntry> = None;
    loop {
        let after = last.as_ref().map_or(0, |last| last.number);
        let query = AuditQuery { after, limit: PAGE, ..AuditQuery::default() };
        let entries = installation.store.audit_log(query).await?;
        let end = entries.len() < PAGE;
        for entry in entries {
            match command {
                Audit::Verify => entry.check(last.as_ref()).map_err(|broken| {
                    let whole = entry.number.saturating_sub(1);
                    let help = format!(
                        "entries 1 to {whole} are as they were written; compare the rest with your last export"
                    );
                    Failure { help: Some(help), ..Failure::failed(Code::BrokenAudit, broken.to_string()) }
                })?,
                Audit::Export => {
                    if output::json(&entry).is_err() {
                        return Ok(Exit::Done);
                    }
                }
            }
            last = Some(entry);
        }
        if end {
            break;
        }
    }
    if matches!(command, Audit::Verify) {
        let (entries, digest) = last.map_or((0, String::new()), |last| (last.number, last.digest));
        let _ = if global.json {
            output::json(&json!({ "entries": entries, "digest": digest, "intact": true }))
        } else {
            output::line(&format!("{} {entries} entries, each as it was written {digest}", style.ok()))
        };
    }
    Ok(Exit::Done)
}

/// The entry of a change that is made on the command line.
pub fn entry(action: String, environment: &Environment) -> NewAudit {
    NewAudit {
        at: SystemClock.now(),
        actor: format!("user:{}", environment.user()),
        action,
        target: String::new(),
        project: None,
        detail: json!({ "by": "command line" }),
    }
}
