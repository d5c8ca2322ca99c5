//! Who interrupted a task that waits to be resumed, and why.

use harvest_core::{EventBody, TaskStatus};
use harvest_store::TaskDetail;
use serde::Serialize;

use crate::failure::Failure;
use crate::follow::Follow;
use crate::installation::Installation;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interruption {
    pub author: String,
    pub reason: Option<String>,
}

/// The last interruption, of a task that nobody has resumed since.
pub async fn of(installation: &Installation, detail: &TaskDetail) -> Result<Option<Interruption>, Failure> {
    let Some(session) = detail.sessions.last().filter(|_| detail.task.status == TaskStatus::Interrupted) else {
        return Ok(None);
    };
    let mut follow = Follow::new(installation.store.clone(), session.id.clone());
    let mut found = None;
    loop {
        let events = follow.now().await?;
        if events.is_empty() {
            return Ok(found);
        }
        for event in events {
            if let EventBody::SessionInterrupted { author, reason, .. } = event.body {
                found = Some(Interruption { author, reason });
            }
        }
    }
}
