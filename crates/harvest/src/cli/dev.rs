//! `harvest dev`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::listen;

#[derive(Debug, Subcommand)]
pub enum Dev {
    /// Run a fake GitHub on this machine, with real repositories, issues, pull requests, checks and webhooks
    #[command(after_help = "Examples:
  harvest dev fake-github --repository ada/shop=./shop --webhook-url http://127.0.0.1:7070/webhooks/github
  curl -H 'Authorization: Bearer token-ada' http://127.0.0.1:7090/api/v3/repos/ada/shop/issues -d '{\"title\": \"Fix it\", \"labels\": [\"harvest\"]}'

It prints the command that adds its App to Harvest. Without a key for a model, start the server with `harvest serve --model-script
FILE`; docs/github.md has a sample. It keeps its state in its folder across restarts, and sends undelivered webhooks once the
server is up.")]
    FakeGithub(FakeGithub),
}

#[derive(Debug, Args)]
pub struct FakeGithub {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7090", value_parser = listen)]
    pub listen: SocketAddr,
    /// Add a repository, with the content of the one at PATH; can be given more than once
    #[arg(long, value_name = "OWNER/NAME[=PATH]", value_parser = repository)]
    pub repository: Vec<(String, Option<PathBuf>)>,
    /// Where to send webhooks
    #[arg(long, value_name = "URL")]
    pub webhook_url: Option<String>,
    /// The secret that signs webhooks [default: harvest]
    #[arg(long, value_name = "SECRET")]
    pub webhook_secret: Option<String>,
    /// Where to keep its repositories [default: next to the data directory]
    #[arg(long, value_name = "PATH")]
    pub folder: Option<PathBuf>,
}

fn repository(text: &str) -> Result<(String, Option<PathBuf>), String> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) => (name, Some(PathBuf::from(path))),
        None => (text, None),
    };
    match harvest_forge::github::Repository::parse(name) {
        Some(repository) => Ok((repository.to_string(), path)),
        None => Err("it must be OWNER/NAME, or OWNER/NAME=PATH".to_owned()),
    }
}
