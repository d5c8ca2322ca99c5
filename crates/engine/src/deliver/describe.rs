//! What commits and pull requests say: pure texts of what is known.

use harvest_core::{Cost, Evidence, Flag, Prompt, Session, Source, Task, TestVerdict};

use super::Finished;
use super::status::issue_number;

const LONGEST_TITLE: usize = 72;
const LONGEST_SUMMARY: usize = 6000;
const MOST_FOLLOW_UPS: usize = 20;
const LONGEST_FOLLOW_UP: usize = 400;
/// Of each list of tests.
const MOST_NAMES: usize = 20;

/// What a turn was asked, and what its agent said last about its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TurnReport {
    pub(super) title: String,
    pub(super) summary: String,
}

/// Everything that a pull request tells.
pub(super) struct About<'a> {
    pub(super) task: &'a Task,
    pub(super) session: &'a Session,
    pub(super) result: Finished<'a>,
    /// The turns so far, the first request first.
    pub(super) turns: &'a [TurnReport],
    pub(super) cost: Cost,
    pub(super) changed: usize,
    pub(super) public_url: Option<&'a str>,
    /// The one that worked on it last.
    pub(super) model: Option<&'a str>,
    /// The evidence, signed.
    pub(super) envelope: Option<serde_json::Value>,
}

impl About<'_> {
    pub(super) fn body(&self) -> String {
        let mut parts = Vec::new();
        let message = self.result.failure.map(|failure| failure.message.as_str());
        parts.extend(message.map(|message| format!("> **Not finished:** {}", quiet(message))));
        let (first, later) = match self.turns {
            [first, later @ ..] => (first.summary.as_str(), later),
            [] => ("", self.turns),
        };
        let summary = cut(first.trim(), LONGEST_SUMMARY);
        parts.push(if summary.is_empty() { "No summary was given.".to_owned() } else { quiet(&summary) });
        parts.extend(follow_ups(later));
        if let (Source::GithubIssue, Some(number)) =
            (self.task.source, self.task.source_url.as_deref().and_then(issue_number))
        {
            parts.push(format!("Closes #{number}"));
        }
        parts.push(format!("### Evidence\n\n{}", evidence(self.result.evidence, message)));
        if let Some(envelope) = &self.envelope {
            parts.push(format!(
                "<details><summary>Signed evidence</summary>\n\n`harvest evidence verify FILE` checks it, with this in the file:\n\n\
                 ```json\n{envelope}\n```\n\n</details>"
            ));
        }
        parts.push(format!("### Before you merge\n\n{}", checklist(self.result.evidence)));
        let mut about = vec![
            if self.changed == 1 { "1 file changed".to_owned() } else { format!("{} files changed", self.changed) },
            format!("cost {}", self.cost),
            format!("agent {}", self.task.agent),
        ];
        about.extend(self.model.map(|model| format!("model {model}")));
        about.push(match self.public_url {
            Some(url) => format!("[live log]({url}/sessions/{})", self.session.id),
            None => format!("task {}", self.task.id.short()),
        });
        parts.push(format!("<sub>{}</sub>", about.join(" · ")));
        parts.join("\n\n")
    }
}

/// The turns after the first, newest last.
fn follow_ups(turns: &[TurnReport]) -> Option<String> {
    let left_off = turns.len().saturating_sub(MOST_FOLLOW_UPS);
    let entry = |turn: &TurnReport| {
        let summary = in_one_line(&turn.summary, LONGEST_FOLLOW_UP);
        let colon = if summary.is_empty() { "" } else { ": " };
        format!("- **{}**{colon}{summary}", in_one_line(&turn.title, LONGEST_TITLE))
    };
    let mut lines: Vec<String> = turns[left_off..].iter().map(entry).collect();
    if left_off > 0 {
        lines.insert(0, format!("- {} before these", counted(left_off, "follow-up")));
    }
    (!lines.is_empty()).then(|| format!("### Follow-ups\n\n{}", lines.join("\n")))
}

