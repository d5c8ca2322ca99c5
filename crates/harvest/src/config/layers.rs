//! Settings and where each comes from: defaults < harvest.toml < the project in it < the project's settings over the API <
//! .harvest.toml of the repository < the command line. A repository's file is written by whoever can commit there, so it may set little, and of money and hosts
//! only less.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harvest_core::repository::Place;
use harvest_core::{Code, Cost};
use harvest_engine::Team;
use serde_json::json;

use super::meaning::check_name;
use super::{Key, SetBy, Value};
use crate::failure::Failure;

/// Letters that may differ in a setting that somebody meant to write.
const MOST_TYPOS: usize = 2;

/// Who set a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    File(PathBuf),
    /// A table `[project.NAME]` of that file.
    Project {
        name: String,
        file: PathBuf,
    },
    /// Set for a project over the API.
    ProjectSettings {
        name: String,
    },
    /// `.harvest.toml` at a commit of the repository.
    Repository {
        name: String,
        commit: String,
    },
    CommandLine,
}

impl Origin {
    pub fn describe(&self) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::File(path) => path.display().to_string(),
            Self::Project { name, file } => format!("project {name} in {}", file.display()),
            Self::ProjectSettings { name } => format!("settings of project {name}"),
            Self::Repository { name, commit } => {
                format!(".harvest.toml of {name} at {}", commit.get(..10).unwrap_or(commit))
            }
            Self::CommandLine => "command line".to_owned(),
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File(_) => "file",
            Self::Project { .. } => "project",
            Self::ProjectSettings { .. } => "project_settings",
            Self::Repository { .. } => "repository",
            Self::CommandLine => "command_line",
        }
    }

    pub(super) fn is_repository(&self) -> bool {
        matches!(self, Self::Repository { .. })
    }

    fn may_set(&self, key: Key) -> bool {
        match self {
            Self::Repository { .. } => key.definition().set_by >= SetBy::Repository,
            Self::Project { .. } | Self::ProjectSettings { .. } => key.definition().set_by >= SetBy::Project,
            Self::Default | Self::File(_) | Self::CommandLine => true,
        }
    }
}

/// What one place sets.
#[derive(Debug, Clone)]
pub struct Layer {
    pub origin: Origin,
    pub values: BTreeMap<Key, Value>,
    /// The tables `[mcp.NAME]`.
    pub servers: toml::Table,
}

/// A table `[project.NAME]`, a project made over the API, or both: settings for the repositories it lists.
#[derive(Debug, Clone)]
pub struct Project {
    pub(super) name: String,
    pub(super) repositories: Vec<String>,
    /// The weaker first.
    layers: Vec<Layer>,
}

impl Project {
    /// Reads the tables `[project.NAME]` and takes them out of the file's own settings.
    fn take_from(table: &mut toml::Table, file: &Path) -> Result<Vec<Self>, Failure> {
        let place = file.display();
        let tables = match table.remove("project") {
            None => return Ok(Vec::new()),
            Some(toml::Value::Table(tables)) => tables,
            Some(_) => return Err(refuse(&format!("{place}: `project` is not a table"), "write [project.NAME]")),
        };
        let read = |(name, value): (String, toml::Value)| {
            let help = "write it like\n  [project.shop]\n  repositories = [\"/srv/shop\"]\n  budget_usd = 5";
            let bad = |reason: &str| refuse(&format!("{place}: project `{name}` {reason}"), help);
            check_name(&place, "a project", &name)?;
            let toml::Value::Table(mut settings) = value else { return Err(bad("is not a table")) };
            let listed = settings.remove("repositories").ok_or_else(|| bad("lists no repositories"))?;
            let texts = listed.as_array().map(|all| all.iter().map(toml::Value::as_str).collect::<Option<Vec<_>>>());
            let Some(Some(texts)) = texts else {
                return Err(bad("has `repositories` that is not a list of paths and URLs"));
            };
            if texts.iter().any(|address| harvest_engine::address_holds_access(address)) {
                return Err(bad("has a user, a password, a query or a key in an address of `repositories`"));
            }
            let repositories = texts.into_iter().map(harvest_forge::spelled).collect();
            let origin = Origin::Project { name: name.clone(), file: file.to_owned() };
            Ok(Self { name, layers: vec![Layer::read(origin, settings)?], repositories })
        };
        tables.into_iter().map(read).collect()
    }
}

