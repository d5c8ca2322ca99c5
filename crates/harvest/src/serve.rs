//! `harvest serve`: the API, and the agents that work beside it.

use std::sync::Arc;

use harvest_agents::Provider;
use harvest_core::Code;
use harvest_engine::{Limits, ModelChoice, Notice, Stop};
use harvest_server::{Handle, Options, Pace, Service};
use serde_json::json;
use tokio::signal::unix::SignalKind;

use crate::ask;
use crate::cli::{Global, SandboxKind, Serve};
use crate::desk::FrontDesk;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::run::on_signals;
use crate::up;
use crate::view::Style;
use crate::works::{self, Wanted};

pub async fn serve(global: &Global, environment: Environment, options: Serve) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    let script = options.model_script.as_deref().map(ask::load_script).transpose()?;
    let installation = Arc::new(Installation::open(global, environment).await?);
    let works = options.agents != Some(0);
    let engine = if works {
        if options.sandbox == SandboxKind::None {
            output::complain(
                "warning: --sandbox none gives the agents everything you have: your files, your network, your processes",
            );
        }
        let model = match ask::offered_model(&installation, script.as_deref()) {
            // A key can be added while it runs; until then tasks fail and say why.
            Err(failure) if failure.code == Code::NoModel => {
                output::complain(&format!("warning[{}]: {}", failure.code, failure.message));
                ModelChoice { provider: Provider::Anthropic, model: None }
            }
            chosen => chosen?,
        };
        installation.engine(installation.provider(options.sandbox)?, script, model)?
    } else {
        installation.queueing_engine()?
    };
    let service = Service::bind(Options {
        listen: options.listen,
        public_url: options.public_url,
        store: installation.store.clone(),
        engine: engine.clone(),
        data: installation.data.clone(),
        desk: Arc::new(FrontDesk { installation: installation.clone() }),
        clock: installation.clock.clone(),
        entropy: installation.entropy.clone(),
        pace: Pace::default(),
    })
    .await?;
    announce(global, style, &service.handle()?).await?;
    let (drain, close) = (Stop::default(), Stop::default());
    on_signals(
        &[SignalKind::interrupt(), SignalKind::terminate()],
        &drain,
        if options.keep_agents { up::LEAVING } else { up::DRAINING },
    );
    let working = async {
        let limits =
            Limits { tasks: options.max_tasks, time: options.max_hours, cost: options.max_usd, ..Limits::default() };
        let wanted = Wanted {
            limits,
            agents: options.agents,
            lease: options.lease,
            patience: options.drain,
            keep_agents: options.keep_agents,
            ..Wanted::default()
        };
        let tell = |notice: &Notice| drop(if global.json { up::show_json(notice) } else { up::show(style, notice) });
        let worked = match works {
            true => {
                let worked = works::work(global, style, &installation, &engine, wanted, drain.clone(), tell).await;
                if let Ok(summary) = &worked
                    && !drain.is_requested()
                {
                    output::complain(&format!("note: taking no more work: {}; the API goes on", summary.ended));
                    drain.requested().await;
                }
                worked.map(drop)
            }
            false => {
                drain.requested().await;
                Ok(())
            }
        };
        // The API answers until the last turn is over.
        close.request();
        worked
    };
    let (worked, served) = tokio::join!(working, service.run(close.clone()));
    worked?;
    served?;
    Ok(Exit::Done)
}

async fn announce(global: &Global, style: Style, handle: &Handle) -> Result<(), Failure> {
    // Whoever can read this terminal is at this machine. Behind a proxy that says nothing about who opens the link.
    let link = if handle.address().ip().is_loopback() { Some(handle.link().await?) } else { None };
    let (url, address) = (handle.url(), handle.address());
    let _ = if global.json {
        output::json(&json!({ "type": "listening", "url": url, "address": address.to_string(), "link": link }))
    } else {
        let link = link.map(|link| format!("\n  sign in: {link}")).unwrap_or_default();
        output::line(&format!("{} listening on {}{link}\n  API: {url}/api/docs", style.ok(), style.bold(url)))
    };
    Ok(())
}

impl From<harvest_server::Error> for Failure {
    fn from(error: harvest_server::Error) -> Self {
        let help = error.help().map(str::to_owned);
        let mut message = error.to_string();
        if let Some(cause) = std::error::Error::source(&error) {
            message = format!("{message}: {cause}");
        }
        Self { code: error.code(), message, help, exit: Exit::Refused }
    }
}
