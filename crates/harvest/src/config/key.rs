//! The settings there are: their names, defaults, and who may set them.

use std::time::Duration;

use harvest_core::{Cost, Supervision};
use harvest_gateway::egress::Policy;
use harvest_gateway::registry::Ecosystem;
use harvest_server::Pace;

use super::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Agent,
    Model,
    Test,
    RequireTests,
    /// Tests that fail at the base already may go on failing.
    AcceptUnchanged,
    /// Plans are made first, for a person to decide on.
    Plan,
    /// Who looks for what is wrong with a plan.
    PlanReview,
    /// In which steps tasks are worked on.
    Workflow,
    /// A person decides on the tested result before it leaves; `approval` in `[deliver]`.
    Gate,
    /// MCP servers that agents have.
    McpServers,
    Timeout,
    /// How long an agent may be silent.
    Stall,
    MaxTurns,
    MaxRepeats,
    /// How long an agent that has to end may take to do so by itself.
    Grace,
    Hooks,
    BudgetUsd,
    /// For each person, for a day.
    UserDailyUsd,
    /// For a project, for a day.
    ProjectDailyUsd,
    Retries,
    /// Agents that go on, one after the other, when a model has no more quota.
    OnQuota,
    Agents,
    Warm,
    Lease,
    /// Failures of one kind in a row that stop a worker for a while.
    Breaker,
    BreakerPause,
    Keep,
    KeepSize,
    ModelCalls,
    ModelFallbacks,
    /// `allow` in `[egress]`.
    EgressAllow,
    /// What model vendors may do outside of the sandboxes; `server_tools` in `[models]`.
    ServerTools,
    /// How GitHub knows this installation; the secret that goes with it is in the vault.
    SignInClientId,
    SignInUrl,
    SignInOrganizations,
    SignInTeams,
    SignInAdmins,
    SignInRole,
    /// How long someone is taken for a member before GitHub is asked again.
    SignInBelieved,
    /// Tasks that have not ended, for each token, person, team or project.
    QuotaTokenSessions,
    QuotaUserSessions,
    QuotaTeamSessions,
    QuotaProjectSessions,
    QuotaTokenDailyUsd,
    QuotaTeamDailyUsd,
    /// Tasks that each stranger, and all of them in one repository, may begin in a day.
    QuotaStrangerDailyTasks,
    QuotaRepositoryStrangerDailyTasks,
    /// Requests in a minute, for each token.
    RateReads,
    RateWrites,
    /// Where traces are sent.
    TelemetryOtlp,
    /// One of `[registries]`.
    Registry(Ecosystem),
    /// How all registries are reached: by a proxy, with certificates beside the machine's.
    RegistryProxy,
    RegistryCaFile,
    LimitCpu,
    LimitMemory,
    LimitProcesses,
    LimitOpenFiles,
    LimitDisk,
    LimitFiles,
    LimitOutput,
    /// Whom people assign, ask and speak to on GitHub.
    GithubLogin,
    GithubLabel,
    /// What failed is proposed as a draft.
    GithubDraftFailed,
    /// How often failed checks and reviews make a session go on.
    GithubFixes,
}

