//! `harvest agent list`: what is installed, in which version, with which keys, and what to type for what is missing.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use harvest_agents::{Agent, Provider};
use serde::Serialize;
use serde_json::json;
use tokio::process::Command;

use super::registry;
use crate::ask;
use crate::cli::Global;
use crate::environment::{Environment, ModelKeys, key_variable};
use crate::failure::{Exit, Failure};
use crate::installation::{self, Installation};
use crate::view::{Cell, Style, Table, clean};
use crate::{output, programs};

/// A program that takes longer to say its version has none.
const PATIENCE: Duration = Duration::from_secs(5);
const LONGEST_VERSION: usize = 40;

/// An agent and what there is of it.
#[derive(Debug, Serialize)]
pub struct Item {
    pub id: String,
    pub name: String,
    pub providers: Vec<Provider>,
    pub features: harvest_agents::Features,
    /// Taken where no other is named.
    pub default: bool,
    /// From a file of this installation otherwise.
    pub bundled: bool,
    pub installed: bool,
    pub path: Option<PathBuf>,
    pub version: Option<String>,
    pub usable_providers: Vec<Provider>,
    pub install_hint: String,
    pub key_hint: Option<String>,
}

pub async fn list(global: &Global, environment: Environment) -> Result<Exit, Failure> {
    let items = items(&environment, &keys(global, &environment).await?).await?;
    if global.json {
        let _ = output::json(&json!({ "items": items, "next_cursor": null }));
        return Ok(Exit::Done);
    }
    let style = Style::detect(&environment);
    let _ = lines(style, &items).iter().try_for_each(|line| output::line(line));
    Ok(Exit::Done)
}

/// Every agent that this installation knows.
pub async fn items(environment: &Environment, keys: &ModelKeys) -> Result<Vec<Item>, Failure> {
    let registry = registry(environment)?;
    let search = environment.search_path();
    let has_key = |provider: Provider| keys.has_any(provider.as_str());
    let default = ask::favourite(&registry, search, &has_key);
    let found = programs::find(&registry, search).found;
    let describing = registry.iter().map(|agent| {
        let usable = agent.providers.iter().copied().filter(|one| has_key(*one)).collect();
        describe(agent, agent_path(agent, &found), search, usable, default)
    });
    Ok(join_all(describing).await)
}

/// Those of the vault too, where there is one; looking makes none.
async fn keys(global: &Global, environment: &Environment) -> Result<ModelKeys, Failure> {
    if installation::may_have_a_vault(global, environment) {
        return Ok(Installation::open(global, environment.clone()).await?.keys);
    }
    environment.model_keys()
}

fn agent_path<'a>(agent: &Agent, found: &'a std::collections::BTreeMap<String, PathBuf>) -> Option<&'a Path> {
    found.get(agent.program.as_ref()?).map(PathBuf::as_path)
}

async fn describe(
    agent: &Agent,
    path: Option<&Path>,
    search: &str,
    usable_providers: Vec<Provider>,
    default: &str,
) -> Item {
    let version = match (&agent.program, path, &agent.version_argument) {
        (None, ..) => Some(env!("CARGO_PKG_VERSION").to_owned()),
        (Some(_), Some(path), Some(argument)) => version(path, argument, search).await,
        (Some(_), ..) => None,
    };
    let to_type = |provider: &Provider| {
        let variable = key_variable(provider.as_str()).map(|name| format!(", or set {name}")).unwrap_or_default();
        format!("harvest credential add {provider}{variable}")
    };
    Item {
        id: agent.id.clone(),
        name: agent.name.clone(),
        providers: agent.providers.clone(),
        features: agent.features,
        default: agent.id == default,
        bundled: agent.bundled,
        installed: agent.program.is_none() || path.is_some(),
        path: path.map(Path::to_owned),
        version,
        key_hint: agent.providers.first().filter(|_| usable_providers.is_empty()).map(to_type),
        usable_providers,
        install_hint: agent.install_hint.clone(),
    }
}

/// What the program says of itself, with nothing of this process in its environment and a home of its own, which goes again.
#[expect(clippy::disallowed_methods, reason = "the agent's own program, asked for its version alone")]
async fn version(program: &Path, argument: &str, search: &str) -> Option<String> {
    let home = tempfile::tempdir().ok()?;
    let mut command = Command::new(program);
    command.arg(argument).env_clear().current_dir(home.path()).kill_on_drop(true);
    command.envs([("PATH", search), ("LANG", "C.UTF-8"), ("TERM", "dumb")]).env("HOME", home.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let output = tokio::time::timeout(PATIENCE, command.output()).await.ok()?.ok()?;
    version_in(&String::from_utf8_lossy(&output.stdout))
}

/// `codex-cli 0.166.0` → `0.166.0`.
fn version_in(text: &str) -> Option<String> {
    let word = |word: &str| {
        let word = word.strip_prefix('v').unwrap_or(word);
        let is_version = word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.');
        is_version.then(|| word.chars().take(LONGEST_VERSION).collect())
    };
    text.split_whitespace().find_map(word)
}

/// A table, with what to type below each agent that cannot work yet.
fn lines(style: Style, items: &[Item]) -> Vec<String> {
    let mut table = Table::new(style, &["", "id", "name", "version", "keys", "program"]);
    for item in items {
        let is_usable = item.installed && !item.usable_providers.is_empty();
        let keys = item.usable_providers.iter().map(|provider| provider.as_str()).collect::<Vec<_>>().join(", ");
        let place = match &item.path {
            Some(path) => path.display().to_string(),
            None if item.installed => "part of Harvest".to_owned(),
            None => "not installed".to_owned(),
        };
        let default = if item.default { " (default)" } else { "" };
        let sign = style.without_color();
        let (sign, paint): (String, fn(Style, &str) -> String) =
            if is_usable { (sign.ok(), Style::good) } else { (sign.stopped(), Style::warn) };
        table.row([
            Cell::new(sign).painted(paint),
            Cell::new(item.id.as_str()).painted(Style::bold),
            item.name.as_str().into(),
            clean(item.version.as_deref().unwrap_or_default()).into(),
            if keys.is_empty() { "none" } else { &keys }.into(),
            Cell::new(format!("{}{default}", clean(&place))).painted(Style::dim),
        ]);
    }
    let mut lines = table.lines();
    // From the last one, so that the places of those before stay.
    for (place, item) in items.iter().enumerate().rev() {
        let install = (!item.installed).then(|| format!("     install  {}", style.accent(&clean(&item.install_hint))));
        let key = item.key_hint.as_ref().map(|hint| format!("     key      {}", style.accent(hint)));
        let below = place + 2;
        lines.splice(below..below, install.into_iter().chain(key));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_the_words_of_each_program() {
        for (text, version) in [
            ("2.1.325 (Claude Code)\n", Some("2.1.325")),
            ("codex-cli 0.166.0", Some("0.166.0")),
            ("aider 0.86.2\n", Some("0.86.2")),
            ("v1.18.33", Some("1.18.33")),
            ("usage: me [options]", None),
            ("", None),
        ] {
            assert_eq!(version_in(text).as_deref(), version);
        }
    }
}
