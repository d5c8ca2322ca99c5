//! What the settings in force come to: each part of Harvest in its own words.

use std::collections::BTreeMap;

use harvest_agents::mcp::Catalogue;
use harvest_core::repository::Place;
use harvest_core::{Code, Hook, McpServer, Supervision, Workflow};
use harvest_engine::{
    DeliveryPolicy, Hosts, Quota, Quotas, StrangerQuota, Tenancy, USE_A_PLAIN_NAME, check_name_in_file,
};
use harvest_gateway::Patience;
use harvest_gateway::ServerTools;
use harvest_gateway::egress::Policy;
use harvest_gateway::registry::Ecosystem;
use harvest_server::Pace;

use super::layers::{Layers, Origin, Project, refuse};
use super::{Key, Value};
use crate::failure::Failure;
use crate::mcp;

/// `https://github.com` → `github.com`
fn host_of(url: &str) -> Option<String> {
    Some(url.split_once("://")?.1.trim_end_matches('/').to_owned())
}

impl Layers {
    /// When an agent is no longer believed to get anywhere.
    pub fn supervision(&self) -> Supervision {
        let default = Supervision::default();
        let millis = |key| self.time(key).and_then(|time| u64::try_from(time.as_millis()).ok());
        Supervision {
            stall_ms: millis(Key::Stall).unwrap_or(default.stall_ms),
            max_repeats: self.count(Key::MaxRepeats).unwrap_or(default.max_repeats),
            grace_ms: millis(Key::Grace).unwrap_or(default.grace_ms),
        }
    }

    /// The MCP servers there are: those of `catalogue`, then those of the settings.
    pub fn catalogue(&self, catalogue: Catalogue) -> Result<Catalogue, Failure> {
        let tables = self.layers.iter().flat_map(|layer| layer.servers.iter().map(move |table| (layer, table)));
        tables.into_iter().try_fold(catalogue, |catalogue, (layer, (name, table))| {
            let with = match layer.origin {
                Origin::ProjectSettings { .. } => Catalogue::with_of_project,
                _ => Catalogue::with,
            };
            let refuse = |error: String| {
                refuse(&format!("{}: {error}", layer.origin.describe()), "see `harvest mcp show NAME` for examples")
            };
            check_name_in_file("the name of an MCP server", name).map_err(|error| refuse(error.to_string()))?;
            if let Some(table) = table.as_table() {
                mcp::check_for_keys(table, harvest_engine::looks_like_a_key)
                    .map_err(|error| refuse(format!("mcp.{name}: {error}")))?;
            }
            with(catalogue, name, table.clone()).map_err(|error| refuse(error.to_string()))
        })
    }

    /// The settings outside of projects, then those within each.
    pub fn within_each(&self) -> impl Iterator<Item = Self> {
        let within = self.projects.iter().map(|project| self.clone().within(project));
        std::iter::once(self.clone()).chain(within)
    }

    /// Those of them that agents get.
    pub fn servers(&self, catalogue: Catalogue) -> Result<Vec<McpServer>, Failure> {
        let catalogue = self.catalogue(catalogue)?;
        let wanted = self.get(Key::McpServers);
        let find = |name: String| match catalogue.get(&name) {
            Some(entry) => Ok(entry.server.clone()),
            None => {
                let known: Vec<&str> = catalogue.iter().map(|entry| entry.server.name.as_str()).collect();
                let message = format!("{}: there is no MCP server `{name}`", wanted.origin.describe());
                Err(Failure::refused(Code::BadOption, message, format!("there are {}", known.join(", "))))
            }
        };
        self.names(Key::McpServers).into_iter().map(find).collect()
    }

    pub fn workflow(&self) -> Workflow {
        match self.text(Key::Workflow).as_deref() {
            Some("research-plan-implement") => Workflow::ResearchPlanImplement,
            _ => Workflow::Direct,
        }
    }

    pub fn hooks(&self) -> Vec<Hook> {
        match self.get(Key::Hooks).value {
            Some(Value::Hooks(hooks)) => hooks,
            _ => Vec::new(),
        }
    }

    /// The hosts that sandboxes may reach.
    pub fn egress(&self) -> Policy {
        match self.get(Key::EgressAllow).value {
            Some(Value::Hosts(policy)) => policy,
            _ => Policy::default(),
        }
    }

