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
                    let help = format!("entries 1 to {whole} are unchanged; compare the rest with your last export");
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
            let noun = if entries == 1 { "entry" } else { "entries" };
            output::line(&format!("{} {entries} {noun}, none altered {digest}", style.ok()))
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use crate::cli::Cli;

    /// They look, or write to standard output or to the caller's own configuration.
    const LOOKING: &[&str] = &[
        "agent check",
        "agent list",
        "audit export",
        "audit verify",
        "completion",
        "config show",
        "convoy list",
        "convoy show",
        "credential list",
        "dev fake-github",
        "doctor",
        "evidence export",
        "evidence key",
        "evidence verify",
        "explain",
        "login",
        "mcp list",
        "mcp show",
        "race show",
        "repo list",
        "schedule list",
        "session show",
        "stats",
        "status",
        "task diff",
        "task list",
        "task logs",
        "task show",
        "template list",
        "token list",
    ];
    /// Their change is one of the store, whose transaction has the entry.
    const IN_THE_STORE: &[&str] = &[
        "credential add",
        "credential remove",
        "credential rotate",
        "github setup",
        "import beads",
        "interrupt",
        "queue cap",
        "queue pause",
        "queue resize",
        "queue resume",
        "repo add",
        "repo build",
        "repo remove",
        "run",
        "schedule add",
        "schedule remove",
        "session continue",
        "session fork",
        "session prompt",
        "session restore",
        "session resume",
        "task add",
        "task approve",
        "task cancel",
        "task delete",
        "task reject",
        "task retry",
        "task terminate",
        "template add",
        "template remove",
        "template use",
        "token create",
        "token link",
        "token revoke",
    ];
    /// Their change is one of files, and they write the entry before it.
    const OF_FILES: &[&str] = &["backup", "export beads", "gc", "mcp add", "mcp remove", "restore", "task apply"];
    /// Each change that they make has an entry of its own.
    const SERVING: &[&str] = &["demo", "init", "serve", "up"];

    #[test]
    fn every_command_has_a_known_way_into_the_audit_log() {
        let mut commands = Vec::new();
        for command in Cli::command().get_subcommands() {
            if command.has_subcommands() {
                let below = command.get_subcommands();
                commands.extend(below.map(|below| format!("{} {}", command.get_name(), below.get_name())));
            } else {
                commands.push(command.get_name().to_owned());
            }
        }
        commands.sort();
        let mut known: Vec<&str> = [LOOKING, IN_THE_STORE, OF_FILES, SERVING].concat();
        known.sort_unstable();
        assert_eq!(commands, known, "a new command needs its place in one of the lists, and a test of its entry");
    }
}
