//! What a task that awaits approval proposes: a plan, or its delivery.

use harvest_core::{EventBody, Evidence, TaskStatus};
use harvest_store::TaskDetail;
use serde::Serialize;

use crate::failure::Failure;
use crate::follow::Follow;
use crate::installation::Installation;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Proposal {
    Plan { text: String, reviews: Vec<Review> },
    Delivery { commit: String, files: Vec<String>, evidence: Option<Box<Evidence>> },
}

/// What another agent says about a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Review {
    pub agent: String,
    pub text: String,
}

/// The last proposal, of a task that waits for someone to decide on it.
pub async fn of(installation: &Installation, detail: &TaskDetail) -> Result<Option<Proposal>, Failure> {
    let Some(session) = detail.sessions.last().filter(|_| detail.task.status == TaskStatus::AwaitingApproval) else {
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
            match event.body {
                EventBody::PlanProposed { text } => found = Some(Proposal::Plan { text, reviews: Vec::new() }),
                EventBody::PlanReviewed { agent, text } => {
                    if let Some(Proposal::Plan { reviews, .. }) = &mut found {
                        reviews.push(Review { agent, text });
                    }
                }
                EventBody::DeliveryProposed { commit, files, evidence, .. } => {
                    found = Some(Proposal::Delivery { commit, files, evidence: evidence.map(Box::new) });
                }
                _ => {}
            }
        }
    }
}
