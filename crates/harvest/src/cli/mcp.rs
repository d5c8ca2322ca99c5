//! Servers that offer tools to agents.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Mcp {
    /// List servers, where they run, and whether their keys are set
    #[command(after_help = "Examples:\n  harvest mcp list\n  harvest mcp list --json")]
    List,
    /// Show one server
    #[command(after_help = "Examples:\n  harvest mcp show github\n  harvest mcp show memory --json")]
    Show { name: String },
    /// Add a server, or change a preset
    #[command(after_help = "Examples:
  harvest mcp add docs --url https://docs.example.com/mcp
  harvest mcp add tracker --command npx --arg -y --arg tracker-mcp@1.2.0 --credential tracker --credential-as TRACKER_TOKEN --host tracker.example.com
  harvest mcp add github --preset github --tool get_issue --tool list_issues

It is written to mcp/NAME.toml next to harvest.toml; a table [mcp.NAME] there does the same. Enable it with --mcp NAME, or with
mcp_servers = [\"NAME\"] in harvest.toml or in one of its projects.")]
    Add(Box<McpAdd>),
    /// Remove a server that was added with `harvest mcp add`
    #[command(after_help = "Examples:\n  harvest mcp remove docs")]
    Remove { name: String },
}

#[derive(Debug, Args)]
pub struct McpAdd {
    pub name: String,
    /// The preset to start from
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// The program to start
    #[arg(long, value_name = "CMD", conflicts_with = "url")]
    pub command: Option<String>,
    /// An argument of the program; can be given more than once, in order
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub arg: Vec<String>,
    /// URL of the server, if it is not a program
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// An environment variable of the program; put keys into --credential
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// The name of its key: harvest credential add mcp --name NAME
    #[arg(long, value_name = "NAME")]
    pub credential: Option<String>,
    /// The variable or header for its key
    #[arg(long, value_name = "NAME")]
    pub credential_as: Option<String>,
    /// A tool that agents can use [default: all]
    #[arg(long, value_name = "TOOL")]
    pub tool: Vec<String>,
    /// A host that a program with a key can reach
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub about: Option<String>,
}
