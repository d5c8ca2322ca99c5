//! The command line. Every command has examples in its help and `--json` for scripts.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use harvest_core::Cost;

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
    /// What to do; `-` reads it from standard input
    #[arg(allow_hyphen_values = true)]
    pub prompt: String,
    /// A repository's path or URL [default: the one around the current folder]
    #[arg(long, value_name = "PATH|URL")]
    pub repo: Option<String>,
    /// The branch, tag or commit to start from [default: HEAD]
    #[arg(long, value_name = "REF", allow_hyphen_values = true)]
    pub base: Option<String>,
    /// Which agent works on it; see `harvest agent list`
    #[arg(long, value_name = "ID", default_value = "builtin")]
    pub agent: String,
    /// The model to use [default: the agent's choice]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Let a file play the model: no key, no network
    #[arg(long, value_name = "FILE")]
    pub model_script: Option<PathBuf>,
    /// The test command that proves the result [default: found in the repository]
    #[arg(long, value_name = "CMD", allow_hyphen_values = true)]
    pub test: Option<String>,
    /// Fail when there is no test command
    #[arg(long)]
    pub require_tests: bool,
    /// How long the agent may work
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = duration)]
    pub timeout: Duration,
    /// How much the models may cost, in US dollars
    #[arg(long, value_name = "N", default_value = "10", value_parser = budget, allow_hyphen_values = true)]
    pub budget_usd: Cost,
    /// Where the agent runs
    #[arg(long, value_enum, default_value_t = SandboxKind::Local)]
    pub sandbox: SandboxKind,
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
    /// List tasks, newest first
    #[command(after_help = "Examples:\n  harvest task list\n  harvest task list --status failed --json")]
    List {
        #[arg(long, value_name = "STATUS", value_parser = status)]
        status: Option<harvest_core::TaskStatus>,
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

#[derive(Debug, Subcommand)]
pub enum Agent {
    /// List the agents
    #[command(after_help = "Examples:\n  harvest agent list\n  harvest agent list --json")]
    List,
}

fn duration(text: &str) -> Result<Duration, String> {
    let fix = "write it like 90s, 30m or 1h30m";
    let parsed: jiff::SignedDuration = text.parse().map_err(|_| format!("`{text}` is no time; {fix}"))?;
    match Duration::try_from(parsed) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("it must be more than nothing; {fix}")),
    }
}

fn budget(text: &str) -> Result<Cost, String> {
    let dollars: f64 = text.trim_start_matches('$').parse().map_err(|_| format!("`{text}` is no amount of dollars"))?;
    match Cost::from_dollars(dollars) {
        Some(cost) if cost > Cost::ZERO => Ok(cost),
        _ => Err("it must be more than 0, e.g. 2.50".to_owned()),
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
        assert_eq!(budget("0.001"), Ok(Cost::from_nanos(1_000_000)));
        for bad in ["0", "-1", "NaN", "inf", "ten"] {
            assert!(budget(bad).is_err(), "{bad}");
        }
    }
}
