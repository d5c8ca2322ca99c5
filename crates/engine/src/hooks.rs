//! What a project wants done around the agent's work: commands at the stages of a turn, each in a sandbox and each journaled.
//! One that is required ends the turn where it fails; before a delivery, that keeps the branch here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use harvest_core::{EventBody, Evidence, FailureReason, Hook, HookStage, SandboxPurpose};
use harvest_workspace::script;

use crate::error::Halt;
use crate::meter::NoModel;
use crate::place::{Place, millis};
use crate::turn::Turn;
use crate::{Error, Failure, lint};

const LIMIT: Duration = Duration::from_secs(10 * 60);
const SCRIPT_LIMIT: Duration = Duration::from_secs(120);
const TAIL_SHOWN: usize = 8 * 1024;
/// Lines of a failed hook's output that its failure tells, and how long they may be together.
const LINES_TOLD: usize = 3;
const MOST_TOLD: usize = 500;
/// Findings told of one delivery.
const MOST_FINDINGS: usize = 20;
/// Commits that git lists; where there are more, some would not be looked at.
const MOST_COMMITS: usize = 500;
/// The beginning of a private key in a file.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// What a hook came to.
struct Outcome {
    exit_code: i32,
    output: String,
    took: Duration,
}

impl Turn {
    /// Runs the hooks of a stage in the agent's own place. The failure of the first that is required and fails.
    pub(crate) async fn hooks_in(&self, place: &Place, stage: HookStage) -> Result<Option<Failure>, Halt> {
        for (number, hook) in self.hooks_of(stage).enumerate() {
            let outcome = self.run_hook(place, hook, number).await?;
            if let Some(failure) = self.record_hook(hook, outcome).await? {
                return Ok(Some(failure));
            }
        }
        Ok(None)
    }

    /// Runs what has to succeed before the branch may leave.
    pub(crate) async fn hooks_before_delivery(&self, commit: &str) -> Result<(), Halt> {
        self.hooks_at(HookStage::BeforeDeliver, commit).await
    }

    /// The tests, with what is to run before them.
    pub(crate) async fn verify_hooked(&self, commit: &str) -> Result<Option<Evidence>, Halt> {
        self.hooks_at(HookStage::BeforeVerify, commit).await?;
        self.verify(commit).await
    }

    /// What is to run behind a stage that is over; the failure that ends the turn.
    pub(crate) async fn hooks_after(&self, stage: HookStage, commit: &str) -> Result<Option<Failure>, Error> {
        match self.hooks_at(stage, commit).await {
            Ok(()) => Ok(None),
            Err(Halt::Turn(failure)) => Ok(Some(failure)),
            Err(Halt::Engine(error)) => Err(error),
        }
    }

    /// Runs the hooks of a stage in a clean sandbox at the result; what Harvest has ready needs none and comes first.
    async fn hooks_at(&self, stage: HookStage, commit: &str) -> Result<(), Halt> {
        for hook in self.hooks_of(stage).filter(|hook| hook.is_ready_made()) {
            let outcome = self.look_through(hook, commit).await?;
            if let Some(failure) = self.record_hook(hook, outcome).await? {
                return Err(failure.into());
            }
        }
        let commands: Vec<&Hook> = self.hooks_of(stage).filter(|hook| !hook.is_ready_made()).collect();
        if commands.is_empty() {
            return Ok(());
        }
        let place = self.place(SandboxPurpose::Verify, Arc::new(NoModel)).await?;
        let result = self.run_at(&place, commit, &commands).await;
        if !matches!(result, Err(Halt::Engine(_))) {
            self.leave(place).await?;
        }
        result
    }

    async fn run_at(&self, place: &Place, commit: &str, hooks: &[&Hook]) -> Result<(), Halt> {
        self.settle(place).await?;
        let remote = Self::remote(place);
        let env = [
            ("REMOTE", remote.as_str()),
            ("COMMIT", commit),
            ("BASE", &self.task.base),
            ("RESTORE", ""),
            ("REMOVE", ""),
        ];
        let ran = self.run(place, "check-out", &script::check_out(), &env, SCRIPT_LIMIT).await?;
        if !ran.succeeded() {
            let message = format!("the result could not be checked out for its hooks: {}", ran.last_line());
            return Err(Failure::new(FailureReason::Sandbox, message).into());
        }
        for (number, hook) in hooks.iter().enumerate() {
            let outcome = self.run_hook(place, hook, number).await?;
            if let Some(failure) = self.record_hook(hook, outcome).await? {
                return Err(failure.into());
            }
        }
        Ok(())
    }

    fn hooks_of(&self, stage: HookStage) -> impl Iterator<Item = &Hook> {
        self.task.settings.hooks.iter().filter(move |hook| hook.stage == stage)
    }

