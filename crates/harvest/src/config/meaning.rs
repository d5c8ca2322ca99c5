//! What the settings in force come to: each part of Harvest in its own words.

use std::collections::BTreeMap;

use harvest_agents::mcp::Catalogue;
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
        let of = |repository: &String| (repository.clone(), self.clone().for_repository(repository).egress());
        let tools = |repository: &String| (repository.clone(), self.clone().for_repository(repository).server_tools());
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
