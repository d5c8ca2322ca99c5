//! One comment per task where it was asked for, edited as the work advances.

use harvest_core::{FailureReason, Outcome, SessionId, Source, Task, TaskKind, TaskStatus};
use harvest_forge::Hosting;

use super::describe;
use crate::error::Halt;
use crate::turn::Turn;
use crate::{Engine, Error};

/// The number in the address of an issue or a pull request.
pub fn issue_number(url: &str) -> Option<u64> {
    let (rest, number) = url.trim_end_matches('/').rsplit_once('/')?;
    ["/issues", "/pull"].iter().any(|kind| rest.ends_with(kind)).then(|| number.parse().ok()).flatten()
}

/// A comment of GitHub has room for some 65,000 characters.
const LONGEST_PLAN: usize = 20_000;
const LONGEST_REASON: usize = 2_000;
const LONGEST_OUTPUT: usize = 6_000;

/// Where work stands, in a few words.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Progress<'p> {
    Planning,
    Working,
    /// A person has to approve the plan.
    PlanWaits {
        plan: &'p str,
    },
    /// A person has to approve what is to be delivered.
    DeliveryWaits {
        files: usize,
    },
    Interrupted,
    /// It failed for a reason that may pass.
    WillRetry {
        reason: FailureReason,
    },
}

impl Turn {
    /// Updates the status comment. A comment that cannot be written is no reason to stop working.
    pub(crate) async fn tell(&self, progress: Progress<'_>) -> Result<(), Halt> {
        let Some(number) = asked_in(&self.task) else { return Ok(()) };
        let forge = self.forge().await?;
        let Some(hosting) = forge.hosting() else { return self.warn_without_account().await };
        let text = self.text_of(progress);
        if let Err(error) = say(hosting, number, &self.task, &self.journal.clean(&text)).await {
            self.journal.warn(format!("the status comment could not be updated: {error}")).await?;
        }
        Ok(())
    }

    /// Writes how the task ended into its status comment.
    pub(crate) async fn tell_end(&self, outcome: &Outcome) -> Result<(), Error> {
        let Some(number) = asked_in(&self.task) else { return Ok(()) };
        let forge = self.forge().await?;
        let Some(hosting) = forge.hosting() else { return Ok(()) };
        let text = self.engine.end_of(&self.task, outcome).await?;
        if let Err(error) = say(hosting, number, &self.task, &text).await {
            self.journal.warn(format!("the status comment could not be updated: {error}")).await?;
        }
        Ok(())
    }

    fn text_of(&self, progress: Progress<'_>) -> String {
        let (task, link) = (&self.task, self.engine.log_link(&self.task, &self.session.id, Log::GoesOn));
        let decide = || self.engine.options.delivery.ways_to_decide();
        match progress {
            Progress::Planning => format!("⏳ **Working on a plan** with {} · {link}", task.agent),
            Progress::PlanWaits { plan } => format!(
                "📝 **The plan waits for approval.** {} · {link}\n\n<details open><summary>Plan</summary>\n\n{}\n\n</details>",
                decide(),
                describe::quiet(&describe::cut(&self.journal.clean(plan), LONGEST_PLAN))
            ),
            Progress::DeliveryWaits { files } => {
                let files = describe::counted(files, "file");
                format!("👀 **Done; the result waits for approval** ({files} changed). {} · {link}", decide())
            }
            Progress::Working => format!("⏳ **Working on it** with {} · {link}", task.agent),
            Progress::Interrupted => format!("⏸️ **Interrupted**: it continues when someone resumes it · {link}"),
            Progress::WillRetry { reason } => format!("🔁 **Waiting to try again**: {} · {link}", words(reason)),
        }
    }
}

impl Engine {
    /// Writes how a task ended into its status comment, for a task that ended while nobody worked on it.
    pub async fn tell_end(&self, outcome: &Outcome) -> Result<(), Error> {
        let task = self.options.store.task(&outcome.task_id).await?.task;
        let Some(number) = asked_in(&task) else { return Ok(()) };
        let Some(forge) = self.options.forges.open_hosted(&task.repository).await else { return Ok(()) };
        let Some(hosting) = forge.hosting() else { return Ok(()) };
        let text = self.end_of(&task, outcome).await?;
        Ok(say(hosting, number, &task, &text).await?)
    }

