//! What an agent is told about a task: the person's words, the repository's conventions, the files they mention, and the rules
//! of working here. Everything is read from the mirror at the base commit, never from a tree that an agent could write.

use std::collections::BTreeMap;

use harvest_agents::Agent;
use harvest_agents::prompt::{CONVENTIONS, Document, Occasion, Prompts, Surroundings, fit, mentioned, mentions_files};
use harvest_core::FailureReason;

use crate::Failure;
use crate::error::Halt;
use crate::turn::Turn;

/// What conventions and mentioned files may take of a prompt together, in tokens.
const CONTEXT_TOKENS: usize = 8_000;
/// A file larger than this is not looked at.
const MOST_FILE_BYTES: usize = 256 * 1024;

/// The templates of an installation, and of its projects.
#[derive(Debug, Clone, Default)]
pub struct PromptBook {
    pub everyone: Prompts,
    pub projects: BTreeMap<String, Prompts>,
}

impl PromptBook {
    fn of(&self, project: Option<&str>) -> &Prompts {
        project.and_then(|project| self.projects.get(project)).unwrap_or(&self.everyone)
    }
}

impl Turn {
    /// The whole prompt for what a person asked.
    pub(crate) async fn compose(&self, agent: &Agent, request: &str, occasion: &Occasion<'_>) -> Result<String, Halt> {
        let options = &self.engine.options;
        let identity = options.tenancy.now().identity(&self.task.requested_by, &self.task.repository);
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
            .of(identity.project.as_deref())
            .render(request, occasion, &around)
            .map_err(|error| Failure::new(FailureReason::Internal, error.to_string()).into())
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