/// Reads the tables `[team.NAME]`, each with a list of `members`, and takes them out of the file's own settings.
fn take_teams(table: &mut toml::Table, file: &Path) -> Result<Vec<Team>, Failure> {
    let place = file.display();
    let help = "write it like\n  [team.fruit]\n  members = [\"ada\", \"bob\"]";
    let tables = match table.remove("team") {
        None => return Ok(Vec::new()),
        Some(toml::Value::Table(tables)) => tables,
        Some(_) => return Err(refuse(&format!("{place}: `team` is not a table"), help)),
    };
    let read = |(name, value): (String, toml::Value)| {
        let settings = value.as_table().filter(|settings| settings.keys().all(|key| key == "members"));
        let members = settings.and_then(|settings| settings.get("members")?.as_array());
        let members: Option<Vec<String>> =
            members.and_then(|all| all.iter().map(|one| one.as_str().map(str::to_owned)).collect());
        for name in members.iter().flatten().chain([&name]) {
            check_name(&place, "a team or of someone in it", name)?;
        }
        match members {
            Some(members) => Ok(Team { name, members }),
            None => Err(refuse(&format!("{place}: team `{name}` must have a list of members and nothing else"), help)),
        }
    };
    tables.into_iter().map(read).collect()
}

fn parse(place: &str, text: &str) -> Result<toml::Table, Failure> {
    text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
        refuse(&format!("{place}: line {line} is not valid TOML: {}", error.message()), "see https://toml.io")
    })
}

impl Layer {
    pub fn money(&self, key: Key) -> Option<Cost> {
        match self.values.get(&key) {
            Some(Value::Money(cost)) => Some(*cost),
            _ => None,
        }
    }

    /// Reads TOML, refusing whatever is not understood.
    pub fn parse(origin: Origin, text: &str) -> Result<Self, Failure> {
        let table = parse(&origin.describe(), text)?;
        Self::read(origin, table)
    }

    /// What was set for a project over the API: the same names and values as in a table of `harvest.toml`.
    pub fn of_settings(project: &str, settings: &serde_json::Value) -> Result<Self, Failure> {
        let origin = Origin::ProjectSettings { name: project.to_owned() };
        let table = toml::Table::try_from(settings).map_err(|_| {
            let message = format!("{}: it is not an object of settings, or one of them is null", origin.describe());
            refuse(&message, "omit settings that you do not want to set")
        })?;
        Self::read(origin, table)
    }

    fn read(origin: Origin, mut table: toml::Table) -> Result<Self, Failure> {
        let place = origin.describe();
        let servers = match table.remove("mcp") {
            Some(_) if origin.is_repository() => {
                let help = "name it in harvest.toml: a repository must not start programs or reach hosts by itself";
                return Err(refuse(&format!("{place}: `mcp` cannot be set by a repository"), help));
            }
            None => toml::Table::new(),
            Some(toml::Value::Table(servers)) => servers,
            Some(_) => {
                let help = "write it like\n  [mcp.docs]\n  url = \"https://docs.example.com/mcp\"";
                return Err(refuse(&format!("{place}: `mcp` is not a table"), help));
            }
        };
        let mut values = BTreeMap::new();
        for (name, value) in flat(table) {
            let known = Key::parse(&name);
            let allowed = |key: &Key| origin.may_set(*key);
            let Some(key) = known.filter(allowed) else {
                let why = match (known, &origin) {
                    (None, _) => "is not a setting",
                    (_, Origin::Project { .. } | Origin::ProjectSettings { .. }) => "cannot be set by a project",
                    _ => "cannot be set by a repository",
                };
                let names: Vec<&str> = Key::ALL.iter().filter(|key| allowed(key)).map(|key| key.name()).collect();
                let close = names.iter().map(|known| (strsim::osa_distance(known, &name), known));
                let close = close.filter(|(distance, _)| *distance <= MOST_TYPOS && known.is_none()).min();
                let meant = close.map(|(_, known)| format!("did you mean `{known}`? ")).unwrap_or_default();
                let elsewhere = known.map(|_| "set it in harvest.toml; here the ").unwrap_or_default();
                return Err(refuse(
                    &format!("{place}: `{name}` {why}"),
                    &format!("{meant}{elsewhere}settings are: {}", names.join(", ")),
                ));
            };
            if harvest_engine::looks_like_a_key(&serde_json::to_string(&value).unwrap_or_default()) {
                let help = "store it with `harvest credential add`; settings are visible to others";
                return Err(refuse(&format!("{place}: `{name}` contains a key"), help));
            }
            let value = key.definition().kind.read(&value).map_err(|reason| {
                let shown = serde_json::to_string(&value).unwrap_or_default();
                refuse(
                    &format!("{place}: `{name}` cannot be {shown}: {reason}"),
                    &format!("write it like {}", key.example()),
                )
            })?;
            values.insert(key, value);
        }
        Ok(Self { origin, values, servers })
    }
}

