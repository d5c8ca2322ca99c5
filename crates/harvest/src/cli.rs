//! The command line. Every command has examples in its help and `--json` for scripts.

mod credential;
mod dev;
mod evidence;
mod github;
mod init;
mod mcp;
#[cfg(test)]
mod named;
mod recurring;
mod repo;
mod server;
mod session;
mod shell;
mod stats;
mod upkeep;
mod values;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use harvest_core::Cost;

pub use credential::{Credential, CredentialAdd};
pub use dev::{Dev, FakeGithub};
pub use evidence::Evidence;
pub use github::{Github, GithubSetup};
pub use init::{Doctor, Init};
pub use mcp::{Mcp, McpAdd};
pub use recurring::{Missed, Schedule, ScheduleAdd, Template, TemplateAdd, TemplateUse};
pub use repo::{BUILD_TRIES, Repo, RepoAdd, RepoBuild};
pub use server::{Audit, Door, LogFormat, Login, Serve, Token, TokenCreate};
pub use session::{
    Asking, PromptOptions, Session, SessionContinue, SessionFork, SessionPrompt, SessionRestore, SessionResume,
};
pub use shell::Shell;
pub use stats::{By, Stats};
pub use upkeep::{Backup, Config, Export, Gc, Import, ImportBeads, Restore};
pub use values::{age, budget, convoy_name, duration};
use values::{cap_name, cap_size, entrants, hours, judged_by, listen, pool_size, priority, status};

/// How many tasks a list has unless it is told.
pub const LISTED: u16 = 50;

