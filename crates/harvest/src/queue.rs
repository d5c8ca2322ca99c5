//! `harvest queue …`: how the queue is worked off, changed while it is.

use harvest_core::Code;
use harvest_store::QueueSettings;

use crate::cli::{CapSize, Global, PoolSize, Queue};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::remote::{self, Remote};
use crate::view::Style;

pub async fn queue(global: &Global, environment: Environment, command: Queue) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    if let Some(remote) = Remote::of(global, &environment)? {
        return remote::queue(global, style, &remote, command).await;
    }
    let installation = Installation::open(global, environment).await?;
    let store = &installation.store;
    let settings = store.queue_settings().await?;
    match &command {
        Queue::Resize { agents: PoolSize(agents) } => {
            store.set_queue(QueueSettings { agents: *agents, ..settings }).await?;
        }
        Queue::Pause => store.set_queue(QueueSettings { paused: true, ..settings }).await?,
        Queue::Resume => store.set_queue(QueueSettings { paused: false, ..settings }).await?,
        Queue::Cap { name, size: CapSize(size) } => {
            if size.is_some() && harvest_engine::cap_holds_access(name) {
                let message =
                    "the name holds a user, a password, a query or a key, and names of caps are stored and shown";
                return Err(Failure::refused(Code::BadOption, message, "name it as `harvest repo list` shows it"));
            }
            store.set_cap(&harvest_engine::cap_name(name), *size).await?;
        }
    }
    let _ = match global.json {
        true => output::json(&harvest_server::Queue::read(store.as_ref()).await?),
        false => output::line(&words(style, &command)),
    };
    Ok(Exit::Done)
}

/// What holds once it is done.
pub fn words(style: Style, command: &Queue) -> String {
    let said = match command {
        Queue::Resize { agents: PoolSize(Some(1)) } => "each worker runs 1 agent".to_owned(),
        Queue::Resize { agents: PoolSize(Some(agents)) } => format!("each worker runs {agents} agents"),
        Queue::Resize { agents: PoolSize(None) } => "each worker runs as many agents as it was started with".to_owned(),
        Queue::Pause => "the queue is paused; running tasks continue".to_owned(),
        Queue::Resume => "the queue is running again".to_owned(),
        Queue::Cap { name, size: CapSize(Some(1)) } => format!("at most 1 task of {name} at a time"),
        Queue::Cap { name, size: CapSize(Some(size)) } => format!("at most {size} tasks of {name} at a time"),
        Queue::Cap { name, size: CapSize(None) } => format!("no limit for {name}"),
    };
    format!("{} {said}", style.ok())
}
