//! The agents as data: read from TOML and checked as a whole, so that a bad entry is found at start and not in a turn.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::agent::{FileTemplate, PromptPassing};
use crate::dialect::Dialect;
use crate::mcp;
use crate::template::{Placeholder, Template, UnknownPlaceholder};
use crate::{Agent, Features, Provider};

const BUNDLED: &str = include_str!("registry.toml");

/// All known agents, in the order of their definition.
#[derive(Debug, Clone)]
pub struct Registry {
    agents: Vec<Agent>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the registry of agents is not valid: {0}")]
    Toml(#[from] toml::de::Error),
    #[error("the agent `{agent}` is not valid: {reason}")]
    BadDefinition { agent: String, reason: String },
    #[error("the agent number {0} has no `id`")]
    NoId(usize),
    #[error("the agent id `{0}` must be lower-case letters, digits and dashes")]
    BadId(String),
    #[error("the agent `{0}` is defined twice")]
    Duplicate(String),
    #[error("the agent `{0}` is built into Harvest; to replace it, set `replace = true`")]
    Bundled(String),
    #[error("the agent `{0}` has `replace = true`, but there is no agent of that name to replace")]
    NothingToReplace(String),
    #[error("the agent `{0}` names no provider")]
    NoProvider(String),
    #[error("the agent `{0}` uses a protocol: it needs `prompt = \"stdin\"` and no `terminal`")]
    Protocol(String),
    #[error("the agent `{agent}` keeps its state in `{path}`, which is not a plain path below the home")]
    BadState { agent: String, path: String },
    #[error("the agent `{agent}` uses `{{{placeholder}}}`, which does not exist")]
    UnknownPlaceholder { agent: String, placeholder: String },
}

impl Registry {
    /// The agents that come with Harvest.
    pub fn bundled() -> Result<Self, Error> {
        Self::from_toml(BUNDLED)
    }

    pub fn from_toml(text: &str) -> Result<Self, Error> {
        let mut agents: Vec<Agent> = Vec::new();
        for (_, agent) in definitions(text)? {
            if agents.iter().any(|known| known.id == agent.id) {
                return Err(Error::Duplicate(agent.id));
            }
            agents.push(agent);
        }
        Ok(Self { agents })
    }

    /// These agents, and those of someone else's file. Only one that says so takes the place of an agent that comes with
    /// Harvest; nothing takes the place of another file's.
    pub fn with(mut self, text: &str) -> Result<Self, Error> {
        for (replaces, agent) in definitions(text)? {
            let known = self.agents.iter_mut().find(|known| known.id == agent.id);
            match (known, replaces) {
                (None, Replaces::None) => self.agents.push(Agent { bundled: false, ..agent }),
                (Some(known), Replaces::Bundled) if known.bundled => *known = Agent { bundled: false, ..agent },
                (Some(known), Replaces::None) if known.bundled => return Err(Error::Bundled(agent.id)),
                (Some(_), _) => return Err(Error::Duplicate(agent.id)),
                (None, Replaces::Bundled) => return Err(Error::NothingToReplace(agent.id)),
            }
        }
        Ok(self)
    }

