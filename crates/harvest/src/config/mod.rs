//! The configuration: read from files, laid over each other, asked by name.

#[cfg(test)]
mod document;
mod key;
mod layers;
mod meaning;
mod show;
mod value;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use harvest_core::Code;
use harvest_forge::{Base, Forge};
use harvest_workspace::Mirrors;

pub use key::{Key, SetBy};
pub use layers::{Layer, Layers, Origin, Setting};
pub use show::config;
pub use value::Value;

use crate::cli::{AskOptions, Global};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::installation::Installation;

const REPOSITORY_FILE: &str = ".harvest.toml";
const MAX_BYTES: usize = 64 * 1024;

/// Where `harvest.toml` is.
#[derive(Debug, Clone)]
pub struct Source {
    path: Option<PathBuf>,
    /// Named on the command line, so it has to be there.
    named: bool,
}

pub fn source(global: &Global, environment: &Environment) -> Source {
    match &global.config {
        Some(path) => Source { path: Some(std::path::absolute(path).unwrap_or_else(|_| path.clone())), named: true },
        None => Source { path: environment.config_folder().map(|folder| folder.join("harvest.toml")), named: false },
    }
}

/// Defaults and `harvest.toml` as it is now.
pub fn load(source: &Source) -> Result<Layers, Failure> {
    let defaults = Layers::defaults();
    let Some(path) = &source.path else { return Ok(defaults) };
    match std::fs::read_to_string(path) {
        Ok(text) => defaults.with_file(path.clone(), &text),
        Err(error) if error.kind() == ErrorKind::NotFound && !source.named => Ok(defaults),
        Err(error) => {
            let message = format!("{} cannot be read: {error}", path.display());
            Err(Failure::refused(Code::BadConfig, message, "check the path and its permissions"))
        }
    }
}

impl Installation {
    pub fn settings(&self) -> Result<Layers, Failure> {
        Ok(load(&self.config)?.with_projects(&self.projects.now().projects))
    }

    /// The file that settings are read from, whether or not it is there.
    pub fn settings_file(&self) -> Option<PathBuf> {
        self.config.path.clone()
    }

    /// With what the repository says at the commit that work starts from.
    pub async fn settings_for(&self, forge: &dyn Forge, base: &Base) -> Result<Layers, Failure> {
        let settings = self.settings()?.for_repository(forge.name());
        let mirror = Mirrors::new(self.data.mirrors()).open(&forge.identity(), &base.object_format).await?;
        let fetched = mirror.ensure(&base.commit, || forge.fetch(&mirror, &base.commit)).await;
        fetched.map_err(|error| Failure::from(error).refusing())?;
        let Some(content) = mirror.file(&base.commit, REPOSITORY_FILE).await? else { return Ok(settings) };
        let origin = Origin::Repository { name: forge.name().to_owned(), commit: base.commit.clone() };
        let refuse = |reason: &str| {
            let message = format!("{} {reason}", origin.describe());
            Failure::refused(Code::BadConfig, message, "correct it and commit, or start from another --base")
        };
        if content.len() > MAX_BYTES {
            return Err(refuse("is larger than 64 KiB"));
        }
        let text = String::from_utf8(content).map_err(|_| refuse("is not UTF-8 text"))?;
        Ok(settings.with(Layer::parse(origin, &text)?))
    }
}

/// What was typed.
pub fn command_line(options: &AskOptions) -> Layer {
    let text = |text: &Option<String>| text.clone().map(Value::Text);
    let values = [
        (Key::Agent, text(&options.agent)),
        (Key::Model, text(&options.model)),
        (Key::Test, text(&options.test)),
        (Key::RequireTests, options.require_tests.then_some(Value::Flag(true))),
        (Key::Plan, options.plan.then_some(Value::Flag(true))),
        (Key::PlanReview, text(&options.care.review_plan)),
        (Key::Workflow, options.care.workflow.map(|workflow| Value::Text(workflow.name().to_owned()))),
        (Key::Gate, options.care.gate.then_some(Value::Flag(true))),
        (Key::McpServers, (!options.care.mcp.is_empty()).then(|| Value::Names(options.care.mcp.clone()))),
        (Key::OnQuota, (!options.fallback_agent.is_empty()).then(|| Value::Names(options.fallback_agent.clone()))),
        (Key::Timeout, options.timeout.map(Value::Time)),
        (Key::BudgetUsd, options.budget_usd.map(Value::Money)),
    ];
    let values: BTreeMap<Key, Value> = values.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    Layer { origin: Origin::CommandLine, values, servers: toml::Table::new() }
}
