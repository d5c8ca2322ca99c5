//! How tasks end without or after work, and how they begin again.

use harvest_core::{
    BranchName, EventBody, FailureReason, Move, Outcome, SessionId, Task, TaskId, TaskStatus, Timestamp, TurnId,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Effects, admit, journal};
use crate::Error;
use crate::decode;
use crate::sqlite::read;

/// Writes down how a task ended, and gives its place away.
pub(crate) fn finish(
    db: &Connection,
    effects: &mut Effects,
    turn: &TurnId,
    outcome: &Outcome,
    at: Timestamp,
) -> Result<(), Error> {
    let evidence = outcome.evidence.as_ref().map(serde_json::to_string).transpose();
    let evidence = evidence.map_err(|error| Error::corrupt("evidence", error))?;
    db.prepare_cached(
        "UPDATE tasks SET reason = ?2, error = ?3, branch = ?4, commit_id = ?5, evidence = ?6, finished_at = ?7
         WHERE id = ?1",
    )?
    .execute(params![
        outcome.task_id.as_str(),
        outcome.reason.map(FailureReason::as_str),
        outcome.error,
        outcome.branch.as_ref().map(BranchName::as_str),
        outcome.commit,
        evidence,
        at.to_string(),
    ])?;
    let (number, before): (i64, String) = db
        .prepare_cached("SELECT number, status FROM turns WHERE id = ?1")?
        .query_row([turn.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    db.prepare_cached(
        "UPDATE turns SET status = 'done', owner = NULL, lease_until_ms = NULL, due_ms = NULL WHERE number = ?1",
    )?
    .execute([number])?;
    db.prepare_cached("UPDATE turn_caps SET parked = 0 WHERE turn = ?1 AND parked = 1")?.execute([number])?;
    if before == "ready" || before == "claimed" {
        admit::give_back(db, effects, number)?;
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
            "SELECT id, session_id FROM turns
             WHERE task_id = ?1 AND status IN ('ready', 'blocked', 'waiting', 'parked')",
        )?
        .query_row([task.as_str()], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    let Some((turn, session)) = waiting else { return Ok(None) };
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
    journal::move_task(db, task, Move::Cancel)?;
    finish(db, effects, &turn_id, &outcome, at)?;
    let events = [
        EventBody::TurnFinished { turn_id, reason: Some(FailureReason::Cancelled) },
        EventBody::TaskFinished(outcome.clone()),
    ];
    journal::write(db, effects, &outcome.session_id, at, &events)?;
    Ok(Some(outcome))
}

/// Queues a failed or cancelled task once more.
pub(crate) fn retry(db: &Connection, effects: &mut Effects, task: &TaskId, at: Timestamp) -> Result<(), Error> {
    let before = read::task(db, task)?;
    journal::move_task(db, task, Move::Retry)?;
    db.prepare_cached(
        "UPDATE tasks SET reason = NULL, error = NULL, evidence = NULL, finished_at = NULL WHERE id = ?1",
    )?
    .execute([task.as_str()])?;
    let (turn, session): (i64, String) = db
        .prepare_cached("SELECT number, session_id FROM turns WHERE task_id = ?1 ORDER BY ordinal DESC LIMIT 1")?
        .query_row([task.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    admit::admit(db, effects, turn, task)?;
    let event = EventBody::TaskRetried {
        reason: before.reason.unwrap_or(FailureReason::Cancelled),
        error: before.error.unwrap_or_default(),
        tries: before.tries,
        delay_ms: 0,
    };
    journal::write(db, effects, &decode::id(&session)?, at, &[event])?;
    Ok(())
}