    async fn run_hook(&self, place: &Place, hook: &Hook, number: usize) -> Result<Outcome, Halt> {
        const NO_CODE: i32 = 137;
        let id = format!("hook-{}-{number}", hook.stage.as_str());
        let env = [("CI", "true"), ("BASE", self.task.base.as_str()), ("BRANCH", self.session.branch.as_str())];
        let ran = self.run(place, &id, &hook.run, &env, LIMIT).await?;
        Ok(Outcome { exit_code: ran.exit_code.unwrap_or(NO_CODE), output: ran.tail, took: ran.duration })
    }

    async fn look_through(&self, hook: &Hook, commit: &str) -> Result<Outcome, Halt> {
        if hook.run == Hook::SECURITY_LINT { self.lint(commit).await } else { self.scan(commit).await }
    }

    /// Looks for dangerous constructs in what would be new.
    async fn lint(&self, commit: &str) -> Result<Outcome, Halt> {
        let began = Instant::now();
        let diff = self.repository.whole_diff(&self.task.base, commit).await?;
        let mut found = Vec::new();
        for (path, number, line) in added(&String::from_utf8_lossy(&diff)) {
            found.extend(lint::findings(&path, line).map(|rule| format!("{path}:{number}: {rule}")));
        }
        let more = found.len().saturating_sub(MOST_FINDINGS);
        found.truncate(MOST_FINDINGS);
        found.extend((more > 0).then(|| format!("and {more} more")));
        Ok(Outcome { exit_code: i32::from(!found.is_empty()), output: found.join("\n"), took: began.elapsed() })
    }

    /// Looks for keys in every commit that would leave, also in one that a later one takes back: in what it adds, in the names of
    /// its new files, and in its message and author.
    async fn scan(&self, commit: &str) -> Result<Outcome, Halt> {
        let began = Instant::now();
        let commits = self.repository.commits(&self.task.base, commit).await?;
        let mut before = self.task.base.clone();
        let mut found = Vec::new();
        if commits.len() >= MOST_COMMITS {
            found.push(format!("there may be one: {MOST_COMMITS} or more commits cannot be scanned"));
        }
        let redactor = &self.engine.options.redactor;
        let is_secret = |line: &str| line.contains(PRIVATE_KEY) || redactor.finds(line);
        for id in commits.into_iter().map(|commit| commit.id).chain([commit.to_owned()]) {
            let diff = self.repository.whole_diff(&before, &id).await?;
            let mut places = findings(&String::from_utf8_lossy(&diff), is_secret);
            let names = self.repository.new_paths(&before, &id).await?;
            places.extend(names.iter().any(|name| is_secret(name)).then(|| "the name of a file".to_owned()));
            let object = self.repository.commit_object(&id).await?;
            let is_told = String::from_utf8_lossy(&object).lines().any(is_secret);
            places.extend(is_told.then(|| "the message or author".to_owned()));
            for place in places {
                let told = format!("{place} in {}", id.get(..10).unwrap_or(&id));
                if found.len() < MOST_FINDINGS && !found.contains(&told) {
                    found.push(told);
                }
            }
            before = id;
        }
        Ok(Outcome { exit_code: i32::from(!found.is_empty()), output: found.join("\n"), took: began.elapsed() })
    }

    /// Journals what came of a hook. `Some` when that ends the turn.
    async fn record_hook(&self, hook: &Hook, outcome: Outcome) -> Result<Option<Failure>, Halt> {
        let Outcome { exit_code, output, took } = outcome;
        let output = self.journal.clean(&output);
        let start = output.ceil_char_boundary(output.len().saturating_sub(TAIL_SHOWN));
        let finished = EventBody::HookFinished {
            stage: hook.stage,
            run: hook.run.clone(),
            required: hook.required,
            exit_code,
            duration_ms: millis(took),
            output_tail: output.get(start..).unwrap_or_default().to_owned(),
        };
        self.journal.write(vec![finished]).await?;
        if exit_code == 0 || !hook.required {
            return Ok(None);
        }
        let mut message = why_failed(hook, exit_code, &output);
        if hook.stage == HookStage::BeforeDeliver {
            let before =
                self.task.branch.as_ref().map(|branch| format!("branch {branch} is unchanged; ")).unwrap_or_default();
            let kept = format!("{before}the work is kept in Harvest: harvest task diff {}", self.task.id.short());
            self.journal.warn(format!("the delivery was refused; {kept}")).await?;
            message = format!("{message}; {kept}");
        }
        Ok(Some(Failure::new(FailureReason::Hook, message)))
    }
}

