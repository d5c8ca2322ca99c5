//! What an agent is told about a task: the person's words, the repository's conventions, the files they mention, and the rules
//! of working here. Everything is read from the mirror at the base commit, never from a tree that an agent could write.

use std::collections::BTreeMap;

use harvest_agents::Agent;
use harvest_agents::prompt::{
    self, CONVENTIONS, Document, Knowledge, Occasion, Prompts, Seed, Surroundings, fit, mentioned, mentions_files,
};
use harvest_core::FailureReason;
use harvest_sandbox::{File, Sandbox};

use crate::conversation::shortened;
use crate::error::Halt;
use crate::turn::Turn;
use crate::{Engine, Failure};

/// What conventions and mentioned files may take of a prompt together, in tokens.
const CONTEXT_TOKENS: usize = 8_000;
/// A file larger than this is not looked at.
const MOST_FILE_BYTES: usize = 256 * 1024;

/// So much is told of what someone else wrote, of a diff, and of how many comments, findings and checks.
const MOST_TEXT_BYTES: usize = 16 * 1024;
const MOST_DIFF_BYTES: usize = 256 * 1024;
const MOST_ENTRIES: usize = 30;

/// The templates of an installation, and of its projects.
#[derive(Debug, Clone, Default)]
pub struct PromptBook {
    pub everyone: Prompts,
    pub projects: BTreeMap<String, Prompts>,
    /// What agents' memories begin with: for everyone, then by project.
    pub memory: Seed,
    pub memories: BTreeMap<String, Seed>,
}

/// Something that happened, for an agent to deal with. What others wrote stands in the prompt between lines that say so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Situation {
    Issue { title: String, author: String, body: String, url: Option<String>, comments: Vec<Remark> },
    Review { title: String, author: String, body: String, diff: String },
    Fix { findings: Vec<Found> },
    CiFailure { checks: Vec<FailedCheck> },
}

/// A comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    pub author: String,
    pub text: String,
}

/// Something that is wrong, perhaps at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub path: Option<String>,
    pub line: Option<u32>,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCheck {
    pub name: String,
    pub log: String,
}

impl PromptBook {
    /// The prompt for a task or a turn that deals with a situation: `request` first, in whose words it may be, then what
    /// happened. Conventions and rules are added where it is worked on. However much others wrote, it stays a prompt.
    pub fn tell(&self, project: Option<&str>, request: &str, situation: &Situation) -> Result<String, prompt::Error> {
        let short = |text: &str| shortened(text.trim(), MOST_TEXT_BYTES);
        let render = |occasion: &Occasion<'_>| self.of(project).render_alone(request, occasion);
        match situation {
            Situation::Issue { title, author, body, url, comments } => {
                let (body, left) = (short(body), comments.len().saturating_sub(MOST_ENTRIES));
                let said = |comment: &Remark| (comment.author.clone(), short(&comment.text));
                let owned: Vec<(String, String)> = comments[left..].iter().map(said).collect();
                let comments: Vec<prompt::Said<'_>> =
                    owned.iter().map(|(author, text)| prompt::Said { author, text }).collect();
                render(&Occasion::Issue {
                    issue: prompt::Issue { title, author, body: &body, url: url.as_deref(), comments: &comments },
                })
            }
            Situation::Review { title, author, body, diff } => {
                let (body, diff) = (short(body), shortened(diff, MOST_DIFF_BYTES));
                render(&Occasion::Review { change: prompt::Change { title, author, body: &body, diff: &diff } })
            }
            Situation::Fix { findings } => {
                let finding = |found: &Found| (found.path.clone(), found.line, short(&found.text));
                let owned: Vec<_> = findings.iter().take(MOST_ENTRIES).map(finding).collect();
                let findings: Vec<prompt::Finding<'_>> = owned
                    .iter()
                    .map(|(path, line, text)| prompt::Finding { path: path.as_deref(), line: *line, text })
                    .collect();
                render(&Occasion::Fix { findings: &findings })
            }
            Situation::CiFailure { checks } => {
                let check = |check: &FailedCheck| (check.name.clone(), short(&check.log));
                let owned: Vec<_> = checks.iter().take(MOST_ENTRIES).map(check).collect();
                let checks: Vec<prompt::Check<'_>> =
                    owned.iter().map(|(name, log)| prompt::Check { name, log }).collect();
                render(&Occasion::CiFailure { checks: &checks })
            }
        }
    }

    fn of(&self, project: Option<&str>) -> &Prompts {
        project.and_then(|project| self.projects.get(project)).unwrap_or(&self.everyone)
    }
}

impl Engine {
    /// [`PromptBook::tell`] in the words of the project that a repository belongs to.
    pub fn tell(
        &self,
        person: &str,
        repository: &str,
        request: &str,
        situation: &Situation,
    ) -> Result<String, prompt::Error> {
        let project = self.options.tenancy.now().identity(person, repository).project;
        self.options.prompts.tell(project.as_deref(), request, situation)
    }
}

fn unfilled(error: &prompt::Error) -> Halt {
    Failure::new(FailureReason::Internal, error.to_string()).into()
}

impl Turn {
    fn project(&self) -> Option<String> {
        self.engine.options.tenancy.now().identity(&self.task.requested_by, &self.task.repository).project
    }

    /// A prompt for an agent that has been told everything else.
    pub(crate) fn compose_alone(&self, request: &str, occasion: &Occasion<'_>) -> Result<String, Halt> {
        let prompts = self.engine.options.prompts.of(self.project().as_deref());
        prompts.render_alone(request, occasion).map_err(|error| unfilled(&error))
    }

