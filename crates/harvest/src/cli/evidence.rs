//! `harvest evidence`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Evidence {
    /// Print the evidence of a task, signed: an in-toto statement in a DSSE envelope
    #[command(after_help = "Examples:\n  harvest evidence export 7k3m > evidence.json")]
    Export {
        /// The task's ID or its first characters
        id: String,
    },
    /// Check signed evidence offline
    #[command(after_help = "Examples:
  harvest evidence verify evidence.json
  harvest evidence verify evidence.json --key 3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhs=
  harvest evidence verify evidence.json --key their.pub

Exit code: 0 genuine, 1 changed or signed with another key, 2 not signed evidence, or the key is not a key.")]
    Verify {
        file: PathBuf,
        /// The public key of the signer, as `harvest evidence key` prints it there, or a file with it [default: that of this
        /// installation]
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
    },
    /// Print the public key for checking this installation's evidence
    #[command(after_help = "Examples:\n  harvest evidence key")]
    Key,
}
