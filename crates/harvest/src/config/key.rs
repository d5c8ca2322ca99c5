//! The settings there are, each defined once: its name, type, default, meaning, and who may set it. What is read, shown, documented
//! and answered by the API comes from here.

use std::collections::BTreeSet;
use std::time::Duration;

use harvest_core::{Cost, Supervision};
use harvest_gateway::egress::Policy;
use harvest_gateway::registry::Ecosystem;
use harvest_server::Pace;

use super::Value;
use super::value::Kind;

/// Everything there is to know about one setting.
#[derive(Debug)]
pub struct Definition {
    /// With a dot: it stands in the table before it.
    pub name: &'static str,
    pub kind: Kind,
    /// What it means, for the documents and the page; Markdown.
    pub about: &'static str,
    /// A value as it is written in TOML.
    example: &'static str,
    pub set_by: SetBy,
    default: fn() -> Option<Value>,
    /// What happens without a value.
    pub without: &'static str,
}

/// Who may set it, each kind including the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetBy {
    /// What this machine does.
    Operator,
    /// What the owner of a project answers for.
    Project,
    /// How the tasks of a repository are worked on.
    Repository,
}

const fn setting(name: &'static str, kind: Kind) -> Definition {
    Definition { name, kind, about: "", example: "", set_by: SetBy::Operator, default: || None, without: "(none)" }
}

impl Definition {
    const fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    const fn like(mut self, example: &'static str) -> Self {
        self.example = example;
        self
    }

    const fn by(mut self, set_by: SetBy) -> Self {
        self.set_by = set_by;
        self
    }

    const fn default(mut self, default: fn() -> Option<Value>) -> Self {
        self.default = default;
        self
    }

    const fn without(mut self, without: &'static str) -> Self {
        self.without = without;
        self
    }

    /// The table that it stands in, and its name there.
    pub fn place(&self) -> (Option<&'static str>, &'static str) {
        match self.name.split_once('.') {
            Some((table, name)) => (Some(table), name),
            None => (None, self.name),
        }
    }
}

macro_rules! settings {
    ($($key:ident => $definition:expr;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Key {
            $($key,)*
        }

        impl Key {
            pub const ALL: &[Self] = &[$(Self::$key,)*];

            pub fn definition(self) -> &'static Definition {
                match self {
                    $(Self::$key => {
                        static DEFINITION: Definition = $definition;
                        &DEFINITION
                    })*
                }
            }
        }
    };
}

