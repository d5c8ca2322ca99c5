//! The guided first run, and the look at the machine.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  harvest init
  harvest init --repo ../shop
  harvest init --yes --task \"Make the failing test pass\" --json

Every question has a suggested answer, and every step can be skipped. What is set up already is checked and not asked for,
so it can be left at any step and started again. `harvest` alone does the same on its first day.

Exit code: 0 everything that was not skipped works, 1 something does not, 2 refused, 3 stopped.")]
pub struct Init {
    /// A repository's path or URL [default: the one around the current folder]
    #[arg(long, value_name = "PATH|URL")]
    pub repo: Option<String>,
    /// The first task
    #[arg(long, value_name = "PROMPT")]
    pub task: Option<String>,
    /// Take every suggested answer, and skip what has none
    #[arg(long)]
    pub yes: bool,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Also try every host that the settings need: registries, models, forges, allowed hosts
    #[arg(long)]
    pub reach: bool,
}
