//! `harvest dev …`: what stands in for the world outside, to try things without accounts.

use std::path::Path;
use std::sync::Arc;

use harvest_core::Code;
use harvest_engine::Stop;
use harvest_forge::fake::{Fake, Hook, Options, Redelivery};
use harvest_vault::{ExposeSecret, SecretString};
use serde_json::json;
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;

use crate::cli::{Dev, FakeGithub, Global};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::{SystemClock, data_path};
use crate::output;
use crate::run::on_signals;
use crate::view::{Style, clean};

pub async fn dev(global: &Global, environment: Environment, command: Dev) -> Result<Exit, Failure> {
    match command {
        Dev::FakeGithub(options) => fake_github(global, &environment, options).await,
    }
}

async fn fake_github(global: &Global, environment: &Environment, options: FakeGithub) -> Result<Exit, Failure> {
    let style = Style::detect(environment);
    let folder = match &options.folder {
        Some(folder) => folder.clone(),
        None => data_path(global, environment)?.with_extension("fake-github"),
    };
    let folder = std::path::absolute(&folder).map_err(|error| {
        Failure::refused(Code::BadOption, format!("--folder cannot be used: {error}"), "name another folder")
    })?;
    let was_there = folder.exists();
    let secret = options.webhook_secret.clone().unwrap_or_else(|| "harvest".to_owned());
    let (notices, mut told) = mpsc::unbounded_channel::<String>();
    let started = start(&folder, &secret, options, notices).await;
    let fake = started.inspect_err(|_| {
        // What was made for nothing goes again; a folder that someone has used stays.
        if !was_there {
            let _ = std::fs::remove_dir_all(&folder);
        }
    })?;
    tokio::spawn(async move {
        while let Some(text) = told.recv().await {
            output::complain(&format!("note: {}", clean(&text)));
        }
    });
    let app = Fake::app(Some(&secret));
    let _ = if global.json {
        output::json(&json!({ "type": "listening", "url": fake.url(), "credential": app.expose_secret() }))
    } else {
        let url = fake.url();
        output::line(&format!(
            "{} fake GitHub listens on {}\n  add its App: printf %s '{}' | harvest credential add github --base-url {url} --from-stdin\n  \
             then start: harvest serve, or without a model key: harvest serve --model-script FILE\n  \
             sign in as any user, for example ada: Authorization: Bearer token-ada",
            style.ok(),
            style.bold(url),
            app.expose_secret()
        ))
    };
    let stop = Stop::default();
    on_signals(&[SignalKind::interrupt(), SignalKind::terminate()], &stop, "ending", None);
    stop.requested().await;
    Ok(Exit::Done)
}

async fn start(
    folder: &Path,
    secret: &str,
    options: FakeGithub,
    notices: mpsc::UnboundedSender<String>,
) -> Result<Fake, Failure> {
    let hook = options.webhook_url.map(|url| Hook {
        url,
        secret: SecretString::from(secret.to_owned()),
        redelivery: Redelivery::UntilReached,
    });
    let (folder, clock) = (folder.to_owned(), Arc::new(SystemClock));
    let fake = Fake::start(Options { listen: options.listen, folder, hook, clock, notices: Some(notices) }).await?;
    for (name, path) in &options.repository {
        fake.add_repository(name, path.as_deref()).await?;
    }
    Ok(fake)
}
