//! `harvest session`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Session {
    /// Show a session with its turns
    #[command(
        after_help = "Examples:\n  harvest session show 9f2c\n  harvest session show 7k3m --json    the ID of its task works too"
    )]
    Show {
        /// ID of the session or of its task, or its first characters
        id: String,
    },
    /// Send a follow-up prompt to a session
    #[command(after_help = "Examples:
  harvest session prompt 9f2c \"Now add a test for it\"
  harvest session prompt 9f2c - < more.md
  harvest session prompt 9f2c \"Look again\" --model claude-opus-4-1 --follow

The prompt waits in the queue for `harvest up`, after earlier prompts of the session. A cancelled task starts again.")]
    Prompt(SessionPrompt),
    /// Resume an interrupted session
    #[command(after_help = "Examples:
  harvest session resume 9f2c
  harvest session resume 9f2c \"Continue, but leave the schema alone\"

The agent continues its own conversation if it can; otherwise it is told the earlier messages. `harvest up` runs it.")]
    Resume(SessionResume),
    /// Continue with another agent, in the same workspace and with the earlier messages
    #[command(after_help = "Examples:
  harvest session continue 9f2c --agent codex
  harvest session continue 9f2c --agent codex \"Finish the other half, too\" --follow")]
    Continue(SessionContinue),
    /// Start a new session from a point of this one
    #[command(after_help = "Examples:
  harvest task logs 7k3m --json | grep checkpoint.created    lists the points
  harvest session fork 9f2c --at 41
  harvest session fork 9f2c --at 41 \"Try it without the cache\" --agent codex

It is a separate task with its own branch, and starts with the last commit or checkpoint up to that event and the messages up
to then. The session itself can still be running.")]
    Fork(SessionFork),
    /// Start a new session from a checkpoint of this one
    #[command(after_help = "Examples:
  harvest session restore 9f2c --checkpoint 3
  harvest session restore 9f2c --checkpoint 3 \"Try it without the cache\"

Checkpoints are taken every few seconds; `harvest task logs ID --json | grep checkpoint.created` lists them. The session
itself stays as it is.")]
    Restore(SessionRestore),
}

#[derive(Debug, Clone, Args)]
pub struct SessionRestore {
    /// ID of the session or of its task, or its first characters
    pub id: String,
    /// The number of the checkpoint
    #[arg(long, value_name = "N")]
    pub checkpoint: u32,
    /// What to do; `-` reads it from standard input [default: continue from there]
    #[arg(allow_hyphen_values = true)]
    pub prompt: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub struct SessionResume {
    /// ID of the session or of its task, or its first characters
    pub id: String,
    /// What to tell the agent; `-` reads it from standard input [default: continue]
    #[arg(allow_hyphen_values = true)]
    pub prompt: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub struct SessionContinue {
    /// ID of the session or of its task, or its first characters
    pub id: String,
    /// What to do; `-` reads it from standard input [default: continue where it stopped]
    #[arg(allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// The agent that continues
    #[arg(long, value_name = "ID")]
    pub agent: String,
    /// The model from here on [default: the agent's choice]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    #[command(flatten)]
    pub asking: Asking,
}

#[derive(Debug, Clone, Args)]
pub struct SessionFork {
    /// ID of the session or of its task, or its first characters
    pub id: String,
    /// The number of the last event to include, `seq` in `harvest task logs --json`
    #[arg(long, value_name = "SEQ")]
    pub at: u64,
    /// What to do; `-` reads it from standard input [default: continue from there]
    #[arg(allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// The agent [default: the one at that point]
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// The model [default: the one at that point]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub struct SessionPrompt {
    /// ID of the session or of its task, or its first characters
    pub id: String,
    /// What to do; `-` reads it from standard input
    #[arg(allow_hyphen_values = true)]
    pub prompt: String,
    #[command(flatten)]
    pub options: PromptOptions,
}

#[derive(Debug, Clone, Args)]
pub struct PromptOptions {
    /// The agent from here on [default: as before]
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// The model from here on [default: as before]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    #[command(flatten)]
    pub asking: Asking,
}

/// How a prompt is handed over, whoever is to work on it.
#[derive(Debug, Clone, Args)]
pub struct Asking {
    /// If a prompt with this key exists, do not create another
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Watch until it is done; a worker has to run the queue. Exit code as for `harvest run`
    #[arg(long)]
    pub follow: bool,
}
