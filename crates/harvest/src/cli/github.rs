//! `harvest github`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Github {
    /// Create a GitHub App for this Harvest and save its credential
    #[command(after_help = "Examples:
  harvest github setup --public-url https://harvest.example.com
  harvest github setup --code 4f3c…                     the code in the address GitHub redirected to

The first command prints a page to save and open in a browser: it asks GitHub for an App with only the permissions that are needed.
GitHub then redirects to an address that contains a code; pass that to the second command.")]
    Setup(GithubSetup),
}

#[derive(Debug, Args)]
pub struct GithubSetup {
    /// URL at which GitHub can reach this Harvest
    #[arg(long, value_name = "URL", required_unless_present = "code")]
    pub public_url: Option<String>,
    /// The code in the address that GitHub redirected to
    #[arg(long, value_name = "CODE")]
    pub code: Option<String>,
    /// The organization that owns the App [default: your own account]
    #[arg(long = "organization", alias = "organisation", value_name = "NAME")]
    pub organisation: Option<String>,
    /// URL of a GitHub Enterprise server
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
}
