//! `harvest task approve` and `harvest task reject`: a person decides on a plan, or on a delivery.

use std::io::Read;
use std::path::Path;

use harvest_core::{Code, TaskId, TaskStatus};
use harvest_store::{Error, PlanDecision, PlanVerdict};

use super::proposal::{self, Proposal};
use crate::cli::Global;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::view::Style;

/// As much as a prompt may have.
const LONGEST: u64 = harvest_core::MAX_PROMPT_BYTES as u64;

pub async fn approve(
    global: &Global,
    installation: &Installation,
    style: Style,
    id: &TaskId,
    edit: Option<&Path>,
) -> Result<Exit, Failure> {
    let changed = edit.map(read_plan).transpose()?;
    let delivers = is_delivery(installation, id).await?;
    if delivers && changed.is_some() {
        let help = "leave --edit out, or have it done differently with `harvest task reject --comment TEXT`";
        return Err(Failure::refused(Code::BadOption, "--edit is for a plan, and this is finished work", help));
    }
    let words = if delivers {
        "is approved; `harvest up` delivers it"
    } else {
        "continues with its plan; run it with `harvest up`"
    };
    decide(global, installation, style, id, PlanVerdict::Approved { changed }, words).await
}

pub async fn reject(
    global: &Global,
    installation: &Installation,
    style: Style,
    id: &TaskId,
    comment: Option<String>,
) -> Result<Exit, Failure> {
    let (verdict, words) = match comment {
        Some(comment) if comment.trim().is_empty() => {
            let help = "say what to change, or leave --comment out to cancel the task";
            return Err(Failure::refused(Code::BadOption, "--comment is empty", help));
        }
        Some(comment) if is_delivery(installation, id).await? => {
            (PlanVerdict::Again { comment }, "does it differently; run it with `harvest up`")
        }
        Some(comment) => (PlanVerdict::Again { comment }, "will make a new plan; run it with `harvest up`"),
        None => (PlanVerdict::Rejected, "is cancelled"),
    };
    decide(global, installation, style, id, verdict, words).await
}

async fn is_delivery(installation: &Installation, id: &TaskId) -> Result<bool, Failure> {
    let detail = installation.store.task(id).await?;
    Ok(matches!(proposal::of(installation, &detail).await?, Some(Proposal::Delivery { .. })))
}

async fn decide(
    global: &Global,
    installation: &Installation,
    style: Style,
    id: &TaskId,
    verdict: PlanVerdict,
    words: &str,
) -> Result<Exit, Failure> {
    let repository = installation.store.task(id).await?.task.repository;
    let by = installation.settings()?.tenancy().requester(&installation.environment.user(), &repository, None);
    let verdict = match verdict {
        PlanVerdict::Approved { changed: Some(plan) } => {
            PlanVerdict::Approved { changed: Some(harvest_engine::redact(&plan).into_owned()) }
        }
        PlanVerdict::Again { comment } => PlanVerdict::Again { comment: harvest_engine::redact(&comment).into_owned() },
        other => other,
    };
    let decision = PlanDecision { by, verdict };
    let decided = installation.store.decide(id, decision, installation.clock.now()).await;
    match decided {
        Err(Error::IllegalMove(refused)) => {
            let message = format!("task {} is {}: there is nothing to approve or reject", id.short(), refused.from);
            let help = match refused.from {
                TaskStatus::Pending | TaskStatus::Provisioning | TaskStatus::Running => {
                    "wait until it has something to propose"
                }
                _ => "see harvest task list --status awaiting_approval",
            };
            return Err(Failure::refused(Code::NotAwaiting, message, help));
        }
        decided => decided.map_err(|error| Failure::from(error).refusing())?,
    }
    let _ = if global.json {
        output::json(&super::document(installation, id).await?)
    } else {
        output::line(&format!("{} task {} {words}", style.ok(), style.bold(id.short())))
    };
    Ok(Exit::Done)
}

pub fn read_plan(path: &Path) -> Result<String, Failure> {
    let refuse = |why: String| {
        let message = format!("the plan in {} cannot be used: {why}", path.display());
        Failure::refused(Code::BadOption, message, "give a text file, or `-` for standard input")
    };
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(LONGEST + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| refuse(error.to_string()))?;
    if bytes.len() as u64 > LONGEST {
        return Err(refuse(format!("it has more than {LONGEST} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8 text".to_owned()))?;
    if text.trim().is_empty() { Err(refuse("it is empty".to_owned())) } else { Ok(text) }
}
