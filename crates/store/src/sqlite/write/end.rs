//! How tasks end without or after work, and how they begin again.

use harvest_core::{
    BranchName, EventBody, FailureReason, Move, Outcome, SessionId, Task, TaskId, TaskKind, TaskStatus, Timestamp,
    TurnId,
};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Deserialize;

use super::{Effects, admit, claim, hold, journal};
use crate::Error;
use crate::contract::{Admission, Rows};
use crate::decode;
use crate::sqlite::{quota, read, work};
use crate::words;

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
        "UPDATE turns SET status = 'done', ended = ?2, owner = NULL, lease_until_ms = NULL, due_ms = NULL
         WHERE number = ?1",
    )?
    .execute(params![rows.turn, outcome.status.as_str()])?;
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

/// Cancels what a task waits to do, and those tasks that go with it. A follow-up or retry that nobody has begun is withdrawn,
/// and the task has the result again that it had before. `None` when someone works on it, or it has ended.
pub(crate) fn cancel(
    db: &Connection,
    effects: &mut Effects,
    task: &TaskId,
    at: Timestamp,
    why: &str,
) -> Result<Option<Outcome>, Error> {
    let outcome = match withdraw(db, effects, task, at)? {
        Some(former) => Some(former),
        None => cancel_one(db, effects, task, at, why)?,
    };
    if let Some(outcome) = &outcome {
        followers(db, effects, outcome, at)?;
    }
    Ok(outcome)
}