    pub fn get(&self, id: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.id == id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Agent> {
        self.agents.iter()
    }
}

/// Read one by one, so that what is wrong can be told by the agent's name.
fn definitions(text: &str) -> Result<Vec<(Replaces, Agent)>, Error> {
    let document: Document = toml::from_str(text)?;
    let read = |(index, table): (usize, toml::Table)| {
        let agent = table.get("id").and_then(toml::Value::as_str).ok_or(Error::NoId(index + 1))?.to_owned();
        let definition: Definition = table.try_into().map_err(|error: toml::de::Error| {
            let reason = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
            Error::BadDefinition { agent, reason }
        })?;
        let replaces = if definition.replace { Replaces::Bundled } else { Replaces::None };
        Ok((replaces, definition.check()?))
    };
    document.agent.into_iter().enumerate().map(read).collect()
}

/// Which agent a definition takes the place of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replaces {
    None,
    Bundled,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    agent: Vec<toml::Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    id: String,
    name: String,
    providers: Vec<Provider>,
    dialect: Dialect,
    #[serde(default)]
    terminal: bool,
    prompt: PromptPassing,
    command: String,
    #[serde(default)]
    arguments: Vec<String>,
    /// In place of `arguments` where it goes on with a conversation.
    #[serde(default)]
    resume_arguments: Option<Vec<String>>,
    /// In place of `arguments` where it is to plan and to change nothing.
    #[serde(default)]
    plan_arguments: Option<Vec<String>>,
    /// Where it keeps its conversations, below the home.
    #[serde(default)]
    state: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    files: Vec<FileDefinition>,
    #[serde(default)]
    default_models: BTreeMap<Provider, String>,
    #[serde(default)]
    features: Features,
    #[serde(default)]
    warm: bool,
    #[serde(default)]
    replace: bool,
    #[serde(default)]
    version_argument: Option<String>,
    #[serde(default)]
    reads: Vec<String>,
    /// How it is told of MCP servers.
    mcp: Option<mcp::Style>,
    install_hint: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileDefinition {
    path: String,
    content: String,
    #[serde(default)]
    executable: bool,
}

impl Definition {
    fn check(self) -> Result<Agent, Error> {
        let id = self.id;
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if id.is_empty() || id.starts_with('-') || !id.bytes().all(is_plain) {
            return Err(Error::BadId(id));
        }
        if self.providers.is_empty() {
            return Err(Error::NoProvider(id));
        }
        if self.dialect == Dialect::Acp && (self.terminal || self.prompt != PromptPassing::Stdin) {
            return Err(Error::Protocol(id));
        }
        let template = |text: &str| {
            text.parse::<Template>()
                .map_err(|UnknownPlaceholder(placeholder)| Error::UnknownPlaceholder { agent: id.clone(), placeholder })
        };
        if let Some(path) = self.state.iter().find(|path| !is_plain_path(path)) {
            return Err(Error::BadState { agent: id, path: path.clone() });
        }
        let arguments = |given: &[String]| {
            std::iter::once(&self.command).chain(given).map(|text| template(text)).collect::<Result<Vec<_>, _>>()
        };
        let argv = arguments(&self.arguments)?;
        let plan_argv = self.plan_arguments.as_deref().map(arguments).transpose()?;
        if argv.iter().chain(plan_argv.iter().flatten()).any(|argument| argument.uses(Placeholder::Conversation)) {
            let placeholder = "conversation".to_owned();
            return Err(Error::UnknownPlaceholder { agent: id, placeholder });
        }
        let resume_argv = self.resume_arguments.as_deref().map(arguments).transpose()?;
        let environment = self
            .environment
            .into_iter()
            .map(|(name, value)| Ok((name, template(&value)?)))
            .collect::<Result<_, Error>>()?;
        let files = self
            .files
            .iter()
            .map(|file| {
                Ok(FileTemplate {
                    path: template(&file.path)?,
                    content: template(&file.content)?,
                    executable: file.executable,
                })
            })
            .collect::<Result<_, Error>>()?;
        Ok(Agent {
            id,
            name: self.name,
            providers: self.providers,
            features: self.features,
            warm: self.warm,
            bundled: true,
            program: Some(self.command).filter(|command| {
                let (name, whole_path) = (!command.contains('/'), command.starts_with('/'));
                !command.contains('{') && (name || whole_path)
            }),
            version_argument: self.version_argument,
            reads: self.reads,
            install_hint: self.install_hint,
            default_models: self.default_models,
            dialect: self.dialect,
            terminal: self.terminal,
            prompt: self.prompt,
            argv,
            resume_argv,
            plan_argv,
            state: self.state,
            environment,
            files,
            mcp: self.mcp.or((self.dialect == Dialect::Acp).then_some(mcp::Style::Harvest)),
        })
    }
}

/// It is put into scripts and git's lists of paths.
fn is_plain_path(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_step = |step: &str| !matches!(step, "" | "." | "..") && !step.starts_with('-') && step.bytes().all(is_plain);
    path.split('/').all(is_step)
}
