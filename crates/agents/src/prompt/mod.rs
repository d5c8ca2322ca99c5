//! What an agent is told: templates for each occasion, filled with what the person asked and what it needs to know.
//!
//! Pure over texts: whoever reads files passes their contents in. The person's own words always come first, as they are; what
//! others wrote stands between lines that say so. Every template can be replaced by one of the same name.

mod budget;
mod mention;
mod seed;

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

pub use budget::{Document, fit};
pub use mention::{mentioned, mentions_files};
pub use seed::{BadSeed, Knowledge, Seed};

/// Files in which a repository tells agents and people how it wants things done, the most telling first.
pub const CONVENTIONS: [&str; 8] = [
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    "CONVENTIONS.md",
    ".github/copilot-instructions.md",
    ".cursorrules",
    ".windsurfrules",
    "CONTRIBUTING.md",
];

/// How many messages of a conversation an agent is told that has no memory of its own.
pub const HISTORY: usize = 10;

const BUNDLED: [(&str, &str); 9] = [
    ("context", include_str!("templates/context.md")),
    ("rules", include_str!("templates/rules.md")),
    ("task", include_str!("templates/task.md")),
    ("issue", include_str!("templates/issue.md")),
    ("review", include_str!("templates/review.md")),
    ("fix", include_str!("templates/fix.md")),
    ("follow_up", include_str!("templates/follow_up.md")),
    ("resume", include_str!("templates/resume.md")),
    ("ci_failure", include_str!("templates/ci_failure.md")),
];

/// What is new about this prompt.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Occasion<'a> {
    Task {},
    Issue {
        issue: Issue<'a>,
    },
    Review {
        change: Change<'a>,
    },
    Fix {
        findings: &'a [Finding<'a>],
    },
    FollowUp(History<'a>),
    Resume {
        reason: Option<&'a str>,
        #[serde(flatten)]
        history: History<'a>,
    },
    CiFailure {
        checks: &'a [Check<'a>],
    },
}

/// What was said before.
#[derive(Debug, Clone, Default, Serialize)]
pub struct History<'a> {
    /// The last messages, oldest first.
    #[serde(rename = "history")]
    pub messages: &'a [Said<'a>],
    /// How many there were before these.
    pub earlier: usize,
    /// It was others who spoke: the agent remembers what came before.
    pub others: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct Issue<'a> {
    pub title: &'a str,
    pub author: &'a str,
    pub body: &'a str,
    pub url: Option<&'a str>,
    pub comments: &'a [Said<'a>],
}

/// A pull request.
#[derive(Debug, Clone, Serialize)]
pub struct Change<'a> {
    pub title: &'a str,
    pub author: &'a str,
    pub body: &'a str,
    pub diff: &'a str,
}

#[derive(Debug, Clone, Serialize)]
pub struct Finding<'a> {
    pub path: Option<&'a str>,
    pub line: Option<u32>,
    pub text: &'a str,
}

/// A message or a comment.
#[derive(Debug, Clone, Serialize)]
pub struct Said<'a> {
    pub author: &'a str,
    pub text: &'a str,
}

#[derive(Debug, Clone, Serialize)]
pub struct Check<'a> {
    pub name: &'a str,
    pub log: &'a str,
}

/// What is the same for every prompt of a task.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Surroundings<'a> {
    /// How the result will be tested.
    pub test: Option<&'a str>,
    pub branch: Option<&'a str>,
    pub conventions: Vec<Document>,
    pub files: Vec<Document>,
    /// Paths that did not fit.
    pub left_out: Vec<String>,
}

/// The templates in force.
#[derive(Debug, Clone)]
pub struct Prompts {
    texts: Arc<BTreeMap<String, String>>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no template `{name}`; there are {}", BUNDLED.map(|(name, _)| name).join(", "))]
    Unknown { name: String },
    #[error("the template `{name}` is not valid: {reason}")]
    Invalid { name: String, reason: String },
    #[error("the template `{name}` cannot be filled: {reason}")]
    Render { name: &'static str, reason: String },
}

#[derive(Serialize)]
struct Values<'a> {
    request: &'a str,
    #[serde(flatten)]
    occasion: &'a Occasion<'a>,
    #[serde(flatten)]
    surroundings: &'a Surroundings<'a>,
}

