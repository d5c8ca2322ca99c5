//! `harvest github`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Github {
    /// Make a GitHub App for this Harvest, and keep it
    #[command(after_help = "Examples:
  harvest github setup --public-url https://harvest.example.com
  harvest github setup --code 4f3c…                     what GitHub's page ended with

The first prints a page to save and open in a browser: it asks GitHub for an App with just the permissions that are needed. GitHub
then leads back to an address with a code in it; give that to the second.")]
    Setup(GithubSetup),
}

#[derive(Debug, Args)]
pub struct GithubSetup {
    /// Where GitHub reaches this Harvest
    #[arg(long, value_name = "URL", required_unless_present = "code")]
    pub public_url: Option<String>,
    /// The code that GitHub's page ended with
    #[arg(long, value_name = "CODE")]
    pub code: Option<String>,
    /// An organisation to make the App in [default: your own account]
    #[arg(long, value_name = "NAME")]
    pub organisation: Option<String>,
    /// A GitHub of an enterprise
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
}