impl Key {
    pub const ALL: [Self; 71] = [
        Self::Agent,
        Self::Model,
        Self::Test,
        Self::RequireTests,
        Self::AcceptUnchanged,
        Self::Plan,
        Self::PlanReview,
        Self::Workflow,
        Self::Gate,
        Self::McpServers,
        Self::Timeout,
        Self::Stall,
        Self::MaxTurns,
        Self::MaxRepeats,
        Self::Grace,
        Self::Hooks,
        Self::BudgetUsd,
        Self::UserDailyUsd,
        Self::ProjectDailyUsd,
        Self::Retries,
        Self::OnQuota,
        Self::Agents,
        Self::Warm,
        Self::Lease,
        Self::Breaker,
        Self::BreakerPause,
        Self::Keep,
        Self::KeepSize,
        Self::ModelCalls,
        Self::ModelFallbacks,
        Self::EgressAllow,
        Self::ServerTools,
        Self::SignInClientId,
        Self::SignInUrl,
        Self::SignInOrganizations,
        Self::SignInTeams,
        Self::SignInAdmins,
        Self::SignInRole,
        Self::SignInBelieved,
        Self::QuotaTokenSessions,
        Self::QuotaUserSessions,
        Self::QuotaTeamSessions,
        Self::QuotaProjectSessions,
        Self::QuotaTokenDailyUsd,
        Self::QuotaTeamDailyUsd,
        Self::QuotaStrangerDailyTasks,
        Self::QuotaRepositoryStrangerDailyTasks,
        Self::RateReads,
        Self::RateWrites,
        Self::TelemetryOtlp,
        Self::Registry(Ecosystem::Npm),
        Self::Registry(Ecosystem::Pypi),
        Self::Registry(Ecosystem::Cargo),
        Self::Registry(Ecosystem::Go),
        Self::Registry(Ecosystem::Maven),
        Self::Registry(Ecosystem::Rubygems),
        Self::Registry(Ecosystem::Packagist),
        Self::Registry(Ecosystem::Apt),
        Self::RegistryProxy,
        Self::RegistryCaFile,
        Self::LimitCpu,
        Self::LimitMemory,
        Self::LimitProcesses,
        Self::LimitOpenFiles,
        Self::LimitDisk,
        Self::LimitFiles,
        Self::LimitOutput,
        Self::GithubLogin,
        Self::GithubLabel,
        Self::GithubDraftFailed,
        Self::GithubFixes,
    ];
    /// Names with a dot stand in tables.
    pub const TABLES: [&str; 10] =
        ["egress", "models", "sign_in", "quota", "rate", "telemetry", "registries", "limits", "deliver", "github"];

