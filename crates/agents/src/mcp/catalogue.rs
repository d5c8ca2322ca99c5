//! The servers there are: those that Harvest knows, and those of an installation, read from TOML and checked one by one.

use std::collections::BTreeMap;

use harvest_core::{McpAddress, McpCredential, McpServer, NamedBy};
use serde::Deserialize;

const PRESETS: &str = include_str!("presets.toml");

/// All known servers, by name.
#[derive(Debug, Clone)]
pub struct Catalogue {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub server: McpServer,
    /// What it is for, in one line.
    pub about: String,
    /// It comes with Harvest.
    pub bundled: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the MCP server `{name}` is not valid: {reason}")]
    Invalid { name: String, reason: String },
    #[error("the MCP server `{name}` uses the preset `{preset}`, which does not exist; use one of {known}")]
    NoPreset { name: String, preset: String, known: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    /// What it is like where it says nothing itself.
    preset: Option<String>,
    about: Option<String>,
    command: Option<String>,
    args: Option<Vec<String>>,
    url: Option<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    credential: Option<String>,
    /// The variable or header that the secret goes into.
    credential_as: Option<String>,
    tools: Option<Vec<String>>,
    hosts: Option<Vec<String>>,
}

impl Catalogue {
    /// The servers that come with Harvest.
    pub fn bundled() -> Result<Self, Error> {
        let tables: toml::Table = PRESETS.parse().map_err(|error: toml::de::Error| Error::Invalid {
            name: "presets.toml".to_owned(),
            reason: error.message().to_owned(),
        })?;
        let mut catalogue = Self { entries: BTreeMap::new() };
        for (name, table) in tables {
            let entry = catalogue.read(&name, table)?;
            catalogue.entries.insert(name, Entry { bundled: true, ..entry });
        }
        Ok(catalogue)
    }

    /// With one more, or another in the place of one of the same name.
    pub fn with(mut self, name: &str, table: toml::Value) -> Result<Self, Error> {
        let entry = self.read(name, table)?;
        self.entries.insert(name.to_owned(), entry);
        Ok(self)
    }

