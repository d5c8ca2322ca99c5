//! Settings, other trackers' files, backups and tidying.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::AskOptions;

#[derive(Debug, Subcommand)]
pub enum Config {
    /// Print every setting and where its value comes from
    #[command(after_help = "Examples:
  harvest config show
  harvest config show --repo ../shop --json

Later ones override earlier ones: defaults, harvest.toml, its project, .harvest.toml of the repository, the command line.")]
    Show {
        /// Include the .harvest.toml of this repository
        #[arg(long, value_name = "PATH|URL")]
        repo: Option<String>,
        /// At this branch, tag or commit [default: HEAD]
        #[arg(long, value_name = "REF", requires = "repo", allow_hyphen_values = true)]
        base: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum Import {
    /// Queue the open issues of a Beads file (JSONL)
    #[command(after_help = "Examples:
  harvest import beads .beads/issues.jsonl --repo .
  harvest import beads issues.jsonl --repo ../shop --convoy spring-clean --test \"make check\"

Importing the same file again creates no duplicates. A label `convoy:NAME` puts an issue into that convoy.")]
    Beads(Box<ImportBeads>),
}

#[derive(Debug, Args)]
pub struct ImportBeads {
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub options: AskOptions,
    /// The batch the tasks belong to
    #[arg(long, value_name = "NAME", value_parser = super::convoy_name)]
    pub convoy: Option<String>,
    /// How many times to retry automatically after a temporary failure [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20))]
    pub retries: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub enum Export {
    /// Write the results of imported issues back into a Beads file (JSONL)
    #[command(after_help = "Examples:
  harvest export beads .beads/issues.jsonl
  harvest export beads report.jsonl --repo ../shop
  harvest export beads everything.jsonl --all

Only status, close reason, notes and times change; everything else and the order stay as they are.")]
    Beads {
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The repository whose imported issues are written [default: that of the current directory]
        #[arg(long, value_name = "PATH|URL", conflicts_with = "all")]
        repo: Option<String>,
        /// Write the issues of all repositories
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  harvest backup harvest-backup.tar\n  harvest backup /mnt/backups/monday.tar --data-dir /srv/harvest

It can be made while `harvest up` is running. With PostgreSQL use pg_dump. The keys of the data directory (master.key,
evidence.key) are not in it: keep a copy of them elsewhere."
)]
pub struct Backup {
    /// The file to write; it must not exist yet
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  harvest restore harvest-backup.tar --data-dir /srv/harvest

Everything is checked before anything is restored. Copy master.key and evidence.key of the old data directory into the
new one: without them credentials cannot be decrypted and evidence cannot be signed.")]
pub struct Restore {
    /// The file that `harvest backup` wrote
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  harvest gc --dry-run\n  harvest gc --older-than 7d

Tasks, journals and evidence stay. Branches in your repositories stay.")]
pub struct Gc {
    /// Only data of tasks that ended longer ago than this [default: the setting `keep`, 30d]
    #[arg(long, value_name = "AGE", value_parser = super::age)]
    pub older_than: Option<Duration>,
    /// Only list what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// Also remove work that exists only in Harvest, such as branches for repositories with a URL
    #[arg(long)]
    pub unpublished: bool,
}
