//! `harvest queue …`: how the queue is worked off, changed while it is.

use harvest_store::QueueSettings;

use crate::cli::{CapSize, Global, PoolSize, Queue};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::view::Style;

pub async fn queue(global: &Global, environment: Environment, command: Queue) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    let installation = Installation::open(global, environment).await?;
    let store = &installation.store;
    let settings = store.queue_settings().await?;
    let said = match command {
        Queue::Resize { agents: PoolSize(agents) } => {
            store.set_queue(QueueSettings { agents, ..settings }).await?;
            match agents {
                Some(agents) => format!("each worker runs {agents} agents"),
                None => "each worker runs as many agents as it was started with".to_owned(),
            }
        }
        Queue::Pause => {
            store.set_queue(QueueSettings { paused: true, ..settings }).await?;
            "the queue is paused; what is under way goes on".to_owned()
        }
        Queue::Resume => {
            store.set_queue(QueueSettings { paused: false, ..settings }).await?;
            "the queue goes on".to_owned()
        }
        Queue::Cap { name, size: CapSize(size) } => {
            store.set_cap(&name, size).await?;
            match size {
                Some(size) => format!("at most {size} tasks of {name} at a time"),
                None => format!("no limit for {name}"),
            }
        }
    };
    let _ =
        if global.json { output::json(&store.queue().await?) } else { output::line(&format!("{} {said}", style.ok())) };
    Ok(Exit::Done)
}
