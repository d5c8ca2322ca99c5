//! Events as readable lines.

use std::collections::BTreeMap;

use harvest_core::{
    Cost, EgressVerdict, EventBody, FileChange, McpOutcome, MessageRole, MissingNames, OutputStream, Remedy,
    SandboxPurpose, TestRun, TurnId,
};

use super::style::{Style, clean};
use super::time::elapsed;

const OUTPUT_LINES: usize = 4;
const WIDTH: usize = 110;
/// How many lines are shown of what failing tests or hooks printed.
const LAST_LINES: usize = 8;

/// Turns the events of one session into lines for a person. Keeps what it needs between events.
#[derive(Debug)]
pub struct Activity {
    style: Style,
    /// A message that is being streamed, up to its last complete line.
    streaming: String,
    streamed: bool,
    /// Follow-ups that nobody has begun, with their numbers.
    waiting: BTreeMap<TurnId, u32>,
    /// A person wants it tried again, and nobody has begun.
    retried: bool,
}

impl Activity {
    pub fn new(style: Style) -> Self {
        Self { style, streaming: String::new(), streamed: false, waiting: BTreeMap::new(), retried: false }
    }

    /// The lines to print for an event; often none.
    pub fn lines(&mut self, event: &EventBody) -> Vec<String> {
        let style = self.style;
        match event {
            EventBody::MessageDelta { text } => {
                self.streamed = true;
                self.streaming.push_str(text);
                self.complete_lines()
            }
            EventBody::Message { role: MessageRole::Assistant, text } => {
                if std::mem::take(&mut self.streamed) {
                    let rest = std::mem::take(&mut self.streaming);
                    return said(&rest);
                }
                said(text)
            }
            EventBody::Message { .. } => Vec::new(),
            EventBody::PlanProposed { text } => {
                let mut lines = vec![format!("  {}", style.bold("the plan:"))];
                lines.extend(said(text).into_iter().map(|line| format!("  {line}")));
                lines
            }
            EventBody::PlanDecided { approved, author, comment, plan } => {
                let (sign, what) = if *approved { (style.ok(), "approved") } else { (style.stopped(), "rejected") };
                let why = comment.as_deref().map(|comment| format!(": {comment}")).unwrap_or_default();
                let Some(plan) = plan else {
                    return vec![format!("  {sign} {}", clean(&format!("{what} by {author}{why}")))];
                };
                let edited = clean(&format!("{what} by {author}{why}, who edited the plan:"));
                let mut lines = vec![format!("  {sign} {edited}")];
                lines.extend(said(plan).into_iter().map(|line| format!("  {line}")));
                lines
            }
            EventBody::PlanReviewed { agent, text } => {
                let mut lines = vec![format!("  {}", style.bold(&format!("review of the plan by {agent}:")))];
                lines.extend(said(text).into_iter().map(|line| format!("  {line}")));
                lines
            }
            EventBody::DeliveryProposed { commit, files, .. } => {
                let short = commit.get(..10).unwrap_or(commit);
                let files = match files.len() {
                    1 => "1 file differs".to_owned(),
                    files => format!("{files} files differ"),
                };
                vec![format!("  {} {short} waits to be approved: {files}", style.stopped())]
            }
            EventBody::McpCalled { server, tool, outcome: McpOutcome::Refused, .. } => {
                vec![format!("  {} {}", style.failed(), clean(&format!("the tool {tool} of {server} is not allowed")))]
            }
            EventBody::AgentReattached { .. } => {
                vec![style.dim("  the worker was replaced; the agent continues")]
            }
            EventBody::SessionInterrupted { author, reason, .. } => {
                let why = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
                vec![format!("  {} {}", style.stopped(), clean(&format!("interrupted by {author}{why}")))]
            }
            EventBody::SessionResumed { author, prompt, .. } => {
                let asked = prompt.as_ref().map(|prompt| format!(": {}", prompt.title())).unwrap_or_default();
                vec![format!("  {}", style.bold(&shorten(style, &clean(&format!("resumed by {author}{asked}")))))]
            }
            EventBody::RacePlaced { cost_usd, changed_lines } => {
                let lines = if *changed_lines == 1 { "line" } else { "lines" };
                let what = format!("it passes: {cost_usd}, {changed_lines} {lines} changed; waiting for the others");
                vec![format!("  {} {what}", style.ok())]
            }
            EventBody::RaceJudged { winner, reason, agent, .. } => {
                vec![format!("  {}", clean(&format!("{agent} finds task {} the best: {reason}", winner.short())))]
            }
            EventBody::RaceDecided { .. } => vec![format!("  {} it wins the race", style.ok())],
            EventBody::TaskRetried { delay_ms: 0, .. } => {
                self.retried = true;
                vec![format!("  {}", style.bold("a retry is queued"))]
            }
            EventBody::TaskFinished(_) if std::mem::take(&mut self.retried) => {
                vec![format!("  {} the retry was cancelled before it began", style.stopped())]
            }
            EventBody::TurnStarted { turn_id, .. } => {
                self.retried = false;
                self.waiting.remove(turn_id);
                Vec::new()
            }
            EventBody::TurnFinished { turn_id, .. } => match self.waiting.remove(turn_id) {
                Some(number) => vec![format!("  {} turn {number} was cancelled before it began", style.stopped())],
                None => Vec::new(),
            },
            EventBody::TurnQueued { turn_id, number, author, prompt, .. } => {
                self.waiting.insert(turn_id.clone(), *number);
                let asked = shorten(style, &clean(&format!("{author} queued turn {number}: {}", prompt.title())));
                vec![format!("  {}", style.bold(&asked))]
            }
            EventBody::ToolCall { name, input, .. } => {
                vec![format!("  {}", style.accent(&call(self.style, name, input)))]
            }
            EventBody::ToolResult { output, is_error, .. } => result(style, output, *is_error),
            EventBody::SandboxReady { purpose: SandboxPurpose::Execute, provider, workspace, duration_ms, .. } => {
                let workspace = serde_json::to_value(workspace).unwrap_or_default();
                let kind = workspace.as_str().unwrap_or_default().to_owned();
                vec![style.dim(&format!("  sandbox ready in {} ({provider}, {kind})", elapsed(*duration_ms)))]
            }
            EventBody::FileChanged { path, change } => {
                let sign = match change {
                    FileChange::Added => style.good("+"),
                    FileChange::Modified => style.warn("~"),
                    FileChange::Deleted => style.bad("-"),
                };
                vec![format!("  {sign} {}", clean(path))]
            }
            EventBody::TestsFinished(run) => tests(style, run),
            EventBody::LimitReached { message, .. } => {
                vec![format!("  {} {}", style.warn("stopping:"), clean(message))]
            }
            EventBody::HookFinished { stage, run, exit_code: 0, .. } => {
                vec![format!("  {} {}", style.good("✓"), style.dim(&clean(&format!("{}: {run}", stage.as_str()))))]
            }
            EventBody::HookFinished { stage, run, exit_code, output_tail, .. } => {
                let told = style.dim(&clean(&format!("{}: {run} (exit code {exit_code})", stage.as_str())));
                let mut lines = vec![format!("  {} {told}", style.bad("✗"))];
                lines.extend(last_lines(style, output_tail));
                lines
            }
            EventBody::Warning { message } => vec![format!("  {} {}", style.warn("warning:"), clean(message))],
            // The sums at the end say nothing new to a person.
            EventBody::Egress { host, port, verdict: EgressVerdict::Refused, reason, connections: 1, .. } => {
                let reason = clean(reason.as_deref().unwrap_or("it is not allowed"));
                vec![format!("  {} connection to {}:{port} refused: {reason}", style.warn("warning:"), clean(host))]
            }
            EventBody::BudgetReached { account, percent, spent_usd, limit_usd } => {
                let whose =
                    if account.starts_with("task:") { "the budget" } else { &format!("today's budget of {account}") };
                let text = format!(
                    "{}% of {whose} is spent: {spent_usd} of {limit_usd}",
                    share(*percent, *spent_usd, *limit_usd)
                );
                vec![format!("  {} {}", style.warn("warning:"), clean(&text))]
            }
            // The count at the end says nothing new to a person.
            EventBody::ModelTrouble { provider, model, problem, remedy, count: 1, .. } => {
                let done = match remedy {
                    Remedy::Retried => "asking again",
                    Remedy::FailedOver => "trying the next credential",
                    Remedy::FellBack => "trying another model",
                    Remedy::Rested => return Vec::new(),
                    Remedy::GaveUp => "giving up",
                };
                vec![style.dim(&format!("  {} {}: {}; {done}", clean(provider), clean(model), clean(problem)))]
            }
            EventBody::Raw { stream: OutputStream::Stderr, line } => {
                vec![style.dim(&format!("  {}", shorten(style, &clean(line))))]
            }
            _ => Vec::new(),
        }
    }