    /// The same as a project has it: whatever stands in the table, or in the preset that it begins with, is taken on the
    /// project's word.
    pub fn with_of_project(mut self, name: &str, table: toml::Value) -> Result<Self, Error> {
        let mut entry = self.read(name, table)?;
        entry.server.named_by = NamedBy::Project;
        self.entries.insert(name.to_owned(), entry);
        Ok(self)
    }

    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    fn read(&self, name: &str, table: toml::Value) -> Result<Entry, Error> {
        let invalid = |reason: String| Error::Invalid { name: name.to_owned(), reason };
        if !McpServer::is_valid_name(name) {
            let reason = "its name must be a lower-case letter, then letters, digits, dashes and underscores";
            return Err(invalid(reason.to_owned()));
        }
        let definition: Definition = table.try_into().map_err(|error: toml::de::Error| {
            invalid(error.to_string().split_whitespace().collect::<Vec<_>>().join(" "))
        })?;
        let preset = match &definition.preset {
            None => None,
            Some(preset) => {
                let known = || self.entries.keys().cloned().collect::<Vec<_>>().join(", ");
                let missing = || Error::NoPreset { name: name.to_owned(), preset: preset.clone(), known: known() };
                Some(self.entries.get(preset).ok_or_else(missing)?)
            }
        };
        definition.check(name, preset).map_err(invalid)
    }
}

impl Definition {
    fn check(self, name: &str, preset: Option<&Entry>) -> Result<Entry, String> {
        let base = preset.map(|entry| &entry.server);
        let at = match (self.command, self.url) {
            (Some(_), Some(_)) => return Err("it has both a `command` and a `url`; keep one of them".to_owned()),
            (Some(command), None) => McpAddress::Program { command, args: self.args.unwrap_or_default() },
            (None, Some(url)) => {
                check_url(&url)?;
                if self.args.is_some() || !self.environment.is_empty() {
                    return Err("`args` and `environment` need a `command`; this server has a `url`".to_owned());
                }
                McpAddress::Url { url }
            }
            (None, None) => match (base.map(|server| server.at.clone()), self.args) {
                (Some(McpAddress::Program { command, .. }), Some(args)) => McpAddress::Program { command, args },
                (Some(at), None) => at,
                (Some(McpAddress::Url { .. }), Some(_)) => return Err("`args` need a `command`".to_owned()),
                (None, _) => return Err("set `command = \"npx\"` with `args`, or `url = \"https://…\"`".to_owned()),
            },
        };
        // The hosts and the key of a preset are for its own program, as it is started there: variables can make another of it.
        // Another gets only what its own table names.
        let is_sent_otherwise = |base: &McpServer| {
            let known = base.credential.as_ref().map(|known| &known.sent_as);
            self.credential_as.as_ref().is_some_and(|given| known != Some(given))
        };
        let is_another = |base: &McpServer| {
            let changes = |(name, value)| base.environment.get(name) != Some(value);
            base.at != at || is_sent_otherwise(base) || self.environment.iter().any(changes)
        };
        if let Some(base) = base.filter(|base| is_another(base)) {
            let names_hosts = self.hosts.is_some() || base.hosts.is_empty();
            let names_key = self.credential.is_some() || base.credential.is_none();
            let missing = match (names_hosts, names_key) {
                (true, true) => None,
                (false, _) => Some(("hosts", "`hosts = []` for none")),
                (true, false) => Some(("credential", "it can be the one of the preset")),
            };
            if let Some((field, hint)) = missing {
                return Err(format!(
                    "it changes what its preset starts or reaches, so it must set `{field}` itself ({hint})"
                ));
            }
        }
        let mut environment = base.map(|server| server.environment.clone()).unwrap_or_default();
        environment.extend(self.environment);
        if let Some(bad) = environment.keys().find(|name| !is_variable(name)) {
            return Err(format!("`{bad}` is not a variable name"));
        }
        let before = base.and_then(|server| server.credential.clone());
        let sent_as = self.credential_as.or_else(|| before.as_ref().map(|known| known.sent_as.clone()));
        let credential = match self.credential.or_else(|| before.map(|known| known.name)) {
            None if sent_as.is_some() => return Err("`credential_as` is set, but `credential` is not".to_owned()),
            None => None,
            Some(named) => Some(check_credential(named, sent_as, &at)?),
        };
        let hosts = self.hosts.or_else(|| base.map(|server| server.hosts.clone())).unwrap_or_default();
        let about = self.about.or_else(|| preset.map(|entry| entry.about.clone())).unwrap_or_default();
        let tools = self.tools.or_else(|| base.and_then(|server| server.tools.clone()));
        let named_by = NamedBy::Installation;
        let server = McpServer { name: name.to_owned(), at, environment, credential, tools, hosts, named_by };
        Ok(Entry { server, about, bundled: false })
    }
}

/// Headers that say where a request goes and how it is written. The value of a credential must not be able to.
const HEADERS_OF_HTTP: [&str; 12] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

fn check_url(url: &str) -> Result<(), String> {
    let rest = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    match rest {
        None | Some("") => Err(format!("`url` cannot be {url:?}: it must begin with https:// or http://")),
        // It is shown to people, and a secret in it would be, too.
        Some(rest) if rest.contains(['@', '#']) => {
            Err("`url` must have no user and no fragment; put a key into `credential`".to_owned())
        }
        Some(_) => Ok(()),
    }
}

fn check_credential(name: String, sent_as: Option<String>, at: &McpAddress) -> Result<McpCredential, String> {
    let sent_as = match (at, sent_as) {
        (McpAddress::Program { .. }, Some(variable)) if is_variable(&variable) => variable,
        (McpAddress::Program { .. }, Some(other)) => return Err(format!("`{other}` is not a variable name")),
        (McpAddress::Program { .. }, None) => {
            return Err("`credential_as` must name the variable that the program reads the key from".to_owned());
        }
        (McpAddress::Url { .. }, Some(header)) => {
            let is_header = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            if header.is_empty() || !header.bytes().all(is_header) {
                return Err(format!("`{header}` is not a header name"));
            }
            let header = header.to_ascii_lowercase();
            if HEADERS_OF_HTTP.contains(&header.as_str()) {
                return Err(format!("`{header}` is a header of HTTP itself and carries no key"));
            }
            header
        }
        (McpAddress::Url { .. }, None) => McpCredential::BEARER_HEADER.to_owned(),
    };
    Ok(McpCredential { name, sent_as })
}

fn is_variable(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit()) && name.bytes().all(is_plain)
}
