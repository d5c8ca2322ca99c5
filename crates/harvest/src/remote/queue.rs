//! `harvest queue …` over HTTP.

use serde_json::{Value, json};

use super::Remote;
use crate::cli::{CapSize, Global, PoolSize, Queue};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::queue::words;
use crate::view::Style;

pub async fn queue(global: &Global, style: Style, remote: &Remote, command: Queue) -> Result<Exit, Failure> {
    let change = match &command {
        Queue::Resize { agents: PoolSize(agents) } => json!({ "agents": agents.unwrap_or(0) }),
        Queue::Pause => json!({ "paused": true }),
        Queue::Resume => json!({ "paused": false }),
        Queue::Cap { name, size: CapSize(size) } => json!({ "name": name, "size": size }),
    };
    let queue: Value = match &command {
        Queue::Cap { .. } => remote.put("/api/queue/caps", &change).await?,
        _ => remote.patch("/api/queue", &change).await?,
    };
    let _ = if global.json { output::json(&queue) } else { output::line(&words(style, &command)) };
    Ok(Exit::Done)
}
