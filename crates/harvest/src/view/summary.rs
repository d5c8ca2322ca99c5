//! How a task ended, in a few lines, with the next command to type.

use harvest_core::{Evidence, Outcome, TaskStatus, TestVerdict};

use super::style::{Style, clean};
use crate::failure::code_of;

/// Of each list of tests.
const MOST_NAMES: usize = 5;

/// Where the repository is that the work is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Here,
    /// Behind a server: nothing can be merged from here.
    Server,
}

pub fn summary(style: Style, outcome: &Outcome, commits: &[String], diff_stat: &str, place: Place) -> String {
    let mut lines = vec![String::new(), headline(style, outcome)];
    let mut field = |name: &str, value: String| lines.push(format!("  {}  {value}", style.dim(&format!("{name:<8}"))));
    if let Some(branch) = &outcome.branch {
        field("branch", style.bold(branch.as_str()));
        if !commits.is_empty() {
            field("commits", commits.iter().map(|subject| clean(subject)).collect::<Vec<_>>().join("; "));
        }
        for (index, line) in diff_stat.lines().enumerate() {
            field(if index == 0 { "changes" } else { "" }, clean(line.trim()));
        }
    } else if outcome.commit != outcome.base && outcome.status != TaskStatus::Completed {
        field("changes", "not delivered; the work is kept in Harvest".to_owned());
    } else {
        field("changes", "no changes".to_owned());
    }
    match &outcome.evidence {
        Some(evidence) => {
            field("evidence", evidence_line(style, evidence));
            // What the tests printed stands above, with the run itself.
            for line in evidence_notes(style, evidence, outcome.error.as_deref()) {
                field("", line);
            }
        }
        None if outcome.status == TaskStatus::Completed => {
            field("evidence", style.warn("none: no test command was found; name one with --test"));
        }
        None => {}
    }
    let usage = &outcome.usage;
    let dot = style.dot();
    field("cost", format!("{} {dot} {} tokens in, {} out", outcome.cost_usd, usage.input_tokens, usage.output_tokens));
    if let Some(code) = code_of(outcome) {
        field("why", format!("harvest explain {code}"));
    }
    let id = outcome.task_id.short();
    match (&outcome.branch, outcome.status) {
        (Some(_), TaskStatus::Completed)
            if place == Place::Here && outcome.evidence.as_ref().is_some_and(Evidence::proves_success) =>
        {
            field("next", style.accent(&format!("harvest task apply {id}")));
        }
        (Some(_), _) => field("next", style.accent(&format!("harvest task diff {id}"))),
        (None, TaskStatus::Failed | TaskStatus::Cancelled) if outcome.commit != outcome.base => {
            field("next", style.accent(&format!("harvest task diff {id}")));
        }
        _ => field("next", style.accent(&format!("harvest task logs {id}"))),
    }
    lines.join("\n")
}

fn headline(style: Style, outcome: &Outcome) -> String {
    let why = outcome.error.as_deref().map(clean).unwrap_or_default();
    match (outcome.status, outcome.reason) {
        (TaskStatus::Completed, _) => {
            let verdict = match outcome.evidence.as_ref().map(|evidence| (evidence.verdict(), evidence.verdict_words()))
            {
                _ if outcome.branch.is_none() => "completed, no changes".to_owned(),
                Some((TestVerdict::Verified, words)) => format!("completed and {}", clean(&words)),
                Some((_, words)) => format!("completed, {words}"),
                None => "completed, not verified".to_owned(),
            };
            format!("{} {}", style.ok(), style.bold(&verdict))
        }
        (_, Some(reason)) if reason.is_stop() => {
            let why = why.strip_prefix("stopped ").unwrap_or(&why);
            format!("{} {} {why}", style.stopped(), style.bold("stopped:"))
        }
        _ => format!("{} {} {why}", style.failed(), style.bold("failed:")),
    }
}

/// How a task ended, as the last lines of its log.
pub fn logged_end(style: Style, outcome: &Outcome) -> Vec<String> {
    let end = match (&outcome.error, outcome.status) {
        (None, TaskStatus::Completed) => headline(style, outcome),
        (None, _) => return Vec::new(),
        (Some(error), status) => {
            let sign = if status == TaskStatus::Failed { style.failed() } else { style.stopped() };
            format!("{sign} {status}: {}", clean(error))
        }
    };
    let notes = outcome.evidence.iter().flat_map(|evidence| {
        let notes = evidence_notes(style, evidence, outcome.error.as_deref());
        notes.into_iter().map(|line| format!("    {line}"))
    });
    std::iter::once(format!("  {end}")).chain(notes).collect()
}

