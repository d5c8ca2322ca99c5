//! `harvest mcp …`: the servers that offer tools to agents. What Harvest knows by itself, then `mcp/NAME.toml` beside the
//! settings, then `[mcp.NAME]` in them.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use harvest_agents::mcp::{Catalogue, Entry};
use harvest_core::{Code, McpAddress, McpCredential, McpServer};
use harvest_engine::{check_name, check_name_in_file};
use serde_json::json;

use crate::cli::{Global, Mcp, McpAdd};
use crate::config::{self, Key};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::{self, Installation};
use crate::output;
use crate::view::{Cell, Style, Table, clean};

const FOLDER: &str = "mcp";

pub async fn mcp(global: &Global, environment: Environment, command: Mcp) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    match command {
        Mcp::List => list(global, &environment, style).await,
        Mcp::Show { name } => show(global, &environment, style, &name).await,
        Mcp::Add(options) => add(global, &environment, style, &options).await,
        Mcp::Remove { name } => remove(global, &environment, style, &name).await,
    }
}

/// What Harvest knows and what the files say, as they are now. One bad file is refused rather than left out.
pub fn catalogue(environment: &Environment) -> Result<Catalogue, Failure> {
    let bundled = Catalogue::bundled().map_err(|error| Failure::failed(Code::Internal, error.to_string()))?;
    let Some(folder) = folder(environment) else { return Ok(bundled) };
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(bundled),
        Err(error) => return Err(unreadable(&folder, &error)),
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<PathBuf>, _>>().map_err(|error| unreadable(&folder, &error))?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    paths.iter().try_fold(bundled, |catalogue, path| {
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let refuse = |reason: String| {
            let help = "correct the file, or move it away; `harvest mcp add --help` has examples";
            Failure::refused(Code::BadConfig, format!("{}: {reason}", path.display()), help)
        };
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| refuse(error.message().to_owned()))?;
        check_name_in_file("the name of the file", &name).map_err(|error| refuse(error.to_string()))?;
        check_for_keys(&table, harvest_engine::looks_like_a_key).map_err(refuse)?;
        catalogue.with(&name, table.into()).map_err(|error| refuse(error.to_string()))
    })
}

/// Whoever sees a task sees which servers it has, and a server without a key runs beside the agent.
pub fn check_for_keys(table: &toml::Table, is_key: impl Fn(&str) -> bool) -> Result<(), String> {
    let holds = |value: &toml::Value| is_key(&serde_json::to_string(value).unwrap_or_default());
    match table.iter().find(|(_, value)| holds(value)) {
        None => Ok(()),
        Some((field, _)) => Err(format!("`{field}` contains a key; put it into `credential`")),
    }
}

fn folder(environment: &Environment) -> Option<PathBuf> {
    environment.config_folder().map(|folder| folder.join(FOLDER))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("{} cannot be read: {error}", path.display());
    Failure::refused(Code::BadConfig, message, "check its owner and permissions")
}

/// A server, and what there is of what it needs.
struct Item {
    entry: Entry,
    /// Every task gets it.
    in_use: bool,
    /// `None` when it needs no key.
    has_key: Option<bool>,
}

async fn items(global: &Global, environment: &Environment) -> Result<Vec<Item>, Failure> {
    let settings = config::load(&config::source(global, environment))?;
    let catalogue = settings.catalogue(catalogue(environment)?)?;
    let used = settings.names(Key::McpServers);
    let kept = keys(global, environment).await?;
    let item = |entry: &Entry| Item {
        in_use: used.contains(&entry.server.name),
        has_key: entry.server.credential.as_ref().map(|credential| kept.contains(&credential.name)),
        entry: entry.clone(),
    };
    Ok(catalogue.iter().map(item).collect())
}

/// The names of kept keys; looking makes no vault.
async fn keys(global: &Global, environment: &Environment) -> Result<Vec<String>, Failure> {
    if !installation::may_have_a_vault(global, environment) {
        return Ok(Vec::new());
    }
    let records = Installation::open(global, environment.clone()).await?.store.credentials().await?;
    let of_servers = records.into_iter().filter(|record| record.credential.provider == McpCredential::PROVIDER);
    Ok(of_servers.map(|record| record.credential.name).collect())
}

impl Item {
    fn json(&self) -> serde_json::Value {
        let mut shown = serde_json::to_value(&self.entry.server).unwrap_or_default();
        shown["about"] = self.entry.about.clone().into();
        shown["bundled"] = self.entry.bundled.into();
        shown["in_use"] = self.in_use.into();
        shown["has_key"] = self.has_key.into();
        shown["runs"] = runs(&self.entry.server).into();
        shown
    }