/// Which hook failed at which stage, and the last lines that it printed.
fn why_failed(hook: &Hook, exit_code: i32, output: &str) -> String {
    let stage = hook.stage.as_str();
    let what = match hook.stage {
        HookStage::BeforeDeliver => format!("the {stage} hook `{}` refused the delivery", hook.run),
        _ => format!("the {stage} hook `{}` failed", hook.run),
    };
    let first = output.lines().next().unwrap_or_default();
    match hook.run.as_str() {
        Hook::SECRET_SCAN => format!("{what}: the commits contain a key: {first}"),
        Hook::SECURITY_LINT => format!("{what}: the changes are dangerous: {first}"),
        _ => match last_lines(output) {
            lines if lines.is_empty() => format!("{what} with exit code {exit_code} and no output"),
            lines => format!("{what} with exit code {exit_code}: {lines}"),
        },
    }
}

/// The last lines of a hook's output that are not blank, in one line.
fn last_lines(output: &str) -> String {
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = lines[lines.len().saturating_sub(LINES_TOLD)..].join(" / ");
    let start = text.ceil_char_boundary(text.len().saturating_sub(MOST_TOLD));
    let cut = if start > 0 { "…" } else { "" };
    format!("{cut}{}", text.get(start..).unwrap_or_default())
}

/// Where in a diff a line is added that holds a secret, as `path:line`.
fn findings(diff: &str, is_secret: impl Fn(&str) -> bool) -> Vec<String> {
    let secret = added(diff).filter(|(_, _, line)| is_secret(line));
    secret.map(|(path, number, _)| format!("{path}:{number}")).collect()
}

/// The lines that a diff adds, each with its path and number.
fn added(diff: &str) -> impl Iterator<Item = (String, u64, &str)> {
    let (mut path, mut number) = (String::new(), 0u64);
    // Lines of the hunk that are still to come, of the old file and of the new one: a line that is added may look like a header.
    let (mut old, mut new) = (0u64, 0u64);
    diff.lines().filter_map(move |line| {
        if old == 0 && new == 0 {
            if let Some(name) = line.strip_prefix("+++ ") {
                path = name.strip_prefix("b/").unwrap_or(name).to_owned();
            } else if let Some(hunk) = line.strip_prefix("@@ ") {
                let ranges = hunk.split(' ').take(2).map(|range| counted(range.get(1..).unwrap_or_default()));
                let ranges: Vec<(u64, u64)> = ranges.collect();
                (old, new) = (ranges.first().map_or(0, |range| range.1), ranges.get(1).map_or(0, |range| range.1));
                number = ranges.get(1).map_or(1, |range| range.0);
            } else if let Some(added) = line.strip_prefix('+') {
                // Outside of a hunk nothing is added; if it is, it is looked at.
                return Some((path.clone(), number, added));
            }
            return None;
        }
        if let Some(added) = line.strip_prefix('+') {
            (new, number) = (new.saturating_sub(1), number + 1);
            return Some((path.clone(), number - 1, added));
        }
        if line.starts_with('-') {
            old = old.saturating_sub(1);
        } else if !line.starts_with('\\') {
            (old, new, number) = (old.saturating_sub(1), new.saturating_sub(1), number + 1);
        }
        None
    })
}

/// `3,4` of a hunk's head: where its lines begin and how many there are; one, where there is no count.
fn counted(range: &str) -> (u64, u64) {
    let (start, count) = range.split_once(',').unwrap_or((range, "1"));
    (start.parse().unwrap_or(1), count.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_hook_is_named_with_its_last_lines() {
        let hook = |stage, run: &str| Hook { stage, run: run.into(), required: true };
        let audit = hook(HookStage::BeforeDeliver, "make audit");
        assert_eq!(
            why_failed(&audit, 9, "one\ntwo\n\nthree\n  four\n"),
            "the before_deliver hook `make audit` refused the delivery with exit code 9: two / three / four"
        );
        assert_eq!(
            why_failed(&hook(HookStage::AfterExecute, "exit 3"), 3, "\n"),
            "the after_execute hook `exit 3` failed with exit code 3 and no output"
        );
        let long = why_failed(&audit, 9, &"ä".repeat(1000));
        assert!(long.contains(": …ä") && long.len() < 700, "{long}");
    }

    #[test]
    fn what_is_added_is_looked_at_and_found_by_line() {
        let diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,4 @@\n one\n-KEY old\n+two\n+KEY new\n three\n\
                    diff --git a/y b/y\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+KEY\n";
        assert_eq!(findings(diff, |line| line.contains("KEY")), ["x:3", "y:1"]);
    }

    #[test]
    fn an_added_line_that_looks_like_a_header_is_looked_at_too() {
        let diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,5 @@\n one\n--- KEY old\n+++ KEY\n+@@ -1 +1 @@ KEY\n++ KEY\n+KEY\n\\ No newline\n\
                    diff --git a/y b/y\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+KEY\n";
        assert_eq!(findings(diff, |line| line.contains("KEY")), ["x:2", "x:3", "x:4", "x:5", "y:1"]);
    }
}
