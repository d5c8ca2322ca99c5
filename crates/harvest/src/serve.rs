//! `harvest serve`: the API, and the agents that work beside it.

use std::sync::Arc;

use harvest_agents::Provider;
use harvest_core::Code;
use harvest_engine::{Engine, Limits, ModelChoice, Notice, Stop};
use harvest_server::{Handle, Options, Proxies, Service};
use harvest_telemetry::Exporter;
use serde_json::json;
use tokio::signal::unix::SignalKind;

use crate::ask;
use crate::cli::{Door, Global, Serve};
use crate::desk::FrontDesk;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::run::{on_signals, warn_of};
use crate::view::Style;
use crate::works::{self, Wanted};
use crate::{projects, server_lock, sign_in, tracer, up};

pub async fn serve(global: &Global, environment: Environment, options: Serve) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    let script = options.place.model_script.as_deref().map(ask::load_script).transpose()?;
    let mut installation = Installation::open(global, environment).await?;
    let _lock = server_lock::take(&installation.data).await?;
    installation.public_url.clone_from(&options.door.public_url);
    let installation = Arc::new(installation);
    let works = options.agents != Some(0);
    let engine = if works {
        warn_of(options.place.sandbox);
        let model = match ask::offered_model(&installation, script.as_deref()) {
            // A key can be added while it runs; until then tasks fail and say why.
            Err(failure) if failure.code == Code::NoModel => {
                output::complain(&format!("warning[{}]: {}", failure.code, failure.message));
                ModelChoice { provider: Provider::Anthropic, model: None }
            }
            chosen => chosen?,
        };
        installation.engine(installation.provider(options.place.sandbox)?, script, model)?
    } else {
        installation.queueing_engine()?
    };
    let exporter = tracer::exporter(&installation)?;
    let (drain, close) = (Stop::default(), Stop::default());
    let service = listen(global, &installation, &engine, options.door, exporter.clone(), drain.clone()).await?;
    on_signals(
        &[SignalKind::interrupt(), SignalKind::terminate()],
        &drain,
        if options.place.keep_agents { up::LEAVING } else { up::DRAINING },
        Some(up::LEFT),
    );
    // Whoever reads this may stop it at once.
    announce(global, style, &service.handle()?).await?;
    let working = async {
        let limits = Limits {
            tasks: options.until.max_tasks,
            time: options.until.max_hours,
            cost: options.until.max_usd,
            ..Limits::default()
        };
        let wanted = Wanted {
            limits,
            agents: options.agents,
            lease: options.place.lease,
            patience: options.drain,
            keep_agents: options.place.keep_agents,
            telemetry: exporter.clone(),
        };
        let tell = |notice: &Notice| drop(if global.json { up::show_json(notice) } else { up::show(style, notice) });
        let worked = match works {
            true => {
                let worked = works::work(global, style, &installation, &engine, wanted, drain.clone(), tell).await;
                if let Ok(summary) = &worked
                    && !drain.is_requested()
                {
                    output::complain(&format!("note: taking no more work: {}; the API stays up", summary.ended));
                    drain.requested().await;
                }
                worked.map(drop)
            }
            false => tokio::select! {
                () = drain.requested() => Ok(()),
                never = projects::follow(&installation) => match never {},
            },
        };
        // The API answers until the last turn is over.
        close.request();
        worked
    };
    let (worked, served) = tokio::join!(working, service.run(close.clone()));
    exporter.close().await;
    worked?;
    served?;
    Ok(Exit::Done)
}

/// Listens, with this installation behind it.
pub async fn listen(
    global: &Global,
    installation: &Arc<Installation>,
    engine: &Engine,
    door: Door,
    telemetry: Exporter,
    draining: Stop,
) -> Result<Service, Failure> {
    let options = Options {
        listen: door.listen,
        public_url: door.public_url,
        proxies: Proxies::new(door.trusted_proxies),
        tokens_only: door.tokens_only,
        store: installation.store.clone(),
        engine: engine.clone(),
        data: installation.data.clone(),
        desk: Arc::new(FrontDesk::new(global.clone(), installation.clone())),
        clock: installation.clock.clone(),
        entropy: installation.entropy.clone(),
        pace: installation.settings()?.pace(),
        telemetry,
        sign_in: sign_in::options(installation).await?,
        draining,
    };
    Ok(Service::bind(options).await?)
}

pub async fn announce(global: &Global, style: Style, handle: &Handle) -> Result<(), Failure> {
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