    fn hint(&self) -> Option<String> {
        let credential = self.entry.server.credential.as_ref().filter(|_| self.has_key == Some(false))?;
        Some(format!("harvest credential add mcp --name {}", credential.name))
    }
}

fn runs(server: &McpServer) -> &'static str {
    match (&server.at, &server.credential) {
        (McpAddress::Url { .. }, _) => "at its own host, called by the gateway",
        (McpAddress::Program { .. }, Some(_)) => "in its own sandbox",
        (McpAddress::Program { .. }, None) => "in the agent's sandbox",
    }
}

async fn list(global: &Global, environment: &Environment, style: Style) -> Result<Exit, Failure> {
    let items = items(global, environment).await?;
    if global.json {
        let items: Vec<serde_json::Value> = items.iter().map(Item::json).collect();
        let _ = output::json(&json!({ "items": items, "next_cursor": null }));
        return Ok(Exit::Done);
    }
    let mut table = Table::new(style, &["", "name", "enabled", "about", "runs"]);
    for item in &items {
        let sign = style.without_color();
        let (sign, paint): (String, fn(Style, &str) -> String) = match item.has_key {
            Some(false) => (sign.stopped(), Style::warn),
            _ => (sign.ok(), Style::good),
        };
        table.row([
            Cell::new(sign).painted(paint),
            Cell::new(item.entry.server.name.as_str()).painted(Style::bold),
            if item.in_use { "every task" } else { "" }.into(),
            clean(&item.entry.about).into(),
            Cell::new(runs(&item.entry.server)).painted(Style::dim),
        ]);
    }
    let mut lines = table.lines();
    // From the last one, so that the places of those before stay.
    for (place, item) in items.iter().enumerate().rev() {
        let below = place + 2;
        lines.splice(below..below, item.hint().map(|hint| format!("     key  {}", style.accent(&hint))));
    }
    let _ = lines.iter().try_for_each(|line| output::line(line));
    Ok(Exit::Done)
}

async fn show(global: &Global, environment: &Environment, style: Style, name: &str) -> Result<Exit, Failure> {
    let items = items(global, environment).await?;
    let Some(item) = items.iter().find(|item| item.entry.server.name == name) else {
        let known: Vec<&str> = items.iter().map(|item| item.entry.server.name.as_str()).collect();
        return Err(unknown(name, &known));
    };
    if global.json {
        let _ = output::json(&item.json());
        return Ok(Exit::Done);
    }
    let Entry { server, about, .. } = &item.entry;
    let mut lines = vec![format!("{}  {}", style.bold(&server.name), clean(about))];
    let mut tell = |what: &str, text: String| lines.push(format!("  {what:<12} {}", clean(&text)));
    match &server.at {
        McpAddress::Program { command, args } => tell("command", format!("{command} {}", args.join(" "))),
        McpAddress::Url { url } => tell("url", url.clone()),
    }
    tell("runs", runs(server).to_owned());
    for (variable, value) in &server.environment {
        tell("environment", format!("{variable}={value}"));
    }
    if let Some(McpCredential { name, sent_as }) = &server.credential {
        tell("credential", format!("{name}, as {sent_as}"));
    }
    tell("tools", server.tools.as_ref().map_or("all".to_owned(), |tools| tools.join(", ")));
    if !server.hosts.is_empty() {
        tell("hosts", server.hosts.join(", "));
    }
    if let Some(hint) = item.hint() {
        tell("key", hint);
    }
    let _ = lines.iter().try_for_each(|line| output::line(line));
    Ok(Exit::Done)
}

fn unknown(name: &str, known: &[&str]) -> Failure {
    let message = format!("there is no MCP server `{}`", clean(name));
    Failure::refused(Code::BadOption, message, format!("there are {}", known.join(", ")))
}

