//! `harvest dev`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Dev {
    /// A GitHub on this machine: real repositories, issues, pull requests, checks and webhooks, no account
    #[command(after_help = "Examples:
  harvest dev fake-github --repository ada/shop=./shop --webhook-url http://127.0.0.1:7070/webhooks/github
  curl -H 'Authorization: Bearer token-ada' http://127.0.0.1:7090/api/v3/repos/ada/shop/issues -d '{\"title\": \"Fix it\", \"labels\": [\"harvest\"]}'

It prints how to add its App to Harvest. Everything is there again when it is started on the same folder, and webhooks that nobody
takes are sent when the server is up.")]
    FakeGithub(FakeGithub),
}

#[derive(Debug, Args)]
pub struct FakeGithub {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7090")]
    pub listen: SocketAddr,
    /// A repository, with what the one at PATH has; may be given several times
    #[arg(long, value_name = "OWNER/NAME[=PATH]", value_parser = repository)]
    pub repository: Vec<(String, Option<PathBuf>)>,
    /// Where it sends webhooks
    #[arg(long, value_name = "URL")]
    pub webhook_url: Option<String>,
    /// What it signs them with [default: harvest]
    #[arg(long, value_name = "SECRET")]
    pub webhook_secret: Option<String>,
    /// Where its repositories are kept [default: beside the data directory]
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
