//! Who interrupted a task that waits to be resumed, and why; and for what reasons its agents were stopped.

use std::collections::BTreeMap;
use std::time::Duration;

use harvest_core::{AttemptId, EventBody, FailureReason, TaskStatus, Timestamp, TurnStatus};
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

/// The reasons for which attempts ended.
pub type Ends = BTreeMap<AttemptId, FailureReason>;

/// What the journal of a task says about its interruptions.
#[derive(Debug, Default)]
pub struct Interruptions {
    /// The last one, of a task that nobody has resumed since.
    pub last: Option<Interruption>,
    pub ends: Ends,
    /// When a task that waits for its next attempt is tried again.
    pub next_try: Option<Timestamp>,
}

/// Reads the journal where an attempt has ended without an exit code, or the task is interrupted or waits for its retry.
pub async fn of(installation: &Installation, detail: &TaskDetail) -> Result<Interruptions, Failure> {
    let mut found = Interruptions::default();
    let is_interrupted = detail.task.status == TaskStatus::Interrupted;
    for session in &detail.sessions {
        let mut attempts = session.turns.iter().flat_map(|turn| &turn.attempts);
        let was_stopped = attempts.any(|attempt| attempt.finished_at.is_some() && attempt.exit_code.is_none());
        let waits = session.turns.iter().any(|turn| turn.status == TurnStatus::Waiting);
        if !is_interrupted && !was_stopped && !waits {
            continue;
        }
        let mut follow = Follow::new(installation.store.clone(), session.id.clone());
        loop {
            let events = follow.now().await?;
            if events.is_empty() {
                break;
            }
            for event in events {
                match event.body {
                    EventBody::SessionInterrupted { author, reason, .. } if is_interrupted => {
                        found.last = Some(Interruption { author, reason });
                    }
                    EventBody::TaskRetried { delay_ms, .. } if waits => {
                        found.next_try = event.at.saturating_add(Duration::from_millis(delay_ms)).ok();
                    }
                    EventBody::AgentFinished { attempt_id, reason: Some(reason), .. } => {
                        found.ends.insert(attempt_id, reason);
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(found)
}