/// The runs and what they come to. `message` stands above, and may have the hint.
fn evidence(evidence: Option<&Evidence>, message: Option<&str>) -> String {
    let Some(evidence) = evidence else {
        return "No tests were run: there is no test command, or the work did not get that far.".to_owned();
    };
    let count = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
    let row = |name: &str, exit: i32, passed, failed, skipped| {
        format!("| {name} | {exit} | {} | {} | {} |", count(passed), count(failed), count(skipped))
    };
    let baseline = &evidence.baseline;
    let mut lines = vec![
        format!("`{}` in a clean sandbox, at the base and at the result:", evidence.command.replace('`', "'")),
        String::new(),
        "| | exit code | passed | failed | skipped |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
        row("base", baseline.exit_code, baseline.passed, baseline.failed, baseline.skipped),
        row("result", evidence.exit_code, evidence.passed, evidence.failed, evidence.skipped),
    ];
    lines.push(format!("\n**{}**", sentence(&verdict(Some(evidence)))));
    if evidence.passed.is_none() && evidence.verdict() != TestVerdict::CannotRun {
        lines.push("\nThe test runner printed no counts that Harvest can read.".to_owned());
    }
    for flag in &evidence.flags {
        lines.push(format!("\n⚠ {}", quiet(&evidence.explain(*flag))));
    }
    for (title, names) in evidence.tests.lists().into_iter().filter(|(_, names)| !names.is_empty()) {
        let shown: Vec<String> = names.iter().take(MOST_NAMES).map(|name| format!("`{}`", in_code(name))).collect();
        let more = names.len().saturating_sub(MOST_NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        lines.push(format!("\n**{title}** ({}): {}{more}", names.len(), shown.join(", ")));
    }
    lines.extend(evidence.tests.incomplete.as_deref().map(|why| format!("\n⚠ {}", sentence(&quiet(why)))));
    let hint = evidence.hint.as_deref().filter(|hint| !message.is_some_and(|message| message.contains(*hint)));
    lines.extend(hint.map(|hint| format!("\n{}", sentence(&quiet(hint)))));
    if !evidence.output.is_empty() {
        let block = fenced(&evidence.output, usize::MAX);
        lines.push(format!("\n{}", folded("Last lines of the tests", &block)));
    }
    lines.join("\n")
}

/// The verdict on completed work. Names of tests are a stranger's text.
pub(super) fn verdict(evidence: Option<&Evidence>) -> String {
    let name = |name: &str| format!("`{}`", in_code(name));
    evidence.map_or_else(|| Evidence::words_of(None), |evidence| evidence.verdict_naming(name))
}

/// Text of a stranger as a block of code: nothing in it is Markdown, and no mention in it is live.
pub(super) fn fenced(text: &str, most: usize) -> String {
    // A fence within the text must not end this one.
    format!("```text\n{}\n```", cut(text.trim_end(), most).replace("```", "'''"))
}

/// A block that readers open.
pub(super) fn folded(summary: &str, block: &str) -> String {
    format!("<details><summary>{summary}</summary>\n\n{block}\n\n</details>")
}

/// A number of things.
pub(super) fn counted(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// A reason among other words: one line, without Markdown of its own.
pub(super) fn in_one_line(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_markup = |letter: char| matches!(letter, '`' | '*' | '_' | '[' | ']' | '<' | '>' | '!' | '|' | '\\');
    let plain =
        cut(&line, most).chars().map(|letter| if is_markup(letter) { '\'' } else { letter }).collect::<String>();
    quiet(&plain)
}

/// The end of a text, which has its last words.
pub(super) fn last_part(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().skip(length - (most - 1)).collect();
    format!("…{kept}")
}

/// A phrase as a sentence.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// Text of a stranger between backticks: it stays there, on one line.
fn in_code(text: &str) -> String {
    text.chars().map(|letter| if letter == '`' || letter.is_control() { '\'' } else { letter }).collect()
}

fn checklist(evidence: Option<&Evidence>) -> String {
    let tick = |done: bool, text: &str| format!("- [{}] {text}", if done { "x" } else { " " });
    let proved = evidence.is_some_and(Evidence::proves_success);
    let untouched = evidence.is_some_and(|evidence| {
        let changed = &evidence.changed;
        let is_about_tests = |flag: &Flag| {
            matches!(flag, Flag::TestsChanged | Flag::TestsDeleted | Flag::TestsVanished | Flag::FewerTests)
        };
        let no_flag = !evidence.flags.iter().any(is_about_tests);
        // Where the runner names failed tests alone, a test that fails no more may have been renamed.
        let is_known = evidence.tests.no_longer_failing.is_empty() || proved;
        no_flag
            && is_known
            && changed.tests.is_empty()
            && changed.helpers.is_empty()
            && evidence.tests.vanished.is_empty()
    });
    let quiet = evidence.is_some_and(|evidence| evidence.changed.ci.is_empty() && evidence.changed.settings.is_empty());
    [
        tick(proved, "the tests pass in a clean sandbox"),
        tick(untouched, "no existing test was changed"),
        tick(quiet, "neither CI nor settings were changed"),
        tick(false, "a person has read the change"),
    ]
    .join("\n")
}

pub(super) fn title(prompt: &Prompt) -> String {
    let title = quiet(prompt.title());
    let title = title.trim_start_matches('#').trim();
    let cut = cut(title, LONGEST_TITLE);
    let mut letters = cut.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => "Changes".to_owned(),
    }
}

/// A subject, what was done, and who had a part in it.
pub(super) fn commit_message(prompt: &Prompt, summary: &str, trailers: &str) -> String {
    let mut message = title(prompt);
    let summary = cut(summary.trim(), LONGEST_SUMMARY);
    if !summary.is_empty() {
        // A line that begins with `#` is a comment to some tools, and a trailer in the text would be taken for one.
        let lines = summary.lines().map(|line| line.trim_start_matches('#').trim_end().replace("-by:", "-by :"));
        message = format!("{message}\n\n{}", lines.collect::<Vec<_>>().join("\n"));
    }
    format!("{message}\n\n{trailers}\n")
}

/// Text of an agent as others may see it: it calls nobody, closes nothing and hides nothing.
pub(super) fn quiet(text: &str) -> String {
    let text = text.replace("<!--", "&lt;!--");
    let mut quiet = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        quiet.push(letter);
        let calls = letter == '@' && letters.peek().is_some_and(char::is_ascii_alphanumeric);
        let names = letter == '#' && letters.peek().is_some_and(char::is_ascii_digit);
        if calls || names {
            quiet.push('\u{200b}');
        }
    }
    quiet
}

pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most - 1).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use harvest_core::{Baseline, ChangedFiles, TestChanges};

    use super::*;

    #[test]
    fn an_agents_text_calls_nobody_and_closes_nothing() {
        assert_eq!(
            quiet("Ask @ada, closes #12. <!-- harvest: x --> a@b"),
            "Ask @\u{200b}ada, closes #\u{200b}12. &lt;!-- harvest: x --> a@\u{200b}b"
        );
        assert_eq!(quiet("# Title, 5 @ 3"), "# Title, 5 @ 3");
    }

    #[test]
    fn follow_ups_are_a_list_of_what_was_asked_and_done() {
        let turn = |title: &str, summary: &str| TurnReport { title: title.to_owned(), summary: summary.to_owned() };
        assert_eq!(follow_ups(&[]), None);
        assert_eq!(
            follow_ups(&[turn("Use *two*, @ada", "Two is used.\n\nClosed #3."), turn("Go on", "")]).unwrap(),
            "### Follow-ups\n\n- **Use 'two', @\u{200b}ada**: Two is used. Closed #\u{200b}3.\n- **Go on**"
        );
        let many = vec![turn("x", ""); MOST_FOLLOW_UPS + 2];
        assert!(follow_ups(&many).unwrap().starts_with("### Follow-ups\n\n- 2 follow-ups before these\n- **x**\n"));
    }

    fn failing() -> Evidence {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Evidence {
            commit: "c".repeat(40),
            tree: None,
            command: "make test".into(),
            exit_code: 1,
            passed: Some(3),
            failed: Some(3),
            skipped: Some(0),
            duration_ms: 12,
            environment: "sha256:0".into(),
            baseline: Baseline { exit_code: 1, passed: Some(3), failed: Some(2), skipped: Some(0) },
            flags: vec![Flag::TestsVanished],
            changed: ChangedFiles::default(),
            verdict: Some(TestVerdict::Failed),
            tests: TestChanges {
                fixed: names(&["adds"]),
                no_longer_failing: names(&["averages"]),
                broken: names(&["calls `@ada`"]),
                added_failing: names(&["divides"]),
                still_failing: names(&["multiplies"]),
                added: (0..MOST_NAMES + 2).map(|number| format!("new {number}")).collect(),
                vanished: names(&["subtracts"]),
                left_off: 0,
                incomplete: None,
            },
            output: "not ok 3 - divides\n```\n@ada".into(),
            hint: Some("`bc` is not installed in the sandbox".into()),
        }
    }

    #[test]
    fn the_evidence_of_a_pull_request_lists_each_kind_of_test_with_the_last_lines_and_the_hint() {
        let new: Vec<String> = (0..MOST_NAMES).map(|number| format!("`new {number}`")).collect();
        let expected = [
            "`make test` in a clean sandbox, at the base and at the result:",
            "",
            "| | exit code | passed | failed | skipped |",
            "|---|---|---|---|---|",
            "| base | 1 | 3 | 2 | 0 |",
            "| result | 1 | 3 | 3 | 0 |",
            "",
            "**The tests fail.**",
            "",
            "⚠ tests that ran at the base are missing",
            "",
            "**fail → pass** (1): `adds`",
            "",
            "**no longer listed as failing** (1): `averages`",
            "",
            "**pass → fail** (1): `calls '@ada'`",
            "",
            "**new, fails** (1): `divides`",
            "",
            "**still failing** (1): `multiplies`",
            "",
            &format!("**new** ({}): {} and 2 more", MOST_NAMES + 2, new.join(", ")),
            "",
            "**vanished** (1): `subtracts`",
            "",
            "`bc` is not installed in the sandbox.",
            "",
            "<details><summary>Last lines of the tests</summary>",
            "",
            "```text",
            "not ok 3 - divides",
            "'''",
            "@ada",
            "```",
            "",
            "</details>",
        ];
        assert_eq!(evidence(Some(&failing()), None), expected.join("\n"));
        let message = "`make test` ended with exit code 1 at the result; `bc` is not installed in the sandbox";
        assert!(!evidence(Some(&failing()), Some(message)).contains("installed"), "the hint is told once");
    }

    #[test]
    fn a_test_that_vanished_is_named_in_the_verdict_and_takes_the_tick_from_the_checklist() {
        let passing = Evidence {
            exit_code: 0,
            failed: Some(0),
            verdict: Some(TestVerdict::Verified),
            tests: TestChanges { vanished: vec!["calls `@ada`".into()], ..TestChanges::default() },
            output: String::new(),
            hint: None,
            ..failing()
        };
        let body = evidence(Some(&passing), None);
        assert!(body.contains("\n**Verified, 1 test vanished (`calls '@ada'`).**\n"), "{body}");
        assert!(checklist(Some(&passing)).contains("- [ ] no existing test was changed"));
        let untouched = Evidence { flags: Vec::new(), tests: TestChanges::default(), ..passing };
        assert!(evidence(Some(&untouched), None).contains("\n**Verified.**"));
        assert!(checklist(Some(&untouched)).contains("- [x] no existing test was changed"));
        for flag in [Flag::TestsChanged, Flag::TestsDeleted, Flag::FewerTests] {
            let flagged = Evidence { flags: vec![flag], ..untouched.clone() };
            assert!(checklist(Some(&flagged)).contains("- [ ] no existing test was changed"), "{flag:?}");
        }
        assert_eq!(verdict(None), "not verified");
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        assert_eq!(cut("ééééé", 5), "ééééé");
        assert_eq!(cut("éé éé é", 4), "éé…");
    }
}
