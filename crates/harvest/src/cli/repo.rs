//! Repositories that snapshots are prepared of.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{convoy_name, duration};

/// How often a build is tried unless someone says otherwise.
pub const BUILD_TRIES: u32 = 3;

#[derive(Debug, Subcommand)]
pub enum Repo {
    /// Prepare snapshots of a repository, with its dependencies installed, for sessions to start from
    #[command(after_help = "Examples:
  harvest repo add .
  harvest repo add https://example.com/shop.git --branch main --every 2h
  harvest repo add ../shop --setup \"make deps\" --build \"make\" --alert \"mail -s 'shop: no snapshot' ada\"
  harvest repo add ../monorepo --depth 50 --sparse services/shop --sparse libraries

Adding it again under the same name changes its settings. `harvest up` builds snapshots when they are due; so does
`harvest repo build`. The alert is run when a build fails, with the report as JSON on its standard input.")]
    Add(Box<RepoAdd>),
    /// List repositories with their snapshots
    #[command(after_help = "Examples:\n  harvest repo list\n  harvest repo list --json")]
    List,
    /// Build a snapshot now, unless nothing has changed
    #[command(after_help = "Examples:
  harvest repo build shop
  harvest repo build shop --force --json

If another process, such as `harvest serve`, is building it, this waits for that build and builds only what it leaves to do.

Exit code: 0 there is a snapshot of the newest commit, 1 the build failed and the previous snapshot stays in use.")]
    Build(RepoBuild),
    /// Remove a repository and the snapshots that no session uses
    #[command(after_help = "Examples:\n  harvest repo remove shop")]
    Remove {
        /// Its name in `harvest repo list`
        name: String,
    },
}

#[derive(Debug, Default, Args)]
pub struct RepoAdd {
    /// Its path or URL
    #[arg(value_name = "PATH|URL")]
    pub source: String,
    /// Its name [default: the last part of its path]
    #[arg(long, value_name = "NAME", value_parser = convoy_name)]
    pub name: Option<String>,
    /// The branch to build snapshots of [default: the repository's HEAD]
    #[arg(long, value_name = "BRANCH", allow_hyphen_values = true)]
    pub branch: Option<String>,
    /// The command that installs dependencies [default: found in the repository]
    #[arg(long, value_name = "CMD", allow_hyphen_values = true)]
    pub setup: Option<String>,
    /// The build command; it may fail [default: found in the repository]
    #[arg(long, value_name = "CMD", allow_hyphen_values = true)]
    pub build: Option<String>,
    /// Fetch only the newest N commits of its history
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: Option<u32>,
    /// Fetch file contents only of the newest commit; older versions are not available
    #[arg(long)]
    pub partial: bool,
    /// Check out only this folder and the files at the top level; can be given more than once
    #[arg(long, value_name = "PATH", value_parser = folder)]
    pub sparse: Vec<String>,
    /// How often to check for changes [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub every: Option<Duration>,
    /// The command to run when a build fails
    #[arg(long, value_name = "CMD", allow_hyphen_values = true)]
    pub alert: Option<String>,
}

#[derive(Debug, Args)]
pub struct RepoBuild {
    /// Its name in `harvest repo list`
    pub name: String,
    /// Build even if nothing has changed, and install everything from scratch
    #[arg(long)]
    pub force: bool,
    /// How many times to try fetching and installing, five seconds apart
    #[arg(long, value_name = "N", default_value_t = BUILD_TRIES, value_parser = clap::value_parser!(u32).range(1..=10))]
    pub tries: u32,
}

fn folder(text: &str) -> Result<String, String> {
    let path = text.trim_matches('/');
    let odd = |part: &str| part.is_empty() || part == "." || part == ".." || part == ".git";
    if path.is_empty() || path.split('/').any(odd) || path.starts_with('-') || path.contains(char::is_control) {
        return Err("it must be a folder of the repository, e.g. services/shop".to_owned());
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_the_repository() {
        assert_eq!(folder("services/shop/"), Ok("services/shop".to_owned()));
        for bad in ["", "/", "..", "a/../b", "-x", ".git", "a//b", "a\nb"] {
            assert!(folder(bad).is_err(), "{bad:?}");
        }
    }
}
