//! Turns that wait for a person: one call each.

use harvest_core::{EventBody, IllegalMove, Move, Prompt, TaskId, TaskStatus, Timestamp};

use tokio_postgres::Row;

use super::connection::Connection;
use crate::Error;
use crate::contract::{Lease, PlanDecision, PlanVerdict};
use crate::decode::{from_word, to_json, to_word};

pub(super) async fn hold(
    db: &Connection,
    lease: &Lease,
    by: Move,
    at: Timestamp,
    events: &[EventBody],
) -> Result<u64, Error> {
    let bodies = events.iter().map(|body| to_json(body, "an event")).collect::<Result<Vec<_>, _>>()?;
    let sql = "SELECT last, refused FROM harvest_hold($1, $2, $3, $4, $5)";
    let row = db.row(sql, &[&lease.rows.turn, &(lease.fence as i64), &to_word(&by)?, &at.to_string(), &bodies]).await?;
    given_back(&row, lease, by)
}

pub(super) async fn put_off(
    db: &Connection,
    lease: &Lease,
    due: Timestamp,
    at: Timestamp,
    events: &[EventBody],
) -> Result<u64, Error> {
    let bodies = events.iter().map(|body| to_json(body, "an event")).collect::<Result<Vec<_>, _>>()?;
    let sql = "SELECT last, refused FROM harvest_put_off($1, $2, $3, $4, $5)";
    let (turn, fence, due) = (lease.rows.turn, lease.fence as i64, due.as_millisecond());
    given_back(&db.row(sql, &[&turn, &fence, &due, &at.to_string(), &bodies]).await?, lease, Move::LoseLease)
}

/// The number of the last event, or why there is none.
fn given_back(row: &Row, lease: &Lease, by: Move) -> Result<u64, Error> {
    match (row.get::<_, Option<i64>>(0), row.get::<_, Option<&str>>(1)) {
        (Some(last), _) => Ok(last as u64),
        (None, Some(status)) => Err(illegal(status, by)?),
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
    allowed(row.get(0), task, Move::Approve)
}

pub(super) async fn resume(
    db: &Connection,
    task: &TaskId,
    author: &str,
    prompt: Option<&Prompt>,
    at: Timestamp,
) -> Result<(), Error> {
    let prompt = prompt.map(Prompt::as_str);
    let sql = "SELECT harvest_resume($1, $2, $3, $4)";
    let row = db.row(sql, &[&task.as_str(), &at.to_string(), &author, &prompt]).await?;
    allowed(row.get(0), task, Move::Resume)
}

/// What the status that forbids it says, or the empty one when there is no such task.
fn allowed(refused: Option<&str>, task: &TaskId, by: Move) -> Result<(), Error> {
    match refused {
        None => Ok(()),
        Some("") => Err(Error::UnknownTask(task.to_string())),
        Some(status) => Err(illegal(status, by)?),
    }
}

fn illegal(status: &str, by: Move) -> Result<Error, Error> {
    let from: TaskStatus = from_word(status, "tasks.status")?;
    Ok(IllegalMove { from, by }.into())
}
