//! The journal and the state of a task, which move together.

use harvest_core::{EventBody, Move, SessionId, TaskId, TaskStatus, Timestamp};
use rusqlite::{Connection, params};

use super::Effects;
use crate::Error;

/// Appends events with the next numbers.
pub(crate) fn write(
    db: &Connection,
    effects: &mut Effects,
    session: &SessionId,
    at: Timestamp,
    events: &[EventBody],
) -> Result<u64, Error> {
    let (number, last): (i64, u64) = db
        .prepare_cached("UPDATE sessions SET last_seq = last_seq + ?2 WHERE id = ?1 RETURNING number, last_seq")?
        .query_row(params![session.as_str(), events.len() as u64], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut insert = db.prepare_cached("INSERT INTO events (session, seq, at, body) VALUES (?1, ?2, ?3, ?4)")?;
    let at = at.to_string();
    let first = last - events.len() as u64 + 1;
    for (seq, body) in (first..).zip(events) {
        let body = serde_json::to_string(body).map_err(|error| Error::corrupt("an event", error))?;
        insert.execute(params![number, seq, at, body])?;
    }
    effects.grown.push((session.clone(), last));
    Ok(last)
}

pub(crate) fn move_task(db: &Connection, task: &TaskId, by: Move) -> Result<TaskStatus, Error> {
    let status: String =
        db.prepare_cached("SELECT status FROM tasks WHERE id = ?1")?.query_row([task.as_str()], |row| row.get(0))?;
    let status = TaskStatus::parse(&status).ok_or_else(|| Error::corrupt("tasks.status", status))?;
    let next = status.after(by)?;
    db.prepare_cached("UPDATE tasks SET status = ?2 WHERE id = ?1")?.execute([task.as_str(), next.as_str()])?;
    Ok(next)
}
