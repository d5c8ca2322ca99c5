//! `harvest queue …`: pauses, resizes and caps of the queue.

use harvest_core::Code;
use harvest_store::{QueueChange, WorkerAgents};

use crate::cli::{CapSize, Global, PoolSize, Queue};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::remote::{self, Remote};
use crate::view::{Style, clean};

pub async fn queue(global: &Global, environment: Environment, command: Queue) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    if let Some(remote) = Remote::of(global, &environment)? {
        return remote::queue(global, style, &remote, command).await;
    }
    let installation = Installation::open(global, environment).await?;
    let store = &installation.store;
    let pause = |paused| QueueChange { paused: Some(paused), agents: None };
    match &command {
        Queue::Resize { agents: PoolSize(agents) } => {
            let agents = agents.map_or(WorkerAgents::AsStarted, WorkerAgents::Exactly);
            store.change_queue(QueueChange { paused: None, agents: Some(agents) }).await?;
        }
        Queue::Pause => store.change_queue(pause(true)).await?,
        Queue::Resume => store.change_queue(pause(false)).await?,
        Queue::Cap { name, size: CapSize(size) } => {
            if !harvest_engine::may_change_cap(store.as_ref(), name, *size).await? {
                let message = "the name contains a user name, password, query or key; names of caps are stored and \
                               visible to others";
                return Err(Failure::refused(Code::BadOption, message, "name it as `harvest repo list` shows it"));
            }
            if let Err(unknown) = harvest_engine::set_cap(store.as_ref(), name, *size).await? {
                return Err(Failure::refused(Code::BadOption, unknown.to_string(), unknown.help()));
            }
            if size.is_some()
                && let Some(address) = harvest_engine::unknown_repository(store.as_ref(), name).await?
            {
                output::complain(&clean(&format!("note: no known repository has the address {address}")));
            }
        }
    }
    let _ = match global.json {
        true => output::json(
            &harvest_server::read_queue(store.as_ref(), installation.data.path(), installation.clock.now()).await?,
        ),
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