    /// What is going on, for the spinner.
    pub fn status(event: &EventBody) -> Option<&'static str> {
        match event {
            EventBody::TurnStarted { .. } => Some("preparing the workspace"),
            EventBody::AgentStarted { .. } | EventBody::ToolResult { .. } => Some("thinking"),
            EventBody::ToolCall { .. } => Some("working"),
            EventBody::AgentFinished { .. } => Some("saving the work"),
            EventBody::StageFinished { stage: harvest_core::StageName::Execute, .. } => {
                Some("running the tests in clean sandboxes")
            }
            EventBody::StageFinished { stage: harvest_core::StageName::Verify, .. } => Some("delivering"),
            _ => None,
        }
    }

    fn complete_lines(&mut self) -> Vec<String> {
        match self.streaming.rfind('\n') {
            Some(end) => {
                let rest = self.streaming.split_off(end + 1);
                said(&std::mem::replace(&mut self.streaming, rest))
            }
            None => Vec::new(),
        }
    }
}

fn said(text: &str) -> Vec<String> {
    clean(text).trim_end().lines().filter(|line| !line.trim().is_empty()).map(|line| format!("  {line}")).collect()
}

fn call(style: Style, name: &str, input: &serde_json::Value) -> String {
    let field = |names: &[&str]| names.iter().find_map(|name| input[name].as_str());
    let shown = match field(&["command", "cmd"]) {
        Some(command) => format!("$ {command}"),
        None => match field(&["path", "file_path", "pattern"]) {
            Some(what) => format!("{name} {what}"),
            None => format!("{name} {input}"),
        },
    };
    shorten(style, &clean(&shown).replace('\n', " "))
}