    /// The same, and those of each project's repositories.
    pub fn hosts(&self) -> Hosts {
        let listed = self.projects.iter().flat_map(|project| &project.repositories);
        let of = |repository: &String| (Place::of(repository), self.clone().for_repository(repository).egress());
        let tools =
            |repository: &String| (Place::of(repository), self.clone().for_repository(repository).server_tools());
        Hosts {
            any: self.egress(),
            repositories: listed.clone().map(of).collect(),
            any_server_tools: self.server_tools(),
            server_tools: listed.map(tools).collect(),
        }
    }

    /// What model vendors may do outside of the sandboxes.
    fn server_tools(&self) -> ServerTools {
        let names = self.names(Key::ServerTools);
        ServerTools::new(names.iter().map(String::as_str)).unwrap_or_default()
    }

    /// Who belongs to what, and what they may spend in a day.
    pub fn tenancy(&self) -> Tenancy {
        let project = |project: &Project| harvest_engine::Project {
            name: project.name.clone(),
            repositories: project.repositories.clone(),
            daily: self.clone().within(project).money(Key::ProjectDailyUsd),
        };
        Tenancy {
            user_daily: self.money(Key::UserDailyUsd),
            team_daily: self.money(Key::QuotaTeamDailyUsd),
            token_daily: self.money(Key::QuotaTokenDailyUsd),
            teams: self.teams.clone(),
            projects: self.projects.iter().map(project).collect(),
            quotas: self.quotas(),
            sign_in_host: self.text(Key::SignInClientId).and_then(|_| host_of(&self.text(Key::SignInUrl)?)),
        }
    }

    /// How much each may have under way and spend in a day.
    pub fn quotas(&self) -> Quotas {
        let quota = |sessions, daily| Quota { sessions: self.count(sessions).map(u64::from), daily: self.money(daily) };
        Quotas {
            token: quota(Key::QuotaTokenSessions, Key::QuotaTokenDailyUsd),
            user: quota(Key::QuotaUserSessions, Key::UserDailyUsd),
            team: quota(Key::QuotaTeamSessions, Key::QuotaTeamDailyUsd),
            project: quota(Key::QuotaProjectSessions, Key::ProjectDailyUsd),
            strangers: StrangerQuota {
                person: self.count(Key::QuotaStrangerDailyTasks).map(u64::from),
                repository: self.count(Key::QuotaRepositoryStrangerDailyTasks).map(u64::from),
            },
        }
    }

    /// Requests in a minute, for each token.
    pub fn pace(&self) -> Pace {
        let usual = Pace::default();
        Pace {
            reads: self.count(Key::RateReads).unwrap_or(usual.reads),
            writes: self.count(Key::RateWrites).unwrap_or(usual.writes),
        }
    }

    /// What is put up with from the hosts of models.
    pub fn patience(&self) -> Patience {
        let fallbacks = match self.get(Key::ModelFallbacks).value {
            Some(Value::Chains(chains)) => chains,
            _ => Vec::new(),
        };
        let chain = |mut chain: Vec<String>| (chain.remove(0), chain);
        Patience {
            calls_per_credential: self.count(Key::ModelCalls).map(|calls| calls as usize),
            fallbacks: fallbacks.into_iter().filter(|chain| !chain.is_empty()).map(chain).collect(),
            ..Patience::default()
        }
    }

    /// What the repository narrows the hosts to, if it does.
    pub fn narrowed_egress(&self) -> Option<Vec<String>> {
        let setting = self.get(Key::EgressAllow);
        setting.origin.is_repository().then(|| self.egress().lines().collect())
    }

    /// Registries that are not the public ones.
    pub fn mirrors(&self) -> BTreeMap<Ecosystem, String> {
        let own = |ecosystem| {
            let setting = self.get(Key::registry(ecosystem));
            (setting.origin != Origin::Default).then(|| self.text(Key::registry(ecosystem))).flatten()
        };
        Ecosystem::ALL.into_iter().filter_map(|ecosystem| Some((ecosystem, own(ecosystem)?))).collect()
    }

    /// How work is handed over on GitHub.
    pub fn delivery(&self, public_url: Option<&str>) -> DeliveryPolicy {
        DeliveryPolicy {
            failed_as_draft: self.flag(Key::GithubDraftFailed),
            labels: self.text(Key::GithubLabel).into_iter().collect(),
            login: self.text(Key::GithubLogin).unwrap_or_default(),
            public_url: public_url.map(|url| url.trim_end_matches('/').to_owned()),
            attestor: None,
            people: None,
        }
    }

