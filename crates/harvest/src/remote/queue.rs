//! `harvest queue …` over HTTP.

use harvest_core::Code;
use serde_json::{Value, json};

use super::Remote;
use crate::cli::{Global, PoolSize, Queue};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::queue::words;
use crate::view::Style;

pub async fn queue(global: &Global, style: Style, remote: &Remote, command: Queue) -> Result<Exit, Failure> {
    let change = match &command {
        Queue::Resize { agents: PoolSize(agents) } => json!({ "agents": agents.unwrap_or(0) }),
        Queue::Pause => json!({ "paused": true }),
        Queue::Resume => json!({ "paused": false }),
        Queue::Cap { .. } => {
            let help = "unset HARVEST_URL on the machine that has the data directory or the database";
            return Err(Failure::refused(
                Code::BadOption,
                "limits on what is worked on are not set over the API",
                help,
            ));
        }
    };
    let queue: Value = remote.patch("/api/queue", &change).await?;
    let _ = if global.json { output::json(&queue) } else { output::line(&words(style, &command)) };
    Ok(Exit::Done)
}
