//! The command line. Every command has examples in its help and `--json` for scripts.

mod recurring;
mod upkeep;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use harvest_core::Cost;

pub use recurring::{Missed, Schedule, ScheduleAdd, Template, TemplateAdd, TemplateUse};
pub use upkeep::{Backup, Config, Export, Gc, Import, ImportBeads, Restore};

#[derive(Debug, Parser)]
#[command(
    name = "harvest",
    version,
    about = "Background coding agents on your own machine",
    long_about = "Harvest runs a coding agent in an isolated sandbox on a private copy of your repository, reruns the \
                  tests in a clean sandbox, and hands back a branch with the evidence. Keys never enter the sandbox.",
    after_help = "Examples:\n  harvest demo --once                      see it work: no account, no key, no network\n  \
                  harvest run \"Make the failing test pass\"  in any git repository, with ANTHROPIC_API_KEY or OPENAI_API_KEY set\n  \
                  harvest task list                        what was asked and what came of it"
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Where Harvest keeps everything [default: the XDG data folder]
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
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Give an agent a task and watch it
    Run(Run),
    /// See four tasks being worked off: no account, no key, no network
    Demo(Demo),
    /// Look at tasks and act on them
    #[command(subcommand)]
    Task(Task),
    /// Work off the queue with several agents side by side
    Up(Up),
    /// The queue, the agents, failures and spending at a glance
    #[command(after_help = "Examples:\n  harvest status\n  harvest status --watch")]
    Status {
        /// Keep showing it
        #[arg(long)]
        watch: bool,
    },
    /// Change how the queue is worked off
    #[command(subcommand)]
    Queue(Queue),
    /// Batches of tasks that are followed as one
    #[command(subcommand)]
    Convoy(Convoy),
    /// Tasks that come again by the clock
    #[command(subcommand)]
    Schedule(Schedule),
    /// Prompts with parameters, kept for later
    #[command(subcommand)]
    Template(Template),
    /// Queue what other trackers have
    #[command(subcommand)]
    Import(Import),
    /// Write results back for other trackers
    #[command(subcommand)]
    Export(Export),
    /// The settings
    #[command(subcommand)]
    Config(Config),
    /// Write everything into one file
    Backup(Backup),
    /// Put a backup into a new data directory
    Restore(Restore),
    /// Remove what is no longer needed from the data directory
    Gc(Gc),
    /// The coding agents Harvest can drive
    #[command(subcommand)]
    Agent(Agent),
    /// Check what this machine offers and what is missing
    #[command(after_help = "Examples:\n  harvest doctor\n  harvest doctor --json")]
    Doctor,
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
  harvest run \"Try this\" --model-script script.yaml --json

