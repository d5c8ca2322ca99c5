//! Turns that wait for a person: one call each.

use harvest_core::{EventBody, IllegalMove, Move, Prompt, TaskId, TaskStatus, Timestamp, TokenId};

use tokio_postgres::Row;

use super::connection::Connection;
use super::quota;
use super::step::text;
use crate::Error;
use crate::contract::{Lease, PlanDecision, PlanVerdict, Requester};
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
    if let Some(by) = decision.instructor() {
        instruct(db, task, by, at).await?;
    }
    let event = to_json(&decision.event(), "an event")?;
    let rejected = (decision.verdict == PlanVerdict::Rejected).then_some(PlanDecision::REJECTED);
    let sql = "SELECT harvest_decide($1, $2, $3, $4)";
    let row = db.row(sql, &[&task.as_str(), &at.to_string(), &event, &rejected]).await?;
    allowed(row.get(0), task, Move::Approve)
}

pub(super) async fn resume(
    db: &Connection,
    task: &TaskId,
    by: &Requester,
    prompt: Option<&Prompt>,
    at: Timestamp,
) -> Result<(), Error> {
    if prompt.is_some() {
        instruct(db, task, by, at).await?;
    }
    let prompt = prompt.map(Prompt::as_str);
    let sql = "SELECT harvest_resume($1, $2, $3, $4)";
    let row = db.row(sql, &[&task.as_str(), &at.to_string(), &text(&by.person), &prompt]).await?;
    allowed(row.get(0), task, Move::Resume)
}

/// The turn that waits for a person acts for this one from now on, if their quotas leave room for its task.
async fn instruct(db: &Connection, task: &TaskId, by: &Requester, at: Timestamp) -> Result<(), Error> {
    db.query("SELECT harvest_lock(true)", &[]).await?;
    let under_way = quota::under_way(db, &by.limits).await?;
    act_for(db, task, "held", &by.person, by.token.as_ref(), &by.caps).await?;
    quota::admit_more(db, &by.limits, &under_way, at).await
}

/// The last turn of the task with this status acts for a person from now on, counts against their caps, and spends with the
/// token that they asked with.
/// It is written before the turn moves on, in the same transaction.
pub(super) async fn act_for(
    db: &Connection,
    task: &TaskId,
    status: &str,
    person: &str,
    token: Option<&TokenId>,
    caps: &[String],
) -> Result<(), Error> {
    db.query("SELECT harvest_lock(true)", &[]).await?;
    let sql = "UPDATE turns SET acts_for = $3, counts_for = $3, token = $4 WHERE number =
         (SELECT number FROM turns WHERE task_id = $1 AND status = $2 ORDER BY fence > 0 DESC, ordinal DESC LIMIT 1)
         RETURNING number";
    let found = db.query(sql, &[&task.as_str(), &status, &text(person), &token.map(TokenId::as_str)]).await?;
    let Some(turn) = found.first().map(|row| row.get::<_, i64>(0)).filter(|_| !caps.is_empty()) else {
        return Ok(());
    };
    // One that counts against nothing goes on so.
    let sql = "INSERT INTO turn_caps (turn, cap, rank)
         SELECT $1, named, (SELECT max(rank) FROM turn_caps WHERE turn = $1) FROM unnest($2::text[]) AS named
         WHERE EXISTS (SELECT 1 FROM turn_caps WHERE turn = $1) ON CONFLICT DO NOTHING";
    db.execute(sql, &[&turn, &caps]).await?;
    let sql = "DELETE FROM turn_caps WHERE turn = $1 AND cap LIKE 'user:%' AND cap <> ALL($2::text[])";
    db.execute(sql, &[&turn, &caps]).await.map(drop)
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