/// `make test`: 2 passed, 1 failed → 3 passed
pub fn evidence_line(style: Style, evidence: &Evidence) -> String {
    let counts = |exit_code: i32, passed: Option<u64>, failed: Option<u64>| match (passed, failed) {
        (Some(passed), Some(0)) => format!("{passed} passed"),
        (Some(passed), Some(failed)) => format!("{passed} passed, {failed} failed"),
        _ => format!("exit code {exit_code} (no counts)"),
    };
    let baseline = &evidence.baseline;
    let before = counts(baseline.exit_code, baseline.passed, baseline.failed);
    let after = counts(evidence.exit_code, evidence.passed, evidence.failed);
    let paint = if evidence.proves_success() { Style::good } else { Style::bad };
    format!("`{}`  {before} {} {}", clean(&evidence.command), style.arrow(), paint(style, &after))
}

/// What is behind the evidence: doubts, single tests, why the tests could not run and what they printed last.
pub fn evidence_details(style: Style, evidence: &Evidence, error: Option<&str>) -> Vec<String> {
    let mut lines = evidence_notes(style, evidence, error);
    lines.extend(evidence.output.lines().map(|line| style.dim(&clean(line))));
    lines
}

/// The same without what the tests printed, and without the hint if the error has it.
fn evidence_notes(style: Style, evidence: &Evidence, error: Option<&str>) -> Vec<String> {
    let mut lines = Vec::new();
    if !matches!(evidence.verdict(), TestVerdict::Verified | TestVerdict::Failed) {
        lines.push(style.warn(evidence.verdict().explain()));
    }
    for flag in &evidence.flags {
        lines.push(style.warn(&format!("{}: {}", flag.as_str(), clean(&evidence.explain(*flag)))));
    }
    for (title, names) in evidence.tests.lists().into_iter().filter(|(_, names)| !names.is_empty()) {
        let shown = names.iter().take(MOST_NAMES).map(|name| clean(name)).collect::<Vec<_>>().join(", ");
        let more = names.len().saturating_sub(MOST_NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        lines.push(format!("{title}: {shown}{more}"));
    }
    lines.extend(evidence.tests.incomplete.as_deref().map(|why| style.warn(&clean(why))));
    let hint = evidence.hint.as_deref().filter(|hint| !error.is_some_and(|error| error.contains(*hint)));
    lines.extend(hint.map(|hint| style.warn(&clean(hint))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use harvest_core::{Baseline, Cost, FailureReason, Flag, SessionId, TaskId, Usage};

    fn outcome() -> Outcome {
        let session: SessionId = "0123456789abcdef".parse().unwrap();
        let task: TaskId = "zyxwvtsrqpnmkjhg".parse().unwrap();
        Outcome {
            task_id: task,
            branch: Some(harvest_core::BranchName::for_session("Fix it", &session)),
            session_id: session,
            status: TaskStatus::Completed,
            reason: None,
            error: None,
            commit: "c".repeat(40),
            base: "b".repeat(40),
            evidence: Some(Evidence {
                commit: "c".repeat(40),
                tree: None,
                command: "make test".into(),
                exit_code: 0,
                passed: Some(3),
                failed: Some(0),
                skipped: Some(0),
                duration_ms: 12,
                environment: "sha256:0".into(),
                baseline: Baseline { exit_code: 1, passed: Some(2), failed: Some(1), skipped: Some(0) },
                flags: vec![Flag::TestsChanged],
                changed: Default::default(),
                verdict: Some(TestVerdict::Verified),
                tests: harvest_core::TestChanges { fixed: vec!["adds".into()], ..Default::default() },
                output: String::new(),
                hint: None,
            }),
            usage: Usage { input_tokens: 1200, output_tokens: 40, ..Usage::default() },
            cost_usd: Cost::from_nanos(4_200_000),
        }
    }

    #[test]
    fn a_good_end_and_bad_ones() {
        let style = Style::plain(true);
        let good = summary(style, &outcome(), &["Fix it".into()], " src/x | 2 +-\n 1 file changed", Place::Here);
        let mut failed = outcome();
        failed.status = TaskStatus::Failed;
        failed.reason = Some(FailureReason::Budget);
        failed.error = Some("the budget of $0.0010 is spent ($0.0036)".into());
        failed.evidence = None;
        failed.branch = None;
        let mut missing = outcome();
        missing.status = TaskStatus::Failed;
        missing.reason = Some(FailureReason::Tests);
        missing.error = Some("`make test` ended with exit code 127 at the result".into());
        if let Some(evidence) = &mut missing.evidence {
            (evidence.exit_code, evidence.passed, evidence.failed) = (127, None, None);
            evidence.verdict = Some(TestVerdict::CannotRun);
            evidence.tests = Default::default();
            evidence.output = "sh: 1: pytest: not found".into();
            evidence.hint = Some("`pytest` is not installed in the sandbox".into());
        }
        let mut idle = outcome();
        idle.branch = None;
        let ends = [
            good,
            summary(style, &failed, &[], "", Place::Here),
            summary(style, &missing, &["Fix it".into()], "", Place::Here),
            summary(style, &outcome(), &[], "", Place::Server),
            summary(style, &idle, &[], "", Place::Here),
        ];
        insta::assert_snapshot!(ends.join("\n"));
    }
}
