//! Keys and tokens.

use clap::{Args, Subcommand};
use harvest_core::Scope;

#[derive(Debug, Subcommand)]
pub enum Credential {
    /// Store a key or token, typed at a prompt or read from standard input
    #[command(after_help = "Examples:
  harvest credential add anthropic
  printf %s \"$KEY\" | harvest credential add openai --from-stdin
  harvest credential add anthropic --scope team:fruit --name spare
  harvest credential add github                               a personal token; or create an App: harvest github setup
  harvest credential add mcp --name github        for MCP servers with credential = \"github\"

It is encrypted with the master key (DATA-DIRECTORY/master.key, or HARVEST_MASTER_KEY_FILE, or the output of
HARVEST_MASTER_KEY_COMMAND) and never shown again. No sandbox ever sees it.")]
    Add(CredentialAdd),
    /// List credentials: their last 4 characters and when they were added
    #[command(after_help = "Examples:\n  harvest credential list\n  harvest credential list --json")]
    List,
    /// Replace the secret of a credential, or the master key of all
    #[command(after_help = "Examples:
  harvest credential rotate 3k9d
  harvest credential rotate --master-key

If a change of the master key is interrupted, the next one completes it; all credentials keep working.")]
    Rotate {
        /// The credential's ID or its first characters
        #[arg(required_unless_present = "master_key", conflicts_with = "master_key")]
        id: Option<String>,
        /// Read the secret from standard input
        #[arg(long, conflicts_with = "master_key")]
        from_stdin: bool,
        /// Encrypt everything with a new master key
        #[arg(long)]
        master_key: bool,
    },
    /// Remove a credential
    #[command(after_help = "Examples:\n  harvest credential remove 3k9d")]
    Remove {
        /// Its ID or its first characters
        id: String,
    },
}

#[derive(Debug, Args)]
pub struct CredentialAdd {
    /// anthropic, openai, gemini, ollama, github or mcp; github-sign-in for the client secret of the GitHub sign-in
    #[arg(value_name = "PROVIDER", value_parser = ["anthropic", "openai", "gemini", "ollama", "github", "mcp", "github-sign-in"])]
    pub provider: String,
    /// user, user:NAME, team:NAME or project:NAME [default: you]
    #[arg(long, value_name = "SCOPE", value_parser = scope)]
    pub scope: Option<String>,
    /// Name; further keys are used when the default one is rejected or rate-limited [default: default]
    #[arg(long, value_name = "NAME", value_parser = super::convoy_name)]
    pub name: Option<String>,
    /// URL of another host with the same API
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Read the secret from standard input
    #[arg(long)]
    pub from_stdin: bool,
}

fn scope(text: &str) -> Result<String, String> {
    match text.parse::<Scope>() {
        Err(error) if text != "user" => Err(error.to_string()),
        _ => Ok(text.to_owned()),
    }
}
