//! One step of a claimed turn.

use harvest_core::{Attempt, EventBody, Move, TaskStatus, Timestamp, Usage};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Effects, admit, end, journal, prompt};
use crate::Error;
use crate::contract::{AttemptUpdate, End, Lease, Rows, Step};
use crate::sqlite::ledger;

pub(crate) fn append(db: &Connection, effects: &mut Effects, lease: &Lease, step: &Step) -> Result<u64, Error> {
    check_fence(db, lease)?;
    for body in &step.events {
        if let EventBody::Usage { usage, cost_usd, .. } = body {
            add_usage(db, lease.rows.task, usage, cost_usd.nanos())?;
        }
    }
    for settlement in &step.settled {
        ledger::settle(db, settlement)?;
    }
    if let Some(update) = &step.attempt {
        update_attempt(db, update, step.at)?;
    }
    match (&step.end, step.to) {
        (Some(End::Finished(outcome)), by) => {
            end::finish(db, effects, lease.rows, by, outcome, step.at)?;
            let goes_on = outcome.status != TaskStatus::Cancelled && prompt::go_on(db, effects, lease.rows.task)?;
            if !goes_on {
                end::followers(db, effects, outcome, step.at)?;
            }
        }
        (_, Some(by)) => journal::move_task(db, lease.rows.task, by)?,
        (_, None) => {}
    }
    if let Some(End::Retry { due }) = step.end {
        wait(db, effects, lease.rows, due)?;
    }
    journal::write(db, effects, lease.rows.session, &lease.session, step.at, &step.events)
}

pub(crate) fn check_fence(db: &Connection, lease: &Lease) -> Result<(), Error> {
    let fence: Option<u64> = db
        .prepare_cached("SELECT fence FROM turns WHERE number = ?1 AND status = 'claimed'")?
        .query_row([lease.rows.turn], |row| row.get(0))
        .optional()?;
    if fence == Some(lease.fence) {
        return Ok(());
    }
    Err(Error::StaleLease { turn: lease.turn.to_string(), held: lease.fence })
}

/// The turn failed and is tried again at `due`.
fn wait(db: &Connection, effects: &mut Effects, rows: Rows, due: Timestamp) -> Result<(), Error> {
    journal::move_task(db, rows.task, Move::Fail)?;
    journal::move_task(db, rows.task, Move::Retry)?;
    db.prepare_cached("UPDATE tasks SET retries_left = max(retries_left - 1, 0) WHERE number = ?1")?
        .execute([rows.task])?;
    set_waiting(db, rows, due)?;
    admit::give_back(db, effects, rows.turn)?;
    effects.queue = true;
    Ok(())
}

pub(crate) fn set_waiting(db: &Connection, rows: Rows, due: Timestamp) -> Result<(), Error> {
    db.prepare_cached(
        "UPDATE turns SET status = 'waiting', owner = NULL, lease_until_ms = NULL, due_ms = ?2 WHERE number = ?1",
    )?
    .execute(params![rows.turn, due.as_millisecond()])?;
    Ok(())
}

fn add_usage(db: &Connection, task: i64, usage: &Usage, cost_nanos: u64) -> Result<(), Error> {
    db.prepare_cached(
        "UPDATE tasks SET input_tokens = input_tokens + ?2, output_tokens = output_tokens + ?3,
             cache_read_tokens = cache_read_tokens + ?4, cache_write_tokens = cache_write_tokens + ?5,
             reasoning_tokens = reasoning_tokens + ?6, cost_nanos = cost_nanos + ?7
         WHERE number = ?1",
    )?
    .execute(params![
        task,
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
        cost_nanos,
    ])?;
    Ok(())
}

fn update_attempt(db: &Connection, update: &AttemptUpdate, at: Timestamp) -> Result<(), Error> {
    match update {
        AttemptUpdate::Started(Attempt { id, turn_id, agent, command, started_at, .. }) => {
            let command = serde_json::to_string(command).map_err(|error| Error::corrupt("a command", error))?;
            db.prepare_cached(
                "INSERT INTO attempts (id, turn_id, agent, command, started_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![id.as_str(), turn_id.as_str(), agent, command, started_at.to_string()])?;
        }
        AttemptUpdate::Journaled { attempt, offset } => {
            db.prepare_cached("UPDATE attempts SET journaled = ?2 WHERE id = ?1")?
                .execute(params![attempt.as_str(), offset])?;
        }
        AttemptUpdate::Finished { attempt, exit_code, stderr_tail } => {
            db.prepare_cached("UPDATE attempts SET exit_code = ?2, stderr_tail = ?3, finished_at = ?4 WHERE id = ?1")?
                .execute(params![attempt.as_str(), exit_code, stderr_tail, at.to_string()])?;
        }
    }
    Ok(())
}