    /// The text about an end. Everything that an agent has shaped is fenced and bounded.
    async fn end_of(&self, task: &Task, outcome: &Outcome) -> Result<String, Error> {
        let link = self.log_link(task, &outcome.session_id, Log::Ended);
        let pull = self.options.store.pull_request_of(&outcome.session_id).await?.map(|pull| pull.url);
        let text = match outcome.status {
            TaskStatus::Completed if task.kind == TaskKind::PrReview => format!("✅ **Reviewed** · {link}"),
            TaskStatus::Completed => {
                let verdict = describe::verdict(outcome.evidence.as_ref());
                match pull {
                    Some(url) => format!("✅ **Done**: {url} · {verdict} · {link}"),
                    None => format!("✅ **Done**: no changes · {link}"),
                }
            }
            TaskStatus::Cancelled => {
                let why = self.clean(outcome.error.as_deref().unwrap_or("stopped by a user"));
                let why = describe::in_one_line(&why, LONGEST_REASON);
                match why.strip_prefix("cancelled ") {
                    Some(rest) => format!("🚫 **Cancelled** {rest} · {link}"),
                    None => format!("🚫 **Cancelled**: {why} · {link}"),
                }
            }
            _ => self.failure_text(task, outcome, &link),
        };
        Ok(self.clean(&text))
    }

    fn failure_text(&self, task: &Task, outcome: &Outcome, link: &str) -> String {
        let reason = outcome.reason.unwrap_or(FailureReason::Internal);
        let mut parts = vec![format!("❌ **Failed**: {} · {link}", words(reason))];
        match outcome.error.as_deref().map(|error| self.clean(error)) {
            // Such a message may name files of the server, and everyone reads this.
            Some(_) if matches!(reason, FailureReason::Internal | FailureReason::Sandbox) => {
                parts.push(format!("`harvest task show {}` gives the reason.", task.id.short()));
            }
            Some(error) => parts.push(describe::fenced(&error, LONGEST_REASON)),
            None => {}
        }
        if let Some(evidence) = &outcome.evidence {
            let hint = evidence.hint.as_deref().map(|hint| describe::sentence(&describe::quiet(&self.clean(hint))));
            parts.extend(hint);
            if !evidence.output.is_empty() {
                let output = describe::last_part(&self.clean(&evidence.output), LONGEST_OUTPUT);
                parts.push(describe::folded("Last lines of the tests", &describe::fenced(&output, LONGEST_OUTPUT)));
            }
        }
        parts.join("\n\n")
    }

    fn log_link(&self, task: &Task, session: &SessionId, log: Log) -> String {
        match (&self.options.delivery.public_url, log) {
            (Some(url), Log::GoesOn) => format!("[live log]({url}/sessions/{session})"),
            (Some(url), Log::Ended) => format!("[log]({url}/sessions/{session})"),
            (None, Log::GoesOn) => format!("`harvest task logs {} --follow`", task.id.short()),
            (None, Log::Ended) => format!("`harvest task logs {}`", task.id.short()),
        }
    }
}

/// Whether there is more to come.
#[derive(Debug, Clone, Copy)]
enum Log {
    GoesOn,
    Ended,
}

/// A reason as people say it.
fn words(reason: FailureReason) -> &'static str {
    match reason {
        FailureReason::Agent => "the agent failed",
        FailureReason::Tests => "tests",
        FailureReason::Sandbox => "the sandbox failed",
        FailureReason::ModelQuota => "the model's quota or rate limit is reached",
        FailureReason::Timeout => "the time limit is reached",
        FailureReason::Stall => "the agent was silent for too long",
        FailureReason::Loop => "the agent repeated itself",
        FailureReason::Turns => "the agent reached its limit of model calls",
        FailureReason::Hook => "a hook failed",
        FailureReason::Budget => "the budget is spent",
        FailureReason::Cancelled => "cancelled",
        FailureReason::Interrupted => "interrupted",
        FailureReason::Internal => "an error in Harvest",
    }
}

/// The issue that a task came from.
pub(super) fn asked_in(task: &Task) -> Option<u64> {
    let hosted = matches!(task.source, Source::GithubIssue | Source::GithubPr);
    task.source_url.as_deref().filter(|_| hosted).and_then(issue_number)
}

/// The one comment of a task.
pub(crate) async fn say(
    hosting: &dyn Hosting,
    number: u64,
    task: &Task,
    text: &str,
) -> Result<(), harvest_forge::Error> {
    hosting.tell(number, &format!("status of {}", task.id), text).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_issues_and_pull_requests() {
        assert_eq!(issue_number("https://github.com/ada/shop/issues/12"), Some(12));
        assert_eq!(issue_number("https://github.com/ada/shop/pull/7/"), Some(7));
        for other in ["https://github.com/ada/shop", "https://github.com/ada/shop/issues/x", "https://x/y/7", ""] {
            assert_eq!(issue_number(other), None, "{other}");
        }
    }
}
