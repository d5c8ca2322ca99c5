//! The guided first run, and the look at the machine.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  harvest init
  harvest init --repo ../shop
  harvest init --yes --task \"Make the failing test pass\" --json

Every question shows its suggested answer and how to skip it; what is left to do is listed at the end, with the command for it.
Steps that are done are checked and not asked about again, so you can quit at any step and start over. On a new machine,
`harvest` without a command does the same.

With --json, standard output has one JSON document: the steps, and `error` when something stopped the setup.

Exit code: 0 everything that was not skipped works, 1 something does not, 2 refused, 3 stopped.")]
pub struct Init {
    /// Path or URL of the repository [default: the one that contains the current folder]
    #[arg(long, value_name = "PATH|URL")]
    pub repo: Option<String>,
    /// The first task
    #[arg(long, value_name = "PROMPT")]
    pub task: Option<String>,
    /// Do not run the test command
    #[arg(long)]
    pub skip_test_run: bool,
    /// Take every suggested answer, and skip questions that have none
    #[arg(long)]
    pub yes: bool,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Also check that every host in the settings can be reached: registries, models, forges, allowed hosts
    #[arg(long)]
    pub reach: bool,
}