Exit code: 0 done and verified, 1 failed, 2 refused, 3 stopped by a limit or a person.")]
pub struct Run {
    #[command(flatten)]
    pub ask: Ask,
    /// Let a file play the model: no key, no network
    #[arg(long, value_name = "FILE")]
    pub model_script: Option<PathBuf>,
    /// Where the agent runs
    #[arg(long, value_enum, default_value_t = SandboxKind::Local)]
    pub sandbox: SandboxKind,
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
    /// A repository's path or URL [default: the one around the current folder]
    #[arg(long, value_name = "PATH|URL")]
    pub repo: Option<String>,
    /// The branch, tag or commit to start from [default: HEAD]
    #[arg(long, value_name = "REF", allow_hyphen_values = true)]
    pub base: Option<String>,
    /// Which agent works on it; see `harvest agent list` [default: builtin]
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// The model to use [default: the agent's choice]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// The test command that proves the result [default: found in the repository]
    #[arg(long, value_name = "CMD", allow_hyphen_values = true)]
    pub test: Option<String>,
    /// Fail when there is no test command
    #[arg(long)]
    pub require_tests: bool,
    /// How long the agent may work [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// How much the models may cost, in US dollars [default: 10]
    #[arg(long, value_name = "N", value_parser = budget, allow_hyphen_values = true)]
    pub budget_usd: Option<Cost>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SandboxKind {
    /// Linux namespaces through bubblewrap
    Local,
    /// No isolation at all: the agent can do whatever you can
    None,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  harvest demo\n  harvest demo --once")]
pub struct Demo {
    /// Exit when the tasks are done: 0 when all four ended as they should
    #[arg(long)]
    pub once: bool,
}

#[derive(Debug, Subcommand)]
pub enum Task {
    /// Queue a task for `harvest up` to work on
    #[command(after_help = "Examples:
  harvest task add \"Update the dependencies\" --repo ../shop --priority high
  harvest task add \"Then remove the old API\" --after 7k3m --convoy spring-clean --retries 2")]
    Add(Box<TaskAdd>),
    /// Queue a failed or cancelled task once more
    #[command(after_help = "Examples:\n  harvest task retry 7k3m")]
    Retry { id: String },
    /// List tasks, newest first
    #[command(after_help = "Examples:\n  harvest task list\n  harvest task list --status failed --convoy spring-clean --json")]
    List {
        #[arg(long, value_name = "STATUS", value_parser = status)]
        status: Option<harvest_core::TaskStatus>,
        /// Only those of this repository
        #[arg(long, value_name = "PATH|URL")]
        repo: Option<String>,
        /// Only those of this convoy
        #[arg(long, value_name = "NAME")]
        convoy: Option<String>,
        #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
        /// Go on behind an earlier page
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// Show one task with its sessions, turns and attempts
    #[command(after_help = "Examples:\n  harvest task show 7k3m\n  harvest task show 7k3m --json")]
    Show { id: String },
    /// Print a task's events
    #[command(after_help = "Examples:\n  harvest task logs 7k3m\n  harvest task logs 7k3m --json | jq .type")]
    Logs { id: String },
    /// Print what a task changed, as a unified diff
    #[command(after_help = "Examples:\n  harvest task diff 7k3m\n  harvest task diff 7k3m | git apply --check")]
    Diff { id: String },
    /// Merge a task's branch into the current branch of its repository
    #[command(after_help = "Examples:\n  harvest task apply 7k3m")]
    Apply { id: String },
    /// Stop a task; its work is kept
    #[command(after_help = "Examples:\n  harvest task cancel 7k3m")]
    Cancel { id: String },
}

#[derive(Debug, Args)]
pub struct TaskAdd {
    #[command(flatten)]
    pub ask: Ask,
    #[command(flatten)]
    pub queue: QueueOptions,
}

/// Where a task stands among others.
#[derive(Debug, Clone, Args)]
pub struct QueueOptions {
    #[command(flatten)]
    pub standing: Standing,
    /// Wait for this task to complete; may be given several times
    #[arg(long, value_name = "ID")]
    pub after: Vec<String>,
    /// What to do when a task it waits for does not complete
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = OnFailed::Hold)]
    pub on_failed_dependency: OnFailed,
    /// Asking again with the same key makes no second task
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
    /// The batch it belongs to
    #[arg(long, value_name = "NAME", value_parser = convoy_name)]
    pub convoy: Option<String>,
    /// How often to try again by itself when a failure may pass [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20))]
    pub retries: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnFailed {
    /// Wait until the other is retried
    Hold,
    /// Be cancelled as well
    Cancel,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  harvest up --agents 3
  harvest up --agents 3 --until-empty --max-usd 20
  harvest up --model-script script.yaml --until-empty

The first Ctrl-C or SIGTERM stops taking work and waits for what is under way; the second leaves at once, and the next
worker takes over.")]
pub struct Up {
    /// How many agents work side by side [default: as many as fit this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub agents: Option<u32>,
    /// Exit 0 when every task has ended, whatever its outcome
    #[arg(long)]
    pub until_empty: bool,
    /// Stop after taking this many tasks
    #[arg(long, value_name = "N")]
    pub max_tasks: Option<u64>,
    /// Stop taking work after this many hours
    #[arg(long, value_name = "H", value_parser = hours)]
    pub max_hours: Option<Duration>,
    /// Stop taking work when this much is spent
    #[arg(long, value_name = "X", value_parser = budget)]
    pub max_usd: Option<Cost>,
    /// Let a file play the model: no key, no network
    #[arg(long, value_name = "FILE")]
    pub model_script: Option<PathBuf>,
    /// Where the agents run
    #[arg(long, value_enum, default_value_t = SandboxKind::Local)]
    pub sandbox: SandboxKind,
    /// How long a turn may go without a sign of life from its worker before another takes it [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub lease: Option<Duration>,
}

#[derive(Debug, Subcommand)]
pub enum Queue {
    /// How many agents each `harvest up` runs, from now on
    #[command(after_help = "Examples:\n  harvest queue resize 5")]
    Resize {
        #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
        agents: u32,
    },
    /// Take no more work until `harvest queue resume`
    #[command(after_help = "Examples:\n  harvest queue pause")]
    Pause,
    /// Take work again
    #[command(after_help = "Examples:\n  harvest queue resume")]
    Resume,
    /// How many tasks of a repository, user or credential may be worked on at a time
    #[command(after_help = "Examples:\n  harvest queue cap repository:/srv/shop 2\n  harvest queue cap user:ada 5\n  harvest queue cap credential:anthropic 8\n  harvest queue cap user:ada none")]
    Cap {
        /// `repository:PATH`, `user:NAME` or `credential:PROVIDER`
        #[arg(value_parser = cap_name)]
        name: String,
        /// A number, or `none` to lift it
        #[arg(value_parser = cap_size)]
        size: CapSize,
    },
}

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
pub enum Agent {
    /// List the agents
    #[command(after_help = "Examples:\n  harvest agent list\n  harvest agent list --json")]
    List,
}

pub fn duration(text: &str) -> Result<Duration, String> {
    let fix = "write it like 90s, 30m or 1h30m";
    let parsed: jiff::SignedDuration = text.parse().map_err(|_| format!("`{text}` is no time; {fix}"))?;
    match Duration::try_from(parsed) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("it must be more than nothing; {fix}")),
    }
}