    /// What each sandbox may use.
    pub fn limits(&self) -> harvest_sandbox::Limits {
        let number = |key: Key| match self.get(key).value? {
            Value::Count(count) => Some(u64::from(count)),
            Value::Cores(number) | Value::Size(number) => Some(number),
            _ => None,
        };
        let default = harvest_sandbox::Limits::default();
        harvest_sandbox::Limits {
            wall: default.wall,
            cpu_millis: number(Key::LimitCpu),
            memory_bytes: number(Key::LimitMemory).unwrap_or(default.memory_bytes),
            processes: number(Key::LimitProcesses).unwrap_or(default.processes),
            open_files: number(Key::LimitOpenFiles).unwrap_or(default.open_files),
            disk_bytes: number(Key::LimitDisk).unwrap_or(default.disk_bytes),
            inodes: number(Key::LimitFiles).unwrap_or(default.inodes),
            output_bytes: number(Key::LimitOutput).unwrap_or(default.output_bytes),
        }
    }
}

/// Refuses a name in a file that holds a key.
pub(super) fn check_name(place: &impl std::fmt::Display, whose: &str, name: &str) -> Result<(), Failure> {
    let checked = check_name_in_file(&format!("{place}: the name of {whose}"), name);
    checked.map_err(|error| refuse(&error.to_string(), USE_A_PLAIN_NAME))
}

#[cfg(test)]
mod tests {
    use harvest_core::Cost;

    use super::*;

    #[test]
    fn a_project_is_found_by_every_address_of_its_repositories() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap().join("shop");
        std::fs::create_dir(&real).unwrap();
        let link = real.with_file_name("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let text = format!(
            "[project.shop]\nrepositories = ['{}/', 'git@Git.test:ada/shop.git', 'https://github.com/Ada/Shop']\nagent = 'b'\n\
             project_daily_usd = 5\n[project.shop.egress]\nallow = ['example.com']",
            link.display()
        );
        let layers = Layers::defaults().with_file("/etc/harvest.toml".into(), &text).unwrap();
        let (tenancy, hosts) = (layers.tenancy(), layers.hosts());
        let real = real.to_str().unwrap();
        for address in [
            real,
            &format!("file://{real}"),
            "https://git.test/ada/shop",
            "ssh://git@git.test/ada/shop.git",
            "https://github.com/ada/shop",
            "git@github.com:ADA/shop.git",
        ] {
            assert_eq!(layers.clone().for_repository(address).get(Key::Agent).origin.kind(), "project", "{address}");
            assert_eq!(tenancy.identity("ada", address).project.as_deref(), Some("shop"), "{address}");
            let daily = tenancy.project_of(address).and_then(|project| project.daily);
            assert_eq!(daily, Some(Cost::from_nanos(5_000_000_000)), "{address}");
            let place = Place::of(address);
            assert!(hosts.repositories[&place].lines().any(|line| line == "example.com"), "{address}");
        }
        for other in ["/srv/shop", "https://git.test/ada/Shop", "https://git.test:8443/ada/shop", "shop"] {
            assert_eq!(tenancy.identity("ada", other).project, None, "{other}");
        }
    }

    #[test]
    fn people_teams_and_projects_have_what_the_file_gives_them() {
        let text = "user_daily_usd = 20\nmodel_fallbacks = ['a > b > c']\nmodel_calls = 3\n[team.fruit]\nmembers = ['ada']\n\
                    [project.shop]\nrepositories = ['/srv/shop']\nproject_daily_usd = 5";
        let layers = Layers::defaults().with_file("/etc/harvest.toml".into(), text).unwrap();
        let tenancy = layers.tenancy();
        let dollars = |dollars: u64| Some(Cost::from_nanos(dollars * 1_000_000_000));
        assert_eq!((tenancy.user_daily, tenancy.projects[0].daily), (dollars(20), dollars(5)));
        let ada = tenancy.identity("ada", "/srv/shop");
        assert_eq!((ada.teams, ada.project), (vec!["fruit".to_owned()], Some("shop".to_owned())));
        let bob = tenancy.identity("bob", "/srv/other");
        assert_eq!((bob.teams, bob.project), (Vec::new(), None));
        let patience = layers.patience();
        assert_eq!(
            (patience.calls_per_credential, &patience.fallbacks["a"][..]),
            (Some(3), &["b".into(), "c".into()][..])
        );
        let said = |text: &str| Layers::defaults().with_file("/etc/harvest.toml".into(), text).unwrap_err().message;
        let place = "/etc/harvest.toml";
        let team = said("[team.fruit]\nmembers = 'ada'");
        assert_eq!(team, format!("{place}: team `fruit` must have a list of members and nothing else"));
        let chain = said("model_fallbacks = ['a']");
        assert!(
            chain.starts_with(&format!("{place}: `model_fallbacks` cannot be [\"a\"]: it must be a list")),
            "{chain}"
        );
    }
}