/// `allow` in the table `egress` is `egress.allow`.
fn flat(table: toml::Table) -> Vec<(String, toml::Value)> {
    let (tables, mut settings) = (Key::tables(), Vec::new());
    for (name, value) in table {
        match value {
            toml::Value::Table(inner) if tables.contains(name.as_str()) => {
                settings.extend(inner.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)));
            }
            value => settings.push((name, value)),
        }
    }
    settings
}

pub(super) fn refuse(message: &str, help: &str) -> Failure {
    Failure::refused(Code::BadConfig, message, help)
}

/// All layers, the weakest first.
#[derive(Debug, Clone)]
pub struct Layers {
    pub(super) layers: Vec<Layer>,
    pub(super) projects: Vec<Project>,
    pub(super) teams: Vec<Team>,
}

/// A value in force.
#[derive(Debug, Clone)]
pub struct Setting {
    pub key: Key,
    /// `None`: what the key says happens without one.
    pub value: Option<Value>,
    pub origin: Origin,
    pub note: Option<String>,
}

impl Setting {
    pub fn json(&self) -> serde_json::Value {
        json!({
            "key": self.key.name(),
            "value": self.value.as_ref().map(Value::json),
            "origin": self.origin.kind(),
            "from": self.origin.describe(),
            "note": self.note,
        })
    }
}

impl Layers {
    pub fn defaults() -> Self {
        let values = Key::ALL.iter().filter_map(|key| Some((*key, key.default()?))).collect();
        let servers = toml::Table::new();
        Self {
            layers: vec![Layer { origin: Origin::Default, values, servers }],
            projects: Vec::new(),
            teams: Vec::new(),
        }
    }

    /// What `harvest.toml` says.
    pub fn with_file(mut self, file: PathBuf, text: &str) -> Result<Self, Failure> {
        let mut table = parse(&file.display().to_string(), text)?;
        self.projects = Project::take_from(&mut table, &file)?;
        self.teams = take_teams(&mut table, &file)?;
        Ok(self.with(Layer::read(Origin::File(file), table)?))
    }

    /// Those that were made over the API. What one of them sets and no longer can is left out; whoever sets it is told.
    pub fn with_projects(mut self, kept: &[harvest_store::Project]) -> Self {
        for project in kept {
            let layer = Layer::of_settings(&project.name, &project.settings).map_err(|failure| {
                tracing::warn!(project = project.name, reason = failure.message, "settings of a project are left out");
            });
            let layer = layer.into_iter();
            match self.projects.iter_mut().find(|known| known.name == project.name) {
                Some(known) => {
                    known.repositories.extend(project.repositories.iter().cloned());
                    known.layers.extend(layer);
                }
                None => self.projects.push(Project {
                    name: project.name.clone(),
                    repositories: project.repositories.clone(),
                    layers: layer.collect(),
                }),
            }
        }
        self
    }

    /// With what a project says; `None` when there is none of that name.
    pub fn for_project(self, name: &str) -> Option<Self> {
        let project = self.projects.iter().find(|project| project.name == name)?.clone();
        Some(self.within(&project))
    }

