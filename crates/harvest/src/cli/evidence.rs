//! `harvest evidence`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Evidence {
    /// Print the evidence of a task, signed: an in-toto statement in a DSSE envelope
    #[command(after_help = "Examples:\n  harvest evidence export 7k3m > evidence.json")]
    Export {
        /// The task's id, or its beginning
        id: String,
    },
    /// Check signed evidence, without asking anyone
    #[command(after_help = "Examples:
  harvest evidence verify evidence.json
  harvest evidence verify evidence.json --key MCowBQYDK2VwAyEA…      signed elsewhere

Exit code: 0 it is genuine, 1 it was changed or someone else signed it, 2 it is no evidence.")]
    Verify {
        file: PathBuf,
        /// The public key of whoever signed it [default: this installation's]
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
    },
    /// Print the public key that others check this installation's evidence with
    #[command(after_help = "Examples:\n  harvest evidence key")]
    Key,
}
