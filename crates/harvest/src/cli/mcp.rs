//! Servers that offer tools to agents.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Mcp {
    /// What there is, where it would run, and whether its key is here
    #[command(after_help = "Examples:\n  harvest mcp list\n  harvest mcp list --json")]
    List,
    /// Everything about one server
    #[command(after_help = "Examples:\n  harvest mcp show github\n  harvest mcp show memory --json")]
    Show { name: String },
    /// Add a server, or change one that Harvest knows
    #[command(after_help = "Examples:
  harvest mcp add docs --url https://docs.example.com/mcp
  harvest mcp add tracker --command npx --arg -y --arg tracker-mcp@1.2.0 --credential tracker --credential-as TRACKER_TOKEN --host tracker.example.com
  harvest mcp add github --preset github --tool get_issue --tool list_issues

It is written to mcp/NAME.toml beside harvest.toml, where [mcp.NAME] does the same. Agents get it with --mcp NAME, or with
mcp_servers = [\"NAME\"] in harvest.toml or in one of its projects.")]
    Add(Box<McpAdd>),
    /// Take a server away that was added by `harvest mcp add`
    #[command(after_help = "Examples:\n  harvest mcp remove docs")]
    Remove { name: String },
}

#[derive(Debug, Args)]
pub struct McpAdd {
    pub name: String,
    /// One that Harvest knows, to begin with
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// The program to start
    #[arg(long, value_name = "CMD", conflicts_with = "url")]
    pub command: Option<String>,
    /// An argument of it; may be given several times, in their order
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub arg: Vec<String>,
    /// Where it is, if it is no program
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// A variable for the program; a key belongs into --credential
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// The name of its key: harvest credential add mcp --name NAME
    #[arg(long, value_name = "NAME")]
    pub credential: Option<String>,
    /// The variable or header that its key goes into
    #[arg(long, value_name = "NAME")]
    pub credential_as: Option<String>,
    /// A tool that agents may use; without any, all
    #[arg(long, value_name = "TOOL")]
    pub tool: Vec<String>,
    /// A host that a program with a key may reach
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub about: Option<String>,
}
