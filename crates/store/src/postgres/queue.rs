//! Claims, leases and the ends of tasks: one call each, the work is done by the functions of the migrations.

use harvest_core::{IllegalMove, Move, Outcome, OwnerId, SessionId, Stopping, TaskId, TaskStatus, Timestamp, TurnId};
use tokio_postgres::Row;

use super::connection::{Connection, Params};
use super::read::number;
use super::tell::{News, Teller};
use super::{hold, quota};
use crate::Error;
use crate::contract::{Admission, Claim, Lease, Reclaimed, Rows};
use crate::decode::{self, from_json, from_word, milliseconds, to_json};

pub(super) async fn claim(db: &Connection, teller: &Teller, claim: &Claim) -> Result<Vec<Lease>, Error> {
    let most = i32::try_from(claim.most).unwrap_or(i32::MAX);
    let turn = claim.turn.as_ref().map(TurnId::as_str);
    let until = claim.until.map(Timestamp::as_millisecond);
    let sql = "SELECT task, session, turn, fence, rows, last FROM harvest_claim($1, $2, $3, $4, $5, $6)";
    let rows =
        db.query(sql, &[&claim.owner.as_str(), &turn, &most, &claim.warm, &claim.at.to_string(), &until]).await?;
    rows.iter()
        .map(|row| {
            let lease = lease(row)?;
            teller.tell(News { session: lease.session.clone(), last: number(row, "last"), wake: false });
            Ok(lease)
        })
        .collect()
}

pub(super) async fn heartbeat(db: &Connection, owner: &OwnerId, until: Timestamp) -> Result<Vec<Lease>, Error> {
    let sql = "SELECT task, session, turn, fence, rows FROM harvest_heartbeat($1, $2)";
    leases(db, sql, &[&owner.as_str(), &until.as_millisecond()]).await
}

pub(super) async fn was_given_back(db: &Connection, lease: &Lease) -> Result<bool, Error> {
    let sql = "SELECT EXISTS (
        SELECT 1 FROM turns WHERE number = $1 AND fence = $2 AND status IN ('done', 'held', 'waiting'))";
    Ok(db.row(sql, &[&lease.rows.turn, &(lease.fence as i64)]).await?.get(0))
}

pub(super) async fn turns_of(db: &Connection, owner: &OwnerId) -> Result<Vec<Lease>, Error> {
    let sql =
        "SELECT turns.task_id, turns.session_id, turns.id, turns.fence, ARRAY[turns.task, turns.session, turns.number]
         FROM leases JOIN turns ON turns.number = leases.turn WHERE leases.owner = $1";
    leases(db, sql, &[&owner.as_str()]).await
}

pub(super) async fn take_over(
    db: &Connection,
    dead: &OwnerId,
    heir: &OwnerId,
    only: Option<&[SessionId]>,
) -> Result<Vec<Lease>, Error> {
    let only: Option<Vec<&str>> = only.map(|sessions| sessions.iter().map(SessionId::as_str).collect());
    let sql = "SELECT task, session, turn, fence, rows FROM harvest_take_over($1, $2, $3)";
    leases(db, sql, &[&dead.as_str(), &heir.as_str(), &only]).await
}

pub(super) async fn release(db: &Connection, dead: &OwnerId, at: Timestamp) -> Result<Vec<Lease>, Error> {
    let sql = "SELECT task, session, turn, fence, rows FROM harvest_release($1, $2)";
    leases(db, sql, &[&dead.as_str(), &at.to_string()]).await
}

pub(super) async fn reclaim(db: &Connection, now: Timestamp) -> Result<Reclaimed, Error> {
    let sql = "SELECT expired, due, next_due_ms FROM harvest_reclaim($1, $2)";
    let row = db.row(sql, &[&now.as_millisecond(), &now.to_string()]).await?;
    let (expired, due): (i64, i64) = (row.get(0), row.get(1));
    Ok(Reclaimed { expired: expired as usize, due: due as usize, next_due: milliseconds(row.get(2))? })
}

