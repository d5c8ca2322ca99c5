//! A review is handed over as one: what is said of the whole, and remarks on the lines they are about.
//!
//! The agent says it in its last message. What it says about lines that the host's diff does not show would be refused there,
//! and is said of the whole instead.

use std::collections::BTreeSet;

use harvest_forge::{Forge, Hosting, PullRequest, Remark, Review};
use serde::Deserialize;

use super::describe::quiet;
use super::status::issue_number;
use super::{Finished, describe};
use crate::error::Halt;
use crate::turn::Turn;
use crate::{Engine, Error, failpoint};

/// What an agent is asked for, so that its answer can be read.
pub const REVIEW: &str = "Review this pull request. Your last message is the review: first, in a few sentences, what you think \
     of the whole; then one block of JSON with your findings, or with none:\n\n```json\n[{\"path\": \"src/a.rs\", \"line\": 7, \
     \"body\": \"What happens, and what to do instead.\"}]\n```\n\nLines are those of the new file.";
const LONGEST: usize = 60_000;

/// A pull request, and what it would change.
#[derive(Debug, Clone)]
pub struct Change {
    pub pull: PullRequest,
    pub diff: String,
}

impl Engine {
    /// What a pull request would change, as of `head`, or as of now. All of it is in the mirror then.
    pub async fn change(
        &self,
        forge: &dyn Forge,
        hosting: &dyn Hosting,
        number: u64,
        head: Option<&str>,
    ) -> Result<Change, Error> {
        let pull = hosting.pull_request(number).await?;
        let onto = forge.resolve(Some(&pull.into)).await?;
        let mirror = self.mirrors.open(&forge.identity(), &onto.object_format).await?;
        let head = head.unwrap_or(&pull.head);
        for commit in [onto.commit.as_str(), head] {
            mirror.ensure(commit, || forge.fetch(&mirror, commit)).await?;
        }
        let diff = mirror.proposed(&onto.commit, head).await?;
        Ok(Change { diff: String::from_utf8_lossy(&diff).into_owned(), pull })
    }
}

impl Turn {
    /// Gives the review. Doing it twice is the same as once.
    pub(super) async fn deliver_review(
        &self,
        forge: &dyn Forge,
        hosting: &dyn Hosting,
        result: Finished<'_>,
    ) -> Result<(), Halt> {
        let number = self.task.source_url.as_deref().and_then(issue_number);
        let Some(number) = number.filter(|_| result.failure.is_none()) else { return Ok(()) };
        // Asked again, it is about what the pull request has become.
        let first = self.session.turns.first().is_some_and(|turn| turn.id == self.lease().turn);
        let head = first.then_some(self.task.base.as_str());
        let change = self.patiently(|| self.engine.change(forge, hosting, number, head)).await?;
        let commit = head.unwrap_or(&change.pull.head).to_owned();
        let said = Said::read(&self.summary().await?);
        let (remarks, elsewhere) = said.placed(&shown_lines(&change.diff));
        let mut body = vec![quiet(&said.whole)];
        body.extend(elsewhere.iter().map(|remark| {
            let line = remark.line.map(|line| format!(":{line}")).unwrap_or_default();
            format!("`{}{line}`: {}", remark.path.replace('`', "'"), remark.body)
        }));
        body.push(format!("<sub>reviewed at {} by {}</sub>", short(&commit), self.task.agent));
        let review = Review {
            marker: format!("review of turn {}", self.lease().turn),
            commit,
            body: describe::cut(&body.join("\n\n"), LONGEST),
            remarks,
        };
        self.patiently(|| async { Ok(hosting.review(number, &review).await?) }).await?;
        failpoint::reach("deliver::reviewed")?;
        Ok(())
    }
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// A review as an agent gave it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    whole: String,
    findings: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Finding {
    path: String,
    #[serde(default)]
    line: Option<u64>,
    body: String,
}

impl Said {
    /// The last block that is a list of findings is that list; the rest is about the whole. Without one all of it is.
    fn read(text: &str) -> Self {
        let mut end = text.len();
        while let Some(begin) = text[..end].rfind("```json") {
            let inside = &text[begin + "```json".len()..];
            if let Some((block, rest)) = inside.split_once("```")
                && let Ok(findings) = serde_json::from_str::<Vec<Finding>>(block)
            {
                let whole = format!("{}\n\n{}", text[..begin].trim(), rest.trim());
                return Self { whole: whole.trim().to_owned(), findings };
            }
            end = begin;
        }
        Self { whole: text.trim().to_owned(), findings: Vec::new() }
    }