fn result(style: Style, output: &str, is_error: bool) -> Vec<String> {
    let output = clean(output);
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let hidden = lines.len().saturating_sub(OUTPUT_LINES);
    let bar = style.symbol("│", "|");
    let mut shown = Vec::new();
    if hidden > 0 {
        shown.push(style.dim(&format!(
            "    {bar} {} {hidden} more {}",
            style.ellipsis(),
            if hidden == 1 { "line" } else { "lines" }
        )));
    }
    for line in &lines[hidden..] {
        let line = format!("    {bar} {}", shorten(style, line));
        shown.push(if is_error { style.bad(&line) } else { style.dim(&line) });
    }
    shown
}

/// How much of a budget is spent, in per cent. One call may go far beyond the threshold that is told of.
fn share(threshold: u8, spent: Cost, limit: Cost) -> u128 {
    let percent = (u128::from(spent.nanos()) * 100).checked_div(u128::from(limit.nanos()));
    percent.map_or(u128::from(threshold), |percent| percent.max(u128::from(threshold)))
}

/// The counts and, if the result fails, the last lines that its tests printed.
fn tests(style: Style, run: &TestRun) -> Vec<String> {
    let place = if run.purpose == SandboxPurpose::Baseline { "at the base" } else { "at the result" };
    let passes = run.exit_code == 0 && run.failed.unwrap_or(0) == 0;
    let sign = if passes { style.ok() } else { style.failed() };
    let counts = match (run.passed, run.failed) {
        (Some(0), Some(0)) => "no tests ran".to_owned(),
        (Some(passed), Some(failed)) => format!("{passed} passed, {failed} failed"),
        _ => format!("exit code {} (no counts)", run.exit_code),
    };
    let took = style.dim(&format!("({})", elapsed(run.duration_ms)));
    let mut lines = vec![format!("  {sign} tests {place}: {counts} {took}")];
    if let Some(why) = run.names.missing.and_then(MissingNames::explain) {
        lines.push(format!("    {} not all tests are known by name: {why}", style.warn("warning:")));
    }
    if !passes && run.purpose != SandboxPurpose::Baseline {
        let telling = harvest_engine::telling_lines(&run.output_tail);
        // Lines that were picked out begin with a failed test; of those at the end the last ones say most.
        let is_end = run.output_tail.trim_end().ends_with(&telling);
        lines.extend(if is_end { last_lines(style, &telling) } else { first_lines(style, &telling) });
    }
    lines
}