    /// The same without what was set for projects over the API.
    pub fn without_project_settings(mut self) -> Self {
        self.layers.retain(|layer| !matches!(layer.origin, Origin::ProjectSettings { .. }));
        self
    }

    pub(super) fn within(self, project: &Project) -> Self {
        project.layers.iter().cloned().fold(self, Self::with)
    }

    pub fn with(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// What the project of this repository says, if it belongs to one.
    pub fn for_repository(self, repository: &str) -> Self {
        match self.project_of(repository).cloned() {
            Some(project) => self.within(&project),
            None => self,
        }
    }

    /// The first project that lists the repository, by whichever of its addresses.
    fn project_of(&self, repository: &str) -> Option<&Project> {
        let place = Place::of(repository);
        self.projects.iter().find(|project| project.repositories.iter().any(|listed| Place::of(listed) == place))
    }

    pub fn get(&self, key: Key) -> Setting {
        let mut found = Setting { key, value: None, origin: Origin::Default, note: None };
        for layer in &self.layers {
            let Some(value) = layer.values.get(&key) else { continue };
            if let (Some(Value::Money(allowed)), Value::Money(wanted)) = (&found.value, value)
                && layer.origin.is_repository()
                && wanted > allowed
            {
                let (asks, most) = (layer.origin.describe(), Value::Money(*allowed).text());
                found.note = Some(format!("{asks} asks for {}, but at most {most} is allowed", value.text()));
                continue;
            }
            if let (Some(Value::Hosts(allowed)), Value::Hosts(wanted)) = (&found.value, value)
                && layer.origin.is_repository()
            {
                let narrowed = allowed.intersection(wanted);
                let refused: Vec<String> =
                    wanted.lines().filter(|rule| !narrowed.lines().any(|kept| kept == *rule)).collect();
                let note = format!("{} asks for {}, which is not allowed", layer.origin.describe(), refused.join(", "));
                found = Setting {
                    key,
                    value: Some(Value::Hosts(narrowed)),
                    origin: layer.origin.clone(),
                    note: (!refused.is_empty()).then_some(note),
                };
                continue;
            }
            found = Setting { key, value: Some(value.clone()), origin: layer.origin.clone(), note: None };
        }
        found
    }

    /// What the repository asks for and does not get, with the way out.
    pub fn refusals(&self) -> Vec<String> {
        let noted = self.all().into_iter().filter_map(|setting| Some((setting.key, setting.note?)));
        let told = noted.map(|(key, note)| match key {
            Key::BudgetUsd => {
                format!("{note}; give the task more with --budget-usd, or raise `{}` in harvest.toml", key.name())
            }
            key => format!("{note}; allow it with `{}` in harvest.toml", key.name()),
        });
        told.collect()
    }

    pub fn all(&self) -> Vec<Setting> {
        Key::ALL.iter().map(|key| self.get(*key)).collect()
    }

    pub fn text(&self, key: Key) -> Option<String> {
        match self.get(key).value {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub fn flag(&self, key: Key) -> bool {
        matches!(self.get(key).value, Some(Value::Flag(true)))
    }

    pub fn names(&self, key: Key) -> Vec<String> {
        match self.get(key).value {
            Some(Value::Names(names)) => names,
            _ => Vec::new(),
        }
    }

    pub fn time(&self, key: Key) -> Option<Duration> {
        match self.get(key).value {
            Some(Value::Time(time)) => Some(time),
            _ => None,
        }
    }

    pub fn money(&self, key: Key) -> Option<Cost> {
        match self.get(key).value {
            Some(Value::Money(cost)) => Some(cost),
            _ => None,
        }
    }

    pub fn size(&self, key: Key) -> Option<u64> {
        match self.get(key).value {
            Some(Value::Size(bytes)) => Some(bytes),
            _ => None,
        }
    }

    pub fn count(&self, key: Key) -> Option<u32> {
        match self.get(key).value {
            Some(Value::Count(count)) => Some(count),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use harvest_gateway::registry::Ecosystem;

    use super::*;

    fn file(text: &str) -> Result<Layer, Failure> {
        Layer::parse(Origin::File("/etc/harvest.toml".into()), text)
    }

    fn repository(text: &str) -> Result<Layer, Failure> {
        Layer::parse(Origin::Repository { name: "/srv/shop".into(), commit: "0123456789abcdef".into() }, text)
    }

    fn command_line(key: Key, value: Value) -> Layer {
        Layer { origin: Origin::CommandLine, values: BTreeMap::from([(key, value)]), servers: toml::Table::new() }
    }

    #[test]
    fn a_server_that_a_project_sets_is_taken_on_the_projects_word() {
        use harvest_agents::mcp::Catalogue;
        use harvest_core::NamedBy;

        let docs = "[mcp.docs]\nurl = 'https://docs.example.com/mcp'\ncredential = 'tracker'\n";
        let ours = Layers::defaults().with(file(&format!("mcp_servers = ['docs']\n{docs}")).unwrap());
        let named_by = |layers: &Layers| layers.servers(Catalogue::bundled().unwrap()).unwrap()[0].named_by;
        assert_eq!(named_by(&ours), NamedBy::Installation);
        for table in [
            serde_json::json!({ "url": "https://evil.example.com/mcp", "credential": "tracker" }),
            // Whatever it begins with.
            serde_json::json!({ "preset": "docs" }),
        ] {
            let settings = serde_json::json!({ "mcp": { "docs": table } });
            let theirs = ours.clone().with(Layer::of_settings("shop", &settings).unwrap());
            assert_eq!(named_by(&theirs), NamedBy::Project, "{settings}");
        }
    }

    /// The key; what the file, the repository and the command line say; the value in force and who set it.
    type Row = (Key, &'static str, &'static str, Option<Value>, Option<Value>, &'static str);

    #[test]
    fn the_strongest_layer_wins() {
        let text = |text: &str| Value::Text(text.to_owned());
        let minutes = |minutes: u64| Value::Time(Duration::from_secs(minutes * 60));
        let dollars = |dollars: u64| Value::Money(Cost::from_nanos(dollars * 1_000_000_000));
        let table: &[Row] = &[
            (Key::Agent, "", "", None, None, "default"),
            (Key::Agent, "agent = 'a'", "", None, Some(text("a")), "file"),
            (Key::Agent, "agent = 'a'", "agent = 'b'", None, Some(text("b")), "repository"),
            (Key::Agent, "agent = 'a'", "agent = 'b'", Some(text("c")), Some(text("c")), "command_line"),
            (Key::Model, "", "", None, None, "default"),
            (Key::Test, "", "test = 'make check'", None, Some(text("make check")), "repository"),
            (
                Key::RequireTests,
                "require_tests = true",
                "require_tests = false",
                None,
                Some(Value::Flag(false)),
                "repository",
            ),
            (Key::Timeout, "timeout = '1h'", "", None, Some(minutes(60)), "file"),
            (Key::Timeout, "timeout = '1h'", "", Some(minutes(5)), Some(minutes(5)), "command_line"),
            (Key::BudgetUsd, "budget_usd = 5", "budget_usd = 2", None, Some(dollars(2)), "repository"),
            (Key::BudgetUsd, "budget_usd = 5", "budget_usd = 50", None, Some(dollars(5)), "file"),
            (Key::BudgetUsd, "", "budget_usd = 50.0", None, Some(dollars(10)), "default"),
            (Key::BudgetUsd, "budget_usd = 5", "budget_usd = 2", Some(dollars(20)), Some(dollars(20)), "command_line"),
            (Key::Agents, "", "", None, None, "default"),
            (Key::Agents, "agents = 7", "", Some(Value::Count(3)), Some(Value::Count(3)), "command_line"),
            (Key::Retries, "retries = 2", "", None, Some(Value::Count(2)), "file"),
            (Key::OnQuota, "on_quota = ['codex']", "", None, Some(Value::Names(vec!["codex".to_owned()])), "file"),
            (Key::Lease, "lease = '90s'", "", None, Some(Value::Time(Duration::from_secs(90))), "file"),
            (Key::KeepSize, "keep_size = '2GiB'", "", None, Some(Value::Size(2 << 30)), "file"),
            (Key::ModelCalls, "model_calls = 4", "", None, Some(Value::Count(4)), "file"),
            (Key::Keep, "keep = '7d'", "", None, Some(minutes(7 * 24 * 60)), "file"),
            (Key::LimitMemory, "", "", None, Some(Value::Size(8 << 30)), "default"),
            (Key::LimitMemory, "[limits]\nmemory = '512MiB'", "", None, Some(Value::Size(512 << 20)), "file"),
            (Key::LimitCpu, "limits.cpu = 1.5", "", None, Some(Value::Cores(1500)), "file"),
        ];
        for (key, in_file, in_repository, given, value, origin) in table {
            let mut layers = Layers::defaults().with(file(in_file).unwrap()).with(repository(in_repository).unwrap());
            if let Some(given) = given {
                layers = layers.with(command_line(*key, given.clone()));
            }
            let found = layers.get(*key);
            assert_eq!(
                (found.value.as_ref(), found.origin.kind()),
                (value.as_ref(), *origin),
                "{key:?} {in_file} {in_repository}"
            );
        }
    }

    #[test]
    fn a_project_stands_between_the_file_and_its_repositories() {
        let text =
            "budget_usd = 5\nagent = 'a'\n[project.shop]\nrepositories = ['/srv/shop']\nbudget_usd = 20\nagent = 'b'";
        let layers = || Layers::defaults().with_file("/etc/harvest.toml".into(), text).unwrap();
        let shop = layers().for_repository("/srv/shop").with(repository("budget_usd = 30").unwrap());
        let budget = shop.get(Key::BudgetUsd);
        assert_eq!(
            (budget.value, budget.origin.describe().as_str()),
            (Some(Value::Money(Cost::from_nanos(20_000_000_000))), "project shop in /etc/harvest.toml")
        );
        assert!(budget.note.is_some(), "the repository asks for more than its project allows");
        assert_eq!(shop.get(Key::Agent).origin.kind(), "project");
        let other = layers().for_repository("/srv/other");
        assert_eq!(other.get(Key::Agent).value, Some(Value::Text("a".into())));
    }

    #[test]
    fn a_project_that_is_wrong_is_named() {
        let said = |text: &str| Layers::defaults().with_file("/etc/harvest.toml".into(), text).unwrap_err().message;
        let place = "/etc/harvest.toml";
        assert_eq!(said("[project.shop]\nagent = 'a'"), format!("{place}: project `shop` lists no repositories"));
        assert_eq!(said("project = 3"), format!("{place}: `project` is not a table"));
        let agents = said("[project.shop]\nrepositories = ['/srv/shop']\nagents = 3");
        assert_eq!(agents, format!("project shop in {place}: `agents` cannot be set by a project"));
    }

    #[test]
    fn a_repository_that_asks_for_more_money_is_told_about() {
        let layers = Layers::defaults().with(repository("budget_usd = 50").unwrap());
        let note = layers.get(Key::BudgetUsd).note.unwrap();
        assert_eq!(note, ".harvest.toml of /srv/shop at 0123456789 asks for $50.00, but at most $10.00 is allowed");
    }

    #[test]
    fn a_repository_can_narrow_the_allowed_hosts_and_never_widen_them() {
        let allowed = file("[egress]\nallow = ['*.example.com', 'a.test']").unwrap();
        let rules = |layers: &Layers| layers.egress().lines().collect::<Vec<_>>();
        assert_eq!(rules(&Layers::defaults()), [] as [&str; 0]);
        let layers = Layers::defaults().with(allowed.clone());
        assert_eq!(rules(&layers), ["*.example.com", "a.test"]);
        assert_eq!(layers.narrowed_egress(), None);
        let wanted = repository("[egress]\nallow = ['b.example.com', 'evil.test', '*.example.test']").unwrap();
        let narrowed = layers.with(wanted);
        assert_eq!(rules(&narrowed), ["b.example.com"]);
        assert_eq!(narrowed.narrowed_egress().unwrap(), ["b.example.com"]);
        let note = narrowed.get(Key::EgressAllow).note.unwrap();
        assert!(note.ends_with("asks for evil.test, *.example.test, which is not allowed"), "{note}");
        let alone = Layers::defaults().with(repository("egress.allow = ['evil.test']").unwrap());
        assert_eq!(rules(&alone), [] as [&str; 0]);
    }

    #[test]
    fn an_operator_can_name_mirrors() {
        let layers = Layers::defaults().with(file("[registries]\nnpm = 'http://10.0.0.1/npm'").unwrap());
        assert_eq!(layers.mirrors(), BTreeMap::from([(Ecosystem::Npm, "http://10.0.0.1/npm".to_owned())]));
        assert_eq!(layers.get(Key::RegistryNpm).origin.kind(), "file");
        for (ecosystem, key) in Ecosystem::ALL.into_iter().map(|ecosystem| (ecosystem, Key::registry(ecosystem))) {
            assert_eq!(key.name(), format!("registries.{ecosystem}"));
            assert!(Key::ALL.contains(&key));
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_file() {
        let said = |layer: Result<Layer, Failure>| {
            let failure = layer.unwrap_err();
            assert_eq!(failure.code, Code::BadConfig);
            failure.message
        };
        assert_eq!(said(file("colour = 'red'")), "/etc/harvest.toml: `colour` is not a setting");
        let help = |text: &str| file(text).unwrap_err().help.unwrap_or_default();
        assert!(help("bugdet_usd = 3").starts_with("did you mean `budget_usd`? settings are: "));
        assert!(help("colour = 'red'").starts_with("settings are: "));
        assert_eq!(said(file("timeout = 30")), "/etc/harvest.toml: `timeout` cannot be 30: it must be text");
        assert_eq!(
            said(file("timeout = 'soon'")),
            "/etc/harvest.toml: `timeout` cannot be \"soon\": invalid duration `soon`; write it like 90s, 30m or 1h30m"
        );
        assert_eq!(said(file("agents = 0")), "/etc/harvest.toml: `agents` cannot be 0: it must be between 1 and 1000");
        assert_eq!(
            said(file("budget_usd = -1")),
            "/etc/harvest.toml: `budget_usd` cannot be -1: it must be more than 0, e.g. 2.50"
        );
        assert_eq!(
            said(file("require_tests = 1")),
            "/etc/harvest.toml: `require_tests` cannot be 1: it must be true or false"
        );
        assert!(said(file("agent = 'a'\nagent 'b'")).starts_with("/etc/harvest.toml: line 2 is not valid TOML: "));
        let place = "/etc/harvest.toml: `";
        assert_eq!(said(file("[egress]\ndeny = []")), format!("{place}egress.deny` is not a setting"));
        assert_eq!(
            said(file("[egress]\nallow = 'a.com'")),
            format!("{place}egress.allow` cannot be \"a.com\": it must be a list of hosts")
        );
        let literal = said(file("[egress]\nallow = ['10.0.0.1']"));
        assert!(literal.contains("`10.0.0.1` is not a host: it is an address"), "{literal}");
        assert_eq!(
            said(file("[registries]\nnpm = 'mirror'")),
            format!("{place}registries.npm` cannot be \"mirror\": it must begin with https:// or http://")
        );
        assert_eq!(
            said(file("[limits]\nmemory = 'much'")),
            "/etc/harvest.toml: `limits.memory` cannot be \"much\": invalid size `much`; write it like 512MiB or 8GiB"
        );
        assert_eq!(
            said(file("[limits]\ndisk = '1KiB'")),
            "/etc/harvest.toml: `limits.disk` cannot be \"1KiB\": it must be at least 16MiB"
        );
        assert_eq!(said(file("[limits]\nfame = 1")), "/etc/harvest.toml: `limits.fame` is not a setting");
        for forbidden in [
            "registries.npm = 'https://a.test'",
            "limits.memory = '1TiB'",
            "agents = 3",
            "warm = 3",
            "lease = '1m'",
            "retries = 2",
            "keep = '1d'",
        ] {
            let key = forbidden.split(' ').next().unwrap();
            let place = ".harvest.toml of /srv/shop at 0123456789";
            assert_eq!(said(repository(forbidden)), format!("{place}: `{key}` cannot be set by a repository"));
        }
        for secret in ["anthropic_api_key = 'x'", "egress = ['example.org']"] {
            assert!(said(repository(secret)).ends_with("is not a setting"), "{secret}");
        }
    }
}