/// Withdraws a follow-up or retry that nobody has begun, and the follow-ups in line behind it. `None` when there is none.
fn withdraw(db: &Connection, effects: &mut Effects, task: &TaskId, at: Timestamp) -> Result<Option<Outcome>, Error> {
    let waiting = db
        .prepare_cached(
            "SELECT turns.id, turns.session_id, turns.number, turns.session, turns.task, turns.status, tasks.former
             FROM turns JOIN tasks ON tasks.number = turns.task
             WHERE turns.task_id = ?1 AND turns.status IN ('ready', 'blocked', 'parked') AND tasks.former IS NOT NULL
                 AND turns.fence = coalesce(json_extract(tasks.former, '$.fence'), 0)",
        )?
        .query_row([task.as_str()], |row| {
            let rows = Rows { turn: row.get(2)?, session: row.get(3)?, task: row.get(4)? };
            let text = |column| row.get::<_, String>(column);
            Ok((text(0)?, text(1)?, rows, text(5)?, text(6)?))
        })
        .optional()?;
    let Some((turn, session, rows, status, former)) = waiting else { return Ok(None) };
    let former: Former = decode::from_json(&former, "tasks.former")?;
    let in_line: Vec<(i64, String)> = db
        .prepare_cached("SELECT number, id FROM turns WHERE task = ?1 AND status = 'queued' ORDER BY ordinal")?
        .query_map([rows.task], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    // A turn that is not tried again ended before that, and stays as it was.
    let follow_up = Some((rows.turn, turn)).filter(|_| former.fence.is_none());
    let withdrawn: Vec<(i64, String)> = follow_up.into_iter().chain(in_line).collect();
    let mut events = Vec::new();
    db.prepare_cached("UPDATE turns SET status = 'done' WHERE number = ?1")?.execute([rows.turn])?;
    for (number, id) in &withdrawn {
        // Turns after it are not to work with an agent or a model that was asked for in it.
        db.prepare_cached(
            "UPDATE turns SET status = 'done', ended = 'withdrawn', agent = NULL, model = NULL WHERE number = ?1",
        )?
        .execute([number])?;
        let turn_id: TurnId = decode::id(id)?;
        events.push(EventBody::TurnFinished { turn_id, reason: Some(FailureReason::Cancelled) });
    }
    db.prepare_cached(
        "UPDATE tasks SET status = ?2, reason = ?3, error = ?4, evidence = ?5, finished_at = ?6, tries = ?7,
             former = NULL
         WHERE number = ?1",
    )?
    .execute(params![
        rows.task,
        former.status,
        former.reason,
        former.error,
        former.evidence,
        former.finished_at,
        former.tries
    ])?;
    recount(db, rows.task)?;
    match status.as_str() {
        "ready" => admit::give_back(db, effects, rows.turn)?,
        _ => admit::forget_parked(db, rows.turn)?,
    }
    let outcome = outcome_of(read::task(db, task)?, decode::id(&session)?);
    events.push(EventBody::TaskFinished(outcome.clone()));
    journal::write(db, effects, rows.session, &outcome.session_id, at, &events)?;
    Ok(Some(outcome))
}

/// How a task had ended before its follow-up or retry.
#[derive(Deserialize)]
struct Former {
    /// The fencing number of the turn that was to be tried again; `None` for a follow-up, which has a turn of its own.
    fence: Option<u64>,
    status: String,
    reason: Option<String>,
    error: Option<String>,
    evidence: Option<String>,
    finished_at: Option<String>,
    tries: u32,
}

fn outcome_of(task: Task, session_id: SessionId) -> Outcome {
    let Task { id, status, reason, error, branch, commit, base, evidence, usage, cost_usd, .. } = task;
    let commit = commit.unwrap_or_else(|| base.clone());
    Outcome { task_id: id, session_id, status, reason, error, branch, commit, base, evidence, usage, cost_usd }
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
    let Task { kind, settings, base, usage, cost_usd, branch, commit, .. } = read::task(db, task)?;
    let origin = settings.origin.as_ref().map(|origin| &origin.commit);
    let start = commit.as_ref().or(origin).unwrap_or(&base);
    let work = work::newest(db, rows.session)?.filter(|work| kind != TaskKind::PrReview && work != start);
    let why = if work.is_some() { words::with_work(why) } else { why.to_owned() };
    let outcome = Outcome {
        task_id: task.clone(),
        session_id,
        status: TaskStatus::Cancelled,
        reason: Some(FailureReason::Cancelled),
        error: Some(why),
        branch,
        commit: work.or(commit).unwrap_or_else(|| base.clone()),
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
            // A follow-up that was withdrawn is not what is tried again.
            "SELECT number, session, task, session_id FROM turns WHERE task_id = ?1 AND status = 'done'
             ORDER BY fence > 0 DESC, ordinal DESC LIMIT 1",
        )?
        .query_row([task.as_str()], |row| {
            let rows = Rows { turn: row.get(0)?, session: row.get(1)?, task: row.get(2)? };
            Ok((rows, row.get::<_, String>(3)?))
        })?;
    keep_result(db, rows.task)?;
    db.prepare_cached(
        "UPDATE tasks SET former = json_set(former, '$.fence', (SELECT fence FROM turns WHERE number = ?2))
         WHERE number = ?1",
    )?
    .execute([rows.task, rows.turn])?;
    begin_again(db, rows.task, Move::Retry)?;
    // What was asked of it before it ended is over with that.
    claim::forget_stop(db, rows.turn)?;
    if let Some(person) = &admission.person {
        hold::act_for(db, rows.turn, person, admission.token.as_ref(), &admission.caps)?;
        quota::count_line_for(db, rows.task, person)?;
    }
    admit::admit(db, effects, rows.turn, task)?;
    let event = EventBody::TaskRetried {
        reason: before.reason.unwrap_or(FailureReason::Cancelled),
        error: before.error.unwrap_or_default(),
        tries: before.tries,
        delay_ms: 0,
    };
    journal::write(db, effects, rows.session, &decode::id(&session)?, at, &[event])?;
    quota::admit(db, &[admission], at)
}

/// A task that has ended is pending for a follow-up, which has its own tries. How it had ended is kept beside it.
pub(crate) fn follow_up(db: &Connection, task: i64, by: Move) -> Result<(), Error> {
    keep_result(db, task)?;
    begin_again(db, task, by)?;
    db.prepare_cached("UPDATE tasks SET tries = 0 WHERE number = ?1")?.execute([task])?;
    Ok(())
}

/// Keeps how a task ended, for the case that what begins now is cancelled while it waits.
fn keep_result(db: &Connection, task: i64) -> Result<(), Error> {
    db.prepare_cached(
        "UPDATE tasks SET former = json_object('status', status, 'reason', reason, 'error', error, 'evidence', evidence,
             'finished_at', finished_at, 'tries', tries)
         WHERE number = ?1",
    )?
    .execute([task])?;
    Ok(())
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
