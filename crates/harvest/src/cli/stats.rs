//! `harvest stats`.

use clap::{Args, ValueEnum};
use harvest_api_types::StatsBy;
use harvest_server::is_day;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  harvest stats                            day by day
  harvest stats --by agent                 completed tasks and races won by each agent
  harvest stats --by model --from 2026-01-01 --json")]
pub struct Stats {
    /// Group by
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = By::Day)]
    pub by: By,
    /// The first day [default: from the beginning]
    #[arg(long, value_name = "DAY", value_parser = day)]
    pub from: Option<String>,
    /// The last day [default: today]
    #[arg(long, value_name = "DAY", value_parser = day)]
    pub to: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    Day,
    Repository,
    Agent,
    Model,
    Person,
}

impl From<By> for StatsBy {
    fn from(by: By) -> Self {
        match by {
            By::Day => Self::Day,
            By::Repository => Self::Repository,
            By::Agent => Self::Agent,
            By::Model => Self::Model,
            By::Person => Self::Person,
        }
    }
}

fn day(text: &str) -> Result<String, String> {
    if is_day(text) { Ok(text.to_owned()) } else { Err("a day is written like 2026-01-31".to_owned()) }
}
