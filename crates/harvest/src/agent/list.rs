//! `harvest agent list`: what is installed, in which version, with which keys, and what to type for what is missing.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use harvest_agents::{Agent, Provider};
use harvest_api_types::AgentInfo;
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
/// A program may be a small script that starts another one, whose file it does not name.
const VERSION_HOLDS: Duration = Duration::from_secs(60);

/// An agent and what there is of it.
#[derive(Debug)]
pub struct Item {
    pub id: String,
    pub name: String,
    pub providers: Vec<Provider>,
    pub features: harvest_agents::Features,
    /// Taken where no other is named.
    pub default: bool,
    pub installed: bool,
    pub path: Option<PathBuf>,
    pub version: Option<String>,
    pub usable_providers: Vec<Provider>,
    pub install_hint: String,
    pub key_hint: Option<String>,
}

impl From<Item> for AgentInfo {
    fn from(item: Item) -> Self {
        let names = |providers: Vec<Provider>| providers.iter().map(|one| one.as_str().to_owned()).collect();
        Self {
            id: item.id,
            name: item.name,
            providers: names(item.providers),
            features: serde_json::to_value(item.features).and_then(serde_json::from_value).unwrap_or_default(),
            default: item.default,
            installed: item.installed,
            version: item.version,
            usable_providers: names(item.usable_providers),
            install_hint: item.install_hint,
            key_hint: item.key_hint,
        }
    }
}

/// What programs said of their versions. While its file is the same, a program is asked once a minute at most.
#[derive(Debug, Default)]
pub struct Versions(Mutex<HashMap<PathBuf, Said>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    file: FileState,
    at: Instant,
    version: Option<String>,
}

/// What changes with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileState {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Versions {
    async fn of(&self, program: &Path, argument: &str, search: &str) -> Option<String> {
        let data = tokio::fs::metadata(program).await.ok()?;
        let file = FileState { inode: data.ino(), size: data.size(), changed: (data.ctime(), data.ctime_nsec()) };
        let known = self.lock().get(program).cloned();
        if let Some(said) = known.filter(|said| said.file == file && said.at.elapsed() < VERSION_HOLDS) {
            return said.version;
        }
        let version = version(program, argument, search).await;
        let said = Said { file, at: Instant::now(), version: version.clone() };
        self.lock().insert(program.to_owned(), said);
        version
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Said>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub async fn list(global: &Global, environment: Environment) -> Result<Exit, Failure> {
    let items = items(&environment, &keys(global, &environment).await?, &Versions::default()).await?;
    if global.json {
        let items: Vec<AgentInfo> = items.into_iter().map(AgentInfo::from).collect();
        let _ = output::json(&json!({ "items": items, "next_cursor": null }));
        return Ok(Exit::Done);
    }
    let style = Style::detect(&environment);
    let _ = lines(style, &items).iter().try_for_each(|line| output::line(line));
    Ok(Exit::Done)
}

/// Every agent that this installation knows.
pub async fn items(environment: &Environment, keys: &ModelKeys, versions: &Versions) -> Result<Vec<Item>, Failure> {
    let registry = registry(environment)?;
    let search = environment.search_path();
    let has_key = |provider: Provider| keys.has_any(provider.as_str());
    let default = ask::favourite(&registry, search, &has_key);
    let found = programs::find(&registry, search).found;
    let describing = registry.iter().map(|agent| {
        let usable = agent.providers.iter().copied().filter(|one| has_key(*one)).collect();
        describe(agent, agent_path(agent, &found), search, usable, default, versions)
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

fn agent_path<'a>(agent: &Agent, found: &'a BTreeMap<String, PathBuf>) -> Option<&'a Path> {
    found.get(agent.program.as_ref()?).map(PathBuf::as_path)
}

async fn describe(
    agent: &Agent,
    path: Option<&Path>,
    search: &str,
    usable_providers: Vec<Provider>,
    default: &str,
    versions: &Versions,
) -> Item {
    let version = match (&agent.program, path, &agent.version_argument) {
        (None, ..) => Some(env!("CARGO_PKG_VERSION").to_owned()),
        (Some(_), Some(path), Some(argument)) => versions.of(path, argument, search).await,
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

    #[tokio::test]
    async fn a_program_whose_file_is_the_same_is_not_asked_for_its_version_again() {
        let folder = tempfile::tempdir().unwrap();
        let (program, asked) = (folder.path().join("agent"), folder.path().join("asked"));
        let versions = Versions::default();
        let ask = || versions.of(&program, "--version", "/usr/bin:/bin");
        let install = |version: &str| {
            let new = folder.path().join("new");
            let script = format!("#!/bin/sh\necho x >> '{}'\necho agent {version}\n", asked.display());
            std::fs::write(&new, script).unwrap();
            std::fs::set_permissions(&new, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            std::fs::rename(&new, &program).unwrap();
        };
        install("1.0");
        assert_eq!((ask().await.as_deref(), ask().await.as_deref()), (Some("1.0"), Some("1.0")));
        install("2.0");
        assert_eq!(ask().await.as_deref(), Some("2.0"));
        assert_eq!(std::fs::read_to_string(asked).unwrap(), "x\nx\n");
    }

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