#[derive(Debug, Parser)]
#[command(
    name = "harvest",
    version,
    about = "Background coding agents on your own machine",
    long_about = "Harvest runs a coding agent in an isolated sandbox on a private copy of your repository, reruns the \
                  tests in a clean sandbox, and hands back a branch with the evidence. Keys never enter the sandbox.",
    after_help = "Examples:\n  harvest demo --once                      see it work: no account, no key, no network\n  \
                  harvest init                             set it up, step by step\n  \
                  harvest run \"Make the failing test pass\"  in any git repository, with ANTHROPIC_API_KEY or OPENAI_API_KEY set\n  \
                  harvest task list                        your tasks and their results"
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Where Harvest keeps its data [default: the XDG data folder]
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Keep tasks and journals in PostgreSQL instead of a file: postgres://…
    #[arg(long, global = true, value_name = "URL")]
    pub database_url: Option<String>,
    /// The file with the settings [default: harvest.toml in the XDG configuration folder]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON for programs instead of text for people
    #[arg(long, global = true)]
    pub json: bool,
    /// Write log lines to standard error, e.g. `debug` or `harvest_engine=trace`
    #[arg(long, global = true, value_name = "FILTER")]
    pub log: Option<String>,
    /// Format of log lines
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Set up step by step: agent, key, repository, dependencies, tests, first task
    Init(Init),
    /// Give an agent a task and watch it
    Run(Box<Run>),
    /// Run four sample tasks: no account, no key, no network
    Demo(Demo),
    /// Show and manage tasks
    #[command(subcommand)]
    Task(Task),
    /// Show sessions and send follow-up prompts
    #[command(subcommand)]
    Session(Session),
    /// Run the queue with several agents at once
    Up(Up),
    /// Serve the API and the page, and run the queue
    Serve(Serve),
    /// Manage API tokens
    #[command(subcommand)]
    Token(Token),
    /// Show and check the audit log
    #[command(subcommand)]
    Audit(Audit),
    /// Save a token for the server in `HARVEST_URL`
    Login(Login),
    /// Manage repositories and their prepared snapshots
    #[command(subcommand)]
    Repo(Repo),
    /// Show the queue, the agents, failures and spending at a glance
    #[command(after_help = "Examples:\n  harvest status\n  harvest status --watch")]
    Status {
        /// Keep it updated until Ctrl-C
        #[arg(long)]
        watch: bool,
    },
    /// Show task statistics by day, repository, agent, model or person
    Stats(Stats),
    /// Pause a task until it is resumed
    Interrupt(Interrupt),
    /// Change how the queue runs
    #[command(subcommand)]
    Queue(Queue),
    /// Show batches of tasks
    #[command(subcommand)]
    Convoy(Convoy),
    /// Show a race: one task given to several agents
    #[command(subcommand)]
    Race(Race),
    /// Manage recurring tasks
    #[command(subcommand)]
    Schedule(Schedule),
    /// Manage prompt templates with parameters
    #[command(subcommand)]
    Template(Template),
    /// Import tasks from other trackers
    #[command(subcommand)]
    Import(Import),
    /// Export results to other trackers
    #[command(subcommand)]
    Export(Export),
    /// Manage model keys and other credentials
    #[command(subcommand)]
    Credential(Credential),
    /// Show the settings
    #[command(subcommand)]
    Config(Config),
    /// Back up everything into one file
    Backup(Backup),
    /// Restore a backup into a new data directory
    Restore(Restore),
    /// Remove what is no longer needed from the data directory
    Gc(Gc),
    /// List and check coding agents
    #[command(subcommand)]
    Agent(Agent),
    /// Connect Harvest to GitHub
    #[command(subcommand)]
    Github(Github),
    /// Show and check the signed evidence of a result
    #[command(subcommand)]
    Evidence(Evidence),
    /// Try things out without accounts
    #[command(subcommand)]
    Dev(Dev),
    /// Manage the MCP servers that agents may use
    #[command(subcommand)]
    Mcp(Mcp),
    /// Check this machine and say what is missing
    #[command(after_help = "Examples:\n  harvest doctor\n  harvest doctor --reach\n  harvest doctor --json")]
    Doctor(Doctor),
    /// Print shell completions
    #[command(after_help = "Examples:
  harvest completion bash > ~/.local/share/bash-completion/completions/harvest
  harvest completion zsh >> ~/.zshrc
  harvest completion fish > ~/.config/fish/completions/harvest.fish")]
    Completion {
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Explain an error code
    #[command(after_help = "Examples:\n  harvest explain HV-0101\n  harvest explain 0202")]
    Explain {
        /// e.g. HV-0101
        code: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  harvest run \"Make the failing test pass\"
  harvest run \"Add a --verbose flag\" --test \"make check\" --budget-usd 2
  harvest run \"Fix the build\" --repo ../other --base release-1.2
  harvest run - --repo ../other < task.md
  harvest run \"Split the module\" --plan
  harvest run \"Make it faster\" --race claude-code,codex,builtin
  harvest run \"Try this\" --model-script script.yaml --json
  harvest run \"Add a greeting\" --record greeting.jsonl
  harvest run \"Add a greeting\" --replay greeting.jsonl

Exit code: 0 completed, 1 failed, 2 refused, 3 stopped by a limit or by a user, or waiting for approval (--plan, --gate).")]
pub struct Run {
    #[command(flatten)]
    pub ask: Ask,
    /// Use a script file as the model: no key, no network
    #[arg(long, value_name = "FILE")]
    pub model_script: Option<PathBuf>,
    /// Record the model calls in a file, to replay the run without a model
    #[arg(long, value_name = "FILE", conflicts_with_all = ["replay", "race"])]
    pub record: Option<PathBuf>,
    /// Replay a recorded run: no key, no network
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model_script", "race"])]
    pub replay: Option<PathBuf>,
    /// Where the agent runs
    #[arg(long, value_enum, default_value_t = SandboxKind::Local)]
    pub sandbox: SandboxKind,
    #[command(flatten)]
    pub race: RaceOptions,
}

/// Several who do the same.
#[derive(Debug, Clone, Args)]
pub struct RaceOptions {
    /// Run several agents on the task in parallel and deliver the best result: a list of agents, or a number
    #[arg(long, value_name = "AGENT[:MODEL],…|N", value_parser = entrants, conflicts_with = "agent")]
    pub race: Option<Entrants>,
    /// How to choose among results that pass their tests: cost (then the smaller change), or time
    #[arg(long, value_name = "cost|time", value_parser = judged_by, default_value = "cost", requires = "race")]
    pub judged_by: harvest_core::JudgedBy,
    /// The agent that picks the best result if several pass; if it gives no answer, --judged-by decides
    #[arg(long, value_name = "AGENT[:MODEL]", requires = "race")]
    pub judge: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entrants {
    Same(u8),
    /// Agents, with their models.
    Named(Vec<(String, Option<String>)>),
}

/// What is asked for, the same for every command that makes tasks.
#[derive(Debug, Clone, Args)]
pub struct Ask {
    /// What to do; `-` reads it from standard input
    #[arg(allow_hyphen_values = true)]
    pub prompt: String,
    #[command(flatten)]
    pub options: AskOptions,
}

#[derive(Debug, Clone, Args)]
pub struct AskOptions {
    /// Path or URL of the repository [default: the one that contains the current folder]
    #[arg(long, value_name = "PATH|URL")]
    pub repo: Option<String>,
    /// The branch, tag or commit to start from [default: HEAD]
    #[arg(long, value_name = "REF", allow_hyphen_values = true)]
    pub base: Option<String>,
    /// The agent; see `harvest agent list` [default: claude-code if it is installed and has a key, else builtin]
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// The model to use [default: the agent's choice]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// The test command that verifies the result [default: found in the repository]
    #[arg(long, value_name = "CMD", allow_hyphen_values = true)]
    pub test: Option<String>,
    /// Fail if there is no test command
    #[arg(long)]
    pub require_tests: bool,
    /// The agent that takes over when the model's quota is exhausted; can be given more than once, in order
    #[arg(long, value_name = "ID")]
    pub fallback_agent: Vec<String>,
    /// Make a plan first and wait for `harvest task approve`
    #[arg(long)]
    pub plan: bool,
    #[command(flatten)]
    pub care: Care,
    /// How long the agent may work [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// How much the models may cost, in US dollars [default: 10]
    #[arg(long, value_name = "N", value_parser = budget, allow_hyphen_values = true)]
    pub budget_usd: Option<Cost>,
}

/// Who else looks at the work, and what the agent works with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Care {
    /// Have this agent review the plan before you approve it
    #[arg(long, value_name = "AGENT")]
    pub review_plan: Option<String>,
    /// The workflow; research-plan-implement first delivers the plan as a branch of its own
    #[arg(long, value_name = "NAME", value_enum)]
    pub workflow: Option<WorkflowName>,
    /// Deliver the tested result only after `harvest task approve`
    #[arg(long)]
    pub gate: bool,
    /// An MCP server for the agent, from `harvest mcp list`; replaces the list in `mcp_servers`; can be given more than once
    #[arg(long, value_name = "NAME")]
    pub mcp: Vec<String>,
}

impl Care {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// With whatever `stronger` says instead.
    pub fn overridden_by(self, stronger: Self) -> Self {
        Self {
            review_plan: stronger.review_plan.or(self.review_plan),
            workflow: stronger.workflow.or(self.workflow),
            gate: stronger.gate || self.gate,
            mcp: if stronger.mcp.is_empty() { self.mcp } else { stronger.mcp },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkflowName {
    /// Implement at once
    Direct,
    /// Research first, deliver the plan as a `[PLAN]` branch, and implement it after approval
    ResearchPlanImplement,
}

impl From<harvest_core::Workflow> for WorkflowName {
    fn from(workflow: harvest_core::Workflow) -> Self {
        match workflow {
            harvest_core::Workflow::Direct => Self::Direct,
            harvest_core::Workflow::ResearchPlanImplement => Self::ResearchPlanImplement,
        }
    }
}

impl From<WorkflowName> for harvest_core::Workflow {
    fn from(name: WorkflowName) -> Self {
        match name {
            WorkflowName::Direct => Self::Direct,
            WorkflowName::ResearchPlanImplement => Self::ResearchPlanImplement,
        }
    }
}

impl WorkflowName {
    /// As in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::ResearchPlanImplement => "research-plan-implement",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SandboxKind {
    /// Linux namespaces through bubblewrap
    Local,
    /// A Docker or Podman container; HARVEST_CONTAINER_IMAGE names the image
    #[cfg(feature = "container")]
    Container,
    /// No isolation at all: the agent can do whatever you can
    None,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  harvest demo                 four tasks live on the page; then add your own, until Ctrl-C
  harvest demo --once --json")]
pub struct Demo {
    /// No page: exit when the tasks have ended, with 0 if all four ended as expected
    #[arg(long)]
    pub once: bool,
    /// Where to serve the page [default: 127.0.0.1:7070, or a free port if that is taken]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "once", value_parser = listen)]
    pub listen: Option<std::net::SocketAddr>,
}

#[derive(Debug, Subcommand)]
pub enum Task {
    /// Queue a task for `harvest up`
    #[command(after_help = "Examples:
  harvest task add \"Update the dependencies\" --repo ../shop --priority high
  harvest task add \"Then remove the old API\" --after 7k3m --convoy spring-clean --retries 2")]
    Add(Box<TaskAdd>),
    /// Queue a failed or cancelled task again
    #[command(after_help = "Examples:\n  harvest task retry 7k3m")]
    Retry { id: String },
    /// List tasks, newest first
    #[command(
        after_help = "Examples:\n  harvest task list\n  harvest task list --status failed --convoy spring-clean --json"
    )]
    List {
        #[arg(long, value_name = "STATUS", value_parser = status)]
        status: Option<harvest_core::TaskStatus>,
        /// Only tasks of this repository
        #[arg(long, value_name = "PATH|URL")]
        repo: Option<String>,
        /// Only tasks of this convoy
        #[arg(long, value_name = "NAME")]
        convoy: Option<String>,
        #[arg(long, default_value_t = LISTED, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
        /// Continue after an earlier page
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// Show one task with its sessions, turns and attempts
    #[command(after_help = "Examples:\n  harvest task show 7k3m\n  harvest task show 7k3m --json")]
    Show { id: String },
    /// Print a task's events
    #[command(after_help = "Examples:
  harvest task logs 7k3m
  harvest task logs 7k3m --follow
  harvest task logs 7k3m --json | jq .type")]
    Logs {
        id: String,
        /// Print new events until the task ends
        #[arg(long)]
        follow: bool,
    },
    /// Print the changes of a task as a unified diff
    #[command(after_help = "Examples:\n  harvest task diff 7k3m\n  harvest task diff 7k3m | git apply --check")]
    Diff { id: String },
    /// Merge a task's branch into the current branch of its repository
    ///
    /// Only in the task's own repository, and into the branch that is checked out there.
    #[command(
        after_help = "Examples:\n  harvest task apply 7k3m\n  harvest task apply 7k3m --force      failed or not verified"
    )]
    Apply {
        id: String,
        /// Merge work that failed or is not verified
        #[arg(long)]
        force: bool,
    },
    /// Approve the plan or the result of a task
    #[command(after_help = "Examples:
  harvest task approve 7k3m
  harvest task logs 7k3m --json | jq -r 'select(.type == \"plan.proposed\").data.text' > plan.md
  harvest task approve 7k3m --edit plan.md

The task then waits in the queue for `harvest up`.")]
    Approve {
        id: String,
        /// Your edited version of the plan; `-` reads it from standard input
        #[arg(long, value_name = "FILE")]
        edit: Option<PathBuf>,
    },
    /// Reject the plan or the result of a task
    #[command(after_help = "Examples:
  harvest task reject 7k3m --comment \"Leave the database alone\"    the agent tries again
  harvest task reject 7k3m                                         the task is cancelled")]
    Reject {
        id: String,
        /// What to change; without it the task is cancelled
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        comment: Option<String>,
    },
    /// Stop a task; its work is kept
    #[command(after_help = "Examples:\n  harvest task cancel 7k3m")]
    Cancel { id: String },
    /// Delete a task that has ended: its journal and its copy of the repository
    ///
    /// Its delivered branch, its cost and the audit log stay.
    #[command(after_help = "Examples:\n  harvest task delete 7k3m")]
    Delete {
        id: String,
        /// Delete it even if its work was not delivered and would be lost
        #[arg(long)]
        force: bool,
    },
    /// Kill a task's agent at once; committed and checkpointed work is kept
    #[command(after_help = "Examples:\n  harvest task terminate 7k3m")]
    Terminate { id: String },
}

#[derive(Debug, Args)]
pub struct TaskAdd {
    #[command(flatten)]
    pub ask: Ask,
    #[command(flatten)]
    pub queue: QueueOptions,
    #[command(flatten)]
    pub race: RaceOptions,
}

/// Where a task stands among others.
#[derive(Debug, Clone, Default, Args)]
pub struct QueueOptions {
    #[command(flatten)]
    pub standing: Standing,
    /// Wait for this task to complete, and start from its result unless --base is given; can be given more than once
    #[arg(long, value_name = "ID")]
    pub after: Vec<String>,
    /// What to do if a task it depends on does not complete
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = OnFailed::Hold)]
    pub on_failed_dependency: OnFailed,
    /// If a task with this key exists, do not create another
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// The issue, thread or message it came from
    #[arg(long, value_name = "URL")]
    pub source_url: Option<String>,
}

