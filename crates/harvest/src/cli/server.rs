//! The server, and who may use it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use harvest_core::Role;
use ipnet::IpNet;

use super::{Until, WorkPlace, duration, listen};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  harvest serve
  harvest serve --listen 127.0.0.1:8080 --agents 3
  harvest serve --agents 0 --database-url postgres://…      API only; `harvest up` runs elsewhere
  harvest serve --public-url https://harvest.example.com --trusted-proxy 127.0.0.1      behind a proxy with TLS, with [sign_in]
  harvest serve --listen 0.0.0.0:7070 --public-url https://harvest.example.com --tokens-only      for programs only

It prints a one-time link that signs a browser in. Programs use a token: harvest token create.

On the first Ctrl-C or SIGTERM it takes no more work and waits for running tasks; on the second it exits at once, and the next
server takes over.")]
pub struct Serve {
    #[command(flatten)]
    pub door: Door,
    /// How many agents run in parallel; 0 for none [default: by available memory]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub agents: Option<u32>,
    #[command(flatten)]
    pub place: WorkPlace,
    #[command(flatten)]
    pub until: Until,
    /// When stopping, how long to wait for running tasks before they go back into the queue [default: until they end]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub drain: Option<Duration>,
}

/// How one gets in.
#[derive(Debug, Clone, Args)]
pub struct Door {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070", value_parser = listen)]
    pub listen: SocketAddr,
    /// The URL of this server for browsers, when it is behind a proxy
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// A proxy, or a network of proxies, whose X-Forwarded-For is trusted; can be given more than once
    #[arg(long = "trusted-proxy", value_name = "ADDRESS[/BITS]", value_parser = network)]
    pub trusted_proxies: Vec<IpNet>,
    /// Accept tokens only, without browser sign-in: for an address that can be reached from outside
    #[arg(long)]
    pub tokens_only: bool,
}

fn network(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    address
        .or_else(|_| text.parse())
        .map_err(|_| "not an address like 10.0.0.5 or a network like 10.0.0.0/8".to_owned())
}

#[derive(Debug, Subcommand)]
pub enum Token {
    /// Create a token for a program; it is shown once
    #[command(after_help = "Examples:
  harvest token create --role member --name ci
  harvest token create --role viewer --project shop --expires-in-days 30
  curl -H \"Authorization: Bearer $(harvest token create --role admin --json | jq -r .token)\" http://127.0.0.1:7070/api/me")]
    Create(TokenCreate),
    /// List tokens, newest first
    #[command(after_help = "Examples:\n  harvest token list\n  harvest token list --json")]
    List,
    /// Revoke a token
    #[command(after_help = "Examples:\n  harvest token revoke 3k9d")]
    Revoke {
        /// The token's ID or its first characters
        id: String,
    },
    /// Print a new one-time sign-in link for a browser
    #[command(after_help = "Examples:\n  harvest token link\n  harvest token link --url https://harvest.example.com")]
    Link {
        /// URL of the server
        #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7070")]
        url: String,
    },
}

#[derive(Debug, Args)]
pub struct TokenCreate {
    /// viewer (read), member (create tasks) or admin (manage everything)
    #[arg(long, value_name = "ROLE", value_parser = role, default_value = "member")]
    pub role: Role,
    /// What it is for
    #[arg(long, value_name = "NAME", default_value = "token")]
    pub name: String,
    /// The user that it acts for [default: you]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Limit it to this project; can be given more than once
    #[arg(long, value_name = "PROJECT")]
    pub project: Vec<String>,
    /// Expire after this many days
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=3650))]
    pub expires_in_days: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  harvest login --url https://harvest.example.com
  printf %s \"$TOKEN\" | harvest login --url http://127.0.0.1:7070 --from-stdin
  HARVEST_URL=https://harvest.example.com harvest task list

With HARVEST_URL set, `harvest run`, `task`, `session`, `queue`, `race`, `stats`, `status`, `interrupt` and `token` use it.
The token is stored in login.json in the configuration folder, readable by you alone; HARVEST_TOKEN overrides it.")]
pub struct Login {
    /// URL of the server [default: HARVEST_URL]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Read the token from standard input
    #[arg(long)]
    pub from_stdin: bool,
    /// Forget the token of this server
    #[arg(long, conflicts_with = "from_stdin")]
    pub forget: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON document on each line
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Check that no entry was changed, removed or inserted
    #[command(after_help = "Examples:\n  harvest audit verify")]
    Verify,
    /// Print every entry, one JSON document on each line
    #[command(after_help = "Examples:\n  harvest audit export > audit.jsonl")]
    Export,
}

fn role(text: &str) -> Result<Role, String> {
    Role::parse(text).ok_or_else(|| "it is one of viewer, member, admin".to_owned())
}
