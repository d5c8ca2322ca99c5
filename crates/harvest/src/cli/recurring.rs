//! Tasks that come again: schedules and templates.

use clap::{Args, Subcommand, ValueEnum};

use super::{Ask, AskOptions, QueueOptions, Standing};

#[derive(Debug, Subcommand)]
pub enum Schedule {
    /// Queue a task regularly, by a cron expression
    #[command(after_help = "Examples:
  harvest schedule add \"0 3 * * 1-5\" \"Update the dependencies\" --repo ../shop
  harvest schedule add @weekly \"Remove dead code\" --time-zone Europe/Berlin --missed skip

The five fields are minute, hour, day of month, month and day of week. `harvest up` queues the tasks when they are due.")]
    Add(Box<ScheduleAdd>),
    /// List schedules with their next run
    #[command(after_help = "Examples:\n  harvest schedule list\n  harvest schedule list --json")]
    List,
    /// Remove a schedule; tasks it has queued stay
    #[command(after_help = "Examples:\n  harvest schedule remove 7k3m")]
    Remove {
        /// Its ID or its first characters
        id: String,
    },
}

#[derive(Debug, Args)]
pub struct ScheduleAdd {
    /// When, in cron syntax: "0 3 * * 1-5", @daily
    #[arg(value_name = "CRON")]
    pub cron: String,
    #[command(flatten)]
    pub ask: Ask,
    #[command(flatten)]
    pub standing: Standing,
    /// Time zone, e.g. Europe/Berlin [default: the system's, else UTC]
    #[arg(long, value_name = "ZONE")]
    pub time_zone: Option<String>,
    /// What to do about runs that were missed because no `harvest up` was running
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = Missed::RunOnce)]
    pub missed: Missed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Missed {
    /// Skip them
    Skip,
    /// Queue one task for all of them
    RunOnce,
}

#[derive(Debug, Subcommand)]
pub enum Template {
    /// Save a prompt with parameters
    #[command(after_help = "Examples:
  harvest template add upgrade \"Upgrade {{ package }} to {{ version }}\" --repo ../shop --test \"make check\"
  harvest template add fix-issue - --priority high < prompt.md

An existing template with the same name is replaced.")]
    Add(Box<TemplateAdd>),
    /// List templates with their parameters
    #[command(after_help = "Examples:\n  harvest template list\n  harvest template list --json")]
    List,
    /// Queue a task made from a template
    #[command(after_help = "Examples:
  harvest template use upgrade --set package=serde --set version=2
  harvest template use upgrade --set package=serde --set version=2 --repo ../other --priority urgent")]
    Use(Box<TemplateUse>),
    /// Remove a template; tasks made from it stay
    #[command(after_help = "Examples:\n  harvest template remove upgrade")]
    Remove { name: String },
}

#[derive(Debug, Args)]
pub struct TemplateAdd {
    /// Letters, digits, dashes, dots or underscores
    #[arg(value_name = "NAME", value_parser = super::convoy_name)]
    pub name: String,
    #[command(flatten)]
    pub ask: Ask,
    #[command(flatten)]
    pub standing: Standing,
}

#[derive(Debug, Args)]
pub struct TemplateUse {
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Value of a parameter; once for each parameter
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = assignment)]
    pub values: Vec<(String, String)>,
    #[command(flatten)]
    pub options: AskOptions,
    #[command(flatten)]
    pub queue: QueueOptions,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err("it must be NAME=VALUE".to_owned()),
    }
}