pub fn budget(text: &str) -> Result<Cost, String> {
    let dollars: f64 = text.trim_start_matches('$').parse().map_err(|_| format!("`{text}` is no amount of dollars"))?;
    match Cost::from_dollars(dollars) {
        Some(cost) if cost > Cost::ZERO => Ok(cost),
        _ => Err("it must be more than 0, e.g. 2.50".to_owned()),
    }
}

/// Like a duration, but days and weeks count too.
pub fn age(text: &str) -> Result<Duration, String> {
    let fix = "write it like 30d, 2w or 12h";
    let days = match text.strip_suffix('d') {
        Some(days) => Some((days, 1)),
        None => text.strip_suffix('w').map(|weeks| (weeks, 7)),
    };
    let parsed = match days {
        Some((count, factor)) => count.parse().ok().map(|count: u32| u64::from(count) * factor * 86_400),
        None => return duration(text).map_err(|_| format!("`{text}` is no age; {fix}")),
    };
    parsed.filter(|seconds| *seconds > 0).map(Duration::from_secs).ok_or_else(|| format!("`{text}` is no age; {fix}"))
}

fn hours(text: &str) -> Result<Duration, String> {
    let hours: f64 = text.parse().map_err(|_| format!("`{text}` is no number of hours"))?;
    Duration::try_from_secs_f64(hours * 3600.0).ok().filter(|time| !time.is_zero()).ok_or_else(|| "it must be more than 0".into())
}

fn priority(text: &str) -> Result<harvest_core::Priority, String> {
    harvest_core::Priority::parse(text).ok_or_else(|| "it must be low, normal, high or urgent".to_owned())
}

pub fn convoy_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    if (1..=64).contains(&text.len()) && text.chars().all(fits) {
        return Ok(text.to_owned());
    }
    Err("it must be 1 to 64 letters, digits, dashes, dots or underscores".to_owned())
}

fn cap_name(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some(("repository" | "user" | "credential", name)) if !name.is_empty() => Ok(text.to_owned()),
        _ => Err("it must be repository:PATH, user:NAME or credential:PROVIDER".to_owned()),
    }
}

fn cap_size(text: &str) -> Result<CapSize, String> {
    if text == "none" {
        return Ok(CapSize(None));
    }
    match text.parse() {
        Ok(size) if size > 0 => Ok(CapSize(Some(size))),
        _ => Err("it must be a number from 1 on, or `none`".to_owned()),
    }
}

fn status(text: &str) -> Result<harvest_core::TaskStatus, String> {
    harvest_core::TaskStatus::parse(text).ok_or_else(|| {
        let all: Vec<&str> = harvest_core::TaskStatus::ALL.iter().map(|status| status.as_str()).collect();
        format!("it must be one of {}", all.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn times_and_budgets() {
        assert_eq!(duration("30m"), Ok(Duration::from_secs(1800)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for bad in ["", "0s", "-5m", "soon"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert_eq!(age("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(age("2w"), Ok(Duration::from_secs(14 * 86_400)));
        assert_eq!(age("12h"), Ok(Duration::from_secs(12 * 3600)));
        for bad in ["", "d", "0d", "-1d", "1.5d", "30"] {
            assert!(age(bad).is_err(), "{bad}");
        }
        assert_eq!(budget("0.001"), Ok(Cost::from_nanos(1_000_000)));
        for bad in ["0", "-1", "NaN", "inf", "ten"] {
            assert!(budget(bad).is_err(), "{bad}");
        }
    }
}
