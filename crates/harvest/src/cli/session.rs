//! `harvest session`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Session {
    /// Show a session with its turns
    #[command(
        after_help = "Examples:\n  harvest session show 9f2c\n  harvest session show 7k3m --json    a task's id will do"
    )]
    Show {
        /// The session's id, or its task's, or the beginning of either
        id: String,
    },
    /// Ask for more: the session goes on from what it has
    #[command(after_help = "Examples:
  harvest session prompt 9f2c \"Now add a test for it\"
  harvest session prompt 9f2c - < more.md
  harvest session prompt 9f2c \"Look again\" --model claude-opus-4-1 --follow

The prompt is queued behind those before it, and worked on by `harvest up`. A session whose task was cancelled begins again.")]
    Prompt(SessionPrompt),
    /// Go on with a session that was interrupted
    #[command(after_help = "Examples:
  harvest session resume 9f2c
  harvest session resume 9f2c \"Go on, but leave the schema alone\"

The agent goes on with its own conversation where it can, and is told what was said otherwise. Worked on by `harvest up`.")]
    Resume(SessionResume),
    /// Let another agent go on, in the same workspace and with what was said
    #[command(after_help = "Examples:
  harvest session continue 9f2c --agent codex
  harvest session continue 9f2c --agent codex \"Finish the other half, too\" --follow")]
    Continue(SessionContinue),
    /// A new session that goes on from a moment of this one
    #[command(after_help = "Examples:
  harvest task logs 7k3m --json | grep checkpoint.created    which moments there are
  harvest session fork 9f2c --at 41
  harvest session fork 9f2c --at 41 \"Try it without the cache\" --agent codex

It is a task of its own, with a branch of its own, and begins with the last commit or checkpoint up to that event and with
what had been said. The session itself may still be at work.")]
    Fork(SessionFork),
    /// Go back to a checkpoint: a new session begins with what the workspace was like then
    #[command(after_help = "Examples:
  harvest session restore 9f2c --checkpoint 3
  harvest session restore 9f2c --checkpoint 3 \"Try it without the cache\"

Checkpoints are taken every few seconds of work; `harvest task logs ID --json | grep checkpoint.created` lists them. The session
itself stays as it is.")]
    Restore(SessionRestore),
}

#[derive(Debug, Clone, Args)]
pub struct SessionRestore {
    /// The session's id, or its task's, or the beginning of either
    pub id: String,
    /// The number of the checkpoint
    #[arg(long, value_name = "N")]
    pub checkpoint: u32,
    /// What to do; `-` reads it from standard input [default: to go on from there]
    #[arg(allow_hyphen_values = true)]
    pub prompt: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub struct SessionResume {
    /// The session's id, or its task's, or the beginning of either
    pub id: String,
    /// What to tell the agent; `-` reads it from standard input [default: to go on]
    #[arg(allow_hyphen_values = true)]
    pub prompt: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub struct SessionContinue {
    /// The session's id, or its task's, or the beginning of either
    pub id: String,
    /// What to do; `-` reads it from standard input [default: to go on where it was left]
    #[arg(allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Who goes on
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
    /// The session's id, or its task's, or the beginning of either
    pub id: String,
    /// The number of the last event that counts, as `seq` in `harvest task logs --json`
    #[arg(long, value_name = "SEQ")]
    pub at: u64,
    /// What to do; `-` reads it from standard input [default: to go on from there]
    #[arg(allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Who works on it [default: who did then]
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// The model [default: as then]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub struct SessionPrompt {
    /// The session's id, or its task's, or the beginning of either
    pub id: String,
    /// What to do; `-` reads it from standard input
    #[arg(allow_hyphen_values = true)]
    pub prompt: String,
    #[command(flatten)]
    pub options: PromptOptions,
}

#[derive(Debug, Clone, Args)]
pub struct PromptOptions {
    /// Who works on it from here on [default: as before]
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
    /// Asking again with the same key makes no second prompt
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Watch until it is done; needs someone who works off the queue. Exit code as of `harvest run`
    #[arg(long)]
    pub follow: bool,
}
