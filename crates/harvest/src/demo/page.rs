//! The page beside the demo, and agents for whatever is asked for there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use harvest_core::Code;
use harvest_engine::{Engine, Notice, Stop};
use harvest_server::{Handle, Service};
use harvest_telemetry::Exporter;

use crate::cli::{Door, Global, RepoAdd};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::view::Style;
use crate::works::{self, Wanted};
use crate::{output, repo, serve, up};

const PORT: u16 = 7070;
const AGENTS: u32 = 4;
/// What opens a browser where there is a screen.
const OPENER: &str = "/usr/bin/xdg-open";

/// Lets people choose the sample on the page.
pub async fn offer(installation: &Installation, repository: &Path) -> Result<(), Failure> {
    let source = repository.to_string_lossy().into_owned();
    repo::keep(installation, RepoAdd { source, ..RepoAdd::default() }).await.map(drop)
}

pub async fn open(
    global: &Global,
    installation: &Arc<Installation>,
    engine: &Engine,
    wanted: Option<SocketAddr>,
) -> Result<Service, Failure> {
    let door = |listen| Door { listen, public_url: None, trusted_proxies: Vec::new(), tokens_only: false };
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match serve::listen(
        global,
        installation,
        engine,
        door(wanted.unwrap_or(at(PORT))),
        Exporter::default(),
        Stop::default(),
    )
    .await
    {
        // Most likely another Harvest, which is no reason to show nothing.
        Err(failure) if failure.code == Code::CannotListen && wanted.is_none() => {
            serve::listen(global, installation, engine, door(at(0)), Exporter::default(), Stop::default()).await
        }
        listening => listening,
    }
}

/// Says where the page is, and opens it where there is a screen.
pub async fn announce(
    global: &Global,
    style: Style,
    environment: &Environment,
    handle: &Handle,
) -> Result<(), Failure> {
    serve::announce(global, style, handle).await?;
    if let Some(screen) = environment.screen().filter(|_| style.terminal && !global.json) {
        open_browser(&handle.link().await?, screen);
    }
    Ok(())
}

/// Where it does not work there is still the printed link.
#[expect(
    clippy::disallowed_methods,
    reason = "a browser of the person who started the demo, with a cleared environment"
)]
fn open_browser(link: &str, screen: BTreeMap<&'static str, &OsString>) {
    let mut opener = Command::new(OPENER);
    opener.arg(link).env_clear().envs(screen);
    let _ = opener.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}

/// Works on what people ask for on the page, until `stop`.
pub async fn work(
    global: &Global,
    style: Style,
    installation: &Arc<Installation>,
    engine: &Engine,
    stop: Stop,
) -> Result<(), Failure> {
    if !global.json {
        let _ = output::line(&style.dim("\nstart more tasks on the page; Ctrl-C ends the demo"));
    }
    let tell = |notice: &Notice| drop(if global.json { up::show_json(notice) } else { up::show(style, notice) });
    let wanted = Wanted { agents: Some(AGENTS), ..Wanted::default() };
    works::work(global, style, installation, engine, wanted, stop, tell).await.map(drop)
}