fn first_lines(style: Style, output: &str) -> Vec<String> {
    let printed = output.lines().map(str::trim_end).filter(|line| !line.is_empty());
    printed.take(LAST_LINES).map(|line| printed_line(style, line)).collect()
}

fn printed_line(style: Style, line: &str) -> String {
    format!("    {}", style.dim(&shorten(style, &clean(line))))
}

/// The last lines of what a command printed.
fn last_lines(style: Style, output: &str) -> Vec<String> {
    let printed: Vec<&str> = output.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let start = printed.len().saturating_sub(LAST_LINES);
    printed[start..].iter().map(|line| printed_line(style, line)).collect()
}

fn shorten(style: Style, line: &str) -> String {
    if line.chars().count() <= WIDTH {
        return line.to_owned();
    }
    let ellipsis = style.ellipsis();
    line.chars().take(WIDTH - ellipsis.len()).chain(ellipsis.chars()).collect()
}

#[cfg(test)]
mod tests_of_lines {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_warning_about_a_budget_says_how_much_of_it_is_spent() {
        let told = |percent, spent: f64, limit: f64| {
            let (spent_usd, limit_usd) = (Cost::from_dollars(spent).unwrap(), Cost::from_dollars(limit).unwrap());
            let account = "task:7k3m".to_owned();
            Activity::new(Style::plain(false))
                .lines(&EventBody::BudgetReached { account, percent, spent_usd, limit_usd })
                .join("\n")
        };
        assert_eq!(told(80, 4.98, 5.0), "  warning: 99% of the budget is spent: $4.98 of $5.00");
        assert_eq!(told(80, 4.0, 5.0), "  warning: 80% of the budget is spent: $4.00 of $5.00");
        assert_eq!(told(50, 5.2, 5.0), "  warning: 104% of the budget is spent: $5.20 of $5.00");
        assert_eq!(told(50, 0.0, 0.0), "  warning: 50% of the budget is spent: $0.00 of $0.00");
    }

    #[test]
    fn a_failed_node_test_is_shown_with_its_failures() {
        let output = include_str!("../../../engine/src/verify/report/recorded/node-failures-tap.txt");
        let run = json!({
            "purpose": "verify", "commit": "c", "command": "node --test", "exit_code": 1, "passed": 8, "failed": 2,
            "skipped": 1, "timed_out": false, "duration_ms": 100, "output_tail": output,
        });
        let run: TestRun = serde_json::from_value(run).unwrap();
        let shown = Activity::new(Style::plain(false)).lines(&EventBody::TestsFinished(run)).join("\n");
        assert!(shown.contains("not ok 2 - adds up its prices") && shown.contains("-3 !== 3"), "{shown}");
        assert!(!shown.contains("# pass"), "{shown}");
    }

    #[test]
    fn a_turn_reads_like_a_conversation() {
        let events = [
            EventBody::MessageDelta { text: "I will ".into() },
            EventBody::MessageDelta { text: "look.\nThen fix".into() },
            EventBody::Message { role: MessageRole::Assistant, text: "I will look.\nThen fix".into() },
            EventBody::ToolCall { id: "1".into(), name: "bash".into(), input: json!({"command": "ls\n-l"}) },
            EventBody::ToolResult { id: "1".into(), output: "a\nb\nc\nd\ne\nexit code 0".into(), is_error: false },
            EventBody::FileChanged { path: "src/x".into(), change: FileChange::Added },
            EventBody::Warning { message: "careful".into() },
        ];
        let mut activity = Activity::new(Style::plain(false));
        let lines: Vec<String> = events.iter().flat_map(|event| activity.lines(event)).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }
}
