//! One comment per task where it was asked for, edited as the work advances.

use harvest_core::{Source, Task};
use harvest_forge::Hosting;

use super::{Finished, describe};
use crate::error::Halt;
use crate::turn::Turn;

/// The number in the address of an issue or a pull request.
pub fn issue_number(url: &str) -> Option<u64> {
    let (rest, number) = url.trim_end_matches('/').rsplit_once('/')?;
    ["/issues", "/pull"].iter().any(|kind| rest.ends_with(kind)).then(|| number.parse().ok()).flatten()
}

/// What people are told who may decide.
const APPROVE: &str = "Someone who may write here comments `approve` or `reject` to me";
/// A comment of GitHub has room for some 65,000 characters.
const LONGEST_PLAN: usize = 20_000;

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
    Ended(Finished<'p>),
}

impl Turn {
    /// Tells where the task came from. Nobody hearing it is no reason to stop working.
    pub(crate) async fn tell(&self, progress: Progress<'_>) -> Result<(), Halt> {
        let Some((hosting, number)) = self.forge.hosting().zip(asked_in(&self.task)) else { return Ok(()) };
        let text = self.text_of(progress).await?;
        if let Err(error) = say(hosting, number, &self.task, &self.journal.clean(&text)).await {
            self.journal.warn(format!("the status could not be told on GitHub: {error}")).await?;
        }
        Ok(())
    }

    async fn text_of(&self, progress: Progress<'_>) -> Result<String, Halt> {
        let task = &self.task;
        let link = match &self.engine.options.delivery.public_url {
            Some(url) => format!("[live log]({url}/sessions/{})", self.session.id),
            None => format!("`harvest task logs {} --follow`", task.id.short()),
        };
        let pull = self.engine.options.store.pull_request_of(&self.session.id).await?.map(|pull| pull.url);
        let line = match progress {
            Progress::Planning => format!("⏳ **Working on a plan** with {} · {link}", task.agent),
            Progress::PlanWaits { plan } => format!(
                "📝 **The plan waits for approval.** {APPROVE} · {link}\n\n<details open><summary>Plan</summary>\n\n{}\n\n</details>",
                describe::quiet(&describe::cut(&self.journal.clean(plan), LONGEST_PLAN))
            ),
            Progress::DeliveryWaits { files } => {
                format!(
                    "👀 **Done and tested; the result waits for approval** ({files} files changed). {APPROVE} · {link}"
                )
            }
            Progress::Working => format!("⏳ **Working on it** with {} · {link}", task.agent),
            Progress::Ended(Finished { failure: Some(failure), .. }) => {
                format!("❌ **Failed**: {} · {link}", failure.reason)
            }
            Progress::Ended(_) if self.only_reads() => format!("✅ **Reviewed** · {link}"),
            Progress::Ended(_) => match pull {
                Some(url) => format!("✅ **Done**: {url} · {link}"),
                None => format!("✅ **Done**: no changes · {link}"),
            },
        };
        Ok(line)
    }
}

/// The issue that a task came from.
fn asked_in(task: &Task) -> Option<u64> {
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
