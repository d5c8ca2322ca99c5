//! The journal and the state of a task, which move together.

use harvest_core::{EventBody, Move, SessionId, TaskStatus, Timestamp};
use rusqlite::{Connection, params};

use super::Effects;
use crate::Error;

/// Appends events with the next numbers to the journal of the session in row `number`.
pub(crate) fn write(
    db: &Connection,
    effects: &mut Effects,
    number: i64,
    session: &SessionId,
    at: Timestamp,
    events: &[EventBody],
) -> Result<u64, Error> {
    let before: u64 =
        db.prepare_cached("SELECT last_seq FROM sessions WHERE number = ?1")?.query_row([number], |row| row.get(0))?;
    let last = before + events.len() as u64;
    db.prepare_cached("UPDATE sessions SET last_seq = ?2 WHERE number = ?1")?.execute(params![number, last])?;
    let mut insert = db.prepare_cached("INSERT INTO events (session, seq, at, body) VALUES (?1, ?2, ?3, ?4)")?;
    let at = at.to_string();
    for (seq, body) in (before + 1..).zip(events) {
        let body = serde_json::to_string(body).map_err(|error| Error::corrupt("an event", error))?;
        insert.execute(params![number, seq, at, body])?;
    }
    effects.grown.push((session.clone(), last));
    Ok(last)
}

/// The status that the task in row `task` has after a move, if it may make it.
pub(crate) fn after(db: &Connection, task: i64, by: Move) -> Result<TaskStatus, Error> {
    let status: String =
        db.prepare_cached("SELECT status FROM tasks WHERE number = ?1")?.query_row([task], |row| row.get(0))?;
    let status = TaskStatus::parse(&status).ok_or_else(|| Error::corrupt("tasks.status", status))?;
    Ok(status.after(by)?)
}

pub(crate) fn move_task(db: &Connection, task: i64, by: Move) -> Result<(), Error> {
    let next = after(db, task, by)?;
    db.prepare_cached("UPDATE tasks SET status = ?2 WHERE number = ?1")?.execute(params![task, next.as_str()])?;
    Ok(())
}