pub(super) async fn cancel(db: &Connection, task: &TaskId, at: Timestamp, why: &str) -> Result<Option<Outcome>, Error> {
    let row = db.row("SELECT harvest_cancel($1, $2, $3)", &[&task.as_str(), &at.to_string(), &why]).await?;
    row.get::<_, Option<&str>>(0).map(|outcome| from_json(outcome, "an outcome")).transpose()
}

pub(super) async fn newest_work(db: &Connection, session: &SessionId) -> Result<Option<String>, Error> {
    let sql = "SELECT harvest_newest_work(number) FROM sessions WHERE id = $1";
    let rows = db.query(sql, &[&session.as_str()]).await?;
    let row = rows.first().ok_or_else(|| Error::UnknownSession(session.to_string()))?;
    Ok(row.get(0))
}

pub(super) async fn claim_to_stop(
    db: &Connection,
    task: &TaskId,
    how: &Stopping,
    claim: &Claim,
) -> Result<Option<Lease>, Error> {
    let (wanted, weight) = (to_json(how, "a stop")?, i16::from(how.weight()));
    let until = claim.until.map(Timestamp::as_millisecond);
    let sql = "SELECT task, session, turn, fence, rows FROM harvest_claim_to_stop($1, $2, $3, $4, $5)";
    Ok(leases(db, sql, &[&task.as_str(), &wanted, &weight, &claim.owner.as_str(), &until]).await?.pop())
}

pub(super) async fn request_stop(db: &Connection, task: &TaskId, how: &Stopping) -> Result<bool, Error> {
    let (wanted, weight) = (to_json(how, "a stop")?, i16::from(how.weight()));
    Ok(db.row("SELECT harvest_request_stop($1, $2, $3)", &[&task.as_str(), &wanted, &weight]).await?.get(0))
}

pub(super) async fn stops(db: &Connection, owner: &OwnerId) -> Result<Vec<(Lease, Stopping)>, Error> {
    let sql = "SELECT turns.task_id, turns.session_id, turns.id, turns.fence,
             ARRAY[turns.task, turns.session, turns.number], stops.how
         FROM stops JOIN turns ON turns.number = stops.turn JOIN leases ON leases.turn = turns.number
         WHERE leases.owner = $1 AND turns.status = 'claimed'";
    let asked = db.query(sql, &[&owner.as_str()]).await?;
    asked.iter().map(|row| Ok((lease(row)?, decode::stopping(row.get(5))?))).collect()
}

/// In a transaction.
pub(super) async fn retry(db: &Connection, task: &TaskId, admission: &Admission, at: Timestamp) -> Result<(), Error> {
    if let Some(person) = &admission.person {
        hold::act_for(db, task, "done", person, admission.token.as_ref(), &admission.caps).await?;
        quota::count_line_for(db, task.as_str(), person).await?;
    }
    let row = db.row("SELECT harvest_retry($1, $2)", &[&task.as_str(), &at.to_string()]).await?;
    match row.get::<_, Option<&str>>(0) {
        None => quota::admit(db, &[admission], at).await,
        Some("") => Err(Error::UnknownTask(task.to_string())),
        Some(status) => {
            let from: TaskStatus = from_word(status, "tasks.status")?;
            Err(IllegalMove { from, by: Move::Retry }.into())
        }
    }
}

async fn leases(db: &Connection, sql: &str, params: Params<'_>) -> Result<Vec<Lease>, Error> {
    db.query(sql, params).await?.iter().map(lease).collect()
}

fn lease(row: &Row) -> Result<Lease, Error> {
    let rows: Vec<i64> = row.get(4);
    let &[task, session, turn] = rows.as_slice() else {
        return Err(Error::corrupt("an answer", "a lease without rows"));
    };
    Ok(Lease {
        task: decode::id(row.get(0))?,
        session: decode::id(row.get(1))?,
        turn: decode::id(row.get(2))?,
        fence: row.get::<_, i64>(3) as u64,
        rows: Rows { task, session, turn },
    })
}
