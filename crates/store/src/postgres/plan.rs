//! Turns that wait for a person: one call each.

use harvest_core::{EventBody, IllegalMove, Move, TaskId, TaskStatus, Timestamp};

use super::connection::Connection;
use crate::Error;
use crate::contract::{Lease, PlanDecision, PlanVerdict};
use crate::decode::{from_word, to_json};

pub(super) async fn ask_approval(
    db: &Connection,
    lease: &Lease,
    at: Timestamp,
    events: &[EventBody],
) -> Result<u64, Error> {
    let bodies = events.iter().map(|body| to_json(body, "an event")).collect::<Result<Vec<_>, _>>()?;
    let sql = "SELECT last, refused FROM harvest_ask_approval($1, $2, $3, $4)";
    let row = db.row(sql, &[&lease.rows.turn, &(lease.fence as i64), &at.to_string(), &bodies]).await?;
    match (row.get::<_, Option<i64>>(0), row.get::<_, Option<&str>>(1)) {
        (Some(last), _) => Ok(last as u64),
        (None, Some(status)) => Err(illegal(status, Move::AskApproval)?),
        (None, None) => Err(Error::StaleLease { turn: lease.turn.to_string(), held: lease.fence }),
    }
}

pub(super) async fn decide(
    db: &Connection,
    task: &TaskId,
    decision: &PlanDecision,
    at: Timestamp,
) -> Result<(), Error> {
    let event = to_json(&decision.event(), "an event")?;
    let rejected = (decision.verdict == PlanVerdict::Rejected).then_some(PlanDecision::REJECTED);
    let sql = "SELECT harvest_decide($1, $2, $3, $4)";
    let row = db.row(sql, &[&task.as_str(), &at.to_string(), &event, &rejected]).await?;
    match row.get::<_, Option<&str>>(0) {
        None => Ok(()),
        Some("") => Err(Error::UnknownTask(task.to_string())),
        Some(status) => Err(illegal(status, Move::Approve)?),
    }
}

fn illegal(status: &str, by: Move) -> Result<Error, Error> {
    let from: TaskStatus = from_word(status, "tasks.status")?;
    Ok(IllegalMove { from, by }.into())
}