/// What may be said about a task before it exists.
#[derive(Debug, Clone, Default, Args)]
pub struct Standing {
    /// low, normal, high or urgent [default: normal]
    #[arg(long, value_name = "PRIORITY", value_parser = priority)]
    pub priority: Option<harvest_core::Priority>,
    /// The batch that the task belongs to
    #[arg(long, value_name = "NAME", value_parser = convoy_name)]
    pub convoy: Option<String>,
    /// How many times to retry automatically after a temporary failure [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20))]
    pub retries: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum OnFailed {
    /// Wait until that task is retried and completes
    #[default]
    Hold,
    /// Cancel this task as well
    Cancel,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  harvest up --agents 3
  harvest up --agents 3 --until-empty --max-usd 20
  harvest up --model-script script.yaml --until-empty

The first Ctrl-C or SIGTERM stops taking work and waits for running tasks; the second exits at once, and the next
worker takes over.")]
pub struct Up {
    /// How many agents run in parallel [default: by available memory]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub agents: Option<u32>,
    /// Exit with 0 when no task is left to run, whatever the outcomes
    #[arg(long)]
    pub until_empty: bool,
    #[command(flatten)]
    pub until: Until,
    #[command(flatten)]
    pub place: WorkPlace,
}

/// How long work is taken; what is under way then is finished, and a server goes on answering.
#[derive(Debug, Args)]
pub struct Until {
    /// Take no more work after this many tasks
    #[arg(long, value_name = "N")]
    pub max_tasks: Option<u64>,
    /// Take no more work after this many hours
    #[arg(long, value_name = "H", value_parser = hours)]
    pub max_hours: Option<Duration>,
    /// Take no more work after spending this many dollars
    #[arg(long, value_name = "X", value_parser = budget)]
    pub max_usd: Option<Cost>,
}

/// Where the queue runs, and within which limits: `harvest up` and `harvest serve`.
#[derive(Debug, Args)]
pub struct WorkPlace {
    /// Use a script file as the model: no key, no network
    #[arg(long, value_name = "FILE")]
    pub model_script: Option<PathBuf>,
    /// Where the agents run
    #[arg(long, value_enum, default_value_t = SandboxKind::Local)]
    pub sandbox: SandboxKind,
    /// How long a worker may miss heartbeats before another takes over its turns [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub lease: Option<Duration>,
    /// At the first signal, exit and leave agents running; the next worker on this data directory takes them over
    #[arg(long)]
    pub keep_agents: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  harvest interrupt 7k3m --reason \"the schema changes today\"
  harvest interrupt --all
  echo \"out of credit\" > DATA_DIR/interrupts/TASK_ID      the same with a file named after the task's full ID

The agent may finish its step. Its work and its memory are kept, no sandbox is held, and `harvest session resume ID` continues
it. It works on whichever machine runs the task.")]
pub struct Interrupt {
    /// ID of the task or of its session, or its first characters
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub id: Option<String>,
    /// Interrupt all running tasks
    #[arg(long)]
    pub all: bool,
    /// The reason, shown with the task
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Queue {
    /// Change how many agents each worker runs
    #[command(after_help = "Examples:\n  harvest queue resize 5\n  harvest queue resize auto")]
    Resize {
        /// A number, or `auto` for the number each worker was started with
        #[arg(value_name = "N|auto", value_parser = pool_size)]
        agents: PoolSize,
    },
    /// Pause the queue until `harvest queue resume`
    #[command(after_help = "Examples:\n  harvest queue pause")]
    Pause,
    /// Resume the queue
    #[command(after_help = "Examples:\n  harvest queue resume")]
    Resume,
    /// Limit how many tasks of a repository, a user or a vendor's credentials run at a time
    #[command(
        after_help = "Examples:\n  harvest queue cap repository:/srv/shop 2\n  harvest queue cap user:ada 5\n  harvest queue cap credential:anthropic 8\n  harvest queue cap user:ada none"
    )]
    Cap {
        /// `repository:NAME` (or path or URL), `user:NAME` or `credential:VENDOR`
        #[arg(value_parser = cap_name)]
        name: String,
        /// A number, or `none` to remove the cap
        #[arg(value_parser = cap_size)]
        size: CapSize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSize(pub Option<u32>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapSize(pub Option<u32>);

#[derive(Debug, Subcommand)]
pub enum Convoy {
    /// List convoys
    #[command(after_help = "Examples:\n  harvest convoy list")]
    List,
    /// Show one convoy with its tasks
    #[command(after_help = "Examples:\n  harvest convoy show spring-clean")]
    Show { name: String },
}

#[derive(Debug, Subcommand)]
pub enum Race {
    /// Compare the entrants of a race: winner, cost and changes
    #[command(after_help = "Examples:\n  harvest race show 9f2c\n  harvest race show race-9f2c --json")]
    Show {
        /// ID of the race, or of a task in it
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum Agent {
    /// List agents with their versions and keys, and how to install missing ones
    #[command(after_help = "Examples:\n  harvest agent list\n  harvest agent list --json")]
    List,
    /// Test an agent in a real sandbox with a scripted model; needs no key
    #[command(after_help = "Examples:\n  harvest agent check claude-code\n  harvest agent check codex --json")]
    Check {
        /// Its ID in `harvest agent list`
        id: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