    pub fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Model => "model",
            Self::Test => "test",
            Self::RequireTests => "require_tests",
            Self::AcceptUnchanged => "accept_unchanged",
            Self::Plan => "plan",
            Self::PlanReview => "plan_review",
            Self::Workflow => "workflow",
            Self::Gate => "deliver.approval",
            Self::McpServers => "mcp_servers",
            Self::Timeout => "timeout",
            Self::Stall => "stall",
            Self::MaxTurns => "max_turns",
            Self::MaxRepeats => "max_repeats",
            Self::Grace => "grace",
            Self::Hooks => "hooks",
            Self::BudgetUsd => "budget_usd",
            Self::UserDailyUsd => "user_daily_usd",
            Self::ProjectDailyUsd => "project_daily_usd",
            Self::Retries => "retries",
            Self::OnQuota => "on_quota",
            Self::Agents => "agents",
            Self::Warm => "warm",
            Self::Lease => "lease",
            Self::Breaker => "breaker",
            Self::BreakerPause => "breaker_pause",
            Self::Keep => "keep",
            Self::KeepSize => "keep_size",
            Self::ModelCalls => "model_calls",
            Self::ModelFallbacks => "model_fallbacks",
            Self::EgressAllow => "egress.allow",
            Self::ServerTools => "models.server_tools",
            Self::SignInClientId => "sign_in.client_id",
            Self::SignInUrl => "sign_in.url",
            Self::SignInOrganizations => "sign_in.organizations",
            Self::SignInTeams => "sign_in.teams",
            Self::SignInAdmins => "sign_in.admins",
            Self::SignInRole => "sign_in.role",
            Self::SignInBelieved => "sign_in.believed",
            Self::QuotaTokenSessions => "quota.token_sessions",
            Self::QuotaUserSessions => "quota.user_sessions",
            Self::QuotaTeamSessions => "quota.team_sessions",
            Self::QuotaProjectSessions => "quota.project_sessions",
            Self::QuotaTokenDailyUsd => "quota.token_daily_usd",
            Self::QuotaTeamDailyUsd => "quota.team_daily_usd",
            Self::QuotaStrangerDailyTasks => "quota.stranger_daily_tasks",
            Self::QuotaRepositoryStrangerDailyTasks => "quota.repository_stranger_daily_tasks",
            Self::RateReads => "rate.reads",
            Self::RateWrites => "rate.writes",
            Self::TelemetryOtlp => "telemetry.otlp",
            Self::Registry(Ecosystem::Npm) => "registries.npm",
            Self::Registry(Ecosystem::Pypi) => "registries.pypi",
            Self::Registry(Ecosystem::Cargo) => "registries.cargo",
            Self::Registry(Ecosystem::Go) => "registries.go",
            Self::Registry(Ecosystem::Maven) => "registries.maven",
            Self::Registry(Ecosystem::Rubygems) => "registries.rubygems",
            Self::Registry(Ecosystem::Packagist) => "registries.packagist",
            Self::Registry(Ecosystem::Apt) => "registries.apt",
            Self::RegistryProxy => "registries.proxy",
            Self::RegistryCaFile => "registries.ca_file",
            Self::LimitCpu => "limits.cpu",
            Self::LimitMemory => "limits.memory",
            Self::LimitProcesses => "limits.processes",
            Self::LimitOpenFiles => "limits.open_files",
            Self::LimitDisk => "limits.disk",
            Self::LimitFiles => "limits.files",
            Self::LimitOutput => "limits.output",
            Self::GithubLogin => "github.login",
            Self::GithubLabel => "github.label",
            Self::GithubDraftFailed => "github.draft_failed",
            Self::GithubFixes => "github.fixes",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    pub fn example(self) -> &'static str {
        match self {
            Self::Agent => "agent = \"builtin\"",
            Self::Model => "model = \"claude-sonnet-4-5\"",
            Self::Test => "test = \"make check\"",
            Self::RequireTests => "require_tests = true",
            Self::AcceptUnchanged => "accept_unchanged = true",
            Self::Plan => "plan = true",
            Self::PlanReview => "plan_review = \"codex\"",
            Self::Workflow => "workflow = \"research-plan-implement\"",
            Self::Gate => "approval = true in [deliver]",
            Self::McpServers => "mcp_servers = [\"memory\", \"github\"]",
            Self::Timeout => "timeout = \"30m\"",
            Self::Stall => "stall = \"10m\"",
            Self::MaxTurns => "max_turns = 50",
            Self::MaxRepeats => "max_repeats = 10",
            Self::Grace => "grace = \"5s\"",
            Self::Hooks => "hooks = [\"before_deliver: secret-scan\", \"after_execute?: make format\"]",
            Self::BudgetUsd => "budget_usd = 2.50",
            Self::UserDailyUsd => "user_daily_usd = 20",
            Self::ProjectDailyUsd => "project_daily_usd = 100",
            Self::Retries => "retries = 2",
            Self::OnQuota => "on_quota = [\"codex\", \"builtin\"]",
            Self::Agents => "agents = 3",
            Self::Warm => "warm = 2",
            Self::Lease => "lease = \"60s\"",
            Self::Breaker => "breaker = 8 (0: never)",
            Self::BreakerPause => "breaker_pause = \"60s\"",
            Self::Keep => "keep = \"30d\"",
            Self::KeepSize => "keep_size = \"50GiB\"",
            Self::ModelCalls => "model_calls = 8",
            Self::ModelFallbacks => "model_fallbacks = [\"claude-opus-4-5 > claude-sonnet-4-5\"]",
            Self::EgressAllow => "allow = [\"example.com\", \"*.example.com\"] in [egress]",
            Self::ServerTools => "server_tools = [\"web_search\"] in [models]",
            Self::SignInClientId => "client_id = \"Iv1.0123456789abcdef\" in [sign_in]",
            Self::SignInUrl => "url = \"https://git.example.com\" in [sign_in]",
            Self::SignInOrganizations => "organizations = [\"fruit\"] in [sign_in]",
            Self::SignInTeams => "teams = [\"fruit/growers\"] in [sign_in]",
            Self::SignInAdmins => "admins = [\"ada\"] in [sign_in]",
            Self::SignInRole => "role = \"member\" in [sign_in]",
            Self::SignInBelieved => "believed = \"1h\" in [sign_in]",
            Self::QuotaTokenSessions => "token_sessions = 5 in [quota]",
            Self::QuotaUserSessions => "user_sessions = 10 in [quota]",
            Self::QuotaTeamSessions => "team_sessions = 30 in [quota]",
            Self::QuotaProjectSessions => "project_sessions = 50 in [quota]",
            Self::QuotaTokenDailyUsd => "token_daily_usd = 5 in [quota]",
            Self::QuotaTeamDailyUsd => "team_daily_usd = 100 in [quota]",
            Self::QuotaStrangerDailyTasks => "stranger_daily_tasks = 5 in [quota]",
            Self::QuotaRepositoryStrangerDailyTasks => "repository_stranger_daily_tasks = 20 in [quota]",
            Self::RateReads => "reads = 60000 in [rate]",
            Self::RateWrites => "writes = 600 in [rate]",
            Self::TelemetryOtlp => "otlp = \"http://127.0.0.1:4318\" in [telemetry]",
            Self::RegistryProxy => "proxy = \"http://proxy.example.com:3128\" in [registries]",
            Self::RegistryCaFile => "ca_file = \"/etc/ssl/example.pem\" in [registries]",
            Self::Registry(_) => "npm = \"https://mirror.example.com/npm\" in [registries]",
            Self::LimitCpu => "cpu = 1.5 (cores)",
            Self::LimitMemory => "memory = \"8GiB\"",
            Self::LimitProcesses => "processes = 2048",
            Self::LimitOpenFiles => "open_files = 4096",
            Self::LimitDisk => "disk = \"20GiB\"",
            Self::LimitFiles => "files = 2000000",
            Self::LimitOutput => "output = \"1GiB\"",
            Self::GithubLogin => "login = \"harvest\" in [github]",
            Self::GithubLabel => "label = \"harvest\" in [github]",
            Self::GithubDraftFailed => "draft_failed = true in [github]",
            Self::GithubFixes => "fixes = 5 in [github]",
        }
    }

    /// How the tasks of a repository are worked on, yes; what this machine does, no.
    pub fn may_be_set_by_a_repository(self) -> bool {
        matches!(
            self,
            Self::Agent
                | Self::Model
                | Self::Test
                | Self::RequireTests
                | Self::Timeout
                | Self::Stall
                | Self::MaxTurns
                | Self::MaxRepeats
                | Self::BudgetUsd
                | Self::EgressAllow
        )
    }

    /// The same, and what its owner answers for.
    pub fn may_be_set_by_a_project(self) -> bool {
        matches!(
            self,
            Self::AcceptUnchanged
                | Self::Retries
                | Self::OnQuota
                | Self::Plan
                | Self::PlanReview
                | Self::Workflow
                | Self::Gate
                | Self::McpServers
                | Self::ServerTools
                | Self::ProjectDailyUsd
                | Self::Hooks
        ) || self.may_be_set_by_a_repository()
    }

    pub fn default(self) -> Option<Value> {
        const DAY: u64 = 24 * 60 * 60;
        let limits = harvest_sandbox::Limits::default();
        let supervision = Supervision::default();
        let count = |number: u64| u32::try_from(number).ok().map(Value::Count);
        match self {
            Self::Agent | Self::Model | Self::Test | Self::Agents | Self::Warm | Self::PlanReview => None,
            Self::RequireTests | Self::AcceptUnchanged | Self::Plan | Self::Gate | Self::GithubDraftFailed => {
                Some(Value::Flag(false))
            }
            Self::GithubLogin | Self::GithubLabel => Some(Value::Text("harvest".to_owned())),
            Self::GithubFixes => Some(Value::Count(5)),
            Self::Workflow => Some(Value::Text("direct".to_owned())),
            Self::Timeout => Some(Value::Time(Duration::from_secs(30 * 60))),
            Self::Stall => Some(Value::Time(Duration::from_millis(supervision.stall_ms))),
            Self::MaxTurns => Some(Value::Count(50)),
            Self::MaxRepeats => Some(Value::Count(supervision.max_repeats)),
            Self::Hooks => Some(Value::Hooks(Vec::new())),
            Self::Grace => Some(Value::Time(Duration::from_millis(supervision.grace_ms))),
            Self::BudgetUsd => Some(Value::Money(Cost::from_nanos(10_000_000_000))),
            Self::Retries => Some(Value::Count(0)),
            Self::OnQuota | Self::McpServers | Self::ServerTools => Some(Value::Names(Vec::new())),
            Self::Lease | Self::BreakerPause => Some(Value::Time(Duration::from_secs(60))),
            Self::Breaker => Some(Value::Count(8)),
            Self::Keep => Some(Value::Time(Duration::from_secs(30 * DAY))),
            Self::KeepSize | Self::ModelCalls | Self::UserDailyUsd | Self::ProjectDailyUsd => None,
            Self::ModelFallbacks => Some(Value::Chains(Vec::new())),
            Self::EgressAllow => Some(Value::Hosts(Policy::default())),
            Self::SignInClientId
            | Self::SignInRole
            | Self::TelemetryOtlp
            | Self::RegistryProxy
            | Self::RegistryCaFile => None,
            Self::QuotaTokenSessions
            | Self::QuotaUserSessions
            | Self::QuotaTeamSessions
            | Self::QuotaProjectSessions
            | Self::QuotaTokenDailyUsd
            | Self::QuotaTeamDailyUsd => None,
            Self::QuotaStrangerDailyTasks => Some(Value::Count(5)),
            Self::QuotaRepositoryStrangerDailyTasks => Some(Value::Count(20)),
            Self::RateReads => Some(Value::Count(Pace::default().reads)),
            Self::RateWrites => Some(Value::Count(Pace::default().writes)),
            Self::SignInUrl => Some(Value::Text("https://github.com".to_owned())),
            Self::SignInOrganizations | Self::SignInTeams | Self::SignInAdmins => Some(Value::Names(Vec::new())),
            Self::SignInBelieved => Some(Value::Time(Duration::from_secs(60 * 60))),
            Self::Registry(ecosystem) => Some(Value::Text(ecosystem.public().to_owned())),
            Self::LimitCpu => limits.cpu_millis.map(Value::Cores),
            Self::LimitMemory => Some(Value::Size(limits.memory_bytes)),
            Self::LimitProcesses => count(limits.processes),
            Self::LimitOpenFiles => count(limits.open_files),
            Self::LimitDisk => Some(Value::Size(limits.disk_bytes)),
            Self::LimitFiles => count(limits.inodes),
            Self::LimitOutput => Some(Value::Size(limits.output_bytes)),
        }
    }

    /// What happens without a value.
    pub fn without(self) -> &'static str {
        match self {
            Self::Agent => "(claude-code where it can be used, else builtin)",
            Self::Model => "(the agent's choice)",
            Self::Test => "(found in the repository)",
            Self::Agents => "(as many as fit this machine)",
            Self::Warm => "(as many as agents)",
            Self::LimitCpu => "(all cores)",
            Self::SignInClientId => "(no sign-in with GitHub)",
            Self::SignInRole => "(what their projects give them)",
            Self::TelemetryOtlp => "(nowhere)",
            Self::RegistryProxy => "(directly)",
            Self::RegistryCaFile => "(the machine's alone)",
            Self::KeepSize
            | Self::ModelCalls
            | Self::UserDailyUsd
            | Self::ProjectDailyUsd
            | Self::QuotaTokenSessions
            | Self::QuotaUserSessions
            | Self::QuotaTeamSessions
            | Self::QuotaProjectSessions
            | Self::QuotaTokenDailyUsd
            | Self::QuotaTeamDailyUsd => "(no limit)",
            _ => "(none)",
        }
    }
}