    /// Remarks that have a place in the diff, and those that have none.
    fn placed(&self, shown: &BTreeSet<(String, u64)>) -> (Vec<Remark>, Vec<Remark>) {
        let remark = |finding: &Finding| Remark {
            path: finding.path.trim_start_matches("./").to_owned(),
            line: finding.line,
            author: String::new(),
            body: quiet(&describe::cut(finding.body.trim(), LONGEST / 10)),
        };
        let has_place = |remark: &Remark| remark.line.is_some_and(|line| shown.contains(&(remark.path.clone(), line)));
        self.findings.iter().map(remark).partition(has_place)
    }
}

/// The lines of the new files that a diff shows.
fn shown_lines(diff: &str) -> BTreeSet<(String, u64)> {
    let (mut shown, mut path, mut line) = (BTreeSet::new(), None, None);
    for text in diff.lines() {
        match (line, text.as_bytes().first()) {
            (Some(number), Some(b'+' | b' ')) => {
                if let Some(path) = &path {
                    shown.insert((String::clone(path), number));
                }
                line = Some(number + 1);
            }
            (Some(_), Some(b'-' | b'\\')) => {}
            _ => line = None,
        }
        if line.is_none() {
            if let Some(name) = text.strip_prefix("+++ ") {
                path = name.trim_end_matches('\t').strip_prefix("b/").map(str::to_owned);
            } else if let Some(hunk) = text.strip_prefix("@@ -") {
                let first = hunk.split_once(" +").and_then(|(_, new)| new.split([',', ' ']).next());
                line = first.and_then(|first| first.parse::<u64>().ok());
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "diff --git a/src/a.rs b/src/a.rs\n--- a/src/a.rs\n+++ b/src/a.rs\n@@ -3,3 +3,4 @@ fn x()\n one\n-two\n+2\n+++ 3\n four\n\
                        @@ -20 +21 @@\n-a\n+b\n\\ No newline at end of file\ndiff --git a/gone b/gone\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";

    #[test]
    fn the_lines_that_a_diff_shows() {
        let lines: Vec<(String, u64)> = [3, 4, 5, 6, 21].iter().map(|line| ("src/a.rs".to_owned(), *line)).collect();
        assert_eq!(shown_lines(DIFF).into_iter().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn a_review_is_read_from_the_last_message() {
        let said = Said::read(
            "Fine. ```json\n{\"a\": 1}\n```\n```json\n[{\"path\": \"./src/a.rs\", \"line\": 4, \"body\": \"@ada why?\"}, {\"path\": \"b\", \"line\": 9, \"body\": \"Hm.\"}, {\"path\": \"c\", \"body\": \"All.\"}]\n```\nBye.",
        );
        assert_eq!(said.whole, "Fine. ```json\n{\"a\": 1}\n```\n\nBye.");
        let (there, elsewhere) = said.placed(&shown_lines(DIFF));
        let told = |remark: &Remark| (remark.path.clone(), remark.line, remark.body.clone());
        assert_eq!(
            there.iter().map(told).collect::<Vec<_>>(),
            [("src/a.rs".to_owned(), Some(4), "@\u{200b}ada why?".to_owned())]
        );
        assert_eq!(elsewhere.len(), 2);
        assert_eq!(Said::read("Only words."), Said { whole: "Only words.".into(), findings: Vec::new() });
        assert_eq!(Said::read("```json\nnot a list").whole, "```json\nnot a list");
    }
}