    /// What an agent finds in its home: the rules, and what its memory begins with.
    pub(crate) fn laid_out(&self, sandbox: &Sandbox) -> Result<[File; 2], Halt> {
        let (book, project) = (&self.engine.options.prompts, self.project());
        let (test, branch) = (self.task.settings.test.as_deref(), self.session.branch.as_str());
        let around = Surroundings { test, branch: Some(branch), ..Surroundings::default() };
        let rules = book.of(project.as_deref()).rules(&around).map_err(|error| unfilled(&error))?;
        let seed = project.and_then(|project| book.memories.get(&project)).unwrap_or(&book.memory);
        let known = Knowledge { repository: &self.task.repository, branch, base: &self.task.base, test };
        let file = |name: &str, content: String| File {
            path: sandbox.paths().home.join(".harvest").join(name).to_string_lossy().into_owned(),
            content,
            executable: false,
        };
        Ok([file("rules.md", rules), file("memory.jsonl", seed.about(known))])
    }

    /// The whole prompt for what a person asked.
    pub(crate) async fn compose(&self, agent: &Agent, request: &str, occasion: &Occasion<'_>) -> Result<String, Halt> {
        let options = &self.engine.options;
        let mut tokens = CONTEXT_TOKENS;
        let conventions = self.conventions(agent).await?;
        let (conventions, mut left_out) = fit(conventions, &mut tokens);
        // A list of all files takes its time in a large repository.
        let known = if mentions_files(request) { self.mirror.files(&self.task.base).await? } else { Vec::new() };
        let files = self.documents(mentioned(request, &known)).await?;
        let shown = |file: &Document| conventions.iter().any(|document| document.path == file.path);
        let (files, more) = fit(files.into_iter().filter(|file| !shown(file)).collect(), &mut tokens);
        left_out.extend(more);
        let around = Surroundings {
            test: self.task.settings.test.as_deref(),
            branch: Some(self.session.branch.as_str()),
            conventions,
            files,
            left_out,
        };
        options
            .prompts
            .of(self.project().as_deref())
            .render(request, occasion, &around)
            .map_err(|error| unfilled(&error))
    }

    /// Files with conventions that the agent does not read by itself, none of them twice.
    async fn conventions(&self, agent: &Agent) -> Result<Vec<Document>, Halt> {
        let there = self.mirror.files_of(&self.task.base, &CONVENTIONS).await?;
        let (own, others): (Vec<&str>, Vec<&str>) = CONVENTIONS
            .into_iter()
            .filter(|path| there.iter().any(|known| known == path))
            .partition(|path| agent.reads.iter().any(|read| read == path));
        let mut documents = self.documents(others).await?;
        let read_anyway = self.documents(own).await?;
        let mut seen: Vec<String> = read_anyway.into_iter().map(|document| document.text).collect();
        documents.retain(|document| {
            // A link is kept by git as the name it leads to.
            let is_link = CONVENTIONS.contains(&document.text.trim());
            let is_new = !is_link && !seen.contains(&document.text);
            seen.push(document.text.clone());
            is_new
        });
        Ok(documents)
    }

    async fn documents(&self, paths: Vec<&str>) -> Result<Vec<Document>, Halt> {
        let mut documents = Vec::new();
        for path in paths {
            let Some(content) = self.mirror.file(&self.task.base, path).await? else { continue };
            if content.len() > MOST_FILE_BYTES {
                continue;
            }
            // What is no text helps nobody.
            if let Ok(text) = String::from_utf8(content) {
                documents.push(Document { path: path.to_owned(), text: text.trim_end().to_owned() });
            }
        }
        Ok(documents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_situation_is_told_in_the_words_of_the_project_and_stays_a_prompt() {
        let shop =
            Prompts::default().with("fix", "{{ request }} {% for one in findings %}{{ one.text }}{% endfor %}\n");
        let projects = BTreeMap::from([("shop".to_owned(), shop.unwrap())]);
        let book = PromptBook { projects, ..PromptBook::default() };
        let found = Found { path: Some("a.rs".into()), line: Some(3), text: "It overflows.".into() };
        let fix = Situation::Fix { findings: vec![found] };
        assert_eq!(book.tell(Some("shop"), "Mend:", &fix).unwrap(), "Mend: It overflows.\n");
        let plain = book.tell(None, "Mend:", &fix).unwrap();
        assert!(plain.contains("`a.rs:3`: It overflows.") && !plain.contains("How to work here"), "{plain}");
        let remark = |number: usize| Remark { author: format!("a{number}"), text: "x".repeat(1_000_000) };
        let issue = Situation::Issue {
            title: "It forgets".into(),
            author: "bob".into(),
            body: "y".repeat(1_000_000),
            url: None,
            comments: (0..100).map(remark).collect(),
        };
        let told = book.tell(None, "Deal with it.", &issue).unwrap();
        assert!(told.len() < harvest_core::MAX_PROMPT_BYTES, "{}", told.len());
        assert!(told.contains("by a99") && !told.contains("by a10 ") && told.starts_with("Deal with it.\n"));
        let check = FailedCheck { name: "unit".into(), log: "1 failed".into() };
        let failed = book.tell(None, "CI is red.", &Situation::CiFailure { checks: vec![check] }).unwrap();
        assert!(failed.contains("### unit") && failed.contains("1 failed"), "{failed}");
        let review = Situation::Review { title: "T".into(), author: "b".into(), body: "B".into(), diff: "+x".into() };
        assert!(book.tell(None, "Review this.", &review).unwrap().contains("----- begin of the diff -----\n+x"));
    }
}