impl Default for Prompts {
    fn default() -> Self {
        let texts = BUNDLED.map(|(name, text)| (name.to_owned(), text.to_owned()));
        Self { texts: Arc::new(texts.into()) }
    }
}

impl Prompts {
    /// These, with one replaced. What is wrong with it is found now and not in a turn.
    pub fn with(mut self, name: &str, text: &str) -> Result<Self, Error> {
        if !BUNDLED.iter().any(|(known, _)| *known == name) {
            return Err(Error::Unknown { name: name.to_owned() });
        }
        let invalid = |error: minijinja::Error| Error::Invalid { name: name.to_owned(), reason: describe(&error) };
        environment().template_from_str(text).map_err(invalid)?;
        Arc::make_mut(&mut self.texts).insert(name.to_owned(), text.to_owned());
        Ok(self)
    }

    /// The whole prompt: `request` as the person wrote it, and what belongs to the occasion.
    pub fn render(&self, request: &str, occasion: &Occasion<'_>, around: &Surroundings<'_>) -> Result<String, Error> {
        self.fill(request, occasion, around, &[])
    }

    /// The same without what every prompt has: for whoever knows it, or is told later.
    pub fn render_alone(&self, request: &str, occasion: &Occasion<'_>) -> Result<String, Error> {
        self.fill(request, occasion, &Surroundings::default(), &["context", "rules"])
    }

    /// The rules of working here, by themselves.
    pub fn rules(&self, around: &Surroundings<'_>) -> Result<String, Error> {
        let name = "rules";
        let failed = |error: minijinja::Error| Error::Render { name, reason: describe(&error) };
        let text = self.texts.get(name).map(String::as_str).unwrap_or_default();
        let values = Values { request: "", occasion: &Occasion::Task {}, surroundings: around };
        let filled = environment().render_str(text, Value::from(Serde(&values))).map_err(failed)?;
        Ok(without_gaps(&filled))
    }

    fn fill(
        &self,
        request: &str,
        occasion: &Occasion<'_>,
        around: &Surroundings<'_>,
        without: &[&str],
    ) -> Result<String, Error> {
        let name = occasion.template();
        let failed = |error: minijinja::Error| Error::Render { name, reason: describe(&error) };
        let mut environment = environment();
        for (name, text) in self.texts.iter() {
            let text = if without.contains(&name.as_str()) { "" } else { text };
            environment.add_template(name, text).map_err(failed)?;
        }
        let request = request.trim_end();
        let values = Values { request, occasion, surroundings: around };
        let text = environment
            .get_template(name)
            .and_then(|template| template.render(Value::from(Serde(&values))))
            .map_err(failed)?;
        // What the person wrote stays as it is.
        Ok(match text.strip_prefix(request) {
            Some(rest) => match rest.strip_prefix('\n') {
                Some(rest) => format!("{request}\n{}", without_gaps(rest)),
                None => format!("{request}{}", without_gaps(rest)),
            },
            None => without_gaps(&text),
        })
    }
}

impl Occasion<'_> {
    fn template(&self) -> &'static str {
        match self {
            Self::Task {} => "task",
            Self::Issue { .. } => "issue",
            Self::Review { .. } => "review",
            Self::Fix { .. } => "fix",
            Self::FollowUp(_) => "follow_up",
            Self::Resume { .. } => "resume",
            Self::CiFailure { .. } => "ci_failure",
        }
    }
}

/// Values are put in as they are, once: braces in them mean nothing.
fn environment<'source>() -> Environment<'source> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    // Cannot fail: the delimiters are the usual ones.
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment
}

fn describe(error: &minijinja::Error) -> String {
    let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
    format!("{line}{error}")
}

/// Parts that have nothing to say leave no more than one empty line, and none at the end.
fn without_gaps(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut blank = 0;
    let mut fenced = false;
    for line in text.trim_end().lines() {
        // What is shown of files and logs stays as it is.
        fenced ^= line.starts_with("```") || line.starts_with("----- ");
        blank = if line.trim().is_empty() { blank + 1 } else { 0 };
        if blank <= 1 || fenced {
            clean.push_str(line);
            clean.push('\n');
        }
    }
    clean
}