settings! {
    Agent => setting("agent", Kind::Text)
        .about("the agent that runs tasks, as `--agent`")
        .like(r#""builtin""#)
        .by(SetBy::Repository)
        .without("(claude-code where it can be used, else builtin)");
    Model => setting("model", Kind::Text)
        .about("the model, as `--model`")
        .like(r#""claude-sonnet-4-5""#)
        .by(SetBy::Repository)
        .without("(the agent's choice)");
    Test => setting("test", Kind::Text)
        .about("the command that verifies the result, as `--test`")
        .like(r#""make check""#)
        .by(SetBy::Repository)
        .without("(found in the repository)");
    RequireTests => setting("require_tests", Kind::Flag)
        .about("a task without a test command fails, as `--require-tests`")
        .like("true")
        .by(SetBy::Repository)
        .default(|| flag(false));
    AcceptUnchanged => setting("accept_unchanged", Kind::Flag)
        .about("accept a result whose failing tests all fail at the base too; see [verdicts](user-guide.md#verdicts)")
        .like("true")
        .by(SetBy::Project)
        .default(|| flag(false));
    Plan => setting("plan", Kind::Flag)
        .about("make a plan first, which a person approves, as `--plan`")
        .like("true")
        .by(SetBy::Project)
        .default(|| flag(false));
    PlanReview => setting("plan_review", Kind::Text)
        .about("the agent that reviews plans, as `--review-plan`")
        .like(r#""codex""#)
        .by(SetBy::Project);
    Workflow => setting("workflow", Kind::Workflow)
        .about("the workflow of tasks, as `--workflow`")
        .like(r#""research-plan-implement""#)
        .by(SetBy::Project)
        .default(|| text("direct"));
    Gate => setting("deliver.approval", Kind::Flag)
        .about("a person approves the tested result before it is delivered, as `--gate`")
        .like("true")
        .by(SetBy::Project)
        .default(|| flag(false));
    McpServers => setting("mcp_servers", Kind::Names("names"))
        .about("[MCP servers](user-guide.md#tools-for-agents-mcp) for agents; `--mcp` replaces the list for one task")
        .like(r#"["memory", "github"]"#)
        .by(SetBy::Project)
        .default(no_names);
    Timeout => setting("timeout", Kind::Time)
        .about("how long an agent may work, as `--timeout`")
        .like(r#""30m""#)
        .by(SetBy::Repository)
        .default(|| seconds(30 * 60));
    Stall => setting("stall", Kind::Time)
        .about("how long an agent may run without output")
        .like(r#""10m""#)
        .by(SetBy::Repository)
        .default(|| Some(Value::Time(Duration::from_millis(Supervision::default().stall_ms))));
    MaxTurns => setting("max_turns", Kind::Count(1..=100_000))
        .about("how many times an agent may call the model")
        .like("50")
        .by(SetBy::Repository)
        .default(|| count(50));
    MaxRepeats => setting("max_repeats", Kind::Count(3..=100_000))
        .about("how many times an agent may repeat the same tool calls with the same outcome")
        .like("10")
        .by(SetBy::Repository)
        .default(|| count(Supervision::default().max_repeats.into()));
    Grace => setting("grace", Kind::Time)
        .about("how long an agent may take to stop after SIGINT, and again after SIGTERM, before it is killed")
        .like(r#""5s""#)
        .default(|| Some(Value::Time(Duration::from_millis(Supervision::default().grace_ms))));
    Hooks => setting("hooks", Kind::Hooks)
        .about("[commands around the agent's work](user-guide.md#hooks)")
        .like(r#"["before_deliver: secret-scan", "after_execute?: make format"]"#)
        .by(SetBy::Project)
        .default(|| Some(Value::Hooks(Vec::new())));
    BudgetUsd => setting("budget_usd", Kind::Money)
        .about("the most that the models of a task may cost, as `--budget-usd`; a repository can only lower it")
        .like("2.50")
        .by(SetBy::Repository)
        .default(|| Some(Value::Money(Cost::from_nanos(10_000_000_000))));
    UserDailyUsd => setting("user_daily_usd", Kind::Money)
        .about("the most that models may cost each person per day (UTC)")
        .like("20")
        .without("(no limit)");
    ProjectDailyUsd => setting("project_daily_usd", Kind::Money)
        .about("the same for a [project](user-guide.md#projects)")
        .like("100")
        .by(SetBy::Project)
        .without("(no limit)");
    Retries => setting("retries", Kind::Count(0..=20))
        .about("how many times a task is retried automatically, as `--retries`")
        .like("2")
        .by(SetBy::Project)
        .default(|| count(0));
    OnQuota => setting("on_quota", Kind::Names("agents"))
        .about("agents that [take over](user-guide.md#follow-up-prompts-and-forks) when a model's quota is exhausted, as `--fallback-agent`")
        .like(r#"["codex", "builtin"]"#)
        .by(SetBy::Project)
        .default(no_names);
    Agents => setting("agents", Kind::Count(1..=1000))
        .about("how many agents run in parallel, as `--agents` of `up`")
        .like("3")
        .without("(as many as fit this machine)");
    Warm => setting("warm", Kind::Count(0..=1000))
        .about("how many sandboxes `up` keeps ready for the next tasks; `0` for none")
        .like("2")
        .without("(as many as agents)");
    Lease => setting("lease", Kind::Time)
        .about("how long other workers wait for a heartbeat before they take over a turn, as `--lease` of `up`")
        .like(r#""60s""#)
        .default(|| seconds(60));
    Breaker => setting("breaker", Kind::Count(0..=1000))
        .about("after this many failures of one kind in a row, a worker pauses; `0`: never")
        .like("8")
        .default(|| count(8));
    BreakerPause => setting("breaker_pause", Kind::Time)
        .about("how long it pauses; doubles, up to 15 minutes, each time the next task fails too")
        .like(r#""60s""#)
        .default(|| seconds(60));
    Keep => setting("keep", Kind::Age)
        .about("how long the work of ended sessions is kept, as `--older-than` of `gc`")
        .like(r#""30d""#)
        .default(|| seconds(30 * 24 * 60 * 60));
    KeepSize => setting("keep_size", Kind::Size(1 << 20))
        .about("above this size of the data directory, `gc` and `up` remove younger sessions as well, oldest first, but none whose work exists nowhere else")
        .like(r#""50GiB""#)
        .without("(no limit)");
    ModelCalls => setting("model_calls", Kind::Count(1..=1000))
        .about("concurrent model calls: `up` runs no more agents than that, unless `agents` is set, and no credential has more calls in progress")
        .like("8")
        .without("(no limit)");
    ModelFallbacks => setting("model_fallbacks", Kind::Chains)
        .about("models to use when one is unavailable")
        .like(r#"["claude-opus-4-5 > claude-sonnet-4-5"]"#)
        .default(|| Some(Value::Chains(Vec::new())));
    EgressAllow => setting("egress.allow", Kind::Hosts)
        .about("[hosts](user-guide.md#hosts) that sandboxes can reach; a repository can only name fewer")
        .like(r#"["example.com", "*.example.com"]"#)
        .by(SetBy::Repository)
        .default(|| Some(Value::Hosts(Policy::default())));
    ServerTools => setting("models.server_tools", Kind::ServerTools)
        .about("tools that vendors may run [outside of the sandboxes](gateway.md#outside-of-the-sandbox)")
        .like(r#"["web_search"]"#)
        .by(SetBy::Project)
        .default(no_names);
    SignInClientId => setting("sign_in.client_id", Kind::Text)
        .about("[signing in with GitHub](api.md#with-github): the id of the OAuth app; its secret is in the vault")
        .like(r#""Iv1.0123456789abcdef""#)
        .without("(no sign-in with GitHub)");
    SignInUrl => setting("sign_in.url", Kind::Text)
        .about("the address of GitHub, or of a GitHub Enterprise Server")
        .like(r#""https://git.example.com""#)
        .default(|| text("https://github.com"));
    SignInOrganizations => setting("sign_in.organizations", Kind::Names("names"))
        .about("organizations whose members may sign in")
        .like(r#"["fruit"]"#)
        .default(no_names);
    SignInTeams => setting("sign_in.teams", Kind::Names("names"))
        .about("teams whose members may sign in")
        .like(r#"["fruit/growers"]"#)
        .default(no_names);
    SignInAdmins => setting("sign_in.admins", Kind::Names("names"))
        .about("people who are admins of the installation")
        .like(r#"["ada"]"#)
        .default(no_names);
    SignInRole => setting("sign_in.role", Kind::Role)
        .about("the role that everyone who may sign in has everywhere: `viewer`, `member` or `admin`")
        .like(r#""member""#)
        .without("(the roles that their projects give them)");
    SignInBelieved => setting("sign_in.believed", Kind::Time)
        .about("how long someone counts as a member before GitHub is asked again")
        .like(r#""1h""#)
        .default(|| seconds(60 * 60));
    QuotaTokenSessions => setting("quota.token_sessions", Kind::Count(1..=1_000_000))
        .about("how many unfinished tasks each token may have")
        .like("5")
        .without("(no limit)");
    QuotaUserSessions => setting("quota.user_sessions", Kind::Count(1..=1_000_000))
        .about("how many unfinished tasks each person may have")
        .like("10")
        .without("(no limit)");
    QuotaTeamSessions => setting("quota.team_sessions", Kind::Count(1..=1_000_000))
        .about("how many unfinished tasks each team may have")
        .like("30")
        .without("(no limit)");
    QuotaProjectSessions => setting("quota.project_sessions", Kind::Count(1..=1_000_000))
        .about("how many unfinished tasks each project may have")
        .like("50")
        .without("(no limit)");
    QuotaTokenDailyUsd => setting("quota.token_daily_usd", Kind::Money)
        .about("what each token may spend per day; checked before each new task and with every model call")
        .like("5")
        .without("(no limit)");
    QuotaTeamDailyUsd => setting("quota.team_daily_usd", Kind::Money)
        .about("the same for each team")
        .like("100")
        .without("(no limit)");
    QuotaStrangerDailyTasks => setting("quota.stranger_daily_tasks", Kind::Count(0..=1_000_000))
        .about("how many tasks each person without a role, and each bot, may start per day; `0`: none")
        .like("5")
        .default(|| count(5));
    QuotaRepositoryStrangerDailyTasks => setting("quota.repository_stranger_daily_tasks", Kind::Count(0..=1_000_000))
        .about("the same for all of them in one repository")
        .like("20")
        .default(|| count(20));
    RateReads => setting("rate.reads", Kind::Count(1..=100_000_000))
        .about("API requests per minute that only read, for each token and each person; five times that for a team")
        .like("60000")
        .default(|| count(Pace::default().reads.into()));
    RateWrites => setting("rate.writes", Kind::Count(1..=100_000_000))
        .about("the same for requests that change something")
        .like("600")
        .default(|| count(Pace::default().writes.into()));
    TelemetryOtlp => setting("telemetry.otlp", Kind::Url)
        .about("the collector for [traces](api.md#monitoring)")
        .like(r#""http://127.0.0.1:4318""#)
        .without("(nowhere)");
    RegistryNpm => setting("registries.npm", Kind::Url)
        .about("your own mirror of the registry")
        .like(r#""https://mirror.example.com/npm""#)
        .default(|| text(Ecosystem::Npm.public()));
    RegistryPypi => setting("registries.pypi", Kind::Url)
        .about("your own mirror of the registry")
        .like(r#""https://mirror.example.com/pypi""#)
        .default(|| text(Ecosystem::Pypi.public()));
    RegistryCargo => setting("registries.cargo", Kind::Url)
        .about("your own mirror of the registry")
        .like(r#""https://mirror.example.com/cargo""#)
        .default(|| text(Ecosystem::Cargo.public()));
    RegistryGo => setting("registries.go", Kind::Url)
        .about("your own mirror of the registry")
        .like(r#""https://mirror.example.com/go""#)
        .default(|| text(Ecosystem::Go.public()));
    RegistryMaven => setting("registries.maven", Kind::Url)
        .about("your own mirror of the registry")
        .like(r#""https://mirror.example.com/maven""#)
        .default(|| text(Ecosystem::Maven.public()));
    RegistryRubygems => setting("registries.rubygems", Kind::Url)
        .about("your own mirror of the registry")
        .like(r#""https://mirror.example.com/rubygems""#)
        .default(|| text(Ecosystem::Rubygems.public()));
    RegistryPackagist => setting("registries.packagist", Kind::Url)
        .about("your own mirror of the registry")
        .like(r#""https://mirror.example.com/packagist""#)
        .default(|| text(Ecosystem::Packagist.public()));
    RegistryApt => setting("registries.apt", Kind::Url)
        .about("your own mirror of the registry")
        .like(r#""https://mirror.example.com/apt""#)
        .default(|| text(Ecosystem::Apt.public()));
    RegistryFileHosts => setting("registries.file_hosts", Kind::FileHosts)
        .about("other hosts that serve the files of your own mirrors; they can have private addresses")
        .like(r#"["files.example.com", "http://10.0.0.5:8080"]"#)
        .default(no_names);
    RegistryProxy => setting("registries.proxy", Kind::Url)
        .about("the HTTP proxy for public registries")
        .like(r#""http://proxy.example.com:3128""#)
        .without("(directly)");
    RegistryCaFile => setting("registries.ca_file", Kind::AbsolutePath)
        .about("a PEM file with additional trusted certificates, for registries")
        .like(r#""/etc/ssl/example.pem""#)
        .without("(the machine's alone)");
    LimitCpu => setting("limits.cpu", Kind::Cores)
        .about("how many cores a sandbox may use; reaching it only slows the sandbox down")
        .like("1.5")
        .default(|| limits().cpu_millis.map(Value::Cores))
        .without("(all cores)");
    LimitMemory => setting("limits.memory", Kind::Size(64 << 20))
        .about("its memory, including `/tmp`")
        .like(r#""8GiB""#)
        .default(|| Some(Value::Size(limits().memory_bytes)));
    LimitProcesses => setting("limits.processes", Kind::Count(32..=1_000_000))
        .about("its processes and threads")
        .like("2048")
        .default(|| count(limits().processes));
    LimitOpenFiles => setting("limits.open_files", Kind::Count(64..=1_000_000))
        .about("open files of one process")
        .like("4096")
        .default(|| count(limits().open_files));
    LimitDisk => setting("limits.disk", Kind::Size(16 << 20))
        .about("how much it may write to workspace and home")
        .like(r#""20GiB""#)
        .default(|| Some(Value::Size(limits().disk_bytes)));
    LimitFiles => setting("limits.files", Kind::Count(1000..=1_000_000_000))
        .about("how many files and folders it may create there")
        .like("2000000")
        .default(|| count(limits().inodes));
    LimitOutput => setting("limits.output", Kind::Size(1 << 20))
        .about("how much one process may print")
        .like(r#""1GiB""#)
        .default(|| Some(Value::Size(limits().output_bytes)));
    GithubLogin => setting("github.login", Kind::GithubLogin)
        .about("[issues and pull requests](github.md#settings): the login that people assign, ask and mention")
        .like(r#""harvest""#)
        .default(|| text("harvest"));
    GithubLabel => setting("github.label", Kind::Text)
        .about("the label that pull requests get, and that starts a task on an issue")
        .like(r#""harvest""#)
        .default(|| text("harvest"));
    GithubDraftFailed => setting("github.draft_failed", Kind::Flag)
        .about("open a draft pull request for failed work")
        .like("true")
        .default(|| flag(false));
    GithubFixes => setting("github.fixes", Kind::Count(0..=100))
        .about("how many turns failed checks and reviews of bots may start")
        .like("5")
        .default(|| count(5));
}

fn flag(flag: bool) -> Option<Value> {
    Some(Value::Flag(flag))
}

fn text(text: &str) -> Option<Value> {
    Some(Value::Text(text.to_owned()))
}

fn count(number: u64) -> Option<Value> {
    u32::try_from(number).ok().map(Value::Count)
}

fn seconds(number: u64) -> Option<Value> {
    Some(Value::Time(Duration::from_secs(number)))
}

fn no_names() -> Option<Value> {
    Some(Value::Names(Vec::new()))
}

fn limits() -> harvest_sandbox::Limits {
    harvest_sandbox::Limits::default()
}

impl Key {
    pub fn name(self) -> &'static str {
        self.definition().name
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|key| key.name() == name)
    }

    /// One of `[registries]`.
    pub fn registry(ecosystem: Ecosystem) -> Self {
        match ecosystem {
            Ecosystem::Npm => Self::RegistryNpm,
            Ecosystem::Pypi => Self::RegistryPypi,
            Ecosystem::Cargo => Self::RegistryCargo,
            Ecosystem::Go => Self::RegistryGo,
            Ecosystem::Maven => Self::RegistryMaven,
            Ecosystem::Rubygems => Self::RegistryRubygems,
            Ecosystem::Packagist => Self::RegistryPackagist,
            Ecosystem::Apt => Self::RegistryApt,
        }
    }

    /// `memory = "8GiB" in [limits]`.
    pub fn example(self) -> String {
        let definition = self.definition();
        match definition.place() {
            (Some(table), name) => format!("{name} = {} in [{table}]", definition.example),
            (None, name) => format!("{name} = {}", definition.example),
        }
    }

    pub fn default(self) -> Option<Value> {
        (self.definition().default)()
    }

    /// The tables that settings stand in.
    pub fn tables() -> BTreeSet<&'static str> {
        Self::ALL.iter().filter_map(|key| key.definition().place().0).collect()
    }
}
