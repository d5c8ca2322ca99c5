//! The agents as data: read from TOML and checked as a whole, so that a bad entry is found at start and not in a turn.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::agent::{FileTemplate, PromptPassing};
use crate::dialect::Dialect;
use crate::template::{Template, UnknownPlaceholder};
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
    #[error("the agent id `{0}` must be lower-case letters, digits and dashes")]
    BadId(String),
    #[error("the agent `{0}` is defined twice")]
    Duplicate(String),
    #[error("the agent `{0}` names no provider")]
    NoProvider(String),
    #[error("the agent `{agent}` uses `{{{placeholder}}}`, which does not exist")]
    UnknownPlaceholder { agent: String, placeholder: String },
}

impl Registry {
    /// The agents that come with Harvest.
    pub fn bundled() -> Result<Self, Error> {
        Self::from_toml(BUNDLED)
    }

    pub fn from_toml(text: &str) -> Result<Self, Error> {
        let document: Document = toml::from_str(text)?;
        let mut agents: Vec<Agent> = Vec::new();
        for definition in document.agent {
            let agent = definition.check()?;
            if agents.iter().any(|known| known.id == agent.id) {
                return Err(Error::Duplicate(agent.id));
            }
            agents.push(agent);
        }
        Ok(Self { agents })
    }

    pub fn get(&self, id: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.id == id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Agent> {
        self.agents.iter()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    agent: Vec<Definition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    id: String,
    name: String,
    providers: Vec<Provider>,
    dialect: Dialect,
    prompt: PromptPassing,
    command: String,
    #[serde(default)]
    arguments: Vec<String>,
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
        let template = |text: &str| {
            text.parse::<Template>()
                .map_err(|UnknownPlaceholder(placeholder)| Error::UnknownPlaceholder { agent: id.clone(), placeholder })
        };
        let argv = std::iter::once(&self.command)
            .chain(&self.arguments)
            .map(|text| template(text))
            .collect::<Result<_, _>>()?;
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
            program: Some(self.command).filter(|command| !command.contains(['{', '/'])),
            install_hint: self.install_hint,
            default_models: self.default_models,
            dialect: self.dialect,
            prompt: self.prompt,
            argv,
            environment,
            files,
        })
    }
}
