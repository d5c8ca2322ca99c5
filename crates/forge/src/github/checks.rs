//! Checks of a commit, as far as they failed.

use serde::Deserialize;

use super::GitHub;
use super::tokens::Permissions;
use crate::Error;
use crate::hosting::FailedCheck;

/// More than these say nothing new.
const MOST_FAILED: usize = 5;
const MOST_LOG: usize = 16 << 10;

#[derive(Debug, Deserialize)]
struct Runs {
    check_runs: Vec<Run>,
}

#[derive(Debug, Deserialize)]
struct Run {
    id: u64,
    name: String,
    #[serde(default)]
    html_url: Option<String>,
    #[serde(default)]
    conclusion: Option<String>,
    output: Output,
    #[serde(default)]
    app: Option<App>,
}

#[derive(Debug, Deserialize)]
struct Output {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    summary: Option<String>,
    #[serde(default)]
    text: Option<String>,
}

#[derive(Debug, Deserialize)]
struct App {
    #[serde(default)]
    slug: Option<String>,
}

impl GitHub {
    pub(super) async fn read_failed_checks(&self, commit: &str) -> Result<Vec<FailedCheck>, Error> {
        let path = format!("/commits/{commit}/check-runs?filter=latest&per_page=100");
        let runs: Runs = self.get(&path, Permissions::Checks).await?.read()?;
        let failed = |run: &Run| matches!(run.conclusion.as_deref(), Some("failure" | "timed_out"));
        let mut checks = Vec::new();
        for run in runs.check_runs.into_iter().filter(failed).take(MOST_FAILED) {
            let said = [run.output.title, run.output.summary, run.output.text];
            let mut output = said.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
            // Only GitHub's own have a log that can be asked for.
            if run.app.and_then(|app| app.slug).as_deref() == Some("github-actions")
                && let Some(log) = self.log_of(run.id).await
            {
                output = format!("{output}\n\n{log}");
            }
            checks.push(FailedCheck { name: run.name, url: run.html_url, output: output.trim().to_owned() });
        }
        Ok(checks)
    }

    /// The end of a job's log. One that is gone is no reason not to say that the check failed.
    async fn log_of(&self, job: u64) -> Option<String> {
        let answer = self.get(&format!("/actions/jobs/{job}/logs"), Permissions::Checks).await;
        let answer = answer.inspect_err(|error| tracing::warn!(%error, "the log of a check cannot be read")).ok()?;
        let bytes = match answer.headers.get(reqwest::header::LOCATION).and_then(|url| url.to_str().ok()) {
            Some(url) => self.client.end_of(url, MOST_LOG).await.ok()?,
            None => answer.body[answer.body.len().saturating_sub(MOST_LOG)..].to_vec(),
        };
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}
