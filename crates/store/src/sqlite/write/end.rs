//! How tasks end without or after work, and how they begin again.

use harvest_core::{
    BranchName, EventBody, FailureReason, Move, Outcome, SessionId, Task, TaskId, TaskStatus, Timestamp, TurnId,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Effects, admit, claim, hold, journal};
use crate::Error;
use crate::contract::{Admission, Requester, Rows};
use crate::decode;
use crate::sqlite::{quota, read};

/// Writes down how a task ended, and gives its place away.
pub(crate) fn finish(
    db: &Connection,
    effects: &mut Effects,
    rows: Rows,
    by: Option<Move>,
    outcome: &Outcome,
    at: Timestamp,
) -> Result<(), Error> {
    let status = by.map(|by| journal::after(db, rows.task, by)).transpose()?;
    let evidence = outcome.evidence.as_ref().map(serde_json::to_string).transpose();
    let evidence = evidence.map_err(|error| Error::corrupt("evidence", error))?;
    db.prepare_cached(
        "UPDATE tasks SET reason = ?2, error = ?3, branch = ?4, commit_id = ?5, evidence = ?6, finished_at = ?7,
             status = coalesce(?8, status)
         WHERE number = ?1",
    )?
    .execute(params![
        rows.task,
        outcome.reason.map(FailureReason::as_str),
        outcome.error,
        outcome.branch.as_ref().map(BranchName::as_str),
        outcome.commit,
        evidence,
        at.to_string(),
        status.map(TaskStatus::as_str),
    ])?;
    recount(db, rows.task)?;
    let before: String =
        db.prepare_cached("SELECT status FROM turns WHERE number = ?1")?.query_row([rows.turn], |row| row.get(0))?;
    db.prepare_cached(
        "UPDATE turns SET status = 'done', owner = NULL, lease_until_ms = NULL, due_ms = NULL WHERE number = ?1",
    )?
    .execute([rows.turn])?;
    match before.as_str() {
        "ready" | "claimed" => admit::give_back(db, effects, rows.turn)?,
        _ => admit::forget_parked(db, rows.turn)?,
    }
    Ok(())
}

/// Those that waited for a task that has ended go, or go with it.
pub(crate) fn followers(db: &Connection, effects: &mut Effects, ended: &Outcome, at: Timestamp) -> Result<(), Error> {
    if ended.status == TaskStatus::Completed {
        return admit::unblock(db, effects, &ended.task_id);
    }
    // One ring after the other instead of one inside the other: a chain may be long.
    let mut failed = vec![ended.task_id.clone()];
    while let Some(task) = failed.pop() {
        for follower in admit::doomed(db, &task)? {
            if cancel_one(db, effects, &follower, at, "a task that it waits for did not complete")?.is_some() {
                failed.push(follower);
            }
        }
    }
    // Whoever waits for the queue to run empty wants to know.
    effects.queue = true;
    Ok(())
}

/// Cancels a task that no one works on, and those that go with it. `None` when someone does, or it has ended.
pub(crate) fn cancel(
    db: &Connection,
    effects: &mut Effects,
    task: &TaskId,
    at: Timestamp,
    why: &str,
) -> Result<Option<Outcome>, Error> {
    let outcome = cancel_one(db, effects, task, at, why)?;
    if let Some(outcome) = &outcome {
        followers(db, effects, outcome, at)?;
    }
    Ok(outcome)
}

fn cancel_one(
    db: &Connection,
    effects: &mut Effects,
    task: &TaskId,
    at: Timestamp,
    why: &str,
) -> Result<Option<Outcome>, Error> {
    let waiting = db
        .prepare_cached(
            "SELECT id, session_id, number, session, task FROM turns
             WHERE task_id = ?1 AND status IN ('ready', 'blocked', 'waiting', 'parked', 'held')",
        )?
        .query_row([task.as_str()], |row| {
            let rows = Rows { turn: row.get(2)?, session: row.get(3)?, task: row.get(4)? };
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, rows))
        })
        .optional()?;
    let Some((turn, session, rows)) = waiting else { return Ok(None) };
    let (turn_id, session_id): (TurnId, SessionId) = (decode::id(&turn)?, decode::id(&session)?);
    let Task { base, usage, cost_usd, branch, commit, .. } = read::task(db, task)?;
    let outcome = Outcome {
        task_id: task.clone(),
        session_id,
        status: TaskStatus::Cancelled,
        reason: Some(FailureReason::Cancelled),
        error: Some(why.to_owned()),
        branch,
        commit: commit.unwrap_or_else(|| base.clone()),
        base,
        evidence: None,
        usage,
        cost_usd,
    };
    finish(db, effects, rows, Some(Move::Cancel), &outcome, at)?;
    let events = [
        EventBody::TurnFinished { turn_id, reason: Some(FailureReason::Cancelled) },
        EventBody::TaskFinished(outcome.clone()),
    ];
    journal::write(db, effects, rows.session, &outcome.session_id, at, &events)?;
    Ok(Some(outcome))
}

/// Queues a failed or cancelled task once more.
pub(crate) fn retry(
    db: &Connection,
    effects: &mut Effects,
    task: &TaskId,
    admission: &Admission,
    at: Timestamp,
) -> Result<(), Error> {
    let before = read::task(db, task)?;
    before.status.after(Move::Retry)?;
    let (rows, session) = db
        .prepare_cached(
            "SELECT number, session, task, session_id FROM turns WHERE task_id = ?1 AND status = 'done'
             ORDER BY ordinal DESC LIMIT 1",
        )?
        .query_row([task.as_str()], |row| {
            let rows = Rows { turn: row.get(0)?, session: row.get(1)?, task: row.get(2)? };
            Ok((rows, row.get::<_, String>(3)?))
        })?;
    begin_again(db, rows.task, Move::Retry)?;
    // What was asked of it before it ended is over with that.
    claim::forget_stop(db, rows.turn)?;
    if let Some(person) = &admission.person {
        hold::act_for(db, rows.turn, &Requester { person: person.clone(), token: admission.token.clone() })?;
    }
    admit::admit(db, effects, rows.turn, task)?;
    let event = EventBody::TaskRetried {
        reason: before.reason.unwrap_or(FailureReason::Cancelled),
        error: before.error.unwrap_or_default(),
        tries: before.tries,
        delay_ms: 0,
    };
    journal::write(db, effects, rows.session, &decode::id(&session)?, at, &[event])?;
    quota::admit(db, &[(admission, task)], at)
}

/// A task that has ended is pending, and nothing of how it ended stays.
pub(crate) fn begin_again(db: &Connection, task: i64, by: Move) -> Result<(), Error> {
    journal::move_task(db, task, by)?;
    db.prepare_cached(
        "UPDATE tasks SET reason = NULL, error = NULL, evidence = NULL, finished_at = NULL WHERE number = ?1",
    )?
    .execute([task])?;
    recount(db, task)
}

/// What the task adds to the statistics has changed.
fn recount(db: &Connection, task: i64) -> Result<(), Error> {
    db.prepare_cached("INSERT OR IGNORE INTO uncounted VALUES (?1)")?.execute([task])?;
    Ok(())
}