async fn add(global: &Global, environment: &Environment, style: Style, options: &McpAdd) -> Result<Exit, Failure> {
    let table = table(options)?;
    let refuse = |reason| {
        let help = "leave it out, and name it: --credential NAME --credential-as VARIABLE, then harvest credential add mcp --name NAME";
        Failure::refused(Code::BadOption, reason, help)
    };
    check_name("NAME", &options.name)?;
    check_for_keys(&table, harvest_engine::looks_like_a_key).map_err(refuse)?;
    if installation::may_have_a_vault(global, environment) {
        let redactor = Installation::open(global, environment.clone()).await?.redactor;
        check_for_keys(&table, |text| redactor.finds(text)).map_err(refuse)?;
        // Those that were kept are known from here on.
        check_name("NAME", &options.name)?;
    }
    let before = catalogue(environment)?;
    let entry = match before.with(&options.name, table.clone().into()) {
        Ok(with) => with.get(&options.name).cloned(),
        Err(error) => {
            let help = "see `harvest mcp add --help` for examples";
            return Err(Failure::refused(Code::BadOption, error.to_string(), help));
        }
    };
    let folder = folder(environment).ok_or_else(|| {
        let help = "set HOME or XDG_CONFIG_HOME, or write [mcp.NAME] into the file of --config";
        Failure::refused(Code::BadConfig, "there is no configuration folder to write to", help)
    })?;
    let path = folder.join(format!("{}.toml", options.name));
    record(global, environment, &options.name).await?;
    write(&folder, &path, &text_of(&table))?;
    let _ = if global.json {
        let server = entry.map(|entry| entry.server);
        output::json(&json!({ "name": options.name, "file": path, "server": server }))
    } else {
        let line = format!("{} {} is in {}", style.ok(), style.bold(&options.name), path.display());
        let hint = entry.and_then(|entry| entry.server.credential).map(|credential| {
            format!("  its key: {}", style.accent(&format!("harvest credential add mcp --name {}", credential.name)))
        });
        output::line(&line).and_then(|()| hint.map_or(Ok(()), |hint| output::line(&hint)))
    };
    Ok(Exit::Done)
}

fn table(options: &McpAdd) -> Result<toml::Table, Failure> {
    let mut table = toml::Table::new();
    let texts = [
        ("preset", &options.preset),
        ("about", &options.about),
        ("command", &options.command),
        ("url", &options.url),
        ("credential", &options.credential),
        ("credential_as", &options.credential_as),
    ];
    table.extend(texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text.clone()?.into()))));
    let lists = [("args", &options.arg), ("tools", &options.tool), ("hosts", &options.host)];
    let given = lists.into_iter().filter(|(_, list)| !list.is_empty());
    table.extend(given.map(|(key, list)| (key.to_owned(), list.clone().into())));
    let mut environment = toml::Table::new();
    for pair in &options.env {
        let Some((name, value)) = pair.split_once('=') else {
            let message = format!("--env cannot be `{}`", clean(pair));
            return Err(Failure::refused(Code::BadOption, message, "write it like --env NAME=VALUE"));
        };
        environment.insert(name.to_owned(), value.to_owned().into());
    }
    if !environment.is_empty() {
        table.insert("environment".to_owned(), environment.into());
    }
    Ok(table)
}

/// Texts and lists are written in TOML as in JSON.
fn text_of(table: &toml::Table) -> String {
    let plain = |value: &toml::Value| serde_json::to_string(value).unwrap_or_default();
    let line = |(key, value): (&String, &toml::Value)| match value {
        toml::Value::Table(inner) => {
            let pairs: Vec<String> = inner.iter().map(|(name, value)| format!("{name} = {}", plain(value))).collect();
            format!("{key} = {{ {} }}\n", pairs.join(", "))
        }
        value => format!("{key} = {}\n", plain(value)),
    };
    table.iter().map(line).collect()
}

/// Servers are files beside the settings, so the audit log is told of them before they change.
async fn record(global: &Global, environment: &Environment, name: &str) -> Result<(), Failure> {
    let installation = Installation::open(global, environment.clone()).await?;
    Ok(harvest_store::record_now(installation.store.as_ref(), &format!("mcp:{name}")).await?)
}

/// There as a whole or not at all.
fn write(folder: &Path, path: &Path, text: &str) -> Result<(), Failure> {
    let written = std::fs::create_dir_all(folder).and_then(|()| {
        let temporary = path.with_extension("new");
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    });
    written.map_err(|error| {
        let message = format!("{} cannot be written: {error}", path.display());
        Failure::refused(Code::BadConfig, message, "check the permissions of the folder")
    })
}

async fn remove(global: &Global, environment: &Environment, style: Style, name: &str) -> Result<Exit, Failure> {
    let path = folder(environment).filter(|_| McpServer::is_valid_name(name));
    let path = path.map(|folder| folder.join(format!("{name}.toml")));
    let path = path.filter(|path| std::fs::symlink_metadata(path).is_ok());
    if path.is_some() {
        record(global, environment, name).await?;
    }
    let removed = path.map_or(Err(ErrorKind::NotFound.into()), std::fs::remove_file);
    match removed {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let help = "only servers added with `harvest mcp add` can be removed; see `harvest mcp list`";
            let message = format!("there is no file for an MCP server `{}`", clean(name));
            return Err(Failure::refused(Code::BadOption, message, help));
        }
        Err(error) => {
            let message = format!("the MCP server {name} cannot be removed: {error}");
            return Err(Failure::refused(Code::BadConfig, message, "check the permissions of the folder"));
        }
    }
    let _ = if global.json {
        output::json(&json!({ "name": name, "removed": true }))
    } else {
        output::line(&format!("{} {name} removed", style.ok()))
    };
    Ok(Exit::Done)
}
