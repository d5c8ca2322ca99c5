//! `harvest queue …` over HTTP.

use harvest_api_types::{CapChange, QueueChange};
use serde_json::Value;

use super::Remote;
use crate::cli::{CapSize, Global, PoolSize, Queue};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::queue::words;
use crate::view::Style;

pub async fn queue(global: &Global, style: Style, remote: &Remote, command: Queue) -> Result<Exit, Failure> {
    let pause = |paused| QueueChange { paused: Some(paused), agents: None };
    let change = match &command {
        Queue::Resize { agents: PoolSize(agents) } => QueueChange { paused: None, agents: Some(agents.unwrap_or(0)) },
        Queue::Pause => pause(true),
        Queue::Resume => pause(false),
        Queue::Cap { name, size: CapSize(size) } => {
            let change = CapChange { name: name.clone(), size: *size };
            return show(global, style, &command, &remote.put("/api/queue/caps", &change).await?);
        }
    };
    show(global, style, &command, &remote.patch("/api/queue", &change).await?)
}

fn show(global: &Global, style: Style, command: &Queue, queue: &Value) -> Result<Exit, Failure> {
    let _ = if global.json { output::json(queue) } else { output::line(&words(style, command)) };
    Ok(Exit::Done)
}
